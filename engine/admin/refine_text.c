#include "engine/admin/refine_text.h"
#include "cache/checksum.h"
#include "cache/clock.h"
#include "cache/io.h"
#include "cache/store_files.h"
#include "cache/utf8.h"
#include "engine/admin/refine_turn.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	WINDOW_BYTES = 2048,  /* of a given text, some 500 tokens */
	WRITTEN_TOKENS = 256, /* of an answer that the model writes */
	ROUND = 16,	      /* windows that are written side by side */
	VERSION = 1
};
static const char magic[8] = "moefs\nRT", file_name[] = "text", partial[] = "text.new";

/* ---- windows ---- */

static int text_append(struct refine_text *t, const char *bytes, size_t n, struct err *e)
{
	char *more = realloc(t->bytes, t->size + n + 1);
	if (more)
		t->bytes = more;
	if (more && t->count == t->room) {
		size_t room = t->room ? 2 * t->room : 64;
		size_t *ends = realloc(t->ends, room * sizeof *ends);
		more = ends ? more : NULL;
		if (ends) {
			t->ends = ends;
			t->room = room;
		}
	}
	if (!more)
		return err_set(e, ENOMEM, "out of memory for a text");
	memcpy(t->bytes + t->size, bytes, n);
	t->size += n;
	t->ends[t->count++] = t->size;
	return 0;
}

void refine_text_free(struct refine_text *t)
{
	free(t->bytes);
	free(t->ends);
	*t = (struct refine_text){0};
}

const char *refine_text_window(const struct refine_text *t, size_t i, size_t *length)
{
	size_t begin = i ? t->ends[i - 1] : 0;
	*length = t->ends[i] - begin;
	return t->bytes + begin;
}

uint64_t refine_text_sum(const struct refine_text *t)
{
	return checksum_of(t->bytes, t->size) ^
	       checksum_of(t->ends, t->count * sizeof *t->ends);
}

/* ---- a given text ---- */

/* How much of the text the next window has: to the end of a word, and of a character. */
static size_t text_window_bytes(const char *text, size_t left)
{
	if (left <= WINDOW_BYTES)
		return left;
	size_t n = WINDOW_BYTES;
	while (n > WINDOW_BYTES / 2 && text[n] != ' ' && text[n] != '\n')
		n--;
	if (n > WINDOW_BYTES / 2)
		return n;
	return utf8_begin(text, WINDOW_BYTES);
}

static int text_count(struct refine_text *t, const struct model *m, const char *window, size_t n,
		      struct err *e)
{
	struct token_list ids = {0};
	int failed = tokenizer_encode_alone(m->loaded.tokenizer, window, n, &m->run->refining.stop,
					    &ids, e);
	t->tokens += ids.count;
	token_list_free(&ids);
	return failed;
}

/* As far as the tokens that are asked for. */
static int text_cut(struct refine_text *t, const struct model *m,
		    const struct model_refining *asked, struct err *e)
{
	int failed = 0;
	for (size_t at = 0, n; at < asked->length && t->tokens < asked->tokens && !failed;
	     at += n) {
		n = text_window_bytes(asked->text + at, asked->length - at);
		failed = text_append(t, asked->text + at, n, e);
		if (!failed)
			failed = text_count(t, m, asked->text + at, n, e);
	}
	return failed;
}

/* ---- what is kept of a text of the model's own ---- */

struct text_head {
	char magic[8];
	uint32_t version, windows;
	uint64_t key[2], size, tokens;
};

static int text_keep(const struct refine_text *t, const uint64_t key[2], const char *folder,
		     struct err *e)
{
	const struct text_head head = {.version = VERSION,
				       .windows = (uint32_t)t->count,
				       .key = {key[0], key[1]},
				       .size = t->size,
				       .tokens = t->tokens};
	size_t ends = t->count * sizeof *t->ends, n = sizeof head + ends + t->size;
	uint8_t *file = malloc(n + sizeof(uint64_t));
	if (!file)
		return err_set(e, ENOMEM, "out of memory for a text");
	memcpy(file, &head, sizeof head);
	memcpy(file, magic, sizeof magic);
	memcpy(file + sizeof head, t->ends, ends);
	memcpy(file + sizeof head + ends, t->bytes, t->size);
	uint64_t sum = checksum_of(file, n);
	memcpy(file + n, &sum, sizeof sum);
	int failed =
		store_small_file_write(file, n + sizeof sum, folder, file_name, partial, e);
	free(file);
	return failed;
}

/* Whether a file is whole, of this version and of this model. */
static bool text_is_good(const uint8_t *file, size_t bytes, const uint64_t key[2])
{
	struct text_head head;
	uint64_t sum;
	if (bytes < sizeof head + sizeof sum)
		return false;
	memcpy(&head, file, sizeof head);
	memcpy(&sum, file + bytes - sizeof sum, sizeof sum);
	return !memcmp(head.magic, magic, sizeof magic) && head.version == VERSION &&
	       !memcmp(head.key, key, sizeof head.key) && head.windows <= bytes / sizeof(size_t) &&
	       head.size <= bytes &&
	       bytes == sizeof head + head.windows * sizeof(size_t) + head.size + sizeof sum &&
	       sum == checksum_of(file, bytes - sizeof sum);
}

/* What an earlier refining wrote; nothing, if it is not there, damaged or of another model: it is
 * written again. */
static int text_resume(struct refine_text *t, const uint64_t key[2], const char *folder,
		       struct err *e)
{
	enum { MOST = 64 << 20 };
	struct err ignored;
	struct text_head head;
	uint8_t *file;
	size_t bytes;
	if (store_small_file_read(&file, &bytes, MOST, folder, file_name, &ignored))
		return 0;
	bool good = text_is_good(file, bytes, key);
	int failed = 0;
	if (good) {
		memcpy(&head, file, sizeof head);
		const uint8_t *ends = file + sizeof head,
			      *at = ends + head.windows * sizeof(size_t);
		size_t begin = 0;
		for (uint32_t i = 0; i < head.windows && !failed; i++) {
			size_t end;
			memcpy(&end, ends + i * sizeof end, sizeof end);
			good = end >= begin && end <= head.size;
			failed = good ? text_append(t, (const char *)at + begin, end - begin, e)
				      : 0;
			begin = good ? end : begin;
		}
		t->tokens = head.tokens;
	}
	free(file);
	return failed;
}

void refine_text_forget(const char *folder)
{
	struct err ignored;
	int dir = store_folder_open(folder, &ignored);
	if (dir < 0)
		return;
	(void)io_remove(dir, file_name);
	io_close(dir);
}

/* ---- what the model writes ---- */

/* A token that begins a text of the model's own: another for each window, and always the same. */
static void text_first_word(const struct model *m, uint64_t window, char *word, size_t size)
{
	const struct tokenizer *t = m->loaded.tokenizer;
	uint32_t all = m->id.config.vocabulary;
	for (uint64_t i = 0; i < all; i++) {
		size_t n;
		uint32_t id = (uint32_t)((window * 2654435761U + 12345 + i * 40503) % all);
		const char *bytes = tokenizer_bytes(t, id, false, &n);
		/* Neither is part of a prompt: one ends it in C, the other is taken off. */
		bool plain = n && !memchr(bytes, '\n', n) && !memchr(bytes, 0, n);
		if (plain && n < size && utf8_valid_length(bytes, n) == n) {
			(void)snprintf(word, size, "%.*s", (int)n, bytes);
			return;
		}
	}
	(void)snprintf(word, size, "The");
}

/* What a conversation begins with: a question around a word. */
static const struct {
	const char *before, *after;
} questions[] = {
	{"What is", "?"},
	{"Tell me about", "."},
	{"Write a short story about", "."},
	{"How would you explain", "to a child?"},
	{"Give me five facts about", "."},
	{"Write a small Python program that has to do with", "."},
	{"Why is", "important?"},
	{"Summarise in one sentence what is known about", "."},
	{"Write an e-mail to a colleague about", "."},
	{"Compare", "with something similar."},
};
enum { QUESTIONS = sizeof questions / sizeof *questions };

int refine_text_begin(struct model *m, struct session *s, uint64_t window, struct err *e)
{
	char word[64], prompt[192], number[24];
	bool talks = window % 2 && m->loaded.chat;
	uint64_t q = window / 2 % QUESTIONS;
	text_first_word(m, window, word, sizeof word);
	(void)snprintf(number, sizeof number, "%" PRIu64, window + 1);
	if (talks)
		(void)snprintf(prompt, sizeof prompt, "%s %s%s%s", questions[q].before, word,
			       *questions[q].after == '?' || *questions[q].after == '.' ? "" : " ",
			       questions[q].after);
	int failed = session_reset(s, e);
	if (!failed)
		failed = refine_set_param(s, "chat", talks ? "on" : "off", e);
	if (!failed)
		failed = refine_set_param(s, "seed", number, e);
	const char *text = talks ? prompt : word;
	return failed ? failed : session_submit(s, text, strlen(text), NULL, e);
}

/* The parts of bytes[*n] that are characters: a text may end within one, and a model that knows
 * little writes others. */
static void text_keep_characters(char *bytes, size_t *n)
{
	size_t kept = 0;
	for (size_t at = 0; at < *n;) {
		size_t valid = utf8_valid_length(bytes + at, *n - at);
		memmove(bytes + kept, bytes + at, valid);
		kept += valid;
		at += valid + 1;
	}
	*n = kept;
}

/* Appends all that a session's context has. Nothing: it was given up for another session. */
static int text_take(struct refine_text *t, const struct model *m, struct session *s,
		     uint32_t *tokens, struct err *e)
{
	struct text_out out = {0};
	pthread_mutex_lock(&m->run->lock);
	*tokens = (uint32_t)s->context.tokens.count;
	tokenizer_spell(m->loaded.tokenizer, s->context.tokens.ids, s->context.tokens.count, &out);
	pthread_mutex_unlock(&m->run->lock);
	int failed = out.failed ? err_set(e, ENOMEM, "out of memory for a text") : 0;
	if (!failed && *tokens) {
		text_keep_characters(out.bytes, &out.n);
		failed = text_append(t, out.bytes, out.n, e);
	}
	text_out_free(&out);
	return failed;
}

static int text_take_window(struct refine_text *t, struct model *m, struct session *s,
			    uint64_t window, struct err *e)
{
	uint32_t tokens;
	int failed = text_take(t, m, s, &tokens, e);
	if (!failed && !tokens) { /* once more, alone */
		failed = refine_text_begin(m, s, window, e);
		if (!failed)
			failed = refine_finish_turn(m, s, false, e);
		if (!failed)
			failed = text_take(t, m, s, &tokens, e);
	}
	if (failed)
		return failed;
	t->tokens += tokens;
	return tokens ? 0 : text_append(t, "", 0, e);
}

static int text_set_params(struct session *s, struct err *e)
{
	static const char *const params[][2] = {{"temperature", "1"},	 {"top_k", "0"},
						{"top_p", "1"},		 {"min_p", "0"},
						{"draft", "off"},	 {"stop_repetition", "off"},
						{"max_tokens", "256"}};
	int failed = 0;
	_Static_assert(WRITTEN_TOKENS == 256, "as max_tokens has it");
	for (size_t i = 0; i < sizeof params / sizeof *params && !failed; i++)
		failed = refine_set_param(s, params[i][0], params[i][1], e);
	return failed;
}

/* Windows [t->count, t->count + n), side by side. */
static int text_write_round(struct refine_text *t, struct model *m, struct session **sessions,
			    size_t n, struct err *e)
{
	size_t first = t->count;
	int failed = 0;
	for (size_t i = 0; i < n && !failed; i++)
		failed = refine_text_begin(m, sessions[i], first + i, e);
	for (size_t i = 0; i < n; i++) {
		struct err why;
		int ended = refine_finish_turn(m, sessions[i], failed, &why);
		if (ended && !failed) {
			failed = ended;
			*e = why;
		}
	}
	for (size_t i = 0; i < n && !failed; i++)
		failed = text_take_window(t, m, sessions[i], first + i, e);
	return failed;
}

static int text_write(struct refine_text *t, struct model *m, const struct model_refining *asked,
		      const uint64_t key[2], const char *folder, struct err *e)
{
	struct session *sessions[ROUND] = {0};
	struct convert_progress *p = &m->run->refining.progress;
	int failed = text_resume(t, key, folder, e);
	atomic_store(&p->done, t->tokens);
	for (size_t i = 0; i < ROUND && !failed; i++) {
		failed = session_create(&sessions[i], m, NULL, NULL, e);
		if (failed)
			break;
		sessions[i]->background = asked->idle;
		failed = text_set_params(sessions[i], e);
	}
	while (!failed && t->tokens < asked->tokens) {
		uint64_t left = (asked->tokens - t->tokens + WRITTEN_TOKENS - 1) / WRITTEN_TOKENS;
		uint64_t most = asked->idle ? 1 : ROUND; /* what gives way to a turn is lost */
		failed = text_write_round(t, m, sessions, left < most ? left : most, e);
		atomic_store(&p->done, t->tokens);
		if (!failed)
			failed = text_keep(t, key, folder, e);
	}
	for (size_t i = 0; i < ROUND; i++)
		if (sessions[i])
			session_end(sessions[i]);
	return failed == -EAGAIN ? -(e->code = ECANCELED) : failed;
}

int refine_text_make(struct refine_text *t, struct model *m, const struct model_refining *asked,
		     const uint64_t key[2], const char *folder, struct err *e)
{
	struct refining *r = &m->run->refining;
	if (asked->text)
		return text_cut(t, m, asked, e);
	atomic_store(&r->progress.started_ns, clock_ns());
	atomic_store(&r->progress.done, 0);
	atomic_store(&r->phase, REFINING_WRITES);
	atomic_store(&r->progress.total, asked->tokens);
	int failed = text_write(t, m, asked, key, folder, e);
	atomic_store(&r->progress.total, 0);
	atomic_store(&r->phase, REFINING_ROUNDS);
	return failed;
}

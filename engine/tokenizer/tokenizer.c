/* The interface of tokenizers, and the path of a text through their parts:
 *
 *     added_tokens.c  cuts out tokens that are spelled literally
 *     normalize.c     NFC, spaces
 *     pretokenize.c   splits into words by the file's patterns (PCRE2)
 *     bpe.c           merges the bytes or characters of a word by rank or score
 *     vocabulary.c    id <-> bytes
 *
 * tokenizer_json.c, tokenizer_gpt2.c, tokenizer_tiktoken.c and tokenizer_gguf.c make a tokenizer, with
 * tokenizer_build.c. */
#include "engine/tokenizer/tokenizer.h"

#include "engine/tokenizer/normalize.h"
#include "engine/tokenizer/pretokenize.h"
#include "engine/tokenizer/token.h"
#include "engine/tokenizer/tokenizer_build.h"
#include "cache/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1 << 30 }; /* of one text to encode; positions fit 32 bits */

/* --- opening --- */

int tokenizer_open_text(struct tokenizer **out, const char *text, size_t n, const char *name,
			struct err *e)
{
	struct tokenizer *t = tokenizer_new();
	int rc = t ? tokenizer_json_read(t, text, n, name, e) : -ENOMEM;
	return tokenizer_finish(out, t, rc, name, e);
}

int tokenizer_open(struct tokenizer **out, const char *directory, struct err *e)
{
	char *path, *text = NULL;
	size_t n = 0;
	struct err own = {0}; /* GPT-2's files may open without an error */
	if (asprintf(&path, "%s/tokenizer.json", directory) < 0)
		return err_set(e, ENOMEM, "%s: out of memory for a path", directory);
	struct tokenizer *t = tokenizer_new();
	int rc = t ? json_read_file(&text, &n, path, TOKENIZER_FILE_MAX, &own) : -ENOMEM;
	if (t && rc == -ENOENT && tiktoken_is(directory))
		rc = tiktoken_read(t, directory, e);
	else if (t && rc == -ENOENT)
		rc = gpt2_read(t, directory, e);
	else if (t && rc < 0)
		rc = err_set(e, own.code, "%s", own.text);
	else if (rc == 0) {
		rc = tokenizer_json_read(t, text, n, path, e);
		if (rc == 0)
			rc = tokenizer_config_read(t, directory, e);
	}
	free(text);
	free(path);
	return tokenizer_finish(out, t, rc, directory, e);
}

/* --- tokens --- */

uint32_t tokenizer_size(const struct tokenizer *t)
{
	return t->vocabulary.size;
}

int64_t tokenizer_find(const struct tokenizer *t, const char *text)
{
	return tokenizer_find_text(t, text, strlen(text));
}

bool tokenizer_has(const struct tokenizer *t, uint32_t id)
{
	return id < t->vocabulary.size && t->vocabulary.tokens[id].known;
}

const char *tokenizer_bytes(const struct tokenizer *t, uint32_t id, bool special, size_t *length)
{
	*length = 0;
	if (id >= t->vocabulary.size)
		return "";
	const struct token *token = &t->vocabulary.tokens[id];
	if (!token->known || (token->special && !special))
		return "";
	*length = token->length;
	return t->vocabulary.bytes + token->offset;
}

void tokenizer_spell(const struct tokenizer *t, const uint32_t *ids, size_t count,
		     struct text_out *out)
{
	for (size_t i = 0; i < count; i++) {
		size_t n;
		const char *bytes = tokenizer_bytes(t, ids[i], true, &n);
		text_out_add(out, bytes, n);
	}
}

int64_t tokenizer_bos(const struct tokenizer *t)
{
	return t->bos;
}

int64_t tokenizer_eos(const struct tokenizer *t)
{
	return t->eos;
}

bool tokenizer_ends(const struct tokenizer *t, uint32_t id, bool turn)
{
	unsigned what = turn ? ENDS_TEXT | ENDS_TURN : ENDS_TEXT;
	return id < t->vocabulary.size && (t->vocabulary.tokens[id].ends & what);
}

bool tokenizer_leads_with_space(const struct tokenizer *t)
{
	return t->strip_space;
}

/* --- encoding --- */

/* The state of one call; other threads may use the same tokenizer. */
struct tokenizer_encoder {
	const struct tokenizer *t;
	struct pretokenize_work *split;
	struct bpe_work *bpe;
	struct token_list *ids;
	const _Atomic bool *stop;
	const char *text;      /* the whole text */
	const char *first;     /* its beginning once normalised; NULL: not in this part */
	const uint8_t *rights; /* of the whole text; NULL: MAY_ALL */
};

static int tokenizer_encode_word(void *context, const char *word, size_t n, struct err *e)
{
	struct tokenizer_encoder *c = context;
	int64_t whole = c->t->ignore_merges ? vocabulary_find(&c->t->vocabulary, word, n) : -1;
	if (whole < 0)
		return bpe_encode(&c->t->vocabulary, &c->t->merges, c->bpe, word, n, c->ids, e);
	uint32_t id = (uint32_t)whole;
	return token_list_append(c->ids, &id, 1, e);
}

/* Encodes a text of pieces. The text is cut where a space begins a word and where nothing merges
 * across: short words merge faster. */
static int tokenizer_encode_pieces(void *context, const char *text, size_t n, struct err *e)
{
	struct tokenizer_encoder *c = context;
	const struct vocabulary *v = &c->t->vocabulary;
	size_t from = 0, step;
	uint32_t left = utf8_decode(text, &step);
	int rc = 0;
	for (size_t i = step; rc == 0 && i < n; i += step) {
		uint32_t right = utf8_decode(text + i, &step);
		if ((c->t->split_spaces && right == ' ') ||
		    (!c->t->ignore_merges && !vocabulary_joins(v, left, right))) {
			rc = tokenizer_encode_word(c, text + from, i - from, e);
			from = i;
		}
		left = right;
	}
	return rc < 0 ? rc : tokenizer_encode_word(c, text + from, n - from, e);
}

static int tokenizer_split_text(struct tokenizer_encoder *c, const char *text, size_t n,
				struct err *e)
{
	bool pieces = c->t->vocabulary.spelling == SPELLED_PIECES;
	return pretokenize_words(&c->t->splitter, c->split, text, n,
				 pieces ? tokenizer_encode_pieces : tokenizer_encode_word, c, e);
}

/* Encodes normalised text without added tokens. */
static int tokenizer_encode_words(struct tokenizer_encoder *c, const char *text, size_t n,
				  struct err *e)
{
	bool lead = c->t->lead == LEAD_ALWAYS || (c->t->lead == LEAD_FIRST && text == c->first);
	if (!lead || text[0] == ' ')
		return tokenizer_split_text(c, text, n, e);
	char *led = malloc(n + 1);
	if (!led)
		return err_set(e, ENOMEM, "out of memory for tokenizing %zu bytes", n);
	led[0] = ' ';
	memcpy(led + 1, text, n);
	int rc = tokenizer_split_text(c, led, n + 1, e);
	free(led);
	return rc;
}

/* Cuts out added tokens; the text between them goes to `rest`. */
static int tokenizer_encode_around(struct tokenizer_encoder *c, const struct added_tokens *added,
				   const char *text, size_t n, const uint8_t *rights,
				   int (*rest)(struct tokenizer_encoder *c, const char *text,
					       size_t n, struct err *e),
				   struct err *e)
{
	struct added_scan scan = {.stop = c->stop, .rights = rights};
	struct added_hit hit;
	while (added_tokens_next(added, text, n, &scan, &hit)) {
		if (token_stop_asked(c->stop))
			return token_stop_error(e);
		int rc = hit.gap_length > 0 ? rest(c, text + hit.gap, hit.gap_length, e) : 0;
		if (rc == 0 && hit.id >= 0) {
			uint32_t id = (uint32_t)hit.id;
			rc = token_list_append(c->ids, &id, 1, e);
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Encodes text without literal added tokens, not yet normalised. */
static int tokenizer_encode_raw(struct tokenizer_encoder *c, const char *text, size_t n,
				struct err *e)
{
	struct normal_text normal;
	bool begins = text == c->text;
	const uint8_t *rights = c->rights ? c->rights + (text - c->text) : NULL;
	int rc = normalize_with_rights(&c->t->normalizer, text, rights, n, c->stop, &normal, e);
	if (rc < 0)
		return rc;
	c->first = begins ? normal.text : NULL;
	rc = tokenizer_encode_around(c, &c->t->normalized, normal.text, normal.n, normal.rights,
				     tokenizer_encode_words, e);
	normalize_free(&normal);
	return rc;
}

int tokenizer_encode_rights(const struct tokenizer *t, const char *text, const uint8_t *rights,
			    size_t length, const _Atomic bool *stop, struct token_list *ids,
			    struct err *e)
{
	if (length > TEXT_BYTES_MAX)
		return err_set(e, EFBIG, "the text has %zu bytes; the tokenizer takes at most %d",
			       length, TEXT_BYTES_MAX);
	int rc = utf8_check(text, length, e);
	if (rc < 0)
		return rc;
	size_t count = ids->count;
	struct tokenizer_encoder c = {t,
				      pretokenize_work_new(length, stop),
				      bpe_work_new(stop),
				      ids,
				      stop,
				      text,
				      NULL,
				      rights};
	if (c.split && c.bpe)
		rc = tokenizer_encode_around(&c, &t->literal, text, length, rights,
					     tokenizer_encode_raw, e);
	else
		rc = err_set(e, ENOMEM, "out of memory for tokenizing %zu bytes", length);
	pretokenize_work_free(c.split);
	bpe_work_free(c.bpe);
	if (rc == 0 && token_stop_asked(stop)) /* a part may have stopped early */
		rc = token_stop_error(e);
	if (rc < 0)
		ids->count = count; /* all of the text or none of it */
	return rc;
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t length,
		     const _Atomic bool *stop, struct token_list *ids, struct err *e)
{
	return tokenizer_encode_rights(t, text, NULL, length, stop, ids, e);
}

int tokenizer_begin(const struct tokenizer *t, struct token_list *ids, struct err *e)
{
	uint32_t bos = (uint32_t)t->bos;
	return t->add_bos ? token_list_append(ids, &bos, 1, e) : 0;
}

int tokenizer_end(const struct tokenizer *t, struct token_list *ids, struct err *e)
{
	uint32_t end = (uint32_t)t->end;
	return t->end >= 0 ? token_list_append(ids, &end, 1, e) : 0;
}

int tokenizer_encode_alone(const struct tokenizer *t, const char *text, size_t length,
			   const _Atomic bool *stop, struct token_list *ids, struct err *e)
{
	size_t count = ids->count;
	int rc = tokenizer_encode(t, text, length, stop, ids, e);
	bool begins = rc == 0 && ids->count > count && ids->ids[count] == t->bos;
	size_t written = ids->count - count;
	if (rc == 0 && !begins)
		rc = tokenizer_begin(t, ids, e);
	if (rc == 0 && ids->count - count > written) { /* moves the last id to the front */
		memmove(ids->ids + count + 1, ids->ids + count, written * sizeof *ids->ids);
		ids->ids[count] = (uint32_t)t->bos;
	}
	return rc;
}

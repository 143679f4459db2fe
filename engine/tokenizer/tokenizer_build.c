/* Builds a tokenizer from what the readers of the file formats find: vocabulary, merges and
 * added tokens, with the checks that all formats need. */
#include "engine/tokenizer/tokenizer_build.h"

#include "engine/tokenizer/normalize.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MERGE_BYTES_MAX = 4096,	      /* of the spelling of a merge's product */
	ADDED_TOKEN_BYTES_MAX = 1024, /* of one added token's text */
};

struct tokenizer *tokenizer_new(void)
{
	struct tokenizer *t = calloc(1, sizeof *t);
	if (t)
		t->bos = t->eos = t->end = -1;
	return t;
}

void tokenizer_close(struct tokenizer *t)
{
	if (!t)
		return;
	vocabulary_free(&t->vocabulary);
	bpe_merges_free(&t->merges);
	pretokenize_free(&t->splitter);
	added_tokens_free(&t->literal);
	added_tokens_free(&t->normalized);
	free(t);
}

/* Finds an added token by its text; normalised tokens are stored normalised. */
static int64_t tokenizer_find_added(const struct tokenizer *t, const char *text, size_t n)
{
	char *changed;
	struct err ignored;
	int64_t id = added_tokens_find(&t->literal, text, n);
	if (id >= 0 || normalize_text(&t->normalizer, text, n, NULL, &changed, &n, &ignored) < 0)
		return id;
	id = added_tokens_find(&t->normalized, changed ? changed : text, n);
	free(changed);
	return id;
}

int64_t tokenizer_find_text(const struct tokenizer *t, const char *text, size_t n)
{
	int64_t id = tokenizer_find_added(t, text, n);
	return id >= 0 ? id : vocabulary_find(&t->vocabulary, text, n);
}

/* Tokens by which models end a turn, whatever their files say. */
static const char *const TURN_ENDS[] = {
	"<|im_end|>", "<|eot_id|>", "<|eom_id|>",    "<end_of_turn>",	"<turn|>",
	"<|return|>", "<|call|>",   "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>",
	"[e~[",
};

/* A token that begins or ends a text is a control token, special or not. */
static void tokenizer_need_all_rights(const struct tokenizer *t, struct added_tokens *added)
{
	for (size_t i = 0; i < added->count; i++) {
		uint32_t id = added->items[i].id;
		if (t->vocabulary.tokens[id].ends || (int64_t)id == t->bos)
			added->items[i].wants = MAY_ALL;
	}
}

/* Names the file if memory ran out: the parts do not know it. */
int tokenizer_finish(struct tokenizer **out, struct tokenizer *t, int rc, const char *name,
		     struct err *e)
{
	if (rc < 0) {
		tokenizer_close(t);
		return rc == -ENOMEM
			       ? err_set(e, ENOMEM, "%s: out of memory for the tokenizer", name)
			       : rc;
	}
	struct token *tokens = t->vocabulary.tokens;
	if (t->eos >= 0)
		tokens[t->eos].ends = ENDS_TEXT | ENDS_TURN;
	for (size_t i = 0; i < sizeof TURN_ENDS / sizeof *TURN_ENDS; i++) {
		int64_t id = tokenizer_find_added(t, TURN_ENDS[i], strlen(TURN_ENDS[i]));
		if (id >= 0 && tokens[id].special)
			tokens[id].ends |= ENDS_TURN;
	}
	tokenizer_need_all_rights(t, &t->literal);
	tokenizer_need_all_rights(t, &t->normalized);
	*out = t;
	return 0;
}

int tokenizer_list_decoder(struct added_entries *list, const struct json *decoder,
			   const char *name, struct err *e)
{
	int rc = 0;
	for (const struct json *v = NULL; rc == 0 && (v = json_next(decoder, v));) {
		/* Eight digits hold every id there may be. */
		const char *key = json_key(v);
		size_t digits = strspn(key, "0123456789");
		unsigned long id = digits > 0 && digits <= 8 ? strtoul(key, NULL, 10) : ULONG_MAX;
		struct added_entry entry;
		if (key[digits] || id > TOKEN_ID_MAX)
			return err_set(e, EINVAL,
				       "%s: \"added_tokens_decoder\": \"%s\" is not a token id",
				       name, key);
		rc = tokenizer_read_entry(&entry, v, name, e);
		entry.id = (uint32_t)id;
		if (rc == 0)
			rc = tokenizer_append_entry(list, &entry, e);
	}
	return rc;
}

int tokenizer_add_vocabulary(struct tokenizer *t, const struct json *vocab,
			     const struct added_entries *added, const char *name, struct err *e)
{
	if (json_count(vocab) == 0)
		return err_set(e, EINVAL, "%s: the vocabulary is empty", name);
	uint64_t largest = 0;
	for (size_t i = 0; i < added->count; i++)
		if (added->items[i].id > largest)
			largest = added->items[i].id;
	int rc = 0;
	for (const struct json *v = NULL; rc == 0 && (v = json_next(vocab, v));) {
		uint64_t id = 0;
		rc = json_as_uint(v, json_key(v), name, 0, TOKEN_ID_MAX, &id, e);
		largest = id > largest ? id : largest;
	}
	if (rc == 0)
		rc = vocabulary_init(&t->vocabulary, (uint32_t)largest + 1, json_count(vocab), e);
	t->merges.seed = t->vocabulary.seed;
	for (const struct json *v = NULL; rc == 0 && (v = json_next(vocab, v));) {
		const char *spelling = json_key(v);
		uint64_t id = 0;
		rc = json_as_uint(v, spelling, name, 0, largest, &id, e);
		if (rc == 0)
			rc = vocabulary_add(&t->vocabulary, (uint32_t)id, spelling,
					    strlen(spelling), name, e);
	}
	return rc;
}

int tokenizer_add_merge(struct tokenizer *t, const char *left, size_t left_n, const char *right,
			size_t right_n, uint32_t rank, const char *name, struct err *e)
{
	const struct vocabulary *v = &t->vocabulary;
	char bytes[MERGE_BYTES_MAX];
	if (left_n == 0 || right_n == 0 || left_n > sizeof bytes / 2 || right_n > sizeof bytes / 2)
		return err_set(e, EINVAL,
			       "%s: merge %u: a part has %zu bytes; 1 to %zu are allowed", name,
			       rank, left_n && left_n <= sizeof bytes / 2 ? right_n : left_n,
			       sizeof bytes / 2);
	size_t left_bytes = 0, right_bytes = 0;
	int64_t left_id = vocabulary_find_spelling(v, left, left_n, bytes, &left_bytes);
	int64_t right_id = -1, product = -1;
	if (left_id >= 0)
		right_id = vocabulary_find_spelling(v, right, right_n, bytes + left_bytes,
						    &right_bytes);
	if (right_id >= 0)
		product = vocabulary_find(v, bytes, left_bytes + right_bytes);
	if (product < 0)
		return err_set(e, EINVAL, "%s: merge %u, \"%.*s\" with \"%.*s\": %s is not a token",
			       name, rank, (int)left_n, left, (int)right_n, right,
			       left_id < 0    ? "the first"
			       : right_id < 0 ? "the second"
					      : "the product");
	return bpe_merges_add(
		&t->merges,
		(struct bpe_merge){(uint32_t)left_id, (uint32_t)right_id, (uint32_t)product, rank},
		e);
}

int tokenizer_add_merge_line(struct tokenizer *t, const char *line, size_t n, uint32_t rank,
			     const char *name, struct err *e)
{
	const char *space = memchr(line, ' ', n);
	size_t left = space ? (size_t)(space - line) : n;
	if (!space || memchr(space + 1, ' ', n - left - 1))
		return err_set(e, EINVAL,
			       "%s: merge %u must be two tokens separated by a space, not \"%.*s\"",
			       name, rank, n < 80 ? (int)n : 80, line);
	return tokenizer_add_merge(t, line, left, space + 1, n - left - 1, rank, name, e);
}

/* By default only tokens that are not special are normalised. */
int tokenizer_read_entry(struct added_entry *a, const struct json *object, const char *name,
			 struct err *e)
{
	int rc = json_get_string(object, "content", name, &a->content, e);
	if (rc == 0)
		a->length = strlen(a->content);
	if (rc == 0)
		rc = json_get_bool_or(object, "special", name, false, &a->special, e);
	if (rc == 0)
		rc = json_get_bool_or(object, "single_word", name, false, &a->single_word, e);
	if (rc == 0)
		rc = json_get_bool_or(object, "lstrip", name, false, &a->lstrip, e);
	if (rc == 0)
		rc = json_get_bool_or(object, "rstrip", name, false, &a->rstrip, e);
	if (rc == 0)
		rc = json_get_bool_or(object, "normalized", name, !a->special, &a->normalized, e);
	return rc;
}

int tokenizer_append_entry(struct added_entries *l, const struct added_entry *a, struct err *e)
{
	if (l->count == l->capacity) {
		size_t capacity = 2 * l->capacity + 16;
		struct added_entry *items = reallocarray(l->items, capacity, sizeof *items);
		if (!items)
			return err_set(e, ENOMEM, "out of memory for %zu added tokens", capacity);
		l->items = items;
		l->capacity = capacity;
	}
	l->items[l->count++] = *a;
	return 0;
}

static int tokenizer_add_token(struct tokenizer *t, const struct added_entry *a, const char *name,
			       struct err *e)
{
	size_t n = a->length;
	if (n == 0 || n > ADDED_TOKEN_BYTES_MAX)
		return err_set(e, EINVAL, "%s: an added token has %zu bytes; 1 to %d are allowed",
			       name, n, ADDED_TOKEN_BYTES_MAX);
	struct added_token token = {.text = (char *)a->content,
				    .length = (uint32_t)n,
				    .id = a->id,
				    .single_word = a->single_word,
				    .lstrip = a->lstrip,
				    .rstrip = a->rstrip,
				    .normalized = a->normalized,
				    .wants =
					    (uint8_t)token_needed_right(a->content, n, a->special)};
	int rc = vocabulary_add_literal(&t->vocabulary, a->id, a->content, n, a->special, name, e);
	if (rc < 0 || !a->normalized)
		return rc < 0 ? rc : added_tokens_append(&t->literal, &token, e);
	char *changed; /* it is looked for by its normalised text */
	rc = normalize_text(&t->normalizer, a->content, n, NULL, &changed, &n, e);
	if (rc < 0)
		return rc;
	token.text = changed ? changed : token.text;
	token.length = (uint32_t)n;
	rc = added_tokens_append(&t->normalized, &token, e);
	free(changed);
	return rc;
}

int tokenizer_add_tokens(struct tokenizer *t, const struct added_entries *added, const char *name,
			 struct err *e)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < added->count; i++)
		rc = tokenizer_add_token(t, &added->items[i], name, e);
	if (rc == 0)
		rc = added_tokens_finish(&t->literal, name, e);
	return rc < 0 ? rc : added_tokens_finish(&t->normalized, name, e);
}

/* ---- tokenizer_config.json ---- */

/* Finds a token that is given as a string or as an object with "content". *id is unchanged if none
 * is given, and -1 if the vocabulary lacks the token, as in some published files. */
static int tokenizer_config_token(const struct tokenizer *t, const struct json *config,
				  const char *key, const char *name, int64_t *id, struct err *e)
{
	const struct json *value = json_find(config, key);
	const char *text;
	if (json_kind(value) == JSON_NULL)
		return 0;
	int rc = json_kind(value) == JSON_OBJECT ? json_get_string(value, "content", name, &text, e)
						 : json_as_string(value, key, name, &text, e);
	if (rc == 0)
		*id = tokenizer_find_text(t, text, strlen(text));
	return rc;
}

int tokenizer_config_take(struct tokenizer *t, const struct json *config, const char *name,
			  struct err *e)
{
	int64_t bos = -1;
	int rc = tokenizer_config_token(t, config, "bos_token", name, &bos, e);
	if (rc == 0)
		rc = tokenizer_config_token(t, config, "eos_token", name, &t->eos, e);
	if (rc == 0)
		rc = json_get_bool_or(config, "add_bos_token", name, t->add_bos, &t->add_bos, e);
	if (rc < 0)
		return rc;
	t->bos = bos >= 0 ? bos : t->bos;
	bool ends = false;
	if (json_get_bool_or(config, "add_eos_token", name, false, &ends, e))
		return -e->code;
	if (ends && t->end < 0)
		t->end = t->eos;
	if (t->add_bos && t->bos < 0)
		return err_set(e, EINVAL,
			       "%s: \"add_bos_token\" is true, but \"bos_token\" names no token",
			       name);
	return 0;
}

int tokenizer_config_read(struct tokenizer *t, const char *directory, struct err *e)
{
	static const char FILE_NAME[] = "tokenizer_config.json";
	struct json *config;
	char *name;
	int rc = json_parse_object_in(&config, directory, FILE_NAME, CONFIG_FILE_MAX, e);
	if (rc < 0 || !config)
		return rc;
	if (asprintf(&name, "%s/%s", directory, FILE_NAME) < 0)
		rc = err_set(e, ENOMEM, "%s: out of memory for a path", directory);
	else {
		rc = tokenizer_config_take(t, config, name, e);
		free(name);
	}
	json_free(config);
	return rc;
}

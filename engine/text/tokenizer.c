/* The public face of tokenizers, and the way of a text through their parts:
 *
 *     added_tokens.c  cuts out the tokens that are spelled literally
 *     normalize.c     NFC
 *     pretokenize.c   splits into words by the file's patterns (PCRE2; split_pattern.c)
 *     bpe.c           merges the bytes of a word by rank
 *     vocabulary.c    id <-> bytes
 *
 * tokenizer_json.c and tokenizer_gpt2.c make a tokenizer of files, both with tokenizer_build.c. */
#include "engine/text/tokenizer.h"

#include "engine/text/normalize.h"
#include "engine/text/pretokenize.h"
#include "engine/text/stop.h"
#include "engine/text/tokenizer_gpt2.h"
#include "engine/text/tokenizer_json.h"
#include "engine/text/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1 << 30 }; /* of one text to encode; positions fit 32 bits */

/* --- opening --- */

void tokenizer_close(struct tokenizer *t)
{
	if (!t)
		return;
	vocabulary_free(&t->vocabulary);
	merges_free(&t->merges);
	splitter_free(&t->splitter);
	added_tokens_free(&t->literal);
	added_tokens_free(&t->normalized);
	free(t);
}

/* What a reader's result means for the tokenizer that it was to fill. Where memory ran out it was
 * in one of many parts, which know no file. */
static int opened(struct tokenizer **out, struct tokenizer *t, int rc, const char *name,
		  struct err *e)
{
	if (rc < 0)
		tokenizer_close(t);
	else
		*out = t;
	if (rc == -ENOMEM)
		return err_set(e, ENOMEM, "%s: no memory for the tokenizer that it describes",
			       name);
	return rc;
}

int tokenizer_open_text(struct tokenizer **out, const char *text, size_t n, const char *name,
			struct err *e)
{
	struct tokenizer *t = calloc(1, sizeof *t);
	int rc = t ? tokenizer_read_json(t, text, n, name, e) : -ENOMEM;
	return opened(out, t, rc, name, e);
}

static int open_gpt2(struct tokenizer **out, const char *directory, struct err *e)
{
	struct tokenizer *t = calloc(1, sizeof *t);
	int rc = t ? tokenizer_read_gpt2(t, directory, e) : -ENOMEM;
	return opened(out, t, rc, directory, e);
}

int tokenizer_open(struct tokenizer **out, const char *directory, struct err *e)
{
	char *path;
	if (asprintf(&path, "%s/tokenizer.json", directory) < 0)
		return err_set(e, ENOMEM, "%s: no memory for a path", directory);
	char *text = NULL;
	size_t n = 0;
	struct err own = {0}; /* not to leave an error behind where the other layout opens */
	int rc = read_whole_file(&text, &n, path, TOKENIZER_FILE_MAX, &own);
	if (rc == 0)
		rc = tokenizer_open_text(out, text, n, path, e);
	else if (rc == -ENOENT)
		rc = open_gpt2(out, directory, e);
	else
		rc = err_set(e, own.code, "%s", own.text);
	free(text);
	free(path);
	return rc;
}

/* --- tokens --- */

uint32_t tokenizer_size(const struct tokenizer *t)
{
	return t->vocabulary.size;
}

int64_t tokenizer_find(const struct tokenizer *t, const char *text)
{
	size_t n = strlen(text);
	int64_t id = added_tokens_find(&t->literal, text, n);
	if (id < 0)
		id = added_tokens_find(&t->normalized, text, n);
	return id >= 0 ? id : vocabulary_find(&t->vocabulary, text, n);
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

/* --- encoding --- */

/* What one call needs beside the tokenizer, which other threads are using. */
struct encoder {
	const struct tokenizer *t;
	struct split_work *split;
	struct bpe_work *bpe;
	struct token_list *ids;
	const _Atomic bool *stop;
};

static int encode_word(void *context, const char *word, size_t n, struct err *e)
{
	struct encoder *c = context;
	int64_t whole = c->t->ignore_merges ? vocabulary_find(&c->t->vocabulary, word, n) : -1;
	if (whole < 0)
		return bpe_encode(&c->t->vocabulary, &c->t->merges, c->bpe, word, n, c->ids, e);
	uint32_t id = (uint32_t)whole;
	return token_list_append(c->ids, &id, 1, e);
}

/* Text without added tokens, normalised. */
static int encode_words(struct encoder *c, const char *text, size_t n, struct err *e)
{
	return splitter_run(&c->t->splitter, c->split, text, n, encode_word, c, e);
}

/* Cuts out added tokens; what lies between them goes to `rest`. */
static int encode_around(struct encoder *c, const struct added_tokens *added, const char *text,
			 size_t n,
			 int (*rest)(struct encoder *c, const char *text, size_t n, struct err *e),
			 struct err *e)
{
	struct added_scan scan = {.stop = c->stop};
	struct added_hit hit;
	while (added_tokens_next(added, text, n, &scan, &hit)) {
		if (stop_asked(c->stop))
			return stop_error(e);
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

static bool is_ascii(const char *text, size_t n)
{
	unsigned char all = 0;
	for (size_t i = 0; i < n; i++)
		all |= (unsigned char)text[i];
	return all < 0x80;
}

/* Text without literal added tokens, as it was written. */
static int encode_raw(struct encoder *c, const char *text, size_t n, struct err *e)
{
	char *composed = NULL;
	if (c->t->nfc && !is_ascii(text, n)) {
		int rc = normalize_nfc(text, n, c->stop, &composed, &n, e);
		if (rc < 0)
			return rc;
		text = composed;
	}
	int rc = encode_around(c, &c->t->normalized, text, n, encode_words, e);
	free(composed);
	return rc;
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t length,
		     const _Atomic bool *stop, struct token_list *ids, struct err *e)
{
	if (length > TEXT_BYTES_MAX)
		return err_set(e, EFBIG,
			       "a text of %zu bytes is more than the tokenizer takes (%d)", length,
			       TEXT_BYTES_MAX);
	int rc = utf8_check(text, length, e);
	if (rc < 0)
		return rc;
	size_t count = ids->count;
	struct encoder c = {t, split_work_new(length, stop), bpe_work_new(stop), ids, stop};
	if (c.split && c.bpe)
		rc = encode_around(&c, &t->literal, text, length, encode_raw, e);
	else
		rc = err_set(e, ENOMEM, "no memory to tokenize a text of %zu bytes", length);
	split_work_free(c.split);
	bpe_work_free(c.bpe);
	if (rc == 0 && stop_asked(stop)) /* some part may have ended early */
		rc = stop_error(e);
	if (rc < 0)
		ids->count = count; /* all of the text or none of it */
	return rc;
}

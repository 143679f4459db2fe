#include "tests/bench/text.h"

#include "engine/tokenizer/tokenizer.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static int read_bytes(const char *path, char **text, size_t *length, struct err *e)
{
	*text = NULL;
	FILE *f = fopen(path, "re");
	if (!f)
		return err_sys(e, errno, "%s", path);
	size_t room = 1 << 16, n;
	*length = 0;
	*text = malloc(room + 1);
	while (*text && (n = fread(*text + *length, 1, room - *length, f)) > 0) {
		*length += n;
		if (*length < room || room > TEXT_MOST)
			continue;
		char *larger = realloc(*text, (room *= 2) + 1);
		if (!larger)
			free(*text);
		*text = larger;
	}
	int failed = ferror(f) ? err_set(e, EIO, "%s: cannot be read", path) : 0;
	(void)fclose(f);
	if (!failed && !*text)
		failed = err_set(e, ENOMEM, "%s: out of memory", path);
	if (!failed && *length > TEXT_MOST)
		failed = err_set(e, EFBIG, "%s: more than %d bytes", path, TEXT_MOST);
	if (*text)
		(*text)[*length] = 0;
	return failed;
}

/* What is in a file of one frame. */
static int decompress(const char *path, char **text, size_t *length, struct err *e)
{
	unsigned long long size = ZSTD_getFrameContentSize(*text, *length);
	if (size > TEXT_MOST) /* or it is not known */
		return err_set(e, EINVAL, "%s: is no frame of zstd that says how long it is", path);
	char *plain = malloc(size + 1);
	if (!plain)
		return err_set(e, ENOMEM, "%s: out of memory", path);
	size_t n = ZSTD_decompress(plain, size, *text, *length);
	free(*text);
	*text = plain;
	*length = ZSTD_isError(n) ? 0 : n;
	plain[*length] = 0;
	return ZSTD_isError(n) ? err_set(e, EIO, "%s: %s", path, ZSTD_getErrorName(n)) : 0;
}

int text_read(const char *path, char **text, size_t *length, struct err *e)
{
	static const char zst[] = ".zst";
	size_t n = strlen(path), k = sizeof zst - 1;
	int failed = read_bytes(path, text, length, e);
	if (!failed && n > k && !strcmp(path + n - k, zst))
		failed = decompress(path, text, length, e);
	return failed;
}

int text_read_ids(struct token_list *ids, const struct model_view *m, const char *path,
		  uint64_t most, struct err *e)
{
	char *text;
	size_t length = 0, first = ids->count;
	int failed = text_read(path, &text, &length, e);
	if (!failed)
		failed = tokenizer_encode(m->tokenizer, text, length, NULL, ids, e);
	free(text);
	if (failed)
		return failed;
	if (most && ids->count - first > most)
		ids->count = first + most;
	for (size_t i = first; i < ids->count; i++)
		if (ids->ids[i] >= m->config->vocabulary)
			return err_set(e, EINVAL,
				       "%s: token %u is not in the model's vocabulary of %u", path,
				       ids->ids[i], m->config->vocabulary);
	return ids->count - first > 1 ? 0
				      : err_set(e, EINVAL, "%s: nothing to predict in %zu tokens",
						path, ids->count - first);
}

/* ---- random words ---- */

enum { WORD_MOST = 60, WORD_TRIES = 1 << 20 };

/* Whether these bytes are a word that is encoded as one token wherever it stands. */
static bool text_is_word(const struct tokenizer *t, const char *word, size_t n, struct err *e)
{
	struct token_list ids = {0};
	size_t i = 1;
	while (i < n && word[i] >= 'a' && word[i] <= 'z')
		i++;
	if (n < 2 || n > WORD_MOST || i < n || *word != ' ')
		return false;
	bool one = !tokenizer_encode(t, word, n, NULL, &ids, e) && ids.count == 1;
	token_list_free(&ids);
	return one;
}

char *text_random_words(const struct tokenizer *t, uint64_t tokens, uint64_t seed, struct err *e)
{
	char *text = calloc(tokens + 1, WORD_MOST);
	size_t length = 0;
	uint64_t words = 0, tries = 0;
	if (!text)
		err_set(e, ENOMEM, "out of memory for a prompt");
	for (; text && words < tokens && tries < WORD_TRIES; tries++) {
		size_t n;
		const char *word = tokenizer_bytes(
			t, (uint32_t)(random_u64(&seed) % tokenizer_size(t)), false, &n);
		if (!text_is_word(t, word, n, e))
			continue;
		memcpy(text + length, word, n);
		length += n;
		words++;
	}
	if (words == tokens)
		return text;
	if (text)
		err_set(e, EINVAL, "the tokenizer has hardly any words");
	free(text);
	return NULL;
}

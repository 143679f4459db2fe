/* Texts for a model to predict, as ids. */
#ifndef MOEFS_TESTS_BENCH_TEXT_H
#define MOEFS_TESTS_BENCH_TEXT_H

#include "cache/err.h"
#include "engine/admin/observe.h"

enum { TEXT_MOST = 1 << 28 };

/* A file's bytes, of a .zst what is in it, and a NUL behind them; freed by the caller, also after
 * an error. */
int text_read(const char *path, char **text, size_t *length, struct err *e);
/* Appends the ids of a file in UTF-8: the first `most` of them, 0: all. -EINVAL in words if one is
 * not in the model's vocabulary, or there are fewer than two. The model is loaded. */
int text_read_ids(struct token_list *ids, const struct model_view *m, const char *path,
		  uint64_t most, struct err *e);

/* A prompt of `tokens` tokens: random words in lower case, each of which is one token after a
 * space. malloc'ed; NULL with a sentence: out of memory, or the vocabulary has hardly such words.
 */
char *text_random_words(const struct tokenizer *t, uint64_t tokens, uint64_t seed, struct err *e);

#endif

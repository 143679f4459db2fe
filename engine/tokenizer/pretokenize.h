/* Splitting a text into words by a tokenizer's patterns. */
#ifndef MOEFS_ENGINE_TOKENIZER_PRETOKENIZE_H
#define MOEFS_ENGINE_TOKENIZER_PRETOKENIZE_H

#include "engine/tokenizer/split_pattern.h"

#include <stdatomic.h>
#include <stddef.h>

struct split_work; /* for one text of so many bytes */
struct split_work *split_work_new(size_t bytes, const _Atomic bool *stop);
void split_work_free(struct split_work *w);
typedef int split_word(void *context, const char *word, size_t n, struct err *e);
/* Calls `each` for every word of text[n] (valid UTF-8) in order, until one returns nonzero. */
int splitter_run(const struct splitter *s, struct split_work *w, const char *text, size_t n,
		 split_word *each, void *context, struct err *e);

#endif

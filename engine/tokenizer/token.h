/* What all parts of a tokenizer share: lists of token ids, the rights of a text's bytes, and
 * stopping early. It knows no tokenizer. */
#ifndef MOEFS_ENGINE_TOKENIZER_TOKEN_H
#define MOEFS_ENGINE_TOKENIZER_TOKEN_H

#include "cache/err.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Which added tokens a byte of a text may be part of, from the least right to the greatest. */
enum token_right {
	MAY_TEXT,  /* anybody's text: no control token */
	MAY_MARKS, /* the model's text: marks of thinking and tool calls as well */
	MAY_ALL,   /* a template's text: every token */
};

/* The right that an added token needs of each of its bytes: which tokens belong to the form of a
 * conversation, and not to what is said in it.
 *
 * Files say this only in part: tokens of thinking and tools are not marked special, so that they
 * show in answers, and are control tokens all the same. Others that are not special are ordinary
 * text (runs of white space, HTML's tags). In added_tokens.c. */
enum token_right token_needed_right(const char *text, size_t n, bool special);

/* A list of token ids that grows. Zero-initialise; freed by token_list_free. */
struct token_list {
	uint32_t *ids; /* [count] */
	size_t count, capacity;
};

/* Appends ids[n]. -ENOMEM leaves the list as it was. */
static inline int token_list_append(struct token_list *l, const uint32_t *ids, size_t n,
				    struct err *e)
{
	if (n > l->capacity - l->count) {
		size_t capacity = 2 * l->capacity + n + 16;
		uint32_t *larger = reallocarray(l->ids, capacity, sizeof *larger);
		if (!larger)
			return err_set(e, ENOMEM, "out of memory for a list of %zu tokens",
				       capacity);
		l->ids = larger;
		l->capacity = capacity;
	}
	if (n > 0)
		memcpy(l->ids + l->count, ids, n * sizeof *ids);
	l->count += n;
	return 0;
}

static inline void token_list_free(struct token_list *l)
{
	free(l->ids);
	*l = (struct token_list){0};
}

/* Long work asks now and then whether to continue. `stop` may be NULL. */
static inline bool token_stop_asked(const _Atomic bool *stop)
{
	return stop && atomic_load_explicit(stop, memory_order_relaxed);
}

static inline int token_stop_error(struct err *e)
{
	return err_set(e, ECANCELED, "tokenizing was stopped");
}

#endif

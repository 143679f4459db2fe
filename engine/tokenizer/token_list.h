/* A list of token ids that grows. */
#ifndef MOEFS_ENGINE_TOKENIZER_TOKEN_LIST_H
#define MOEFS_ENGINE_TOKENIZER_TOKEN_LIST_H

#include "cache/err.h"

#include <stddef.h>
#include <stdint.h>

struct token_list { /* zero-initialise; freed by token_list_free */
	uint32_t *ids;
	size_t count, capacity;
};
int token_list_append(struct token_list *l, const uint32_t *ids, size_t n, struct err *e);
void token_list_free(struct token_list *l);

#endif

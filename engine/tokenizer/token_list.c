#include "engine/tokenizer/token_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int token_list_append(struct token_list *l, const uint32_t *ids, size_t n, struct err *e)
{
	if (n > l->capacity - l->count) {
		size_t capacity = 2 * l->capacity + n + 16;
		uint32_t *larger = reallocarray(l->ids, capacity, sizeof *larger);
		if (!larger)
			return err_set(e, ENOMEM, "no memory for a list of %zu tokens", capacity);
		l->ids = larger;
		l->capacity = capacity;
	}
	if (n > 0)
		memcpy(l->ids + l->count, ids, n * sizeof *ids);
	l->count += n;
	return 0;
}

void token_list_free(struct token_list *l)
{
	free(l->ids);
	*l = (struct token_list){0};
}

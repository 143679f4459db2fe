/* Counted references to memory of contexts. See sharing.h. */
#include "engine/compute/sharing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

sharers *sharing_join(sharers **have, struct err *e)
{
	if (!*have) {
		*have = malloc(sizeof **have);
		if (*have)
			atomic_init(*have, 1);
	}
	if (*have)
		atomic_fetch_add(*have, 1);
	else
		err_set(e, ENOMEM, "out of memory for sharing a context");
	return *have;
}

void sharing_leave(struct context_budget *b, const void *memory, size_t bytes, sharers *s)
{
	if (s && atomic_fetch_sub(s, 1) > 1)
		return;
	free((void *)s);
	context_give(b, memory, bytes);
}

bool sharing_shared(sharers **have)
{
	if (!*have || atomic_load(*have) > 1)
		return *have;
	free((void *)*have); /* the caller is alone, and only a holder can add another */
	*have = NULL;
	return false;
}

int sharing_own(struct context_budget *b, const void **memory, size_t bytes, sharers **have,
		struct err *e)
{
	if (!sharing_shared(have))
		return 0;
	void *copy = context_take(b, bytes, e);
	if (!copy) /* what was given up for a copy may have been the other holder */
		return sharing_shared(have) ? -e->code : 0;
	memcpy(copy, *memory, bytes);
	sharing_leave(b, *memory, bytes, *have);
	*memory = copy;
	*have = NULL;
	return 0;
}

#include "engine/memory/context_budget.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

void context_budget_init(struct context_budget *b, uint64_t limit)
{
	*b = (struct context_budget){.limit = limit};
	pthread_mutex_init(&b->lock, NULL);
}

void context_budget_free(struct context_budget *b)
{
	pthread_mutex_destroy(&b->lock);
}

size_t context_pages(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	return (bytes + page - 1) / page * page;
}

/* True if the bytes still fitted; they are counted then. What does not fit is never counted, not even for a moment: another
 * thread would find no room, or see more in use than the limit. */
static bool context_charge(struct context_budget *b, uint64_t bytes)
{
	uint64_t used = atomic_load(&b->used);
	do {
		uint64_t limit = atomic_load(&b->limit);
		if (used > limit || bytes > limit - used)
			return false;
	} while (!atomic_compare_exchange_weak(&b->used, &used, used + bytes));
	return true;
}

/* Each is a mapping of its own, so that the system gets the memory back as soon as it is given up:
 * memory freed in the middle of a heap stays there. The kernel keeps neighbours as one area, which
 * is why small ones are not put together here. 0, -ENOSPC or -ENOMEM. */
static int context_map(struct context_budget *b, size_t bytes, void **out)
{
	*out = NULL;
	if (!context_charge(b, bytes))
		return -ENOSPC;
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory != MAP_FAILED) {
		*out = memory;
		return 0;
	}
	atomic_fetch_sub(&b->used, bytes);
	return -ENOMEM;
}

void *context_take_spare(struct context_budget *b, size_t bytes)
{
	void *memory;
	(void)context_map(b, bytes, &memory);
	return memory;
}

/* False: there is nothing that is spare. */
static bool context_give_way(struct context_budget *b)
{
	pthread_mutex_lock(&b->lock);
	struct context_spare *first = b->spares;
	if (first)
		first->give_way(first);
	pthread_mutex_unlock(&b->lock);
	return first;
}

void *context_take(struct context_budget *b, size_t bytes, struct err *e)
{
	void *memory;
	int failed;
	do
		failed = context_map(b, bytes, &memory);
	while (failed && context_give_way(b));
	if (failed == -ENOSPC) {
		err_set(e, ENOSPC,
			"the context budget is used up (%.1f of %.1f MB); raise "
			"cache/context_budget, or reset or remove a session",
			(double)atomic_load(&b->used) / 1e6, (double)atomic_load(&b->limit) / 1e6);
		err_name(e, "context_memory");
		err_number(e, "used_bytes", atomic_load(&b->used));
		err_number(e, "maximum_bytes", atomic_load(&b->limit));
	} else if (failed) {
		err_set(e, ENOMEM,
			"out of memory for %zu bytes of context; lower the budget of the cache, or "
			"reset or remove a session",
			bytes);
		err_name(e, "context_memory");
	}
	return memory;
}

/* A process has its bound of areas, and a hole makes two of one: beyond it, the memory goes and the
 * addresses stay. */
void context_give(struct context_budget *b, const void *memory, size_t bytes)
{
	if (!memory)
		return;
	if (munmap((void *)memory, bytes))
		(void)madvise((void *)memory, bytes, MADV_DONTNEED);
	atomic_fetch_sub(&b->used, bytes);
}

/* ---- spare memory ---- */

void context_spare_none(struct context_budget *b, const struct context_spare *s)
{
	struct context_spare **at = &b->spares;
	while (*at && *at != s)
		at = &(*at)->next;
	if (*at)
		*at = s->next;
}

void context_spare_last(struct context_budget *b, struct context_spare *s)
{
	context_spare_none(b, s);
	struct context_spare **at = &b->spares;
	while (*at)
		at = &(*at)->next;
	*at = s;
	s->next = NULL;
}

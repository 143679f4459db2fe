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

/* Counts the bytes if they fit. Bytes that do not fit are not counted even for a moment, since
 * another thread could then find no room, or see more than the limit in use. */
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

/* Maps the memory. Each block is a separate mapping, so that unmapping returns it to the system at
 * once; memory freed in the middle of a heap would stay. Small blocks need not be combined, since
 * the kernel merges neighbouring mappings. Returns 0, -ENOSPC or -ENOMEM. */
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

/* Frees a piece of spare memory. False: there is none. */
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

/* The number of mappings of a process is limited, and a hole divides one into two. At the limit,
 * munmap fails; then the memory is released but the addresses stay mapped. */
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

/* Warm starts: how hot each expert was, to be kept beside the store, and reading the hottest first
 * while nobody asks for anything. */
#include "cache/pool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct ranked {
	double heat;
	uint32_t index;
};

static int by_heat(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;
	if (a->heat != b->heat)
		return a->heat < b->heat ? 1 : -1;
	return a->index < b->index ? -1 : 1;
}

/* The experts that were used at all, hottest first; NULL: none, or out of memory. */
static uint32_t *rank(const double *heat, uint32_t n, uint32_t *count)
{
	struct ranked *r = malloc(n * sizeof *r);
	uint32_t *order = malloc(n * sizeof *order);
	*count = 0;
	if (r && order) {
		for (uint32_t i = 0; i < n; i++)
			if (heat[i] > -INFINITY)
				r[(*count)++] = (struct ranked){heat[i], i};
		qsort(r, *count, sizeof *r, by_heat);
		for (uint32_t i = 0; i < *count; i++)
			order[i] = r[i].index;
	}
	free(r);
	if (*count)
		return order;
	free(order);
	return NULL;
}

void pager_heat(const struct pager_source *s, double *heat)
{
	struct pager *p = s->pager;
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < (size_t)s->layers * s->experts; i++)
		heat[i] = s->key[i] - s->age[i / s->experts];
	pthread_mutex_unlock(&p->lock);
}

void pager_warm(struct pager_source *s, const double *heat)
{
	struct pager *p = s->pager;
	uint32_t n = s->layers * s->experts, count;
	uint32_t *order = rank(heat, n, &count);
	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; i < n; i++) {
		s->key[i] = heat[i] + s->age[i / s->experts];
		if (s->entries[i].slot)
			s->held_key[i] = s->key[i];
	}
	warm_stop(s);
	s->warm = order;
	s->warm_count = count;
	loader_wake(p, count);
	pthread_mutex_unlock(&p->lock);
}

void warm_stop(struct pager_source *s)
{
	free(s->warm);
	s->warm = NULL;
	s->warm_count = 0;
	s->warm_next = 0;
}

struct entry *warm_next(struct pager *p)
{
	for (struct pager_source *s = p->sources; s; s = s->next) {
		while (s->warm_next < s->warm_count) {
			struct entry *x = &s->entries[s->warm[s->warm_next++]];
			if (x->state != ENTRY_ABSENT)
				continue;
			if (pool_take(p, x, NEED_FREE) > 0)
				return x;
			break;
		}
		warm_stop(s); /* all that fits is in, or on its way */
	}
	return NULL;
}

void pager_warming(const struct pager_source *s, uint32_t *done, uint32_t *total)
{
	*total = atomic_load(&s->warm_count);
	*done = *total ? atomic_load(&s->warm_next) : 0;
}

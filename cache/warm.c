/* Warm starts: how hot each expert was, kept beside the store (heat.h), and reading the hottest
 * first while nobody asks for anything. */
#include "cache/heat.h"
#include "cache/pool.h"
#include "cache/requests.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* ---- keeping ---- */

static struct heat_of heat_of(const struct pager_source *s, const char *policy)
{
	return (struct heat_of){policy, s->layers, s->experts};
}

static const char *policy_name(struct pager *p)
{
	pthread_mutex_lock(&p->lock);
	const char *name = p->policy->name;
	pthread_mutex_unlock(&p->lock);
	return name;
}

int pager_keep_heat(struct pager_source *s, struct err *e)
{
	struct pager *p = s->pager;
	const char *folder = store_folder(s->supply.store);
	size_t all = (size_t)s->layers * s->experts;
	float *heat = malloc((all + 1) * sizeof *heat);
	if (!heat)
		return err_sys(e, ENOMEM, "%s: how hot experts are", folder);
	pthread_mutex_lock(&p->lock);
	const struct heat_of of = heat_of(s, p->policy->name);
	for (size_t i = 0; i < all; i++)
		heat[i] = (float)policy_heat(p->policy, &s->uses[i]);
	pthread_mutex_unlock(&p->lock);
	int failed = heat_write(heat, &of, folder, e);
	free(heat);
	return failed;
}

/* ---- the order ---- */

struct ranked {
	float heat;
	uint32_t index;
};

static int by_heat(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;
	if (a->heat != b->heat)
		return a->heat < b->heat ? 1 : -1;
	return a->index < b->index ? -1 : 1;
}

/* The experts that have any heat, hottest first; NULL: none, or out of memory. */
static uint32_t *rank(const float *heat, uint32_t n, uint32_t *count)
{
	struct ranked *r = malloc((n + 1) * sizeof *r);
	uint32_t *order = malloc((n + 1) * sizeof *order);
	*count = 0;
	for (uint32_t i = 0; r && order && i < n; i++)
		if (heat[i] > 0)
			r[(*count)++] = (struct ranked){heat[i], i};
	if (*count)
		qsort(r, *count, sizeof *r, by_heat);
	for (uint32_t i = 0; i < *count; i++)
		order[i] = r[i].index;
	free(r);
	if (*count)
		return order;
	free(order);
	return NULL;
}

static void take_over(struct pager_source *s, const float *heat)
{
	struct pager *p = s->pager;
	uint32_t n = s->layers * s->experts, count;
	uint32_t *order = rank(heat, n, &count);
	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; i < n; i++)
		if (heat[i] > 0)
			pool_value(&s->entries[i],
				   policy_take_heat(p->policy, &s->uses[i], (double)heat[i]));
	warm_stop(s);
	s->warm = order;
	s->warm_count = count;
	request_wake(p, count);
	pthread_mutex_unlock(&p->lock);
}

int pager_warm(struct pager_source *s, struct err *e)
{
	const char *folder = store_folder(s->supply.store);
	const struct heat_of of = heat_of(s, policy_name(s->pager));
	float *heat = malloc(((size_t)s->layers * s->experts + 1) * sizeof *heat);
	if (!heat)
		return err_sys(e, ENOMEM, "%s: how hot experts are", folder);
	int failed = heat_read(heat, &of, folder, e);
	if (!failed)
		take_over(s, heat);
	free(heat);
	return failed;
}

/* ---- reading ---- */

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
			uint32_t i = s->warm[s->warm_next++];
			struct entry *x = &s->entries[i];
			if (x->state != ENTRY_ABSENT ||
			    !store_has_expert(s->supply.store, i / s->experts, i % s->experts))
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

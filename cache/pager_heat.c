/* Warm starts. The heat of each expert (how much it was used) is saved beside the store
 * (pager_heat.h). The next mount reads the hottest experts first, until a batch begins. */
#include "cache/pager_heat.h"

#include "cache/pager_inside.h"

#include "cache/store_files.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- the file ---- */

#define HEAT "heat"
#define HEAT_NEW HEAT STORE_PARTIAL

struct heat_head {
	char magic[8], policy[16];
	uint32_t layers, experts;
	uint64_t checksum; /* of the floats */
};
_Static_assert(sizeof(struct heat_head) == HEAT_HEAD, "it is the head as it is in the file");
static const char heat_magic[8] = "MOEHEAT1";

static size_t heat_float_bytes(const struct heat_identity *of)
{
	return (size_t)of->layers * of->experts * sizeof(float);
}

static struct heat_head heat_head_of(const struct heat_identity *of, const void *floats)
{
	struct heat_head h = {.layers = of->layers, .experts = of->experts};
	memcpy(h.magic, heat_magic, sizeof h.magic);
	strncpy(h.policy, of->policy, sizeof h.policy - 1);
	h.checksum = XXH3_64bits(floats, heat_float_bytes(of));
	return h;
}

int heat_decode(float *heat, const struct heat_identity *of, const uint8_t *in, size_t bytes,
		const char *folder, struct err *e)
{
	size_t need = heat_float_bytes(of);
	if (bytes < HEAT_HEAD || bytes - HEAT_HEAD < need)
		return err_damaged(e, "%s/" HEAT ": is cut short", folder);
	struct heat_head h, right = heat_head_of(of, in + HEAT_HEAD);
	memcpy(&h, in, sizeof h);
	if (memcmp(&h, &right, offsetof(struct heat_head, checksum)) != 0)
		return err_set(e, ENOENT, "%s/" HEAT ": of another model or policy", folder);
	if (h.checksum != right.checksum)
		return err_damaged(e, "%s/" HEAT ": is damaged", folder);
	memcpy(heat, in + HEAT_HEAD, need);
	for (size_t i = 0; i < need / sizeof *heat; i++)
		heat[i] = isfinite(heat[i]) && heat[i] > 0 ? fminf(heat[i], HEAT_MOST) : 0;
	return 0;
}

int heat_read(float *heat, const struct heat_identity *of, const char *folder, struct err *e)
{
	uint8_t *in;
	size_t bytes;
	int failed = store_small_file_read(&in, &bytes, HEAT_HEAD + heat_float_bytes(of), folder,
					   HEAT, e);
	if (!failed)
		failed = heat_decode(heat, of, in, bytes, folder, e);
	free(in);
	return failed;
}

int heat_write(const float *heat, const struct heat_identity *of, const char *folder, struct err *e)
{
	const struct heat_head h = heat_head_of(of, heat);
	size_t bytes = sizeof h + heat_float_bytes(of);
	uint8_t *out = malloc(bytes);
	if (!out)
		return err_sys(e, ENOMEM, "%s/" HEAT, folder);
	memcpy(out, &h, sizeof h);
	memcpy(out + sizeof h, heat, heat_float_bytes(of));
	int failed = store_small_file_write(out, bytes, folder, HEAT, HEAT_NEW, e);
	free(out);
	return failed;
}

/* ---- saving and restoring ---- */

static struct heat_identity heat_identity_of(const struct pager_source *s, const char *policy)
{
	return (struct heat_identity){policy, s->layers, s->experts};
}

static const char *heat_policy_name(struct pager *p)
{
	pthread_mutex_lock(&p->lock);
	const char *name = p->policy->name;
	pthread_mutex_unlock(&p->lock);
	return name;
}

/* The lock is held. */
static void heat_copy(const struct pager_source *s, float *heat)
{
	for (size_t i = 0; i < (size_t)s->layers * s->experts; i++)
		heat[i] = (float)policy_heat(s->pager->policy, &s->uses[i]);
}

void pager_heat(struct pager_source *s, float *heat)
{
	pthread_mutex_lock(&s->pager->lock);
	heat_copy(s, heat);
	pthread_mutex_unlock(&s->pager->lock);
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
	const struct heat_identity of = heat_identity_of(s, p->policy->name);
	heat_copy(s, heat);
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

static int heat_compare(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;
	if (a->heat != b->heat)
		return a->heat < b->heat ? 1 : -1;
	return a->index < b->index ? -1 : 1;
}

/* The experts with any heat, hottest first; NULL: none, or out of memory. */
static uint32_t *heat_rank(const float *heat, uint32_t n, uint32_t *count)
{
	struct ranked *r = malloc((n + 1) * sizeof *r);
	uint32_t *order = malloc((n + 1) * sizeof *order);
	*count = 0;
	for (uint32_t i = 0; r && order && i < n; i++)
		if (heat[i] > 0)
			r[(*count)++] = (struct ranked){heat[i], i};
	if (*count)
		qsort(r, *count, sizeof *r, heat_compare);
	for (uint32_t i = 0; i < *count; i++)
		order[i] = r[i].index;
	free(r);
	if (*count)
		return order;
	free(order);
	return NULL;
}

static void heat_take_over(struct pager_source *s, const float *heat)
{
	struct pager *p = s->pager;
	uint32_t n = s->layers * s->experts, count;
	uint32_t *order = heat_rank(heat, n, &count);
	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; i < n; i++)
		if (heat[i] > 0)
			pool_value(&s->entries[i],
				   policy_take_heat(p->policy, &s->uses[i], (double)heat[i]));
	heat_warm_stop(s);
	s->warm = order;
	s->warm_count = count;
	queue_wake(p, count);
	pthread_mutex_unlock(&p->lock);
}

int pager_warm(struct pager_source *s, struct err *e)
{
	const char *folder = store_folder(s->supply.store);
	const struct heat_identity of = heat_identity_of(s, heat_policy_name(s->pager));
	float *heat = malloc(((size_t)s->layers * s->experts + 1) * sizeof *heat);
	if (!heat)
		return err_sys(e, ENOMEM, "%s: how hot experts are", folder);
	int failed = heat_read(heat, &of, folder, e);
	if (!failed)
		heat_take_over(s, heat);
	free(heat);
	return failed;
}

void pager_warm_without(struct pager_source *s, uint32_t n)
{
	pthread_mutex_lock(&s->pager->lock);
	if (s->warm_next < n)
		s->warm_next = n < s->warm_count ? n : s->warm_count;
	pthread_mutex_unlock(&s->pager->lock);
}

/* ---- reading ---- */

void heat_warm_stop(struct pager_source *s)
{
	free(s->warm);
	s->warm = NULL;
	s->warm_count = 0;
	s->warm_next = 0;
}

struct pager_entry *heat_warm_next(struct pager *p)
{
	for (struct pager_source *s = p->sources; s; s = s->next) {
		while (s->warm_next < s->warm_count) {
			uint32_t i = s->warm[s->warm_next++];
			struct pager_entry *x = &s->entries[i];
			if (x->state != ENTRY_ABSENT ||
			    !store_has_expert(s->supply.store, i / s->experts, i % s->experts))
				continue;
			if (pool_take(p, x, NEED_FREE) > 0)
				return x;
			break;
		}
		heat_warm_stop(s); /* all experts that fit are resident or being read */
	}
	return NULL;
}

void pager_warming(const struct pager_source *s, uint32_t *done, uint32_t *total)
{
	*total = atomic_load(&s->warm_count);
	*done = *total ? atomic_load(&s->warm_next) : 0;
}

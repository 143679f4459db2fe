/* Warm starts: how hot each expert was, kept beside the store, and reading the hottest first while
 * nobody asks for anything.
 *
 * The file is a hint: it is not synced, and one that is damaged or foreign is as good as none. It
 * is a struct heat_head and one float per expert, in the machine's own byte order.
 */
#include "cache/io.h"
#include "cache/pool.h"
#include "cache/store_files.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define HEAT "heat"
#define HEAT_NEW HEAT STORE_PARTIAL

struct heat_head {
	char magic[8], policy[16];
	uint32_t layers, experts;
	uint64_t checksum; /* of the floats */
};
static const char heat_magic[8] = "MOEHEAT1";

/* ---- the file ---- */

static struct heat_head head_of(const struct pager_source *s, const char *policy, const float *heat)
{
	size_t all = (size_t)s->layers * s->experts;
	struct heat_head h = {.layers = s->layers, .experts = s->experts};
	memcpy(h.magic, heat_magic, sizeof h.magic);
	strncpy(h.policy, policy, sizeof h.policy - 1);
	h.checksum = XXH3_64bits(heat, all * sizeof *heat);
	return h;
}

static int write_heat(int dir, const char *folder, const struct heat_head *h, const float *heat,
		      size_t all, struct err *e)
{
	int fd = store_file_open(dir, folder, HEAT_NEW, O_RDWR | O_CREAT | O_TRUNC, e);
	if (fd < 0)
		return fd;
	int failed = store_file_write(fd, h, sizeof *h, 0, folder, HEAT_NEW, e);
	if (!failed)
		failed = store_file_write(fd, heat, all * sizeof *heat, sizeof *h, folder, HEAT_NEW,
					  e);
	close(fd);
	if (!failed && (failed = io_rename(dir, HEAT_NEW, HEAT)))
		failed = err_sys(e, -failed, "%s/" HEAT ": cannot be written", folder);
	if (failed)
		(void)io_remove(dir, HEAT_NEW); /* else the next attempt begins it anew */
	return failed;
}

/* The floats, if the file is one for this source under this policy. */
static int read_heat(int dir, const struct pager_source *s, const char *policy, float *heat,
		     struct err *e)
{
	const char *folder = store_folder(s->supply.store);
	size_t bytes = (size_t)s->layers * s->experts * sizeof *heat;
	struct heat_head h;
	int fd = store_file_open(dir, folder, HEAT, O_RDONLY, e);
	if (fd < 0)
		return fd;
	int failed = store_file_read(fd, &h, sizeof h, 0, folder, HEAT, e);
	if (!failed)
		failed = store_file_read(fd, heat, bytes, sizeof h, folder, HEAT, e);
	close(fd);
	if (failed)
		return failed;
	struct heat_head right = head_of(s, policy, heat);
	if (memcmp(&h, &right, offsetof(struct heat_head, checksum)) != 0)
		return err_set(e, ENOENT, "%s/" HEAT ": of another model or policy", folder);
	return h.checksum == right.checksum ? 0
					    : err_set(e, EIO, "%s/" HEAT ": is damaged", folder);
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
		return err_sys(e, ENOMEM, "%s/" HEAT, folder);
	pthread_mutex_lock(&p->lock);
	const char *policy = p->policy->name;
	for (size_t i = 0; i < all; i++)
		heat[i] = (float)policy_heat(p->policy, &s->uses[i]);
	pthread_mutex_unlock(&p->lock);
	struct heat_head h = head_of(s, policy, heat);
	int dir = store_folder_open(folder, e);
	int failed = dir < 0 ? dir : write_heat(dir, folder, &h, heat, all, e);
	if (dir >= 0)
		close(dir);
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
		if (isfinite(heat[i]) && heat[i] > 0)
			pool_value(&s->entries[i],
				   policy_take_heat(p->policy, &s->uses[i], (double)heat[i]));
	warm_stop(s);
	s->warm = order;
	s->warm_count = count;
	loader_wake(p, count);
	pthread_mutex_unlock(&p->lock);
}

int pager_warm(struct pager_source *s, struct err *e)
{
	const char *folder = store_folder(s->supply.store);
	float *heat = malloc(((size_t)s->layers * s->experts + 1) * sizeof *heat);
	if (!heat)
		return err_sys(e, ENOMEM, "%s/" HEAT, folder);
	int dir = store_folder_open(folder, e);
	int failed = dir < 0 ? dir : read_heat(dir, s, policy_name(s->pager), heat, e);
	if (dir >= 0)
		close(dir);
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

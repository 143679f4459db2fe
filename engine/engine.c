/* What all mounted models share: the expert pool, the context budget, the compute threads. */
#include "engine/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- how much memory there is ---- */

/* The number after `key` in a file of "key: number" lines, or the file's first number; 0 if none.
 */
static uint64_t number_in(const char *path, const char *key)
{
	char line[256];
	unsigned long long value = 0;
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof line, f))
		if (!strncmp(line, key, strlen(key))) {
			value = strtoull(line + strlen(key), NULL, 10);
			break;
		}
	(void)fclose(f);
	return value;
}

/* What the control group still allows: limit minus use, UINT64_MAX without a limit. The first pair
 * is version 2 inside a container, the second version 1. */
static uint64_t control_group_room(void)
{
	static const char *const files[][2] = {
		{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
		{"/sys/fs/cgroup/memory/memory.limit_in_bytes",
		 "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
	};
	for (size_t i = 0; i < 2; i++) {
		uint64_t limit = number_in(files[i][0], ""), used = number_in(files[i][1], "");
		if (limit) /* the word max reads as 0 */
			return limit > used ? limit - used : 0;
	}
	return UINT64_MAX;
}

static uint64_t memory_available(void)
{
	uint64_t free_bytes = number_in("/proc/meminfo", "MemAvailable:") * 1024;
	uint64_t room = control_group_room();
	return free_bytes < room ? free_bytes : room;
}

/* ---- the engine ---- */

static int copy_options(struct engine *g, const struct engine_options *o, struct err *e)
{
	g->options = *o;
	g->options.quant = NULL; /* the recipe has it */
	if (o->store && !(g->options.store = strdup(o->store)))
		return err_set(e, ENOMEM, "out of memory for the options");
	if (!g->options.chunk)
		g->options.chunk = 512; /* about 32 tokens for each of 128 experts */
	if (!g->options.threads) {
		cpu_set_t cpus;
		g->options.threads =
			sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : (uint32_t)CPU_COUNT(&cpus);
	}
	/* Half for experts and an eighth for contexts leaves room for dense weights and for others.
	 */
	if (!g->options.budget)
		g->options.budget = memory_available() / 2;
	if (!g->options.context_budget)
		g->options.context_budget = memory_available() / 8;
	return 0;
}

int engine_create(struct engine **out, const struct engine_options *options, struct err *e)
{
	struct engine *g = calloc(1, sizeof *g);
	if (!g)
		return err_set(e, ENOMEM, "out of memory");
	g->kernels = kernels_best();
	int failed = recipe_find(&g->recipe, options->quant, e);
	if (!failed && options->threads > 1024)
		failed = err_set(e, ERANGE, "threads=%u: at most 1024", options->threads);
	if (!failed && options->chunk > 4096)
		failed = err_set(e, ERANGE, "chunk=%u: at most 4096", options->chunk);
	if (!failed)
		failed = copy_options(g, options, e);
	if (!failed)
		failed = pager_create(&g->pager, g->options.budget, e);
	if (!failed)
		failed = threads_create(&g->threads, g->options.threads, e);
	if (!failed)
		failed = engine_set_context_budget(g, g->options.context_budget, e);
	if (failed)
		engine_destroy(g);
	else
		*out = g;
	return failed;
}

void engine_destroy(struct engine *g)
{
	if (!g)
		return;
	threads_destroy(g->threads);
	pager_destroy(g->pager);
	free((char *)g->options.store);
	free(g);
}

int engine_set_budget(struct engine *g, uint64_t bytes, struct err *e)
{
	/* The pager knows the models that are loaded; those that are only mounted count, too. */
	uint64_t least = atomic_load(&g->largest_expert);
	if (bytes < least)
		return err_set(e, ERANGE,
			       "a budget of %llu bytes cannot hold one expert; give at least %llu",
			       (unsigned long long)bytes, (unsigned long long)least);
	return pager_set_budget(g->pager, bytes, e);
}

int engine_set_context_budget(struct engine *g, uint64_t bytes, struct err *e)
{
	if (!bytes)
		return err_set(e, ERANGE, "a context budget of 0 leaves no room for a prompt");
	/* Contexts in use are not cut: below what is used, the next block is refused. */
	atomic_store(&g->context_budget.limit, bytes);
	return 0;
}

uint64_t engine_context_budget(const struct engine *g)
{
	return atomic_load(&g->context_budget.limit);
}

uint64_t engine_context_used(const struct engine *g)
{
	return atomic_load(&g->context_budget.used);
}

void engine_cache_stats(const struct engine *g, struct pager_stats *out)
{
	pager_stats(g->pager, out);
}

int engine_set_policy(struct engine *g, const char *words, struct err *e)
{
	return pager_set_policy(g->pager, words, e);
}

void engine_policy(const struct engine *g, char words[PAGER_POLICY_TEXT])
{
	pager_policy(g->pager, words);
}

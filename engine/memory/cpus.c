#include "engine/memory/cpus.h"
#include "engine/memory/memory.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

/* Reads `wanted` numbers from the beginning of a file. */
static bool cpus_read(const char *root, const char *path, const char *format, long *a, long *b,
		      int wanted)
{
	char name[PATH_MAX];
	if (snprintf(name, sizeof name, "%s%s", root, path) >= (int)sizeof name)
		return false;
	FILE *f = fopen(name, "re");
	bool read = f && fscanf(f, format, a, b) == wanted;
	if (f)
		(void)fclose(f);
	return read;
}

/* The first hyperthread of a processor's core. */
static int cpus_first_sibling(const char *root, int cpu)
{
	char path[96];
	long first = cpu, none;
	(void)snprintf(path, sizeof path,
		       "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
	return cpus_read(root, path, "%ld", &first, &none, 1) && first >= 0 &&
			       first < CPU_SETSIZE
		       ? (int)first
		       : cpu;
}

static uint32_t cpus_count_nodes(const char *root)
{
	char path[PATH_MAX];
	uint32_t nodes = 0;
	do
		(void)snprintf(path, sizeof path, "%s/sys/devices/system/node/node%u", root, nodes);
	while (!access(path, F_OK) && ++nodes < 1024);
	return nodes ? nodes : 1;
}

/* The quota of one group, in processors; 0: no limit. */
static double cpus_group_quota(const char *group)
{
	long quota = 0, period = 0, none;
	if (cpus_read(group, "/cpu.max", "%ld %ld", &quota, &period, 2) ||
	    (cpus_read(group, "/cpu.cfs_quota_us", "%ld", &quota, &none, 1) &&
	     cpus_read(group, "/cpu.cfs_period_us", "%ld", &period, &none, 1)))
		return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
	return 0;
}

/* The smallest quota of the process's group and the groups above it. */
static double cpus_quota(const char *root)
{
	struct memory m;
	char group[PATH_MAX];
	double least = 0;
	memory_init_controller(&m, root, "cpu");
	memory_find(&m);
	if (m.group && snprintf(group, sizeof group, "%s", m.group) < (int)sizeof group)
		do {
			double quota = cpus_group_quota(group);
			least = quota > 0 && (least <= 0 || quota < least) ? quota : least;
		} while (memory_group_above(&m, group));
	memory_free(&m);
	return least;
}

void cpus_look(struct cpus *out, const cpu_set_t *allowed, const char *root)
{
	cpu_set_t cores;
	CPU_ZERO(&cores);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, allowed))
			CPU_SET(cpus_first_sibling(root, cpu), &cores);
	*out = (struct cpus){
		.logical = (uint32_t)CPU_COUNT(allowed),
		.cores = (uint32_t)CPU_COUNT(&cores),
		.nodes = cpus_count_nodes(root),
		.quota = cpus_quota(root),
	};
}

uint32_t cpus_threads(const struct cpus *c)
{
	uint32_t threads = c->cores ? c->cores : 1;
	if (c->quota > 0 && c->quota < threads)
		threads = c->quota < 1 ? 1 : (uint32_t)c->quota;
	return threads;
}

uint32_t cpus_own_threads(void)
{
	struct cpus c;
	cpu_set_t allowed;
	if (sched_getaffinity(0, sizeof allowed, &allowed))
		return 1;
	cpus_look(&c, &allowed, "");
	return cpus_threads(&c);
}

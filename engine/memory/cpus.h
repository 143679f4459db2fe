/* How many processors this process may compute with.
 *
 * Siblings (two threads of one core) share its arithmetic units, so a core counts once. A control
 * group may allow less processor time than its processors have (cpu.max, or with version 1
 * cpu.cfs_quota_us): more threads than that would be stopped for most of each period, in the middle
 * of a loop that all others wait for. A file that is missing or makes no sense says nothing.
 */
#ifndef MOEFS_ENGINE_MEMORY_CPUS_H
#define MOEFS_ENGINE_MEMORY_CPUS_H

#include <sched.h>
#include <stdint.h>

struct cpus {
	uint32_t logical, cores; /* that the process may run on */
	uint32_t nodes;		 /* of memory, that the machine has */
	double quota;		 /* processors' time that the groups allow; 0: no limit */
};

/* allowed: as of sched_getaffinity. root: before every path: "", or in tests a folder with proc and
 * sys in it. */
void cpus_look(struct cpus *out, const cpu_set_t *allowed, const char *root);
/* Compute threads: as many as cores, or as the quota allows, 1 at least. */
uint32_t cpus_threads(const struct cpus *c);
/* The same of this process and machine. */
uint32_t cpus_own_threads(void);

#endif

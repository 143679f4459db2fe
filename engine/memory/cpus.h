/* How many processors this process may compute with.
 *
 * Hyperthreads of one core share its arithmetic units, so a core counts once. A control group may
 * limit processor time (cpu.max, or in version 1 cpu.cfs_quota_us). With more threads than the
 * limit allows, the kernel would stop a thread for most of each period while all other threads wait
 * for it. A file that is missing or malformed is ignored.
 */
#ifndef MOEFS_ENGINE_MEMORY_CPUS_H
#define MOEFS_ENGINE_MEMORY_CPUS_H

#include <sched.h>
#include <stdint.h>

struct cpus {
	uint32_t logical, cores; /* that the process may run on */
	uint32_t nodes;		 /* memory (NUMA) nodes of the machine */
	double quota;		 /* limit of the control groups, in processors; 0: no limit */
};

/* allowed: from sched_getaffinity. root: prefix of every path; "", or in tests a folder with proc
 * and sys in it. */
void cpus_look(struct cpus *out, const cpu_set_t *allowed, const char *root);
/* The number of compute threads: as many as cores or as the quota allows, at least 1. */
uint32_t cpus_threads(const struct cpus *c);
/* The same for this process on this machine. */
uint32_t cpus_own_threads(void);

#endif

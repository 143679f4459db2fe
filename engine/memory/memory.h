/* How much memory this process can still allocate.
 *
 * Two things limit it: the memory that the machine has available (MemAvailable, proc(5)), and the
 * limits of the process's control group and of every visible group above (the kernel's
 * admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst). /proc/self/cgroup names the group, and
 * /proc/self/mountinfo says where its files are. This works with version 2, version 1, both
 * together, and in containers that see their own group as the root.
 *
 * Page cache counts as free, since the kernel drops it before it kills a process. A file that is
 * missing or malformed sets no limit.
 *
 * budgets.h divides the memory; pressure.h receives notifications when it becomes short. Only one
 * thread at a time may use a struct memory.
 */
#ifndef MOEFS_ENGINE_MEMORY_MEMORY_H
#define MOEFS_ENGINE_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum memory_version { MEMORY_NO_GROUP, MEMORY_GROUP_V1, MEMORY_GROUP_V2 };

struct memory {
	/* prefix of every path: "", or in tests a folder with proc and sys in it */
	const char *root;
	const char *controller; /* of the control groups: "memory", or for cpus.h "cpu" */
	enum memory_version version;
	char *group;	  /* folder of the process's group; NULL: none */
	size_t top;	  /* length of the mount point in `group`; no groups are above it */
	char *membership; /* text of /proc/self/cgroup when the group was found */
	uint64_t limits;  /* sum of all groups' limits, to notice changes */
	unsigned changes; /* increases when the group or a limit changes */
};

/* Each level (the machine, each group) has a margin that should stay free: memory that the kernel
 * and the rest of this process need between two looks. */
struct memory_room {
	int64_t spare;	 /* free bytes, without the margin, of the level with the fewest; negative:
			    bytes that are missing; or MEMORY_UNKNOWN */
	uint64_t margin; /* of that level */
	uint64_t whole;	 /* minimum of the machine's memory and the groups' limits; 0: unknown */
};
#define MEMORY_UNKNOWN INT64_MAX /* nothing bounds, as far as can be seen */

/* root must outlive m. */
void memory_init(struct memory *m, const char *root);
void memory_free(struct memory *m);
/* Reads a few small files. Also notices that the process was moved to another group. */
void memory_look(struct memory *m, struct memory_room *out);

/* ---- for cpus.h ---- */

/* As memory_init, for another controller. root and controller must outlive m. Only group, top and
 * version are valid, after memory_find. */
void memory_init_controller(struct memory *m, const char *root, const char *controller);
/* Finds the process's group, again if the process was moved to another one. */
void memory_find(struct memory *m);

/* ---- for pressure.h ---- */

/* The limit of one group; UINT64_MAX: none. */
uint64_t memory_group_limit(const struct memory *m, const char *group);
/* The margin of a group with this limit. */
uint64_t memory_group_margin(uint64_t limit);
/* Replaces a group's path by that of its parent. False: the parent is not visible. */
bool memory_group_above(const struct memory *m, char *group);

#endif

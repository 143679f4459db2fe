/* How much memory this process may still take.
 *
 * Two things bound it: what the machine has available (MemAvailable, proc(5)), and the limits of
 * the control group that the process is in and of every group above it that can be seen from here
 * (the kernel's admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst). Which group that is says
 * /proc/self/cgroup, and where its files are /proc/self/mountinfo: with version 2, with version 1,
 * with both mounted side by side, and in containers whose group is the root of what they see.
 *
 * Page cache is counted as free: the kernel drops it before it kills. Whatever is missing or makes
 * no sense bounds nothing.
 *
 * Not here: what the memory is used for (budgets.h), and being told when it becomes short
 * (pressure.h). A struct memory belongs to one thread at a time.
 */
#ifndef MOEFS_ENGINE_MEMORY_MEMORY_H
#define MOEFS_ENGINE_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum memory_version { MEMORY_NO_GROUP, MEMORY_GROUP_V1, MEMORY_GROUP_V2 };

struct memory {
	const char *root; /* before every path: "", or in tests a folder with proc and sys in it */
	enum memory_version version;
	char *group;	  /* the folder of the process's group; NULL: none */
	size_t top;	  /* how much of its path is the mount point, above which are no groups */
	char *membership; /* /proc/self/cgroup, from which all of this follows */
	uint64_t limits;  /* the sum of all groups' */
	unsigned changes; /* grows when the group is another one, or a limit is */
};

/* Each level (the machine, each group) keeps a margin that nobody should take: what the kernel and
 * the rest of this process need between two looks. */
struct memory_room {
	int64_t spare;	 /* bytes to be had of the level that has the fewest, besides its margin;
			  * negative: so many are missing; MEMORY_UNKNOWN */
	uint64_t margin; /* of that level */
	uint64_t whole;	 /* the least of the machine's memory and the groups' limits; 0: unknown */
};
#define MEMORY_UNKNOWN INT64_MAX /* nothing bounds, as far as can be seen */

/* root is kept, not copied. */
void memory_init(struct memory *m, const char *root);
void memory_free(struct memory *m);
/* Reads a handful of small files. A process that was moved to another group is noticed. */
void memory_look(struct memory *m, struct memory_room *out);

/* ---- for those who want to be told of changes (pressure.h) ---- */

/* The limit of one group, UINT64_MAX if it has none. */
uint64_t memory_group_limit(const struct memory *m, const char *group);
/* What a group of that limit keeps free. */
uint64_t memory_group_margin(uint64_t limit);
/* Makes of a group's path that of the group above. False: that is not to be seen. */
bool memory_group_above(const struct memory *m, char *group);

#endif

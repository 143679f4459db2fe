/* How much memory this process may still take.
 *
 * Two things bound it: what the machine has available (MemAvailable, proc(5)), and the limits of
 * the process's control group and of every group above it that is visible (the kernel's
 * admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst). /proc/self/cgroup names the group, and
 * /proc/self/mountinfo says where its files are: with version 2, with version 1, with both side by
 * side, and in containers whose group is the root of what they see.
 *
 * Page cache counts as free: the kernel drops it before it kills. A file that is missing or makes
 * no sense sets no bound.
 *
 * Not here: what the memory is used for (budgets.h), and notifications when it becomes short
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
	const char *controller; /* whose groups these are: "memory", or for cpus.h "cpu" */
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
	int64_t spare;	 /* free bytes of the level that has the fewest, without its margin;
			  * negative: bytes that are missing; MEMORY_UNKNOWN */
	uint64_t margin; /* of that level */
	uint64_t whole;	 /* the least of the machine's memory and the groups' limits; 0: unknown */
};
#define MEMORY_UNKNOWN INT64_MAX /* nothing bounds, as far as can be seen */

/* root is kept, not copied. */
void memory_init(struct memory *m, const char *root);
void memory_free(struct memory *m);
/* Reads a few small files. Notices when the process was moved to another group. */
void memory_look(struct memory *m, struct memory_room *out);

/* ---- for cpus.h ---- */

/* For the groups of another controller, which memory_find looks for: `controller` is kept, not
 * copied, and only group, top and version count. */
void memory_init_controller(struct memory *m, const char *root, const char *controller);
/* Finds the process's group; notices when the process was moved to another one. */
void memory_find(struct memory *m);

/* ---- for pressure.h ---- */

/* The limit of one group, UINT64_MAX if it has none. */
uint64_t memory_group_limit(const struct memory *m, const char *group);
/* The margin of a group with that limit. */
uint64_t memory_group_margin(uint64_t limit);
/* Turns a group's path into that of the group above. False: that one is not visible. */
bool memory_group_above(const struct memory *m, char *group);

#endif

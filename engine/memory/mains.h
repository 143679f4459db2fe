/* Whether the machine is on mains: work that nobody waits for is left for then. */
#ifndef MOEFS_ENGINE_MEMORY_MAINS_H
#define MOEFS_ENGINE_MEMORY_MAINS_H

#include <stdbool.h>

/* False if a battery of the machine is discharging (/sys/class/power_supply: the kernel's
 * ABI/testing/sysfs-class-power); batteries of mice and the like, whose scope is Device, do not
 * count. What cannot be read counts as mains. root: before the path; "", or in tests a folder with
 * sys in it. Blocks for a few small files. */
bool mains_on(const char *root);

#endif

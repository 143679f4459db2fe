/* Whether the machine runs on mains power. Background work waits for mains power. */
#ifndef MOEFS_ENGINE_MEMORY_MAINS_H
#define MOEFS_ENGINE_MEMORY_MAINS_H

#include <stdbool.h>

/* False if a battery of the machine is discharging (/sys/class/power_supply, described in the
 * kernel's ABI/testing/sysfs-class-power). Batteries of devices such as mice (scope "Device") do
 * not count. If nothing can be read, the machine is taken to be on mains power. root: prefix of the
 * path; "", or in tests a folder with sys in it. Blocks: reads a few small files. */
bool mains_on(const char *root);

#endif

/* Whether this machine runs on a battery. */
#ifndef MOEFS_ENGINE_ADMIN_POWER_H
#define MOEFS_ENGINE_ADMIN_POWER_H

#include <stdbool.h>

#define POWER_SUPPLIES "/sys/class/power_supply"

/* True if a battery among these supplies (sysfs-class-power) is being discharged; false also where
 * nothing is known. */
bool power_on_battery(const char *supplies);

#endif

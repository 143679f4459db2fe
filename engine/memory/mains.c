#include "engine/memory/mains.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* Whether a file of a power supply contains this word. */
static bool mains_says(const char *folder, const char *supply, const char *file, const char *word)
{
	char path[1024], line[32] = "";
	int n = snprintf(path, sizeof path, "%s/%s/%s", folder, supply, file);
	FILE *f = n < 0 || (size_t)n >= sizeof path ? NULL : fopen(path, "re");
	if (!f)
		return false;
	bool read = fgets(line, sizeof line, f);
	(void)fclose(f);
	line[strcspn(line, "\n")] = 0;
	return read && !strcmp(line, word);
}

bool mains_on(const char *root)
{
	char folder[512];
	int n = snprintf(folder, sizeof folder, "%s/sys/class/power_supply", root);
	DIR *supplies = n < 0 || (size_t)n >= sizeof folder ? NULL : opendir(folder);
	bool discharging = false;
	for (const struct dirent *d; supplies && !discharging && (d = readdir(supplies));)
		discharging = *d->d_name != '.' && mains_says(folder, d->d_name, "type", "Battery") &&
			      !mains_says(folder, d->d_name, "scope", "Device") &&
			      mains_says(folder, d->d_name, "status", "Discharging");
	if (supplies)
		(void)closedir(supplies);
	return !discharging;
}

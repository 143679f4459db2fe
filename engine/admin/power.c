#include "engine/admin/power.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* Whether a file of a supply has this word as its first line. */
static bool power_says(const char *supplies, const char *supply, const char *file, const char *word)
{
	char path[512], line[32] = "";
	(void)snprintf(path, sizeof path, "%s/%s/%s", supplies, supply, file);
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	bool read = fgets(line, sizeof line, f);
	(void)fclose(f);
	line[strcspn(line, "\n")] = 0;
	return read && !strcmp(line, word);
}

bool power_on_battery(const char *supplies)
{
	const struct dirent *d;
	bool battery = false;
	DIR *all = opendir(supplies);
	if (!all)
		return false;
	while (!battery && (d = readdir(all)))
		battery = *d->d_name != '.' &&
			  power_says(supplies, d->d_name, "type", "Battery") &&
			  power_says(supplies, d->d_name, "status", "Discharging");
	(void)closedir(all);
	return battery;
}

/* Options that mounts of every kind have, and those that fstab has for others than us. */
#include "fs/program/options_parse.h"

#include <ctype.h>
#include <string.h>

/* What libfuse and the kernel know; those that end in = take a number. */
static const char *const passed[] = {
	"allow_other", "allow_root", "auto_unmount", "default_permissions",
	"max_read=",   "rw",	     "ro",	     "suid",
	"nosuid",      "dev",	     "nodev",	     "exec",
	"noexec",      "async",	     "sync",	     "dirsync",
	"atime",       "noatime",
};

/* What mount(8), mount -a and systemd read for themselves (fstab(5), mount(8), systemd.mount(5)),
 * and what changes nothing here: access times are the daemon's; nonempty is
 * ours, and libfuse 3 refuses it. Those that end in = or in a hyphen
 * go on. */
static const char *const ignored[] = {
	"defaults",   "auto",	     "noauto",	      "user",	  "user=",	"users",
	"nouser",     "owner",	     "noowner",	      "group",	  "nogroup",	"_netdev",
	"nofail",     "fail",	     "comment=",      "x-",	  "X-",		"relatime",
	"norelatime", "strictatime", "nostrictatime", "lazytime", "nolazytime", "diratime",
	"nodiratime", "loud",	     "silent",	      "nonempty",
};

static bool fits(const char *option, const char *arg)
{
	size_t length = strlen(option);
	char last = option[length - 1];
	return last == '=' || last == '-' ? !strncmp(arg, option, length) : !strcmp(arg, option);
}

enum mount_option options_of_mount(const char *arg)
{
	for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
		if (fits(passed[i], arg)) {
			const char *value = strchr(arg, '=');
			return !value || isdigit((unsigned char)value[1]) ? MOUNT_OPTION_PASSED
									  : MOUNT_OPTION_NONE;
		}
	for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
		if (fits(ignored[i], arg))
			return MOUNT_OPTION_IGNORED;
	return MOUNT_OPTION_NONE;
}

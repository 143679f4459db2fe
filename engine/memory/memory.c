#include "engine/memory/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Larger than any of the files read here; memory.stat is the longest. */
enum { TEXT_BYTES = 16 << 10 };
/* Version 1 gives the largest number of whole pages for "no limit". No machine has this much
 * memory. */
#define NO_LIMIT (UINT64_C(1) << 62)
#define MIB (UINT64_C(1) << 20)

/* ---- files of numbers ---- */

/* Reads a file as a string, cut off if it is too long. False: it cannot be read. */
static bool memory_read_text(char text[TEXT_BYTES], const char *root, const char *folder,
			     const char *name)
{
	char path[PATH_MAX];
	size_t length = 0;
	if (snprintf(path, sizeof path, "%s%s%s", root, folder, name) >= (int)sizeof path)
		return false;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n;
	while ((n = read(fd, text + length, TEXT_BYTES - 1 - length)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		length += (size_t)n;
	}
	close(fd);
	text[length] = 0;
	return n == 0;
}

/* Parses the word max, or a number that ends with the line or word. */
static bool memory_parse_number(const char *s, uint64_t *out)
{
	s += strspn(s, " \t");
	size_t digits = strspn(s, "0123456789");
	if (!strncmp(s, "max", 3) && strchr(" \n", s[3])) {
		*out = UINT64_MAX;
		return true;
	}
	if (!digits || !strchr(" \n", s[digits])) /* strchr finds the end of the string, too */
		return false;
	*out = strtoull(s, NULL, 10); /* ULLONG_MAX if there are too many */
	return true;
}

static bool memory_read_number(uint64_t *out, const char *root, const char *folder,
			       const char *name)
{
	char text[TEXT_BYTES];
	return memory_read_text(text, root, folder, name) && memory_parse_number(text, out);
}

/* The number in the line that begins with this key, which ends in its separator. */
static bool memory_find_number(const char *text, const char *key, uint64_t *out)
{
	size_t length = strlen(key);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, length))
			return memory_parse_number(line + length, out);
	}
	return false;
}

/* ---- which group ---- */

static bool memory_is_listed(const char *list, const char *word)
{
	size_t length = strlen(word);
	for (const char *s = list; (s = strstr(s, word)); s += length)
		if ((s == list || s[-1] == ',') && strchr(",\n", s[length]))
			return true;
	return false;
}

/* The path in the relevant line of /proc/self/cgroup, "ID:CONTROLLERS:PATH". A controller is in one
 * hierarchy only: if it is in version 1, it is not in version 2, whose line is "0::PATH". Changes
 * the text; the result points into it. */
static const char *memory_find_membership(char *text, const char *controller,
					  enum memory_version *version)
{
	const char *unified = NULL;
	char *save = NULL;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path || path[1] != '/')
			continue;
		*controllers++ = *path++ = 0;
		if (memory_is_listed(controllers, controller)) {
			*version = MEMORY_GROUP_V1;
			return path;
		}
		if (!*controllers && !strcmp(line, "0"))
			unified = path;
	}
	*version = unified ? MEMORY_GROUP_V2 : MEMORY_NO_GROUP;
	return unified;
}

/* mountinfo writes blanks, tabs, newlines and backslashes as \ooo. */
static void memory_unescape(char *s)
{
	char *to = s;
	for (; *s; s++) {
		if (s[0] == '\\' && strspn(s + 1, "01234567") >= 3) {
			*to++ = (char)(((s[1] - '0') << 6) + ((s[2] - '0') << 3) + (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = 0;
}

struct mounted_at {
	char *root, *point; /* the mounted part of the hierarchy, and the mount point */
};

/* Parses a line of /proc/self/mountinfo, "ID PARENT DEVICE ROOT POINT OPTIONS [TAGS…] - TYPE SOURCE
 * OPTIONS" (proc(5)). True: it is a hierarchy of this version with this controller. */
static bool memory_parse_mount(char *line, const char *controller, enum memory_version version,
			       struct mounted_at *out)
{
	enum { ROOT = 3, POINT = 4, FIELDS = 5 };
	char *field[FIELDS], *save = NULL;
	char *rest = strstr(line, " - ");
	if (!rest)
		return false;
	*rest = 0;
	for (int i = 0; i < FIELDS; i++)
		if (!(field[i] = strtok_r(i ? NULL : line, " ", &save)))
			return false;
	char *type = strtok_r(rest + 3, " ", &save);
	char *source = strtok_r(NULL, " ", &save), *options = strtok_r(NULL, " ", &save);
	if (!type || !source || !options)
		return false;
	if (version == MEMORY_GROUP_V2
		    ? strcmp(type, "cgroup2") != 0
		    : strcmp(type, "cgroup") != 0 || !memory_is_listed(options, controller))
		return false;
	*out = (struct mounted_at){.root = field[ROOT], .point = field[POINT]};
	memory_unescape(out->root);
	memory_unescape(out->point);
	return true;
}

/* The part of a group's path that is below the mount's root. In a container the two paths may have
 * different roots; then the mount shows the container's own group. */
static const char *memory_below(const char *path, const char *root)
{
	size_t length = strcmp(root, "/") ? strlen(root) : 0;
	const char *rest = path + length;
	if (strncmp(path, root, length) != 0 || (*rest && *rest != '/') || !strcmp(rest, "/"))
		return "";
	return rest;
}

/* Finds the folder of the group `path`, in the first mount that shows it. If no mount does (the
 * group was removed), the groups above it in the first mount still count. */
static void memory_find_group(struct memory *m, const char *path)
{
	char name[PATH_MAX], *line = NULL;
	size_t size = 0;
	bool shown = false;
	(void)snprintf(name, sizeof name, "%s/proc/self/mountinfo", m->root);
	FILE *f = fopen(name, "re");
	while (f && !shown && getline(&line, &size, f) > 0) {
		struct mounted_at at;
		char *group;
		if (!memory_parse_mount(line, m->controller, m->version, &at))
			continue;
		if (asprintf(&group, "%s%s%s", m->root, at.point, memory_below(path, at.root)) < 0)
			continue;
		shown = !access(group, F_OK);
		if (shown || !m->group) {
			free(m->group);
			m->group = group;
			m->top = strlen(m->root) + strlen(at.point);
		} else {
			free(group);
		}
	}
	free(line);
	if (f)
		(void)fclose(f);
}

void memory_find(struct memory *m)
{
	char text[TEXT_BYTES];
	if (!memory_read_text(text, m->root, "/proc/self/cgroup", ""))
		*text = 0;
	if (m->membership && !strcmp(text, m->membership))
		return;
	free(m->membership);
	free(m->group);
	m->group = NULL;
	m->membership = strdup(text); /* NULL: the group is looked up again next time */
	m->changes++;
	const char *path = memory_find_membership(text, m->controller, &m->version);
	/* A path that leads out of the namespace names a group that cannot be seen. */
	if (path && strncmp(path, "/..", 3) != 0)
		memory_find_group(m, path);
}

/* ---- levels ---- */

static const struct group_files {
	const char *limit[2]; /* the smaller one counts; throttling (memory.high) also counts as a
				 limit */
	/* in memory.stat: the smallest limit above, also of invisible groups */
	const char *inherited;
	const char *usage;	    /* including page cache */
	const char *reclaimable[3]; /* in memory.stat, including groups below */
} group_files[] = {
	[MEMORY_GROUP_V1] = {{"/memory.limit_in_bytes"},
			     "hierarchical_memory_limit ",
			     "/memory.usage_in_bytes",
			     {"total_inactive_file ", "total_active_file "}},
	[MEMORY_GROUP_V2] = {{"/memory.max", "/memory.high"},
			     NULL,
			     "/memory.current",
			     {"inactive_file ", "active_file ", "slab_reclaimable "}},
};

static uint64_t memory_lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t memory_clamp(uint64_t x, uint64_t least, uint64_t most)
{
	return x < least ? least : memory_lesser(x, most);
}

/* A group's margin is small: its memory is meant to be used, and its other processes are usually
 * known. */
uint64_t memory_group_margin(uint64_t limit)
{
	return memory_lesser(memory_clamp(limit / 32, 16 * MIB, 512 * MIB), limit / 4);
}

/* A machine's margin is larger, since it has other users. */
static uint64_t memory_machine_margin(uint64_t total)
{
	return memory_lesser(memory_clamp(total / 16, 64 * MIB, 2048 * MIB), total / 4);
}

/* Takes a level of `bytes` into account. `available` is negative if more is in use than a lowered
 * limit. */
static void memory_consider(struct memory_room *room, uint64_t bytes, int64_t available,
			    uint64_t margin)
{
	int64_t spare = available - (int64_t)margin;
	room->whole = room->whole ? memory_lesser(room->whole, bytes) : bytes;
	if (spare >= room->spare)
		return;
	room->spare = spare;
	room->margin = margin;
}

static void memory_consider_machine(const struct memory *m, struct memory_room *room)
{
	char text[TEXT_BYTES];
	uint64_t total, available;
	if (memory_read_text(text, m->root, "/proc/meminfo", "") &&
	    memory_find_number(text, "MemTotal:", &total) &&
	    memory_find_number(text, "MemAvailable:", &available) && total < NO_LIMIT / 1024)
		memory_consider(room, total * 1024, (int64_t)memory_lesser(available, total) * 1024,
				memory_machine_margin(total * 1024));
}

uint64_t memory_group_limit(const struct memory *m, const char *group)
{
	const struct group_files *files = &group_files[m->version];
	uint64_t least = UINT64_MAX, limit;
	for (int i = 0; i < 2 && files->limit[i]; i++)
		if (memory_read_number(&limit, "", group, files->limit[i]) && limit < NO_LIMIT)
			least = memory_lesser(least, limit);
	return least;
}

static void memory_consider_group(const struct memory *m, const char *group,
				  struct memory_room *room, uint64_t *limits)
{
	const struct group_files *files = &group_files[m->version];
	char text[TEXT_BYTES];
	uint64_t limit = memory_group_limit(m, group), used, cached = 0, value;
	if (!memory_read_text(text, "", group, "/memory.stat"))
		*text = 0;
	if (files->inherited && memory_find_number(text, files->inherited, &value) &&
	    value < NO_LIMIT)
		limit = memory_lesser(limit, value);
	*limits += limit;
	if (limit == UINT64_MAX || !memory_read_number(&used, "", group, files->usage))
		return;
	for (int i = 0; i < 3 && files->reclaimable[i]; i++)
		if (memory_find_number(text, files->reclaimable[i], &value))
			cached += memory_lesser(value, used - cached);
	used = memory_lesser(used - cached, NO_LIMIT);
	memory_consider(room, limit, (int64_t)limit - (int64_t)used, memory_group_margin(limit));
}

bool memory_group_above(const struct memory *m, char *group)
{
	char *slash = strlen(group) > m->top ? strrchr(group, '/') : NULL;
	if (slash)
		*slash = 0;
	return slash && strlen(group) >= m->top;
}

/* ---- the whole ---- */

void memory_init(struct memory *m, const char *root)
{
	memory_init_controller(m, root, "memory");
}

void memory_init_controller(struct memory *m, const char *root, const char *controller)
{
	*m = (struct memory){.root = root, .controller = controller};
}

void memory_free(struct memory *m)
{
	free(m->group);
	free(m->membership);
	*m = (struct memory){0};
}

void memory_look(struct memory *m, struct memory_room *out)
{
	char group[PATH_MAX];
	uint64_t limits = 0;
	*out = (struct memory_room){.spare = MEMORY_UNKNOWN};
	memory_find(m);
	memory_consider_machine(m, out);
	if (!m->group || snprintf(group, sizeof group, "%s", m->group) >= (int)sizeof group)
		return;
	do
		memory_consider_group(m, group, out, &limits);
	while (memory_group_above(m, group));
	m->changes += limits != m->limits;
	m->limits = limits;
}

/* The limit of remembered answers: removes the least recently used files. */
#include "engine/prefixes/remember_inside.h"

#include "cache/io.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct bound_file {
	char folder[16], name[48];
	struct timespec used;
	uint64_t bytes;
};

struct bound_list {
	struct bound_file *files; /* [count] */
	size_t count, room;
	uint64_t bytes;
};

/* Adds a file. If memory runs out, the file is not counted. */
static void bound_add(struct bound_list *l, const struct bound_file *f)
{
	if (l->count == l->room) {
		size_t room = l->room ? 2 * l->room : 256;
		struct bound_file *grown = reallocarray(l->files, room, sizeof *grown);
		if (!grown)
			return;
		l->files = grown;
		l->room = room;
	}
	l->files[l->count++] = *f;
	l->bytes += f->bytes;
}

/* Whether remember.c makes such names: 32 digits, or the name of a file being written. */
static bool bound_is_ours(const char *name)
{
	return strspn(name, "0123456789abcdef") == REMEMBER_NAME - 1
		       ? !name[REMEMBER_NAME - 1]
		       : !strncmp(name, "partial.", 8) && strlen(name) < 48;
}

/* Opens a folder; NULL: not possible. */
static DIR *bound_open(int dir, const char *name)
{
	int fd = remember_open_folder(dir, name);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		io_close(fd);
	return d;
}

static void bound_look_into(const struct remember *r, const char *folder, struct bound_list *l)
{
	DIR *d = bound_open(r->dir, folder);
	const struct dirent *at;
	while (d && (at = readdir(d))) {
		struct stat st;
		struct bound_file f = {0};
		if (!bound_is_ours(at->d_name) ||
		    fstatat(dirfd(d), at->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(st.st_mode) || st.st_uid != geteuid())
			continue;
		(void)snprintf(f.folder, sizeof f.folder, "%.15s", folder);
		(void)snprintf(f.name, sizeof f.name, "%.47s", at->d_name);
		f.used = st.st_mtim;
		f.bytes = (uint64_t)st.st_size;
		bound_add(l, &f);
	}
	if (d)
		closedir(d);
}

static void bound_look(const struct remember *r, struct bound_list *l)
{
	DIR *d = bound_open(r->dir, ".");
	const struct dirent *at;
	while (d && (at = readdir(d))) {
		const char *name = at->d_name;
		bool user = strspn(name, "0123456789") == strlen(name) && strlen(name) < 16;
		if (user || !strcmp(name, "all"))
			bound_look_into(r, name, l);
	}
	if (d)
		closedir(d);
}

/* For qsort: the least recently used first. */
static int bound_compare(const void *a, const void *b)
{
	const struct bound_file *x = a, *y = b;
	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	if (x->used.tv_nsec != y->used.tv_nsec)
		return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
	return strcmp(x->name, y->name);
}

static bool bound_remove(const struct remember *r, const struct bound_file *f)
{
	int folder = remember_open_folder(r->dir, f->folder);
	bool gone = folder >= 0 && !io_remove(folder, f->name);
	io_close(folder);
	return gone;
}

void remember_bound(struct remember *r)
{
	struct bound_list l = {0};
	/* Frees more than needed, so that not every new file causes a scan of the folder. */
	uint64_t leave = r->most - r->most / 16;
	bound_look(r, &l);
	if (l.bytes > r->most) {
		qsort(l.files, l.count, sizeof *l.files, bound_compare);
		for (size_t i = 0; i < l.count && l.bytes > leave; i++)
			if (bound_remove(r, &l.files[i]))
				l.bytes -= l.files[i].bytes;
	}
	r->used = l.bytes;
	free(l.files);
}

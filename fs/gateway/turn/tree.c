/* The files of the tree. See tree.h. */
#include "fs/gateway/turn/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { PIECE = 64 << 10 };

static int format_path(char path[TREE_PATH], const char *tree, const char *format, va_list values)
{
	int n = snprintf(path, TREE_PATH, "%s/", tree);
	int m = n < TREE_PATH ? vsnprintf(path + n, (size_t)(TREE_PATH - n), format, values)
			      : TREE_PATH;
	return m < 0 || n + m >= TREE_PATH ? -ENAMETOOLONG : 0;
}

/* A descriptor, or a negative errno. */
static int open_in(const char *tree, int flags, const char *format, va_list values)
{
	char path[TREE_PATH];
	int code = format_path(path, tree, format, values);
	if (code)
		return code;
	int fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

char *tree_path(char path[TREE_PATH], const char *tree, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	int code = format_path(path, tree, format, values);
	va_end(values);
	return code ? NULL : path;
}

/* ---- models ---- */

/* A model is a folder in which sessions are made; cache/ is none. */
static bool is_model(const char *tree, const char *name)
{
	char path[TREE_PATH];
	int fd = -1;
	/* Opened as a path it is but looked up, which the kernel may know by heart. */
	if (*name && *name != '.' && !strchr(name, '/') && strlen(name) < NAME_MAX &&
	    tree_path(path, tree, "%s/sessions/default", name))
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

bool tree_model(const char *tree, const char *name)
{
	return is_model(tree, name);
}

int tree_models(const char *tree, int (*visit)(void *ctx, const char *name), void *ctx)
{
	struct dirent **names;
	int count = scandir(tree, &names, NULL, alphasort), code = 0;
	if (count < 0)
		return -errno;
	for (int i = 0; i < count; i++) {
		if (!code && is_model(tree, names[i]->d_name))
			code = visit(ctx, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	return code;
}

dev_t tree_device(const char *tree)
{
	struct stat st;
	return stat(tree, &st) ? 0 : st.st_dev;
}

const char tree_gone_words[] = "the tree is gone: its moefs has ended, or was unmounted";

static int no_model(void *ctx, const char *name)
{
	(void)ctx, (void)name;
	return 1;
}

bool tree_is_gone(const char *tree, dev_t device)
{
	return tree_device(tree) != device && tree_models(tree, no_model, NULL) <= 0;
}

/* By the kind of the mount that has its device, in mountinfo: `… MAJOR:MINOR … - KIND SOURCE …`. */
bool tree_is_moefs(const char *tree)
{
	struct stat st;
	char line[4096], device[32];
	bool is = false;
	FILE *file = stat(tree, &st) ? NULL : fopen("/proc/self/mountinfo", "re");
	if (!file)
		return false;
	(void)snprintf(device, sizeof device, " %u:%u ", major(st.st_dev), minor(st.st_dev));
	while (fgets(line, sizeof line, file))
		if (strstr(line, device) && strstr(line, " - fuse.moefs "))
			is = true;
	fclose(file);
	return is;
}

/* ---- files ---- */

static int read_all(int fd, struct text *out)
{
	char piece[PIECE];
	for (;;) {
		ssize_t n = read(fd, piece, sizeof piece);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		if (out->length + (size_t)n > TREE_MOST)
			return -EFBIG;
		text_add(out, piece, (size_t)n);
		if (out->failed)
			return -ENOMEM;
	}
}

static int write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);
		if (n < 0 && errno != EINTR)
			return -errno;
		data += n > 0 ? n : 0;
		size -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int tree_read(const char *tree, struct text *out, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	int fd = open_in(tree, O_RDONLY, format, values);
	va_end(values);
	if (fd < 0)
		return fd;
	int code = read_all(fd, out);
	close(fd);
	return code;
}

void tree_line(const char *tree, char *value, size_t size, const char *format, ...)
{
	va_list values;
	*value = 0;
	va_start(values, format);
	int fd = open_in(tree, O_RDONLY, format, values);
	va_end(values);
	if (fd < 0)
		return;
	ssize_t n = read(fd, value, size - 1);
	close(fd);
	value[n > 0 ? n : 0] = 0;
	value[strcspn(value, "\n")] = 0;
}

int tree_write_open(int fd, const char *data, size_t size, bool far)
{
	if (fd < 0)
		return fd;
	int code = write_all(fd, data, size);
	if (far && !code && fsync(fd))
		code = -errno;
	if (close(fd) && !code)
		code = -errno;
	return code;
}

int tree_write(const char *tree, const char *data, size_t size, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	int fd = open_in(tree, O_WRONLY | O_TRUNC, format, values);
	va_end(values);
	return tree_write_open(fd, data, size, false);
}

int tree_write_far(const char *tree, const char *data, size_t size, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	int fd = open_in(tree, O_WRONLY | O_TRUNC, format, values);
	va_end(values);
	return tree_write_open(fd, data, size, true);
}

int tree_put(const char *tree, const char *data, size_t size, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	int fd = open_in(tree, O_WRONLY, format, values);
	va_end(values);
	int code = fd < 0 ? fd : write_all(fd, data, size);
	if (!code)
		return fd;
	if (fd >= 0)
		close(fd);
	return code;
}

int tree_ask(const char *tree, const char *data, size_t size, struct text *out, const char *format,
	     ...)
{
	va_list values;
	va_start(values, format);
	int fd = open_in(tree, O_RDWR, format, values);
	va_end(values);
	if (fd < 0)
		return fd;
	int code = write_all(fd, data, size);
	if (!code)
		code = read_all(fd, out);
	close(fd);
	return code;
}

int tree_copy(const char *tree, const char *folder, const char *from, const char *to)
{
	char path[TREE_PATH], piece[PIECE];
	int in = tree_path(path, tree, "%s/%s", folder, from) ? open(path, O_RDONLY | O_CLOEXEC)
							      : -1;
	if (in < 0)
		return -errno;
	int out = tree_path(path, tree, "%s/%s", folder, to)
			  ? open(path, O_WRONLY | O_TRUNC | O_CLOEXEC)
			  : -1;
	int code = out < 0 ? -errno : 0;
	ssize_t n = 0;
	while (!code && (n = read(in, piece, sizeof piece)) != 0)
		if (n > 0)
			code = write_all(out, piece, (size_t)n);
		else if (errno != EINTR)
			code = -errno;
	if (out >= 0 && close(out) && !code)
		code = -errno;
	close(in);
	return code;
}

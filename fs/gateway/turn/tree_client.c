/* See tree_client.h. */
#include "fs/gateway/turn/tree_client.h"
#include "fs/base/standard.h"
#include "fs/gateway/body/json_fields.h"

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

static int tree_format_path(char path[TREE_PATH], const char *tree, const char *format,
			    va_list values)
{
	int n = snprintf(path, TREE_PATH, "%s/", tree);
	int m = n < TREE_PATH ? vsnprintf(path + n, (size_t)(TREE_PATH - n), format, values)
			      : TREE_PATH;
	return m < 0 || n + m >= TREE_PATH ? -ENAMETOOLONG : 0;
}

/* Returns a descriptor, or -errno. */
static int tree_open(const char *tree, int flags, const char *format, va_list values)
{
	char path[TREE_PATH];
	int code = tree_format_path(path, tree, format, values);
	int fd = code ? code : open(path, flags | O_CLOEXEC);
	return fd == -1 ? -errno : fd;
}

char *tree_path(char path[TREE_PATH], const char *tree, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	int code = tree_format_path(path, tree, format, values);
	va_end(values);
	return code ? NULL : path;
}

/* ---- models ---- */

/* A model is a folder with sessions/default; cache/ has none. */
bool tree_model(const char *tree, const char *name)
{
	char path[TREE_PATH];
	int fd = -1;
	/* O_PATH only looks up the name, which the kernel may have cached. */
	if (*name && *name != '.' && !strchr(name, '/') && strlen(name) < NAME_MAX &&
	    tree_path(path, tree, "%s/sessions/default", name))
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

int tree_models(const char *tree, int (*visit)(void *ctx, const char *name), void *ctx)
{
	struct dirent **names;
	int count = scandir(tree, &names, NULL, alphasort), code = 0;
	if (count < 0)
		return -errno;
	for (int i = 0; i < count; i++) {
		if (!code && tree_model(tree, names[i]->d_name))
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

static int tree_any_model(void *ctx, const char *name)
{
	(void)ctx, (void)name;
	return 1;
}

bool tree_is_gone(const char *tree, dev_t device)
{
	return tree_device(tree) != device && tree_models(tree, tree_any_model, NULL) <= 0;
}

/* mountinfo has a line `… MAJOR:MINOR … - KIND SOURCE …` for each mount. */
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

static int tree_read_all(int fd, struct text *out)
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

int tree_read(const char *tree, struct text *out, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	int fd = tree_open(tree, O_RDONLY, format, values);
	va_end(values);
	if (fd < 0)
		return fd;
	int code = tree_read_all(fd, out);
	close(fd);
	return code;
}

void tree_line(const char *tree, char *value, size_t size, const char *format, ...)
{
	va_list values;
	*value = 0;
	va_start(values, format);
	int fd = tree_open(tree, O_RDONLY, format, values);
	va_end(values);
	if (fd < 0)
		return;
	ssize_t n = read(fd, value, size - 1);
	close(fd);
	value[n > 0 ? n : 0] = 0;
	value[strcspn(value, "\n")] = 0;
}

int tree_write_open(int fd, bool far, const char *data, size_t size)
{
	if (fd < 0)
		return fd;
	int code = -standard_write_all(fd, data, size);
	if (far && !code && fsync(fd))
		code = -errno;
	if (close(fd) && !code)
		code = -errno;
	return code;
}

int tree_write(const char *tree, bool far, const char *data, size_t size, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	int fd = tree_open(tree, O_WRONLY | O_TRUNC, format, values);
	va_end(values);
	return tree_write_open(fd, far, data, size);
}

int tree_put(const char *tree, const char *data, size_t size, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	int fd = tree_open(tree, O_WRONLY, format, values);
	va_end(values);
	int code = fd < 0 ? fd : -standard_write_all(fd, data, size);
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
	int fd = tree_open(tree, O_RDWR, format, values);
	va_end(values);
	if (fd < 0)
		return fd;
	int code = -standard_write_all(fd, data, size);
	if (!code)
		code = tree_read_all(fd, out);
	close(fd);
	return code;
}

/* ---- failures ---- */

int tree_failure_read(struct tree_failure *f, const char *member, const char *tree,
		      const char *folder, ...)
{
	struct text text = {0};
	char path[TREE_PATH];
	va_list names;
	*f = (struct tree_failure){0};
	va_start(names, folder);
	(void)vsnprintf(path, sizeof path, folder, names);
	va_end(names);
	int result = tree_read(tree, &text, "%s/error.json", path);
	text_add(&text, "", 1);
	json_object *all = result || text.failed ? NULL : json_tokener_parse(text.data);
	json_object *one = member ? json_at(all, member) : NULL;
	one = one ? one : all;
	json_object *code = json_at(one, "code"), *message = json_at(one, "message");
	json_object *reason = json_at(one, "reason"), *numbers = json_at(one, "numbers");
	if (json_object_is_type(code, json_type_string) &&
	    json_object_is_type(message, json_type_string)) {
		(void)snprintf(f->code, sizeof f->code, "%s", json_object_get_string(code));
		(void)snprintf(f->message, sizeof f->message, "%s",
			       json_object_get_string(message));
		if (json_object_is_type(reason, json_type_string))
			(void)snprintf(f->reason, sizeof f->reason, "%s",
				       json_object_get_string(reason));
		f->tokens = json_object_get_uint64(json_at(numbers, "tokens"));
		f->maximum = json_object_get_uint64(json_at(numbers, "maximum"));
	}
	json_object_put(all);
	text_free(&text);
	return result;
}

enum problem_kind tree_failure_kind(const struct tree_failure *f)
{
	static const struct {
		const char *code;
		enum problem_kind kind;
	} rows[] = {
		{"bad_value", PROBLEM_INVALID},
		{"out_of_range", PROBLEM_INVALID},
		{"not_utf8", PROBLEM_INVALID},
		{"bad_name", PROBLEM_INVALID},
		{"no_param", PROBLEM_INVALID},
		{"nothing_to_do", PROBLEM_INVALID},
		{"no_template", PROBLEM_INVALID},
		{"template_refused", PROBLEM_INVALID},
		{"not_supported", PROBLEM_INVALID},
		{"too_large", PROBLEM_INVALID},
		{"prompt_too_long", PROBLEM_TOO_LONG},
		{"not_permitted", PROBLEM_FORBIDDEN},
		{"exists", PROBLEM_INVALID},
		{"not_found", PROBLEM_NOT_FOUND},
		{"busy", PROBLEM_BUSY},
		{"too_many", PROBLEM_BUSY},
		{"not_ready", PROBLEM_NOT_NOW},
		{"context_memory", PROBLEM_NOT_NOW},
		{"no_memory", PROBLEM_NOT_NOW},
		{"no_space", PROBLEM_NOT_NOW},
		{"read_failed", PROBLEM_FAILED},
		{"damaged", PROBLEM_FAILED},
		{"changed", PROBLEM_FAILED},
		{"stopped", PROBLEM_FAILED},
		{"failed", PROBLEM_FAILED},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (!strcmp(f->code, rows[i].code))
			return rows[i].kind;
	return PROBLEM_NONE;
}

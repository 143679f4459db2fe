/* A kept session as a file: see kept.h. It has records, one after the other; the last one is `end`:
 *
 *     KEY LENGTH\n
 *     the value's bytes, and a newline
 *
 * Keys: session (the version of the format, 1), name, gid, params/NAME, messages.json, tools.json,
 * template.json, choices. A reader ignores keys that it does not know. */
#include "fs/models/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEPT_VERSION = 1 };

static const struct kept_text {
	const char *key;
	enum session_text what;
} kept_texts[] = {
	/* The messages come last: a system message among them becomes params/system. */
	{"tools.json", SESSION_TOOLS},
	{"template.json", SESSION_VARIABLES},
	{"choices", SESSION_CHOICES},
	{"messages.json", SESSION_MESSAGES},
};
enum { KEPT_TEXTS = sizeof kept_texts / sizeof *kept_texts };

/* ---- folders ---- */

int kept_check_folder(int folder, const char *name, struct err *e)
{
	struct stat st;
	if (fstat(folder, &st))
		return err_sys(e, errno, "%s", name);
	if (st.st_uid != geteuid())
		return err_set(e, EPERM, "%s belongs to another user", name);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(e, EPERM, "others may write in %s: chmod go-w", name);
	return 0;
}

/* Opens NAME in a folder; if `create`, makes it if necessary. */
static int kept_folder_step(int folder, const char *name, bool create, struct err *e)
{
	if (create && mkdirat(folder, name, 0700) && errno != EEXIST)
		return err_sys(e, errno, "cannot make the folder %s for sessions", name);
	int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "cannot open the folder %s of sessions", name);
	int code = kept_check_folder(fd, name, e);
	if (code)
		close(fd);
	return code ? code : fd;
}

int kept_folder_open(int folder, uid_t uid, const char *model, bool create, struct err *e)
{
	char user[24];
	(void)snprintf(user, sizeof user, "%" PRIu32, (uint32_t)uid);
	int mine = kept_folder_step(folder, user, create, e);
	if (mine < 0)
		return mine;
	int fd = kept_folder_step(mine, model, create, e);
	close(mine);
	return fd;
}

/* ---- writing ---- */

static void kept_put(struct text *out, const char *prefix, const char *key, const char *value,
		     size_t length)
{
	text_format(out, "%s%s %zu\n", prefix, key, length);
	text_add(out, value, length);
	text_string(out, "\n");
}

static void kept_put_number(struct text *out, const char *key, uint64_t number)
{
	char digits[24];
	int n = snprintf(digits, sizeof digits, "%" PRIu64, number);
	kept_put(out, "", key, digits, (size_t)n);
}

static int kept_render(struct text *out, const struct kept_head *head, const struct session *s,
		       struct err *e)
{
	kept_put_number(out, "session", KEPT_VERSION);
	kept_put(out, "", "name", head->name, strlen(head->name));
	kept_put_number(out, "gid", head->gid);
	for (size_t i = 0; i < params_count(); i++) {
		char *value = session_param_get(s, i);
		if (!value)
			return err_set(e, ENOMEM, "no memory to keep a session");
		kept_put(out, "params/", params_name(i), value, strlen(value));
		free(value);
	}
	for (size_t i = 0; i < KEPT_TEXTS; i++) {
		size_t length;
		char *text = session_text_get(s, kept_texts[i].what, &length, e);
		if (!text)
			return -e->code;
		kept_put(out, "", kept_texts[i].key, text, length);
		free(text);
	}
	kept_put(out, "", "end", "", 0);
	if (out->failed)
		return err_set(e, ENOMEM, "no memory to keep a session");
	return out->length <= KEPT_MOST
		       ? 0
		       : err_set(e, EFBIG, "its texts have %zu bytes; at most %d are kept",
				 out->length, KEPT_MOST);
}

static int kept_write_all(int fd, const struct text *text)
{
	for (size_t at = 0; at < text->length;) {
		ssize_t n = write(fd, text->data + at, text->length - at);
		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	return fdatasync(fd) ? -errno : 0;
}

int kept_file_write(int folder, uint32_t number, const struct kept_head *head,
		    const struct session *s, struct err *e)
{
	struct text text = {0};
	char name[16], part[24];
	(void)snprintf(name, sizeof name, "%" PRIu32, number);
	(void)snprintf(part, sizeof part, "%" PRIu32 ".part", number);
	int code = kept_render(&text, head, s, e);
	if (!code) {
		(void)unlinkat(folder, part, 0); /* from a mount that was killed */
		int fd = openat(folder, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				0600);
		int result = fd < 0 ? -errno : kept_write_all(fd, &text);
		if (fd >= 0 && close(fd) && !result)
			result = -errno;
		if (!result && renameat(folder, part, folder, name))
			result = -errno;
		if (result) {
			(void)unlinkat(folder, part, 0);
			code = err_sys(e, -result, "cannot write its file");
		}
	}
	text_free(&text);
	return code;
}

/* ---- reading ---- */

/* The next record of a file. Returns its value, or NULL: the file is damaged. */
static const char *kept_next(const struct text *text, size_t *at, char key[64], size_t *length)
{
	const char *line = text->data + *at;
	const char *end = memchr(line, '\n', text->length - *at);
	const char *blank = end ? memchr(line, ' ', (size_t)(end - line)) : NULL;
	char *stop;
	if (!blank || blank - line > 63 || blank[1] < '0' || blank[1] > '9')
		return NULL;
	memcpy(key, line, (size_t)(blank - line));
	key[blank - line] = 0;
	errno = 0;
	unsigned long long n = strtoull(blank + 1, &stop, 10);
	size_t left = text->length - (size_t)(end + 1 - text->data);
	if (errno || stop != end || n >= left || end[1 + n] != '\n')
		return NULL;
	*length = (size_t)n;
	*at = (size_t)(end + 1 + n + 1 - text->data);
	return end + 1;
}

static int kept_read_all(int folder, const char *name, struct text *text, struct err *e)
{
	struct stat st;
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "cannot open it");
	int code = fstat(fd, &st) ? err_sys(e, errno, "cannot look at it") : 0;
	if (!code && (!S_ISREG(st.st_mode) || st.st_uid != geteuid()))
		code = err_set(e, EPERM, "it is not a file of this user");
	if (!code && st.st_size > KEPT_MOST)
		code = err_set(e, EFBIG, "it has %lld bytes; at most %d are read",
			       (long long)st.st_size, KEPT_MOST);
	while (!code && text->length <= KEPT_MOST) {
		char piece[16 << 10];
		ssize_t n = read(fd, piece, sizeof piece);
		if (n == 0)
			break;
		if (n < 0 && errno != EINTR)
			code = err_sys(e, errno, "cannot read it");
		if (n > 0)
			text_add(text, piece, (size_t)n);
	}
	close(fd);
	if (!code && text->failed)
		code = err_set(e, ENOMEM, "no memory to read it");
	return code;
}

int kept_file_read(int folder, uint32_t number, struct kept_head *head, struct text *text,
		   struct err *e)
{
	char name[16], key[64] = "";
	size_t at = 0, length;
	(void)snprintf(name, sizeof name, "%" PRIu32, number);
	*head = (struct kept_head){.gid = getgid()};
	int code = kept_read_all(folder, name, text, e);
	for (const char *value; !code && strcmp(key, "end") != 0;) {
		value = text->length ? kept_next(text, &at, key, &length) : NULL;
		if (!value)
			return err_set(e, EINVAL, "it is not a kept session, or was cut short");
		if (!strcmp(key, "name") && length < sizeof head->name && !memchr(value, 0, length))
			memcpy(head->name, value, length);
		if (!strcmp(key, "gid"))
			head->gid = (gid_t)strtoul(value, NULL, 10);
		if (!strcmp(key, "session") && strtoul(value, NULL, 10) != KEPT_VERSION)
			return err_set(e, EINVAL, "a newer moefs has written it");
	}
	return code;
}

/* Sets one param or text of a session. Other keys are ignored. */
static int kept_take(const struct kept_target *to, const char *key, const char *value,
		     size_t length, struct err *e)
{
	static const char params[] = "params/";
	if (!strncmp(key, params, sizeof params - 1)) {
		size_t i = params_find(key + sizeof params - 1);
		bool taken = i < params_count() && !(to->skips && to->skips(to->mount, i));
		return taken ? session_param_set(to->session, i, value, length, e) : 0;
	}
	for (size_t i = 0; i < KEPT_TEXTS; i++)
		if (!strcmp(key, kept_texts[i].key))
			return session_text_set(to->session, kept_texts[i].what, value, length, e);
	return 0;
}

int kept_file_apply(const struct text *text, const struct kept_target *to, struct err *e)
{
	char key[64] = "";
	const char *value;
	size_t at = 0, length;
	int code = 0;
	while (strcmp(key, "end") != 0 && (value = kept_next(text, &at, key, &length))) {
		struct err why = {0};
		int failed = kept_take(to, key, value, length, &why);
		if (failed && !code)
			code = err_because(e, &why, why.code, "%s: %s", key, why.text);
	}
	return code;
}

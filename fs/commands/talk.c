/* See talk.h. */
#include "fs/commands/talk.h"
#include "fs/base/standard.h"
#include "fs/commands/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 16 }; /* bytes per read */

/* ---- begin and end ---- */

static int talk_make_session(struct talk *t, const char *model, const char *name, bool stays,
			     struct err *e)
{
	free(t->folder);
	t->folder = NULL;
	if (strchr(name, '/') || asprintf(&t->folder, "%s/sessions/%s", model, name) < 0) {
		t->folder = NULL;
		return err_set(e, EINVAL, "\"%s\" cannot be the name of a session", name);
	}
	if (!t->own)
		return keeper_of_session(&t->keeper, t->folder, stays, e);
	/* The keeper of this command's own mount removes the session with it. */
	return mkdir(t->folder, 0700) == 0
		       ? 0
		       : err_sys(e, errno, "cannot make the session %s", t->folder);
}

/* KIND-PROCESS, or KIND-PROCESS-N if a process of another PID namespace with the same number uses
 * that name. */
static int talk_make_own_session(struct talk *t, const char *model, const char *kind, struct err *e)
{
	int code = -EEXIST;
	for (unsigned i = 0; code == -EEXIST && i < 100; i++) {
		char name[64];
		(void)snprintf(name, sizeof name, i ? "%s-%d-%u" : "%s-%d", kind, (int)getpid(), i);
		code = talk_make_session(t, model, name, false, e);
	}
	return code;
}

int talk_begin(struct talk *t, const char *model, const char *session, const char *kind,
	       struct err *e)
{
	char *folder = NULL, *path = NULL;
	*t = (struct talk){0};
	int code = find_model(model, &folder, &path, e);
	if (!code && !folder && session)
		code = err_set(e, ENOENT,
			       "-s %s needs a mounted model, since the session would go with the "
			       "command's own mount: "
			       "first moefs %s MOUNTPOINT",
			       session, model);
	if (!code && !folder) {
		code = keeper_of_mount(&t->keeper, path, &t->own, e);
		if (!code)
			code = find_only_model(t->own, &folder, e);
	}
	if (!code)
		code = session ? talk_make_session(t, folder, session, true, e)
			       : talk_make_own_session(t, folder, kind, e);
	free(folder);
	free(path);
	return code;
}

void talk_end(struct talk *t)
{
	keeper_end(&t->keeper);
	free(t->folder);
	free(t->own);
	*t = (struct talk){0};
}

/* ---- its files ---- */

static int talk_open(const struct talk *t, const char *file, int flags)
{
	char path[4096];
	if (snprintf(path, sizeof path, "%s/%s", t->folder, file) >= (int)sizeof path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return open(path, flags | O_CLOEXEC);
}

/* Sets e to the text of the session's error, or if that is empty, to the errno's text. */
static int talk_why(const struct talk *t, const char *what, int code, struct err *e)
{
	char words[sizeof e->text];
	if (mounts_value(t->folder, "error", words, sizeof words))
		*words = 0;
	return *words ? err_set(e, code, "%s", words) : err_sys(e, code, "%s", what);
}

/* Some files take effect when they are closed, so close may report a refusal. */
static int talk_put(const struct talk *t, const char *file, const char *data, size_t size,
		    struct err *e)
{
	int fd = talk_open(t, file, O_WRONLY | O_TRUNC);
	int failed = fd < 0 ? errno : standard_write_all(fd, data, size);
	if (fd >= 0 && close(fd) && !failed)
		failed = errno;
	return failed ? talk_why(t, file, failed, e) : 0;
}

int talk_set(const struct talk *t, const char *param, const char *value, size_t size, struct err *e)
{
	char file[256];
	bool fits = snprintf(file, sizeof file, "params/%s", param) < (int)sizeof file;
	struct stat st;
	char path[4096];
	if (!fits || strchr(param, '/') ||
	    snprintf(path, sizeof path, "%s/%s", t->folder, file) >= (int)sizeof path ||
	    stat(path, &st) || !S_ISREG(st.st_mode))
		return err_set(e, ENOENT, "there is no param \"%s\"; moefs(5) lists the params",
			       param);
	return talk_put(t, file, value, size, e);
}

int talk_verb(const struct talk *t, const char *verb, struct err *e)
{
	return talk_put(t, "ctl", verb, strlen(verb), e);
}

int talk_ask(const struct talk *t, const char *prompt, size_t size, struct err *e)
{
	return talk_put(t, "prompt", prompt, size, e);
}

size_t talk_longest(const struct talk *t)
{
	char value[64] = "";
	(void)mounts_value(t->folder, "../../info/max_prompt_bytes", value, sizeof value);
	return strtoull(value, NULL, 10);
}

/* Copies the file's text while it grows. */
static int talk_follow(const struct talk *t, const char *file, int from, struct terminal_output *to,
		       struct err *e)
{
	char piece[PIECE];
	struct terminal_progress progress = {.session = t->folder};
	int code = 0;
	ssize_t n = 1;
	while (!code && n > 0) {
		int woken = terminal_wait(from, progress.over ? -1 : TERMINAL_TICK_MS);
		if (woken == -EAGAIN) {
			terminal_show_progress(&progress);
			continue;
		}
		terminal_end_progress(&progress);
		if (woken)
			code = talk_verb(t, "stop", e);
		n = read(from, piece, sizeof piece);
		if (n > 0 && !code)
			code = terminal_show(to, piece, (size_t)n, e);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			n = 1;
		else if (n < 0)
			code = talk_why(t, file, errno, e);
	}
	return code;
}

int talk_show(const struct talk *t, const char *file, int fd, bool dim, struct err *e)
{
	struct terminal_output to;
	struct err ignored;
	int from = talk_open(t, file, O_RDONLY), code;
	terminal_begin(&to, fd, dim);
	if (from < 0 || fcntl(from, F_SETFL, O_NONBLOCK))
		code = talk_why(t, file, errno, e);
	else
		code = talk_follow(t, file, from, &to, e);
	if (from >= 0)
		close(from);
	int ended = terminal_end(&to, code ? &ignored : e);
	return code ? code : ended;
}

/* ---- its plan ---- */

static int talk_copy(const struct talk *t, int from, const char *from_name, int to,
		     const char *to_name, struct err *e);

int talk_plan(const struct talk *t, const char *prompt, size_t size, struct err *e)
{
	int fd = talk_open(t, "plan", O_RDWR), code = 0;
	for (ssize_t n; fd >= 0 && size && !code; prompt += n, size -= (size_t)n) {
		n = write(fd, prompt, size);
		if (n < 0 && errno != EINTR)
			code = talk_why(t, "plan", errno, e);
		n = n < 0 ? 0 : n;
	}
	if (fd < 0)
		code = talk_why(t, "plan", errno, e);
	else if (!code)
		code = talk_copy(t, fd, "plan", STDOUT_FILENO, "standard output", e);
	if (fd >= 0)
		close(fd);
	return code;
}

/* ---- its state ---- */

/* t: the session that is written to, whose error has the reason of a failure; NULL: writes to a
 * file. */
static int talk_copy(const struct talk *t, int from, const char *from_name, int to,
		     const char *to_name, struct err *e)
{
	char piece[PIECE];
	for (;;) {
		ssize_t n = read(from, piece, sizeof piece);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "cannot read %s", from_name);
		if (n == 0)
			return 0;
		int failed = standard_write_all(to, piece, (size_t)n);
		if (failed)
			return t ? talk_why(t, to_name, failed, e)
				 : err_sys(e, failed, "%s", to_name);
	}
}

int talk_save(const struct talk *t, const char *path, struct err *e)
{
	int from = talk_open(t, "state", O_RDONLY);
	if (from < 0)
		return talk_why(t, "state", errno, e);
	int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int code = to < 0 ? err_sys(e, errno, "%s", path)
			  : talk_copy(NULL, from, "state", to, path, e);
	if (to >= 0 && close(to) && !code)
		code = err_sys(e, errno, "%s", path);
	close(from);
	return code;
}

int talk_load(const struct talk *t, const char *path, struct err *e)
{
	int from = open(path, O_RDONLY | O_CLOEXEC);
	if (from < 0)
		return err_sys(e, errno, "%s", path);
	int to = talk_open(t, "state", O_WRONLY | O_TRUNC);
	int code =
		to < 0 ? talk_why(t, "state", errno, e) : talk_copy(t, from, path, to, "state", e);
	if (to >= 0 && close(to) && !code)
		code = talk_why(t, "state", errno, e);
	close(from);
	return code;
}

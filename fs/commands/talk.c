/* A conversation by its files. See talk.h. */
#include "fs/commands/talk.h"
#include "fs/commands/find.h"
#include "fs/commands/interrupt.h"
#include "fs/commands/mounts.h"
#include "fs/commands/waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 16 }; /* bytes that are read at once */

/* ---- beginning and end ---- */

static int begin_own(struct talk *t, const char *path, char **model, struct err *e)
{
	int code = keeper_of_mount(&t->keeper, path, &t->own, e);
	return code ? code : find_only(t->own, model, e);
}

/* In a mount of its own nothing else needs to be undone. */
static int make_session(struct talk *t, const char *model, const char *name, bool stays,
			struct err *e)
{
	free(t->folder);
	t->folder = NULL;
	if (strchr(name, '/') || asprintf(&t->folder, "%s/sessions/%s", model, name) < 0) {
		t->folder = NULL;
		return err_set(e, EINVAL, "'%s' is no name of a session", name);
	}
	if (!t->own)
		return keeper_of_session(&t->keeper, t->folder, stays, e);
	return mkdir(t->folder, 0700) == 0
		       ? 0
		       : err_sys(e, errno, "cannot make the session %s", t->folder);
}

static int make_own_session(struct talk *t, const char *model, const char *kind, struct err *e)
{
	int code = -EEXIST;
	/* What is there already is of a process that another namespace gave the same number. */
	for (unsigned i = 0; code == -EEXIST && i < 100; i++) {
		char name[64];
		(void)snprintf(name, sizeof name, i ? "%s-%d-%u" : "%s-%d", kind, (int)getpid(), i);
		code = make_session(t, model, name, false, e);
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
			       "a session that stays needs a mount that does: `moefs %s "
			       "MOUNTPOINT` makes one",
			       model);
	if (!code && !folder)
		code = begin_own(t, path, &folder, e);
	if (!code)
		code = session ? make_session(t, folder, session, true, e)
			       : make_own_session(t, folder, kind, e);
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

static int open_file(const struct talk *t, const char *file, int flags)
{
	char path[4096];
	if (snprintf(path, sizeof path, "%s/%s", t->folder, file) >= (int)sizeof path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return open(path, flags | O_CLOEXEC);
}

/* What the session says of its last failure; the words of the errno if it says nothing. */
static int why(const struct talk *t, const char *what, int code, struct err *e)
{
	char words[sizeof e->text];
	int fd = open_file(t, "error", O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, words, sizeof words - 1);
	if (fd >= 0)
		close(fd);
	words[n > 0 ? n : 0] = 0;
	words[strcspn(words, "\n")] = 0;
	return *words ? err_set(e, code, "%s", words) : err_sys(e, code, "%s", what);
}

static int write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);
		if (n < 0 && errno != EINTR)
			return errno;
		data += n > 0 ? n : 0;
		size -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Some take effect when they are closed, so that is where they are refused. */
static int put(const struct talk *t, const char *file, const char *data, size_t size, struct err *e)
{
	int fd = open_file(t, file, O_WRONLY | O_TRUNC);
	int failed = fd < 0 ? errno : write_all(fd, data, size);
	if (fd >= 0 && close(fd) && !failed)
		failed = errno;
	return failed ? why(t, file, failed, e) : 0;
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
		return err_set(e, ENOENT, "there is no param '%s'; moefs(5) lists them",
			       param);
	return put(t, file, value, size, e);
}

int talk_verb(const struct talk *t, const char *verb, struct err *e)
{
	return put(t, "ctl", verb, strlen(verb), e);
}

int talk_ask(const struct talk *t, const char *prompt, size_t size, struct err *e)
{
	return put(t, "prompt", prompt, size, e);
}

size_t talk_most(const struct talk *t)
{
	char value[64] = "";
	(void)mounts_value(t->folder, "../../info/max_prompt_bytes", value, sizeof value);
	return strtoull(value, NULL, 10);
}

int talk_show(const struct talk *t, const char *file, struct screen *to, struct err *e)
{
	int fd = open_file(t, file, O_RDONLY);
	if (fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK)) {
		int code = why(t, file, errno, e);
		if (fd >= 0)
			close(fd);
		return code;
	}
	char piece[PIECE];
	struct waiting waiting = {.session = t->folder};
	int code = 0;
	ssize_t n = 1;
	while (!code && n > 0) {
		int woken = interrupt_wait(fd, waiting.over ? -1 : WAITING_TICK_MS);
		if (woken == -EAGAIN) {
			waiting_show(&waiting);
			continue;
		}
		waiting_end(&waiting);
		if (woken)
			code = talk_verb(t, "stop", e);
		n = read(fd, piece, sizeof piece);
		if (n > 0 && !code)
			code = screen_show(to, piece, (size_t)n, e);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			n = 1;
		else if (n < 0)
			code = why(t, file, errno, e);
	}
	close(fd);
	return code;
}

/* ---- its state ---- */

/* t: of the session that is written to; NULL: a file is. */
static int copy(const struct talk *t, int from, const char *from_name, int to, const char *to_name,
		struct err *e)
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
		int failed = write_all(to, piece, (size_t)n);
		if (failed)
			return t ? why(t, to_name, failed, e) : err_sys(e, failed, "%s", to_name);
	}
}

int talk_save(const struct talk *t, const char *path, struct err *e)
{
	int from = open_file(t, "state", O_RDONLY);
	if (from < 0)
		return why(t, "state", errno, e);
	int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int code = to < 0 ? err_sys(e, errno, "%s", path) : copy(NULL, from, "state", to, path, e);
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
	int to = open_file(t, "state", O_WRONLY | O_TRUNC);
	int code = to < 0 ? why(t, "state", errno, e) : copy(t, from, path, to, "state", e);
	if (to >= 0 && close(to) && !code)
		code = why(t, "state", errno, e);
	close(from);
	return code;
}

/* See daemon_log.h.
 *
 * Callers and the writing thread share a pipe of packets (pipe(2), O_DIRECT). A packet is one
 * message, complete or not written at all, so no lock is needed. */
#include "fs/base/daemon_log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

enum message_kind { SAY = 's', NOTE = 'n', PROGRESS = 'p' }; /* the first byte of a message */
enum { MESSAGE_MOST = 2048 };				     /* most bytes; fewer than PIPE_BUF */

struct daemon_log {
	int speak, listen; /* the ends of the pipe */
	pthread_t thread;
	char *file; /* NULL: none */
	bool journal, terminal;
	bool progress; /* a line of progress is on the terminal; used only by the thread */
	_Atomic unsigned lost;
};

/* ---- the writing thread ---- */

static int daemon_log_open(const char *file)
{
	return open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
}

static void daemon_log_write_note(const struct daemon_log *l, const char *sentence)
{
	char when[sizeof "2026-01-02 03:04:05"] = "";
	struct tm local;
	time_t now = time(NULL);
	if (l->journal) {
		syslog(LOG_INFO, "%s", sentence);
		return;
	}
	int fd = l->file ? daemon_log_open(l->file) : -1;
	if (fd < 0) /* the error cannot be reported anywhere */
		return;
	if (localtime_r(&now, &local))
		(void)strftime(when, sizeof when, "%F %T", &local);
	(void)dprintf(fd, "%s moefs[%d]: %s\n", when, (int)getpid(), sentence);
	close(fd);
}

static void daemon_log_write_line(struct daemon_log *l, const char *sentence)
{
	if (l->terminal)
		(void)fprintf(stderr, "%smoefs: %s\n", l->progress ? "\r\033[K" : "", sentence);
	l->progress = false;
	daemon_log_write_note(l, sentence);
}

static void daemon_log_write_progress(struct daemon_log *l, const char *line)
{
	if (!l->terminal || (!*line && !l->progress))
		return;
	if (*line)
		(void)fprintf(stderr, "\r\033[Kmoefs: %s", line);
	else
		(void)fputc('\n', stderr);
	l->progress = *line != 0;
}

static void *daemon_log_thread(void *ctx)
{
	struct daemon_log *l = ctx;
	char message[MESSAGE_MOST + 1], dropped[64];
	ssize_t n;
	while ((n = read(l->listen, message, MESSAGE_MOST)) != 0) {
		if (n < 0 && errno != EINTR)
			break;
		if (n < 1)
			continue;
		message[n] = 0;
		if (*message == PROGRESS)
			daemon_log_write_progress(l, message + 1);
		else if (*message == NOTE)
			daemon_log_write_note(l, message + 1);
		else
			daemon_log_write_line(l, message + 1);
		unsigned lost = atomic_exchange(&l->lost, 0);
		if (lost) {
			(void)snprintf(dropped, sizeof dropped, "%u lines were dropped here", lost);
			daemon_log_write_line(l, dropped);
		}
	}
	daemon_log_write_progress(l, "");
	return NULL;
}

/* ---- any thread ---- */

static int daemon_log_check(struct daemon_log *l, const char *log, struct err *e)
{
	if (!log)
		return 0;
	if (!strcmp(log, "journal")) {
		if (access("/dev/log", W_OK))
			return err_sys(e, errno,
				       "-o log=journal: this system has no log at /dev/log");
		openlog("moefs", LOG_PID, LOG_DAEMON);
		l->journal = true;
		return 0;
	}
	l->file = strdup(log);
	int fd = l->file ? daemon_log_open(log) : -1;
	if (fd < 0)
		return err_sys(e, errno, "-o log=%s", log);
	struct stat st;
	int code = fstat(fd, &st) ? errno : S_ISDIR(st.st_mode) ? EISDIR : 0;
	close(fd);
	return code ? err_sys(e, code, "-o log=%s", log) : 0;
}

static int daemon_log_start(struct daemon_log *l, struct err *e)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC | O_DIRECT))
		return err_sys(e, errno, "cannot make a pipe");
	l->listen = ends[0];
	l->speak = ends[1];
	if (fcntl(l->speak, F_SETFL, O_DIRECT | O_NONBLOCK))
		return err_sys(e, errno, "cannot make a pipe nonblocking");
	int code = pthread_create(&l->thread, NULL, daemon_log_thread, l);
	return code ? err_sys(e, code, "cannot start a thread") : 0;
}

static void daemon_log_free(struct daemon_log *l)
{
	if (l->speak >= 0)
		close(l->speak);
	if (l->listen >= 0)
		close(l->listen);
	if (l->journal)
		closelog();
	free(l->file);
	free(l);
}

int daemon_log_begin(struct daemon_log **out, const char *log, bool terminal, struct err *e)
{
	struct daemon_log *l = calloc(1, sizeof *l);
	if (!l)
		return err_set(e, ENOMEM, "no memory for the log");
	l->speak = l->listen = -1;
	l->terminal = terminal;
	int code = daemon_log_check(l, log, e);
	if (!code)
		code = daemon_log_start(l, e);
	if (code)
		daemon_log_free(l);
	else
		*out = l;
	return code;
}

static void daemon_log_send(struct daemon_log *l, enum message_kind kind, const char *sentence)
{
	char message[MESSAGE_MOST];
	if (!l)
		return;
	int n = snprintf(message, sizeof message, "%c%s", (char)kind, sentence);
	size_t length = n < (int)sizeof message ? (size_t)n : sizeof message - 1;
	if (write(l->speak, message, length) < 0 && kind != PROGRESS)
		atomic_fetch_add(&l->lost, 1);
}

void daemon_log_say(struct daemon_log *l, const char *sentence)
{
	daemon_log_send(l, SAY, sentence);
}

void daemon_log_note(struct daemon_log *l, const char *sentence)
{
	daemon_log_send(l, NOTE, sentence);
}

void daemon_log_progress(struct daemon_log *l, const char *line)
{
	daemon_log_send(l, PROGRESS, line);
}

void daemon_log_end(struct daemon_log *l)
{
	if (!l)
		return;
	close(l->speak);
	l->speak = -1;
	(void)pthread_join(l->thread, NULL);
	daemon_log_free(l);
}

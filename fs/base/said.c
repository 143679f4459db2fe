/* The daemon's words, on their way out. See said.h.
 *
 * Between those who speak and the thread that writes is a pipe of packets (pipe(2), O_DIRECT): each
 * is one message, whole or not at all, so there is no lock. */
#include "fs/base/said.h"

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

enum kind { LINE = 'l', LOG = 'g', PROGRESS = 'p' };
enum { MESSAGE = 2048 }; /* bytes of one at most, fewer than PIPE_BUF */

struct said {
	int speak, listen; /* the pipe's ends */
	pthread_t thread;
	char *file; /* NULL: none */
	bool journal;
	bool begun; /* a line of progress stands on the terminal; the thread's own */
	bool terminal;
	_Atomic unsigned lost;
};

/* ---- the thread's ---- */

static int open_file(const char *file)
{
	return open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
}

static void to_file(const struct said *s, const char *sentence)
{
	char when[sizeof "2026-01-02 03:04:05"] = "";
	struct tm local;
	time_t now = time(NULL);
	if (localtime_r(&now, &local))
		(void)strftime(when, sizeof when, "%F %T", &local);
	int fd = open_file(s->file);
	if (fd < 0) /* then there is nobody to tell */
		return;
	(void)dprintf(fd, "%s moefs[%d]: %s\n", when, (int)getpid(), sentence);
	close(fd);
}

static void write_log(const struct said *s, const char *sentence)
{
	if (s->journal)
		syslog(LOG_INFO, "%s", sentence);
	else if (s->file)
		to_file(s, sentence);
}

static void write_line(struct said *s, const char *sentence)
{
	if (s->terminal)
		(void)fprintf(stderr, "%smoefs: %s\n", s->begun ? "\r\033[K" : "", sentence);
	s->begun = false;
	write_log(s, sentence);
}

static void write_progress(struct said *s, const char *line)
{
	if (!s->terminal || (!*line && !s->begun))
		return;
	if (*line)
		(void)fprintf(stderr, "\r\033[Kmoefs: %s", line);
	else
		(void)fputc('\n', stderr);
	s->begun = *line != 0;
}

static void *run(void *ctx)
{
	struct said *s = ctx;
	char message[MESSAGE + 1], words[64];
	ssize_t n;
	while ((n = read(s->listen, message, MESSAGE)) != 0) {
		if (n < 0 && errno != EINTR)
			break;
		if (n < 1)
			continue;
		message[n] = 0;
		switch ((enum kind) * message) {
		case PROGRESS:
			write_progress(s, message + 1);
			break;
		case LOG:
			write_log(s, message + 1);
			break;
		case LINE:
			write_line(s, message + 1);
			break;
		}
		unsigned lost = atomic_exchange(&s->lost, 0);
		if (lost) {
			(void)snprintf(words, sizeof words, "%u lines are left out here", lost);
			write_line(s, words);
		}
	}
	if (s->begun)
		write_progress(s, "");
	return NULL;
}

/* ---- everybody's ---- */

static int check_log(struct said *s, const char *log, struct err *e)
{
	if (!log)
		return 0;
	if (!strcmp(log, "journal")) {
		if (access("/dev/log", W_OK))
			return err_sys(e, errno,
				       "-o log=journal: there is no system's log here: /dev/log");
		openlog("moefs", LOG_PID, LOG_DAEMON);
		s->journal = true;
		return 0;
	}
	s->file = strdup(log);
	int fd = s->file ? open_file(log) : -1;
	if (fd < 0)
		return err_sys(e, errno, "-o log=%s", log);
	struct stat st;
	int code = fstat(fd, &st) ? errno : 0;
	close(fd);
	if (code || S_ISDIR(st.st_mode))
		return err_sys(e, code ? code : EISDIR, "-o log=%s", log);
	return 0;
}

static int start(struct said *s, struct err *e)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC | O_DIRECT))
		return err_sys(e, errno, "cannot make a pipe");
	s->listen = ends[0];
	s->speak = ends[1];
	if (fcntl(s->speak, F_SETFL, O_DIRECT | O_NONBLOCK))
		return err_sys(e, errno, "cannot make a pipe nonblocking");
	int code = pthread_create(&s->thread, NULL, run, s);
	return code ? err_sys(e, code, "cannot start a thread") : 0;
}

static void discard(struct said *s)
{
	if (s->speak >= 0)
		close(s->speak);
	if (s->listen >= 0)
		close(s->listen);
	if (s->journal)
		closelog();
	free(s->file);
	free(s);
}

int said_begin(struct said **out, const char *log, bool terminal, struct err *e)
{
	struct said *s = calloc(1, sizeof *s);
	if (!s)
		return err_set(e, ENOMEM, "no memory for the log");
	s->speak = s->listen = -1;
	s->terminal = terminal;
	int code = check_log(s, log, e);
	if (!code)
		code = start(s, e);
	if (code) {
		discard(s);
		return code;
	}
	*out = s;
	return 0;
}

static void send(struct said *s, enum kind kind, const char *words)
{
	char message[MESSAGE];
	if (!s)
		return;
	int n = snprintf(message, sizeof message, "%c%s", (char)kind, words);
	size_t length = n < (int)sizeof message ? (size_t)n : sizeof message - 1;
	if (write(s->speak, message, length) < 0 && kind != PROGRESS)
		atomic_fetch_add(&s->lost, 1);
}

void said_line(struct said *s, const char *sentence)
{
	send(s, LINE, sentence);
}

void said_log(struct said *s, const char *sentence)
{
	send(s, LOG, sentence);
}

void said_progress(struct said *s, const char *line)
{
	send(s, PROGRESS, line);
}

void said_end(struct said *s)
{
	if (!s)
		return;
	close(s->speak);
	s->speak = -1;
	(void)pthread_join(s->thread, NULL);
	discard(s);
}

/* See http.h. */
#include "fs/program/http.h"
#include "fs/gateway/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int http_listen(struct http *h, const char *address, const char *key_file, struct err *e)
{
	h->socket = -1;
	h->key_file = key_file;
	if (!address && key_file)
		return err_set(e, EINVAL,
			       "-o key_file= needs -o http, whose clients must send these keys");
	if (!address)
		return 0;
	if (key_file && access(key_file, R_OK))
		return err_sys(e, errno, "-o key_file=%s", key_file);
	int fd = listen_on(*address ? address : LISTEN_DEFAULT, e);
	if (fd < 0)
		return fd;
	if (!key_file && !listen_is_local(fd)) {
		close(fd);
		return err_set(e, EPERM,
			       "-o http=%s: other machines can reach this address, so clients need "
			       "keys: add -o key_file=FILE, one key per line",
			       address);
	}
	h->socket = fd;
	return 0;
}

/* Finds moefs-http beside this program, where make and make install put it, else in PATH. */
static void http_find_program(char path[4096])
{
	ssize_t n = readlink("/proc/self/exe", path, 4096 - sizeof "-http");
	path[n > 0 ? n : 0] = 0;
	char *name = strrchr(path, '/');
	if (name)
		strcpy(name + 1, "moefs-http");
	if (!name || access(path, X_OK))
		strcpy(path, "moefs-http");
}

/* Runs in the child of a process with threads, so it may only make system calls. */
static void http_exec(const struct http *h, int messages, const char *path, char *const *arguments,
		      pid_t parent)
{
	enum { PASSED = 3 };
	sigset_t none;
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	bool kept = null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
		    dup2(messages, STDERR_FILENO) < 0;
	/* Last: descriptor 3 may be any of the others. */
	int fd = h->socket == PASSED ? fcntl(h->socket, F_SETFD, 0) : dup2(h->socket, PASSED);
	if (fd < 0 || kept || prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent)
		_exit(127);
	(void)execvp(path, arguments);
	_exit(127);
}

/* Logs the lines of the gateway's standard error until its end. */
static void *http_log_messages(void *arg)
{
	static const char prefix[] = "moefs-http: ";
	const struct http *h = arg;
	FILE *lines = fdopen(h->messages, "r");
	char line[sizeof((struct err *)0)->text];
	while (lines && fgets(line, sizeof line, lines)) {
		bool named = !strncmp(line, prefix, sizeof prefix - 1);
		line[strcspn(line, "\n")] = 0;
		daemon_log_say(h->log, named ? line + sizeof prefix - 1 : line);
	}
	if (lines)
		(void)fclose(lines);
	else
		close(h->messages);
	return NULL;
}

static int http_start(struct http *h, const char *path, char *const *arguments, struct err *e)
{
	int ends[2];
	pid_t parent = getpid();
	if (pipe2(ends, O_CLOEXEC))
		return err_sys(e, errno, "cannot make a pipe");
	h->process = fork();
	if (h->process == 0)
		http_exec(h, ends[1], path, arguments, parent);
	int code = h->process < 0 ? err_sys(e, errno, "cannot start moefs-http") : 0;
	close(ends[1]);
	h->messages = ends[0];
	if (!code) {
		int failed = pthread_create(&h->listener, NULL, http_log_messages, h);
		if (!failed)
			return 0;
		code = err_sys(e, failed, "cannot start moefs-http");
		(void)kill(h->process, SIGKILL);
		(void)waitpid(h->process, NULL, 0);
	}
	close(ends[0]);
	h->process = 0;
	return code;
}

void http_url(const struct http *h, char *url, unsigned size)
{
	char words[256];
	*url = 0;
	if (h->socket < 0)
		return;
	listen_words(h->socket, words, sizeof words);
	(void)snprintf(url, size, "%s%s", strncmp(words, "unix:", 5) ? "http://" : "", words);
}

int http_begin(struct http *h, const char *tree, struct daemon_log *log, struct err *e)
{
	char path[4096], keys[4096 + sizeof "key_file="];
	char *const arguments[] = {"moefs-http",
				   "-o",
				   "listen=fd:3",
				   (char *)(uintptr_t)tree,
				   h->key_file ? "-o" : NULL,
				   keys,
				   NULL};
	if (h->socket < 0)
		return 0;
	h->log = log;
	(void)snprintf(keys, sizeof keys, "key_file=%s", h->key_file ? h->key_file : "");
	http_find_program(path);
	if (*path == '/' && access(path, X_OK))
		return err_sys(e, errno, "%s", path);
	int code = http_start(h, path, arguments, e);
	if (code)
		return code;
	close(h->socket);
	h->socket = -1;
	return 0;
}

void http_end(const struct http *h)
{
	if (h->process)
		(void)kill(h->process, SIGTERM);
}

void http_wait(struct http *h)
{
	if (h->socket >= 0)
		close(h->socket);
	h->socket = -1;
	if (!h->process)
		return;
	(void)pthread_join(h->listener, NULL);
	while (waitpid(h->process, NULL, 0) < 0 && errno == EINTR)
		;
	h->process = 0;
}

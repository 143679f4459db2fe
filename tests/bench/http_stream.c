/* Streams of chats over one connection. See http_stream.h. */
#include "tests/bench/http_stream.h"
#include "cache/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 4096 };

/* ---- the server ---- */

static void run_server(const char *program, const char *tree, int says)
{
	char path[PATH_MAX];
	if (!program) {
		ssize_t n = readlink("/proc/self/exe", path, sizeof path - 16);
		path[n > 0 ? n : 0] = 0;
		char *name = strrchr(path, '/');
		strcpy(name ? name + 1 : path, "moefs-http");
		program = path;
	}
	dup2(says, STDERR_FILENO);
	execl(program, program, "-o", "listen=127.0.0.1:0,poll=on", tree, (char *)NULL);
	_exit(127);
}

int gateway_begin(struct gateway_process *s, const char *program, const char *tree, struct err *e)
{
	char line[256] = "";
	size_t n = 0;
	int says[2];
	if (pipe2(says, O_CLOEXEC))
		return err_sys(e, errno, "cannot make a pipe");
	s->pid = fork();
	if (s->pid == 0)
		run_server(program, tree, says[1]);
	close(says[1]);
	while (s->pid > 0 && n < sizeof line - 1 && !strchr(line, '\n') &&
	       read(says[0], line + n, 1) == 1)
		n++;
	/* It is not read on: what is said later is nothing to be waited for. */
	close(says[0]);
	const char *colon = strrchr(line, ':');
	s->port = colon && strstr(line, "listening on ") ? atoi(colon + 1) : 0;
	return s->port ? 0 : err_set(e, EIO, "moefs-http does not begin: %.200s", line);
}

void gateway_end(struct gateway_process *s)
{
	if (s->pid <= 0)
		return;
	kill(s->pid, SIGTERM);
	waitpid(s->pid, NULL, 0);
	s->pid = 0;
}

int gateway_connect(const struct gateway_process *s, struct err *e)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)s->port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !connect(fd, (const struct sockaddr *)&to, sizeof to) &&
	    !setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)))
		return fd;
	int code = err_sys(e, errno, "cannot connect to moefs-http");
	if (fd >= 0)
		close(fd);
	return code;
}

/* ---- one question ---- */

struct answer_lines {
	char line[LINE];
	size_t length;
	uint64_t bytes; /* of the answer's text */
	bool failed, over;
};

/* Bytes of a JSON text up to its closing quote; what is escaped counts as one. */
static uint64_t json_bytes(const char *at)
{
	uint64_t n = 0;
	for (; *at && *at != '"'; at++, n++)
		at += *at == '\\' && at[1];
	return n;
}

static void take_line(struct answer_lines *a)
{
	static const char content[] = "\"content\":\"", status[] = "HTTP/1.1 ";
	a->line[a->length] = 0;
	const char *text = strstr(a->line, content);
	if (!strncmp(a->line, status, sizeof status - 1) && strncmp(a->line + 9, "200", 3) != 0)
		a->failed = true;
	if (strncmp(a->line, "data: ", 6) == 0 && text)
		a->bytes += json_bytes(text + sizeof content - 1);
	if (strstr(a->line, "\"error\""))
		a->failed = true;
	a->over |= a->length == 1 && *a->line == '0'; /* the last chunk's size */
	a->length = 0;
}

static void take(struct answer_lines *a, const char *data, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (data[i] == '\n')
			take_line(a);
		else if (data[i] != '\r' && a->length < LINE - 1)
			a->line[a->length++] = data[i];
	}
}

static int read_events(int connection, struct reads *r, struct err *e)
{
	struct answer_lines a = {.length = 0};
	char piece[16384];
	r->count = 0;
	while (!a.over) {
		uint64_t before = a.bytes;
		ssize_t n = recv(connection, piece, sizeof piece, 0);
		uint64_t at = clock_ns();
		if (n <= 0)
			return err_set(e, EIO, "moefs-http has hung up");
		take(&a, piece, (size_t)n);
		if (a.failed)
			return err_set(e, EIO, "moefs-http refuses: %.200s", piece);
		if (a.bytes > before)
			reads_add(r, a.bytes, at);
	}
	/* The empty line behind the last chunk comes with it. */
	return 0;
}

int gateway_ask(int connection, const char *model, const char *question, uint64_t tokens,
		struct reads *r, struct err *e)
{
	char body[512], all[1024];
	int n = snprintf(body, sizeof body,
			 "{\"model\":\"%s\",\"stream\":true,\"temperature\":0,\"max_tokens\":%llu,"
			 "\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}",
			 model, (unsigned long long)tokens, question);
	int m = snprintf(all, sizeof all,
			 "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
			 "application/json\r\nContent-Length: %d\r\n\r\n%s",
			 n, body);
	if (n >= (int)sizeof body || m >= (int)sizeof all)
		return err_set(e, EINVAL, "the question is too long");
	if (send(connection, all, (size_t)m, MSG_NOSIGNAL) != m)
		return err_sys(e, errno, "cannot ask moefs-http");
	return read_events(connection, r, e);
}

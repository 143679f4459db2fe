/* Reading /proc. See process.h. */
#include "fs/base/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Enough for what is looked for in either file: names of programs have at most 64 bytes there. */
enum { READ_BYTES = 512 };

static bool read_file(pid_t id, const char *name, char text[READ_BYTES])
{
	char path[64];
	(void)snprintf(path, sizeof path, "/proc/%ld/%s", (long)id, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, READ_BYTES - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

pid_t process_of(pid_t thread)
{
	static const char label[] = "\nTgid:"; /* a newline in the program's name is escaped */
	char text[READ_BYTES];
	if (thread <= 0 || !read_file(thread, "status", text))
		return thread;
	const char *found = strstr(text, label);
	long id = found ? strtol(found + sizeof label - 1, NULL, 10) : 0;
	return id > 0 ? (pid_t)id : thread;
}

/* The fields of proc(5)'s stat that are wanted, counted from 1 as there. */
enum { STAT_STATE = 3, STAT_PARENT = 4, STAT_BEGAN = 22 };

/* By its name, which stands in brackets and may have some, too. */
static bool is_relay(const char *name, size_t size)
{
	static const char *const relays[] = {"sftp-server", "sshd", "sshd-session"};
	for (size_t i = 0; i < sizeof relays / sizeof *relays; i++)
		if (strlen(relays[i]) == size && !memcmp(relays[i], name, size))
			return true;
	return false;
}

/* False if there is no such process any more; one that has ended and was not waited for is none. */
static bool look(pid_t id, struct process *out, pid_t *parent)
{
	char text[READ_BYTES];
	*out = (struct process){.id = id};
	*parent = 0;
	if (!read_file(id, "stat", text))
		return false;
	const char *name = strchr(text, '(');
	char *field = strrchr(text, ')'); /* the program's name may hold blanks and brackets */
	char state = 0;
	if (name && field && is_relay(name + 1, (size_t)(field - name - 1))) {
		*out = (struct process){.id = -1};
		return true;
	}
	for (int i = STAT_STATE; field && i <= STAT_BEGAN; i++) {
		field = strchr(field + 1, ' ');
		if (field && i == STAT_STATE)
			state = field[1];
		if (field && i == STAT_PARENT)
			*parent = (pid_t)strtol(field, NULL, 10);
		if (field && i == STAT_BEGAN)
			out->began = strtoull(field, NULL, 10);
	}
	return state && state != 'Z' && state != 'X';
}

void process_line(pid_t thread, unsigned most, struct line *out)
{
	pid_t id = process_of(thread);
	out->count = 0;
	while (id > 0 && out->count < most && out->count < LINE_MOST) {
		pid_t parent;
		bool there = look(id, &out->of[out->count], &parent);
		/* What a relay has begun itself (a shell at the other end) is no relay. */
		if (out->count && (!there || out->of[out->count].id < 0))
			return;
		out->count++;
		id = parent;
	}
}

bool process_lives(const struct process *p)
{
	struct process now;
	pid_t parent;
	return p->id < 0 || (look(p->id, &now, &parent) && process_same(&now, p));
}

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

/* By the first line of its status, which is its name. */
static bool is_relay(const char *status)
{
	static const char *const relays[] = {"Name:\tsftp-server\n", "Name:\tsshd\n",
					     "Name:\tsshd-session\n"};
	for (size_t i = 0; i < sizeof relays / sizeof *relays; i++)
		if (!strncmp(status, relays[i], strlen(relays[i])))
			return true;
	return false;
}

pid_t process_of(pid_t thread)
{
	static const char label[] = "\nTgid:"; /* a newline in the program's name is escaped */
	char text[READ_BYTES];
	if (thread <= 0 || !read_file(thread, "status", text))
		return thread;
	if (is_relay(text))
		return PROCESS_RELAY;
	const char *found = strstr(text, label);
	long id = found ? strtol(found + sizeof label - 1, NULL, 10) : 0;
	return id > 0 ? (pid_t)id : thread;
}

/* The fields of proc(5)'s stat that are wanted, counted from 1 as there. */
enum { STAT_STATE = 3, STAT_PARENT = 4, STAT_BEGAN = 22 };

/* False if there is no such process any more; one that has ended and was not waited for is none. */
static bool look(pid_t id, struct process *out, pid_t *parent)
{
	char text[READ_BYTES];
	*out = (struct process){.id = id};
	*parent = 0;
	if (!read_file(id, "stat", text))
		return false;
	char *field = strrchr(text, ')'); /* the program's name may hold blanks and brackets */
	char state = 0;
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
	out->count = id == PROCESS_RELAY;
	out->of[0] = (struct process){.id = PROCESS_RELAY};
	while (id > 0 && out->count < most && out->count < LINE_MOST) {
		pid_t parent;
		bool there = look(id, &out->of[out->count], &parent);
		if (!there && out->count)
			return;
		out->count++;
		id = parent;
	}
}

bool process_lives(const struct process *p)
{
	struct process now;
	pid_t parent;
	return p->id == PROCESS_RELAY || (look(p->id, &now, &parent) && process_same(&now, p));
}

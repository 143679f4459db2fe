#include "engine/memory/pressure.h"
#include "cache/io.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int pressure_open_file(const char *folder, const char *name, int flags)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof path, "%s%s", folder, name) >= (int)sizeof path)
		return -1;
	return open(path, flags | O_CLOEXEC);
}

static void pressure_add(struct pressure *p, int fd, enum pressure_kind kind,
			 enum pressure_signal signal)
{
	if (fd < 0)
		return;
	if (p->count == PRESSURE_SOURCES) {
		close(fd);
		return;
	}
	p->source[p->count] = (struct pressure_source){signal, kind};
	p->fds[p->count++] = (struct pollfd){
		.fd = fd,
		.events = kind == PRESSURE_COUNTER ? POLLIN : POLLPRI,
	};
}

/* ---- stalls ---- */

/* Asks for a notification when tasks wait for memory a tenth of the time. This is far more than the
 * cost of dropping clean page cache, and far less than a hang. Unprivileged users may only use
 * windows of multiples of two seconds. */
static int pressure_open_stalls(const char *folder, const char *name)
{
	static const char *const triggers[] = {"some 100000 1000000", "some 200000 2000000"};
	for (int i = 0; i < 2; i++) {
		int fd = pressure_open_file(folder, name, O_RDWR | O_NONBLOCK);
		if (fd < 0)
			return -1;
		if (write(fd, triggers[i], strlen(triggers[i]) + 1) > 0)
			return fd;
		close(fd);
	}
	return -1;
}

/* ---- version 1 ---- */

/* Registers an eventfd for a file of a group; `what` is the registration's argument. */
static int pressure_open_event(const char *group, const char *name, const char *what)
{
	char line[64];
	int file = pressure_open_file(group, name, O_RDONLY);
	int control = pressure_open_file(group, "/cgroup.event_control", O_WRONLY);
	int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	int n = snprintf(line, sizeof line, "%d %d %s", event, file, what);
	if (file < 0 || control < 0 || event < 0 || write(control, line, (size_t)n) != n) {
		io_close(event);
		event = -1;
	}
	io_close(file);
	io_close(control);
	return event;
}

/* Notifies when half of the margin is used, because the periodic look was too slow. */
static int pressure_open_threshold(const char *group, uint64_t limit)
{
	char threshold[32];
	(void)snprintf(threshold, sizeof threshold, "%" PRIu64,
		       limit - memory_group_margin(limit) / 2);
	return pressure_open_event(group, "/memory.usage_in_bytes", threshold);
}

/* ---- the sources ---- */

static void pressure_open_group(struct pressure *p, const struct memory *m, char *group)
{
	bool second = m->version == MEMORY_GROUP_V2;
	if (second)
		pressure_add(p, pressure_open_stalls(group, "/memory.pressure"), PRESSURE_STALLS,
			     PRESSURE_SHORT);
	else /* only a hint: without swap it also fires when page cache is dropped elsewhere */
		pressure_add(
			p, pressure_open_event(group, "/memory.pressure_level", "medium,hierarchy"),
			PRESSURE_COUNTER, PRESSURE_LOOK);
	do {
		uint64_t limit = memory_group_limit(m, group);
		if (second)
			pressure_add(p, pressure_open_file(group, "/memory.events", O_RDONLY),
				     PRESSURE_FILE, PRESSURE_LOOK);
		else if (limit != UINT64_MAX)
			pressure_add(p, pressure_open_threshold(group, limit), PRESSURE_COUNTER,
				     PRESSURE_LOOK);
	} while (memory_group_above(m, group));
}

static bool pressure_read_again(int fd)
{
	char text[512];
	return pread(fd, text, sizeof text, 0) >= 0;
}

void pressure_open(struct pressure *p, const struct memory *m)
{
	char group[PATH_MAX];
	*p = (struct pressure){0};
	pressure_add(p, pressure_open_stalls(m->root, "/proc/pressure/memory"), PRESSURE_STALLS,
		     PRESSURE_LOOK);
	if (m->group && snprintf(group, sizeof group, "%s", m->group) < (int)sizeof group)
		pressure_open_group(p, m, group);
	for (int i = 0; i < p->count; i++)
		if (p->source[i].kind == PRESSURE_FILE)
			(void)pressure_read_again(p->fds[i].fd);
}

static void pressure_drop(struct pollfd *f)
{
	close(f->fd);
	f->fd = -1;
}

void pressure_close(struct pressure *p)
{
	for (int i = 0; i < p->count; i++)
		if (p->fds[i].fd >= 0)
			pressure_drop(&p->fds[i]);
	p->count = 0;
}

/* Prepares a source for its next signal. False: the source is broken, for example because its group
 * was removed. */
static bool pressure_rearm(const struct pollfd *f, enum pressure_kind kind)
{
	uint64_t times;
	switch (kind) {
	case PRESSURE_STALLS:
		return !(f->revents & POLLERR);
	case PRESSURE_FILE:
		return pressure_read_again(f->fd);
	case PRESSURE_COUNTER:
		return read(f->fd, &times, sizeof times) > 0;
	}
	return false;
}

enum pressure_signal pressure_wait(struct pressure *p, int wake, int milliseconds)
{
	enum pressure_signal signal = PRESSURE_NONE;
	p->fds[p->count] = (struct pollfd){.fd = wake, .events = POLLIN};
	if (poll(p->fds, (nfds_t)p->count + 1, milliseconds) <= 0)
		return PRESSURE_NONE;
	for (int i = 0; i < p->count; i++) {
		if (!p->fds[i].revents)
			continue;
		if (!pressure_rearm(&p->fds[i], p->source[i].kind))
			pressure_drop(&p->fds[i]);
		else if (p->source[i].signal > signal)
			signal = p->source[i].signal;
	}
	return signal;
}

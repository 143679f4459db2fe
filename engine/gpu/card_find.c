/* See card_find.h. */
#include "engine/gpu/card_find.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- in the child ---- */

/* Keeps open nothing but the answer: somebody may wait for the end of what this process writes. */
static int card_find_leave_files(int answer)
{
	const int none = open("/dev/null", O_RDWR);

	for (int fd = 0; fd < 3 && none >= 0; fd++)
		(void)dup2(none, fd);
	answer = dup2(answer, 3);
	closefrom(4);
	return answer;
}

/* Asks, and writes the answer whole: it is shorter than what a pipe takes at once. */
static void card_find_look(int answer)
{
	struct card_found found = {0};
	struct gpu_driver d;
	struct err e;

	(void)alarm(CARD_FIND_SECONDS);
	int failed = gpu_driver_open(&d, &e);
	if (!failed)
		failed = card_look(&d, 0, &found.facts, &e);
	found.there = !failed;
	if (failed)
		(void)snprintf(found.why, sizeof found.why, "%.255s", e.text);
	_exit(write(answer, &found, sizeof found) != sizeof found);
}

/* ---- here ---- */

void card_find_begin(struct card_find *f, bool look)
{
	int ends[2];

	(void)pthread_mutex_init(&f->lock, NULL);
	f->answer = -1;
	f->found = (struct card_found){0};
	(void)snprintf(f->found.why, sizeof f->found.why, "%s",
		       look ? "no process could be started to look for one" : "not looked for");
	if (!look || pipe2(ends, O_CLOEXEC) != 0)
		return;
	/* The child's child looks, so that it is not this process's to wait for. */
	const pid_t child = fork();
	if (child == 0) {
		const int answer = card_find_leave_files(ends[1]);
		if (fork() == 0)
			card_find_look(answer);
		_exit(0);
	}
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	(void)close(ends[1]);
	if (child < 0) {
		(void)close(ends[0]);
		return;
	}
	f->answer = ends[0];
	(void)snprintf(f->found.why, sizeof f->found.why, "%s", "not known yet");
}

/* Reads the answer, or that there will be none. */
static void card_find_read(struct card_find *f, bool wait)
{
	struct pollfd answer = {.fd = f->answer, .events = POLLIN};
	struct card_found whole;

	if (poll(&answer, 1, wait ? CARD_FIND_SECONDS * 1000 : 0) == 0 && !wait)
		return;
	if (answer.revents && read(f->answer, &whole, sizeof whole) == sizeof whole)
		f->found = whole;
	else
		(void)snprintf(f->found.why, sizeof f->found.why, "%s",
			       "the driver does not answer");
	(void)close(f->answer);
	f->answer = -1;
}

void card_find_answer(struct card_find *f, bool wait, struct card_found *found)
{
	(void)pthread_mutex_lock(&f->lock);
	if (f->answer >= 0)
		card_find_read(f, wait);
	*found = f->found;
	(void)pthread_mutex_unlock(&f->lock);
}

void card_find_close(struct card_find *f)
{
	if (f->answer >= 0)
		(void)close(f->answer);
	(void)pthread_mutex_destroy(&f->lock);
}

/* ---- in words ---- */

int card_print_modules(char *text, size_t size)
{
	int n = 0;

	for (const struct cuda_image *i = cuda_images; i->name && n >= 0 && (size_t)n < size; i++)
		n += snprintf(text + n, size - (size_t)n, "%s%s", i == cuda_images ? "" : "; ",
			      i->name);
	return cuda_images->name ? n : snprintf(text, size, "none: neither nvcc nor clang was found");
}

int card_print_found(const struct card_found *found, char *text, size_t size)
{
	const struct card_facts *c = &found->facts;

	if (!found->there)
		return snprintf(text, size, "none: %s", found->why);
	return snprintf(text, size,
			"%s, compute capability %u.%u, %.1f GB, driver for CUDA %u.%u", c->name,
			c->major, c->minor, (double)c->memory / 1e9, c->driver / 1000,
			c->driver % 1000 / 10);
}

/* See card_find.h. */
#include "engine/gpu/card_find.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CARD_FIND_MS = 10000 }; /* a driver that has to start its card takes seconds */

/* In the child. */
static void card_find_look(struct card_found *found)
{
	struct gpu_driver d;
	struct err e;
	int failed = gpu_driver_open(&d, &e);

	if (!failed)
		failed = card_look(&d, 0, &found->facts, &e);
	found->there = !failed;
	if (failed)
		(void)snprintf(found->why, sizeof found->why, "%.255s", e.text);
}

void card_find_begin(struct card_find *f)
{
	int ends[2];

	f->answer = -1;
	f->child = -1;
	if (pipe(ends) != 0)
		return;
	f->child = fork();
	if (f->child == 0) {
		struct card_found found = {0};
		card_find_look(&found);
		_exit(write(ends[1], &found, sizeof found) != sizeof found);
	}
	(void)close(ends[1]);
	if (f->child > 0)
		f->answer = ends[0];
	else
		(void)close(ends[0]);
}

void card_find_end(struct card_find *f, struct card_found *found)
{
	struct pollfd answer = {.fd = f->answer, .events = POLLIN};

	memset(found, 0, sizeof *found);
	(void)snprintf(found->why, sizeof found->why, "the driver could not be asked");
	if (f->answer < 0)
		return;
	/* The answer is shorter than a pipe's atomic write: it comes whole or not at all. */
	if (poll(&answer, 1, CARD_FIND_MS) > 0) {
		struct card_found whole;
		if (read(f->answer, &whole, sizeof whole) == sizeof whole)
			*found = whole;
	}
	(void)kill(f->child, SIGKILL);
	while (waitpid(f->child, NULL, 0) < 0 && errno == EINTR)
		;
	(void)close(f->answer);
	f->answer = -1;
}

int card_print(const struct card_found *found, char *text, size_t size)
{
	const struct card_facts *c = &found->facts;
	int n = snprintf(text, size, "gpu_kernels");

	for (const struct cuda_image *i = cuda_images; i->name; i++)
		n += snprintf(text + n, size - (size_t)n, "%s %s", i == cuda_images ? "" : ";",
			      i->name);
	if (!cuda_images->name)
		n += snprintf(text + n, size - (size_t)n, " none");
	if (!found->there)
		return n + snprintf(text + n, size - (size_t)n, "\ngpu none: %s", found->why);
	return n + snprintf(text + n, size - (size_t)n,
			    "\ngpu %s, compute capability %u.%u, %.1f GB, driver for CUDA %u.%u",
			    c->name, c->major, c->minor, (double)c->memory / 1e9, c->driver / 1000,
			    c->driver % 1000 / 10);
}

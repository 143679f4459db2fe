/* See card_find.h. */
#include "engine/gpu/card_find.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char card_find_argument[] = "--look-for-gpu"; /* NUMBER HOW, an enum card_find_how */

static void card_find_none(struct card_found *found, const char *why)
{
	*found = (struct card_found){0};
	(void)snprintf(found->why, sizeof found->why, "%.255s", why);
}

/* ---- in the process that looks ---- */

void card_find_here(int ordinal, enum card_find_how how, struct card_found *found)
{
	struct card c = {0};
	struct gpu_driver *d = &c.driver;
	struct err e;

	int failed = gpu_driver_open(d, &e);
	if (!failed) {
		failed = card_look(d, ordinal, &c.facts, &e);
		gpu_driver_close(d);
	}
	if (!failed && how == CARD_FIND_OPEN)
		failed = card_open(&c, ordinal, cuda_images, &e);
	if (failed)
		card_find_none(found, e.text);
	else
		*found = (struct card_found){.there = true, .facts = c.facts};
	card_close(&c);
}

bool card_find_serve(int argc, char **argv, int *status)
{
	struct card_found found;

	if (argc != 4 || strcmp(argv[1], card_find_argument) != 0)
		return false;
	(void)alarm(CARD_FIND_SECONDS); /* also if the process that asked has ended */
	card_find_here(atoi(argv[2]), (enum card_find_how)atoi(argv[3]), &found);
	/* A pipe takes this much at once. */
	*status = write(STDOUT_FILENO, &found, sizeof found) != sizeof found;
	return true;
}

/* ---- in the process that asks ---- */

/* Starts the process, with nothing open but /dev/null and the end of a pipe: others may wait for
 * the end of what this process writes. Returns its number, or -errno. */
static pid_t card_find_start(int ordinal, enum card_find_how how, int answer)
{
	char name[] = "moefs", argument[sizeof card_find_argument], number[16], as[16];
	char *arguments[] = {name, argument, number, as, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t signals;
	pid_t child;

	memcpy(argument, card_find_argument, sizeof argument);
	(void)snprintf(number, sizeof number, "%d", ordinal);
	(void)snprintf(as, sizeof as, "%d", (int)how);
	int failed = posix_spawn_file_actions_init(&files);
	if (failed)
		return -failed;
	failed = posix_spawnattr_init(&attributes);
	if (!failed) {
		(void)sigemptyset(&signals); /* the daemon's threads block them */
		(void)posix_spawnattr_setsigmask(&attributes, &signals);
		(void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
		failed = posix_spawn_file_actions_adddup2(&files, answer, 1);
		failed = failed ? failed
				: posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY,
								   0);
		failed = failed ? failed
				: posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY,
								   0);
		failed = failed ? failed : posix_spawn_file_actions_addclosefrom_np(&files, 3);
		failed = failed ? failed
				: posix_spawn(&child, "/proc/self/exe", &files, &attributes,
					      arguments, environ);
		(void)posix_spawnattr_destroy(&attributes);
	}
	(void)posix_spawn_file_actions_destroy(&files);
	return failed ? -failed : child;
}

/* Whether the process has ended, within some seconds, and is waited for. */
static bool card_find_wait(pid_t child, int seconds)
{
	enum { LOOKS = 200 }; /* a second */

	for (int i = 0; i < seconds * LOOKS; i++) {
		if (waitpid(child, NULL, WNOHANG) != 0)
			return true;
		(void)usleep(1000000 / LOOKS);
	}
	return false;
}

void card_find_apart(int ordinal, enum card_find_how how, struct card_found *found)
{
	int ends[2];

	card_find_none(found, "no process could be started to look for one");
	if (pipe2(ends, O_CLOEXEC) != 0)
		return;
	const pid_t child = card_find_start(ordinal, how, ends[1]);
	(void)close(ends[1]);
	if (child > 0) {
		bool ended = card_find_wait(child, CARD_FIND_SECONDS);
		if (!ended) {
			/* In a driver that hangs not even this ends it: then it is left alone. */
			(void)kill(child, SIGKILL);
			(void)card_find_wait(child, 1);
		}
		if (!ended || read(ends[0], found, sizeof *found) != sizeof *found)
			card_find_none(found, "the driver does not answer");
	}
	(void)close(ends[0]);
}

/* ---- what is known ---- */

void card_find_init(struct card_find *f, int ordinal, const char *never)
{
	*f = (struct card_find){.ordinal = ordinal, .known = never != NULL};
	(void)pthread_mutex_init(&f->lock, NULL);
	card_find_none(&f->found, never ? never : "not looked for yet");
}

void card_find_free(struct card_find *f)
{
	(void)pthread_mutex_destroy(&f->lock);
}

void card_find_look(struct card_find *f)
{
	(void)pthread_mutex_lock(&f->lock);
	if (!f->known)
		card_find_apart(f->ordinal, CARD_FIND_LOOK, &f->found);
	f->known = true;
	(void)pthread_mutex_unlock(&f->lock);
}

void card_find_answer(struct card_find *f, struct card_found *found)
{
	if (pthread_mutex_trylock(&f->lock) != 0) {
		card_find_none(found, "being looked for");
		return;
	}
	*found = f->found;
	(void)pthread_mutex_unlock(&f->lock);
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

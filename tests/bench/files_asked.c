/* Asking a file system that a process of its own serves. See files_asked.h. */
#include "tests/bench/files_asked.h"
#include "cache/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* From more than one thread of the tree's: the engine's, and whoever stops a turn. */
void notes_add(struct notes *n, uint64_t bytes)
{
	uint64_t at = clock_ns();
	uint32_t count = atomic_load(&n->count);
	if (count == NOTES_MOST || (count && n->note[count - 1].bytes >= bytes) || !bytes)
		return;
	n->note[count].bytes = bytes;
	n->note[count].at_ns = at;
	atomic_store(&n->count, count + 1);
}

void notes_clear(struct notes *n)
{
	atomic_store(&n->count, 0);
	atomic_store(&n->engine_ns, 0);
}

int mounted_create(struct mounted *a, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	a->notes = mmap(NULL, sizeof *a->notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (a->notes == MAP_FAILED) {
		a->notes = NULL;
		return err_sys(e, errno, "no memory to share");
	}
	int n = snprintf(a->folder, sizeof a->folder, "%s/moefs-files.XXXXXX", tmp ? tmp : "/tmp");
	if (n >= (int)sizeof a->folder || !mkdtemp(a->folder)) {
		*a->folder = 0;
		return err_set(e, EIO, "cannot make a folder in %s", tmp ? tmp : "/tmp");
	}
	(void)snprintf(a->where, sizeof a->where, "%s/mnt", a->folder);
	return mkdir(a->where, 0700) ? err_sys(e, errno, "%s", a->where) : 0;
}

void mounted_free(struct mounted *a)
{
	mounted_end(a);
	if (*a->where)
		(void)rmdir(a->where);
	if (*a->folder)
		(void)rmdir(a->folder);
	if (a->notes)
		munmap(a->notes, sizeof *a->notes);
}

/* ---- the server ---- */

int mounted_begin(struct mounted *a, bool tree, struct err *e)
{
	int started[2];
	char none;
	if (pipe2(started, O_CLOEXEC))
		return err_sys(e, errno, "cannot make a pipe");
	a->server = fork();
	if (a->server == 0) {
		struct err why = {0};
		close(started[0]);
		int rc = tree ? tree_serve(a->model, a->store, a->where, a->notes, started[1], &why)
			      : echo_serve(a->where, a->notes, started[1], &why);
		if (rc)
			(void)fprintf(stderr, "moefs-bench: %s\n", why.text);
		_exit(rc != 0);
	}
	close(started[1]);
	ssize_t n = a->server < 0 ? -1 : read(started[0], &none, 1);
	close(started[0]);
	(void)snprintf(a->inside, sizeof a->inside, "%s%s", a->where, tree ? "/model" : "");
	return n == 1 ? 0 : err_set(e, EIO, "cannot serve %s", a->where);
}

void mounted_end(struct mounted *a)
{
	if (a->server <= 0)
		return;
	kill(a->server, SIGTERM);
	waitpid(a->server, NULL, 0);
	a->server = 0;
}

/* ---- its files ---- */

int mounted_open(const struct mounted *a, const char *name, int flags, struct err *e)
{
	char path[160];
	(void)snprintf(path, sizeof path, "%s/%s", a->inside, name);
	int fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? err_sys(e, errno, "cannot open %s", path) : fd;
}

int mounted_put(const struct mounted *a, const char *name, const char *text, struct err *e)
{
	size_t n = strlen(text);
	int fd = mounted_open(a, name, O_WRONLY | O_TRUNC, e);
	if (fd < 0)
		return fd;
	bool whole = write(fd, text, n) == (ssize_t)n;
	close(fd);
	return whole ? 0 : err_set(e, EIO, "cannot write %s", name);
}

void reads_add(struct reads *r, uint64_t bytes, uint64_t at_ns)
{
	if (r->count == NOTES_MOST)
		return;
	r->bytes[r->count] = bytes;
	r->at_ns[r->count++] = at_ns;
}

int mounted_read(const struct mounted *a, const char *name, struct reads *r, struct err *e)
{
	char buffer[4096];
	uint64_t total = 0;
	ssize_t n;
	int fd = mounted_open(a, name, O_RDONLY, e);
	if (fd < 0)
		return fd;
	r->count = 0;
	while ((n = read(fd, buffer, sizeof buffer)) > 0)
		reads_add(r, total += (uint64_t)n, clock_ns());
	close(fd);
	return n < 0 || !r->count ? err_set(e, EIO, "there is no answer to read") : 0;
}

/* ---- what was measured ---- */

/* Each note is met by the first read that brought its bytes. What was there before the reader came
 * says nothing of how long he waited. */
static void compare(struct measured *m, const struct notes *notes, const struct reads *r)
{
	uint32_t count = atomic_load(&notes->count);
	for (size_t i = 1, k = 0; i < r->count; i++) {
		while (k < count && notes->note[k].bytes <= r->bytes[i - 1])
			k++;
		if (k < count && notes->note[k].at_ns > r->at_ns[i - 1] && m->delays < DELAYS_MOST)
			m->delay[m->delays++] = (double)(r->at_ns[i] - notes->note[k].at_ns) * 1e-3;
	}
}

void measured_add(struct measured *m, const struct notes *notes, const struct reads *r,
		  uint64_t from)
{
	if (m->firsts == ASKS_MOST || !r->count)
		return;
	uint64_t engine = atomic_load(&notes->engine_ns);
	m->first[m->firsts++] = ((double)(r->at_ns[0] - from) - (double)engine) * 1e-3;
	compare(m, notes, r);
}

int measured_create(struct measured *m, struct err *e)
{
	m->delay = malloc(DELAYS_MOST * sizeof(double));
	return m->delay ? 0 : err_set(e, ENOMEM, "no memory for delays");
}

void measured_free(struct measured *m)
{
	free(m->delay);
	m->delay = NULL;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

struct summary measured_spread(double *values, size_t n)
{
	if (!n)
		return (struct summary){0};
	qsort(values, n, sizeof *values, by_size);
	return (struct summary){values[n / 2], values[n / 20], values[n - 1 - n / 20]};
}

void measured_tell(struct measured *m, const char *name, struct table *t)
{
	struct summary first = measured_spread(m->first, m->firsts),
		       token = measured_spread(m->delay, m->delays);
	table_text(t, name);
	table_summary(t, &first);
	table_summary(t, &token);
	table_number(t, (double)m->delays);
}

int mounted_short(const struct mounted *a, uint64_t tokens, struct err *e)
{
	char text[32];
	(void)snprintf(text, sizeof text, "%llu\n", (unsigned long long)tokens);
	int rc = mounted_put(a, "sessions/default/params/max_tokens", text, e);
	if (rc == 0)
		rc = mounted_put(a, "sessions/default/params/stop_repetition", "off\n", e);
	return rc == 0 ? mounted_put(a, "sessions/default/params/temperature", "0\n", e) : rc;
}

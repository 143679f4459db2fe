/* moefs-bench files: what it costs that a model is files.
 *
 * A prompt is written and closed, and its answer read, in a mounted tree and in a bare FUSE file
 * system that only echoes, one after the other. Two figures of each: from the open of prompt to the
 * first byte of output, less what the engine took to have that byte by its own clock; and from
 * each token being there to its coming back from the read that waited for it. Both file systems
 * are processes of their own, as they are in life. */
#include "tests/bench/files.h"
#include "cache/clock.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ASKS_MOST = 1000, DELAYS_MOST = 1 << 18 };

struct measured {
	double first[ASKS_MOST]; /* µs, without what the engine took */
	size_t firsts;
	double *delay; /* [DELAYS_MOST], µs, of tokens */
	size_t delays;
};

struct files {
	struct effort effort;
	const char *model, *store;
	uint64_t asks, tokens;
	struct notes *notes;
	char folder[64], where[80], inside[96]; /* where prompt and output are */
	pid_t server;
	struct measured echo, tree;
};

/* From more than one thread of the tree's: the engine's, and whoever stops a turn. */
void notes_add(struct notes *n, uint64_t bytes)
{
	uint64_t at = now_ns();
	uint32_t count = atomic_load(&n->count);
	if (count == NOTES_MOST || (count && n->note[count - 1].bytes >= bytes) || !bytes)
		return;
	n->note[count].bytes = bytes;
	n->note[count].at_ns = at;
	atomic_store(&n->count, count + 1);
}

/* ---- the two servers ---- */

static int begin(struct files *f, bool tree, struct err *e)
{
	int started[2];
	char none;
	if (pipe2(started, O_CLOEXEC))
		return err_sys(e, errno, "cannot make a pipe");
	f->server = fork();
	if (f->server == 0) {
		struct err why = {0};
		close(started[0]);
		int rc = tree ? tree_serve(f->model, f->store, f->where, f->notes, started[1], &why)
			      : echo_serve(f->where, f->notes, started[1], &why);
		if (rc)
			(void)fprintf(stderr, "moefs-bench files: %s\n", why.text);
		_exit(rc != 0);
	}
	close(started[1]);
	ssize_t n = f->server < 0 ? -1 : read(started[0], &none, 1);
	close(started[0]);
	(void)snprintf(f->inside, sizeof f->inside, "%s%s", f->where, tree ? "/model" : "");
	return n == 1 ? 0 : err_set(e, EIO, "cannot serve %s", f->where);
}

static void end(struct files *f)
{
	if (f->server <= 0)
		return;
	kill(f->server, SIGTERM);
	waitpid(f->server, NULL, 0);
	f->server = 0;
}

/* ---- one question ---- */

static int open_in(const struct files *f, const char *name, int flags, struct err *e)
{
	char path[160];
	(void)snprintf(path, sizeof path, "%s/%s", f->inside, name);
	int fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? err_sys(e, errno, "cannot open %s", path) : fd;
}

static int put(const struct files *f, const char *name, const char *text, struct err *e)
{
	size_t n = strlen(text);
	int fd = open_in(f, name, O_WRONLY | O_TRUNC, e);
	if (fd < 0)
		return fd;
	bool whole = write(fd, text, n) == (ssize_t)n;
	close(fd);
	return whole ? 0 : err_set(e, EIO, "cannot write %s", name);
}

struct reads {
	size_t count;
	uint64_t bytes[NOTES_MOST], at_ns[NOTES_MOST]; /* read so far, and when that came back */
};

static int read_answer(const struct files *f, struct reads *r, struct err *e)
{
	char buffer[4096];
	uint64_t total = 0;
	ssize_t n;
	int fd = open_in(f, "output", O_RDONLY, e);
	if (fd < 0)
		return fd;
	r->count = 0;
	while ((n = read(fd, buffer, sizeof buffer)) > 0) {
		total += (uint64_t)n;
		if (r->count == NOTES_MOST)
			continue;
		r->at_ns[r->count] = now_ns();
		r->bytes[r->count++] = total;
	}
	close(fd);
	return n < 0 || !r->count ? err_set(e, EIO, "there is no answer to read") : 0;
}

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

static int ask(struct files *f, struct measured *m, bool counts, struct err *e)
{
	struct reads *r = malloc(sizeof *r);
	if (!r)
		return err_set(e, ENOMEM, "no memory for an answer");
	atomic_store(&f->notes->count, 0);
	atomic_store(&f->notes->engine_ns, 0);
	uint64_t from = now_ns();
	int rc = put(f, "prompt", "ha ha ha ha ha ha ha ha ha ha\n", e);
	if (rc == 0)
		rc = read_answer(f, r, e);
	if (rc == 0 && counts && m->firsts < ASKS_MOST) {
		uint64_t engine = atomic_load(&f->notes->engine_ns);
		m->first[m->firsts++] = ((double)(r->at_ns[0] - from) - (double)engine) * 1e-3;
		compare(m, f->notes, r);
	}
	free(r);
	return rc;
}

/* ---- all of them ---- */

static int prepare_tree(const struct files *f, struct err *e)
{
	char tokens[32];
	(void)snprintf(tokens, sizeof tokens, "%llu\n", (unsigned long long)f->tokens);
	int rc = put(f, "sessions/default/params/max_tokens", tokens, e);
	if (rc == 0)
		rc = put(f, "sessions/default/params/temperature", "0\n", e);
	return rc == 0 ? put(f, "sessions/default/params/chat", "off\n", e) : rc;
}

static int round_of(struct files *f, bool tree, struct err *e)
{
	struct measured *m = tree ? &f->tree : &f->echo;
	int rc = begin(f, tree, e);
	if (rc == 0 && tree)
		rc = prepare_tree(f, e);
	for (uint64_t i = 0; i <= f->asks && rc == 0; i++) { /* the first one loads the model */
		if (i && tree)
			rc = put(f, "ctl", "reset\n", e);
		if (rc == 0)
			rc = ask(f, m, i > 0, e);
	}
	end(f);
	return rc;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* As other summaries, but of the 5th and the 95th of a hundred: a machine's hiccups are no range.
 */
static struct summary spread(double *values, size_t n)
{
	if (!n)
		return (struct summary){0};
	qsort(values, n, sizeof *values, by_size);
	return (struct summary){values[n / 2], values[n / 20], values[n - 1 - n / 20]};
}

static void tell(struct files *f, struct report *r)
{
	static const struct column COLUMNS[] = {{"what", "what", -1},
						{"first", "first byte, us beyond the engine", 0},
						{"token", "a token to its reader, us", 0},
						{"tokens", "tokens", 0}};
	struct measured *all[] = {&f->echo, &f->tree};
	static const char *const NAMES[] = {"bare echo", "tree"};
	struct table t;
	table_begin(&t, r, "files", "medians (5th-95th of a hundred)", COLUMNS, 4);
	for (size_t i = 0; i < 2; i++) {
		struct summary first = spread(all[i]->first, all[i]->firsts),
			       token = spread(all[i]->delay, all[i]->delays);
		table_text(&t, NAMES[i]);
		table_summary(&t, &first);
		table_summary(&t, &token);
		table_number(&t, (double)all[i]->delays);
	}
	table_end(&t);
}

static int prepare(struct files *f, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	f->notes = mmap(NULL, sizeof *f->notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (f->notes == MAP_FAILED)
		return err_sys(e, errno, "no memory to share");
	f->echo.delay = malloc(DELAYS_MOST * sizeof(double));
	f->tree.delay = malloc(DELAYS_MOST * sizeof(double));
	if (!f->echo.delay || !f->tree.delay)
		return err_set(e, ENOMEM, "no memory for delays");
	int n = snprintf(f->folder, sizeof f->folder, "%s/moefs-files.XXXXXX", tmp ? tmp : "/tmp");
	if (n >= (int)sizeof f->folder || !mkdtemp(f->folder))
		return err_set(e, EIO, "cannot make a folder in %s", tmp ? tmp : "/tmp");
	(void)snprintf(f->where, sizeof f->where, "%s/mnt", f->folder);
	return mkdir(f->where, 0700) ? err_sys(e, errno, "%s", f->where) : 0;
}

static void clean_up(struct files *f)
{
	(void)rmdir(f->where);
	(void)rmdir(f->folder);
	free(f->echo.delay);
	free(f->tree.delay);
	if (f->notes != MAP_FAILED)
		munmap(f->notes, sizeof *f->notes);
}

int files_command(int argc, char **argv, struct err *e)
{
	struct files *f = calloc(1, sizeof *f);
	if (!f)
		return err_set(e, ENOMEM, "no memory to measure with");
	*f = (struct files){.effort = effort_default(), .asks = 20, .tokens = 32};
	struct bench_option options[] = {
		EFFORT_OPTIONS(&f->effort),
		{"asks", OPTION_NUMBER, &f->asks, 1, 99, "questions of each round"},
		{"tokens", OPTION_NUMBER, &f->tokens, 2, 1000, "of an answer, at most"},
		{"store", OPTION_TEXT, &f->store, 0, 0, "folder of stores, as moefs -o store="}};
	struct command_line line = {"files MODEL", options, sizeof options / sizeof *options,
				    &f->model, 1};
	struct report r;
	int rc = command_line_parse(&line, argc, argv, e);
	if (rc) {
		free(f);
		return rc < 0 ? rc : 0;
	}
	report_begin(&r, "files", f->effort.json);
	rc = prepare(f, e);
	for (uint64_t i = 0; i < 2 * f->effort.rounds && rc == 0; i++)
		rc = round_of(f, i % 2, e);
	if (rc == 0)
		tell(f, &r);
	clean_up(f);
	free(f);
	int ended = report_end(&r, rc < 0 ? NULL : e);
	return rc < 0 ? rc : ended;
}

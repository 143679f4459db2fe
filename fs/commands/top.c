/* moefs top: the present activity of the visible mounts: tokens per second, hits and misses, the
 * disk, memory, and the sessions and maps of their models. It reads the files in the trees that its
 * user may read; sessions of others are only counted. Reading computes nothing, and does not delay
 * `idle=`.
 *
 * On a terminal it refreshes itself until q or Ctrl-C; otherwise it prints once. */
#include "fs/commands/commands.h"
#include "fs/base/human.h"
#include "fs/commands/mounts.h"
#include "fs/commands/top_screen.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TOP_MOUNTS = 64 };

static const char top_begin[] = "moefs "; /* first word of a mount's line */

/* The counters of a mount at the last look, for computing speeds. */
struct top_count {
	char *point; /* NULL: unused */
	struct timespec time;
	uint64_t output_tokens, prompt_tokens, bytes_read;
};

struct top {
	const char *only; /* the mountpoint or model on the command line; NULL: all mounts */
	uint32_t seconds, times; /* between two looks; number of looks, 0: no end */
	struct top_count counts[TOP_MOUNTS];
	struct text out;
	bool any; /* a mount was shown */
};

/* ---- reading ---- */

/* Adds a file below a folder; false: it cannot be read. */
static bool top_read(struct text *t, const char *folder, const char *name)
{
	char path[4096], piece[8192];
	ssize_t n = 0;
	if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
		return false;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (n = read(fd, piece, sizeof piece)) > 0)
		text_add(t, piece, (size_t)n);
	if (fd >= 0)
		close(fd);
	return fd >= 0 && n == 0 && !t->failed;
}

/* The value after a name in lines of names and values, up to the line's end; NULL: there is none.
 * The text ends in a zero. */
static const char *top_value(const struct text *t, const char *name)
{
	size_t n = strlen(name);
	const char *at = t->data;
	while (at && *at && !(!strncmp(at, name, n) && at[n] == ' ')) {
		at = strchr(at, '\n');
		at += at != NULL;
	}
	return at && *at ? at + n + 1 : NULL;
}

static uint64_t top_number(const struct text *t, const char *name)
{
	const char *value = top_value(t, name);
	return value ? strtoull(value, NULL, 10) : 0;
}

static double top_real(const struct text *t, const char *name)
{
	const char *value = top_value(t, name);
	return value ? strtod(value, NULL) : 0;
}

static bool top_read_values(struct text *t, const char *folder, const char *name)
{
	bool read = top_read(t, folder, name);
	text_add(t, "", 1);
	return read && !t->failed;
}

/* ---- sessions ---- */

struct top_model { /* the sessions of a model */
	struct top *top;
	const char *folder, *name;
	uint64_t shown;
};

static void top_session(struct top_model *m, const char *session)
{
	char folder[4096], status[32];
	struct text s = {0};
	struct text *out = &m->top->out;
	int n = snprintf(folder, sizeof folder, "%s/sessions/%s", m->folder, session);
	if (n < (int)sizeof folder && top_read_values(&s, folder, "stats") &&
	    !mounts_value(folder, "status", status, sizeof status)) {
		const uint64_t hits = top_number(&s, "expert_hits"),
			       all = hits + top_number(&s, "expert_misses");
		text_format(out, "%11s %8" PRIu64 " %8" PRIu64 " %8.1f %6.1f  ", status,
			    top_number(&s, "prompt_tokens"), top_number(&s, "output_tokens"),
			    top_real(&s, "decode_tokens_per_second"),
			    all ? 100. * (double)hits / (double)all : 0);
		text_line(out, m->name);
		text_string(out, " ");
		text_line(out, session);
		text_string(out, "\n");
		m->shown++;
	}
	text_free(&s);
}

static int top_is_session(const struct dirent *d)
{
	return *d->d_name != '.';
}

static int top_sessions(void *ctx, const char *folder, const char *name)
{
	struct top_model *m = ctx;
	struct dirent **list;
	char path[4096];
	m->folder = folder;
	m->name = name;
	if (snprintf(path, sizeof path, "%s/sessions", folder) >= (int)sizeof path)
		return 0;
	int count = scandir(path, &list, top_is_session, alphasort);
	for (int i = 0; i < count; i++) {
		top_session(m, list[i]->d_name);
		free(list[i]);
	}
	if (count >= 0)
		free(list);
	return 0;
}

/* ---- maps ---- */

static int top_map(void *ctx, const char *folder, const char *name)
{
	struct top *t = ctx;
	struct text map = {0};
	char state[64], experts[32];
	if (mounts_value(folder, "info/state", state, sizeof state))
		state[0] = 0;
	if (mounts_value(folder, "info/experts", experts, sizeof experts))
		experts[0] = 0;
	text_string(&t->out, "\n");
	text_line(&t->out, name);
	text_format(&t->out, " (%s)\n", state);
	if (strtoul(experts, NULL, 10) && top_read(&map, folder, "experts/map"))
		text_add(&t->out, map.data, map.length);
	text_free(&map);
	return 0;
}

/* ---- a mount ---- */

static double top_seconds(const struct timespec *a, const struct timespec *b)
{
	return (double)(b->tv_sec - a->tv_sec) + 1e-9 * (double)(b->tv_nsec - a->tv_nsec);
}

static struct top_count top_count_of(const struct text *s)
{
	struct top_count c = {.output_tokens = top_number(s, "output_tokens"),
			      .prompt_tokens = top_number(s, "prompt_tokens") -
					       top_number(s, "cached_tokens"),
			      .bytes_read = top_number(s, "bytes_read")};
	(void)clock_gettime(CLOCK_MONOTONIC, &c.time);
	return c;
}

/* The counters of a mount from the last look, or an unused entry; NULL: there are too many. */
static struct top_count *top_find_count(struct top *t, const char *point)
{
	for (size_t i = 0; i < TOP_MOUNTS; i++)
		if (!t->counts[i].point || !strcmp(t->counts[i].point, point))
			return &t->counts[i];
	return NULL;
}

/* Whether there are earlier counters; *per: the changes since then, per second. */
static bool top_speeds(struct top *t, const char *point, const struct text *s, double per[3])
{
	struct top_count now = top_count_of(s), *last = top_find_count(t, point);
	bool known = last && last->point;
	if (!last)
		return false;
	if (known) {
		double seconds = top_seconds(&last->time, &now.time);
		per[0] = (double)(now.output_tokens - last->output_tokens) / seconds;
		per[1] = (double)(now.prompt_tokens - last->prompt_tokens) / seconds;
		per[2] = (double)(now.bytes_read - last->bytes_read) / seconds;
	}
	now.point = known ? last->point : strdup(point);
	*last = now;
	return known;
}

static void top_size(struct text *out, const char *before, uint64_t bytes)
{
	char size[16];
	human_round_size(size, sizeof size, bytes);
	text_format(out, "%s%s", before, size);
}

static void top_summary(struct top *t, const char *point, const struct text *s)
{
	struct text *out = &t->out;
	double per[3] = {0};
	const uint64_t hits = top_number(s, "hits"), misses = top_number(s, "misses");
	bool known = top_speeds(t, point, s, per);
	text_string(out, top_begin);
	text_line(out, point);
	text_string(out, "\n");
	if (known)
		text_format(out, "speed     %.1f tokens/s of answers, %.1f of prompts\n", per[0],
			    per[1]);
	text_format(out, "turns     %" PRIu64 ", %" PRIu64 " of them remembered; %" PRIu64
			 " tokens of answers, %" PRIu64 " of prompts, %" PRIu64 " of these kept\n",
		    top_number(s, "turns"), top_number(s, "turns_remembered"),
		    top_number(s, "output_tokens"), top_number(s, "prompt_tokens"),
		    top_number(s, "cached_tokens"));
	text_format(out, "experts   %" PRIu64 " hits, %" PRIu64 " misses (%.1f %% hits)", hits,
		    misses, hits + misses ? 100. * (double)hits / (double)(hits + misses) : 0);
	top_size(out, "; ", top_number(s, "used"));
	top_size(out, " of ", top_number(s, "budget"));
	text_string(out, "\ndisk      ");
	top_size(out, "", top_number(s, "bytes_read"));
	text_string(out, " read");
	if (known)
		top_size(out, ", now per second ", (uint64_t)per[2]);
	text_format(out, "; waited %.1f s\n", top_real(s, "wait_seconds"));
	top_size(out, "contexts  ", top_number(s, "context_used"));
	top_size(out, " of ", top_number(s, "context_budget"));
	top_size(out, "; on disk ", top_number(s, "offload_used"));
	text_string(out, "\n");
}

static void top_tree(struct top *t, const struct mount_seen *m)
{
	struct text s = {0};
	struct top_model sessions = {.top = t};
	if (top_read_values(&s, m->point, "cache/stats")) {
		top_summary(t, m->point, &s);
		size_t at = t->out.length;
		text_string(&t->out, "\n     status   prompt   answer tokens/s  hits%  session\n");
		(void)mounts_models(m, top_sessions, &sessions);
		if (!sessions.shown)
			text_cut(&t->out, at);
		const uint64_t all = top_number(&s, "sessions");
		text_format(&t->out, "sessions  %" PRIu64 ", %" PRIu64 " at work, %" PRIu64
				     " hidden\n",
			    all, top_number(&s, "working"),
			    all > sessions.shown ? all - sessions.shown : 0);
		(void)mounts_models(m, top_map, t);
		t->any = true;
	}
	text_free(&s);
}

/* Does not read a mount that does not answer, since a read would block. */
static int top_mount(struct top *t, const struct mount_seen *m, struct err *e)
{
	struct mount_look look;
	int failed = mounts_look(&look, m, e);
	if (failed)
		return failed;
	if (t->out.length)
		text_string(&t->out, "\n");
	if (look.failed) {
		text_string(&t->out, top_begin);
		text_line(&t->out, m->point);
		text_format(&t->out, ": %s\n", look.failed);
	} else {
		top_tree(t, m);
	}
	mounts_look_free(&look);
	return 0;
}

/* ---- the command ---- */

/* Whether a mount is the one on the command line, or has the model on the command line. */
static bool top_wants(const struct top *t, const struct mount_seen *m)
{
	char path[4096], *real;
	bool is = !t->only || !strcmp(t->only, m->point);
	if (is)
		return true;
	real = realpath(t->only, NULL);
	is = real && !strcmp(real, m->point);
	free(real);
	if (!is && !m->hidden && m->uid == getuid() && !strchr(t->only, '/') &&
	    snprintf(path, sizeof path, "%s/%s/info/state", m->point, t->only) < (int)sizeof path)
		is = access(path, F_OK) == 0;
	return is;
}

static int top_first_line(const struct text *t)
{
	const char *end = memchr(t->data, '\n', t->length);
	return (int)(end ? end - t->data : (ptrdiff_t)t->length);
}

static int top_look(struct top *t, struct err *e)
{
	struct mounts_seen mounts;
	int failed = mounts_read(&mounts, NULL, e);
	if (failed)
		return failed;
	text_cut(&t->out, 0);
	t->any = false;
	for (size_t i = 0; i < mounts.count && !failed; i++)
		if (top_wants(t, &mounts.list[i]))
			failed = top_mount(t, &mounts.list[i], e);
	mounts_free(&mounts);
	if (failed)
		return failed;
	if (t->out.failed)
		return err_set(e, ENOMEM, "no memory to look at the mounts");
	if (!t->any && t->out.length) /* the reasons why nothing can be shown */
		return err_set(e, ENOENT, "%.*s", top_first_line(&t->out) - (int)strlen(top_begin),
			       t->out.data + strlen(top_begin));
	if (!t->any && t->only)
		return err_set(e, ENOENT,
			       "%s is no mount of moefs that can be read, and no mount has a model of "
			       "this name; moefs list shows the mounts",
			       t->only);
	return t->any ? 0 : err_set(e, ENOENT, "there is no mount of moefs that can be read");
}

static int top_options(struct top *t, int argc, char **argv)
{
	uint64_t number;
	int c;
	optind = 0;
	opterr = 0;
	while ((c = getopt(argc, argv, "d:n:")) != -1) {
		if (c == '?' || !human_parse_number(optarg, 10, 100000, &number) || !number)
			return COMMAND_WRONG;
		*(c == 'd' ? &t->seconds : &t->times) = (uint32_t)number;
	}
	t->only = optind < argc ? argv[optind] : NULL;
	return argc - optind > 1 ? COMMAND_WRONG : 0;
}

int top_run(int argc, char **argv, struct err *e)
{
	struct top t = {.seconds = 1};
	if (top_options(&t, argc, argv))
		return COMMAND_WRONG;
	bool screen = top_screen_begin();
	if (!t.times && !screen)
		t.times = 1;
	int failed = top_look(&t, e); /* the baseline for speeds */
	for (uint32_t i = 0; !failed && (!t.times || i < t.times); i++) {
		if (screen)
			top_screen_show(t.out.data, t.out.length);
		if (top_screen_wait(screen, t.seconds))
			break;
		failed = top_look(&t, e);
		if (!failed && !screen) {
			(void)fwrite(t.out.data, 1, t.out.length, stdout);
			(void)fflush(stdout);
		}
	}
	top_screen_end(screen);
	for (size_t i = 0; i < TOP_MOUNTS; i++)
		free(t.counts[i].point);
	text_free(&t.out);
	return failed ? COMMAND_FAILED : 0;
}

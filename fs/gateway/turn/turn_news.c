/* What comes of a turn, as it grows. See turn.h.
 *
 * moefs tells who polls a file that there is more. Another file system with a tree behind it
 * (sshfs) says that there always is, and lets a read wait: then files are read one after the other,
 * a piece at a time, and that the client has gone away is seen with the next piece. Nor does it
 * pass on that reading fails: that is an end as any other there, and status says which it was. */
#include "fs/gateway/turn/client.h"
#include "fs/gateway/turn/turn_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The file that news of a turn come to next: thoughts end before the text begins, and that before
 * the last of its tokens' lines. */
static struct growing *next_file(struct turn *t)
{
	for (int f = 0; f < GROWS; f++)
		if (t->files[f].fd >= 0)
			return &t->files[f];
	return NULL;
}

/* Calls come while the text does; once all else has ended they are always ready. */
static bool calls_come(const struct turn *t)
{
	return t->calls_fd >= 0 && t->files[GROWS_THOUGHTS].fd < 0 &&
	       t->files[GROWS_OUTPUT].fd >= 0;
}

/* One file alone is what its next news come to, and they come quickly or are the first: reading
 * waits for it. Calls come beside the output; so do lines, which nobody waits for before it. */
static bool may_block(const struct turn *t)
{
	bool thinks = t && t->files[GROWS_THOUGHTS].fd >= 0;
	return t && (t->quick || (!t->told && !t->slow)) && !t->over && t->gateway->polls &&
	       (thinks || (t->calls_fd < 0 && t->files[GROWS_LOGPROBS].fd < 0 &&
			   t->files[GROWS_OUTPUT].fd >= 0));
}

/* Whether reading what comes next waits; nothing else does. */
static bool set_blocking(struct turn *t, bool blocks)
{
	struct growing *next = next_file(t);
	for (int f = 0; f < GROWS; f++) {
		struct growing *g = &t->files[f];
		bool should = blocks && g == next;
		if (g->fd >= 0 && g->blocks != should &&
		    !fcntl(g->fd, F_SETFL, should ? 0 : O_NONBLOCK))
			g->blocks = should;
	}
	if (!next || !next->blocks)
		return false;
	blocked_add(&t->gateway->blocked, &t->reading);
	return true;
}

int turns_wait(struct turn *const *turns, size_t count, int client, int milliseconds)
{
	struct pollfd files[CLIENT_FILES];
	size_t n = 0, k = 0;
	/* The client's end before it is watched is seen here, and later by who watches it. */
	if (count == 1 && turns[0] && set_blocking(turns[0], may_block(turns[0])))
		return client_wait(client, files, 0, 0) < 0 ? -EPIPE : 0;
	for (size_t i = 0; i < count && n + 2 <= CLIENT_FILES; i++) {
		struct turn *t = turns[i];
		struct growing *next = t && !t->over ? next_file(t) : NULL;
		if (!next)
			continue;
		files[n++] = (struct pollfd){next->fd, POLLIN, 0};
		if (calls_come(t))
			files[n++] = (struct pollfd){t->calls_fd, POLLIN, 0};
	}
	int code = n ? client_wait(client, files, n, milliseconds) : 0;
	for (size_t i = 0; i < count && code > 0; i++) {
		struct turn *t = turns[i];
		if (!t || t->over || !next_file(t) || k >= n)
			continue;
		k++;
		if (calls_come(t))
			t->calls_ready = files[k++].revents;
	}
	return code < 0 ? code : 0;
}

/* How much of a text is whole characters. */
static size_t whole_characters(const struct text *t)
{
	size_t back = 1;
	while (back < 4 && back <= t->length && ((uint8_t)t->data[t->length - back] & 0xc0) == 0x80)
		back++;
	if (back > t->length)
		return t->length;
	uint8_t first = (uint8_t)t->data[t->length - back];
	size_t wants = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
	return wants > back ? t->length - back : t->length;
}

/* The newline that ends it stays back, since the tree may have put it there; so does half a
 * character. */
static size_t giveable_text(const struct text *t)
{
	size_t n = whole_characters(t);
	return n && t->data[n - 1] == '\n' ? n - 1 : n;
}

/* Whole lines but for the last, which may be of the token that ends the answer. */
static size_t giveable_lines(const struct text *t)
{
	const char *last = t->length > 1 ? memrchr(t->data, '\n', t->length - 1) : NULL;
	return last ? (size_t)(last + 1 - t->data) : 0;
}

/* How much of the next bytes the client has already. */
static size_t had_already(struct growing *g, size_t size)
{
	size_t n = 0;
	while (n < size && g->left_out < g->given.length &&
	       g->held.data[n] == g->given.data[g->left_out]) {
		g->left_out++;
		n++;
	}
	if (n < size)
		g->left_out = g->given.length;
	return n;
}

static void give(struct growing *g, size_t size, struct text *to)
{
	if (!size)
		return;
	size_t had = had_already(g, size);
	text_add_characters(to, g->held.data + had, size - had);
	memmove(g->held.data, g->held.data + size, g->held.length - size);
	text_cut(&g->held, g->held.length - size);
}

/* A read that gives less than it may has had all there is, but for the end, which comes with the
 * newline before it. */
static bool may_have_more(const struct turn *t, const struct growing *g, ssize_t n, size_t asked)
{
	return n > 0 && t->gateway->polls && !g->blocks &&
	       ((size_t)n == asked || g->held.data[g->held.length - 1] == '\n');
}

/* What there is of it. -errno where reading fails, which is a turn's that has failed. */
static int take_file(struct turn *t, enum grows which, struct text *to)
{
	char piece[16 << 10];
	struct growing *g = &t->files[which];
	ssize_t n = 0;
	if (g->fd < 0)
		return 0;
	do {
		n = g->blocks ? blocked_read(&t->reading, g->fd, piece, sizeof piece)
			      : read(g->fd, piece, sizeof piece);
		if (n > 0)
			text_add(&g->held, piece, (size_t)n);
		if (g->held.failed)
			return -ENOMEM;
	} while (may_have_more(t, g, n, sizeof piece));
	int code = n < 0 && errno != EAGAIN && errno != EINTR ? -errno : 0;
	t->slow |= n < 0 && errno == EINTR;
	if (n == 0 || code) {
		turn_close_later(t, g->fd);
		g->fd = -1;
	}
	give(g, which == GROWS_LOGPROBS ? giveable_lines(&g->held) : giveable_text(&g->held), to);
	return code;
}

/* All of tool_calls.json, through the open file, which so is not ready until the next comes. A file
 * system between may give what it has read before. */
static int read_calls(const struct turn *t, struct text *to)
{
	char piece[16 << 10];
	ssize_t n;
	if (!t->gateway->polls)
		return tree_read(turn_tree(t), to, "%s/sessions/%s/tool_calls.json",
				 t->session.model, t->session.name);
	while ((n = pread(t->calls_fd, piece, sizeof piece, (off_t)to->length)) > 0 && !to->failed)
		text_add(to, piece, (size_t)n);
	return n < 0 ? -errno : 0;
}

static int take_calls(struct turn *t, struct news *n)
{
	struct text raw = {0}, text = {0};
	if (t->calls_fd < 0)
		return 0;
	int code = read_calls(t, &raw);
	t->calls_ready = false;
	text_add_characters(&text, raw.data, raw.length);
	text_free(&raw);
	text_add(&text, "", 1);
	struct json_object *list = code || text.failed ? NULL : json_tokener_parse(text.data);
	text_free(&text);
	size_t count = list && json_object_is_type(list, json_type_array)
			       ? json_object_array_length(list)
			       : 0;
	for (size_t i = t->calls; i < count; i++) {
		if (!n->calls)
			n->calls = json_object_new_array();
		struct json_object *call = json_object_array_get_idx(list, i);
		call_id_for_client(call, t->protocol, t->mark);
		json_object_array_add(n->calls, json_object_get(call));
	}
	if (count > t->calls)
		t->calls = count;
	json_object_put(list);
	return code;
}

/* Contexts of sessions that are kept may have taken the room that this one needs: before it is said
 * to have failed they go, and it is answered again, once. */
static bool answered_again(struct turn *t)
{
	struct problem p;
	char state[32];
	bool dropped = false;
	tree_line(turn_tree(t), state, sizeof state, "%s/info/state", t->session.model);
	if (t->told || !t->answers || strcmp(state, "ready") != 0)
		return false;
	while (kept_drop(t->gateway->kept))
		dropped = true;
	t->answers = false;
	if (!dropped || tree_write(turn_tree(t), turn_verb(t), strlen(turn_verb(t)),
				   "%s/sessions/%s/ctl", t->session.model, t->session.name))
		return false;
	for (int i = 0; i < GROWS; i++) {
		if (t->files[i].fd >= 0)
			close(t->files[i].fd);
		t->files[i].fd = -1;
		t->files[i].blocks = false;
		text_cut(&t->files[i].held, 0);
		t->files[i].left_out = 0;
	}
	if (t->calls_fd >= 0)
		close(t->calls_fd);
	t->calls_fd = -1;
	return !turn_open_files(t, &p);
}

/* One after the other: the next comes when this has ended. */
static int take_next_file(struct turn *t, struct news *n)
{
	struct text *const to[GROWS] = {&n->thoughts, &n->output, &n->logprobs};
	for (int i = 0; i < GROWS; i++) {
		bool open = t->files[i].fd >= 0;
		int code = take_file(t, (enum grows)i, to[i]);
		if (open)
			return i == GROWS_LOGPROBS ? 0 : code;
	}
	return 0;
}

/* In the order in which they grow: no thought comes after the text. Calls are read before the text
 * that stands behind them is. */
static int take_files(struct turn *t, struct news *n)
{
	int thoughts = take_file(t, GROWS_THOUGHTS, &n->thoughts);
	if (thoughts || t->files[GROWS_THOUGHTS].fd >= 0)
		return take_file(t, GROWS_LOGPROBS, &n->logprobs), thoughts;
	struct pollfd calls = {t->calls_fd, POLLIN, 0}; /* one may have come since */
	if (t->calls_ready || (calls_come(t) && poll(&calls, 1, 0) > 0))
		(void)take_calls(t, n);
	int output = take_file(t, GROWS_OUTPUT, &n->output);
	(void)take_file(t, GROWS_LOGPROBS, &n->logprobs);
	return output;
}

/* Whether news come so quickly that their reader may wait in the kernel. */
static void note_pace(struct turn *t, bool something)
{
	enum { QUICK_NS = 100 * 1000 * 1000 };
	struct timespec c;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &c);
	uint64_t now = (uint64_t)c.tv_sec * 1000000000u + (uint64_t)c.tv_nsec;
	t->quick = something && t->told && now - t->told_ns < QUICK_NS;
	if (something)
		t->told_ns = now;
	t->told |= something;
}

static bool ended_badly(const struct turn *t)
{
	char word[32];
	tree_line(turn_tree(t), word, sizeof word, "%s/sessions/%s/status", t->session.model,
		  t->session.name);
	return strcmp(word, "done") != 0 && strcmp(word, "stopped") != 0;
}

int turn_take(struct turn *t, struct news *n, struct problem *p)
{
	struct growing *output = &t->files[GROWS_OUTPUT], *lines = &t->files[GROWS_LOGPROBS];
	if (t->told)
		turn_close_now(t);
	int failed = t->gateway->polls ? take_files(t, n) : take_next_file(t, n);
	if (!failed && (!t->gateway->polls || output->fd < 0))
		(void)take_calls(t, n); /* the last ones that came, too */
	t->over = output->fd < 0 && t->files[GROWS_THOUGHTS].fd < 0 && lines->fd < 0;
	if (t->over && !failed && !t->gateway->polls && ended_badly(t))
		failed = -EIO;
	n->over = t->over || failed;
	if (failed && answered_again(t)) {
		t->over = n->over = false;
		return 0;
	}
	if (failed) {
		t->over = true;
		t->failed = true;
		return turn_refused(t, -EIO, NULL, p);
	}
	struct usage u = {0};
	if (t->over)
		turn_usage(t, &u);
	if (t->over && !t->counted) {
		/* What it came to cannot be had: the session has gone, or all of the tree. */
		t->failed = true;
		return turn_refused(t, -EIO, NULL, p);
	}
	if (t->over && lines->held.length) {
		if (strcmp(u.finish, "end") != 0 && strcmp(u.finish, "tool_calls") != 0)
			give(lines, lines->held.length, &n->logprobs);
	}
	note_pace(t, n->thoughts.length || n->output.length || n->calls);
	if (n->thoughts.failed || n->output.failed || n->logprobs.failed) {
		n->over = t->failed = true;
		return problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
	}
	return 0;
}

void news_free(struct news *n)
{
	text_free(&n->thoughts);
	text_free(&n->output);
	text_free(&n->logprobs);
	json_object_put(n->calls);
	*n = (struct news){0};
}

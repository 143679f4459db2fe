/* A turn's output, read from its files as they grow. See turn.h.
 *
 * moefs tells a client that polls a file when there is more to read. A file system in between
 * (sshfs) always reports the file as readable and lets the read wait. Then files are read one after
 * the other, a piece at a time, and a disconnected client is noticed with the next piece. Such a
 * file system also hides read errors: they look like the end of the file, so `status` tells how the
 * turn ended. */
#include "fs/gateway/turn/client_wait.h"
#include "cache/utf8.h"
#include "fs/gateway/body/document.h"
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/turn/tree_client.h"
#include "fs/gateway/turn/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The file that grows next: thoughts end before the text begins, and the text ends before the
 * logprobs of its last tokens. */
static struct growing *turn_next_file(struct turn *t)
{
	for (int f = 0; f < GROWS; f++)
		if (t->files[f].fd >= 0)
			return &t->files[f];
	return NULL;
}

/* Whether calls may come: they come while the text does. Afterwards their file is always
 * readable. */
static bool turn_calls_come(const struct turn *t)
{
	return t->calls_fd >= 0 && t->files[GROWS_THOUGHTS].fd < 0 &&
	       t->files[GROWS_OUTPUT].fd >= 0;
}

/* Whether a read may wait for the next news: if the news can come in only one file, and come
 * quickly or are the first. Calls and logprobs come beside the output. */
static bool turn_may_block(const struct turn *t)
{
	bool thinks = t->files[GROWS_THOUGHTS].fd >= 0;
	return (t->quick || (!t->told && !t->slow)) && !t->over && t->gateway->polls &&
	       (thinks || (t->calls_fd < 0 && t->files[GROWS_LOGPROBS].fd < 0 &&
			   t->files[GROWS_OUTPUT].fd >= 0));
}

/* Lets reads of the next file block if turn_may_block, and reads of no other file. Returns whether
 * they do. */
static bool turn_set_blocking(struct turn *t)
{
	bool blocks = turn_may_block(t);
	struct growing *next = turn_next_file(t);
	for (int f = 0; f < GROWS; f++) {
		struct growing *g = &t->files[f];
		bool should = blocks && g == next;
		if (g->fd >= 0 && g->blocks != should &&
		    !fcntl(g->fd, F_SETFL, should ? 0 : O_NONBLOCK))
			g->blocks = should;
	}
	if (!next || !next->blocks)
		return false;
	client_reads_add(&t->gateway->reads, &t->reading);
	return true;
}

int turns_wait(struct turn *const *turns, size_t count, int client, int milliseconds,
	       struct problem *p)
{
	struct pollfd files[CLIENT_FILES];
	size_t n = 0, k = 0;
	/* This notices a client that disconnected before client_wait.c began to watch it. */
	if (count == 1 && turns[0] && turn_set_blocking(turns[0]))
		return client_wait(client, files, 0, 0) < 0 ? problem_gone(p) : 0;
	for (size_t i = 0; i < count && n + 2 <= CLIENT_FILES; i++) {
		struct turn *t = turns[i];
		struct growing *next = t && !t->over ? turn_next_file(t) : NULL;
		if (!next)
			continue;
		files[n++] = (struct pollfd){next->fd, POLLIN, 0};
		if (turn_calls_come(t))
			files[n++] = (struct pollfd){t->calls_fd, POLLIN, 0};
	}
	int code = n ? client_wait(client, files, n, milliseconds) : 0;
	for (size_t i = 0; i < count && code > 0; i++) {
		struct turn *t = turns[i];
		if (!t || t->over || !turn_next_file(t) || k >= n)
			continue;
		k++;
		if (turn_calls_come(t))
			t->calls_ready = files[k++].revents;
	}
	return code < 0 ? problem_gone(p) : 0;
}

/* How many bytes of a text can be given to the client: whole characters, without a newline at the
 * end, which the tree may have added. */
static size_t news_giveable_text(const struct text *t)
{
	size_t n = t->length, begin = n ? utf8_begin(t->data, n - 1) : 0;
	if (n && utf8_promised_length(t->data[begin]) > n - begin)
		n = begin;
	return n && t->data[n - 1] == '\n' ? n - 1 : n;
}

/* Whole lines except the last, which may belong to the token that ends the answer. */
static size_t news_giveable_lines(const struct text *t)
{
	const char *last = t->length > 1 ? memrchr(t->data, '\n', t->length - 1) : NULL;
	return last ? (size_t)(last + 1 - t->data) : 0;
}

/* Gives the first `size` held bytes to the client, except for the part of the answer that the
 * request already contains. */
static void news_give(struct growing *g, size_t size, struct text *to)
{
	size_t had = 0;
	if (!size)
		return;
	while (had < size && g->left_out < g->given.length &&
	       g->held.data[had] == g->given.data[g->left_out]) {
		g->left_out++;
		had++;
	}
	if (had < size)
		g->left_out = g->given.length;
	text_add_characters(to, g->held.data + had, size - had);
	memmove(g->held.data, g->held.data + size, g->held.length - size);
	text_cut(&g->held, g->held.length - size);
}

/* Whether to read again. A read that returns less than it asked for has read everything, except for
 * the file's end, which follows the final newline. */
static bool turn_may_have_more(const struct turn *t, const struct growing *g, ssize_t n,
			       size_t asked)
{
	return n > 0 && t->gateway->polls && !g->blocks &&
	       ((size_t)n == asked || g->held.data[g->held.length - 1] == '\n');
}

/* Reads everything that a file has. -errno: reading failed, so the turn has failed. */
static int turn_take_file(struct turn *t, enum grows which, struct text *to)
{
	char piece[16 << 10];
	struct growing *g = &t->files[which];
	ssize_t n = 0;
	if (g->fd < 0)
		return 0;
	do {
		n = g->blocks ? client_read(&t->reading, g->fd, piece, sizeof piece)
			      : read(g->fd, piece, sizeof piece);
		if (n > 0)
			text_add(&g->held, piece, (size_t)n);
		if (g->held.failed)
			return -ENOMEM;
	} while (turn_may_have_more(t, g, n, sizeof piece));
	int code = n < 0 && errno != EAGAIN && errno != EINTR ? -errno : 0;
	t->slow |= n < 0 && errno == EINTR;
	if (n == 0 || code) {
		turn_close_later(t, g->fd);
		g->fd = -1;
	}
	news_give(g,
		  which == GROWS_LOGPROBS ? news_giveable_lines(&g->held)
					  : news_giveable_text(&g->held),
		  to);
	return code;
}

/* Reads all of tool_calls.json through the open file, so that poll(2) reports it again only for the
 * next call. A file system in between may return cached text, so there the file is opened again. */
static int turn_read_calls(const struct turn *t, struct text *to)
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

static int turn_take_calls(struct turn *t, struct news *n)
{
	enum { DEPTH = 64 }; /* more than the engine writes */
	struct text raw = {0}, text = {0};
	if (t->calls_fd < 0)
		return 0;
	int code = turn_read_calls(t, &raw);
	t->calls_ready = false;
	text_add_characters(&text, raw.data, raw.length);
	text_free(&raw);
	text_add(&text, "", 1);
	struct document_error why;
	struct json_object *list = code ? NULL : document_parse(&text, DEPTH, &why);
	text_free(&text);
	size_t count = json_length(list);
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

/* Without polling: reads one file after the other, each when the one before has ended. */
static int turn_take_next_file(struct turn *t, struct news *n)
{
	struct text *const to[GROWS] = {&n->thoughts, &n->output, &n->logprobs};
	for (int i = 0; i < GROWS; i++) {
		bool open = t->files[i].fd >= 0;
		int code = turn_take_file(t, (enum grows)i, to[i]);
		if (open)
			return i == GROWS_LOGPROBS ? 0 : code;
	}
	return 0;
}

/* Reads all files, in the order in which they grow: no thought comes after the text. Calls are read
 * before the text that follows them. */
static int turn_take_files(struct turn *t, struct news *n)
{
	int thoughts = turn_take_file(t, GROWS_THOUGHTS, &n->thoughts);
	if (thoughts || t->files[GROWS_THOUGHTS].fd >= 0)
		return turn_take_file(t, GROWS_LOGPROBS, &n->logprobs), thoughts;
	struct pollfd calls = {t->calls_fd, POLLIN, 0}; /* a call may have come since turns_wait */
	if (t->calls_ready || (turn_calls_come(t) && poll(&calls, 1, 0) > 0))
		(void)turn_take_calls(t, n);
	int output = turn_take_file(t, GROWS_OUTPUT, &n->output);
	(void)turn_take_file(t, GROWS_LOGPROBS, &n->logprobs);
	return output;
}

/* Records whether news come so quickly that the next may be waited for in read(2). */
static void turn_note_pace(struct turn *t, bool something)
{
	enum { QUICK_NS = 100 * 1000 * 1000 };
	uint64_t now = client_clock();
	t->quick = something && t->told && now - t->told_ns < QUICK_NS;
	if (something)
		t->told_ns = now;
	t->told |= something;
}

int turn_take(struct turn *t, struct news *n, struct problem *p)
{
	struct growing *output = &t->files[GROWS_OUTPUT], *lines = &t->files[GROWS_LOGPROBS];
	if (t->told)
		turn_close_now(t);
	int failed = t->gateway->polls ? turn_take_files(t, n) : turn_take_next_file(t, n);
	if (!failed && (!t->gateway->polls || output->fd < 0))
		(void)turn_take_calls(t, n); /* the last calls */
	t->over = output->fd < 0 && t->files[GROWS_THOUGHTS].fd < 0 && lines->fd < 0;
	if (t->over && !failed && !t->gateway->polls) {
		char status[32];
		tree_line(turn_tree(t), status, sizeof status, "%s/sessions/%s/status",
			  t->session.model, t->session.name);
		if (strcmp(status, "done") != 0 && strcmp(status, "stopped") != 0)
			failed = -EIO;
	}
	n->over = t->over || failed;
	if (failed) {
		t->over = true;
		t->failed = true;
		return turn_refused(t, -EIO, NULL, p);
	}
	struct usage u = {0};
	if (t->over)
		turn_usage(t, &u);
	if (t->over && !t->counted) {
		/* There are no stats: the session or the whole tree is gone. */
		t->failed = true;
		return turn_refused(t, -EIO, NULL, p);
	}
	/* The last line belongs to the answer, unless its token only ends the answer. */
	if (t->over && strcmp(u.finish, "end") != 0 && strcmp(u.finish, "tool_calls") != 0)
		news_give(lines, lines->held.length, &n->logprobs);
	turn_note_pace(t, n->thoughts.length || n->output.length || n->calls);
	if (n->thoughts.failed || n->output.failed || n->logprobs.failed) {
		n->over = t->failed = true;
		return problem_no_memory(p);
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

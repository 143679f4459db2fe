/* A turn by the files of its session. See turn.h.
 *
 * moefs tells who polls a file that there is more. Another file system with a tree behind it
 * (sshfs) says that there always is, and lets a read wait: then files are read one after the other,
 * a piece at a time, and that the client has gone away is seen with the next piece. */
#include "fs/gateway/client.h"
#include "fs/gateway/gate.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/identity.h"
#include "fs/gateway/kept.h"
#include "fs/gateway/tree.h"
#include "fs/gateway/turn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that grows while the turn works. */
struct growing {
	int fd;		  /* -1: it was not opened, or has ended */
	struct text held; /* what cannot be given yet */
};

enum grows { GROWS_THOUGHTS, GROWS_OUTPUT, GROWS_LOGPROBS, GROWS };
static const char *const growing_files[GROWS] = {"thoughts", "output", "logprobs.jsonl"};

struct turn {
	struct gateway *gateway;
	struct kept_session session; /* its model, its name, and by what it is known again */
	bool slot, made, submitted, over, failed, keeps, used;
	struct growing files[GROWS];
	int calls_fd;
	size_t calls; /* that were given */
};

static const char *tree_of(const struct turn *t)
{
	return t->gateway->options->tree;
}

/* ---- what is refused ---- */

static void first_line(struct text *words)
{
	text_add(words, "", 1);
	if (words->data)
		words->data[strcspn(words->data, "\n")] = 0;
}

/* What the session says of its last failure; the words of the errno if it says nothing. */
static int refused(const struct turn *t, int code, const char *field, struct problem *p)
{
	struct text words = {0};
	bool late = code == -EIO || code == -ENOTCONN || code == -ESTALE;
	(void)tree_read(tree_of(t), &words, "%s/sessions/%s/error", t->session.model,
			t->session.name);
	first_line(&words);
	const char *why = words.data && *words.data ? words.data : strerror(-code);
	/* What was refused has the session's path before it, which tells a client nothing. */
	const char *path = strstr(why, t->session.name);
	if (path && !strncmp(path + strlen(t->session.name), ": ", 2))
		why = path + strlen(t->session.name) + 2;
	enum problem_kind kind = code == -EFBIG				      ? PROBLEM_TOO_LONG
				 : late || code == -ENOENT || code == -ENOMEM ? PROBLEM_FAILED
				 : code == -ENOSPC			      ? PROBLEM_NOT_NOW
									      : PROBLEM_INVALID;
	problem_set(p, kind, field, "%s", why);
	text_free(&words);
	return -1;
}

struct names {
	struct text text;
};

static int add_name(void *ctx, const char *name)
{
	struct names *n = ctx;
	text_format(&n->text, "%s%s", n->text.length ? ", " : "", name);
	return 0;
}

int turn_model(const struct request *r, const char *model, struct problem *p)
{
	const char *tree = r->gateway->options->tree;
	struct names n = {0};
	if (tree_model(tree, model))
		return 0;
	int code = tree_models(tree, add_name, &n);
	if (code)
		problem_set(p, PROBLEM_NOT_NOW, NULL, "the tree cannot be read: %s",
			    strerror(-code));
	else
		problem_set(p, PROBLEM_MODEL, "model",
			    "The model '%.100s' does not exist. There are: %.*s", model,
			    (int)n.text.length, n.text.length ? n.text.data : "");
	text_free(&n.text);
	return -1;
}

/* ---- wishes ---- */

bool wish_param(struct wish *w, const char *name, const char *field, const char *format, ...)
{
	va_list values;
	struct wish_param *param = &w->params[w->param_count];
	if (w->param_count == WISH_PARAMS)
		return false;
	va_start(values, format);
	int n = vasprintf(&param->value, format, values);
	va_end(values);
	if (n < 0)
		return false;
	param->name = name;
	param->field = field;
	w->param_count++;
	return true;
}

void wish_free(struct wish *w)
{
	for (size_t i = 0; i < w->param_count; i++)
		free(w->params[i].value);
	json_object_put(w->messages);
	json_object_put(w->tools);
	*w = (struct wish){0};
}

/* ---- beginning ---- */

static char *session_path(const struct turn *t, char path[TREE_PATH])
{
	return tree_path(path, tree_of(t), "%s/sessions/%s", t->session.model, t->session.name);
}

static void name_session(struct turn *t, const char *kind)
{
	(void)snprintf(t->session.name, sizeof t->session.name, "http-%s%s-%" PRIu64, kind,
		       t->gateway->id, atomic_fetch_add(&t->gateway->next_session, 1) + 1);
}

static int make_session(struct turn *t, struct problem *p)
{
	char path[TREE_PATH];
	name_session(t, "");
	if (!session_path(t, path))
		return problem_set(p, PROBLEM_FAILED, NULL, "the tree's path is too long");
	if (mkdir(path, 0700))
		return problem_set(p, errno == ENOSPC ? PROBLEM_BUSY : PROBLEM_NOT_NOW, NULL,
				   "cannot make a session in the tree: %s", strerror(errno));
	t->made = true;
	return 0;
}

/* Under another name; where that cannot be it stays what it is. */
static bool rename_session(struct turn *t, const char *kind)
{
	char from[TREE_PATH], to[TREE_PATH], old[KEPT_NAME];
	memcpy(old, t->session.name, sizeof old);
	bool fits = session_path(t, from);
	name_session(t, kind);
	if (fits && session_path(t, to) && !rename(from, to))
		return true;
	memcpy(t->session.name, old, sizeof old);
	return false;
}

/* The session that was kept of the same conversation. False: it is gone, somebody has removed it.
 */
static bool go_on(struct turn *t, const struct kept_session *kept)
{
	memcpy(t->session.name, kept->name, sizeof t->session.name);
	t->made = t->used = rename_session(t, "");
	return t->made;
}

/* A new session that begins as the one that was kept. Where that fails it is merely new. */
static int fork_session(struct turn *t, struct kept_session *kept, struct problem *p)
{
	char folder[TREE_PATH], from[KEPT_NAME + 8], to[KEPT_NAME + 8];
	if (make_session(t, p))
		return -1;
	(void)snprintf(folder, sizeof folder, "%s/sessions", t->session.model);
	(void)snprintf(from, sizeof from, "%s/state", kept->name);
	(void)snprintf(to, sizeof to, "%s/state", t->session.name);
	t->used = !tree_copy(tree_of(t), folder, from, to);
	if (t->used)
		memcpy(t->session.params, kept->params, sizeof t->session.params);
	kept_put(t->gateway->kept, kept);
	return 0;
}

static int find_session(struct turn *t, const struct wish *w, struct problem *p)
{
	struct kept_session kept = {0};
	enum kept_found found = KEPT_NONE;
	bool known = w->messages && !w->beside && t->gateway->options->keep &&
		     kept_hash(&t->session, w->tools, w->messages);
	t->keeps = known;
	if (known)
		found = kept_take(t->gateway->kept, &t->session, &kept);
	if (found == KEPT_BEGINNING)
		return fork_session(t, &kept, p);
	if (found == KEPT_WHOLE) {
		memcpy(t->session.params, kept.params, sizeof t->session.params);
		bool there = go_on(t, &kept);
		free(kept.messages);
		if (there)
			return 0;
		*t->session.params = 0;
	}
	return make_session(t, p);
}

static int put(const struct turn *t, const char *file, const char *field, const char *data,
	       size_t size, struct problem *p)
{
	int code = tree_write(tree_of(t), data, size, "%s/sessions/%s/%s", t->session.model,
			      t->session.name, file);
	return code ? refused(t, code, field, p) : 0;
}

static int put_json(const struct turn *t, const char *file, const char *field,
		    struct json_object *json, struct problem *p)
{
	size_t size;
	const char *text =
		json_object_to_json_string_length(json, JSON_C_TO_STRING_NOSLASHESCAPE, &size);
	if (!text)
		return problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
	return put(t, file, field, text, size, p);
}

static bool is_in(const char *list, const char *name)
{
	size_t n = strlen(name);
	for (const char *at = list; (at = strstr(at, name)); at += n)
		if ((at == list || at[-1] == ' ') && at[n] == ' ')
			return true;
	return false;
}

/* As every new session's: those of sessions/default. */
static void reset_param(const struct turn *t, const char *name)
{
	struct text value = {0};
	if (!tree_read(tree_of(t), &value, "%s/sessions/default/params/%s", t->session.model, name))
		(void)tree_write(tree_of(t), value.data, value.length, "%s/sessions/%s/params/%s",
				 t->session.model, t->session.name, name);
	text_free(&value);
}

/* What an earlier request has set in this session. What an answer is held to goes before what
 * describes it. */
static void reset_params(struct turn *t)
{
	char names[KEPT_PARAMS], *rest = names;
	memcpy(names, t->session.params, sizeof names);
	if (is_in(names, "format"))
		reset_param(t, "format");
	for (char *name; (name = strsep(&rest, " "));)
		if (*name)
			reset_param(t, name);
	*t->session.params = 0;
}

/* What is advice alone may be refused. */
static int put_params(struct turn *t, const struct wish *w, struct problem *p)
{
	size_t used = 0;
	for (size_t i = 0; i < w->param_count; i++) {
		char file[64];
		const struct wish_param *param = &w->params[i];
		(void)snprintf(file, sizeof file, "params/%s", param->name);
		if (put(t, file, param->field, param->value, strlen(param->value), p) &&
		    !param->advice)
			return -1;
		used += (size_t)snprintf(t->session.params + used, KEPT_PARAMS - used, "%s ",
					 param->name);
		if (used >= KEPT_PARAMS)
			t->keeps = false;
	}
	return 0;
}

static int submit(struct turn *t, const struct wish *w, struct problem *p)
{
	bool used = t->used;
	reset_params(t);
	if (w->tools ? put_json(t, "tools.json", "tools", w->tools, p)
		     : used && put(t, "tools.json", "tools", "[]\n", 3, p))
		return -1;
	if (put_params(t, w, p))
		return -1;
	if (!w->messages)
		return put(t, "prompt", "prompt", w->prompt, w->prompt_size, p);
	if (put_json(t, "messages.json", "messages", w->messages, p))
		return -1;
	return put(t, "ctl", "messages", "answer\n", 7, p);
}

static int open_file(const struct turn *t, const char *file)
{
	char path[TREE_PATH];
	if (!tree_path(path, tree_of(t), "%s/sessions/%s/%s", t->session.model, t->session.name,
		       file))
		return -1;
	return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

static int open_files(struct turn *t, const struct wish *w, struct problem *p)
{
	for (int i = 0; i < GROWS; i++) {
		if (i == GROWS_LOGPROBS && !w->logprobs)
			continue;
		t->files[i].fd = open_file(t, growing_files[i]);
		if (t->files[i].fd < 0)
			return refused(t, -errno, NULL, p);
	}
	if (!w->tools)
		return 0;
	t->calls_fd = open_file(t, "tool_calls.json");
	return t->calls_fd < 0 ? refused(t, -errno, NULL, p) : 0;
}

static int enter(struct request *r, struct problem *p)
{
	struct gateway *g = r->gateway;
	int code = atomic_load(&g->stopping) ? -ESHUTDOWN : gate_enter(g->gate, r->key, r->client);
	switch (code) {
	case 0:
		return 0;
	case -EPIPE:
		return problem_set(p, PROBLEM_GONE, NULL, "the client has gone away");
	case -EBUSY:
		return problem_set(p, PROBLEM_BUSY, NULL,
				   "%u requests are answered and %u wait already; try again later",
				   g->options->active, g->options->queue);
	default:
		return problem_set(p, PROBLEM_NOT_NOW, NULL, "the server is ending");
	}
}

int turn_begin(struct turn **out, struct request *r, const struct wish *w, struct problem *p)
{
	if (!w->beside && enter(r, p))
		return -1;
	struct turn *t = calloc(1, sizeof *t);
	if (!t && !w->beside)
		gate_leave(r->gateway->gate, r->key);
	if (!t)
		return problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
	t->slot = !w->beside;
	t->gateway = r->gateway;
	t->session.key = r->key;
	t->calls_fd = -1;
	for (int i = 0; i < GROWS; i++)
		t->files[i].fd = -1;
	(void)snprintf(t->session.model, sizeof t->session.model, "%s", w->model);
	if (find_session(t, w, p) || submit(t, w, p)) {
		turn_end(t);
		return -1;
	}
	t->submitted = true;
	if (open_files(t, w, p)) {
		turn_end(t);
		return -1;
	}
	*out = t;
	return 0;
}

/* ---- what comes ---- */

int turns_wait(struct turn *const *turns, size_t count, int client, int milliseconds)
{
	struct pollfd files[CLIENT_FILES];
	size_t n = 0;
	for (size_t i = 0; i < count; i++) {
		const struct turn *t = turns[i];
		if (!t || t->over)
			continue;
		for (int f = 0; f < GROWS && n < CLIENT_FILES; f++)
			if (t->files[f].fd >= 0)
				files[n++] = (struct pollfd){t->files[f].fd, POLLIN, 0};
		/* Once all else has ended it is always ready. */
		if (t->calls_fd >= 0 && t->files[GROWS_OUTPUT].fd >= 0 && n < CLIENT_FILES)
			files[n++] = (struct pollfd){t->calls_fd, POLLIN, 0};
	}
	int code = n ? client_wait(client, files, n, milliseconds) : 0;
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

static void give(struct growing *g, size_t size, struct text *to)
{
	if (!size)
		return;
	text_add(to, g->held.data, size);
	memmove(g->held.data, g->held.data + size, g->held.length - size);
	text_cut(&g->held, g->held.length - size);
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
		n = read(g->fd, piece, sizeof piece);
		if (n > 0)
			text_add(&g->held, piece, (size_t)n);
	} while (n > 0 && t->gateway->polls);
	int code = n < 0 && errno != EAGAIN && errno != EINTR ? -errno : 0;
	if (n == 0 || code) {
		close(g->fd);
		g->fd = -1;
	}
	give(g, which == GROWS_LOGPROBS ? giveable_lines(&g->held) : giveable_text(&g->held), to);
	return code;
}

static int take_calls(struct turn *t, struct news *n)
{
	struct text text = {0};
	if (t->calls_fd < 0)
		return 0;
	int code = tree_read(tree_of(t), &text, "%s/sessions/%s/tool_calls.json", t->session.model,
			     t->session.name);
	/* Through the open file as well, which so is not ready until the next comes. */
	char one;
	(void)!pread(t->calls_fd, &one, 1, 0);
	text_add(&text, "", 1);
	struct json_object *list = code || text.failed ? NULL : json_tokener_parse(text.data);
	text_free(&text);
	size_t count = list && json_object_is_type(list, json_type_array)
			       ? json_object_array_length(list)
			       : 0;
	for (size_t i = t->calls; i < count; i++) {
		if (!n->calls)
			n->calls = json_object_new_array();
		json_object_array_add(n->calls,
				      json_object_get(json_object_array_get_idx(list, i)));
	}
	if (count > t->calls)
		t->calls = count;
	json_object_put(list);
	return code;
}

/* Why a turn failed. What is too long is known by its numbers, not by words. */
static int why_failed(struct turn *t, struct problem *p)
{
	char wanted[32], context[32], state[32];
	tree_line(tree_of(t), state, sizeof state, "%s/info/state", t->session.model);
	tree_line(tree_of(t), context, sizeof context, "%s/info/context", t->session.model);
	tree_line(tree_of(t), wanted, sizeof wanted, "%s/sessions/%s/rendered_tokens",
		  t->session.model, t->session.name);
	unsigned long long has = strtoull(wanted, NULL, 10), most = strtoull(context, NULL, 10);
	t->failed = true;
	if (has && most && has >= most && !strcmp(state, "ready"))
		return problem_set(
			p, PROBLEM_TOO_LONG, "messages",
			"This model's maximum context length is %llu tokens. However, "
			"your messages resulted in %llu tokens, which leaves no room for "
			"an answer: shorten them by at least %llu.",
			most, has, has + 1 - most);
	refused(t, -EIO, NULL, p);
	if (!strcmp(state, "failed"))
		p->kind = PROBLEM_NOT_NOW;
	return -1;
}

int turn_take(struct turn *t, struct news *n, struct problem *p)
{
	struct text *const to[GROWS] = {&n->thoughts, &n->output, &n->logprobs};
	struct growing *output = &t->files[GROWS_OUTPUT], *lines = &t->files[GROWS_LOGPROBS];
	int failed = 0;
	for (int i = 0; i < GROWS && !failed; i++) {
		bool open = t->files[i].fd >= 0;
		int code = take_file(t, (enum grows)i, to[i]);
		failed = i == GROWS_LOGPROBS ? 0 : code;
		if (open && !t->gateway->polls)
			break; /* the next comes when this has ended */
	}
	if (!failed)
		(void)take_calls(t, n);
	t->over = output->fd < 0 && t->files[GROWS_THOUGHTS].fd < 0 && lines->fd < 0;
	n->over = t->over || failed;
	if (failed) {
		t->over = true;
		return why_failed(t, p);
	}
	if (t->over && lines->held.length) {
		struct usage u;
		turn_usage(t, &u);
		if (strcmp(u.finish, "end") != 0 && strcmp(u.finish, "tool_calls") != 0)
			give(lines, lines->held.length, &n->logprobs);
	}
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

/* The value of a line `KEY VALUE`; NULL: there is none such. */
static const char *value_of(const char *stats, const char *key)
{
	size_t n = strlen(key);
	for (const char *line = stats; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, n) && line[n] == ' ')
			return line + n + 1;
	}
	return NULL;
}

static uint64_t number_of(const char *stats, const char *key)
{
	const char *value = value_of(stats, key);
	return value ? strtoull(value, NULL, 10) : 0;
}

void turn_usage(struct turn *t, struct usage *u)
{
	struct text stats = {0};
	*u = (struct usage){.finish = "error"};
	int code = tree_read(tree_of(t), &stats, "%s/sessions/%s/stats", t->session.model,
			     t->session.name);
	text_add(&stats, "", 1);
	if (!code && !stats.failed) {
		const char *finish = value_of(stats.data, "finish");
		u->prompt = number_of(stats.data, "prompt_tokens");
		u->cached = number_of(stats.data, "cached_tokens");
		u->output = number_of(stats.data, "output_tokens");
		if (finish)
			(void)snprintf(u->finish, sizeof u->finish, "%.*s",
				       (int)strcspn(finish, "\n"), finish);
	}
	text_free(&stats);
}

/* ---- the end ---- */

static int clear_model(void *ctx, const char *name)
{
	const struct gateway *g = ctx;
	char path[TREE_PATH];
	struct dirent **names;
	int count = tree_path(path, g->options->tree, "%s/sessions", name)
			    ? scandir(path, &names, NULL, NULL)
			    : -1;
	for (int i = 0; i < count; i++) {
		const char *is = names[i]->d_name;
		bool kept = !strncmp(is, "http-kept-", 10);
		bool ours = !strncmp(is, "http-", 5) && identity_is_over(is + (kept ? 10 : 5));
		if (ours && tree_path(path, g->options->tree, "%s/sessions/%s", name, is))
			(void)rmdir(path);
		free(names[i]);
	}
	if (count >= 0)
		free(names);
	return 0;
}

void turns_clear(const struct gateway *g)
{
	(void)tree_models(g->options->tree, clear_model, (void *)(uintptr_t)g);
}

/* Counts what it did; whether it can be gone on with. */
static bool ended_well(struct turn *t)
{
	struct usage u;
	struct counters *counters = &t->gateway->counters;
	if (!t->submitted)
		return false;
	if (!t->over) {
		char word[32];
		(void)tree_write(tree_of(t), "stop\n", 5, "%s/sessions/%s/ctl", t->session.model,
				 t->session.name);
		/* It takes a step; until then nothing may be written into it. */
		if (t->keeps)
			tree_line(tree_of(t), word, sizeof word, "%s/sessions/%s/wait",
				  t->session.model, t->session.name);
	}
	turn_usage(t, &u);
	atomic_fetch_add(&counters->prompt_tokens, u.prompt);
	atomic_fetch_add(&counters->cached_tokens, u.cached);
	atomic_fetch_add(&counters->output_tokens, u.output);
	return !t->failed && strcmp(u.finish, "error") != 0;
}

/* What is kept takes at most half of what contexts may, so that it is in nobody's way. */
static void keep_session(struct turn *t)
{
	kept_put(t->gateway->kept, &t->session);
	for (;;) {
		struct text stats = {0};
		(void)tree_read(tree_of(t), &stats, "cache/stats");
		text_add(&stats, "", 1);
		bool full = !stats.failed && number_of(stats.data, "context_used") >
						     number_of(stats.data, "context_budget") / 2;
		text_free(&stats);
		if (!full || !kept_drop(t->gateway->kept))
			return;
	}
}

void turn_end(struct turn *t)
{
	char path[TREE_PATH];
	if (!t)
		return;
	for (int i = 0; i < GROWS; i++) {
		if (t->files[i].fd >= 0)
			close(t->files[i].fd);
		text_free(&t->files[i].held);
	}
	if (t->calls_fd >= 0)
		close(t->calls_fd);
	bool well = ended_well(t);
	if (well && t->keeps && !atomic_load(&t->gateway->stopping) && rename_session(t, "kept-"))
		keep_session(t);
	else {
		if (t->made && session_path(t, path))
			(void)rmdir(path);
		free(t->session.messages);
	}
	if (t->slot)
		gate_leave(t->gateway->gate, t->session.key);
	free(t);
}

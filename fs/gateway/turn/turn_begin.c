/* A turn's beginning and end, and counting the tokens that it would read. See turn.h. */
#include "fs/gateway/turn/client_wait.h"
#include "fs/gateway/turn/tree_client.h"
#include "fs/gateway/turn/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the model ---- */

/* Combines a model's name and this second into one number. The kernel caches the tree's names for a
 * second, so a second look within it would find nothing new. A model that is removed meanwhile is
 * noticed when its session is made. */
static uint_fast64_t turn_known_model(const char *model)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (text_hash(TEXT_HASH, model, strlen(model)) ^ (uint_fast64_t)now.tv_sec) | 1;
}

static int turn_add_name(void *names, const char *name)
{
	text_format(names, "%s%s", ((struct text *)names)->length ? ", " : "", name);
	return 0;
}

int turn_model(const struct http_request *r, const char *model, struct problem *p)
{
	const char *tree = r->gateway->options->tree;
	struct text names = {0};
	atomic_uint_fast64_t *last = &(r->gateway)->model_known;
	if (atomic_load(last) == turn_known_model(model))
		return 0;
	if (tree_model(tree, model)) {
		atomic_store(last, turn_known_model(model));
		return 0;
	}
	int code = tree_models(tree, turn_add_name, &names);
	if (!code && tree_is_gone(tree, r->gateway->device))
		problem_set(p, PROBLEM_NOT_NOW, NULL, "%s", tree_gone_words);
	else if (code)
		problem_set(p, PROBLEM_NOT_NOW, NULL, "the tree cannot be read: %s",
			    strerror(-code));
	else
		problem_set(p, PROBLEM_MODEL, "model",
			    "The model \"%.100s\" does not exist. Models here: %.*s", model,
			    (int)names.length, names.length ? names.data : "");
	text_free(&names);
	return -1;
}

/* ---- beginning ---- */

static int turn_open_file(const struct turn *t, const char *file)
{
	char path[TREE_PATH];
	return tree_path(path, turn_tree(t), "%s/sessions/%s/%s", t->session.model, t->session.name,
			 file)
		       ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
		       : -1;
}

int turn_open_files(struct turn *t, struct problem *p)
{
	static const char *const growing[GROWS] = {"thoughts", "output", "logprobs.jsonl"};
	for (int i = 0; i < GROWS; i++) {
		if (t->files[i].fd >= 0 || (i == GROWS_LOGPROBS && !t->logprobs))
			continue;
		t->files[i].fd = turn_open_file(t, growing[i]);
		if (t->files[i].fd < 0)
			return turn_refused(t, -errno, NULL, p);
	}
	if (!t->tools || t->calls_fd >= 0)
		return 0;
	t->calls_fd = turn_open_file(t, "tool_calls.json");
	return t->calls_fd < 0 ? turn_refused(t, -errno, NULL, p) : 0;
}

int turn_enter(struct http_request *r, struct problem *p)
{
	struct gateway *g = r->gateway;
	int code = atomic_load(&g->stopping) ? -ESHUTDOWN : gate_enter(g->gate, r->key, r->client);
	switch (code) {
	case 0:
		return 0;
	case -EPIPE:
		return problem_gone(p);
	case -EBUSY:
		return problem_set(p, PROBLEM_BUSY, NULL,
				   "%u requests are answered and %u wait already; try again later",
				   g->options->active, g->options->queue);
	default:
		return problem_set(p, PROBLEM_NOT_NOW, NULL, "the server is ending");
	}
}

/* The request's field from which the grammar is made: a grammar fails as a whole. */
static const char *turn_form_field(const struct turn_wish *w)
{
	const char *field = w->tools ? "tools" : NULL;
	for (size_t i = 0; i < w->param_count; i++)
		if (!strcmp(w->params[i].name, "format") || !strcmp(w->params[i].name, "grammar"))
			field = w->params[i].field;
	return field;
}

/* Makes a session and starts the answer. Ids of calls become the tree's ids again. */
static int turn_ask(struct turn *t, const struct turn_wish *w, const struct http_request *r,
		    struct problem *p)
{
	struct turn_wish in = *w;
	in.messages = call_ids_for_tree(w->messages);
	if (w->messages && !in.messages)
		return problem_no_memory(p);
	int code = session_make(t, p);
	if (!code) {
		t->protocol = r->route->protocol;
		call_mark(t->mark, r->id, t->session.name);
		code = turn_submit(t, &in, p);
	}
	json_object_put(in.messages);
	return code;
}

int turn_begin(struct turn **out, struct http_request *r, const struct turn_wish *w,
	       struct problem *p)
{
	if (!w->beside && turn_enter(r, p))
		return -1;
	struct turn *t = calloc(1, sizeof *t);
	if (!t && !w->beside)
		gate_leave(r->gateway->gate, r->key);
	if (!t)
		return problem_no_memory(p);
	t->slot = !w->beside;
	t->logprobs = w->logprobs;
	t->tools = w->tools;
	t->asked = w->asked ? w->asked : w->messages ? "messages" : "prompt";
	t->formed = turn_form_field(w);
	t->gateway = r->gateway;
	t->session.key = r->key;
	if (r->key)
		access_keys_mark(r->gateway->keys, r->key, t->session.share);
	t->calls_fd = -1;
	t->reading.client = r->client;
	for (int i = 0; i < GROWS; i++)
		t->files[i].fd = -1;
	(void)snprintf(t->session.model, sizeof t->session.model, "%s", w->model);
	int code = turn_ask(t, w, r, p);
	t->submitted = !code && !w->counts;
	if (t->submitted)
		code = turn_open_files(t, p);
	if (code)
		turn_end(t);
	else
		*out = t;
	return code;
}

/* ---- end ---- */

/* Stops a turn that still works, and reads its token counts. */
static void turn_stop(struct turn *t)
{
	struct usage u;
	struct counters *counters = &t->gateway->counters;
	if (!t->submitted)
		return;
	if (!t->over)
		(void)tree_write(turn_tree(t), false, "stop\n", 5, "%s/sessions/%s/ctl",
				 t->session.model, t->session.name);
	turn_usage(t, &u);
	atomic_fetch_add(&counters->prompt_tokens, u.prompt);
	atomic_fetch_add(&counters->cached_tokens, u.cached);
	atomic_fetch_add(&counters->output_tokens, u.output);
}

void turn_end(struct turn *t)
{
	if (!t)
		return;
	turn_close_now(t);
	client_reads_remove(&t->gateway->reads, &t->reading);
	for (int i = 0; i < GROWS; i++) {
		if (t->files[i].fd >= 0)
			close(t->files[i].fd);
		text_free(&t->files[i].held);
		text_free(&t->files[i].given);
	}
	if (t->calls_fd >= 0)
		close(t->calls_fd);
	turn_stop(t);
	session_leave(t);
	if (t->slot)
		gate_leave(t->gateway->gate, t->session.key);
	free(t);
}

/* ---- counting tokens ---- */

/* Loads a model. (Looking at its files does not.) */
static int turn_load(struct turn *t, int client, struct problem *p)
{
	enum { LOOK_MS = 50 };
	char verb[NAME_MAX + 8], state[32] = "";
	(void)snprintf(verb, sizeof verb, "load %s\n", t->session.model);
	int code = tree_write(turn_tree(t), false, verb, strlen(verb), "ctl");
	if (code)
		return problem_set(p, PROBLEM_NOT_NOW, NULL, "the model cannot be loaded: %s",
				   strerror(-code));
	while (strcmp(state, "ready") != 0) {
		if (client_wait(client, NULL, 0, LOOK_MS) < 0)
			return problem_gone(p);
		tree_line(turn_tree(t), state, sizeof state, "%s/info/state", t->session.model);
		if (!strcmp(state, "failed") || !*state)
			return turn_refused(t, -EIO, NULL, p);
	}
	return 0;
}

int turn_tokens(struct turn *t, int client, uint64_t *tokens, struct problem *p)
{
	struct text number = {0};
	int code = -EAGAIN;
	for (int i = 0; i < 2 && code == -EAGAIN; i++) {
		if (i && turn_load(t, client, p)) {
			text_free(&number);
			return -1;
		}
		text_cut(&number, 0);
		code = tree_read(turn_tree(t), &number, "%s/sessions/%s/rendered_tokens",
				 t->session.model, t->session.name);
	}
	text_add(&number, "", 1);
	*tokens = number.data ? strtoull(number.data, NULL, 10) : 0;
	text_free(&number);
	return code ? turn_refused(t, code, NULL, p) : 0;
}

/* The life of a turn. See turn.h. */
#include "fs/gateway/routes.h"
#include "fs/gateway/turn/gate.h"
#include "fs/gateway/turn/turn_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const growing_files[GROWS] = {"thoughts", "output", "logprobs.jsonl"};

static int open_file(const struct turn *t, const char *file)
{
	char path[TREE_PATH];
	if (!tree_path(path, turn_tree(t), "%s/sessions/%s/%s", t->session.model, t->session.name,
		       file))
		return -1;
	return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

int turn_open_files(struct turn *t, struct problem *p)
{
	for (int i = 0; i < GROWS; i++) {
		if (t->files[i].fd >= 0 || (i == GROWS_LOGPROBS && !t->logprobs))
			continue;
		t->files[i].fd = open_file(t, growing_files[i]);
		if (t->files[i].fd < 0)
			return turn_refused(t, -errno, NULL, p);
	}
	if (!t->tools || t->calls_fd >= 0)
		return 0;
	t->calls_fd = open_file(t, "tool_calls.json");
	return t->calls_fd < 0 ? turn_refused(t, -errno, NULL, p) : 0;
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

/* The field that a grammar is made of: it fails as a whole. */
static const char *form_field(const struct wish *w)
{
	const char *field = w->tools ? "tools" : NULL;
	for (size_t i = 0; i < w->param_count; i++)
		if (!strcmp(w->params[i].name, "format") || !strcmp(w->params[i].name, "grammar"))
			field = w->params[i].field;
	return field;
}

/* Finds a session and has it answer, with the ids that the tree gave its calls. */
static int turn_ask(struct turn *t, const struct wish *w, const struct request *r,
		    struct problem *p)
{
	struct wish in = *w;
	in.messages = call_ids_for_tree(w->messages);
	if (w->messages && !in.messages)
		return problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
	int code = session_find(t, &in, p);
	if (!code) {
		t->protocol = r->route->protocol;
		call_mark(t->mark, r->id, t->session.name);
		code = session_submit(t, &in, p);
	}
	json_object_put(in.messages);
	return code;
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
	t->logprobs = w->logprobs;
	t->tools = w->tools;
	t->answers = w->messages && !w->counts;
	t->asked = w->asked ? w->asked : w->messages ? "messages" : "prompt";
	t->formed = form_field(w);
	t->gateway = r->gateway;
	t->session.key = r->key;
	t->calls_fd = -1;
	t->reading.client = r->client;
	for (int i = 0; i < GROWS; i++)
		t->files[i].fd = -1;
	(void)snprintf(t->session.model, sizeof t->session.model, "%s", w->model);
	if (turn_ask(t, w, r, p)) {
		turn_end(t);
		return -1;
	}
	t->submitted = !w->counts;
	if (!w->counts && turn_open_files(t, p)) {
		turn_end(t);
		return -1;
	}
	*out = t;
	return 0;
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
		(void)tree_write(turn_tree(t), "stop\n", 5, "%s/sessions/%s/ctl", t->session.model,
				 t->session.name);
		/* It takes a step; until then nothing may be written into it. */
		if (t->keeps)
			tree_line(turn_tree(t), word, sizeof word, "%s/sessions/%s/wait",
				  t->session.model, t->session.name);
	}
	turn_usage(t, &u);
	atomic_fetch_add(&counters->prompt_tokens, u.prompt);
	atomic_fetch_add(&counters->cached_tokens, u.cached);
	atomic_fetch_add(&counters->output_tokens, u.output);
	return !t->failed && strcmp(u.finish, "error") != 0;
}

void turn_end(struct turn *t)
{
	if (!t)
		return;
	turn_close_now(t);
	blocked_remove(&t->gateway->blocked, &t->reading);
	for (int i = 0; i < GROWS; i++) {
		if (t->files[i].fd >= 0)
			close(t->files[i].fd);
		text_free(&t->files[i].held);
		text_free(&t->files[i].given);
	}
	if (t->calls_fd >= 0)
		close(t->calls_fd);
	session_leave(t, ended_well(t));
	if (t->slot)
		gate_leave(t->gateway->gate, t->session.key);
	free(t);
}

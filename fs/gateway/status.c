/* GET /health and /metrics: how it is, for who watches over it. Neither tells of conversations. */
#include "fs/gateway/turn/gate.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/handlers.h"
#include "fs/gateway/turn/kept.h"
#include "fs/gateway/turn/tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int count_model(void *ctx, const char *name)
{
	(void)name;
	++*(unsigned *)ctx;
	return 0;
}

enum MHD_Result health(struct request *r)
{
	struct problem p = {0};
	unsigned models = 0;
	int code = tree_models(r->gateway->options->tree, count_model, &models);
	if (code || !models) {
		problem_set(&p, PROBLEM_NOT_NOW, NULL, "the tree has no models: %s",
			    code ? strerror(-code) : "none is mounted");
		return reply_problem(r, &p);
	}
	struct json_object *all = json_object_new_object();
	json_object_object_add(all, "status", json_object_new_string("ok"));
	json_object_object_add(all, "models", json_object_new_int((int)models));
	return reply_json(r, MHD_HTTP_OK, all);
}

static void metric(struct text *out, const char *name, const char *type, const char *what)
{
	text_format(out, "# HELP moefs_%s %s\n# TYPE moefs_%s %s\n", name, what, name, type);
}

static void one(struct text *out, const char *name, const char *type, const char *what,
		uint64_t value)
{
	metric(out, name, type, what);
	text_format(out, "moefs_%s %" PRIu64 "\n", name, value);
}

/* A label's value: names of models are folders' names. */
static void label(struct text *out, const char *value)
{
	for (; *value; value++)
		if (*value == '"' || *value == '\\')
			text_format(out, "\\%c", *value);
		else if (*value == '\n')
			text_string(out, "\\n");
		else
			text_add(out, value, 1);
}

struct states {
	const char *tree;
	struct text *out;
};

static int model_ready(void *ctx, const char *name)
{
	const struct states *s = ctx;
	char state[32];
	tree_line(s->tree, state, sizeof state, "%s/info/state", name);
	text_string(s->out, "moefs_model_ready{model=\"");
	label(s->out, name);
	text_format(s->out, "\"} %d\n", !strcmp(state, "ready"));
	return 0;
}

/* The tree's own counts, `key value` lines, under their names there. */
static void cache_stats(struct text *out, const char *tree)
{
	struct text stats = {0};
	char *rest, *line;
	(void)tree_read(tree, &stats, "cache/stats");
	text_add(&stats, "", 1);
	rest = stats.failed ? NULL : stats.data;
	while ((line = strsep(&rest, "\n"))) {
		char *value = strchr(line, ' '), *end;
		size_t n = value ? (size_t)(value - line) : 0;
		bool plain = n && strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
		double number = plain ? strtod(value, &end) : 0;
		if (plain && end > value + 1 && !*end)
			text_format(out,
				    "# TYPE moefs_cache_%.*s untyped\nmoefs_cache_%.*s %.17g\n",
				    (int)n, line, (int)n, line, number);
	}
	text_free(&stats);
}

enum MHD_Result metrics(struct request *r)
{
	struct gateway *g = r->gateway;
	struct counters *c = &g->counters;
	struct text out = {0};
	unsigned active, waiting;
	gate_look(g->gate, &active, &waiting);
	metric(&out, "http_requests_total", "counter", "Requests, by the class of their status.");
	for (int i = 1; i < 6; i++)
		text_format(&out, "moefs_http_requests_total{class=\"%dxx\"} %" PRIu64 "\n", i,
			    (uint64_t)atomic_load(&c->requests[i]));
	one(&out, "http_dropped_total", "counter",
	    "Requests whose client went away before the end.", atomic_load(&c->dropped));
	one(&out, "http_active", "gauge", "Requests that models answer.", active);
	one(&out, "http_queued", "gauge", "Requests that wait for a slot.", waiting);
	one(&out, "http_kept", "gauge", "Conversations that are kept to go on.",
	    kept_count(g->kept));
	one(&out, "prompt_tokens_total", "counter", "Tokens of prompts.",
	    atomic_load(&c->prompt_tokens));
	one(&out, "cached_tokens_total", "counter", "Those of them that were not computed again.",
	    atomic_load(&c->cached_tokens));
	one(&out, "output_tokens_total", "counter", "Tokens of answers.",
	    atomic_load(&c->output_tokens));
	metric(&out, "model_ready", "gauge", "Whether a model is loaded.");
	(void)tree_models(g->options->tree, model_ready, &(struct states){g->options->tree, &out});
	cache_stats(&out, g->options->tree);
	struct text sent = {0}; /* names of models may be any bytes */
	text_add_characters(&sent, out.data, out.length);
	enum MHD_Result result =
		out.failed || sent.failed
			? MHD_NO
			: reply_text(r, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8",
				     sent.data, sent.length);
	text_free(&sent);
	text_free(&out);
	return result;
}

/* GET /health and /metrics: the gateway's state, for monitoring. They reveal nothing about
 * conversations. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/reply.h"
#include "fs/gateway/turn/tree_client.h"
#include "fs/gateway/turn/turn.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int status_count_model(void *ctx, const char *name)
{
	(void)name;
	++*(unsigned *)ctx;
	return 0;
}

enum MHD_Result status_health(struct http_request *r)
{
	struct problem p = {0};
	unsigned models = 0;
	int code = tree_models(r->gateway->options->tree, status_count_model, &models);
	if (code || !models) {
		problem_set(&p, PROBLEM_NOT_NOW, NULL, "the tree has no models: %s",
			    code ? strerror(-code) : "none is mounted");
		return reply_problem(r, &p);
	}
	return reply_json(r, MHD_HTTP_OK, json_new("status=ok models=%u", models));
}

static void status_metric_head(struct text *out, const char *name, const char *type,
			       const char *what)
{
	text_format(out, "# HELP moefs_%s %s\n# TYPE moefs_%s %s\n", name, what, name, type);
}

static void status_metric(struct text *out, const char *name, const char *type, const char *what,
			  uint64_t value)
{
	status_metric_head(out, name, type, what);
	text_format(out, "moefs_%s %" PRIu64 "\n", name, value);
}

/* Adds a label's value, escaped: a model's name is a folder's name, and may have any character. */
static void status_label(struct text *out, const char *value)
{
	for (; *value; value++)
		if (*value == '"' || *value == '\\')
			text_format(out, "\\%c", *value);
		else if (*value == '\n')
			text_string(out, "\\n");
		else
			text_add(out, value, 1);
}

struct status_models {
	const char *tree;
	struct text *out;
};

static int status_model_ready(void *ctx, const char *name)
{
	const struct status_models *s = ctx;
	char state[32];
	tree_line(s->tree, state, sizeof state, "%s/info/state", name);
	text_string(s->out, "moefs_model_ready{model=\"");
	status_label(s->out, name);
	text_format(s->out, "\"} %d\n", !strcmp(state, "ready"));
	return 0;
}

/* Adds the tree's own counters, the `KEY VALUE` lines of cache/stats, as moefs_cache_KEY. */
static void status_cache_stats(struct text *out, const char *tree)
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

enum MHD_Result status_metrics(struct http_request *r)
{
	struct gateway *g = r->gateway;
	struct counters *c = &g->counters;
	struct text out = {0};
	unsigned active, waiting;
	gate_counts(g->gate, &active, &waiting);
	status_metric_head(&out, "http_requests_total", "counter", "Requests by class of status.");
	for (int i = 1; i < 6; i++)
		text_format(&out, "moefs_http_requests_total{class=\"%dxx\"} %" PRIu64 "\n", i,
			    (uint64_t)atomic_load(&c->requests[i]));
	status_metric(&out, "http_dropped_total", "counter",
		      "Requests whose client went away before their end.",
		      atomic_load(&c->dropped));
	status_metric(&out, "http_active", "gauge", "Requests being answered.", active);
	status_metric(&out, "http_queued", "gauge", "Requests waiting for a slot.", waiting);
	status_metric(&out, "prompt_tokens_total", "counter", "Tokens in prompts.",
		      atomic_load(&c->prompt_tokens));
	status_metric(&out, "cached_tokens_total", "counter",
		      "Tokens in prompts that did not have to be computed again.",
		      atomic_load(&c->cached_tokens));
	status_metric(&out, "output_tokens_total", "counter", "Tokens in answers.",
		      atomic_load(&c->output_tokens));
	status_metric_head(&out, "model_ready", "gauge", "Whether a model is loaded.");
	(void)tree_models(g->options->tree, status_model_ready,
			  &(struct status_models){g->options->tree, &out});
	status_cache_stats(&out, g->options->tree);
	struct text sent = {0}; /* a model's name may hold any bytes */
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

/* What ollama's params are here: the model's defaults for a session's params. Where a manifest has
 * no such param, the model's default is moefs' own, not ollama's. */
#include "engine/library/ollama.h"

#include "engine/answer/stream.h"
#include "engine/json/json.h"
#include "engine/json/text_out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

static const struct ollama_number {
	const char *name, *taken_as; /* a key of generation_config.json */
} numbers[] = {
	{"temperature", "temperature"},
	{"top_k", "top_k"},
	{"top_p", "top_p"},
	{"min_p", "min_p"},
	{"repeat_penalty", "repetition_penalty"},
	{"num_predict", "max_new_tokens"},
};

static const char *ollama_taken_as(const char *name)
{
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (!strcmp(numbers[i].name, name))
			return numbers[i].taken_as;
	return NULL;
}

/* A number below zero, which in ollama stands for "no limit" or "random". */
static bool ollama_is_negative(const struct json *value)
{
	double number;
	struct err no;
	return !json_as_double(value, "", "", -1e9, -1, &number, &no);
}

static int ollama_take_seed(struct generation *g, const struct json *value, const char *name,
			    struct err *e)
{
	if (ollama_is_negative(value))
		return 0;
	int failed = json_as_uint(value, "seed", name, 0, UINT64_MAX, &g->seed, e);
	g->seeded = !failed;
	if (!failed)
		generation_note(g, value, "");
	return failed;
}

static int ollama_take_param(struct generation *g, const struct json *value, const char *name,
			     struct err *e)
{
	const char *key = json_key(value), *as = ollama_taken_as(key);
	bool unlimited =
		ollama_is_negative(value) && (!strcmp(key, "num_predict") || !strcmp(key, "top_k"));
	if (unlimited)
		return 0;
	if (as)
		return generation_take(g, as, value, name, e);
	if (!strcmp(key, "seed"))
		return ollama_take_seed(g, value, name, e);
	if (strcmp(key, "stop") != 0)
		generation_note(g, value, "ignored ");
	return 0;
}

/* ---- stop texts ---- */

/* A text as a line of params/stop. */
static void ollama_put_stop(struct text_out *o, const char *text)
{
	static const char escapes[] = "\nn\tt\rr\\\\";
	for (const char *c = text; *c; c++) {
		const char *x = escapes;
		while (*x && *x != *c)
			x += 2;
		if (*x)
			text_out_string(o, "\\");
		text_out_add(o, *x ? x + 1 : c, 1);
	}
	text_out_string(o, "\n");
}

static int ollama_put_stops(struct text_out *o, const struct json *value, const char *name,
			    struct err *e)
{
	const char *text;
	int failed = 0;
	if (json_count(value) > STOPS_MAX)
		return err_set(e, EINVAL, "%s: \"stop\" has %zu texts; at most %d are allowed",
			       name, json_count(value), STOPS_MAX);
	if (json_kind(value) != JSON_LIST) {
		failed = json_as_string(value, "stop", name, &text, e);
		if (!failed && *text)
			ollama_put_stop(o, text);
	}
	for (const struct json *v = NULL; !failed && (v = json_next(value, v));) {
		failed = json_as_string(v, "stop", name, &text, e);
		if (!failed && *text) /* an empty one would end every answer */
			ollama_put_stop(o, text);
	}
	return failed;
}

int ollama_stops(char **out, const struct json *params, const char *name, struct err *e)
{
	struct text_out o = {0};
	*out = NULL;
	if (json_kind(params) != JSON_OBJECT)
		return err_set(e, EINVAL, "%s: the params are not a JSON object", name);
	if (!json_has(params, "stop"))
		return 0;
	int failed = ollama_put_stops(&o, json_find(params, "stop"), name, e);
	if (!failed && o.failed)
		failed = err_set(e, ENOMEM, "%s: out of memory for stop texts", name);
	if (failed) {
		text_out_free(&o);
		return failed;
	}
	if (o.n) /* the last line's end is not part of params/stop */
		o.bytes[o.n - 1] = 0;
	*out = o.bytes;
	return 0;
}

/* ---- all of them ---- */

int ollama_take_defaults(const struct ollama_model *m, struct generation *g, struct err *e)
{
	int failed = 0;
	for (const struct json *v = NULL; !failed && (v = json_next(m->params, v));)
		failed = ollama_take_param(g, v, m->name, e);
	g->stop = m->stop;
	g->system = m->system;
	if (m->stop)
		generation_say(g, "stop (ollama's params)");
	if (m->system)
		generation_say(g, "system (ollama's)");
	if (m->messages)
		generation_say(g, "ignored messages (ollama's)");
	return failed;
}

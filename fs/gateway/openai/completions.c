/* POST /v1/completions: a text goes to the model as it stands, and goes on. */
#include "fs/gateway/openai/completion.h"
#include "fs/gateway/body/fields.h"
#include "fs/gateway/handlers.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int wait(struct completion *c, int milliseconds, struct problem *p)
{
	return turns_wait(c->turns, c->count, c->request->client, milliseconds)
		       ? problem_set(p, PROBLEM_GONE, NULL, "the client has gone away")
		       : 0;
}

static int whole_answer(struct completion *c, struct json_object **out, struct problem *p)
{
	while (c->tokens && c->over < c->count) {
		if (wait(c, -1, p))
			return -1;
		for (size_t i = 0; i < c->count; i++)
			if (!c->parts[i].over &&
			    completion_take(c, i, &c->parts[i].text, &c->parts[i].lines, p))
				return -1;
	}
	struct json_object *choices = json_object_new_array();
	for (size_t i = 0; i < c->count; i++)
		if (completion_choice(c, choices, i, c->echo, &c->parts[i].text, &c->parts[i].lines,
				      c->tokens ? openai_finish(&c->usage[i]) : "length", p)) {
			json_object_put(choices);
			return -1;
		}
	*out = completion_frame(c, choices);
	json_object_object_add(*out, "usage", completion_usage(c));
	return 0;
}

/* ---- streams ---- */

static int step_one(struct completion *c, struct text *out, size_t i, struct problem *p)
{
	struct text text = {0}, lines = {0};
	bool echo = c->echo && !c->parts[i].begun;
	int code = c->tokens ? completion_take(c, i, &text, &lines, p) : 0;
	bool over = !c->tokens || c->parts[i].over;
	if (!code && (text.length || lines.length || over)) {
		struct json_object *choices = json_object_new_array(), *all;
		code = completion_choice(c, choices, i, echo, &text, &lines,
					 !over	     ? NULL
					 : c->tokens ? openai_finish(&c->usage[i])
						     : "length",
					 p);
		c->parts[i].begun = true;
		all = completion_frame(c, choices);
		if (c->include_usage)
			json_object_object_add(all, "usage", NULL);
		if (!code)
			event_add(out, NULL, all);
		json_object_put(all);
	}
	if (!c->tokens && !c->parts[i].over) {
		c->parts[i].over = true;
		c->over++;
	}
	text_free(&text);
	text_free(&lines);
	return code;
}

static int step(void *of, struct text *out, struct problem *p)
{
	struct completion *c = of;
	if (c->tokens && wait(c, STREAM_PAUSE_MS, p))
		return -1;
	for (size_t i = 0; i < c->count; i++)
		if (!c->parts[i].over && step_one(c, out, i, p))
			return -1;
	if (c->over < c->count)
		return 0;
	if (c->include_usage) {
		struct json_object *all = completion_frame(c, json_object_new_array());
		json_object_object_add(all, "usage", completion_usage(c));
		event_add(out, NULL, all);
		json_object_put(all);
	}
	text_string(out, "data: [DONE]\n\n");
	return 1;
}

static enum MHD_Result stream(struct request *r, struct completion *c)
{
	c->stream = (struct event_stream){.step = step,
					  .fail = openai_fail,
					  .pause = openai_pause,
					  .end = completion_end,
					  .of = c};
	return event_stream(r, &c->stream);
}

enum MHD_Result completions(struct request *r)
{
	struct problem p = {0};
	bool streams = false;
	struct json_object *answer = NULL;
	struct completion *c = calloc(1, sizeof *c);
	if (!c)
		return MHD_NO;
	c->request = r;
	c->created = time(NULL);
	(void)snprintf(c->id, sizeof c->id, "cmpl-%s", r->id);
	int code =
		field_bool(r->json, "stream", &streams, &p) < 0 || completion_begin(c, &p) ? -1 : 0;
	if (!code && streams)
		return stream(r, c);
	if (!code)
		code = whole_answer(c, &answer, &p);
	completion_end(c);
	return code ? reply_problem(r, &p) : reply_json(r, MHD_HTTP_OK, answer);
}

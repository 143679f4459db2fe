/* What chat's and completions' streams have in common: the events before the stream is begun, an
 * error event where it fails later, and comments while nothing comes. */
#include "fs/gateway/openai.h"

static void add_error(struct text *out, const struct problem *p)
{
	struct json_object *json = problem_json(p, PROTOCOL_OPENAI);
	event_add(out, NULL, json);
	json_object_put(json);
}

static int next(void *ctx, struct text *out)
{
	struct openai_stream *s = ctx;
	struct problem p = {0};
	if (s->first.length) {
		text_add(out, s->first.data, s->first.length);
		text_free(&s->first);
		return s->over;
	}
	int code = s->step(s->of, out, &p);
	if (code < 0 && p.kind == PROBLEM_GONE)
		return -1;
	if (code < 0)
		add_error(out, &p);
	if (!out->length)
		event_pause(out);
	return code != 0;
}

static void end(void *ctx)
{
	struct openai_stream *s = ctx;
	text_free(&s->first);
	s->end(s->of);
}

enum MHD_Result openai_stream(struct request *r, struct openai_stream *s, int code,
			      const struct problem *p)
{
	if (code < 0 && (!s->first.length || p->kind == PROBLEM_GONE)) {
		end(s);
		return reply_problem(r, p);
	}
	s->over = code != 0;
	if (code < 0)
		add_error(&s->first, p);
	if (!s->first.length)
		event_pause(&s->first);
	return reply_stream(r, next, end, s);
}

/* See event_stream.h. */
#include "fs/gateway/event_stream.h"

#include <time.h>

static int next(void *ctx, struct text *out)
{
	struct event_stream *s = ctx;
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
		s->fail(s->of, &p, out);
	else if (!out->length)
		s->pause(s->of, out);
	return code != 0;
}

static void end(void *ctx)
{
	struct event_stream *s = ctx;
	text_free(&s->first);
	s->end(s->of);
}

enum MHD_Result event_stream(struct request *r, struct event_stream *s)
{
	struct problem p = {0};
	int code = 0;
	time_t until = time(NULL) + STREAM_PAUSE_MS / 1000;
	while (!code && !s->first.length && time(NULL) < until)
		code = s->step(s->of, &s->first, &p);
	if (code < 0 && (!s->first.length || p.kind == PROBLEM_GONE)) {
		end(s);
		return reply_problem(r, &p);
	}
	s->over = code != 0;
	if (code < 0)
		s->fail(s->of, &p, &s->first);
	else if (!s->first.length)
		s->pause(s->of, &s->first);
	return reply_stream(r, next, end, s);
}

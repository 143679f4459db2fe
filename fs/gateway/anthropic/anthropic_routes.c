/* POST /v1/messages and /v1/messages/count_tokens. */
#include "fs/gateway/anthropic/anthropic.h"
#include "fs/gateway/answering.h"
#include "fs/gateway/handlers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct message {
	struct wanted wanted;
	struct anthropic_answer answer;
	char id[48], request[32];
};

static void begin(void *of, const struct ending *known, struct text *out)
{
	anthropic_begin(&((struct message *)of)->answer, known, out);
}

static void thought(void *of, const char *text, size_t n, struct text *out)
{
	anthropic_thought(&((struct message *)of)->answer, text, n, out);
}

static void say(void *of, const char *text, size_t n, struct text *out)
{
	anthropic_text(&((struct message *)of)->answer, text, n, out);
}

static void call(void *of, struct json_object *one, struct text *out)
{
	anthropic_call(&((struct message *)of)->answer, one, out);
}

static void end(void *of, const struct ending *known, struct text *out)
{
	anthropic_end(&((struct message *)of)->answer, known, out);
}

static void fail(void *of, const struct problem *p, struct text *out)
{
	const struct message *m = of;
	json_event(out, "error", problem_json(p, PROTOCOL_ANTHROPIC, m->request));
}

static void message_free(void *of)
{
	struct message *m = of;
	wanted_free(&m->wanted);
	anthropic_free(&m->answer);
	free(m);
}

static const struct manner manner = {
	.begin = begin,
	.thought = thought,
	.text = say,
	.call = call,
	.end = end,
	.fail = fail,
	.pause = anthropic_ping,
	.free = message_free,
};

/* Of a body that was refused. */
static int refused(struct problem *p, const struct err *e)
{
	problem_of(p, e);
	if (e->code == ENOENT && !strcmp(p->param, "thread"))
		p->kind = PROBLEM_THREAD;
	return -1;
}

enum MHD_Result anthropic_create(struct request *r)
{
	struct problem p = {0};
	struct err e;
	struct message *m = calloc(1, sizeof *m);
	if (!m)
		return MHD_NO;
	(void)snprintf(m->id, sizeof m->id, "msg_%s", r->id);
	(void)snprintf(m->request, sizeof m->request, "%s", r->id);
	if (anthropic_read(&m->wanted, r->json, false, &e)) {
		message_free(m);
		refused(&p, &e);
		return reply_problem(r, &p);
	}
	m->answer = (struct anthropic_answer){
		.id = m->id, .model = m->wanted.model, .streams = m->wanted.stream};
	return answer_request(r, &manner, m, &m->wanted);
}

enum MHD_Result anthropic_count(struct request *r)
{
	struct problem p = {0};
	struct wanted wanted = {0};
	struct err e;
	uint64_t tokens;
	int code = anthropic_read(&wanted, r->json, true, &e)
			   ? refused(&p, &e)
			   : answer_tokens(r, &wanted, &tokens, &p);
	wanted_free(&wanted);
	if (code)
		return reply_problem(r, &p);
	struct json_object *o = json_object_new_object();
	json_put_number(o, "input_tokens", tokens);
	return reply_json(r, MHD_HTTP_OK, o);
}

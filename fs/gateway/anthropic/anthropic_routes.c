/* POST /v1/messages and /v1/messages/count_tokens. */
#include "fs/gateway/anthropic/anthropic.h"
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/protocol_answer.h"
#include "fs/gateway/reply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct anthropic_exchange {
	struct anthropic_answer answer; /* first: the format's functions get a pointer to both */
	struct wanted wanted;
	char id[48], request[32];
};

static void anthropic_exchange_free(void *of)
{
	struct anthropic_exchange *m = of;
	wanted_free(&m->wanted);
	anthropic_free(&m->answer);
	free(m);
}

static const struct answer_format anthropic_format = {
	.begin = anthropic_begin,
	.thought = anthropic_thought,
	.text = anthropic_text,
	.call = anthropic_call,
	.end = anthropic_end,
	.fail = anthropic_fail,
	.pause = anthropic_ping,
	.free = anthropic_exchange_free,
};

/* Sets *p to the reason why anthropic_read refused a body. */
static void anthropic_refused(struct problem *p, const struct err *e)
{
	answer_problem(p, e);
	if (e->code == ENOENT && !strcmp(p->param, "thread"))
		p->kind = PROBLEM_THREAD;
}

enum MHD_Result anthropic_create(struct http_request *r)
{
	struct problem p = {0};
	struct err e;
	struct anthropic_exchange *m = calloc(1, sizeof *m);
	if (!m)
		return MHD_NO;
	(void)snprintf(m->id, sizeof m->id, "msg_%s", r->id);
	(void)snprintf(m->request, sizeof m->request, "%s", r->id);
	if (anthropic_read(&m->wanted, r->json, false, &e)) {
		anthropic_exchange_free(m);
		anthropic_refused(&p, &e);
		return reply_problem(r, &p);
	}
	m->answer = (struct anthropic_answer){.id = m->id,
					      .model = m->wanted.model,
					      .request = m->request,
					      .streams = m->wanted.stream};
	return answer_request(r, &anthropic_format, m, &m->wanted);
}

enum MHD_Result anthropic_count(struct http_request *r)
{
	struct problem p = {0};
	struct wanted wanted = {0};
	struct err e;
	uint64_t tokens;
	int code = anthropic_read(&wanted, r->json, true, &e);
	if (code)
		anthropic_refused(&p, &e);
	else
		code = answer_tokens(r, &wanted, &tokens, &p);
	wanted_free(&wanted);
	return code ? reply_problem(r, &p)
		    : reply_json(r, MHD_HTTP_OK, json_new("input_tokens=%ju", tokens));
}

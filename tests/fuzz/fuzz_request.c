/* libFuzzer on the bodies of requests: any bytes are refused with a sentence, or give messages,
 * tools and params that can be written; accepted messages are accepted again with the same result.
 */
#include "fs/gateway/anthropic/anthropic.h"
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/openai/openai.h"
#include "fs/gateway/http_request.h"
#include "fs/gateway/responses/responses.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct problem *p, bool refused)
{
	if (refused != (p->kind != PROBLEM_NONE) || refused != (*p->text != 0))
		abort();
}

static void use_messages(struct json_object *body)
{
	regex_t ignored;
	struct problem p = {0}, again = {0};
	struct json_object *once = NULL, *twice = NULL;
	if (regcomp(&ignored, "^Date: ", REG_EXTENDED | REG_NOSUB))
		abort();
	check(&p, chat_messages(json_at(body, "messages"), &ignored, &once, &p) != 0);
	regfree(&ignored);
	if (!once)
		return;
	if (chat_messages(once, NULL, &twice, &again) || !json_object_equal(once, twice))
		abort();
	json_object_put(once);
	json_object_put(twice);
}

static json_object *nothing_kept(void *ctx, const char *id)
{
	(void)ctx;
	(void)id;
	return NULL;
}

/* What was taken is whole, and what was not is said. */
static void check_wanted(int code, const struct wanted *w, const struct err *e)
{
	bool whole = w->model && w->messages && json_object_is_type(w->messages, json_type_array);
	if (code ? !*e->text || e->code != -code : !whole)
		abort();
}

static void use_others(struct json_object *body)
{
	static const struct responses_past past = {NULL, nothing_kept, nothing_kept};
	struct err e = {0};
	for (int count = 0; count < 2; count++) {
		struct wanted w = {0};
		check_wanted(anthropic_read(&w, body, count, &e), &w, &e);
		wanted_free(&w);
	}
	struct responses_asked a = {0};
	check_wanted(responses_read(&a, body, &past, &e), &a.wanted, &e);
	responses_asked_free(&a);
}

static void use(struct json_object *body)
{
	struct problem p = {0};
	struct turn_wish w = {0};
	use_messages(body);
	use_others(body);
	check(&p, chat_tools(body, &w, &p) != 0);
	p = (struct problem){0};
	check(&p, openai_refuse(body, &p) != 0);
	p = (struct problem){0};
	check(&p, openai_sampling(body, &w, &p) != 0);
	turn_wish_free(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct gateway_options options = {.body = 1 << 20};
	struct gateway gateway = {.options = &options};
	const struct route route = {.flags = ROUTE_JSON};
	struct http_request *r = calloc(1, sizeof *r);
	struct problem p = {0};
	if (!r)
		abort();
	r->gateway = &gateway;
	r->route = &route;
	text_add(&r->body, data, size);
	bool refused = request_parse(r, &p) != 0;
	check(&p, refused);
	if (!refused)
		use(r->json);
	json_object_put(problem_json(&p, PROTOCOL_ANTHROPIC, "r1"));
	request_free(r);
	return 0;
}

/* libFuzzer on the bodies of requests: any bytes are refused in words, or give messages, tools and
 * params that can be written, and messages that are taken once are taken again and give the same.
 */
#include "fs/gateway/fields.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/kept.h"
#include "fs/gateway/messages.h"
#include "fs/gateway/openai.h"
#include "fs/gateway/request_way.h"
#include "fs/gateway/routes.h"

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
	struct kept_session one = {0}, two = {0};
	if (regcomp(&ignored, "^Date: ", REG_EXTENDED | REG_NOSUB))
		abort();
	check(&p, messages_take(field_get(body, "messages"), &ignored, &once, &p) != 0);
	regfree(&ignored);
	if (!once)
		return;
	if (messages_take(once, NULL, &twice, &again) || !kept_hash(&one, NULL, once) ||
	    !kept_hash(&two, NULL, twice) || one.count != two.count ||
	    memcmp(one.messages, two.messages, one.count * sizeof *one.messages) != 0)
		abort();
	free(one.messages);
	free(two.messages);
	json_object_put(once);
	json_object_put(twice);
}

static void use(struct json_object *body)
{
	struct problem p = {0};
	struct wish w = {0};
	struct json_object *tools = NULL, *list = NULL;
	use_messages(body);
	if (field_list(body, "tools", &list, &p) > 0)
		check(&p, tools_take(list, &tools, &p) != 0);
	json_object_put(tools);
	p = (struct problem){0};
	check(&p, openai_refuse(body, &p) != 0);
	p = (struct problem){0};
	check(&p, openai_sampling(body, &w, &p) != 0);
	wish_free(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct options options = {.body = 1 << 20};
	struct gateway gateway = {.options = &options};
	const struct route route = {.flags = ROUTE_JSON};
	struct request *r = calloc(1, sizeof *r);
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
	json_object_put(problem_json(&p, PROTOCOL_ANTHROPIC));
	request_free(r);
	return 0;
}

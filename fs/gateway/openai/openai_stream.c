/* What chat's and completions' streams say where they fail, and while nothing comes. */
#include "fs/gateway/openai/openai.h"

void openai_fail(void *of, const struct problem *p, struct text *out)
{
	struct json_object *json = problem_json(p, PROTOCOL_OPENAI, NULL);
	(void)of;
	event_add(out, NULL, json);
	json_object_put(json);
}

void openai_pause(void *of, struct text *out)
{
	(void)of;
	event_pause(out);
}

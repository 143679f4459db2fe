/* libFuzzer on chat templates: any bytes are an error with a sentence, or a template that renders
 * a conversation to a text or to an error. */
#include "engine/json/json.h"
#include "engine/template/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char VARIABLES[] = "{\"bos_token\": \"<s>\", \"add_generation_prompt\": true, "
				"\"messages\": [{\"role\": \"system\", "
				"\"content\": \"Be brief. \\u00e9\"}, {\"role\": \"user\", "
				"\"content\": \"it's\\n1\"}, {\"role\": "
				"\"assistant\", \"content\": null, \"tool_calls\": [{\"function\": "
				"{\"name\": \"f\", \"arguments\": "
				"{\"a\": [1, 2.5, true]}}}]}], \"tools\": [{\"type\": "
				"\"function\", \"function\": {\"name\": \"f\"}}], "
				"\"x\": {\"a\": 1}, \"l\": [3, 1, 2], \"t\": \"a,b  c\", \"n\": 7}";

static void use(const struct template *t)
{
	static const struct tm CLOCK = {.tm_year = 126, .tm_mday = 2};
	struct template_text out = {0};
	struct json *json;
	struct err e = {0};
	if (json_parse_text(&json, VARIABLES, sizeof VARIABLES - 1, "variables", &e))
		abort();
	int rc = template_render(t, json, &CLOCK, NULL, &out, &e);
	if (rc && e.code != -rc)
		abort();
	if (!rc && out.length && out.from[out.length - 1] > FROM_ASSISTANT)
		abort();
	(void)template_reads(t, "tools");
	template_text_free(&out);
	json_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct template *t;
	struct err e = {0};
	int rc = template_open(&t, (const char *)data, size, "fuzz", &e);
	if (rc && (e.code != -rc || !e.text[0]))
		abort();
	if (rc)
		return 0;
	use(t);
	template_close(t);
	return 0;
}

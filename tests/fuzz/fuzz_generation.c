/* libFuzzer on generation_config.json: any text gives valid settings of a sampler, or an error
 * with a sentence. */
#include "engine/family/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_settings(const struct config *c)
{
	/* Written so that NaN fails. */
	if (!(c->generation.temperature >= 0 && c->generation.temperature <= 100) ||
	    !(c->generation.top_p >= 0 && c->generation.top_p <= 1) ||
	    !(c->generation.min_p >= 0 && c->generation.min_p <= 1) ||
	    !(c->generation.repetition_penalty >= .01 && c->generation.repetition_penalty <= 100) ||
	    c->generation.top_k > CONFIG_MAX_VOCABULARY ||
	    c->generation.max_new_tokens > CONFIG_MAX_POSITIONS ||
	    c->generation.end_count > CONFIG_MAX_END_TOKENS ||
	    !memchr(c->generation.words, 0, sizeof c->generation.words))
		abort();
	for (uint32_t i = 0; i < c->generation.end_count; i++)
		if (c->generation.end_tokens[i] >= CONFIG_MAX_VOCABULARY)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct config c; /* large */
	struct err e = {0};
	c = (struct config){.vocabulary = 1000, .generation = GENERATION_DEFAULTS};
	int failed =
		config_parse_generation(&c, (const char *)data, size, "generation_config.json", &e);
	if (failed && (e.code != -failed || !e.text[0]))
		abort();
	check_settings(&c);
	return 0;
}

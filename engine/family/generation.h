/* generation_config.json: a model's default sampling, and which keys of the file are not applied.
 *
 * A table (generation.c) says for each key of transformers' GenerationConfig whether it is applied,
 * never changes a text, or would change one and is ignored. A key that the table does not know
 * might change one. `words` reports the outcome, for info/defaults. */
#ifndef MOEFS_ENGINE_FAMILY_GENERATION_H
#define MOEFS_ENGINE_FAMILY_GENERATION_H

#include "cache/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { CONFIG_MAX_END_TOKENS = 16, GENERATION_WORDS = 2048 };

struct json;
struct generation { /* of the field's usual defaults: GENERATION_DEFAULTS */
	double temperature, top_p, min_p, repetition_penalty;
	uint32_t top_k, max_new_tokens; /* 0: none */
	uint32_t end_tokens[CONFIG_MAX_END_TOKENS], end_count;
	/* Of a model that ollama keeps (engine/library/ollama.h), whose strings these are; NULL:
	 * none. */
	const char *system, *stop;
	uint64_t seed;
	bool seeded; /* sessions begin with that seed; else each turn has a new one */
	/* "temperature 0.7" for what is taken, "ignored num_beams 4" for what is not: lines, the
	 * last without its end. Empty: there is no such file. */
	char words[GENERATION_WORDS];
};
#define GENERATION_DEFAULTS                         \
	{                                           \
		.top_p = 1, .repetition_penalty = 1 \
	}

/* `json` is the whole document. */
int generation_read(struct generation *g, const struct json *json, const char *name, struct err *e);
/* Takes a member of another program's params as the key `as` of the table, with its bounds. */
int generation_take(struct generation *g, const char *as, const struct json *value,
		    const char *name, struct err *e);
/* Adds to g->words: a member of an object behind `before`; a line. */
void generation_note(struct generation *g, const struct json *value, const char *before);
void generation_say(struct generation *g, const char *line);
/* Adds "eos_token_id" of a document: one id or a list of them. Both of a model's files may have it,
 * and all count. */
int generation_end_tokens(struct generation *g, const struct json *json, const char *name,
			  struct err *e);

#endif

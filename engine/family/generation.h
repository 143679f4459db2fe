/* generation_config.json: a model's default sampling params, and a report of the keys that are not
 * applied.
 *
 * A table (generation.c) says for each key of transformers' GenerationConfig whether it is applied,
 * never changes a text, or would change a text but is ignored. Unknown keys count as ignored.
 * `words` reports this, for info/defaults. */
#ifndef MOEFS_ENGINE_FAMILY_GENERATION_H
#define MOEFS_ENGINE_FAMILY_GENERATION_H

#include "cache/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { CONFIG_MAX_END_TOKENS = 16, GENERATION_WORDS = 2048 };

struct json;
struct generation { /* initialise with GENERATION_DEFAULTS */
	double temperature, top_p, min_p, repetition_penalty;
	uint32_t top_k, max_new_tokens; /* 0: none */
	uint32_t end_tokens[CONFIG_MAX_END_TOKENS], end_count;
	/* For a model of ollama (engine/library/ollama.h), which owns the strings; NULL: none. */
	const char *system, *stop;
	uint64_t seed;
	bool seeded; /* sessions begin with this seed; else each turn has a new seed */
	/* Lines, the last without a newline: "temperature 0.7" for keys that are applied, "ignored
	 * num_beams 4" for others. Empty: no such file. */
	char words[GENERATION_WORDS];
};
#define GENERATION_DEFAULTS                         \
	{                                           \
		.top_p = 1, .repetition_penalty = 1 \
	}

/* Reads a generation_config.json; `json` is the whole document. */
int generation_read(struct generation *g, const struct json *json, const char *name, struct err *e);
/* Applies another program's param as the key `as` of the table, with the same bounds. */
int generation_take(struct generation *g, const char *as, const struct json *value,
		    const char *name, struct err *e);
/* Add to g->words: `before` and a member of an object; a line. */
void generation_note(struct generation *g, const struct json *value, const char *before);
void generation_say(struct generation *g, const char *line);
/* Adds "eos_token_id" of a document: an id or a list of ids. Both files of a model may have it; all
 * ids count. */
int generation_end_tokens(struct generation *g, const struct json *json, const char *name,
			  struct err *e);

#endif

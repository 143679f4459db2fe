#include "engine/family/generation.h"

#include "engine/family/config.h"
#include "engine/json/json.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- the keys ---- */

static const struct generation_taken {
	const char *name;
	bool sampling;				/* applies only with "do_sample" */
	enum { NUMBER, COUNT, ELSEWHERE } kind; /* ELSEWHERE: not read by generation_read_number */
	size_t offset;				/* in struct generation */
	double least, most;
	double fallback; /* value with sampling if the key is missing */
} TAKEN[] = {
	{"do_sample", false, ELSEWHERE, 0, 0, 0, 0},
	{"eos_token_id", false, ELSEWHERE, 0, 0, 0, 0},
	{"temperature", true, NUMBER, offsetof(struct generation, temperature), 0, 100, 1},
	{"top_k", true, COUNT, offsetof(struct generation, top_k), 0, CONFIG_MAX_VOCABULARY, 50},
	{"top_p", true, NUMBER, offsetof(struct generation, top_p), 0, 1, 1},
	{"min_p", true, NUMBER, offsetof(struct generation, min_p), 0, 1, 0},
	{"repetition_penalty", false, NUMBER, offsetof(struct generation, repetition_penalty), .01,
	 100, 1},
	{"max_new_tokens", false, COUNT, offsetof(struct generation, max_new_tokens), 0,
	 CONFIG_MAX_POSITIONS, 0},
};

/* Keys that change a text and are not applied, each with its neutral number. null, false and an
 * empty list are always neutral. */
static const struct generation_ignored {
	const char *name;
	double neutral; /* NAN: none */
} IGNORED[] = {
	{"max_length", 20}, /* the default of transformers, which means none */
	{"min_length", 0},
	{"min_new_tokens", 0},
	{"max_time", NAN},
	{"stop_strings", NAN},
	{"num_beams", 1},
	{"num_beam_groups", 1},
	{"diversity_penalty", 0},
	{"length_penalty", 1},
	{"early_stopping", 0},
	{"constraints", NAN},
	{"force_words_ids", NAN},
	{"penalty_alpha", 0},
	{"dola_layers", NAN},
	{"top_h", NAN},
	{"typical_p", 1},
	{"epsilon_cutoff", 0},
	{"eta_cutoff", 0},
	{"encoder_repetition_penalty", 1},
	{"no_repeat_ngram_size", 0},
	{"encoder_no_repeat_ngram_size", 0},
	{"bad_words_ids", NAN},
	{"suppress_tokens", NAN},
	{"begin_suppress_tokens", NAN},
	{"forced_bos_token_id", NAN},
	{"forced_eos_token_id", NAN},
	{"forced_decoder_ids", NAN},
	{"exponential_decay_length_penalty", NAN},
	{"sequence_bias", NAN},
	{"token_healing", 0},
	{"guidance_scale", 1},
	{"watermarking_config", NAN},
	{"remove_invalid_values", 0},
	{"num_return_sequences", 1},
};

/* Keys that never change a text: ids for padding, how to compute, drafts (which are verified), and
 * additional results. bos_token_id is used only for empty prompts, which moefs does not have. */
static const char *const HARMLESS[] = {
	"bos_token_id",
	"pad_token_id",
	"decoder_start_token_id",
	"renormalize_logits",
	"use_cache",
	"cache_implementation",
	"cache_config",
	"return_legacy_cache",
	"low_memory",
	"prefill_chunk_size",
	"compile_config",
	"disable_compile",
	"output_attentions",
	"output_hidden_states",
	"output_scores",
	"output_logits",
	"return_dict_in_generate",
	"is_assistant",
	"num_assistant_tokens",
	"num_assistant_tokens_schedule",
	"assistant_confidence_threshold",
	"assistant_early_exit",
	"assistant_lookbehind",
	"target_lookbehind",
	"prompt_lookup_num_tokens",
	"max_matching_ngram_size",
	"trust_remote_code",
	"transformers_version",
};

static const struct generation_taken *generation_find_taken(const char *name)
{
	for (size_t i = 0; i < sizeof TAKEN / sizeof *TAKEN; i++)
		if (!strcmp(TAKEN[i].name, name))
			return &TAKEN[i];
	return NULL;
}

/* Names with an underscore are internal notes of transformers. */
static bool generation_is_harmless(const char *name)
{
	bool harmless = *name == '_';
	for (size_t i = 0; i < sizeof HARMLESS / sizeof *HARMLESS && !harmless; i++)
		harmless = !strcmp(HARMLESS[i], name);
	return harmless;
}

/* The neutral number of a key. Any number of an unknown key might change a text. */
static double generation_neutral_of(const char *name)
{
	for (size_t i = 0; i < sizeof IGNORED / sizeof *IGNORED; i++)
		if (!strcmp(IGNORED[i].name, name))
			return IGNORED[i].neutral;
	return NAN;
}

/* ---- words ---- */

/* Adds a line. If there is no room, the last line is "…". */
__attribute__((format(printf, 2, 3))) static void generation_add_line(struct generation *g,
								      const char *format, ...)
{
	static const char MORE[] = "\n…";
	char line[256];
	va_list values;
	va_start(values, format);
	(void)vsnprintf(line, sizeof line, format, values);
	va_end(values);
	size_t used = strlen(g->words), more = sizeof MORE - 1;
	if (used >= more && !strcmp(g->words + used - more, MORE))
		return; /* the line exists already */
	/* There is always room for MORE after the lines. */
	if (used + 1 + strlen(line) + more < sizeof g->words)
		(void)snprintf(g->words + used, sizeof g->words - used, "%s%s", used ? "\n" : "",
			       line);
	else
		memcpy(g->words + used, MORE, sizeof MORE);
}

/* Shortens a key to one line, since the file may be hostile. */
static const char *generation_shown_key(const char *key, char shown[64])
{
	(void)snprintf(shown, 64, "%.40s", key);
	for (char *c = shown; *c; c++)
		if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f)
			*c = '?';
	return shown;
}

/* Adds "BEFORE KEY VALUE BEHIND" as one short line. */
static void generation_add_value(struct generation *g, const char *before, const struct json *value,
				 const char *behind)
{
	char key[64], shown[80];
	json_show(value, shown, sizeof shown);
	for (char *c = shown; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	generation_add_line(g, "%s%s %s%s", before, generation_shown_key(json_key(value), key),
			    shown, behind);
}

void generation_note(struct generation *g, const struct json *value, const char *before)
{
	generation_add_value(g, before, value, "");
}

void generation_say(struct generation *g, const char *line)
{
	generation_add_line(g, "%s", line);
}

static void generation_add_end_tokens(struct generation *g)
{
	char line[CONFIG_MAX_END_TOKENS * 12 + 32] = "eos_token_id";
	for (uint32_t i = 0; i < g->end_count; i++)
		(void)snprintf(line + strlen(line), 12, " %u", g->end_tokens[i]);
	if (g->end_count)
		generation_add_line(g, "%s", line);
}

/* ---- end tokens ---- */

static int generation_add_end_token(struct generation *g, const struct json *value,
				    const char *name, struct err *e)
{
	uint64_t id;
	int failed =
		json_as_uint(value, "eos_token_id", name, 0, CONFIG_MAX_VOCABULARY - 1, &id, e);
	if (failed)
		return failed;
	for (uint32_t i = 0; i < g->end_count; i++)
		if (g->end_tokens[i] == id)
			return 0;
	if (g->end_count == CONFIG_MAX_END_TOKENS)
		return err_set(e, EINVAL, "%s: more than %d end tokens", name,
			       CONFIG_MAX_END_TOKENS);
	g->end_tokens[g->end_count++] = (uint32_t)id;
	return 0;
}

int generation_end_tokens(struct generation *g, const struct json *json, const char *name,
			  struct err *e)
{
	const struct json *value = json_find(json, "eos_token_id");
	int failed = 0;
	if (json_kind(value) == JSON_NULL)
		return 0;
	if (json_kind(value) != JSON_LIST)
		return generation_add_end_token(g, value, name, e);
	for (const struct json *v = NULL; !failed && (v = json_next(value, v));)
		failed = generation_add_end_token(g, v, name, e);
	return failed;
}

/* ---- the file ---- */

/* Applies a value that is not null. */
static int generation_take_value(struct generation *g, const struct generation_taken *k,
				 const struct json *value, const char *key, const char *name,
				 struct err *e)
{
	void *to = (char *)g + k->offset;
	double number = 0;
	uint64_t count = 0;
	int failed = k->kind == NUMBER
			     ? json_as_double(value, key, name, k->least, k->most, &number, e)
			     : json_as_uint(value, key, name, (uint64_t)k->least, (uint64_t)k->most,
					    &count, e);
	if (failed)
		return failed;
	if (k->kind == NUMBER)
		*(double *)to = number;
	else
		*(uint32_t *)to = (uint32_t)count;
	generation_add_line(g, "%s %.9g", k->name, k->kind == NUMBER ? number : (double)count);
	return 0;
}

static int generation_read_number(struct generation *g, const struct generation_taken *k,
				  const struct json *json, const char *name, struct err *e)
{
	void *to = (char *)g + k->offset;
	if (json_has(json, k->name))
		return generation_take_value(g, k, json_find(json, k->name), k->name, name, e);
	if (k->kind == NUMBER)
		*(double *)to = k->fallback;
	else
		*(uint32_t *)to = (uint32_t)k->fallback;
	return 0;
}

int generation_take(struct generation *g, const char *as, const struct json *value,
		    const char *name, struct err *e)
{
	return generation_take_value(g, generation_find_taken(as), value, json_key(value), name, e);
}

/* True if a value may change a text: it is not null, false, empty or neutral. */
static bool generation_says_something(const struct json *value, double neutral)
{
	double number;
	bool truth;
	size_t n;
	struct err ignored;
	switch (json_kind(value)) {
	case JSON_NULL:
		return false;
	case JSON_BOOL:
		return !json_as_bool(value, "", "", &truth, &ignored) && truth;
	case JSON_NUMBER: /* a number that cannot be compared may */
		return json_as_double(value, "", "", -HUGE_VAL, HUGE_VAL, &number, &ignored) ||
		       number != neutral;
	case JSON_TEXT:
		json_bytes(value, &n);
		return n > 0;
	default:
		return json_count(value) > 0;
	}
}

static void generation_list_ignored(struct generation *g, const struct json *json, bool sample)
{
	for (const struct json *v = NULL; (v = json_next(json, v));) {
		const char *name = json_key(v);
		const struct generation_taken *t = generation_find_taken(name);
		bool idle = t && t->sampling && !sample;
		if ((t && !idle) || generation_is_harmless(name))
			continue;
		if (generation_says_something(v, t ? t->fallback : generation_neutral_of(name)))
			generation_add_value(g, "ignored ", v,
					     idle ? " (do_sample is not true)" : "");
	}
}

/* Without do_sample, sampling is greedy. */
int generation_read(struct generation *g, const struct json *json, const char *name, struct err *e)
{
	bool sample;
	g->words[0] = 0;
	int failed = json_get_bool_or(json, "do_sample", name, false, &sample, e);
	if (!failed && json_has(json, "do_sample"))
		generation_add_line(g, "do_sample %s", sample ? "true" : "false");
	for (size_t i = 0; !failed && i < sizeof TAKEN / sizeof *TAKEN; i++)
		if (TAKEN[i].kind != ELSEWHERE && (sample || !TAKEN[i].sampling))
			failed = generation_read_number(g, &TAKEN[i], json, name, e);
	if (!failed)
		failed = generation_end_tokens(g, json, name, e);
	if (failed)
		return failed;
	generation_add_end_tokens(g);
	generation_list_ignored(g, json, sample);
	return 0;
}

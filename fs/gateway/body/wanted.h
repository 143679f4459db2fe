/* What a request wants from a session, in any protocol: messages and tools in the form of
 * messages.json and tools.json, params, and the form of the answer. anthropic_read.c and
 * responses_read.c make a struct wanted from a body; protocol_answer.c has it answered.
 *
 * Also the checks of tools and of tool results, shared by all protocols. */
#ifndef MOEFS_FS_GATEWAY_BODY_WANTED_H
#define MOEFS_FS_GATEWAY_BODY_WANTED_H

#include "cache/err.h"
#include "fs/base/text.h"
#include "fs/gateway/problem.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

enum { WANTED_PARAMS = 16 };
struct wanted_param {
	const char *name; /* static */
	char *value;	  /* owned */
	/* The value has several words with one blank between them, the best first. The first word
	 * that the model accepts is used. It is no error if the model accepts none, since templates
	 * differ in what they know of thinking. */
	bool any_of;
};

struct wanted {
	char *model;	       /* owned */
	json_object *messages; /* for messages.json; owned */
	const char *form;      /* the body's field with the schema of the answer; NULL: none */
	const char *asked;     /* the body's field with the messages; NULL: messages */
	json_object *tools;    /* for tools.json; NULL: none; owned */
	json_object *stops;    /* the texts of params/stop, in order; NULL: none; owned */
	struct wanted_param params[WANTED_PARAMS];
	size_t param_count;
	uint64_t max_tokens; /* 0: no limit asked for */
	bool stream;
	bool one_call; /* the answer ends with its first call */
	bool thoughts; /* whether thoughts are sent */
	bool logprobs; /* whether logprobs are sent */
	uint64_t top;  /* number of alternative tokens with each logprob */
};

/* Zero-initialised memory is a request that wants nothing. */
void wanted_free(struct wanted *w);
/* Adds a param; the value is copied. -ENOMEM. */
int wanted_param(struct wanted *w, const char *name, const char *value, struct err *e);
int wanted_any_of(struct wanted *w, const char *name, const char *words, struct err *e);
/* Adds a param from a number of the body, unchanged; 0 if the field is missing. -EINVAL: the field
 * is not a number from least to most. */
int wanted_number(struct wanted *w, const json_object *body, const char *key, const char *param,
		  double least, double most, struct err *e);
/* Adds the texts at which the answer stops. key: used in error messages. -EINVAL. */
int wanted_stops(struct wanted *w, json_object *list, const char *key, struct err *e);
/* Adds a line of params/stop, with escapes. */
void wanted_stop_line(struct text *out, const char *stop);
/* Makes the answer follow a schema (borrowed; NULL: any JSON object) from the body's field `key`
 * (static). -ENOMEM. */
int wanted_schema(struct wanted *w, json_object *schema, const char *key, struct err *e);
/* Adds a function that the model may call; the schema (borrowed) may be NULL. -ENOMEM; -EINVAL: bad
 * name. */
int wanted_tool(struct wanted *w, const char *name, const char *description, json_object *schema,
		struct err *e);
/* Sets how much the model thinks, as OpenAI's reasoning effort; NULL: unset. -EINVAL: unknown
 * effort. */
int wanted_effort(struct wanted *w, const char *effort, const char *key, struct err *e);

/* ---- checks of tools and calls ---- */

enum { NAME_OPENAI = 64, NAME_ANTHROPIC = 128 }; /* most bytes of a tool's name */

/* -EINVAL unless the name is 1 to `most` letters, digits, _ and -. */
int wanted_check_name(const char *name, int most, struct err *e);
/* Checks a tool's parameters: a JSON Schema of an object with JSON's types. -EINVAL. */
int wanted_check_schema(const char *name, json_object *schema, struct err *e);
/* Whether a list in the form of tools.json (NULL: empty) has a function of this name. */
bool wanted_has_tool(json_object *tools, const char *name);

/* Where a protocol requires the results of calls, and its sentences for a call without a result and
 * a result without a call, as the text before and after the call's id. */
struct wanted_results {
	enum { RESULTS_NEXT, RESULTS_LATER } order; /* directly behind their calls, or anywhere */
	const char *no_result[2], *no_call[2];
};
/* -EINVAL unless the messages (in the form of messages.json) have a result for each call and a call
 * for each result. */
int wanted_check_results(json_object *messages, const struct wanted_results *rules, struct err *e);

/* ---- answers ---- */

struct answer_ending {	    /* from the session's stats */
	const char *finish; /* end stop length repetition tool_calls stopped */
	const char *stop;   /* the text at which the answer stopped; NULL: none, or unknown */
	uint64_t prompt_tokens, cached_tokens, output_tokens, thought_tokens;
	uint64_t max_tokens; /* limit set by the request; 0: none */
	bool remembered;     /* the answer was remembered, not computed (-o remember=) */
};

/* Adds `remembered` to a protocol's usage, if true. */
static inline json_object *wanted_note_remembered(json_object *usage, bool remembered)
{
	if (remembered)
		json_object_object_add(usage, "remembered", json_object_new_boolean(true));
	return usage;
}

/* A protocol's functions for each kind of news from the model. Each adds to `out` what must be
 * sent: in a stream, events; otherwise nothing, except that `end` adds the whole body. */
struct answer_format {
	void (*begin)(void *of, const struct answer_ending *known, struct text *out);
	void (*thought)(void *of, const char *text, size_t n, struct text *out);
	void (*text)(void *of, const char *text, size_t n, struct text *out);
	void (*call)(void *of, json_object *call, struct text *out); /* as in tool_calls.json */
	/* Lines of logprobs.jsonl, before the text that they belong to; only if wanted. */
	void (*logprobs)(void *of, const struct text *lines);
	void (*end)(void *of, const struct answer_ending *end, struct text *out);
	void (*fail)(void *of, const struct problem *p, struct text *out); /* only in a stream */
	void (*pause)(struct text *out); /* after `begin`, while there is no news */
	void (*free)(void *of);
};

#endif

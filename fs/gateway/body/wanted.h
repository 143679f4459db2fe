/* What a request asks of a session, whatever its protocol: messages and tools as messages.json and
 * tools.json hold them, params, and what the answer must look like. anthropic_read.c and
 * responses_read.c make one of a body; protocol_answer.c has it answered.
 *
 * Also the checks of tools and of calls' results that all protocols share. */
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
	/* The value is words with one blank between them, the best first. The first that the model
	 * takes counts, and taking none is no error: templates differ in what they know of
	 * thinking. */
	bool any_of;
};

struct wanted {
	char *model;	       /* owned */
	json_object *messages; /* for messages.json; owned */
	const char *form;      /* the body's field that gives the answer's schema; NULL: none */
	const char *asked;     /* the body's field that holds the messages; NULL: messages */
	json_object *tools;    /* for tools.json; NULL: none; owned */
	json_object *stops;    /* the texts of params/stop, in their order; NULL: none; owned */
	struct wanted_param params[WANTED_PARAMS];
	size_t param_count;
	uint64_t max_tokens; /* 0: no limit asked for */
	bool stream;
	bool one_call; /* the answer ends with its first call */
	bool thoughts; /* thoughts are sent */
	bool logprobs; /* logprobs are sent */
	uint64_t top;  /* how many other tokens with each logprob */
};

/* Zero-initialised memory is a request that asks nothing. */
void wanted_free(struct wanted *w);
/* Adds a param; the value is copied. -ENOMEM. */
int wanted_param(struct wanted *w, const char *name, const char *value, struct err *e);
int wanted_any_of(struct wanted *w, const char *name, const char *words, struct err *e);
/* Adds a param from a number of the body, as the body writes it; 0 where it is missing. -EINVAL:
 * it is not a number from least to most. */
int wanted_number(struct wanted *w, const json_object *body, const char *key, const char *param,
		  double least, double most, struct err *e);
/* Adds the texts at which the answer stops. key: for messages. -EINVAL. */
int wanted_stops(struct wanted *w, json_object *list, const char *key, struct err *e);
/* Adds a line of params/stop, with its escapes. */
void wanted_stop_line(struct text *out, const char *stop);
/* Makes the answer follow a schema (borrowed; NULL: any JSON object), which the body's field `key`
 * (static) gives. -ENOMEM. */
int wanted_schema(struct wanted *w, json_object *schema, const char *key, struct err *e);
/* Offers a function; the schema (borrowed) may be NULL. -ENOMEM; -EINVAL for a bad name. */
int wanted_tool(struct wanted *w, const char *name, const char *description, json_object *schema,
		struct err *e);
/* How much thinking, as OpenAI's reasoning effort; NULL: none. -EINVAL: an unknown effort. */
int wanted_effort(struct wanted *w, const char *effort, const char *key, struct err *e);

/* ---- checks of tools and calls ---- */

enum { NAME_OPENAI = 64, NAME_ANTHROPIC = 128 }; /* the most bytes of a tool's name */

/* -EINVAL unless the name is 1 to `most` letters, digits, _ and -. */
int wanted_check_name(const char *name, int most, struct err *e);
/* A tool's parameters: a JSON Schema of an object, whose types are JSON's. -EINVAL. */
int wanted_check_schema(const char *name, json_object *schema, struct err *e);
/* Whether a list as in tools.json (NULL: empty) has a function of that name. */
bool wanted_has_tool(json_object *tools, const char *name);

/* Where a protocol wants the results of calls, and its sentences for a call without a result and a
 * result without a call: the text before and after the call's id. */
struct wanted_results {
	enum { RESULTS_NEXT, RESULTS_LATER } order; /* directly behind their calls, or anywhere */
	const char *no_result[2], *no_call[2];
};
/* -EINVAL unless the messages, as in messages.json, have a result for each call and a call for each
 * result. */
int wanted_check_results(json_object *messages, const struct wanted_results *rules, struct err *e);

/* ---- answers ---- */

struct answer_ending {	    /* from the session's stats */
	const char *finish; /* end stop length repetition tool_calls stopped */
	const char *stop;   /* the text at which it stopped; NULL: at none, or unknown */
	uint64_t prompt_tokens, cached_tokens, output_tokens, thought_tokens;
	uint64_t max_tokens; /* that were asked for; 0: no limit */
	bool remembered;     /* nothing was computed (-o remember=) */
};

/* Says so in a protocol's usage. */
static inline json_object *wanted_note_remembered(json_object *usage, bool remembered)
{
	if (remembered)
		json_object_object_add(usage, "remembered", json_object_new_boolean(true));
	return usage;
}

/* What a protocol does with each thing that comes from the model. Each function adds to `out` what
 * must be sent: in a stream, events; else nothing, except that `end` adds the whole body. */
struct answer_format {
	void (*begin)(void *of, const struct answer_ending *known, struct text *out);
	void (*thought)(void *of, const char *text, size_t n, struct text *out);
	void (*text)(void *of, const char *text, size_t n, struct text *out);
	void (*call)(void *of, json_object *call, struct text *out); /* as in tool_calls.json */
	/* Lines of logprobs.jsonl, before the text that they are of; only where they are wanted. */
	void (*logprobs)(void *of, const struct text *lines);
	void (*end)(void *of, const struct answer_ending *end, struct text *out);
	void (*fail)(void *of, const struct problem *p, struct text *out); /* only in a stream */
	void (*pause)(struct text *out); /* after `begin`, while nothing comes */
	void (*free)(void *of);
};

#endif

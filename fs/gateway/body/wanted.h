/* What a request asks of a session, whatever protocol it came in: the texts of its messages.json
 * and tools.json, its params, and what the answer is to look like. Made of a body by
 * anthropic_read.c and responses_read.c, written into a session's files by who runs the request. */
#ifndef MOEFS_FS_GATEWAY_BODY_WANTED_H
#define MOEFS_FS_GATEWAY_BODY_WANTED_H

#include "cache/err.h"
#include "fs/base/text.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

enum { WANTED_PARAMS = 16 };
struct wanted_param {
	const char *name; /* a constant */
	char *value;	  /* owned */
	/* Words, of which the first that the session takes counts; that none is taken is no error:
	 * templates differ in what they know of thinking. A blank is between two. */
	bool any_of;
};

struct wanted {
	char *model;	       /* owned */
	json_object *messages; /* for messages.json; owned */
	const char *form;      /* the body's field that holds the answer to a form; NULL: none */
	const char *asked;     /* the body's field that they are; NULL: messages */
	json_object *tools;    /* for tools.json; NULL: none; owned */
	json_object *stops;    /* the texts of params/stop, in their order; NULL: none; owned */
	struct wanted_param params[WANTED_PARAMS];
	size_t param_count;
	uint64_t max_tokens; /* 0: not said */
	bool stream;
	bool one_call; /* an answer ends with its first call */
	bool thoughts; /* they are to be shown */
	bool logprobs; /* so are the tokens' likelihoods */
	uint64_t top;  /* how many other tokens with each */
};

/* Zero-initialised memory is a request that asks nothing. */
void wanted_free(struct wanted *w);
/* The value is copied. -ENOMEM. */
int wanted_param(struct wanted *w, const char *name, const char *value, struct err *e);
int wanted_any_of(struct wanted *w, const char *name, const char *words, struct err *e);
/* A number of the body, as it was written there, if it is there: -EINVAL if it is none between
 * least and most. */
int wanted_number(struct wanted *w, const json_object *body, const char *key, const char *param,
		  double least, double most, struct err *e);
/* Texts at which to stop, a list: -EINVAL. `key` is for the words. */
int wanted_stops(struct wanted *w, json_object *list, const char *key, struct err *e);
/* Holds the answer to a schema (borrowed), or with NULL to any JSON object, as the body's field
 * `key` (static) says. -ENOMEM. */
int wanted_schema(struct wanted *w, json_object *schema, const char *key, struct err *e);
/* A function on offer; the schema (borrowed) may be NULL. -ENOMEM, and -EINVAL for a name that
 * is none. */
int wanted_tool(struct wanted *w, const char *name, const char *description, json_object *schema,
		struct err *e);
/* How much thinking, by OpenAI's words for effort; NULL: none. -EINVAL: unknown. */
int wanted_effort(struct wanted *w, const char *effort, const char *key, struct err *e);

/* What a turn came to, of the session's stats. */
struct ending {
	const char *finish; /* end stop length tool_calls stopped */
	const char *stop;   /* the text at which it stopped; NULL: at none, or unknown */
	uint64_t prompt_tokens, cached_tokens, output_tokens, thought_tokens;
	uint64_t max_tokens; /* that were asked for; 0: any number */
};

/* ---- bodies ---- */

/* NULL where it is not there, or null. */
json_object *json_at(const json_object *o, const char *key);
/* A text's bytes without NULs; NULL: it is not there, or no such text. */
const char *json_text(const json_object *o, const char *key);
/* Whether it is there and true. */
bool json_true(const json_object *o, const char *key);
/* A member that must be a text if it is there; *text is NULL if it is not. -EINVAL. */
int json_text_or_none(const json_object *o, const char *key, const char **text, struct err *e);
/* Adds a text. */
void json_put(json_object *o, const char *key, const char *text);
void json_put_n(json_object *o, const char *key, const char *text, size_t n);
void json_put_number(json_object *o, const char *key, uint64_t number);
/* In one line, at the end of a text; the object is freed. */
void json_finish(struct text *out, json_object *o);
/* An event of a stream: its name, and its data, which is freed. */
void json_event(struct text *out, const char *name, json_object *data);

#endif

/* Tools on offer, whatever the protocol: their names and schemas, and whether a conversation has a
 * result for each call. */
#ifndef MOEFS_FS_GATEWAY_BODY_OFFERED_H
#define MOEFS_FS_GATEWAY_BODY_OFFERED_H

#include "cache/err.h"

#include <json-c/json.h>
#include <stdbool.h>

enum { NAME_OPENAI = 64, NAME_ANTHROPIC = 128 }; /* the most bytes of a tool's name */

/* -EINVAL for a name that is not 1 to `most` letters, digits, _ and -. */
int offered_name(const char *name, int most, struct err *e);
/* The parameters of the tool: an object's schema, whose types are JSON's. -EINVAL. */
int offered_schema(const char *name, json_object *schema, struct err *e);
/* Whether a list in the form of tools.json has one of that name; NULL is an empty list. */
bool offered_has(json_object *tools, const char *name);

enum offered_order {
	RESULTS_NEXT,  /* results follow their calls at once */
	RESULTS_LATER, /* anywhere behind them */
};
/* What a protocol asks of results, and its sentences for what is missing: what stands before and
 * behind the id of the call without a result, or of the result without a call. */
struct offered_results {
	enum offered_order order;
	const char *no_result[2], *no_call[2];
};

/* Whether the messages, in the form of messages.json, have a result for each call and a call for
 * each result: -EINVAL, in the protocol's words. */
int offered_results(json_object *messages, const struct offered_results *rules, struct err *e);

#endif

/* Tools on offer, whatever the protocol: their names and schemas, and whether a conversation has a
 * result for each call. */
#ifndef MOEFS_FS_GATEWAY_OFFERED_H
#define MOEFS_FS_GATEWAY_OFFERED_H

#include "cache/err.h"

#include <json-c/json.h>
#include <stdbool.h>

enum { NAME_OPENAI = 64, NAME_ANTHROPIC = 128 }; /* the most bytes of a tool's name */

/* -EINVAL for a name that is not 1 to `most` letters, digits, _ and -. */
int offered_name(const char *name, int most, struct err *e);
/* The parameters of the tool: an object's schema, whose types are JSON's. -EINVAL. */
int offered_schema(const char *name, json_object *schema, struct err *e);
/* Whether a list of tools.json has one of that name; NULL is an empty list. */
bool offered_has(json_object *tools, const char *name);

enum offered_order {
	RESULTS_NEXT,  /* results follow their calls at once */
	RESULTS_LATER, /* anywhere behind them */
};
enum offered_gap { GAP_NONE, GAP_RESULT, GAP_CALL }; /* what is missing */

/* Of messages.json: *id is the call that has no result, or the result's that has no call; it is the
 * list's. */
enum offered_gap offered_gap(json_object *messages, enum offered_order order, const char **id);

#endif

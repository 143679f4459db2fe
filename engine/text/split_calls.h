/* Tool calls as models write them: Hermes' JSON in <tool_call>, and Qwen's XML, with or without it.
 */
#ifndef MOEFS_ENGINE_TEXT_SPLIT_CALLS_H
#define MOEFS_ENGINE_TEXT_SPLIT_CALLS_H

#include "engine/text/json_write.h"
#include "engine/text/split_scan.h"

struct call {
	char *name; /* owned, NUL-terminated, and so is what follows */
	size_t name_n;
	char *arguments; /* a JSON object */
	size_t arguments_n;
};
struct calls { /* zero-initialise; freed by calls_free */
	struct call *items;
	size_t count, room;
	bool failed; /* memory was out */
};
void calls_free(struct calls *c);
/* Forgets those behind the first `count`. */
void calls_cut(struct calls *c, size_t count);

/* Appends the calls of the <tool_call> at i and returns the place behind it; none are appended
 * unless the scan stays good. */
size_t scan_call_block(struct scan *s, size_t i, const struct json *tools, struct calls *calls);
/* The same of a <function=NAME> that stands alone, NAME being one of the tools'. */
size_t scan_bare_call(struct scan *s, size_t i, const struct json *tools, struct calls *calls);

#define CALL_BEGIN "<tool_call>"
#define CALL_END "</tool_call>"
#define FUNCTION_BEGIN "<function="
#define FUNCTION_END "</function>"
#define PARAMETER_BEGIN "<parameter="
#define PARAMETER_END "</parameter>"

#endif

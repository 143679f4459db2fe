/* Results for the tool calls of the last answer, until a turn takes them (session.h). */
#ifndef MOEFS_ENGINE_SESSION_RESULTS_H
#define MOEFS_ENGINE_SESSION_RESULTS_H

#include "engine/json/json.h"
#include "engine/json/text_out.h"
#include "engine/session.h"

/* Writes the calls of the last answer as JSON. */
void results_write_calls(const struct session *s, struct text_out *out);
/* Parses a result and checks its form, but not its id. The caller frees *parsed, also after an
 * error. */
int results_read(const struct session *s, const struct session_result *r, struct json **parsed,
		 struct err *e);
/* Adds all results; after an error none. As session_tool_results_add. */
int results_add(struct session *s, struct json *const *parsed, const struct session_result *results,
		size_t count, bool *complete, struct err *e);

#endif

/* Values and calls as Python writes them, or nearly: what models write that were taught so. */
#ifndef MOEFS_ENGINE_TEXT_SPLIT_PYTHON_H
#define MOEFS_ENGINE_TEXT_SPLIT_PYTHON_H

#include "engine/text/split_forms.h"

/* Reads the value at i and writes it as JSON; returns the place behind it. `quote`: what texts
 * stand between, as they are, and keys need none; NULL: Python's quotes. */
size_t scan_python(struct scan *s, size_t i, const char *quote, struct text_out *out);
/* Writes a list or an object of Python's where the schema asks for one, and nothing else does;
 * false: it is none. */
bool write_python_by_schema(struct text_out *out, const char *value, size_t n,
			    const struct json *schema);

/* Readers, as call_reader of split_forms.h: NAME(KEY=VALUE, ...), several with commas or lines
 * between them, perhaps in a list or a fence; Gemma's NAME{KEY:VALUE, ...}. */
call_reader read_python_calls, read_brace_call;

#endif

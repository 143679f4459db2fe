/* Values as Python writes them, or nearly: what models write that were taught so. */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_PYTHON_H
#define MOEFS_ENGINE_ANSWER_SPLIT_PYTHON_H

#include "engine/json/text_out.h"
#include "engine/answer/split_scan.h"

/* Reads the value at i and writes it as JSON; returns the place behind it. `quote`: what texts
 * stand between, as they are, and keys need none; NULL: Python's quotes. */
size_t scan_python(struct scan *s, size_t i, const char *quote, struct text_out *out);
/* Writes a list or an object of Python's where the schema asks for one, and nothing else does;
 * false: it is none. */
bool write_python_by_schema(struct text_out *out, const char *value, size_t n,
			    const struct json *schema);

/* A byte of an argument's name. */
bool is_key_byte(int c);
/* Whether a text begins at i; reading it, as JSON. One that is a whole argument may have quotes in
 * it that are not escaped: templates write so. */
bool begins_text(struct scan *s, size_t i, const char *quote);
size_t scan_text(struct scan *s, size_t i, const char *quote, bool argument, struct text_out *out);

#endif

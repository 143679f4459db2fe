/* Helpers for json-c: checked fields of a body, new objects for answers, JSON as text.
 *
 * A field that is null counts as missing. */
#ifndef MOEFS_FS_GATEWAY_BODY_JSON_FIELDS_H
#define MOEFS_FS_GATEWAY_BODY_JSON_FIELDS_H

#include "cache/err.h"
#include "fs/gateway/problem.h"
#include "fs/base/text.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- fields of a body; all are borrowed from `o` ---- */

/* NULL: the field is missing, or `o` is not an object. */
json_object *json_at(const json_object *o, const char *key);
/* NULL: the field is missing, is not a string, or contains a NUL byte. */
const char *json_text(const json_object *o, const char *key);
/* Whether the field equals the string. */
bool json_is(const json_object *o, const char *key, const char *string);
bool json_true(const json_object *o, const char *key);
/* Reads a field that must be a string if present; else *text is NULL. -EINVAL. */
int json_text_or_none(const json_object *o, const char *key, const char **text, struct err *e);
/* A list's length; 0 if it is not a list. */
size_t json_length(const json_object *list);

/* Each returns 1 and sets *out; 0: the field is missing, and *out is unchanged; -1: the field is
 * wrong, and *p says why. */
int field_text(json_object *in, const char *name, const char **out, struct problem *p);
int field_bool(json_object *in, const char *name, bool *out, struct problem *p);
int field_number(json_object *in, const char *name, double least, double most, double *out,
		 struct problem *p);
int field_count(json_object *in, const char *name, uint64_t least, uint64_t most, uint64_t *out,
		struct problem *p);
int field_list(json_object *in, const char *name, json_object **out, struct problem *p);
int field_object(json_object *in, const char *name, json_object **out, struct problem *p);

/* ---- objects ---- */

/* Makes an object. `format` has KEY=VALUE for each member, with one blank between members. VALUE is
 * a conversion, or a constant. The compiler checks the arguments as for printf.
 *     %s   a string; NULL becomes null
 *     %u, %ju   an unsigned or uint64_t number
 *     %p   a json_object, which the new object takes; NULL becomes null
 *     null, [], {}, or any other word: null, an empty list or object, that word as a string */
__attribute__((format(printf, 1, 2))) json_object *json_new(const char *format, ...);
void json_put(json_object *o, const char *key, const char *text); /* NULL becomes null */
void json_put_n(json_object *o, const char *key, const char *text, size_t n);

/* ---- text ---- */

/* Adds the bytes of a string. */
void json_add_string(struct text *out, json_object *string);
/* Adds the text of `json` (borrowed), with U+FFFD for each byte that is not part of a character.
 * flags: JSON_C_TO_STRING_… */
void json_add_text(struct text *out, json_object *json, int flags);
/* Adds the object in one line, and frees it. */
void json_finish(struct text *out, json_object *o);
/* Adds an event of a stream: `event: NAME` unless NAME is NULL, and the data, which it frees. */
void json_event(struct text *out, const char *name, json_object *data);

#endif

/* JSON from files that nobody vouches for: bounded reading, and getters that answer in sentences.
 *
 * A thin layer over json-c for config.json, tokenizer.json and the headers of safetensors. It
 * bounds sizes and depth, parses as strictly as json-c can, and gives every wrong value an error
 * that names file, key, what was wanted and what was there: m/config.json: "num_experts" must be a
 * whole number from 1 to 65536, not "abc"
 *
 * What it does not do: know any format. And json-c keeps the last of two equal keys without a word;
 * a reader to whom that matters (safetensors) must find them in the text itself.
 */
#ifndef MOEFS_ENGINE_TEXT_JSON_H
#define MOEFS_ENGINE_TEXT_JSON_H

#include "cache/err.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_DEPTH_MAX = 32 }; /* of arrays and objects within one another */

/* Reads a whole regular file into *bytes, which the caller frees; a NUL that *length does not count
 * follows the last byte. -ENOENT: no such file; -EFBIG: more than max_bytes; -EINVAL: not a regular
 * file; otherwise what open or read said. */
int read_whole_file(char **bytes, size_t *length, const char *path, size_t max_bytes,
		    struct err *e);

/* One JSON document, released with json_object_put. `name` is what errors call it. -EINVAL: not
 * JSON (the sentence says where), something after its end, a NUL byte, invalid UTF-8, or nested too
 * deep; -EFBIG: more than 2 GiB. A document that is just null is refused, so *out is never NULL. */
int json_parse_text(struct json_object **out, const char *text, size_t n, const char *name,
		    struct err *e);
int json_parse_file(struct json_object **out, const char *path, size_t max_bytes, struct err *e);

/* Getters: the value of `key` in `object`, which is an object (checked: -EINVAL). `name` is the
 * file for errors. A plain getter wants the key: missing or null is -EINVAL, too. The _or variant
 * gives the fallback for missing and null; a value of the wrong type is an error all the same.
 * Borrowed results live as long as the document. *out is set only on success. */

/* Whole numbers min..max; 4096.0 and 1e3 are not whole numbers. max is below UINT64_MAX. */
int json_get_uint(struct json_object *object, const char *key, const char *name, uint64_t min,
		  uint64_t max, uint64_t *out, struct err *e);
int json_get_uint_or(struct json_object *object, const char *key, const char *name, uint64_t min,
		     uint64_t max, uint64_t fallback, uint64_t *out, struct err *e);
/* Finite numbers min..max, written whole or not. */
int json_get_double(struct json_object *object, const char *key, const char *name, double min,
		    double max, double *out, struct err *e);
int json_get_double_or(struct json_object *object, const char *key, const char *name, double min,
		       double max, double fallback, double *out, struct err *e);
int json_get_bool(struct json_object *object, const char *key, const char *name, bool *out,
		  struct err *e);
int json_get_bool_or(struct json_object *object, const char *key, const char *name, bool fallback,
		     bool *out, struct err *e);
/* Borrowed C strings; one with a NUL inside is an error. The fallback may be NULL. */
int json_get_string(struct json_object *object, const char *key, const char *name, const char **out,
		    struct err *e);
int json_get_string_or(struct json_object *object, const char *key, const char *name,
		       const char *fallback, const char **out, struct err *e);
/* Borrowed objects and arrays; the _or variant gives NULL for missing and null. */
int json_get_object(struct json_object *object, const char *key, const char *name,
		    struct json_object **out, struct err *e);
int json_get_object_or_null(struct json_object *object, const char *key, const char *name,
			    struct json_object **out, struct err *e);
int json_get_array(struct json_object *object, const char *key, const char *name,
		   struct json_object **out, struct err *e);
int json_get_array_or_null(struct json_object *object, const char *key, const char *name,
			   struct json_object **out, struct err *e);

/* Whether the key is there with a value other than null; false where `object` is no object. */
bool json_has(struct json_object *object, const char *key);

/* The same checks on a value already in hand, such as an element of an array; `key` is what errors
 * call it. A NULL value is JSON's null. */
int json_as_uint(struct json_object *value, const char *key, const char *name, uint64_t min,
		 uint64_t max, uint64_t *out, struct err *e);
int json_as_double(struct json_object *value, const char *key, const char *name, double min,
		   double max, double *out, struct err *e);
int json_as_string(struct json_object *value, const char *key, const char *name, const char **out,
		   struct err *e);

/* "NAME: "KEY" must be WANTED, not VALUE": for checks that no getter does. Returns -EINVAL. */
int json_wrong(struct json_object *value, const char *key, const char *name, const char *wanted,
	       struct err *e);

#endif

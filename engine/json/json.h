/* Reads JSON from untrusted files: bounded parsing, and getters whose errors are sentences.
 *
 * Used for config.json, tokenizer.json, headers of safetensors files, requests and the like. The
 * error for a wrong value names the file, the key, the expected and the actual value:
 * m/config.json: "num_experts" must be a whole number from 1 to 65536, not "abc"
 *
 * Memory. The parser reads a text twice. The first pass checks the text and counts, so that the
 * memory of the document is known before any is allocated: 16 bytes for each value or key, plus the
 * bytes of strings and numbers. No value is written in less than two bytes, so a document takes at
 * most nine times its text. A published tokenizer.json takes about twice its size.
 *
 * The grammar is RFC 8259's, plus NaN, Infinity and -Infinity as Python writes them. If a key
 * occurs twice, getters use the last value, as most readers do; json_next visits both.
 *
 * Not here: any file format, and writing JSON (text_out.h).
 */
#ifndef MOEFS_ENGINE_JSON_JSON_H
#define MOEFS_ENGINE_JSON_JSON_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	JSON_DEPTH_MAX = 32,	 /* of nested lists and objects */
	JSON_TEXT_MAX = 1 << 29, /* bytes of one document */
};

/* Reads a whole regular file, JSON or not, into *bytes, which the caller frees. A NUL that *length
 * does not count follows the last byte. -ENOENT: no such file; -EFBIG: more than max_bytes;
 * -EINVAL: not a regular file; otherwise the errno of open or read. */
int json_read_file(char **bytes, size_t *length, const char *path, size_t max_bytes, struct err *e);

/* A value. A document is its outermost value; all others are borrowed from it. Every function that
 * takes a value takes NULL for null, the value of a missing key.
 *
 * The values of a document are one array in the order of the text: items follow their list, keys
 * and values their object. Behind the array lie the bytes of all strings and numbers, each followed
 * by a NUL. The document is one allocation. Only the files of this folder use the members. */
struct json {
	const char *text; /* the unescaped string, or the number or literal as it is written */
	uint32_t length;  /* bytes of `text`, or the number of items or members */
	uint32_t kind : 3;
	uint32_t span : 29; /* values and keys inside this list or object, at any depth */
};
enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT };

/* Parses text[n]; `name` is the document's name in errors. -EINVAL: not JSON (the sentence says
 * where), trailing text, a NUL byte, invalid UTF-8, or nesting beyond JSON_DEPTH_MAX; -EFBIG: more
 * than JSON_TEXT_MAX; -ENOMEM. A document that is just null is refused, so *out is never NULL. The
 * caller may free the text afterwards. */
int json_parse_text(struct json **out, const char *text, size_t n, const char *name, struct err *e);
int json_parse_file(struct json **out, const char *path, size_t max_bytes, struct err *e);
/* Parses FOLDER/FILE, which must be an object. *out is NULL if there is no such file, which is no
 * error. */
int json_parse_object_in(struct json **out, const char *folder, const char *file, size_t max_bytes,
			 struct err *e);
void json_free(struct json *document); /* NULL is fine */

enum json_kind json_kind(const struct json *value);
/* The number of items of a list or members of an object; 0 for any other value. */
size_t json_count(const struct json *value);
/* The value that follows `after` in a list or object, in the order of the text; the first if
 * `after` is NULL. NULL at the end, and for any other kind of container. for (const struct json *v
 * = NULL; (v = json_next(list, v));)  */
const struct json *json_next(const struct json *container, const struct json *after);
/* The key of a member that json_next returned: a C string. */
const char *json_key(const struct json *member);
/* The bytes of a string, which may hold NULs; empty for any other value. */
const char *json_bytes(const struct json *value, size_t *length);
/* Whether a value is the string text[n]. */
bool json_is_text(const struct json *value, const char *text, size_t n);

/* Getters: the value of `key` in `object`; -EINVAL if `object` is not an object. `name` is the file
 * in errors. A plain getter requires the key: missing or null is -EINVAL. The _or variant returns
 * the fallback for missing and null; a value of the wrong type is still an error. Borrowed results
 * live as long as the document. *out is set only on success. */

/* Whole numbers min..max; 4096.0 and 1e3 are not whole numbers. */
int json_get_uint(const struct json *object, const char *key, const char *name, uint64_t min,
		  uint64_t max, uint64_t *out, struct err *e);
int json_get_uint_or(const struct json *object, const char *key, const char *name, uint64_t min,
		     uint64_t max, uint64_t fallback, uint64_t *out, struct err *e);
/* Finite numbers min..max, with or without a fraction. */
int json_get_double(const struct json *object, const char *key, const char *name, double min,
		    double max, double *out, struct err *e);
int json_get_double_or(const struct json *object, const char *key, const char *name, double min,
		       double max, double fallback, double *out, struct err *e);
int json_get_bool(const struct json *object, const char *key, const char *name, bool *out,
		  struct err *e);
int json_get_bool_or(const struct json *object, const char *key, const char *name, bool fallback,
		     bool *out, struct err *e);
/* Borrowed C strings. A string with a NUL inside is an error. The fallback may be NULL. */
int json_get_string(const struct json *object, const char *key, const char *name, const char **out,
		    struct err *e);
int json_get_string_or(const struct json *object, const char *key, const char *name,
		       const char *fallback, const char **out, struct err *e);
/* Borrowed objects and lists; the _or_null variant gives NULL for missing and null. */
int json_get_object(const struct json *object, const char *key, const char *name,
		    const struct json **out, struct err *e);
int json_get_object_or_null(const struct json *object, const char *key, const char *name,
			    const struct json **out, struct err *e);
int json_get_list(const struct json *object, const char *key, const char *name,
		  const struct json **out, struct err *e);
int json_get_list_or_null(const struct json *object, const char *key, const char *name,
			  const struct json **out, struct err *e);

/* The value of `key`; NULL if it is missing or `object` is not an object. */
const struct json *json_find(const struct json *object, const char *key);
/* Whether `key` has a value other than null. */
bool json_has(const struct json *object, const char *key);

/* The same checks for a value itself, such as an item of a list; `key` is its name in errors. */
int json_as_uint(const struct json *value, const char *key, const char *name, uint64_t min,
		 uint64_t max, uint64_t *out, struct err *e);
int json_as_double(const struct json *value, const char *key, const char *name, double min,
		   double max, double *out, struct err *e);
int json_as_bool(const struct json *value, const char *key, const char *name, bool *out,
		 struct err *e);
int json_as_string(const struct json *value, const char *key, const char *name, const char **out,
		   struct err *e);

/* Describes a value for an error, in at most `size` bytes: a string or number as it is written,
 * else "a list", "an object" or "null". Returns `text`. */
const char *json_show(const struct json *value, char *text, size_t size);
/* Sets the error NAME: "KEY" must be WANTED, not VALUE, for checks that no getter does. Returns
 * -EINVAL. */
int json_wrong(const struct json *value, const char *key, const char *name, const char *wanted,
	       struct err *e);

#endif

/* JSON from files that nobody vouches for: bounded reading, and getters that answer in sentences.
 *
 * A document is read for config.json, tokenizer.json, the headers of safetensors and the like, and
 * every wrong value gets an error that names file, key, what was wanted and what was there:
 * m/config.json: "num_experts" must be a whole number from 1 to 65536, not "abc"
 *
 * Memory. A text is read twice: first only to check it and to count, so that what its document will
 * take is known before any of it is allocated. That is 16 bytes for a value or key and the bytes of
 * texts and numbers; no value is written in less than two bytes, so a document takes at most nine
 * times its text, whatever the text is. A published tokenizer.json takes about twice its size.
 *
 * The grammar is RFC 8259's, with the NaN, Infinity and -Infinity that Python writes. Of equal keys
 * getters find the last, as most readers do; walking an object meets them all.
 *
 * What it does not do: know any format, or write JSON.
 */
#ifndef MOEFS_ENGINE_JSON_JSON_H
#define MOEFS_ENGINE_JSON_JSON_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	JSON_DEPTH_MAX = 32,	 /* of lists and objects within one another */
	JSON_TEXT_MAX = 1 << 29, /* bytes of one text */
};

/* Reads a whole regular file into *bytes, which the caller frees; a NUL that *length does not count
 * follows the last byte. -ENOENT: no such file; -EFBIG: more than max_bytes; -EINVAL: not a regular
 * file; otherwise what open or read said. */
int read_whole_file(char **bytes, size_t *length, const char *path, size_t max_bytes,
		    struct err *e);

/* A value, borrowed from its document; a document is its outermost value. Where a value is asked
 * for, NULL is null: what a key that is not there has. */
struct json;
enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT };

/* `name` is what errors call the document. -EINVAL: not JSON (the sentence says where), something
 * after its end, a NUL byte, invalid UTF-8, or nested too deep; -EFBIG: more than JSON_TEXT_MAX;
 * -ENOMEM. A document that is just null is refused, so *out is never NULL. The text is not needed
 * any more. */
int json_parse_text(struct json **out, const char *text, size_t n, const char *name, struct err *e);
int json_parse_file(struct json **out, const char *path, size_t max_bytes, struct err *e);
void json_free(struct json *document); /* NULL is fine */

enum json_kind json_kind(const struct json *value);
/* The items of a list, the members of an object; 0 for all else. */
size_t json_count(const struct json *value);
/* The value after another one of the same list or object, the first after NULL; NULL at the end,
 * and where there is neither list nor object. In the order of the text:
 *     for (const struct json *v = NULL; (v = json_next(list, v));)  */
const struct json *json_next(const struct json *container, const struct json *after);
/* The key of a member that json_next gave: a text without NULs. */
const char *json_key(const struct json *member);
/* Of a text, without its end; it may hold NULs. Empty for what is none. */
const char *json_bytes(const struct json *value, size_t *length);

/* Getters: the value of `key` in `object`, which is an object (checked: -EINVAL). `name` is the
 * file for errors. A plain getter wants the key: missing or null is -EINVAL, too. The _or variant
 * gives the fallback for missing and null; a value of the wrong type is an error all the same.
 * Borrowed results live as long as the document. *out is set only on success. */

/* Whole numbers min..max; 4096.0 and 1e3 are not whole numbers. */
int json_get_uint(const struct json *object, const char *key, const char *name, uint64_t min,
		  uint64_t max, uint64_t *out, struct err *e);
int json_get_uint_or(const struct json *object, const char *key, const char *name, uint64_t min,
		     uint64_t max, uint64_t fallback, uint64_t *out, struct err *e);
/* Finite numbers min..max, written whole or not. */
int json_get_double(const struct json *object, const char *key, const char *name, double min,
		    double max, double *out, struct err *e);
int json_get_double_or(const struct json *object, const char *key, const char *name, double min,
		       double max, double fallback, double *out, struct err *e);
int json_get_bool(const struct json *object, const char *key, const char *name, bool *out,
		  struct err *e);
int json_get_bool_or(const struct json *object, const char *key, const char *name, bool fallback,
		     bool *out, struct err *e);
/* Borrowed C strings; one with a NUL inside is an error. The fallback may be NULL. */
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

/* The value of a key, NULL where it is missing, or `object` is no object. */
const struct json *json_find(const struct json *object, const char *key);
/* Whether the key is there with a value other than null. */
bool json_has(const struct json *object, const char *key);

/* The same checks on a value already in hand, such as an item of a list; `key` is what errors call
 * it. */
int json_as_uint(const struct json *value, const char *key, const char *name, uint64_t min,
		 uint64_t max, uint64_t *out, struct err *e);
int json_as_double(const struct json *value, const char *key, const char *name, double min,
		   double max, double *out, struct err *e);
int json_as_bool(const struct json *value, const char *key, const char *name, bool *out,
		 struct err *e);
int json_as_string(const struct json *value, const char *key, const char *name, const char **out,
		   struct err *e);

/* Writes a value as a sentence shows it, cut to `size`: a text or number as it is written, "a
 * list". Returns text. */
const char *json_show(const struct json *value, char *text, size_t size);
/* "NAME: "KEY" must be WANTED, not VALUE": for checks that no getter does. Returns -EINVAL. */
int json_wrong(const struct json *value, const char *key, const char *name, const char *wanted,
	       struct err *e);

#endif

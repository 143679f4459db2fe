/* Reads files, walks documents, gets values. Each json_get function finds its value and leaves all
 * checks to the json_as function of the type. Not here: the parser (json_parse.c). */
#include "engine/json/json.h"
#include "cache/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOWN_MAX = 60 }; /* bytes of a wrong value that a sentence shows */

static int json_read_open_file(int fd, char **bytes, size_t *length, const char *path,
			       size_t max_bytes, struct err *e)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s: cannot be examined", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, EINVAL, "%s: is not a regular file", path);
	if ((uint64_t)st.st_size > max_bytes)
		return err_set(
			e, EFBIG,
			"%s: has %jd bytes, but at most %zu are allowed; is it the right file?",
			path, (intmax_t)st.st_size, max_bytes);
	/* A file that grows meanwhile is cut at this size: the parser will say what is wrong. */
	size_t size = (size_t)st.st_size, have = 0;
	char *buffer = malloc(size + 1);
	if (!buffer)
		return err_set(e, ENOMEM, "%s: out of memory for its %zu bytes", path, size);
	while (have < size) {
		ssize_t n = read(fd, buffer + have, size - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int code = errno;
			free(buffer);
			return err_sys(e, code, "%s: cannot be read", path);
		}
		if (n == 0)
			break;
		have += (size_t)n;
	}
	buffer[have] = '\0';
	*bytes = buffer;
	*length = have;
	return 0;
}

int json_read_file(char **bytes, size_t *length, const char *path, size_t max_bytes, struct err *e)
{
	/* O_NONBLOCK: opening a FIFO must not wait for its writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_sys(e, errno, "%s: cannot be opened", path);
	int rc = json_read_open_file(fd, bytes, length, path, max_bytes, e);
	close(fd);
	return rc;
}

int json_parse_file(struct json **out, const char *path, size_t max_bytes, struct err *e)
{
	char *text = NULL;
	size_t length = 0;
	int rc = json_read_file(&text, &length, path, max_bytes, e);
	if (rc == 0)
		rc = json_parse_text(out, text, length, path, e);
	free(text);
	return rc;
}

int json_parse_object_in(struct json **out, const char *folder, const char *file, size_t max_bytes,
			 struct err *e)
{
	char *path;
	struct err own = {0}; /* a missing file leaves *e as it is */
	*out = NULL;
	if (asprintf(&path, "%s/%s", folder, file) < 0)
		return err_set(e, ENOMEM, "%s: out of memory for a path", folder);
	int rc = json_parse_file(out, path, max_bytes, &own);
	if (rc == 0 && json_kind(*out) != JSON_OBJECT) {
		rc = err_set(&own, EINVAL, "%s: must be a JSON object", path);
		json_free(*out);
		*out = NULL;
	}
	free(path);
	return rc < 0 && rc != -ENOENT ? err_set(e, own.code, "%s", own.text) : 0;
}

/* ---- walking ---- */

enum json_kind json_kind(const struct json *value)
{
	return value ? (enum json_kind)value->kind : JSON_NULL;
}

static bool json_is_container(const struct json *value)
{
	return json_kind(value) == JSON_LIST || json_kind(value) == JSON_OBJECT;
}

size_t json_count(const struct json *value)
{
	return json_is_container(value) ? value->length : 0;
}

const struct json *json_next(const struct json *container, const struct json *after)
{
	if (!json_is_container(container))
		return NULL;
	const struct json *end = container + 1 + container->span;
	const struct json *next = after ? after + 1 + after->span : container + 1;
	next += container->kind == JSON_OBJECT; /* a key stands before its value */
	return next < end ? next : NULL;
}

const char *json_key(const struct json *member)
{
	return member[-1].text;
}

const char *json_bytes(const struct json *value, size_t *length)
{
	bool text = json_kind(value) == JSON_TEXT;
	*length = text ? value->length : 0;
	return text ? value->text : "";
}

bool json_is_text(const struct json *value, const char *text, size_t n)
{
	return json_kind(value) == JSON_TEXT && value->length == n &&
	       memcmp(value->text, text, n) == 0;
}

const struct json *json_find(const struct json *object, const char *key)
{
	const struct json *found = NULL;
	size_t n = strlen(key);
	if (json_kind(object) != JSON_OBJECT)
		return NULL;
	for (const struct json *v = NULL; (v = json_next(object, v));)
		if (v[-1].length == n && memcmp(v[-1].text, key, n) == 0)
			found = v;
	return found;
}

bool json_has(const struct json *object, const char *key)
{
	return json_kind(json_find(object, key)) != JSON_NULL;
}

/* ---- values in errors ---- */

const char *json_show(const struct json *value, char *text, size_t size)
{
	const char *quote = json_kind(value) == JSON_TEXT ? "\"" : "";
	switch (json_kind(value)) {
	case JSON_OBJECT:
		(void)snprintf(text, size, "an object");
		break;
	case JSON_LIST:
		(void)snprintf(text, size, "a list");
		break;
	case JSON_NULL:
		(void)snprintf(text, size, "null");
		break;
	default:
		(void)snprintf(text, size, "%s%.*s%s%s", quote,
			       (int)(value->length > SHOWN_MAX ? utf8_begin(value->text, SHOWN_MAX)
							       : value->length),
			       value->text, value->length > SHOWN_MAX ? "…" : "", quote);
	}
	return text;
}

int json_wrong(const struct json *value, const char *key, const char *name, const char *wanted,
	       struct err *e)
{
	char shown[SHOWN_MAX + 8];
	if (json_kind(value) == JSON_NULL)
		return err_set(e, EINVAL, "%s: \"%s\" is missing; it must be %s", name, key,
			       wanted);
	return err_set(e, EINVAL, "%s: \"%s\" must be %s, not %s", name, key, wanted,
		       json_show(value, shown, sizeof shown));
}

/* ---- values ---- */

/* Reads a value of digits only. False for any other spelling, and for numbers beyond 64 bits. */
static bool json_whole_number(const struct json *value, uint64_t *number)
{
	*number = 0;
	for (uint32_t i = 0; i < value->length; i++) {
		uint64_t digit = (uint64_t)(value->text[i] - '0');
		if (digit > 9 || __builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, digit, number))
			return false;
	}
	return true;
}

int json_as_uint(const struct json *value, const char *key, const char *name, uint64_t min,
		 uint64_t max, uint64_t *out, struct err *e)
{
	uint64_t number;
	if (json_kind(value) == JSON_NUMBER && json_whole_number(value, &number) && number >= min &&
	    number <= max) {
		*out = number;
		return 0;
	}
	char wanted[96];
	(void)snprintf(wanted, sizeof wanted, "a whole number from %" PRIu64 " to %" PRIu64, min,
		       max);
	return json_wrong(value, key, name, wanted, e);
}

int json_as_double(const struct json *value, const char *key, const char *name, double min,
		   double max, double *out, struct err *e)
{
	if (json_kind(value) == JSON_NUMBER) {
		double number = strtod(value->text, NULL);
		if (isfinite(number) && number >= min && number <= max) {
			*out = number;
			return 0;
		}
	}
	char wanted[96];
	(void)snprintf(wanted, sizeof wanted, "a number from %.9g to %.9g", min, max);
	return json_wrong(value, key, name, wanted, e);
}

int json_as_string(const struct json *value, const char *key, const char *name, const char **out,
		   struct err *e)
{
	if (json_kind(value) != JSON_TEXT)
		return json_wrong(value, key, name, "a string", e);
	if (strlen(value->text) != value->length)
		return err_set(e, EINVAL, "%s: \"%s\" is a string with a NUL inside", name, key);
	*out = value->text;
	return 0;
}

static int json_as_kind(const struct json *value, const char *key, const char *name,
			enum json_kind kind, const char *wanted, struct err *e)
{
	return json_kind(value) == kind ? 0 : json_wrong(value, key, name, wanted, e);
}

int json_as_bool(const struct json *value, const char *key, const char *name, bool *out,
		 struct err *e)
{
	int rc = json_as_kind(value, key, name, JSON_BOOL, "true or false", e);
	if (rc == 0)
		*out = *value->text == 't';
	return rc;
}

/* ---- getters ---- */

/* Sets *value to the value of `key`, or to NULL if it is missing or null. */
static int json_lookup(const struct json *object, const char *key, const char *name,
		       const struct json **value, struct err *e)
{
	*value = NULL;
	if (json_kind(object) != JSON_OBJECT)
		return err_set(e, EINVAL, "%s: must be a JSON object with \"%s\"", name, key);
	const struct json *found = json_find(object, key);
	*value = json_kind(found) == JSON_NULL ? NULL : found;
	return 0;
}

int json_get_uint(const struct json *object, const char *key, const char *name, uint64_t min,
		  uint64_t max, uint64_t *out, struct err *e)
{
	const struct json *value;
	int rc = json_lookup(object, key, name, &value, e);
	return rc < 0 ? rc : json_as_uint(value, key, name, min, max, out, e);
}

int json_get_uint_or(const struct json *object, const char *key, const char *name, uint64_t min,
		     uint64_t max, uint64_t fallback, uint64_t *out, struct err *e)
{
	const struct json *value;
	int rc = json_lookup(object, key, name, &value, e);
	if (rc == 0 && !value)
		*out = fallback;
	return value ? json_as_uint(value, key, name, min, max, out, e) : rc;
}

int json_get_double(const struct json *object, const char *key, const char *name, double min,
		    double max, double *out, struct err *e)
{
	const struct json *value;
	int rc = json_lookup(object, key, name, &value, e);
	return rc < 0 ? rc : json_as_double(value, key, name, min, max, out, e);
}

int json_get_double_or(const struct json *object, const char *key, const char *name, double min,
		       double max, double fallback, double *out, struct err *e)
{
	const struct json *value;
	int rc = json_lookup(object, key, name, &value, e);
	if (rc == 0 && !value)
		*out = fallback;
	return value ? json_as_double(value, key, name, min, max, out, e) : rc;
}

int json_get_bool(const struct json *object, const char *key, const char *name, bool *out,
		  struct err *e)
{
	const struct json *value;
	int rc = json_lookup(object, key, name, &value, e);
	return rc < 0 ? rc : json_as_bool(value, key, name, out, e);
}

int json_get_bool_or(const struct json *object, const char *key, const char *name, bool fallback,
		     bool *out, struct err *e)
{
	const struct json *value;
	int rc = json_lookup(object, key, name, &value, e);
	if (rc == 0 && !value)
		*out = fallback;
	return value ? json_as_bool(value, key, name, out, e) : rc;
}

int json_get_string(const struct json *object, const char *key, const char *name, const char **out,
		    struct err *e)
{
	const struct json *value;
	int rc = json_lookup(object, key, name, &value, e);
	return rc < 0 ? rc : json_as_string(value, key, name, out, e);
}

int json_get_string_or(const struct json *object, const char *key, const char *name,
		       const char *fallback, const char **out, struct err *e)
{
	const struct json *value;
	int rc = json_lookup(object, key, name, &value, e);
	if (rc == 0 && !value)
		*out = fallback;
	return value ? json_as_string(value, key, name, out, e) : rc;
}

static int json_get_container(const struct json *object, const char *key, const char *name,
			      enum json_kind kind, bool required, const struct json **out,
			      struct err *e)
{
	const struct json *value;
	int rc = json_lookup(object, key, name, &value, e);
	if (rc == 0 && (value || required))
		rc = json_as_kind(value, key, name, kind,
				  kind == JSON_LIST ? "a list" : "an object", e);
	if (rc == 0)
		*out = value;
	return rc;
}

int json_get_object(const struct json *object, const char *key, const char *name,
		    const struct json **out, struct err *e)
{
	return json_get_container(object, key, name, JSON_OBJECT, true, out, e);
}

int json_get_object_or_null(const struct json *object, const char *key, const char *name,
			    const struct json **out, struct err *e)
{
	return json_get_container(object, key, name, JSON_OBJECT, false, out, e);
}

int json_get_list(const struct json *object, const char *key, const char *name,
		  const struct json **out, struct err *e)
{
	return json_get_container(object, key, name, JSON_LIST, true, out, e);
}

int json_get_list_or_null(const struct json *object, const char *key, const char *name,
			  const struct json **out, struct err *e)
{
	return json_get_container(object, key, name, JSON_LIST, false, out, e);
}

/* Bounded reading of JSON; see json.h. The checks live in the json_as_ functions and in as_type;
 * every getter finds its value and hands it to one of them. */
#include "engine/text/json.h"

#include "engine/text/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOWN_MAX = 60 }; /* bytes of a wrong value that a sentence shows */

/* Fills buffer[capacity] from the descriptor until it is full or the file ends. */
static int read_up_to(int fd, char *buffer, size_t capacity, size_t *length)
{
	size_t have = 0;
	while (have < capacity) {
		ssize_t n = read(fd, buffer + have, capacity - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	*length = have;
	return 0;
}

static int read_open_file(int fd, char **bytes, size_t *length, const char *path, size_t max_bytes,
			  struct err *e)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s: cannot be examined", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, EINVAL, "%s: is not a regular file", path);
	if ((uint64_t)st.st_size > max_bytes)
		return err_set(e, EFBIG,
			       "%s: %jd bytes are more than the %zu that such a file may have; "
			       "is it the right file?",
			       path, (intmax_t)st.st_size, max_bytes);
	size_t size = (size_t)st.st_size;
	char *buffer = malloc(size + 1);
	if (!buffer)
		return err_set(e, ENOMEM, "%s: no memory for its %zu bytes", path, size);
	/* A file that grows meanwhile is cut at the size it had: the parser will say what is wrong.
	 */
	int rc = read_up_to(fd, buffer, size, length);
	if (rc < 0) {
		free(buffer);
		return err_sys(e, -rc, "%s: cannot be read", path);
	}
	buffer[*length] = '\0';
	*bytes = buffer;
	return 0;
}

int read_whole_file(char **bytes, size_t *length, const char *path, size_t max_bytes, struct err *e)
{
	/* O_NONBLOCK: opening a FIFO must not wait for its writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_sys(e, errno, "%s: cannot be opened", path);
	int rc = read_open_file(fd, bytes, length, path, max_bytes, e);
	close(fd);
	return rc;
}

/* Where parsing stopped, in words. */
static int parse_error(struct json_tokener *tokener, const char *name, struct err *e)
{
	enum json_tokener_error why = json_tokener_get_error(tokener);
	size_t at = json_tokener_get_parse_end(tokener);
	if (why == json_tokener_continue || why == json_tokener_error_parse_eof)
		return err_set(e, EINVAL, "%s: the JSON text ends too early; is the file complete?",
			       name);
	if (why == json_tokener_error_depth)
		return err_set(e, EINVAL, "%s: JSON nested deeper than %d at byte %zu", name,
			       JSON_DEPTH_MAX, at);
	return err_set(e, EINVAL, "%s: not JSON at byte %zu: %s", name, at,
		       json_tokener_error_desc(why));
}

int json_parse_text(struct json_object **out, const char *text, size_t n, const char *name,
		    struct err *e)
{
	if (n > INT_MAX)
		return err_set(e, EFBIG, "%s: JSON text of more than 2 GiB", name);
	const char *nul = memchr(text, '\0', n);
	if (nul)
		return err_set(e, EINVAL, "%s: not JSON: a NUL at byte %zu", name,
			       (size_t)(nul - text));
	/* json-c's own check lets overlong forms and surrogates pass. */
	size_t valid = utf8_valid_length(text, n);
	if (valid != n)
		return err_set(e, EINVAL, "%s: not JSON: invalid UTF-8 at byte %zu", name, valid);
	struct json_tokener *tokener = json_tokener_new_ex(JSON_DEPTH_MAX);
	if (!tokener)
		return err_set(e, ENOMEM, "%s: no memory to parse it", name);
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	struct json_object *root = json_tokener_parse_ex(tokener, text, (int)n);
	/* A bare number has no end of its own; json-c takes a NUL for it. */
	if (json_tokener_get_error(tokener) == json_tokener_continue)
		root = json_tokener_parse_ex(tokener, "", 1);
	int rc = 0;
	if (json_tokener_get_error(tokener) != json_tokener_success)
		rc = parse_error(tokener, name, e);
	else if (!root)
		rc = err_set(e, EINVAL, "%s: holds nothing but null", name);
	json_tokener_free(tokener);
	if (rc < 0) {
		json_object_put(root);
		return rc;
	}
	*out = root;
	return 0;
}

int json_parse_file(struct json_object **out, const char *path, size_t max_bytes, struct err *e)
{
	char *text = NULL;
	size_t length = 0;
	int rc = read_whole_file(&text, &length, path, max_bytes, e);
	if (rc == 0)
		rc = json_parse_text(out, text, length, path, e);
	free(text);
	return rc;
}

/* Length of the longest prefix of whole characters that has at most `max` bytes. */
static int shown_length(const char *s, size_t n, size_t max)
{
	if (n > max)
		for (n = max; n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80; n--)
			;
	return (int)n;
}

int json_wrong(struct json_object *value, const char *key, const char *name, const char *wanted,
	       struct err *e)
{
	switch (json_object_get_type(value)) {
	case json_type_null:
		return err_set(e, EINVAL, "%s: \"%s\" is missing; it must be %s", name, key,
			       wanted);
	case json_type_object:
		return err_set(e, EINVAL, "%s: \"%s\" must be %s, not an object", name, key,
			       wanted);
	case json_type_array:
		return err_set(e, EINVAL, "%s: \"%s\" must be %s, not a list", name, key, wanted);
	case json_type_string: {
		const char *s = json_object_get_string(value);
		size_t n = (size_t)json_object_get_string_len(value);
		return err_set(e, EINVAL, "%s: \"%s\" must be %s, not \"%.*s%s\"", name, key,
			       wanted, shown_length(s, n, SHOWN_MAX), s, n > SHOWN_MAX ? "…" : "");
	}
	default:
		return err_set(e, EINVAL, "%s: \"%s\" must be %s, not %s", name, key, wanted,
			       json_object_get_string(value));
	}
}

int json_as_uint(struct json_object *value, const char *key, const char *name, uint64_t min,
		 uint64_t max, uint64_t *out, struct err *e)
{
	/* json-c cuts what is below INT64_MIN or above UINT64_MAX to those, and a negative number
	 * read as unsigned to 0. */
	uint64_t number = json_object_get_uint64(value);
	if (json_object_is_type(value, json_type_int) && json_object_get_int64(value) >= 0 &&
	    number >= min && number <= max) {
		*out = number;
		return 0;
	}
	char wanted[96];
	(void)snprintf(wanted, sizeof wanted, "a whole number from %" PRIu64 " to %" PRIu64, min,
		       max);
	return json_wrong(value, key, name, wanted, e);
}

int json_as_double(struct json_object *value, const char *key, const char *name, double min,
		   double max, double *out, struct err *e)
{
	if (json_object_is_type(value, json_type_double) ||
	    json_object_is_type(value, json_type_int)) {
		double number = json_object_get_double(value);
		if (isfinite(number) && number >= min && number <= max) {
			*out = number;
			return 0;
		}
	}
	char wanted[96];
	(void)snprintf(wanted, sizeof wanted, "a number from %.9g to %.9g", min, max);
	return json_wrong(value, key, name, wanted, e);
}

int json_as_string(struct json_object *value, const char *key, const char *name, const char **out,
		   struct err *e)
{
	if (!json_object_is_type(value, json_type_string))
		return json_wrong(value, key, name, "a text in quotes", e);
	const char *text = json_object_get_string(value);
	if (strlen(text) != (size_t)json_object_get_string_len(value))
		return err_set(e, EINVAL, "%s: \"%s\" is a text with a NUL inside", name, key);
	*out = text;
	return 0;
}

static int as_type(struct json_object *value, const char *key, const char *name,
		   enum json_type type, const char *wanted, struct err *e)
{
	return json_object_is_type(value, type) ? 0 : json_wrong(value, key, name, wanted, e);
}

/* The value of a key, NULL where it is missing or null. */
static int find(struct json_object *object, const char *key, const char *name,
		struct json_object **value, struct err *e)
{
	*value = NULL;
	if (!json_object_is_type(object, json_type_object))
		return err_set(e, EINVAL, "%s: must be a JSON object with \"%s\"", name, key);
	json_object_object_get_ex(object, key, value);
	return 0;
}

bool json_has(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;
	return find(object, key, "", &value, NULL) == 0 && value;
}

int json_get_uint(struct json_object *object, const char *key, const char *name, uint64_t min,
		  uint64_t max, uint64_t *out, struct err *e)
{
	struct json_object *value;
	int rc = find(object, key, name, &value, e);
	return rc < 0 ? rc : json_as_uint(value, key, name, min, max, out, e);
}

int json_get_uint_or(struct json_object *object, const char *key, const char *name, uint64_t min,
		     uint64_t max, uint64_t fallback, uint64_t *out, struct err *e)
{
	struct json_object *value;
	int rc = find(object, key, name, &value, e);
	if (rc < 0)
		return rc;
	if (value)
		return json_as_uint(value, key, name, min, max, out, e);
	*out = fallback;
	return 0;
}

int json_get_double(struct json_object *object, const char *key, const char *name, double min,
		    double max, double *out, struct err *e)
{
	struct json_object *value;
	int rc = find(object, key, name, &value, e);
	return rc < 0 ? rc : json_as_double(value, key, name, min, max, out, e);
}

int json_get_double_or(struct json_object *object, const char *key, const char *name, double min,
		       double max, double fallback, double *out, struct err *e)
{
	struct json_object *value;
	int rc = find(object, key, name, &value, e);
	if (rc < 0)
		return rc;
	if (value)
		return json_as_double(value, key, name, min, max, out, e);
	*out = fallback;
	return 0;
}

int json_get_bool(struct json_object *object, const char *key, const char *name, bool *out,
		  struct err *e)
{
	struct json_object *value;
	int rc = find(object, key, name, &value, e);
	if (rc == 0)
		rc = as_type(value, key, name, json_type_boolean, "true or false", e);
	if (rc == 0)
		*out = json_object_get_boolean(value);
	return rc;
}

int json_get_bool_or(struct json_object *object, const char *key, const char *name, bool fallback,
		     bool *out, struct err *e)
{
	struct json_object *value;
	int rc = find(object, key, name, &value, e);
	if (rc == 0 && value)
		rc = as_type(value, key, name, json_type_boolean, "true or false", e);
	if (rc == 0)
		*out = value ? json_object_get_boolean(value) : fallback;
	return rc;
}

int json_get_string(struct json_object *object, const char *key, const char *name, const char **out,
		    struct err *e)
{
	struct json_object *value;
	int rc = find(object, key, name, &value, e);
	return rc < 0 ? rc : json_as_string(value, key, name, out, e);
}

int json_get_string_or(struct json_object *object, const char *key, const char *name,
		       const char *fallback, const char **out, struct err *e)
{
	struct json_object *value;
	int rc = find(object, key, name, &value, e);
	if (rc < 0)
		return rc;
	if (value)
		return json_as_string(value, key, name, out, e);
	*out = fallback;
	return 0;
}

static int get_container(struct json_object *object, const char *key, const char *name,
			 enum json_type type, bool required, struct json_object **out,
			 struct err *e)
{
	struct json_object *value;
	int rc = find(object, key, name, &value, e);
	if (rc == 0 && (value || required))
		rc = as_type(value, key, name, type,
			     type == json_type_array ? "a list" : "an object", e);
	if (rc == 0)
		*out = value;
	return rc;
}

int json_get_object(struct json_object *object, const char *key, const char *name,
		    struct json_object **out, struct err *e)
{
	return get_container(object, key, name, json_type_object, true, out, e);
}

int json_get_object_or_null(struct json_object *object, const char *key, const char *name,
			    struct json_object **out, struct err *e)
{
	return get_container(object, key, name, json_type_object, false, out, e);
}

int json_get_array(struct json_object *object, const char *key, const char *name,
		   struct json_object **out, struct err *e)
{
	return get_container(object, key, name, json_type_array, true, out, e);
}

int json_get_array_or_null(struct json_object *object, const char *key, const char *name,
			   struct json_object **out, struct err *e)
{
	return get_container(object, key, name, json_type_array, false, out, e);
}

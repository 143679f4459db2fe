/* libFuzzer on the reader of JSON: any bytes are a document or an error with a sentence; every
 * value of a document can be reached, as many as its list or object counts, and read to its end. */
#include "engine/json/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns the number of values, including itself. */
static size_t walk(const struct json *value, int depth)
{
	size_t met = 0, within = 1, n;
	struct err e;
	double number;
	const char *bytes = json_bytes(value, &n);
	if (bytes[n] || depth > JSON_DEPTH_MAX)
		abort();
	if (json_as_double(value, "", "", -1, 1, &number, &e) == 0 &&
	    !(number >= -1 && number <= 1))
		abort();
	for (const struct json *v = NULL; (v = json_next(value, v)); met++) {
		if (json_kind(value) == JSON_OBJECT && !json_find(value, json_key(v)))
			abort();
		within += walk(v, depth + 1);
	}
	if (met != json_count(value))
		abort();
	return within;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json *document;
	struct err e = {0};
	int rc = json_parse_text(&document, (const char *)data, size, "fuzz", &e);
	if (rc < 0) {
		if (e.code != -rc || !e.text[0])
			abort();
		return 0;
	}
	if (walk(document, 0) > size)
		abort();
	json_free(document);
	return 0;
}

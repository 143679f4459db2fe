/* Memory for opening a hostile checkpoint's JSON files: a bounded multiple of their size, whatever
 * they contain; with less memory a sentence says so. */
#include "engine/family/config.h"
#include "engine/source/tensor_list.h"
#include "memory_help.h"
#include "tokenizer_help.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 4 << 20, TIMES = 16, SLACK = 1 << 20 };

/* A text of about BYTES bytes: `head`, items until it is full, `tail`. An item may have one %d, for
 * numbers from `first` on. */
static char *filled(const char *head, const char *item, int first, const char *tail, size_t *n)
{
	char *text = malloc(BYTES + 1);
	assert_non_null(text);
	*n = (size_t)snprintf(text, BYTES, "%s", head);
	for (int i = first; *n + strlen(tail) + 100 < BYTES; i++) {
		if (i > first)
			text[(*n)++] = ',';
		for (const char *c = item; *c; c++) {
			if (*c != '%')
				text[(*n)++] = *c;
			else
				*n += (size_t)snprintf(text + *n, 16, "%d", i);
		}
	}
	*n += (size_t)snprintf(text + *n, BYTES + 1 - *n, "%s", tail);
	return text;
}

typedef int open_text(const char *text, size_t n, struct err *e);

/* Opens the text with `bytes` more memory than there is now. */
static int open_within(open_text *open, const char *text, size_t n, uint64_t bytes, struct err *e)
{
	struct rlimit before;
	test_memory_limit(RLIMIT_AS, bytes, &before);
	int rc = open(text, n, e);
	test_memory_unlimit(RLIMIT_AS, &before);
	return rc;
}

/* Takes ownership of the text. Within the promised memory it is opened, or refused with `words`;
 * with almost no memory it is refused for lack of memory. */
static void assert_bounded(open_text *open, char *text, size_t n, const char *words)
{
	struct err e = {0};
	int rc = open_within(open, text, n, TIMES * (uint64_t)n + SLACK, &e);
	if (words ? rc == 0 || !strstr(e.text, words) : rc != 0)
		fail_msg("%d, \"%s\": %.100s", rc, e.text, text);
	rc = open_within(open, text, n, SLACK, &e);
	if (rc != -ENOMEM || !strstr(e.text, "memory") || strncmp(e.text, "d/", 2) != 0)
		fail_msg("%d, \"%s\": %.100s", rc, e.text, text);
	free(text);
}

/* ---- config.json ---- */

static int open_config(const char *text, size_t n, struct err *e)
{
	static struct config c; /* large */
	return config_parse(&c, text, n, "d/config.json", e);
}

static void a_config_takes_a_multiple_of_its_size(void **state)
{
	(void)state;
	static const char *const ITEMS[] = {"{}", "[]", "1", "{\"\":{}}", "\"\""};
	size_t n;
	test_memory_limitable();
	char *config = read_any(FIXTURE "/config.json", &n);
	*strrchr(config, '}') = 0; /* to continue where it ended */
	for (size_t i = 0; i < sizeof ITEMS / sizeof *ITEMS; i++) {
		char *head;
		assert_true(asprintf(&head, "%s,\"x\":[", config) > 0);
		char *text = filled(head, ITEMS[i], 0, "]}", &n);
		assert_bounded(open_config, text, n, NULL);
		free(head);
	}
	free(config);
}

/* ---- safetensors ---- */

static int open_header(const char *text, size_t n, struct err *e)
{
	struct tensor_list list = {0};
	int rc = safetensors_parse(&list, text, n, 0, 0, "d/model.safetensors", e);
	tensor_list_free(&list);
	return rc;
}

static void a_header_takes_a_multiple_of_its_size(void **state)
{
	(void)state;
	size_t n;
	test_memory_limitable();
	char *text = filled("{", "\"%\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", 0,
			    "}", &n);
	assert_bounded(open_header, text, n, NULL);
	text = filled("{\"__metadata__\":[", "[]", 0, "]}", &n);
	assert_bounded(open_header, text, n, NULL);
	text = filled("{", "\"%\":{}", 0, "}", &n);
	assert_bounded(open_header, text, n, "dtype");
}

/* ---- tokenizer.json ---- */

static int open_tokenizer(const char *text, size_t n, struct err *e)
{
	struct tokenizer *t = NULL;
	int rc = tokenizer_open_text(&t, text, n, "d/tokenizer.json", e);
	tokenizer_close(t);
	return rc;
}

/* The fixture's tokenizer.json with `container` filled; the previous content of the member at
 * `path` follows. */
static char *tokenizer_with(const char *path, const char *key, const char *item, bool keep,
			    size_t *n)
{
	struct json_object *document = fixture_document(),
			   *parent = *path ? at(document, path) : document;
	const char *was = json_object_to_json_string_ext(json_object_object_get(parent, key),
							 JSON_C_TO_STRING_PLAIN);
	bool object = item[0] == '"' && strchr(item, ':');
	size_t length = strlen(was) - 1; /* without its end */
	char *inside;
	assert_true(asprintf(&inside, "%c%.*s", object ? '{' : '[', keep ? (int)length - 1 : 0,
			     was + 1) > 0);
	json_object_object_add(parent, key, json_object_new_string("@@@"));
	char *text = strdup(json_object_to_json_string_ext(document, JSON_C_TO_STRING_PLAIN));
	json_object_put(document);
	char *place = strstr(text, "\"@@@\""), *head;
	assert_non_null(place);
	*place = 0;
	assert_true(asprintf(&head, "%s%s%s", text, inside, keep ? "," : "") > 0);
	char tail[65536];
	snprintf(tail, sizeof tail, "%c%s", object ? '}' : ']', place + 5);
	char *all = filled(head, item, 1000, tail, n);
	free(head);
	free(text);
	free(inside);
	return all;
}

static void a_tokenizer_takes_a_multiple_of_its_size(void **state)
{
	(void)state;
	static const struct {
		const char *path, *key, *item;
		bool keep; /* the fixture's value */
		const char *words;
	} CASES[] = {
		{"", "padding", "{}", false, NULL},
		{"model", "merges", "7", false, "\"merges\""},
		{"model", "merges", "\"\"", false, "merge 0"},
		{"model", "merges", "[]", false, "two parts"},
		{"model", "merges", "\"h e\"", false, NULL},
		{"model", "vocab", "\"w%\":%", true, NULL},
		{"model", "vocab", "\"w%\":1", true, "id 1 is given"},
		{"", "added_tokens", "{\"id\":%,\"content\":\"w%\"}", true, NULL},
		{"", "added_tokens", "{}", false, "\"id\" is missing"},
	};
	test_memory_limitable();
	for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
		size_t n;
		char *text = tokenizer_with(CASES[i].path, CASES[i].key, CASES[i].item,
					    CASES[i].keep, &n);
		assert_bounded(open_tokenizer, text, n, CASES[i].words);
	}
}

int main(void)
{
	/* Large pieces are returned to the system at once, so that freed memory is not reused
	 * under a limit. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_config_takes_a_multiple_of_its_size),
		cmocka_unit_test(a_header_takes_a_multiple_of_its_size),
		cmocka_unit_test(a_tokenizer_takes_a_multiple_of_its_size),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

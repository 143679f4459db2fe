#include "tests/unit/split_help.h"

#include "cache/utf8.h"
#include "random.h"
#include "tests/unit/tokenizer_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct split *taken_apart_as(const struct split_form *form, const char *text, size_t n,
			     const size_t *ends, size_t count, const struct json *tools,
			     enum split_thinking thinking)
{
	struct split *s = split_new(tools, thinking);
	struct utf8_hold hold = {0};
	struct err e = {0};
	char *whole = malloc(n + 8), *thoughts = calloc(1, 2 * n + 8),
	     *content = calloc(1, 2 * n + 8);
	size_t from = 0, thoughts_n = 0, content_n = 0, calls = 0;
	assert_non_null(s);
	if (form)
		split_set_form(s, form);
	for (size_t i = 0; i <= count; i++) {
		size_t to = i < count ? ends[i] : n;
		size_t given = utf8_hold_feed(&hold, text + from, to - from, whole);
		must(split_feed(s, whole, given, &e), &e);
		from = to;
		struct split_result r = split_result(s);
		assert_true(r.thoughts_n >= thoughts_n && r.content_n >= content_n &&
			    r.calls->count >= calls);
		assert_memory_equal(r.thoughts, thoughts, thoughts_n);
		assert_memory_equal(r.content, content, content_n);
		memcpy(thoughts, r.thoughts, thoughts_n = r.thoughts_n);
		memcpy(content, r.content, content_n = r.content_n);
		calls = r.calls->count;
	}
	must(split_finish(s, &e), &e);
	free(whole);
	free(thoughts);
	free(content);
	return s;
}

void assert_same_split(const struct split *a, const struct split *b)
{
	struct split_result x = split_result(a), y = split_result(b);
	assert_int_equal(x.thoughts_n, y.thoughts_n);
	assert_memory_equal(x.thoughts, y.thoughts, x.thoughts_n);
	assert_int_equal(x.content_n, y.content_n);
	assert_memory_equal(x.content, y.content, x.content_n);
	assert_int_equal(x.calls->count, y.calls->count);
	for (size_t i = 0; i < x.calls->count; i++) {
		const struct call *c = &x.calls->items[i], *d = &y.calls->items[i];
		assert_string_equal(c->name, d->name);
		assert_string_equal(c->arguments, d->arguments);
		assert_string_equal(c->id ? c->id : "", d->id ? d->id : "");
	}
}

struct split *taken_apart_any_way(const struct split_form *form, const char *text, size_t n,
				  const struct json *tools, enum split_thinking thinking)
{
	struct random r = {n};
	size_t *ends = calloc(n + 1, sizeof *ends);
	struct split *whole = taken_apart_as(form, text, n, NULL, 0, tools, thinking);
	for (size_t round = 1; round <= 8; round++) {
		size_t count = 0, step = round <= 3 ? round : 0;
		for (size_t at = 0; (at += step ? step : 1 + random_u32(&r) % 24) < n;)
			ends[count++] = at;
		struct split *cut = taken_apart_as(form, text, n, ends, count, tools, thinking);
		assert_same_split(whole, cut);
		split_free(cut);
	}
	free(ends);
	return whole;
}

static bool same_text(const struct json *a, const struct json *b)
{
	size_t n, m;
	const char *s = json_bytes(a, &n), *t = json_bytes(b, &m);
	return n == m && memcmp(s, t, n) == 0;
}

static bool same_scalar(const struct json *a, const struct json *b)
{
	char x[256], y[256];
	json_show(a, x, sizeof x);
	json_show(b, y, sizeof y);
	if (json_kind(a) == JSON_TEXT)
		return same_text(a, b);
	return strcmp(x, y) == 0 ||
	       (json_kind(a) == JSON_NUMBER && strtod(x, NULL) == strtod(y, NULL));
}

bool same_json(const struct json *a, const struct json *b, bool any_order)
{
	const struct json *p = NULL, *q = NULL;
	if (json_kind(a) != json_kind(b) || json_count(a) != json_count(b))
		return false;
	if (json_kind(a) < JSON_LIST)
		return same_scalar(a, b);
	while ((p = json_next(a, p))) {
		bool keys = json_kind(a) == JSON_OBJECT;
		q = keys && any_order ? json_find(b, json_key(p)) : json_next(b, q);
		if (!q || (keys && strcmp(json_key(p), json_key(q)) != 0) ||
		    !same_json(p, q, any_order))
			return false;
	}
	return true;
}

void print_split(const struct split_result *r)
{
	print_message("thoughts \"%.*s\", content \"%.*s\", %zu calls\n", (int)r->thoughts_n,
		      r->thoughts, (int)r->content_n, r->content, r->calls->count);
	for (size_t i = 0; i < r->calls->count; i++)
		print_message("  %s %s %s\n", r->calls->items[i].name, r->calls->items[i].arguments,
			      r->calls->items[i].id ? r->calls->items[i].id : "-");
}

/* Helpers for tests of answers: feed a text in pieces and compare the results. */
#ifndef MOEFS_TESTS_UNIT_SPLIT_HELP_H
#define MOEFS_TESTS_UNIT_SPLIT_HELP_H

#include "engine/answer/split.h"

/* Feeds a text in pieces, as a detokeniser hands them on: `ends`: `count` offsets. Output must not
 * change once it came out. A NULL form means the default, as in split_form_named. */
struct split *taken_apart_as(const struct split_form *form, const char *text, size_t n,
			     const size_t *ends, size_t count, const struct json *tools,
			     enum split_thinking thinking);
/* Fails unless both results are equal. */
void assert_same_split(const struct split *a, const struct split *b);
void print_split(const struct split_result *r);
/* Checks that the text in pieces of 1, 2 and 3 bytes and in random pieces gives the same result as
 * the whole; returns that result. */
struct split *taken_apart_any_way(const struct split_form *form, const char *text, size_t n,
				  const struct json *tools, enum split_thinking thinking);

/* Whether two values are the same: numbers by value, members in any order if `any_order`. */
bool same_json(const struct json *a, const struct json *b, bool any_order);

#endif

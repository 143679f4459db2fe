#include "engine/session/choices.h"

#include "cache/utf8.h"
#include "engine/json/json.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void choices_free(struct choices *c)
{
	free(c->text);
	free(c->list);
	free(c->bytes);
	*c = (struct choices){0};
}

int choices_copy(struct choices *to, const struct choices *from, struct err *e)
{
	*to = (struct choices){0};
	if (!from->text)
		return 0;
	to->text = malloc(from->n + 1);
	if (!to->text)
		return err_set(e, ENOMEM, "out of memory for a copy of the choices");
	memcpy(to->text, from->text, from->n);
	to->text[from->n] = 0;
	to->n = from->n;
	return 0;
}

/* ---- reading ---- */

static int choices_no_memory(struct err *e)
{
	return err_set(e, ENOMEM, "choices: out of memory");
}

/* Adds a candidate, which points to text[n]. */
static int choices_add(struct choices *c, const char *text, size_t n, struct err *e)
{
	size_t number = c->count + 1;
	if (!n)
		return err_set(e, EINVAL, "choices: candidate %zu is empty", number);
	if (memchr(text, 0, n))
		return err_set(e, EINVAL, "choices: candidate %zu contains a NUL byte", number);
	if (number > CHOICES_MOST)
		return err_set(e, EFBIG, "choices: there are more than %d candidates",
			       CHOICES_MOST);
	c->list[c->count++] = (struct choice){text, n};
	return 0;
}

static int choices_read_lines(struct choices *c, struct err *e)
{
	const char *at = c->bytes, *end = at + c->n;
	int failed = 0;
	while (at < end && !failed) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t line = (size_t)((stop ? stop : end) - at), n = line;
		n -= n && at[n - 1] == '\r'; /* of a file with Windows line ends */
		failed = choices_add(c, at, n, e);
		at += line + 1;
	}
	return failed;
}

/* Copies the strings one after the other into `bytes`. Together they are shorter than the JSON. */
static int choices_read_list(struct choices *c, struct err *e)
{
	struct json *all;
	char *to = c->bytes;
	int failed = json_parse_text(&all, c->text, c->n, "choices", e);
	if (failed)
		return failed;
	for (const struct json *v = NULL; !failed && (v = json_next(all, v));) {
		size_t n;
		const char *text = json_bytes(v, &n);
		if (json_kind(v) != JSON_TEXT) {
			failed = err_set(e, EINVAL, "choices: element %zu is not a string",
					 c->count + 1);
			break;
		}
		memcpy(to, text, n);
		failed = choices_add(c, to, n, e);
		to += n;
	}
	json_free(all);
	return failed;
}

/* For qsort: sorts by text; of equal texts the earlier one first. */
static int choices_compare(const void *a, const void *b)
{
	const struct choice *x = *(const struct choice *const *)a,
			    *y = *(const struct choice *const *)b;
	int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
	if (order || x->n != y->n)
		return order ? order : x->n < y->n ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int choices_check_twice(const struct choices *c, struct err *e)
{
	const struct choice **sorted = malloc(c->count * sizeof *sorted);
	int failed = 0;
	if (!sorted)
		return choices_no_memory(e);
	for (size_t i = 0; i < c->count; i++)
		sorted[i] = &c->list[i];
	qsort(sorted, c->count, sizeof *sorted, choices_compare);
	for (size_t i = 1; i < c->count && !failed; i++) {
		const struct choice *x = sorted[i - 1], *y = sorted[i];
		if (x->n == y->n && !memcmp(x->text, y->text, x->n))
			failed = err_set(e, EINVAL, "choices: candidates %zu and %zu are the same",
					 (size_t)(x - c->list) + 1, (size_t)(y - c->list) + 1);
	}
	free(sorted);
	return failed;
}

int choices_parse(struct choices *c, struct err *e)
{
	if (!c->text || c->list)
		return 0;
	bool list = c->text[strspn(c->text, " \t\r\n")] == '[';
	c->list = malloc(CHOICES_MOST * sizeof *c->list);
	c->bytes = malloc(c->n + 1);
	if (!c->list || !c->bytes)
		return choices_no_memory(e);
	memcpy(c->bytes, c->text, c->n);
	int failed = list ? choices_read_list(c, e) : choices_read_lines(c, e);
	if (!failed && !c->count)
		failed = err_set(e, EINVAL, "choices: the list is empty");
	return failed ? failed : choices_check_twice(c, e);
}

int choices_set(struct choices *c, const char *text, size_t n, struct err *e)
{
	struct choices read = {0};
	const struct choices written = {.text = (char *)(uintptr_t)text, .n = n};
	size_t blank = 0;
	if (n > CHOICES_BYTES)
		return err_set(e, EFBIG, "choices: %zu bytes; at most %d are allowed", n,
			       CHOICES_BYTES);
	while (blank < n && strchr(" \t\r\n", text[blank]) && text[blank])
		blank++;
	if (blank == n) {
		choices_free(c);
		return 0;
	}
	size_t valid = utf8_valid_length(text, n);
	if (valid < n)
		return err_set(e, EINVAL, "choices: byte %zu is not UTF-8", valid);
	int failed = choices_copy(&read, &written, e);
	if (!failed)
		failed = choices_parse(&read, e);
	if (failed) {
		choices_free(&read);
		return failed;
	}
	choices_free(c);
	*c = read;
	return 0;
}

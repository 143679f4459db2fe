/* Reports: the same figures as tables for people or as one JSON object. */
#include "tests/bench/bench.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- JSON ---- */

/* Adds a new value to an object, which then owns it; returns it. json-c answers with NULL or -1
 * when memory is short. */
static struct json_object *put(struct report *r, struct json_object *object, const char *key,
			       struct json_object *value)
{
	if (value && object && !json_object_object_add(object, key, value))
		return value;
	json_object_put(value);
	r->failed = true;
	return NULL;
}

/* JSON has no NaN; what could not be computed is null. */
static void put_number(struct report *r, struct json_object *object, const char *key, double number)
{
	if (!object)
		r->failed = true;
	else if (!isfinite(number))
		json_object_object_add(object, key, NULL);
	else if (number == floor(number) && fabs(number) < 9e15)
		put(r, object, key, json_object_new_int64((int64_t)number));
	else
		put(r, object, key, json_object_new_double(number));
}

void report_begin(struct report *r, const char *command, bool json)
{
	*r = (struct report){.json = json, .root = json_object_new_object()};
	r->failed = !r->root;
	report_text(r, "command", "moefs-bench", command);
}

void report_text(struct report *r, const char *key, const char *label, const char *value)
{
	put(r, r->root, key, json_object_new_string(value));
	if (!r->json)
		(void)printf("%-34s %s\n", label, value);
}

void report_number(struct report *r, const char *key, const char *label, double value, int decimals)
{
	put_number(r, r->root, key, value);
	if (!r->json)
		(void)printf("%-34s %.*f\n", label, decimals, value);
}

int report_end(struct report *r, struct err *e)
{
	bool bad = false;
	if (r->json && !r->failed) {
		const char *text = json_object_to_json_string_ext(r->root, JSON_C_TO_STRING_PRETTY);
		r->failed = !text;
		bad = text && puts(text) < 0;
	}
	json_object_put(r->root);
	r->root = NULL;
	if (r->failed)
		return err_set(e, ENOMEM, "out of memory for the report");
	return bad || fflush(stdout) ? err_sys(e, errno, "the report cannot be written") : 0;
}

/* ---- tables ---- */

void table_begin(struct table *t, struct report *r, const char *key, const char *title,
		 const struct column *columns, size_t column_count)
{
	*t = (struct table){.report = r, .columns = columns, .column_count = column_count};
	t->rows = put(r, r->root, key, json_object_new_array());
	if (!r->json)
		(void)printf("\n%s\n", title);
}

/* The object of the row whose next cell is wanted, and that cell's column. */
static const struct column *next_cell(struct table *t)
{
	size_t at = t->count % t->column_count;
	if (!at) {
		t->row = json_object_new_object();
		if (!t->row || !t->rows || json_object_array_add(t->rows, t->row)) {
			json_object_put(t->row);
			t->row = NULL;
			t->report->failed = true;
		}
	}
	return &t->columns[at];
}

/* Keeps a cell as it will be printed; takes `text`, which may be NULL. */
static void keep(struct table *t, char *text)
{
	char **cells = realloc(t->cells, (t->count + 1) * sizeof *cells);
	if (!cells || !text) {
		t->report->failed = true;
		free(text);
	}
	if (cells) {
		t->cells = cells;
		t->cells[t->count++] = text;
	}
}

static char *print(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *print(const char *format, ...)
{
	char *text;
	va_list arguments;
	va_start(arguments, format);
	int n = vasprintf(&text, format, arguments);
	va_end(arguments);
	return n < 0 ? NULL : text;
}

void table_text(struct table *t, const char *text)
{
	const struct column *c = next_cell(t);
	put(t->report, t->row, c->key, json_object_new_string(text));
	keep(t, print("%s", text));
}

void table_number(struct table *t, double number)
{
	const struct column *c = next_cell(t);
	put_number(t->report, t->row, c->key, number);
	keep(t, print("%.*f", c->decimals, number));
}

void table_summary(struct table *t, const struct summary *s)
{
	const struct column *c = next_cell(t);
	struct json_object *o = put(t->report, t->row, c->key, json_object_new_object());
	put_number(t->report, o, "median", s->median);
	put_number(t->report, o, "least", s->least);
	put_number(t->report, o, "most", s->most);
	if (s->least == s->most) /* of one round */
		keep(t, print("%.*f", c->decimals, s->median));
	else
		keep(t, print("%.*f (%.*f-%.*f)", c->decimals, s->median, c->decimals, s->least,
			      c->decimals, s->most));
}

void table_none(struct table *t)
{
	const struct column *c = next_cell(t);
	put_number(t->report, t->row, c->key, NAN);
	keep(t, print("-"));
}

static void print_cell(const struct table *t, size_t column, const char *text)
{
	size_t width = strlen(t->columns[column].head);
	for (size_t i = column; i < t->count; i += t->column_count)
		if (t->cells[i] && strlen(t->cells[i]) > width)
			width = strlen(t->cells[i]);
	bool left = t->columns[column].decimals < 0;
	if (t->report->markdown) {
		(void)printf("| %s %s", text, column + 1 == t->column_count ? "|\n" : "");
		return;
	}
	(void)printf("  %*s%s", left ? -(int)width : (int)width, text,
		     column + 1 == t->column_count ? "\n" : "");
}

void table_end(struct table *t)
{
	bool show = !t->report->json && !t->report->failed;
	for (size_t c = 0; c < t->column_count && show; c++)
		print_cell(t, c, t->columns[c].head);
	for (size_t c = 0; c < t->column_count && show && t->report->markdown; c++)
		(void)printf(c + 1 == t->column_count ? "|---|\n" : "|---");
	for (size_t i = 0; i < t->count && show; i++)
		print_cell(t, i % t->column_count, t->cells[i]);
	if (show)
		(void)fflush(stdout);
	for (size_t i = 0; i < t->count; i++)
		free(t->cells[i]);
	free(t->cells);
	*t = (struct table){0};
}

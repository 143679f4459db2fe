/* See facts.h. */
#include "fs/files/facts.h"

#include <inttypes.h>
#include <string.h>

/* Begins the JSON with { or [, if it has not begun. */
static void facts_begin(struct facts *f, char with)
{
	if (f->begun)
		return;
	f->begun = with;
	text_add(f->out, &with, 1);
}

static void facts_next(struct facts *f)
{
	text_string(f->out, f->more ? ",\n  " : "\n  ");
	f->more = true;
}

/* ---- single facts ---- */

static void fact_begin(struct facts *f, const char *name)
{
	if (!f->json) {
		text_format(f->out, "%s ", name);
		return;
	}
	facts_begin(f, '{');
	facts_next(f);
	text_json(f->out, name);
	text_string(f->out, ": ");
}

static void fact_end(struct facts *f)
{
	if (!f->json)
		text_string(f->out, "\n");
}

void fact_number(struct facts *f, const char *name, uint64_t value)
{
	fact_begin(f, name);
	text_format(f->out, "%" PRIu64, value);
	fact_end(f);
}

void fact_real(struct facts *f, const char *name, int digits, double value)
{
	fact_begin(f, name);
	text_format(f->out, "%.*f", digits, value);
	fact_end(f);
}

void fact_word(struct facts *f, const char *name, const char *word)
{
	fact_begin(f, name);
	if (!f->json)
		text_string(f->out, word);
	else if (strcmp(word, "-") == 0)
		text_string(f->out, "null");
	else
		text_json(f->out, word);
	fact_end(f);
}

void fact_numbers(struct facts *f, const char *name, const uint64_t *values, size_t count)
{
	fact_begin(f, name);
	text_string(f->out, f->json ? "[" : "");
	for (size_t i = 0; i < count; i++)
		text_format(f->out, "%s%" PRIu64, !i ? "" : f->json ? ", " : " ", values[i]);
	text_string(f->out, f->json ? "]" : "");
	fact_end(f);
}

void fact_share(struct facts *f, const char *name, uint64_t count, uint64_t of)
{
	const char *format = f->json ? "{\"count\": %" PRIu64 ", \"of\": %" PRIu64 "}"
				     : "%" PRIu64 " of %" PRIu64;
	fact_begin(f, name);
	text_format(f->out, format, count, of);
	fact_end(f);
}

/* ---- tables ---- */

void facts_table(struct facts *f, const struct fact_column *columns, size_t count)
{
	if (f->json)
		facts_begin(f, '[');
	for (size_t i = 0; i < count && !f->json; i++)
		text_format(f->out, "%s%c", columns[i].name, i + 1 < count ? ' ' : '\n');
}

void facts_row(struct facts *f, const struct fact_column *columns, size_t count,
	       const uint64_t *values)
{
	if (f->json)
		facts_next(f);
	for (size_t i = 0; i < count; i++)
		if (f->json)
			text_format(f->out, "%s\"%s\": %" PRIu64 "%s", i ? " " : "{",
				    columns[i].name, values[i], i + 1 < count ? "," : "}");
		else
			text_format(f->out, "%0*" PRIu64 "%c", columns[i].digits, values[i],
				    i + 1 < count ? ' ' : '\n');
}

/* ---- files ---- */

void facts_render(const struct node *n, struct text *out)
{
	struct facts f = {.out = out};
	n->row->facts(n, &f);
}

void facts_json_render(const struct node *n, struct text *out)
{
	struct facts f = {.out = out, .json = true};
	n->row->facts(n, &f);
	facts_begin(&f, '{');
	text_format(out, "%s%c\n", f.more ? "\n" : "", f.begun == '[' ? ']' : '}');
}

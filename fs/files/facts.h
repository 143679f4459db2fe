/* Facts: names with numbers or words, listed once and shown in two forms: as lines for people and
 * awk (stats), and as JSON (stats.json). A row of the tree has the list (row.facts) and one of the
 * two renderers. */
#ifndef MOEFS_FS_FILES_FACTS_H
#define MOEFS_FS_FILES_FACTS_H

#include "fs/mount/node.h"

struct facts {
	struct text *out;
	bool json;
	char begun; /* the opening { or [; 0: nothing was written yet */
	bool more;  /* at least one fact was written */
};

void fact_number(struct facts *f, const char *name, uint64_t value);
/* digits: number of digits after the point. */
void fact_real(struct facts *f, const char *name, int digits, double value);
/* The word "-" means none and becomes null in JSON. */
void fact_word(struct facts *f, const char *name, const char *word);
/* Writes "3 1 4", or [3, 1, 4]. */
void fact_numbers(struct facts *f, const char *name, const uint64_t *values, size_t count);
/* Writes "3 of 4", or {"count": 3, "of": 4}. */
void fact_share(struct facts *f, const char *name, uint64_t count, uint64_t of);

/* A table in place of single facts: a line with the columns' names and a line for each row, or a
 * list with an object for each row. */
struct fact_column {
	const char *name;
	int digits; /* least number of digits, in lines */
};
void facts_table(struct facts *f, const struct fact_column *columns, size_t count);
void facts_row(struct facts *f, const struct fact_column *columns, size_t count,
	       const uint64_t *values);

/* For row.render. */
void facts_render(const struct node *n, struct text *out);
void facts_json_render(const struct node *n, struct text *out);

#endif

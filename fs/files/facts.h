/* Facts: names with numbers or words, listed once and shown in two forms: as lines for people and
 * awk (stats), and as JSON (stats.json). A row of the tree has the list, struct tree_row's `facts`,
 * and one of the two renderers.
 */
#ifndef MOEFS_FS_FACTS_H
#define MOEFS_FS_FACTS_H

#include "fs/mount/node.h"

struct facts {
	struct text *out;
	bool json;
	char begun; /* with { or [; 0: not yet */
	bool more;  /* there is one already */
};

void fact_number(struct facts *f, const char *name, uint64_t value);
/* With so many digits after the point. */
void fact_real(struct facts *f, const char *name, int digits, double value);
/* "-": there is none, null in JSON. */
void fact_word(struct facts *f, const char *name, const char *word);
/* So many of so many: "3 of 4", {"count": 3, "of": 4}. */
void fact_share(struct facts *f, const char *name, uint64_t count, uint64_t of);

/* Instead of single facts, a table: a line with the columns' names and one for each row, or an
 * object for each row. */
struct fact_column {
	const char *name;
	int digits; /* at least, in lines */
};
void facts_table(struct facts *f, const struct fact_column *columns, size_t count);
void facts_row(struct facts *f, const struct fact_column *columns, size_t count,
	       const uint64_t *values);

/* For the rows of the tree. */
void facts_render(const struct node *n, struct text *out);
void facts_json_render(const struct node *n, struct text *out);

#endif

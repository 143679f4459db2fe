/* Shared by the files of build/pages. See pages.c. */
#ifndef MOEFS_FS_INSTALL_PAGES_PAGES_H
#define MOEFS_FS_INSTALL_PAGES_PAGES_H

#include "fs/base/text.h"

#include <stdbool.h>
#include <stddef.h>

struct page_span {
	const char *text;
	size_t length;
};
enum { ENTRIES_MOST = 1024 };

struct manual_page {
	const char *name;      /* of the template, for error messages */
	struct page_span body; /* everything before the first entry */
	struct entry {
		struct page_span name, text;
		bool used;
	} entries[ENTRIES_MOST];
	size_t count;
	struct text out;
	bool wrong; /* an error was printed */
};

/* ---- pages.c ---- */

bool page_span_is(struct page_span s, const char *word);
/* Cuts the next line, without its newline, off `rest`; false: there is none. */
bool page_span_line(struct page_span *rest, struct page_span *line);
/* Prints the error of an entry or a list of this name. */
void page_wrong(struct manual_page *p, const char *what, struct page_span name, const char *remedy);
/* Splits a template into its body and its entries, which point into it. */
void page_split(struct manual_page *p, struct page_span template);
/* Adds the entry of this name, without empty lines at its end, or prints that `of` has no such
 * entry. */
void page_entry(struct manual_page *p, const char *name, const char *of);

/* ---- page_tables.c: the lines @files@, @commands@, "@command NAME" and "@options NAME" ---- */

void page_files(struct manual_page *p);
/* Each command must have a page of its own. */
void page_commands(struct manual_page *p);
void page_command(struct manual_page *p, struct page_span name);
void page_command_options(struct manual_page *p, struct page_span name);

/* ---- page_lists.c: the line "@each LIST PATTERN" without its first word ---- */

void page_list(struct manual_page *p, struct page_span line);

#endif

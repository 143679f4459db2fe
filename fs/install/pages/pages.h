/* What the parts of build/pages have in common; see pages.c. */
#ifndef MOEFS_FS_INSTALL_PAGES_H
#define MOEFS_FS_INSTALL_PAGES_H

#include "fs/base/text.h"

#include <stdbool.h>
#include <stddef.h>

struct span {
	const char *text;
	size_t length;
};
enum { ENTRIES_MOST = 1024 };

struct page {
	const char *name; /* of the template, for the words of errors */
	struct span body; /* all before the first entry */
	struct entry {
		struct span name, text;
		bool used;
	} entries[ENTRIES_MOST];
	size_t count;
	struct text out;
	bool wrong; /* said on standard error */
};

/* ---- page.c ---- */

bool span_is(struct span s, const char *word);
/* Cuts the next line, without its end, off `rest`; false: there is none. */
bool span_line(struct span *rest, struct span *line);
/* Says what is wrong with an entry, or a list, of this name. */
void page_wrong(struct page *p, const char *what, struct span name, const char *remedy);
/* Makes the body and the entries of a template, which stays. */
void page_split(struct page *p, struct span template);
/* Adds the entry of that name, or says that `of` has none. */
void page_entry(struct page *p, const char *name, const char *of);

/* ---- tables.c: what a line @files@, @commands@, "@command NAME" or "@options NAME" becomes ---- */

void page_files(struct page *p);
/* Each command must have a page of its own. */
void page_commands(struct page *p);
void page_command(struct page *p, struct span name);
void page_command_options(struct page *p, struct span name);

/* ---- lists.c: what a line "@each LIST PATTERN" becomes, without its first word ---- */

void page_list(struct page *p, struct span line);

#endif

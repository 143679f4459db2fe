/* build/pages TEMPLATE: prints moefs(1), moefs(5) or a shell's completion, made from a template and
 * the program's tables. make links it with the program's own objects, so that manual and completion
 * have what the program has: the rows of the tree, the params, the options of --help and the
 * commands.
 *
 * A template is copied line by line, except for
 *
 *     @version@                anywhere: the program's version
 *     @files@                  a line: the tree, folder by folder, each file with its entry
 *     @commands@               a line: the commands, each with its line and its page's name
 *     @command NAME            a line: the head of a command's own page, its name and synopsis
 *     @options NAME            a line: the options of a command, as its --help has them
 *     @each LIST PATTERN       a line: PATTERN for each item of a list (option, switch, param,
 * command, http-option, http-switch), where %n is its name and %d its description, quoted for '...'
 *     @ NAME                   up to the next such line: the entry of a file or param, what a
 * reader should know beyond its one line
 *
 * A row without an entry and an entry without a row are errors, so the tables cannot grow without
 * the manual. */
#include "fs/install/pages/pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines and entries ---- */

bool page_span_is(struct page_span s, const char *word)
{
	return s.length == strlen(word) && !memcmp(s.text, word, s.length);
}

bool page_span_line(struct page_span *rest, struct page_span *line)
{
	if (!rest->length)
		return false;
	const char *end = memchr(rest->text, '\n', rest->length);
	line->text = rest->text;
	line->length = end ? (size_t)(end - rest->text) : rest->length;
	size_t cut = line->length + (end ? 1 : 0);
	rest->text += cut;
	rest->length -= cut;
	return true;
}

void page_wrong(struct manual_page *p, const char *what, struct page_span name, const char *remedy)
{
	(void)fprintf(stderr, "%s: %s \"@ %.*s\"%s\n", p->name, what, (int)name.length, name.text,
		      remedy);
	p->wrong = true;
}

static struct entry *page_find_entry(struct manual_page *p, struct page_span name)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->entries[i].name.length == name.length &&
		    !memcmp(p->entries[i].name.text, name.text, name.length))
			return &p->entries[i];
	return NULL;
}

void page_split(struct manual_page *p, struct page_span template)
{
	struct page_span rest = template, line;
	struct entry *last = NULL;
	p->body = (struct page_span){template.text, template.length};
	while (page_span_line(&rest, &line)) {
		if (line.length < 2 || memcmp(line.text, "@ ", 2) != 0) {
			if (last)
				last->text.length = (size_t)(rest.text - last->text.text);
			continue;
		}
		struct page_span name = {line.text + 2, line.length - 2};
		if (!last)
			p->body.length = (size_t)(line.text - template.text);
		if (page_find_entry(p, name))
			page_wrong(p, "has two entries", name, "");
		if (p->count == ENTRIES_MOST) {
			page_wrong(p, "has no room for", name, ": raise ENTRIES_MOST");
			return;
		}
		last = &p->entries[p->count++];
		*last = (struct entry){.name = name, .text = {rest.text, 0}};
	}
}

void page_entry(struct manual_page *p, const char *name, const char *of)
{
	struct entry *e = page_find_entry(p, (struct page_span){name, strlen(name)});
	if (!e) {
		(void)fprintf(
			stderr,
			"%s: has no entry for %s: add a line \"@ %s\", and after it what a reader "
			"should know beyond the line in the table, if anything\n",
			p->name, of, name);
		p->wrong = true;
		return;
	}
	e->used = true;
	size_t length = e->text.length;
	while (length && e->text.text[length - 1] == '\n')
		length--;
	text_add(&p->out, e->text.text, length);
	text_string(&p->out, length ? "\n" : "");
}

/* ---- the page ---- */

static void page_copy(struct manual_page *p, struct page_span line)
{
	static const char mark[] = "@version@";
	const char *at = memmem(line.text, line.length, mark, strlen(mark));
	size_t before = at ? (size_t)(at - line.text) : line.length;
	text_add(&p->out, line.text, before);
	if (at) {
		text_string(&p->out, MOEFS_VERSION);
		text_add(&p->out, at + strlen(mark), line.length - before - strlen(mark));
	}
	text_string(&p->out, "\n");
}

/* Whether a line begins with a word; *rest is the text after it. */
static bool page_begins(struct page_span line, const char *word, struct page_span *rest)
{
	size_t length = strlen(word);
	if (line.length <= length || memcmp(line.text, word, length) != 0)
		return false;
	*rest = (struct page_span){line.text + length, line.length - length};
	return true;
}

static void page_make(struct manual_page *p)
{
	struct page_span rest = p->body, line, name;
	while (page_span_line(&rest, &line))
		if (page_span_is(line, "@files@"))
			page_files(p);
		else if (page_span_is(line, "@commands@"))
			page_commands(p);
		else if (page_begins(line, "@command ", &name))
			page_command(p, name);
		else if (page_begins(line, "@options ", &name))
			page_command_options(p, name);
		else if (page_begins(line, "@each ", &name))
			page_list(p, name);
		else
			page_copy(p, line);
	for (size_t i = 0; i < p->count; i++)
		if (!p->entries[i].used)
			page_wrong(p, "there is no row for its entry", p->entries[i].name,
				   ": remove it, or give it the name of a row");
}

static bool page_read(struct text *text, const char *name)
{
	char piece[1 << 14];
	size_t n;
	FILE *f = fopen(name, "r");
	while (f && (n = fread(piece, 1, sizeof piece, f)) > 0)
		text_add(text, piece, n);
	bool good = f && !ferror(f) && !text->failed;
	if (!good)
		(void)fprintf(stderr, "cannot read %s: %s\n", name, strerror(errno));
	if (f)
		(void)fclose(f);
	return good;
}

int main(int argc, char **argv)
{
	static struct manual_page p;
	struct text template = {0};
	if (argc != 2) {
		(void)fputs("usage: pages TEMPLATE\n", stderr);
		return 2;
	}
	p.name = argv[1];
	bool good = page_read(&template, p.name);
	if (good) {
		page_split(&p, (struct page_span){template.data, template.length});
		page_make(&p);
		good = !p.wrong && !p.out.failed &&
		       fwrite(p.out.data, 1, p.out.length, stdout) == p.out.length &&
		       fflush(stdout) == 0;
	}
	text_free(&template);
	text_free(&p.out);
	return good ? 0 : 1;
}

/* Pages made from the tables: `pages TEMPLATE` writes moefs(1), moefs(5) or a shell's completion to
 * its output. make builds it of the program's own objects and runs it, so that what it tells is
 * what is there: the rows of the tree, the params, the options of --help and the commands.
 *
 * A template is copied line by line, but for
 *
 *     @version@                anywhere: the program's version
 *     @files@                  a line: the tree, folder by folder, each file with its entry
 *     @commands@               a line: the commands, each with its line and its page's name
 *     @command NAME            a line: the head of a command's own page, its name and synopsis
 *     @options NAME            a line: the options of a command, as its --help has them
 *     @each LIST PATTERN       a line: PATTERN for each of a list (option, switch, param, command,
 * and http-option and http-switch, moefs-http's), with %n its name and %d its line for people,
 * quoted for '...'
 *     @ NAME                   from here on, up to the next such line: the entry of a file, what
 *                              there is to say of it beyond its line
 *
 * What has no entry, and an entry of nothing that is there, is an error: the table cannot grow
 * without the page. */
#include "fs/install/pages/pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void copy(struct page *p, struct span line)
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

/* What stands behind a word that a line may begin with. */
static bool page_behind(struct span line, const char *word, struct span *rest)
{
	size_t length = strlen(word);
	if (line.length <= length || memcmp(line.text, word, length) != 0)
		return false;
	*rest = (struct span){line.text + length, line.length - length};
	return true;
}

static void make(struct page *p)
{
	struct span rest = p->body, line, name;
	while (span_line(&rest, &line))
		if (span_is(line, "@files@"))
			page_files(p);
		else if (span_is(line, "@commands@"))
			page_commands(p);
		else if (page_behind(line, "@command ", &name))
			page_command(p, name);
		else if (page_behind(line, "@options ", &name))
			page_command_options(p, name);
		else if (page_behind(line, "@each ", &name))
			page_list(p, name);
		else
			copy(p, line);
	for (size_t i = 0; i < p->count; i++)
		if (!p->entries[i].used)
			page_wrong(p, "nothing is called as its entry", p->entries[i].name,
				   ": remove it, or give it the name that the table has");
}

static bool read_all(struct text *text, const char *name)
{
	char piece[1 << 14];
	size_t n;
	FILE *f = fopen(name, "r");
	while (f && (n = fread(piece, 1, sizeof piece, f)) > 0)
		text_add(text, piece, n);
	bool good = f && !ferror(f) && !text->failed;
	if (!good)
		(void)fprintf(stderr, "%s: cannot be read: %s\n", name, strerror(errno));
	if (f)
		(void)fclose(f);
	return good;
}

int main(int argc, char **argv)
{
	static struct page p;
	struct text template = {0};
	if (argc != 2) {
		(void)fputs("usage: pages TEMPLATE\n", stderr);
		return 2;
	}
	p.name = argv[1];
	bool good = read_all(&template, p.name);
	if (good) {
		page_split(&p, (struct span){template.data, template.length});
		make(&p);
		good = !p.wrong && !p.out.failed &&
		       fwrite(p.out.data, 1, p.out.length, stdout) == p.out.length &&
		       fflush(stdout) == 0;
	}
	text_free(&template);
	text_free(&p.out);
	return good ? 0 : 1;
}

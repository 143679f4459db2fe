/* Options, params and commands as lists, for completion. See pages.c. */
#include "fs/commands/commands.h"
#include "engine/session.h"
#include "fs/gateway/options_help.h"
#include "fs/install/pages/pages.h"
#include "fs/program/options.h"

#include <stdio.h>
#include <string.h>

/* Text between the quotes ' and ', as sh and fish read it. */
static void quoted(struct text *out, const char *text)
{
	for (; *text; text++)
		if (*text == '\'')
			text_string(out, "'\\''");
		else
			text_add(out, text, 1);
}

static void each(struct page *p, struct span pattern, const char *name, const char *about)
{
	for (size_t i = 0; i < pattern.length; i++) {
		char c = pattern.text[i], next = i + 1 < pattern.length ? pattern.text[i + 1] : 0;
		if (c == '%' && next == 'n')
			text_string(&p->out, name);
		else if (c == '%' && next == 'd')
			quoted(&p->out, about);
		else {
			text_add(&p->out, &c, 1);
			continue;
		}
		i++;
	}
	text_string(&p->out, "\n");
}

enum { HELP_COLUMN = 27 }; /* of --help, where its words begin */

/* The words of what --help lists: those of its line, and of the lines behind that have only words.
 */
static void help_words(struct span line, struct span rest, char *about, size_t size)
{
	int n = snprintf(about, size, "%.*s", (int)(line.length - HELP_COLUMN),
			 line.text + HELP_COLUMN);
	while (span_line(&rest, &line) && line.length > HELP_COLUMN &&
	       strspn(line.text, " ") == HELP_COLUMN && n > 0 && (size_t)n < size)
		n += snprintf(about + n, size - (size_t)n, " %.*s",
			      (int)(line.length - HELP_COLUMN), line.text + HELP_COLUMN);
}

/* "-h, --help" and "budget=SIZE": one or two names, with the = of one that takes a value. */
static void each_name(struct page *p, struct span pattern, const char *names, const char *about)
{
	for (const char *at = names; *at && *at != ' ';) {
		char name[64];
		size_t n = strcspn(at, " =,");
		n += at[n] == '=';
		(void)snprintf(name, sizeof name, "%.*s", (int)n, at);
		each(p, pattern, name, about);
		at += strcspn(at, " ,");
		at += strspn(at, ",") ? 2 : 0;
	}
}

/* What --help lists, four blanks before each; `switches`: what stands by itself, else what goes
 * behind -o; PARAM=VALUE and what other mounts know are no names. */
static void each_option(struct page *p, struct span pattern, const char *help, bool switches)
{
	struct span rest = {help, strlen(help)}, line;
	while (span_line(&rest, &line)) {
		char about[512];
		if (line.length <= HELP_COLUMN || strspn(line.text, " ") != 4 ||
		    (line.text[4] == '-') != switches || strchr(".P", line.text[4]) ||
		    !strncmp(line.text + 4, "-o ", 3))
			continue;
		help_words(line, rest, about, sizeof about);
		each_name(p, pattern, line.text + 4, about);
	}
}

static void each_param(struct page *p, struct span pattern)
{
	for (size_t i = 0; i < params_count(); i++)
		each(p, pattern, params_name(i), params_words(i).about);
}

static void each_command(struct page *p, struct span pattern)
{
	for (unsigned i = 0; command_row(i); i++)
		each(p, pattern, command_row(i)->name, command_row(i)->what);
}

void page_list(struct page *p, struct span line)
{
	const char *blank = memchr(line.text, ' ', line.length);
	struct span name = {line.text, blank ? (size_t)(blank - line.text) : line.length};
	struct span pattern = {line.text + name.length + 1, line.length - name.length - 1};
	if (blank && span_is(name, "option"))
		each_option(p, pattern, options_help, false);
	else if (blank && span_is(name, "switch"))
		each_option(p, pattern, options_help, true);
	else if (blank && span_is(name, "http-option"))
		each_option(p, pattern, http_options_help, false);
	else if (blank && span_is(name, "http-switch"))
		each_option(p, pattern, http_options_help, true);
	else if (blank && span_is(name, "param"))
		each_param(p, pattern);
	else if (blank && span_is(name, "command"))
		each_command(p, pattern);
	else
		page_wrong(p, "there is no list", name, ", or no pattern behind it");
}

/* "@each LIST PATTERN": options, params and commands as lists, for completion. See pages.c. */
#include "fs/commands/commands.h"
#include "engine/session.h"
#include "fs/gateway/gateway.h"
#include "fs/install/pages/pages.h"
#include "fs/program/options.h"

#include <stdio.h>
#include <string.h>

/* Adds text between single quotes, for sh and fish. */
static void page_quote(struct text *out, const char *text)
{
	for (; *text; text++)
		if (*text == '\'')
			text_string(out, "'\\''");
		else
			text_add(out, text, 1);
}

static void page_list_item(struct manual_page *p, struct page_span pattern, const char *name,
			   const char *about)
{
	for (size_t i = 0; i < pattern.length; i++) {
		char c = pattern.text[i], next = i + 1 < pattern.length ? pattern.text[i + 1] : 0;
		if (c == '%' && next == 'n')
			text_string(&p->out, name);
		else if (c == '%' && next == 'd')
			page_quote(&p->out, about);
		else {
			text_add(&p->out, &c, 1);
			continue;
		}
		i++;
	}
	text_string(&p->out, "\n");
}

enum { HELP_COLUMN = 27 }; /* the column of --help where descriptions begin */

/* The description of an option in --help: from its line, and from the lines after it that only have
 * a description. */
static void page_help_words(struct page_span line, struct page_span rest, char *about, size_t size)
{
	int n = snprintf(about, size, "%.*s", (int)(line.length - HELP_COLUMN),
			 line.text + HELP_COLUMN);
	while (page_span_line(&rest, &line) && line.length > HELP_COLUMN &&
	       strspn(line.text, " ") == HELP_COLUMN && n > 0 && (size_t)n < size)
		n += snprintf(about + n, size - (size_t)n, " %.*s",
			      (int)(line.length - HELP_COLUMN), line.text + HELP_COLUMN);
}

/* Adds an item for each name of "-h, --help" or "budget=SIZE"; the name of an option with a value
 * keeps its =. */
static void page_list_names(struct manual_page *p, struct page_span pattern, const char *names,
			    const char *about)
{
	for (const char *at = names; *at && *at != ' ';) {
		char name[64];
		size_t n = strcspn(at, " =,");
		n += at[n] == '=';
		(void)snprintf(name, sizeof name, "%.*s", (int)n, at);
		page_list_item(p, pattern, name, about);
		at += strcspn(at, " ,");
		at += strspn(at, ",") ? 2 : 0;
	}
}

/* Adds the options of --help, whose lines begin with four blanks: `switches`, or else the options
 * of -o. PARAM=VALUE and "..." are not names. */
static void page_list_options(struct manual_page *p, struct page_span pattern, const char *help,
			      bool switches)
{
	struct page_span rest = {help, strlen(help)}, line;
	while (page_span_line(&rest, &line)) {
		char about[512];
		if (line.length <= HELP_COLUMN || strspn(line.text, " ") != 4 ||
		    (line.text[4] == '-') != switches || strchr(".P", line.text[4]) ||
		    !strncmp(line.text + 4, "-o ", 3))
			continue;
		page_help_words(line, rest, about, sizeof about);
		page_list_names(p, pattern, line.text + 4, about);
	}
}

static void page_list_params(struct manual_page *p, struct page_span pattern)
{
	for (size_t i = 0; i < params_count(); i++)
		page_list_item(p, pattern, params_name(i), params_words(i).about);
}

static void page_list_commands(struct manual_page *p, struct page_span pattern)
{
	for (unsigned i = 0; command_row(i); i++)
		page_list_item(p, pattern, command_row(i)->name, command_row(i)->what);
}

void page_list(struct manual_page *p, struct page_span line)
{
	const char *blank = memchr(line.text, ' ', line.length);
	struct page_span name = {line.text, blank ? (size_t)(blank - line.text) : line.length};
	struct page_span pattern = {line.text + name.length + 1, line.length - name.length - 1};
	if (blank && page_span_is(name, "option"))
		page_list_options(p, pattern, options_help, false);
	else if (blank && page_span_is(name, "switch"))
		page_list_options(p, pattern, options_help, true);
	else if (blank && page_span_is(name, "http-option"))
		page_list_options(p, pattern, gateway_options_help, false);
	else if (blank && page_span_is(name, "http-switch"))
		page_list_options(p, pattern, gateway_options_help, true);
	else if (blank && page_span_is(name, "param"))
		page_list_params(p, pattern);
	else if (blank && page_span_is(name, "command"))
		page_list_commands(p, pattern);
	else
		page_wrong(p, "there is no list", name, ", or no pattern after it");
}

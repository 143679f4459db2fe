/* The tree and the commands in roff, for manual pages. See pages.c. */
#include "fs/commands/commands.h"
#include "engine/session.h"
#include "fs/files/ctl.h"
#include "fs/install/pages/pages.h"
#include "fs/tree/tree.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Adds text with all roff markup escaped. */
static void page_roff(struct text *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		text_string(out, "\\&");
	for (; *text; text++)
		switch (*text) {
		case '-':
			text_string(out, "\\-");
			break;
		case '\\':
			text_string(out, "\\e");
			break;
		case '"':
			text_string(out, "\\(dq");
			break;
		default:
			text_add(out, text, 1);
		}
}

/* Adds a description, which has no capital and no full stop, as a sentence. */
static void page_sentence(struct text *out, const char *about)
{
	char first[2] = {*about >= 'a' && *about <= 'z' ? (char)(*about - 'a' + 'A') : *about, 0};
	if (!*about)
		return;
	page_roff(out, first);
	page_roff(out, about + 1);
	text_string(out, ".\n");
}

static const char *const cachings[] = {
	[CACHING_STREAM] = "stream", [CACHING_LIVE] = "live", [CACHING_STATIC] = "static"};
static const char *const effects[] = {
	[EFFECT_NONE] = "",
	[EFFECT_EACH_WRITE] = ", applied at each write",
	[EFFECT_ASSEMBLED] = ", applied when closed",
	[EFFECT_RELEASE] = ", submitted when its last writer closes it",
	[EFFECT_READ] = ", answered when read",
};

static void page_verbs(struct text *out, const struct verbs *verbs)
{
	const struct verb *v;
	for (size_t i = 0; verbs && (v = ctl_verb_at(verbs, i)); i++) {
		text_string(out, ".IP\n.B \"");
		page_roff(out, v->name);
		text_string(out, "\"\n");
		page_sentence(out, v->about);
	}
}

static void page_file(struct manual_page *p, const struct tree_row *row)
{
	struct text about = {0};
	char path[NAME_SIZE];
	tree_path(row, path, sizeof path);
	text_string(&p->out, ".TP\n.BR \"");
	page_roff(&p->out, row->name);
	text_format(&p->out, "\" \"   %s %04o, %s%s\"\n", row->effect == EFFECT_NONE ? "r" : "rw",
		    row->mode & 07777, cachings[row->caching], effects[row->effect]);
	tree_about(row, &about);
	text_add(&about, "", 1);
	p->out.failed |= about.failed;
	if (!about.failed)
		page_sentence(&p->out, about.data);
	text_free(&about);
	page_verbs(&p->out, row->verbs);
	page_entry(p, path, "the row of this path in fs/tree/rows.c");
}

static void page_param(struct manual_page *p, size_t i, const struct tree_row *row)
{
	char path[2 * NAME_SIZE];
	const struct param_words w = params_words(i);
	size_t folder;
	tree_path(row, path, sizeof path);
	folder = strlen(path);
	(void)snprintf(path + folder, sizeof path - folder, "/%s", params_name(i));
	text_string(&p->out, ".TP\n.BR \"");
	page_roff(&p->out, params_name(i));
	text_string(&p->out, "\" \"   ");
	page_roff(&p->out, w.takes);
	text_string(&p->out, "\"\n");
	page_sentence(&p->out, w.about);
	text_string(&p->out, "Default: ");
	page_roff(&p->out, w.begins);
	text_string(&p->out, ".\n");
	page_entry(p, path, "the param of this name in engine/session/params.c");
}

static void page_folder(struct manual_page *p, const struct tree_row *folder)
{
	char path[NAME_SIZE];
	tree_path(folder, path, sizeof path - 1);
	(void)snprintf(path + strlen(path), 2, "/");
	text_string(&p->out, ".SS ");
	page_roff(&p->out, path[1] ? path : "The mount");
	text_format(&p->out, "%s\n", path[1] ? "" : "'s own folder");
	page_sentence(&p->out, folder->about);
	text_format(&p->out, "Mode %04o.\n", folder->mode & 07777);
	page_entry(p, path, "the row of this path in fs/tree/rows.c");
	for (size_t i = FOLDER_ROOT + 1; i < tree_rows(); i++)
		if (tree_row(i)->name && !S_ISDIR(tree_row(i)->mode) &&
		    tree_row(tree_row(i)->in) == folder)
			page_file(p, tree_row(i));
	for (size_t i = 0; folder == tree_row(FOLDER_PARAMS) && i < params_count(); i++)
		page_param(p, i, folder);
}

void page_files(struct manual_page *p)
{
	for (size_t i = FOLDER_ROOT; i < tree_rows(); i++)
		if (S_ISDIR(tree_row(i)->mode))
			page_folder(p, tree_row(i));
}

/* ---- commands ---- */

/* Whether moefs-COMMAND.1.in exists beside the template. */
static bool page_exists(const struct manual_page *p, const char *command)
{
	char path[256];
	const char *slash = strrchr(p->name, '/');
	int folder = slash ? (int)(slash + 1 - p->name) : 0;
	int n = snprintf(path, sizeof path, "%.*smoefs-%s.1.in", folder, p->name, command);
	return n > 0 && (size_t)n < sizeof path && access(path, R_OK) == 0;
}

void page_commands(struct manual_page *p)
{
	for (unsigned i = 0; command_row(i); i++) {
		const struct command *c = command_row(i);
		text_string(&p->out, ".TP\n.BR \"moefs ");
		page_roff(&p->out, c->name);
		text_string(&p->out, "\" \" ");
		page_roff(&p->out, c->usage);
		text_string(&p->out, "\"\n");
		page_sentence(&p->out, c->what);
		text_format(&p->out, "See\n.BR moefs\\-%s (1).\n", c->name);
		if (!page_exists(p, c->name)) {
			(void)fprintf(
				stderr,
				"%s: has no page for the command %s: add moefs-%s.1.in beside it\n",
				p->name, c->name, c->name);
			p->wrong = true;
		}
	}
}

static const struct command *page_find_command(struct manual_page *p, struct page_span name)
{
	for (unsigned i = 0; command_row(i); i++)
		if (page_span_is(name, command_row(i)->name))
			return command_row(i);
	(void)fprintf(stderr, "%s: there is no command \"%.*s\"\n", p->name, (int)name.length,
		      name.text);
	p->wrong = true;
	return NULL;
}

void page_command(struct manual_page *p, struct page_span name)
{
	const struct command *c = page_find_command(p, name);
	if (!c)
		return;
	text_format(&p->out, ".TH MOEFS\\-");
	for (const char *letter = c->name; *letter; letter++)
		text_format(&p->out, "%c", toupper((unsigned char)*letter));
	text_format(&p->out, " 1 \"\" \"moefs %s\" \"User Commands\"\n", MOEFS_VERSION);
	text_format(&p->out, ".SH NAME\nmoefs\\-%s \\- ", c->name);
	page_roff(&p->out, c->what);
	text_format(&p->out, "\n.SH SYNOPSIS\n.BR \"moefs %s\" \" ", c->name);
	page_roff(&p->out, c->usage);
	text_string(&p->out, "\"\n");
}

/* In --help an option's line is "    -n, --name VALUE   words"; lines below continue the words. */
void page_command_options(struct manual_page *p, struct page_span name)
{
	const struct command *c = page_find_command(p, name);
	struct page_span rest = {c && c->help ? c->help : "", c && c->help ? strlen(c->help) : 0},
			 line;
	bool within = false;
	while (page_span_line(&rest, &line)) {
		char words[256], *gap;
		(void)snprintf(words, sizeof words, "%.*s", (int)line.length, line.text);
		char *begin = words + strspn(words, " ");
		bool option = begin - words == 4 && *begin == '-';
		gap = option ? strstr(begin, "  ") : NULL;
		within = option || (within && begin - words > 4);
		if (!within)
			continue;
		if (gap)
			*gap = 0;
		if (option) {
			text_string(&p->out, ".TP\n.B ");
			page_roff(&p->out, begin);
			text_string(&p->out, "\n");
		}
		if (gap || !option) {
			const char *about = gap ? gap + 1 + strspn(gap + 1, " ") : begin;
			page_roff(&p->out, about);
			text_string(&p->out, "\n");
		}
	}
}

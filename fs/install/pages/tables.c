/* The tree and the commands as a manual page has them, in roff. See pages.c. */
#include "fs/commands/commands.h"
#include "engine/session.h"
#include "fs/files/verbs.h"
#include "fs/install/pages/pages.h"
#include "fs/tree/tree.h"

#include <stdio.h>
#include <string.h>

/* Text of the tables: no letter of it is roff's. */
static void roff(struct text *out, const char *text)
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

/* A sentence of a line for people, which has neither a capital nor an end. */
static void sentence(struct text *out, const char *about)
{
	char first[2] = {*about >= 'a' && *about <= 'z' ? (char)(*about - 'a' + 'A') : *about, 0};
	if (!*about)
		return;
	roff(out, first);
	roff(out, about + 1);
	text_string(out, ".\n");
}

static const char *const cachings[] = {
	[CACHING_STREAM] = "stream", [CACHING_LIVE] = "live", [CACHING_STATIC] = "static"};
static const char *const effects[] = {
	[EFFECT_NONE] = "",
	[EFFECT_EACH_WRITE] = ", taken at each write",
	[EFFECT_ASSEMBLED] = ", taken when closed",
	[EFFECT_RELEASE] = ", taken when its last writer closes it",
	[EFFECT_READ] = ", answered when read",
};

static void verb_entries(struct text *out, const struct verbs *verbs)
{
	const struct verb *v;
	for (size_t i = 0; verbs && (v = verbs_at(verbs, i)); i++) {
		text_string(out, ".IP\n.B \"");
		roff(out, v->name);
		text_string(out, "\"\n");
		sentence(out, v->about);
	}
}

static void file_entry(struct page *p, const struct row *row)
{
	struct text about = {0};
	char path[NAME_SIZE];
	tree_path(row, path, sizeof path);
	text_string(&p->out, ".TP\n.BR \"");
	roff(&p->out, row->name);
	text_format(&p->out, "\" \"   %s %04o, %s%s\"\n", row->effect == EFFECT_NONE ? "r" : "rw",
		    row->mode & 07777, cachings[row->caching], effects[row->effect]);
	tree_about(row, &about);
	text_add(&about, "", 1);
	p->out.failed |= about.failed;
	if (!about.failed)
		sentence(&p->out, about.data);
	text_free(&about);
	verb_entries(&p->out, row->verbs);
	page_entry(p, path, "the row of this path in fs/tree/rows.c");
}

static void param_entry(struct page *p, size_t i, const struct row *row)
{
	char path[2 * NAME_SIZE];
	const struct param_words w = params_words(i);
	size_t folder;
	tree_path(row, path, sizeof path);
	folder = strlen(path);
	(void)snprintf(path + folder, sizeof path - folder, "/%s", params_name(i));
	text_string(&p->out, ".TP\n.BR \"");
	roff(&p->out, params_name(i));
	text_string(&p->out, "\" \"   ");
	roff(&p->out, w.takes);
	text_string(&p->out, "\"\n");
	sentence(&p->out, w.about);
	text_string(&p->out, "Default: ");
	roff(&p->out, w.begins);
	text_string(&p->out, ".\n");
	page_entry(p, path, "the param of this name in engine/serve/params.c");
}

static void folder_entry(struct page *p, const struct row *folder)
{
	char path[NAME_SIZE];
	tree_path(folder, path, sizeof path - 1);
	(void)snprintf(path + strlen(path), 2, "/");
	text_string(&p->out, ".SS ");
	roff(&p->out, path[1] ? path : "The mount");
	text_format(&p->out, "%s\n", path[1] ? "" : "'s own folder");
	sentence(&p->out, folder->about);
	text_format(&p->out, "Mode %04o.\n", folder->mode & 07777);
	page_entry(p, path, "the row of this path in fs/tree/rows.c");
	for (size_t i = FOLDER_ROOT + 1; i < tree_rows(); i++)
		if (tree_row(i)->name && !S_ISDIR(tree_row(i)->mode) &&
		    tree_row(tree_row(i)->in) == folder)
			file_entry(p, tree_row(i));
	for (size_t i = 0; folder == tree_row(FOLDER_PARAMS) && i < params_count(); i++)
		param_entry(p, i, folder);
}

void page_files(struct page *p)
{
	for (size_t i = FOLDER_ROOT; i < tree_rows(); i++)
		if (S_ISDIR(tree_row(i)->mode))
			folder_entry(p, tree_row(i));
}

void page_commands(struct page *p)
{
	for (unsigned i = 0; command_row(i); i++) {
		const struct command *c = command_row(i);
		text_string(&p->out, ".TP\n.BR \"moefs ");
		roff(&p->out, c->name);
		text_string(&p->out, "\" \" ");
		roff(&p->out, c->usage);
		text_string(&p->out, "\"\n");
		sentence(&p->out, c->what);
		page_entry(p, c->name, "the row of this command in fs/commands/commands.c");
	}
}

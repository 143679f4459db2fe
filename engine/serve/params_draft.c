/* The param draft: what drafts, and how far ahead. */
#include "engine/serve/param.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What drafts, and how many tokens at once unless a number follows. A draft layer is trained to see
 * one token ahead; what was said before goes on. */
static const struct draft_word {
	const char *word;
	enum draft_mode mode;
	enum draft_kind kind;
	uint32_t depth; /* 0: no number may follow */
} draft_words[] = {
	{"auto", DRAFT_AUTO, 0, 0},
	{"off", DRAFT_OFF, 0, 0},
	{"mtp", DRAFT_ALWAYS, DRAFT_MTP, 1},
	{"lookup", DRAFT_ALWAYS, DRAFT_LOOKUP, SESSION_DRAFTS},
};
enum { DRAFT_WORDS = sizeof draft_words / sizeof *draft_words };

/* The word's row; *rest is what follows it: nothing, or digits after a space. NULL: none such. */
static const struct draft_word *find_draft(const char *value, const char **rest)
{
	for (int i = 0; i < DRAFT_WORDS; i++) {
		const struct draft_word *w = &draft_words[i];
		size_t length = strlen(w->word);
		*rest = value + length;
		if (strncmp(value, w->word, length) != 0)
			continue;
		if (!**rest)
			return w;
		if (w->depth && *(*rest)++ == ' ' && **rest &&
		    !(*rest)[strspn(*rest, "0123456789")])
			return w;
	}
	return NULL;
}

static int set_draft(struct params *p, const struct param *t, const char *value, struct err *e)
{
	const char *digits;
	const struct draft_word *w = find_draft(value, &digits);
	if (!w)
		return param_refuse(t, EINVAL, value, e);
	double depth = *digits ? strtod(digits, NULL) : w->depth;
	if (*digits && (depth < t->least || depth > t->most))
		return param_refuse(t, ERANGE, value, e);
	if (w->mode == DRAFT_ALWAYS && w->kind == DRAFT_MTP && !p->model_drafts)
		return err_set(e, EINVAL,
			       "params/%s: \"%.40s\": this model has no draft layer of its own; "
			       "auto, off and lookup are possible",
			       t->name, value);
	p->draft = w->mode;
	p->draft_kind = w->kind;
	p->draft_depth = (uint32_t)depth;
	return 0;
}

static char *get_draft(const struct params *p, const struct param *t)
{
	(void)t;
	const struct draft_word *w = draft_words;
	char text[24];
	while (w->mode != p->draft || (w->mode == DRAFT_ALWAYS && w->kind != p->draft_kind))
		w++;
	if (w->mode != DRAFT_ALWAYS || p->draft_depth == w->depth)
		return strdup(w->word);
	(void)snprintf(text, sizeof text, "%s %u", w->word, p->draft_depth);
	return strdup(text);
}

const struct param_kind kind_draft = {set_draft, get_draft, sizeof(enum draft_mode)};

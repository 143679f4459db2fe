/* What of an answer the marks of its form begin: calls, and what is no content. */
#include "engine/answer/split_inside.h"

#include <ctype.h>
#include <string.h>

/* What may be read in vain for calls that are none, in bytes: then nothing more is one. An answer
 * of a megabyte that always begins another call would else take hours. */
enum { WASTE_MAX = 16 << 20 };

/* Whether a way's mark stands at *i; moves *i over what stands before it. */
static bool begins_way(const struct call_way *w, const struct call_way *open, struct scan *t,
		       size_t *i)
{
	bool opened = w->open && scan_word(t, *i, w->open);
	if (opened)
		*i = scan_space(t, *i + strlen(w->open));
	else if (w->open && open != w)
		return false;
	return scan_word(t, *i, w->begin);
}

size_t split_read_calls(struct split *s, struct scan *t, size_t i, bool line,
			const struct call_way **open)
{
	size_t count = s->calls.count;
	bool may = s->tools && s->wasted < WASTE_MAX;
	for (size_t k = 0; may && k < FORM_WAYS_MAX && s->form->ways[k].begin; k++) {
		const struct call_way *w = &s->form->ways[k];
		struct scan own = *t;
		size_t end = own.reach = i;
		if ((w->line && !line) || (w->whole && (s->content.n > 0 || count > 0)))
			continue;
		if (begins_way(w, *open, &own, &end) && own.state == SCAN_GOOD)
			end = w->read(&own, end, w, s->tools, &s->calls);
		else
			scan_fail(&own);
		if (own.state != SCAN_GOOD)
			calls_cut(&s->calls, count);
		if (own.state == SCAN_MORE)
			t->state = SCAN_MORE;
		s->wasted += own.state == SCAN_BAD ? own.reach - i : 0;
		if (own.state == SCAN_BAD)
			continue;
		*open = own.state == SCAN_GOOD && w->open ? w : NULL;
		return own.state == SCAN_GOOD ? end : i;
	}
	return i;
}

size_t split_close(struct scan *t, size_t i, const struct call_way **open)
{
	if (!*open || !scan_word(t, i, (*open)->close))
		return i;
	i += strlen((*open)->close);
	*open = NULL;
	return i;
}

size_t split_silent(const struct split *s, struct scan *t, size_t i)
{
	for (size_t k = 0; k < FORM_WORDS_MAX && s->form->silent[k]; k++)
		if (scan_word(t, i, s->form->silent[k]))
			return i + strlen(s->form->silent[k]);
	return i;
}

/* Reads calls, what stands around them, and nothing else, up to the end. */
static void read_to_the_end(struct split *s, struct scan *t, size_t i, bool line)
{
	const struct call_way *open = s->open;
	size_t from = i;
	while (t->state == SCAN_GOOD && i < t->n) {
		size_t next = split_close(t, i, &open);
		if (next == i)
			next = split_read_calls(s, t, i, line, &open);
		if (next == i)
			next = split_silent(s, t, i);
		if (next == i)
			scan_fail(t);
		i = scan_space(t, next);
	}
	s->wasted += t->state == SCAN_BAD ? i - from : 0;
}

bool split_calls_to_the_end(struct split *s, const struct scan *t, size_t i, bool line)
{
	struct scan own = *t;
	size_t count = s->calls.count;
	own.whole = true;
	own.cut = s->cut;
	read_to_the_end(s, &own, i, line);
	bool good = own.state == SCAN_GOOD && s->calls.count > count;
	if (!good)
		calls_cut(&s->calls, count);
	return good;
}

bool split_may_become_calls(struct split *s, size_t i)
{
	struct scan own = {.bytes = s->text.bytes, .n = s->text.n};
	size_t count = s->calls.count;
	read_to_the_end(s, &own, i, false);
	calls_cut(&s->calls, count);
	return own.state == SCAN_MORE;
}

/* Whether a text and a word are alike as far as both go. */
static bool agree(const char *text, size_t n, const char *word)
{
	size_t length = strlen(word);
	return memcmp(text, word, n < length ? n : length) == 0;
}

/* Whether an object that was cut off names a function first, or what that is called with. */
static bool begins_json_call(const char *text, size_t n, const struct json_words *w)
{
	size_t i = 1;
	while (i < n && is_json_space(text[i]))
		i++;
	if (i < n && text[i] == '"')
		i++;
	bool alike = agree(text + i, n - i, w->name);
	for (size_t k = 0; k < 2 && w->arguments[k]; k++)
		alike |= agree(text + i, n - i, w->arguments[k]);
	return alike;
}

bool split_is_plain(const struct split *s)
{
	const char *text = s->text.bytes + s->at, *end = s->text.bytes + s->text.n;
	while (text < end && is_json_space(*text))
		text++;
	size_t n = (size_t)(end - text);
	if (s->where == IN_HEAD || (s->where == AT_START && s->form->channels))
		return n && *text != '<' && !agree(text, n, "to=");
	for (size_t k = 0; n && k < FORM_WAYS_MAX && s->form->ways[k].begin; k++) {
		const struct call_way *w = &s->form->ways[k];
		if (*text == '{' && w->begin[0] == '{')
			return !begins_json_call(text, n, w->json);
		if (isalpha((unsigned char)*text) && n < strlen(w->begin))
			return true;
	}
	return !n;
}

bool split_stands_a_call(const struct split *s, struct scan *t, size_t i)
{
	for (size_t k = 0; k < FORM_WAYS_MAX && s->form->ways[k].begin; k++) {
		const struct call_way *w = &s->form->ways[k];
		if (!w->whole && !w->line && scan_word(t, i, w->open ? w->open : w->begin))
			return true;
	}
	return false;
}

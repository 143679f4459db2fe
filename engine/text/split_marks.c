/* What of an answer the marks of its form begin: calls, and what is no content. */
#include "engine/text/split_inside.h"

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

bool split_calls_to_the_end(struct split *s, const struct scan *t, size_t i)
{
	struct scan own = *t;
	size_t count = s->calls.count, from = i;
	const struct call_way *open = NULL;
	while (own.state == SCAN_GOOD && i < own.n) {
		size_t next = split_close(&own, i, &open);
		if (next == i)
			next = split_read_calls(s, &own, i, false, &open);
		if (next == i)
			next = split_silent(s, &own, i);
		if (next == i)
			scan_fail(&own);
		i = scan_space(&own, next);
	}
	bool good = own.state == SCAN_GOOD && s->calls.count > count;
	if (!good) {
		calls_cut(&s->calls, count);
		s->wasted += i - from;
	}
	return good;
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

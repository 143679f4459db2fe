/* Where an answer is: each state takes something of it, or leaves the scan undecided. */
#include "engine/answer/split_inside.h"

#include "engine/answer/split_channels.h"

#include <string.h>

static char before(const struct split *s)
{
	return s->at > 0 ? s->text.bytes[s->at - 1] : '\0';
}

void split_at_start(struct split *s, struct scan *t)
{
	size_t i = s->thinking == THINKING_OFF ? 0 : scan_space(t, 0);
	const char *mark = s->form->think_begin;
	bool marked = s->thinking != THINKING_OFF && scan_word(t, i, mark);
	if (t->state != SCAN_GOOD)
		return;
	s->where = marked || s->thinking == THINKING_OPEN ? IN_THOUGHTS
		   : s->form->channels			  ? IN_HEAD
							  : IN_CONTENT;
	if (s->where == IN_THOUGHTS)
		s->at = marked ? i + strlen(mark) : i;
}

/* A call among thoughts is theirs if they end: whether they do must be known first. */
static bool held_by_a_call(struct split *s, struct scan *t)
{
	const char *end = s->form->think_end;
	bool line = before(s) == '\n' || s->thoughts.n == 0;
	if (!s->tools || !line || !split_stands_a_call(s, t, s->at))
		return t->state != SCAN_GOOD;
	if (memmem(t->bytes + s->at, t->n - s->at, end, strlen(end)))
		return false;
	if (!t->whole && !s->cut)
		t->state = SCAN_MORE;
	else if (split_calls_to_the_end(s, t, s->at, false)) {
		s->at = t->n;
		s->held.n = 0;
		s->where = BEHIND_THOUGHTS;
		return true;
	} else if (!t->whole && split_may_become_calls(s, s->at))
		t->state = SCAN_MORE;
	return t->state != SCAN_GOOD;
}

void split_in_thoughts(struct split *s, struct scan *t)
{
	const char *end = s->form->think_end;
	int c = scan_at(t, s->at);
	bool ends = c == end[0] && scan_word(t, s->at, end);
	bool broken = s->form->channels && c == '<' && !ends && scan_channel_end(t, s->at);
	if (t->state == SCAN_GOOD && (ends || broken)) {
		s->where = s->form->channels ? IN_HEAD : BEHIND_THOUGHTS;
		s->held.n = 0;
		s->at += ends ? strlen(end) : 0;
		return;
	}
	if (t->state != SCAN_GOOD || (s->begins[c] && held_by_a_call(s, t)))
		return;
	if (!is_json_space(c)) {
		text_out_add(&s->thoughts, s->held.bytes, s->held.n);
		text_out_add(&s->thoughts, t->bytes + s->at, 1);
		s->held.n = 0;
	} else if (s->thoughts.n > 0)
		text_out_add(&s->held, t->bytes + s->at, 1);
	s->at++;
}

void split_behind_thoughts(struct split *s, struct scan *t)
{
	s->at = scan_space(t, s->at);
	if (t->state == SCAN_GOOD)
		s->where = IN_CONTENT;
}

void split_begin_part(struct split *s)
{
	s->held.n = 0;
	s->after_call = s->fresh = true;
}

/* Between messages in channels: what the next one is. */
void split_in_head(struct split *s, struct scan *t)
{
	struct channel_head head;
	struct scan own = *t;
	size_t end = scan_channel_head(&own, s->at, &head);
	bool thoughts = head.channel == CHANNEL_ANALYSIS && !head.recipient;
	bool good = own.state == SCAN_GOOD && !(thoughts && s->thinking == THINKING_OFF);
	if (own.state == SCAN_GOOD && head.recipient) {
		end = s->tools ? scan_channel_call(&own, end, &head, &s->calls) : end;
		good = s->tools && own.state == SCAN_GOOD;
	}
	if (own.state == SCAN_MORE) {
		t->state = SCAN_MORE;
		return;
	}
	if (good && head.recipient)
		split_begin_part(s);
	else
		s->where = good && thoughts ? IN_THOUGHTS : IN_CONTENT;
	s->as_it_is = !good;
	s->thought |= good && head.channel == CHANNEL_FINAL;
	s->at = good ? end : s->at;
	if (s->where == IN_THOUGHTS && s->thoughts.n > 0)
		text_out_string(&s->held, "\n");
}

/* Whether a message in channels ends here. */
static bool ends_message(struct split *s, struct scan *t)
{
	const char *end = scan_channel_end(t, s->at);
	if (!end)
		return false;
	bool next = strcmp(end, CHANNEL_START) == 0;
	if (next && s->as_it_is && s->fresh)
		return false; /* it is what begins the message itself */
	if (s->as_it_is || strcmp(end, CHANNEL_RETURN) == 0) {
		text_out_add(&s->content, s->held.bytes, s->held.n);
		text_out_string(&s->content, s->as_it_is && !next ? end : "");
	}
	split_begin_part(s);
	s->after_call = s->content.n > 0;
	s->at += next ? 0 : strlen(end);
	s->where = IN_HEAD;
	return true;
}

/* Whether a mark of the form is here; it is taken, and the calls that it begins. */
static bool take_marks(struct split *s, struct scan *t)
{
	if (s->form->channels)
		return ends_message(s, t);
	size_t from = s->at, count = s->calls.count;
	bool line = s->fresh || before(s) == '\n';
	s->at = split_close(t, s->at, &s->open);
	if (s->at == from && t->state == SCAN_GOOD) {
		const struct call_way *open = s->open;
		s->at = split_read_calls(s, t, s->at, line, &open);
		s->open = s->calls.count > count ? open : s->open;
	}
	if (s->calls.count > count)
		split_begin_part(s);
	else if (s->at == from && t->state == SCAN_GOOD)
		s->at = split_silent(s, t, s->at);
	return s->at > from;
}

void split_in_content(struct split *s, struct scan *t)
{
	int c = scan_at(t, s->at);
	if (t->state != SCAN_GOOD)
		return;
	if (s->begins[c] && (take_marks(s, t) || t->state != SCAN_GOOD))
		return;
	if (is_json_space(c)) {
		text_out_add(&s->held, t->bytes + s->at++, 1);
		return;
	}
	if (s->after_call) {
		s->held.n = 0;
		if (s->content.n > 0)
			text_out_string(&s->held, "\n");
	}
	text_out_add(&s->content, s->held.bytes, s->held.n);
	text_out_add(&s->content, t->bytes + s->at++, 1);
	s->held.n = 0;
	s->after_call = s->fresh = false;
	s->open = NULL;
}

#include "engine/text/split.h"

#include "engine/text/split_channels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What may be read in vain for calls that are none, in bytes: then nothing more is one. An answer of a
 * megabyte that always begins another call would else take hours. */
enum { WASTE_MAX = 16 << 20 };

struct split {
	const struct split_form *form;
	bool begins[256];	  /* bytes that a mark of the form begins with */
	const struct json *tools; /* NULL: none on offer */
	enum split_thinking thinking;
	enum { AT_START, IN_THOUGHTS, BEHIND_THOUGHTS, IN_HEAD, IN_CONTENT } where;
	struct text_out text;	     /* all of it */
	size_t at;		     /* what of it is taken apart */
	size_t wasted;		     /* bytes read in vain */
	size_t again;		     /* how long the text is to be before it is looked at again */
	struct text_out held;	     /* white space that may be dropped */
	bool fresh, after_call;	     /* nothing of content yet, or since the last call */
	const struct call_way *open; /* whose mark before several calls was met */
	bool as_it_is;		     /* of a channel's message nothing is taken */
	bool thought;		     /* there will be no more thoughts */
	struct text_out thoughts, content;
	struct calls calls;
};

void split_set_form(struct split *s, const struct split_form *form)
{
	s->form = form;
	memset(s->begins, 0, sizeof s->begins);
	for (size_t i = 0; i < FORM_WAYS_MAX && form->ways[i].begin; i++) {
		const struct call_way *w = &form->ways[i];
		s->begins[(unsigned char)w->begin[0]] = true;
		s->begins[(unsigned char)(w->open ? w->open : w->begin)[0]] = true;
		s->begins[(unsigned char)(w->close ? w->close : w->begin)[0]] = true;
	}
	for (size_t i = 0; i < FORM_WORDS_MAX && form->silent[i]; i++)
		s->begins[(unsigned char)form->silent[i][0]] = true;
	s->begins['<'] |= form->channels;
}

struct split *split_new(const struct json *tools, enum split_thinking thinking)
{
	struct split *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->tools = json_count(tools) > 0 ? tools : NULL;
	s->thinking = thinking;
	s->fresh = true;
	split_set_form(s, split_form_named(NULL));
	return s;
}

void split_free(struct split *s)
{
	if (!s)
		return;
	text_out_free(&s->text);
	text_out_free(&s->held);
	text_out_free(&s->thoughts);
	text_out_free(&s->content);
	calls_free(&s->calls);
	free(s);
}

static char before(const struct split *s)
{
	return s->at > 0 ? s->text.bytes[s->at - 1] : '\0';
}

/* ---- calls ---- */

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

/* Appends the calls at i, and returns the place behind them; sets whose they are. i: there are
 * none; undecided is SCAN_MORE. */
static size_t read_calls(struct split *s, struct scan *t, size_t i, bool line,
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

/* Behind the mark that closes a block of calls, if it stands at i. */
static size_t scan_close(struct scan *t, size_t i, const struct call_way **open)
{
	if (!*open || !scan_word(t, i, (*open)->close))
		return i;
	i += strlen((*open)->close);
	*open = NULL;
	return i;
}

/* Behind a mark that is no content, if one stands at i. */
static size_t scan_silent(const struct split *s, struct scan *t, size_t i)
{
	for (size_t k = 0; k < FORM_WORDS_MAX && s->form->silent[k]; k++)
		if (scan_word(t, i, s->form->silent[k]))
			return i + strlen(s->form->silent[k]);
	return i;
}

/* ---- states: each takes something, or leaves the scan undecided ---- */

static void at_start(struct split *s, struct scan *t)
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

/* Nothing but calls from i to the end of a whole text; they are taken. */
static bool take_calls_to_the_end(struct split *s, const struct scan *t, size_t i)
{
	struct scan own = *t;
	size_t count = s->calls.count, from = i;
	const struct call_way *open = NULL;
	while (own.state == SCAN_GOOD && i < own.n) {
		size_t next = scan_close(&own, i, &open);
		if (next == i)
			next = read_calls(s, &own, i, false, &open);
		if (next == i)
			next = scan_silent(s, &own, i);
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

/* Whether the mark of a call stands here. */
static bool stands_a_call(const struct split *s, struct scan *t, size_t i)
{
	for (size_t k = 0; k < FORM_WAYS_MAX && s->form->ways[k].begin; k++) {
		const struct call_way *w = &s->form->ways[k];
		if (!w->whole && !w->line && scan_word(t, i, w->open ? w->open : w->begin))
			return true;
	}
	return false;
}

/* A call among thoughts is theirs if they end: whether they do must be known first. */
static bool held_by_a_call(struct split *s, struct scan *t)
{
	const char *end = s->form->think_end;
	bool line = before(s) == '\n' || s->thoughts.n == 0;
	if (!s->tools || !line || !stands_a_call(s, t, s->at))
		return t->state != SCAN_GOOD;
	if (memmem(t->bytes + s->at, t->n - s->at, end, strlen(end)))
		return false;
	if (!t->whole)
		t->state = SCAN_MORE;
	else if (take_calls_to_the_end(s, t, s->at)) {
		s->at = t->n;
		s->held.n = 0;
		s->where = BEHIND_THOUGHTS;
		return true;
	}
	return t->state != SCAN_GOOD;
}

static void in_thoughts(struct split *s, struct scan *t)
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

static void behind_thoughts(struct split *s, struct scan *t)
{
	s->at = scan_space(t, s->at);
	if (t->state == SCAN_GOOD)
		s->where = IN_CONTENT;
}

/* What follows in content is joined to it by one newline. */
static void begin_another_part(struct split *s)
{
	s->held.n = 0;
	s->after_call = s->fresh = true;
}

/* Between messages in channels: what the next one is. */
static void in_head(struct split *s, struct scan *t)
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
		begin_another_part(s);
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
	begin_another_part(s);
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
	s->at = scan_close(t, s->at, &s->open);
	if (s->at == from && t->state == SCAN_GOOD) {
		const struct call_way *open = s->open;
		s->at = read_calls(s, t, s->at, line, &open);
		s->open = s->calls.count > count ? open : s->open;
	}
	if (s->calls.count > count)
		begin_another_part(s);
	else if (s->at == from && t->state == SCAN_GOOD)
		s->at = scan_silent(s, t, s->at);
	return s->at > from;
}

static void in_content(struct split *s, struct scan *t)
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

/* ---- the machine ---- */

static int run(struct split *s, bool whole, struct err *e)
{
	static void (*const STATES[])(struct split * s,
				      struct scan * t) = {[AT_START] = at_start,
							  [IN_THOUGHTS] = in_thoughts,
							  [BEHIND_THOUGHTS] = behind_thoughts,
							  [IN_HEAD] = in_head,
							  [IN_CONTENT] = in_content};
	struct scan t = {.bytes = s->text.bytes, .n = s->text.n, .whole = whole};
	while (t.state == SCAN_GOOD && (s->at < t.n || s->where < IN_HEAD)) {
		if (s->where == IN_THOUGHTS && s->at == t.n)
			break;
		STATES[s->where](s, &t);
	}
	/* What is held long is looked at again only when it has grown: linear, almost. */
	s->again = s->text.n + (s->text.n - s->at) / 1024;
	bool failed = s->text.failed || s->held.failed || s->thoughts.failed || s->content.failed ||
		      s->calls.failed;
	return failed ? err_set(e, ENOMEM, "out of memory for the answer") : 0;
}

int split_feed(struct split *s, const char *bytes, size_t n, struct err *e)
{
	text_out_add(&s->text, bytes, n);
	return n == 0 || (s->text.n < s->again && !s->text.failed) ? 0 : run(s, false, e);
}

int split_finish(struct split *s, struct err *e)
{
	int rc = run(s, true, e);
	if (s->where == IN_CONTENT && !s->after_call) {
		text_out_add(&s->content, s->held.bytes, s->held.n);
		s->held.n = 0;
	}
	s->thought = true;
	return rc;
}

struct split_result split_result(const struct split *s)
{
	bool may_think = s->where < BEHIND_THOUGHTS || (s->form->channels && !s->thought);
	bool space = s->where == IN_CONTENT && !s->after_call && s->held.n;
	return (struct split_result){.thoughts = s->thoughts.n ? s->thoughts.bytes : "",
				     .content = s->content.n ? s->content.bytes : "",
				     .thoughts_n = s->thoughts.n,
				     .content_n = s->content.n,
				     .calls = &s->calls,
				     .thinking = may_think,
				     .space = space ? s->held.bytes : "",
				     .space_n = space ? s->held.n : 0};
}

enum split_thinking split_thinking_of(const char *rendered, size_t n)
{
	const struct split_form *form;
	while (n > 0 && is_json_space(rendered[n - 1]))
		n--;
	for (size_t i = 0; (form = split_form_at(i)); i++) {
		size_t mark = strlen(form->think_begin);
		if (n >= mark && memcmp(rendered + n - mark, form->think_begin, mark) == 0)
			return THINKING_OPEN;
	}
	return THINKING_AUTO;
}

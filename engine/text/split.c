#include "engine/text/split.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define THINK_BEGIN "<think>"
#define THINK_END "</think>"

struct split {
	const struct json *tools; /* NULL: none on offer */
	enum split_thinking thinking;
	enum { AT_START, IN_THOUGHTS, BEHIND_THOUGHTS, IN_CONTENT } where;
	struct text_out text;	/* all of it */
	size_t at;		/* what of it is taken apart */
	size_t again;		/* how long the text is to be before it is looked at again */
	struct text_out held;	/* white space that may be dropped */
	bool fresh, after_call; /* nothing of content yet, or since the last call */
	struct text_out thoughts, content;
	struct calls calls;
};

struct split *split_new(const struct json *tools, enum split_thinking thinking)
{
	struct split *s = calloc(1, sizeof *s);
	if (s)
		*s = (struct split){.tools = json_count(tools) > 0 ? tools : NULL,
				    .thinking = thinking,
				    .fresh = true};
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

/* ---- states: each takes something, or leaves the scan undecided ---- */

static void at_start(struct split *s, struct scan *t)
{
	size_t i = s->thinking == THINKING_OFF ? 0 : scan_space(t, 0);
	bool marked = s->thinking != THINKING_OFF && scan_word(t, i, THINK_BEGIN);
	if (t->state != SCAN_GOOD)
		return;
	s->where = marked || s->thinking == THINKING_OPEN ? IN_THOUGHTS : IN_CONTENT;
	if (s->where == IN_THOUGHTS)
		s->at = marked ? i + strlen(THINK_BEGIN) : i;
}

/* Nothing but calls from i to the end of a whole text; they are taken. */
static bool take_calls_to_the_end(struct split *s, const struct scan *t, size_t i)
{
	struct scan own = *t;
	size_t count = s->calls.count;
	while (own.state == SCAN_GOOD && i < own.n) {
		if (!scan_word(&own, i, CALL_BEGIN))
			scan_fail(&own);
		else
			i = scan_space(&own, scan_call_block(&own, i, s->tools, &s->calls));
	}
	if (own.state != SCAN_GOOD)
		calls_cut(&s->calls, count);
	return own.state == SCAN_GOOD;
}

/* A call among thoughts is theirs if they end: whether they do must be known first. */
static bool held_by_a_call(struct split *s, struct scan *t)
{
	bool line = before(s) == '\n' || s->thoughts.n == 0;
	if (!s->tools || !line || !scan_word(t, s->at, CALL_BEGIN))
		return t->state != SCAN_GOOD;
	if (memmem(t->bytes + s->at, t->n - s->at, THINK_END, strlen(THINK_END)))
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
	int c = scan_at(t, s->at);
	if (c == '<' && scan_word(t, s->at, THINK_END)) {
		s->where = BEHIND_THOUGHTS;
		s->held.n = 0;
		s->at += strlen(THINK_END);
		return;
	}
	if (t->state != SCAN_GOOD || (c == '<' && held_by_a_call(s, t)))
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

/* Whether a call begins here; it is taken if it is whole. */
static bool take_call(struct split *s, struct scan *t)
{
	struct scan own = *t;
	size_t end = s->at;
	bool line = s->fresh || before(s) == '\n';
	if (scan_word(&own, s->at, CALL_BEGIN))
		end = scan_call_block(&own, s->at, s->tools, &s->calls);
	else if (line && scan_word(&own, s->at, FUNCTION_BEGIN))
		end = scan_bare_call(&own, s->at, s->tools, &s->calls);
	if (own.state == SCAN_MORE)
		t->state = SCAN_MORE;
	if (own.state != SCAN_GOOD || end == s->at)
		return false;
	s->at = end;
	s->held.n = 0;
	s->after_call = s->fresh = true;
	return true;
}

static void in_content(struct split *s, struct scan *t)
{
	int c = scan_at(t, s->at);
	if (t->state != SCAN_GOOD)
		return;
	if (c == '<' && s->tools && (take_call(s, t) || t->state != SCAN_GOOD))
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
}

/* ---- the machine ---- */

static int run(struct split *s, bool whole, struct err *e)
{
	static void (*const STATES[])(struct split * s,
				      struct scan * t) = {[AT_START] = at_start,
							  [IN_THOUGHTS] = in_thoughts,
							  [BEHIND_THOUGHTS] = behind_thoughts,
							  [IN_CONTENT] = in_content};
	struct scan t = {.bytes = s->text.bytes, .n = s->text.n, .whole = whole};
	while (t.state == SCAN_GOOD && (s->at < t.n || s->where < IN_CONTENT)) {
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
	return rc;
}

struct split_result split_result(const struct split *s)
{
	bool space = s->where == IN_CONTENT && !s->after_call && s->held.n;
	return (struct split_result){.thoughts = s->thoughts.n ? s->thoughts.bytes : "",
				     .content = s->content.n ? s->content.bytes : "",
				     .thoughts_n = s->thoughts.n,
				     .content_n = s->content.n,
				     .calls = &s->calls,
				     .thinking = s->where < BEHIND_THOUGHTS,
				     .space = space ? s->held.bytes : "",
				     .space_n = space ? s->held.n : 0};
}

enum split_thinking split_thinking_of(const char *rendered, size_t n)
{
	size_t mark = strlen(THINK_BEGIN);
	while (n > 0 && is_json_space(rendered[n - 1]))
		n--;
	bool open = n >= mark && memcmp(rendered + n - mark, THINK_BEGIN, mark) == 0;
	return open ? THINKING_OPEN : THINKING_AUTO;
}

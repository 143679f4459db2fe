#include "engine/answer/split_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- the machine ---- */

static int run(struct split *s, bool whole, struct err *e)
{
	static void (*const states[])(struct split *, struct scan *) = {
		[AT_START] = split_at_start,
		[IN_THOUGHTS] = split_in_thoughts,
		[BEHIND_THOUGHTS] = split_behind_thoughts,
		[IN_HEAD] = split_in_head,
		[IN_CONTENT] = split_in_content,
	};
	struct scan t = {.bytes = s->text.bytes, .n = s->text.n, .whole = whole};
	while (t.state == SCAN_GOOD && (s->at < t.n || s->where < IN_HEAD)) {
		if (s->where == IN_THOUGHTS && s->at == t.n)
			break;
		states[s->where](s, &t);
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

/* The end of a text that was cut off within what may be a mark, or calls. */
static void leave_out(struct split *s)
{
	struct scan t = {.bytes = s->text.bytes, .n = s->text.n, .whole = true, .cut = true};
	size_t calls = s->calls.count;
	bool line = s->fresh || s->text.bytes[s->at - 1] == '\n';
	if (s->where == IN_HEAD)
		split_in_head(s, &t);
	else if (s->where == IN_CONTENT && !s->form->channels)
		(void)split_calls_to_the_end(s, &t, s->at, line);
	if (s->calls.count > calls)
		split_begin_part(s);
	s->at = s->text.n;
	s->held.n = 0;
}

int split_cut(struct split *s, struct err *e)
{
	s->cut = true;
	int rc = run(s, false, e);
	if (s->at < s->text.n && !split_is_plain(s))
		leave_out(s);
	s->cut = false;
	return rc < 0 ? rc : split_finish(s, e);
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

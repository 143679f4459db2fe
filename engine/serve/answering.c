#include "engine/serve/answering.h"

#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(struct err *e)
{
	return err_set(e, ENOMEM, "out of memory for the answer");
}

static struct split *open_split(const struct split_form *form, const struct json *tools,
				enum split_thinking thinking)
{
	struct split *s = split_new(tools, thinking);
	if (s)
		split_set_form(s, form);
	return s;
}

int answering_begin(struct answering *a, const struct split_form *form, const struct json *tools,
		    enum split_thinking thinking, const char *stops, bool skip_space, struct err *e)
{
	int failed = stream_init(&a->characters, "", e);
	if (!failed)
		failed = stream_init(&a->stops, stops, e);
	if (failed)
		return failed;
	a->characters.skip_space = skip_space;
	a->thinking = thinking;
	a->form = form;
	a->split = open_split(form, tools, thinking);
	return a->split ? 0 : no_memory(e);
}

int answering_set_stops(struct answering *a, const char *stops, struct err *e)
{
	stream_free(&a->stops);
	a->stops = (struct stream){0};
	return stream_init(&a->stops, stops, e);
}

void answering_free(struct answering *a)
{
	stream_free(&a->characters);
	stream_free(&a->stops);
	split_free(a->split);
	text_out_free(&a->said);
	text_out_free(&a->whole);
	text_out_free(&a->called);
	*a = (struct answering){0};
}

/* ---- giving out ---- */

void answering_log(struct session *s)
{
	char piece[4096];
	bool complete;
	ssize_t n;
	uint64_t *from = &s->turn.answering.logged;
	while ((n = answer_read(s->answer, *from, piece, sizeof piece, &complete)) > 0) {
		session_log_append(s, piece, (size_t)n);
		*from += (uint64_t)n;
	}
}

static int say(struct session *s, const char *text, size_t n, struct err *e)
{
	struct answering *a = &s->turn.answering;
	if (!text)
		return no_memory(e);
	if (!n)
		return 0;
	text_out_add(&a->said, text, n);
	if (a->said.failed || answer_append(s->answer, text, n) < 0)
		return no_memory(e);
	answering_log(s);
	return 0;
}

static int show_content(struct session *s, const struct split_result *r, struct err *e)
{
	struct answering *a = &s->turn.answering;
	size_t n, from = a->content;
	a->content = r->content_n;
	const char *text = stream_feed(&a->stops, r->content + from, r->content_n - from, &n);
	int failed = say(s, text, n, e);
	size_t looked = r->space_n > a->space ? a->space : 0;
	a->space = r->space_n;
	/* White space at the end may yet be dropped, but a stop text in it ends the answer now, or
	 * a model that gives nothing else would go on. */
	if (failed || a->stops.stopped ||
	    !stream_would_stop(&a->stops, r->space, r->space_n, looked))
		return failed;
	text = stream_feed(&a->stops, r->space, r->space_n, &n);
	return say(s, text, n, e);
}

/* Others read them, with ids, while the answer goes on. */
static int show_calls(struct session *s, const struct split_result *r, struct err *e)
{
	struct answering *a = &s->turn.answering;
	struct text_out calls = {0};
	if (r->calls->count == a->calls)
		return 0;
	int failed = a->calls ? 0 : conversation_name_turn(&s->conversation.messages, &a->turn, e);
	if (failed)
		return failed;
	messages_write_calls(&calls, r->calls, a->turn);
	text_out_string(&calls, "\n");
	if (calls.failed) {
		text_out_free(&calls);
		return no_memory(e);
	}
	a->calls = r->calls->count;
	text_out_free(&a->called);
	a->called = calls;
	return 0;
}

static int show(struct session *s, struct err *e)
{
	struct answering *a = &s->turn.answering;
	const struct split_result r = split_result(a->split);
	if (r.thoughts_n > a->thoughts &&
	    answer_think(s->answer, r.thoughts + a->thoughts, r.thoughts_n - a->thoughts))
		return no_memory(e);
	a->thoughts = r.thoughts_n;
	if (!r.thinking)
		answer_thought(s->answer);
	int failed = show_calls(s, &r, e);
	return failed ? failed : show_content(s, &r, e);
}

static int split(struct session *s, const char *text, size_t n, struct err *e)
{
	struct answering *a = &s->turn.answering;
	if (!text)
		return no_memory(e);
	if (a->keep)
		text_out_add(&a->whole, text, n);
	return a->whole.failed ? no_memory(e) : split_feed(a->split, text, n, e);
}

int answering_take(struct session *s, const char *bytes, size_t n, struct err *e)
{
	struct answering *a = &s->turn.answering;
	size_t out;
	const char *text = stream_feed(&a->characters, bytes, n, &out);
	int failed = split(s, text, out, e);
	return failed ? failed : show(s, e);
}

int answering_end(struct session *s, bool cut, struct err *e)
{
	struct answering *a = &s->turn.answering;
	size_t n;
	const char *text = cut ? "" : stream_flush(&a->characters, &n);
	int failed = split(s, text, cut ? 0 : n, e);
	if (!failed)
		failed = cut ? split_cut(a->split, e) : split_finish(a->split, e);
	if (!failed)
		failed = show(s, e);
	if (failed)
		return failed;
	text = stream_flush(&a->stops, &n);
	return say(s, text, n, e);
}

/* ---- the message ---- */

/* With its calls as the model wrote them, for a template that cannot write them. */
static int add_whole(struct session *s, struct messages *to, const struct split_result *r,
		     struct err *e)
{
	const struct answering *a = &s->turn.answering;
	struct split *plain = open_split(a->form, NULL, a->thinking);
	int failed = plain ? split_feed(plain, a->whole.bytes, a->whole.n, e) : no_memory(e);
	if (!failed)
		failed = split_finish(plain, e);
	if (!failed) {
		const struct split_result w = split_result(plain);
		failed = messages_add_answer(to, w.content, w.content_n, w.thoughts, w.thoughts_n,
					     r->calls, a->turn, e);
	}
	split_free(plain);
	return failed;
}

int answering_message(struct session *s, struct messages *to, struct err *e)
{
	const struct answering *a = &s->turn.answering;
	const struct split_result r = split_result(a->split);
	if (a->keep && r.calls->count)
		return add_whole(s, to, &r, e);
	return messages_add_answer(to, a->said.n ? a->said.bytes : "", a->said.n, r.thoughts,
				   r.thoughts_n, r.calls, a->turn, e);
}

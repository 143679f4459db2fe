#include "engine/session/answering.h"

#include "engine/session/session_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int answering_no_memory(struct err *e)
{
	return err_set(e, ENOMEM, "out of memory for the answer");
}

static struct split *answering_open_split(const struct split_form *form, const struct json *tools,
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
	a->split = answering_open_split(form, tools, thinking);
	return a->split ? 0 : answering_no_memory(e);
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
	*a = (struct answering){0};
}

/* ---- taking ---- */

static int answering_say(struct answering *a, const char *text, size_t n,
			 struct answering_piece *to, struct err *e)
{
	if (!text)
		return answering_no_memory(e);
	if (!n)
		return 0;
	text_out_add(&a->said, text, n);
	text_out_add(&to->content, text, n);
	return a->said.failed || to->content.failed ? answering_no_memory(e) : 0;
}

static int answering_take_content(struct answering *a, const struct split_result *r,
				  struct answering_piece *to, struct err *e)
{
	size_t n, from = a->content;
	a->content = r->content_n;
	const char *text = stream_feed(&a->stops, r->content + from, r->content_n - from, &n);
	int failed = answering_say(a, text, n, to, e);
	size_t looked = r->space_n > a->space ? a->space : 0;
	a->space = r->space_n;
	/* White space at the end may still be dropped, but a stop text in it ends the answer now.
	 * Otherwise a model that writes only white space would not stop. */
	if (failed || a->stops.stopped ||
	    !stream_would_stop(&a->stops, r->space, r->space_n, looked))
		return failed;
	text = stream_feed(&a->stops, r->space, r->space_n, &n);
	return answering_say(a, text, n, to, e);
}

/* Adds new calls with their ids to the piece; readers see them while the answer continues. */
static int answering_take_calls(struct answering *a, const struct messages *messages,
				const struct split_result *r, struct answering_piece *to,
				struct err *e)
{
	struct text_out calls = {0};
	if (r->calls->count == a->calls)
		return 0;
	int failed = a->calls ? 0 : dialogue_name_turn(messages, &a->turn, e);
	if (failed)
		return failed;
	messages_write_calls(&calls, r->calls, a->turn);
	text_out_string(&calls, "\n");
	if (calls.failed) {
		text_out_free(&calls);
		return answering_no_memory(e);
	}
	a->calls = r->calls->count;
	text_out_free(&to->calls);
	to->calls = calls;
	return 0;
}

static int answering_take_split(struct answering *a, const struct messages *messages,
				struct answering_piece *to, struct err *e)
{
	const struct split_result r = split_result(a->split);
	if (r.thoughts_n > a->thoughts)
		text_out_add(&to->thoughts, r.thoughts + a->thoughts, r.thoughts_n - a->thoughts);
	if (to->thoughts.failed)
		return answering_no_memory(e);
	a->thoughts = r.thoughts_n;
	to->thoughts_over |= !r.thinking;
	int failed = answering_take_calls(a, messages, &r, to, e);
	return failed ? failed : answering_take_content(a, &r, to, e);
}

static int answering_split(struct answering *a, const char *text, size_t n, struct err *e)
{
	if (!text)
		return answering_no_memory(e);
	if (a->keep)
		text_out_add(&a->whole, text, n);
	return a->whole.failed ? answering_no_memory(e) : split_feed(a->split, text, n, e);
}

int answering_take(struct answering *a, const struct messages *messages, const char *bytes,
		   size_t n, struct answering_piece *to, struct err *e)
{
	size_t out;
	const char *text = stream_feed(&a->characters, bytes, n, &out);
	int failed = answering_split(a, text, out, e);
	return failed ? failed : answering_take_split(a, messages, to, e);
}

int answering_end(struct answering *a, const struct messages *messages, bool cut,
		  struct answering_piece *to, struct err *e)
{
	size_t n;
	const char *text = cut ? "" : stream_flush(&a->characters, &n);
	int failed = answering_split(a, text, cut ? 0 : n, e);
	if (!failed)
		failed = cut ? split_cut(a->split, e) : split_finish(a->split, e);
	if (!failed)
		failed = answering_take_split(a, messages, to, e);
	if (failed)
		return failed;
	text = stream_flush(&a->stops, &n);
	return answering_say(a, text, n, to, e);
}

int answering_choose(struct answering *a, const char *text, size_t n, struct answering_piece *to,
		     struct err *e)
{
	to->thoughts_over = true;
	return answering_say(a, text, n, to, e);
}

/* ---- publishing ---- */

void answering_free_piece(struct answering_piece *piece)
{
	text_out_free(&piece->content);
	text_out_free(&piece->thoughts);
	text_out_free(&piece->calls);
	*piece = (struct answering_piece){0};
}

void answering_log(struct session *s)
{
	char piece[4096];
	bool complete;
	ssize_t n;
	while ((n = answer_read(s->answer, s->logged, piece, sizeof piece, &complete)) > 0) {
		history_log(s, piece, (size_t)n);
		s->logged += (uint64_t)n;
	}
}

int answering_publish(struct session *s, struct answering_piece *p, struct err *e)
{
	bool failed = p->thoughts.n && answer_think(s->answer, p->thoughts.bytes, p->thoughts.n);
	if (p->thoughts_over)
		answer_thought(s->answer);
	if (p->calls.n) {
		text_out_free(&s->called);
		s->called = p->calls;
		p->calls = (struct text_out){0};
	}
	if (p->content.n && !failed)
		failed = answer_append(s->answer, p->content.bytes, p->content.n) < 0;
	answering_log(s);
	p->content.n = p->thoughts.n = 0;
	return failed ? answering_no_memory(e) : 0;
}

/* ---- the message ---- */

/* Adds the answer with its calls as the model wrote them, for a template without tool calls. */
static int answering_add_whole(const struct answering *a, struct messages *to,
			       const struct split_result *r, struct err *e)
{
	struct split *plain = answering_open_split(a->form, NULL, a->thinking);
	int failed =
		plain ? split_feed(plain, a->whole.bytes, a->whole.n, e) : answering_no_memory(e);
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

int answering_message(const struct answering *a, struct messages *to, struct err *e)
{
	const struct split_result r = split_result(a->split);
	if (a->keep && r.calls->count)
		return answering_add_whole(a, to, &r, e);
	return messages_add_answer(to, a->said.n ? a->said.bytes : "", a->said.n, r.thoughts,
				   r.thoughts_n, r.calls, a->turn, e);
}

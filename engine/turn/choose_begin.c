/* The beginning of a choice (choose.h): encodes the candidates, and finds where the answer begins
 * and which tokens end it. */
#include "engine/model/model_state.h"
#include "engine/turn/turn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text before each candidate, which is encoded together with it. */
struct choose_head {
	const char *text; /* [n] */
	size_t n;
	bool alone; /* the head is a whole text (a prompt without chat); else it is marks of the
		       answer's form */
	const struct token_list *ids; /* the head's ids when encoded alone */
};

enum { CHOOSE_BACK = 64 }; /* most ids of the head that a candidate may change */

/* ---- encoding ---- */

/* text[n] is the head and the candidate. */
static int choose_encode(const struct turn_state *t, const struct choose_head *h, const char *text,
			 size_t n, struct token_list *ids, struct err *e)
{
	const struct tokenizer *tokens = t->env->model->loaded.tokenizer;
	const _Atomic bool *stop = &t->session->stop;
	ids->count = 0;
	if (h->alone)
		return tokenizer_encode_alone(tokens, text, n, stop, ids, e);
	uint8_t *rights = malloc(n + 1);
	if (!rights)
		return err_set(e, ENOMEM, "out of memory for the choices");
	memset(rights, MAY_ALL, h->n);
	memset(rights + h->n, MAY_TEXT, n - h->n);
	int failed = tokenizer_encode_rights(tokens, text, rights, n, stop, ids, e);
	free(rights);
	return failed;
}

static int choose_too_long(uint32_t number, size_t tokens, struct err *e)
{
	return err_set(e, EINVAL, "choices: candidate %u has %zu tokens; at most %d are allowed",
		       number + 1, tokens, CHOICES_TOKENS);
}

/* The ids of all candidates, one after the other; each begins `back` ids before the end of the
 * head. */
struct choose_pool {
	struct token_list ids;
	size_t back, common; /* of all candidates with the head */
};

static int choose_add(struct turn_state *t, const struct choose_head *h, const char *text, size_t n,
		      struct choose_pool *p, struct err *e)
{
	struct choose *c = &t->choose;
	struct token_list ids = {0};
	int failed = choose_encode(t, h, text, n, &ids, e);
	size_t common = failed ? 0 : prefixes_common(h->ids, &ids), from = h->ids->count - p->back;
	if (!failed && common < from)
		failed = err_set(e, EINVAL,
				 "choices: behind candidate %u the prompt has other tokens",
				 c->count + 1);
	if (!failed && ids.count - common > CHOICES_TOKENS)
		failed = choose_too_long(c->count, ids.count - common, e);
	if (!failed)
		failed = token_list_append(&p->ids, ids.ids + from, ids.count - from, e);
	if (!failed) {
		p->common = common < p->common ? common : p->common;
		c->texts[c->count] = (struct choose_text){.count = (uint32_t)(ids.count - from),
							  .index = c->count};
		c->count++;
	}
	token_list_free(&ids);
	return failed;
}

/* For qsort: by ids; a text before its continuations. */
static int choose_compare_ids(const void *a, const void *b)
{
	const struct choose_text *x = a, *y = b;
	uint32_t n = x->count < y->count ? x->count : y->count;
	for (uint32_t i = 0; i < n; i++)
		if (x->ids[i] != y->ids[i])
			return x->ids[i] < y->ids[i] ? -1 : 1;
	if (x->count != y->count)
		return x->count < y->count ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static void choose_sort(struct choose *c, struct choose_pool *p, size_t own)
{
	uint32_t *at = p->ids.ids;
	for (uint32_t i = 0; i < c->count; i++) {
		struct choose_text *x = &c->texts[i];
		x->ids = at + own;
		at += x->count;
		x->count -= (uint32_t)own;
	}
	qsort(c->texts, c->count, sizeof *c->texts, choose_compare_ids);
}

/* Encodes the head and each candidate. *common: how many of the head's ids are unchanged before
 * every candidate. */
static int choose_encode_all(struct turn_state *t, const struct choose_head *h, size_t *common,
			     struct err *e)
{
	struct choose *c = &t->choose;
	const struct choices *all = &t->dialogue.choices;
	size_t count = h->ids->count, back = count < CHOOSE_BACK ? count : CHOOSE_BACK;
	struct choose_pool pool = {.back = back, .common = count};
	char *text = malloc(h->n + all->n + 1);
	c->count = 0;
	free(c->texts);
	free(c->ids);
	c->ids = NULL;
	c->texts = calloc(all->count, sizeof *c->texts);
	int failed = text && c->texts ? 0 : err_set(e, ENOMEM, "out of memory for the choices");
	if (!failed && h->n)
		memcpy(text, h->text, h->n);
	for (size_t i = 0; i < all->count && !failed; i++) {
		memcpy(text + h->n, all->list[i].text, all->list[i].n);
		failed = choose_add(t, h, text, h->n + all->list[i].n, &pool, e);
	}
	free(text);
	c->ids = pool.ids.ids;
	if (failed)
		return failed;
	choose_sort(c, &pool, pool.common - (count - back));
	*common = pool.common;
	return 0;
}

/* ---- the beginning ---- */

/* Renders the conversation with an answer as the last message, and finds the last end-of-turn
 * token; -1: none. */
static int64_t choose_find_written_end(const struct turn_state *t)
{
	static const char talk[] = "[{\"role\": \"user\", \"content\": \"a\"}, "
				   "{\"role\": \"assistant\", \"content\": \"b\"}]";
	const struct model *m = t->env->model;
	struct messages messages = {0};
	struct template_text text = {0};
	struct token_list ids = {0};
	struct tm clock = t->dialogue.clock;
	struct err ignored; /* the template may refuse such a conversation */
	int64_t end = -1;
	int failed = messages_read(&messages, talk, sizeof talk - 1, &ignored);
	const struct chat_input in = {.messages = &messages, .clock = &clock};
	if (!failed)
		failed = chat_render(m->loaded.chat, &in, &t->session->stop, &text, &ignored);
	if (!failed)
		failed = chat_encode_text(m->loaded.chat, &text, &t->session->stop, &ids, &ignored);
	for (size_t i = ids.count; i-- > 0 && !failed && end < 0;)
		if (model_ends(m, true, ids.ids[i]))
			end = ids.ids[i];
	token_list_free(&ids);
	template_text_free(&text);
	messages_free(&messages);
	return end;
}

/* Finds the token that ends the turn: the one that the template writes after an answer, else the
 * one in the model's files. */
static int choose_find_end(struct turn_state *t, struct err *e)
{
	const struct model *m = t->env->model;
	const struct generation *g = &m->id.config.generation;
	int64_t end = t->chat ? choose_find_written_end(t) : -1;
	if (end < 0)
		end = tokenizer_eos(m->loaded.tokenizer);
	if (end < 0 && g->end_count)
		end = g->end_tokens[0];
	if (end < 0 || end >= m->id.config.vocabulary)
		return err_set(e, ENOTSUP,
			       "params/format is choices, but this model has no token that ends a "
			       "turn");
	t->choose.end = (uint32_t)end;
	return 0;
}

static int choose_check(const struct turn_state *t, struct err *e)
{
	const struct asked *asked = &t->session->asked;
	if (!t->dialogue.choices.count)
		return err_set(e, EINVAL,
			       "params/format is choices, but there are none; write the "
			       "candidates to choices, or echo text > params/format");
	if (asked->earlier.count || asked->given.n || asked->given_thoughts.n)
		return err_set(e, EINVAL,
			       "a choice is always a whole answer and cannot continue one; "
			       "use retry instead of continue");
	return 0;
}

/* Checks that the context has room for the longest candidate. */
static int choose_check_room(const struct turn_state *t, struct err *e)
{
	const struct choose *c = &t->choose;
	uint32_t context = t->env->model->id.context, longest = 0;
	for (uint32_t i = 0; i < c->count; i++)
		longest = c->texts[i].count > longest ? c->texts[i].count : longest;
	if (t->ids.count + longest <= context)
		return 0;
	err_set(e, EFBIG,
		"the text before the choices is %zu tokens and the longest of them %u, but the "
		"context holds %u; shorten it, echo reset > ctl, or mount with a larger -o "
		"context=",
		t->ids.count, longest, context);
	return err_name(e, "prompt_too_long");
}

/* Without chat, a candidate continues the prompt. Its first letters may change the prompt's last
 * tokens; then these tokens count as part of the candidates. */
static int choose_encode_behind_prompt(struct turn_state *t, struct err *e)
{
	const struct asked *asked = &t->session->asked;
	const struct choose_head h = {.text = asked->prompt,
				      .n = asked->prompt_length,
				      .alone = true,
				      .ids = &t->ids};
	size_t common = 0;
	int failed = choose_encode_all(t, &h, &common, e);
	if (failed)
		return failed;
	if (!common)
		return err_set(e, EINVAL,
			       "the prompt has no token that is the same before all choices; "
			       "make it longer");
	t->ids.count = t->rendered_ids = common;
	return 0;
}

/* With chat, a candidate follows marks of the answer's form, which are encoded here. */
static int choose_encode_behind(struct turn_state *t, const char *marks, struct err *e)
{
	struct token_list ids = {0};
	struct choose_head h = {.text = marks, .n = strlen(marks), .ids = &ids};
	size_t common = 0;
	int failed = *marks ? choose_encode(t, &h, marks, h.n, &ids, e) : 0;
	if (!failed)
		failed = choose_encode_all(t, &h, &common, e);
	if (!failed)
		failed = token_list_append(&t->ids, ids.ids, common, e);
	token_list_free(&ids);
	return failed ? failed : choose_check_room(t, e);
}

/* Answers in channels begin with the channel's name, so tokens are sampled up to there, as for
 * thoughts. */
int choose_begin(struct turn_state *t, struct err *e)
{
	const struct answering *a = &t->session->answering;
	if (t->session->asked.params.format != FORMAT_CHOICES)
		return 0;
	int failed = choose_check(t, e);
	if (!failed)
		failed = choose_find_end(t, e);
	if (!failed)
		failed = t->chat ? choose_encode_behind(t, "", e) : choose_encode_behind_prompt(t, e);
	if (!failed)
		failed = choose_check_room(t, e);
	bool drawn = t->chat && (a->thinking == THINKING_OPEN || a->form->channels);
	if (!failed)
		t->choose.state = drawn ? CHOOSE_THINKS : CHOOSE_BEGINS;
	return failed;
}

/* ---- after thoughts ---- */

/* Ids that are not computed yet become the rest of the prompt. */
static int choose_begin_behind(struct turn_state *t, const char *marks, struct err *e)
{
	int failed = choose_encode_behind(t, marks, e);
	t->prompt_ids = t->ids.count;
	t->choose.state = CHOOSE_BEGINS;
	t->choose.thought = true;
	return failed;
}

int choose_after_token(struct turn_state *t, struct err *e)
{
	const struct answering *a = &t->session->answering;
	const struct split_result r = split_result(a->split);
	if (r.thinking || split_place(a->split) == SPLIT_IN_THOUGHTS)
		return 0;
	return choose_begin_behind(t, a->form->channels ? "" : "\n\n", e);
}

int choose_end_thoughts(struct turn_state *t, struct turn_event *ev, struct err *e)
{
	struct answering *a = &t->session->answering;
	const struct split_form *f = a->form;
	char marks[128];
	(void)snprintf(marks, sizeof marks, "%s%s", f->think_end,
		       f->channels ? CHANNEL_START "assistant" CHANNEL_NAME
						   "final" CHANNEL_MESSAGE
				   : "\n\n");
	int failed = answering_take(a, &t->dialogue.messages, marks, strlen(marks), &ev->piece, e);
	return failed ? failed : choose_begin_behind(t, marks, e);
}

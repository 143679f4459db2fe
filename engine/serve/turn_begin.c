/* The beginning of a turn: from the session's messages to the ids that the model is to see, and to
 * what of them its context holds already. */
#include "engine/serve/draft.h"
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>
#include <string.h>

/* ---- from messages to ids ---- */

static int cannot_chat(const struct model *m, struct err *e)
{
	const struct err *why = &m->run.no_chat;
	err_set(e, why->code,
		why->code == ENODATA
			? "%s: %s (echo off > params/chat)"
			: "%s: %s; mount with -o template=FILE, or echo off > params/chat",
		m->id.name, why->text);
	return err_name(e, "no_template");
}

/* Where the answer's own marks begin, behind the last word of the conversation's form. */
static size_t find_fork(const struct tokenizer *tokens, const struct token_list *ids)
{
	enum { MOST = 64 }; /* what makes a model answer is short */
	size_t fork = 0;
	for (size_t i = ids->count; i > 0 && ids->count - i < MOST;) {
		i--;
		size_t n, shown;
		const char *text = tokenizer_bytes(tokens, ids->ids[i], true, &n);
		tokenizer_bytes(tokens, ids->ids[i], false, &shown);
		enum token_right wants = token_needed_right(text, n, n > 0 && shown == 0);
		if (wants == MAY_ALL)
			return fork;
		if (wants == MAY_MARKS)
			fork = i;
	}
	return 0;
}

static int encode_messages(struct session *s, struct err *e)
{
	struct turn *t = &s->turn;
	const struct model *m = s->model;
	struct template_text text = {0};
	t->ids.count = 0;
	int failed =
		conversation_render(&s->conversation, m->run.chat, &t->params, &s->stop, &text, e);
	/* Others wait meanwhile: what cannot fit is not encoded to see by how much. */
	t->unencoded = text.length > model_max_prompt_bytes(m) ? text.length : 0;
	if (!failed && !t->unencoded)
		failed = chat_encode_text(m->run.chat, &text, &s->stop, &t->ids, e);
	if (!failed) {
		t->answering.thinking = split_thinking_of(text.bytes, text.length);
		t->fork = find_fork(m->run.tokenizer, &t->ids);
		failed = turn_encode_given(s, e);
	}
	template_text_free(&text);
	return failed;
}

/* ---- a context that is full ---- */

/* Tokens; of what was not encoded as many as there are at least, or nearly. */
static size_t wanted(const struct turn *t)
{
	enum { BYTES_PER_TOKEN = 16 };
	return t->ids.count + t->unencoded / BYTES_PER_TOKEN + t->earlier.count;
}

static int too_long(const struct session *s, struct err *e)
{
	err_set(e, EFBIG,
		"the prompt is %s%zu tokens with the conversation before it, but the context holds "
		"%u; shorten it, echo reset > ctl (of an ask file: open it again), echo "
		"drop-oldest > params/on_full, or mount with a larger -o context=",
		s->turn.unencoded ? "at least " : "", wanted(&s->turn), s->model->id.context);
	err_number(e, "tokens", wanted(&s->turn));
	err_number(e, "maximum", s->model->id.context);
	return err_name(e, "prompt_too_long");
}

/* Leaves out the oldest turns, whole, behind what the system says: as many as have this share of
 * all messages' bytes, but never the last. Returns how many messages those are. */
static size_t oldest_turns(const struct messages *m, double share, size_t *first, uint32_t *turns)
{
	double bytes = 0, all = 0;
	size_t begin = 0, end = 0;
	for (size_t i = 0; i < m->count; i++)
		all += (double)m->items[i].n;
	while (begin < m->count && (message_is(&m->items[begin], "system") ||
				    message_is(&m->items[begin], "developer")))
		begin++;
	*first = begin;
	*turns = 0;
	for (size_t i = begin; i < m->count; i++) {
		if (i > begin && message_is(&m->items[i], "user")) {
			end = i;
			++*turns;
			if (bytes >= share * all)
				break;
		}
		bytes += (double)m->items[i].n;
	}
	return end > begin ? end - begin : 0;
}

/* A quarter of the context is left for the answer, and for turns that need not drop anything. */
static int drop_oldest(struct session *s, struct err *e)
{
	double fits = .75 * s->model->id.context / (double)wanted(&s->turn);
	size_t first;
	uint32_t turns;
	size_t count = oldest_turns(&s->conversation.messages, 1 - fits, &first, &turns);
	if (!count)
		return too_long(s, e);
	pthread_mutex_lock(&s->model->schedule.lock);
	session_drop_turns(s, first, count, turns);
	pthread_mutex_unlock(&s->model->schedule.lock);
	return 0;
}

static int encode_conversation(struct session *s, struct err *e)
{
	struct turn *t = &s->turn;
	int failed = encode_messages(s, e);
	while (!failed && wanted(t) >= s->model->id.context &&
	       t->params.on_full == FULL_DROP_OLDEST) {
		failed = drop_oldest(s, e);
		if (!failed)
			failed = encode_messages(s, e);
	}
	if (!failed && t->unencoded)
		failed = too_long(s, e);
	t->rendered_ids = t->ids.count;
	if (!failed)
		failed = token_list_append(&t->ids, t->earlier.ids, t->earlier.count, e);
	return failed;
}

static int encode(struct session *s, struct err *e)
{
	struct turn *t = &s->turn;
	const struct model_run *r = &s->model->run;
	if (t->refused.code) {
		*e = t->refused;
		return -e->code;
	}
	if (t->chat)
		return encode_conversation(s, e);
	t->answering.thinking = THINKING_OFF;
	int failed = tokenizer_encode_alone(r->tokenizer, t->prompt, t->prompt_length, &s->stop,
					    &t->ids, e);
	t->rendered_ids = t->ids.count;
	return failed;
}

/* ---- what of it can be computed ---- */

static int check_length(const struct session *s, struct err *e)
{
	size_t count = s->turn.ids.count;
	if (!count)
		return err_set(e, EINVAL, "the prompt has no tokens");
	return count < s->model->id.context ? 0 : too_long(s, e);
}

int turn_check_ids(const struct session *s, struct err *e)
{
	for (size_t i = 0; i < s->turn.ids.count; i++)
		if (s->turn.ids.ids[i] >= s->model->id.config.vocabulary)
			return err_set(e, EINVAL,
				       "the tokenizer gives token %u, but the model's vocabulary "
				       "is %u: they do "
				       "not belong together",
				       s->turn.ids.ids[i], s->model->id.config.vocabulary);
	return 0;
}

/* What the context already holds of the ids need not be computed again; the last id always is, for
 * its logits. A recurrent state or a window may have to go back further, and is marked where the
 * turn begins, so that undoing the turn or writing it anew goes back to there. Nothing stays that
 * was computed by other weights, or with other losses than the turn's: both are the same for a
 * whole context, so it is all or nothing. */
static void reuse_context(struct session *s)
{
	const struct token_list *have = &s->context.tokens, *want = &s->turn.ids;
	size_t same = 0;
	uint64_t weights = s->model->run.weights_sum;
	if (s->weights_sum == weights && step_same_losses(&s->context_losses, &s->turn.losses))
		while (same < have->count && same + 1 < want->count &&
		       have->ids[same] == want->ids[same])
			same++;
	size_t left = context_rollback(&s->context, same);
	if (s->turn.follow)
		drafter_begin(&s->drafter, &s->context);
	else
		drafter_drop(&s->drafter);
	context_checkpoint(&s->context, left);
	s->turn.recomputed = same - left;
	s->context_losses = s->turn.losses;
	s->weights_sum = weights;
}

/* An answer that is gone on with has said what it has. */
static int note_repetition(struct turn *t, uint32_t vocabulary, struct err *e)
{
	const struct penalties by = {
		.repetition = (float)t->params.repetition_penalty,
		.frequency = (float)t->params.frequency_penalty,
		.presence = (float)t->params.presence_penalty,
	};
	int failed = sampler_repetition_init(&t->repetition, by, vocabulary);
	if (!failed)
		failed = sampler_repetition_add_prompt(&t->repetition, t->ids.ids, t->rendered_ids);
	for (size_t i = t->rendered_ids; i < t->ids.count && !failed; i++)
		failed = sampler_repetition_add_answer(&t->repetition, t->ids.ids[i]);
	if (failed)
		return err_set(e, ENOMEM, "out of memory for the repetition penalties");
	return 0;
}

/* What it goes on with is given out again: an answer is read whole. */
static int begin_answering(struct session *s, struct err *e)
{
	struct turn *t = &s->turn;
	const struct model_run *r = &s->model->run;
	const struct json *tools = t->chat ? s->conversation.tools.json : NULL;
	bool skip_space = t->chat && tokenizer_leads_with_space(r->tokenizer);
	const struct split_form *form =
		t->chat ? chat_template_form(r->chat, tools != NULL) : split_form_named(NULL);
	bool given = turn_has_given(t); /* its own text stops nothing */
	int failed = answering_begin(&t->answering, form, tools, t->answering.thinking,
				     given ? "" : t->params.stop, skip_space, e);
	t->answering.keep = tools && !chat_template_writes_calls(r->chat);
	for (size_t i = 0; i < t->earlier.count && !failed; i++)
		failed = turn_say(s, t->earlier.ids[i], e);
	if (given && !failed)
		failed = answering_set_stops(&t->answering, t->params.stop, e);
	return failed;
}

int turn_begin(struct session *s, struct err *e)
{
	struct turn *t = &s->turn;
	const struct model *m = s->model;
	t->chat = t->params.chat == CHAT_ON ||
		  (t->params.chat == CHAT_UNSET && model_run_chats(&m->run));
	if (t->chat && !m->run.chat)
		return cannot_chat(m, e);
	int failed = t->chat || t->prompt
			     ? 0
			     : err_set(e, EINVAL,
				       "messages.json is a conversation, but this model has no "
				       "chat template; it only continues prompts");
	if (!failed)
		failed = encode(s, e);
	if (!failed)
		failed = check_length(s, e);
	if (!failed)
		failed = turn_check_ids(s, e);
	if (!failed)
		failed = note_repetition(t, m->id.config.vocabulary, e);
	if (!failed)
		failed = logprobs_begin(s, e);
	if (!failed)
		failed = begin_answering(s, e);
	if (!failed)
		failed = constrain_begin(s, e);
	if (failed)
		return failed;
	t->prompt_ids = t->ids.count;
	t->follow = draft_follows(s);
	reuse_context(s);
	t->begun = true;
	return 0;
}

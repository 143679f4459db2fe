/* The beginning of a turn: renders the messages and encodes them to ids (turn_prepare), and reuses
 * what is computed of them (turn_admit, turn_prefix.c). */
#include "engine/answer/split_forms.h"
#include "engine/model/model_state.h"
#include "engine/turn/turn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- an answer whose beginning was written into the messages ----
 *
 * If the last message is an assistant's, the turn continues its text (servers call this prefill).
 * The ids of this text come after the rendered conversation, like those of an answer that was cut
 * short. */

struct marked { /* a text with the right of each byte (enum token_right) */
	struct text_out bytes, rights;
};

static void turn_marked_add(struct marked *m, const char *text, size_t n, enum token_right right)
{
	char rights[256];
	memset(rights, right, sizeof rights);
	text_out_add(&m->bytes, text, n);
	for (size_t step; n > 0; n -= step) {
		step = n < sizeof rights ? n : sizeof rights;
		text_out_add(&m->rights, rights, step);
	}
}

static void turn_marked_add_mark(struct marked *m, const char *mark)
{
	turn_marked_add(m, mark, strlen(mark), MAY_ALL);
}

/* If the message has thoughts, or the template has begun thoughts, they end before the text. */
static void turn_write_given(struct marked *m, const struct turn_state *t,
			     const struct split_form *form)
{
	bool open = t->session->answering.thinking == THINKING_OPEN,
	     thinks = open || t->session->asked.given_thoughts.n;
	const char *line = form->channels ? "" : "\n";
	if (thinks && !open) {
		turn_marked_add_mark(m, form->think_begin);
		turn_marked_add_mark(m, line);
	}
	turn_marked_add(m, t->session->asked.given_thoughts.bytes,
			t->session->asked.given_thoughts.n, MAY_MARKS);
	if (!t->session->asked.given.n)
		return;
	if (thinks) {
		turn_marked_add_mark(m, line);
		turn_marked_add_mark(m, form->think_end);
		turn_marked_add_mark(m, form->channels ? CHANNEL_START "assistant" : "\n\n");
	}
	if (form->channels)
		turn_marked_add_mark(m, CHANNEL_NAME "final" CHANNEL_MESSAGE);
	turn_marked_add(m, t->session->asked.given.bytes, t->session->asked.given.n, MAY_MARKS);
}

static bool turn_has_given(const struct turn_state *t)
{
	return t->session->asked.given.n || t->session->asked.given_thoughts.n;
}

static int turn_encode_given(struct turn_state *t, struct err *e)
{
	const struct model_loaded *r = &t->env->model->loaded;
	struct marked m = {0};
	if (!turn_has_given(t) || t->session->asked.earlier.count)
		return 0;
	turn_write_given(&m, t, chat_template_form(r->chat, t->dialogue.tools.json != NULL));
	int failed = m.bytes.failed || m.rights.failed
			     ? err_set(e, ENOMEM, "out of memory for the beginning of an answer")
			     : tokenizer_encode_rights(
				       r->tokenizer, m.bytes.bytes, (const uint8_t *)m.rights.bytes,
				       m.bytes.n, &t->session->stop, &t->session->asked.earlier, e);
	text_out_free(&m.bytes);
	text_out_free(&m.rights);
	return failed;
}

/* ---- from messages to ids ---- */

static int turn_cannot_chat(const struct model *m, struct err *e)
{
	const struct err *why = &m->loaded.no_chat;
	err_set(e, why->code,
		why->code == ENODATA
			? "%s: %s (echo off > params/chat)"
			: "%s: %s; mount with -o template=FILE, or echo off > params/chat",
		m->id.name, why->text);
	return err_name(e, "no_template");
}

/* Finds where the answer's own marks begin, after the last mark of the conversation's format. */
static size_t turn_find_fork(const struct tokenizer *tokens, const struct token_list *ids)
{
	enum { MOST = 64 }; /* the text that makes a model answer is short */
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

static int turn_encode_messages(struct turn_state *t, struct err *e)
{
	const struct model *m = t->env->model;
	struct template_text text = {0};
	t->ids.count = 0;
	int failed = dialogue_render(&t->dialogue, m->loaded.chat, &t->session->asked.params,
				     &t->session->stop, &text, e);
	/* A text that certainly does not fit is not encoded, since other turns wait meanwhile. */
	t->unencoded = text.length > model_max_prompt_bytes(m) ? text.length : 0;
	if (!failed && !t->unencoded)
		failed = chat_encode_text(m->loaded.chat, &text, &t->session->stop, &t->ids, e);
	if (!failed) {
		t->session->answering.thinking = split_thinking_of(text.bytes, text.length);
		t->fork = turn_find_fork(m->loaded.tokenizer, &t->ids);
		failed = turn_find_opening(t, &text, e);
	}
	if (!failed && !t->unencoded)
		failed = turn_encode_given(t, e);
	template_text_free(&text);
	return failed;
}

/* ---- a context that is full ---- */

/* The number of tokens. For a text that is not encoded, a number close to the possible minimum. */
static size_t turn_wanted(const struct turn_state *t)
{
	enum { BYTES_PER_TOKEN = 16 };
	return t->ids.count + t->unencoded / BYTES_PER_TOKEN + t->session->asked.earlier.count;
}

/* Whether to leave out the oldest turns. By default not if a program wrote all messages (as over
 * HTTP): the program should shorten them itself. */
static bool turn_drops(const struct turn_state *t)
{
	const struct asked *asked = &t->session->asked;
	return asked->params.on_full == FULL_DROP_OLDEST ||
	       (asked->params.on_full == FULL_AUTO && !asked->whole);
}

static int turn_too_long(const struct turn_state *t, struct err *e)
{
	err_set(e, EFBIG,
		"the prompt is %s%zu tokens with the conversation before it, but the context holds "
		"%u; shorten it, echo reset > ctl (of an ask file: open it again), %sor mount with "
		"a larger -o context=",
		t->unencoded ? "at least " : "", turn_wanted(t), t->env->model->id.context,
		turn_drops(t) ? "" : "echo drop-oldest > params/on_full, ");
	err_number(e, "tokens", turn_wanted(t));
	err_number(e, "maximum", t->env->model->id.context);
	return err_name(e, "prompt_too_long");
}

/* Counts the oldest whole turns after the system message that have this share of all messages'
 * bytes, never the last turn. Returns their number of messages. */
static size_t turn_oldest_turns(const struct messages *m, double share, size_t *first,
				uint32_t *turns)
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

static int turn_add_drop(struct turn_event *ev, struct turn_drop drop, struct err *e)
{
	struct turn_drop *drops = reallocarray(ev->drops, ev->drop_count + 1, sizeof *drops);
	if (!drops)
		return err_set(e, ENOMEM, "out of memory for leaving out turns");
	drops[ev->drop_count++] = drop;
	ev->drops = drops;
	return 0;
}

/* Keeps a quarter of the context free for the answer, and so that the next turns need not drop
 * anything. */
static int turn_drop_oldest(struct turn_state *t, struct turn_event *ev, struct err *e)
{
	double fits = .75 * t->env->model->id.context / (double)turn_wanted(t);
	struct turn_drop drop;
	drop.count = turn_oldest_turns(&t->dialogue.messages, 1 - fits, &drop.first, &drop.turns);
	if (!drop.count)
		return turn_too_long(t, e);
	messages_remove(&t->dialogue.messages, drop.first, drop.count);
	return turn_add_drop(ev, drop, e);
}

static int turn_encode_conversation(struct turn_state *t, struct turn_event *ev, struct err *e)
{
	int failed = turn_encode_messages(t, e);
	while (!failed && turn_wanted(t) >= t->env->model->id.context && turn_drops(t)) {
		failed = turn_drop_oldest(t, ev, e);
		if (!failed)
			failed = turn_encode_messages(t, e);
	}
	if (!failed && t->unencoded)
		failed = turn_too_long(t, e);
	t->rendered_ids = t->ids.count;
	if (!failed)
		failed = token_list_append(&t->ids, t->session->asked.earlier.ids,
					   t->session->asked.earlier.count, e);
	return failed;
}

static int turn_encode(struct turn_state *t, struct turn_event *ev, struct err *e)
{
	const struct model_loaded *r = &t->env->model->loaded;
	if (t->session->asked.refused.code) {
		*e = t->session->asked.refused;
		return -e->code;
	}
	if (t->chat)
		return turn_encode_conversation(t, ev, e);
	t->session->answering.thinking = THINKING_OFF;
	int failed = tokenizer_encode_alone(r->tokenizer, t->session->asked.prompt,
					    t->session->asked.prompt_length, &t->session->stop,
					    &t->ids, e);
	t->rendered_ids = t->ids.count;
	return failed;
}

/* ---- what of it can be computed ---- */

static int turn_check_length(const struct turn_state *t, struct err *e)
{
	size_t count = t->ids.count;
	if (!count)
		return err_set(e, EINVAL, "the prompt has no tokens");
	return count < t->env->model->id.context ? 0 : turn_too_long(t, e);
}

/* Checks that all ids are in the vocabulary. They are not if the tokenizer belongs to another
 * model. */
static int turn_check_ids(const struct turn_state *t, struct err *e)
{
	for (size_t i = 0; i < t->ids.count; i++)
		if (t->ids.ids[i] >= t->env->model->id.config.vocabulary)
			return err_set(e, EINVAL,
				       "the tokenizer gives token %u, but the model's vocabulary "
				       "is %u: they do "
				       "not belong together",
				       t->ids.ids[i], t->env->model->id.config.vocabulary);
	return 0;
}

/* If an answer that ended by repetition continues, counting starts again. */
static void turn_note_periods(struct turn_state *t)
{
	periods_begin(&t->periods, t->rendered_ids);
	for (size_t count = t->rendered_ids + 1; count <= t->ids.count; count++) {
		periods_take(&t->periods, t->ids.ids, count);
		if (t->periods.repeats)
			periods_begin(&t->periods, count);
	}
}

/* For repetition penalties, a continued answer's earlier tokens count, too. */
static int turn_note_repetition(struct turn_state *t, uint32_t vocabulary, struct err *e)
{
	const struct penalties by = {
		.repetition = (float)t->session->asked.params.repetition_penalty,
		.frequency = (float)t->session->asked.params.frequency_penalty,
		.presence = (float)t->session->asked.params.presence_penalty,
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

/* Outputs the text again that the turn continues, since a reader gets the whole answer. */
static int turn_begin_answering(struct turn_state *t, struct turn_event *ev, struct err *e)
{
	const struct model_loaded *r = &t->env->model->loaded;
	const struct asked *asked = &t->session->asked;
	struct answering *a = &t->session->answering;
	const struct json *tools = t->chat ? t->dialogue.tools.json : NULL;
	bool skip_space = t->chat && tokenizer_leads_with_space(r->tokenizer);
	const struct split_form *form =
		t->chat ? chat_template_form(r->chat, tools != NULL) : split_form_named(NULL);
	bool given = turn_has_given(t); /* stop texts do not apply to the user's own text */
	int failed = answering_begin(a, form, tools, a->thinking, given ? "" : asked->params.stop,
				     skip_space, e);
	a->keep = tools && !chat_template_writes_calls(r->chat);
	for (size_t i = 0; i < asked->earlier.count && !failed; i++)
		failed = turn_say(t, asked->earlier.ids[i], ev, e);
	if (given && !failed)
		failed = answering_set_stops(a, asked->params.stop, e);
	return failed;
}

static int turn_prepare_answer(struct turn_state *t, struct turn_event *ev, struct err *e)
{
	const struct model *m = t->env->model;
	const struct asked *asked = &t->session->asked;
	t->chat = asked->params.chat == CHAT_ON ||
		  (asked->params.chat == CHAT_UNSET && model_loaded_chats(&m->loaded));
	if (t->chat && !m->loaded.chat)
		return turn_cannot_chat(m, e);
	int failed = t->chat || asked->prompt
			     ? 0
			     : err_set(e, EINVAL,
				       "messages.json is a conversation, but this model has no "
				       "chat template; it only continues prompts");
	if (!failed)
		failed = turn_encode(t, ev, e);
	if (!failed)
		failed = turn_check_length(t, e);
	if (!failed)
		failed = turn_check_ids(t, e);
	if (!failed)
		failed = turn_note_repetition(t, m->id.config.vocabulary, e);
	if (!failed)
		turn_note_periods(t);
	if (!failed)
		failed = logprobs_begin(t, ev, e);
	if (!failed)
		failed = turn_begin_answering(t, ev, e);
	if (!failed)
		failed = constrain_begin(t, e);
	if (!failed)
		failed = choose_begin(t, e);
	t->prompt_ids = t->ids.count;
	return failed;
}

int turn_snapshot(struct turn_state *t, struct err *e)
{
	t->owner = t->session->owner;
	return dialogue_copy(&t->dialogue, &t->session->dialogue, e);
}

static int turn_prepare_score(struct turn_state *t, struct turn_event *ev, struct err *e)
{
	const struct asked *asked = &t->session->asked;
	int failed = tokenizer_encode_alone(t->env->model->loaded.tokenizer, asked->prompt,
					    asked->prompt_length, &t->session->stop, &t->ids, e);
	if (!failed)
		failed = score_check_length(t, e);
	if (!failed)
		failed = turn_check_ids(t, e);
	if (failed)
		return failed;
	t->rendered_ids = t->prompt_ids = t->ids.count;
	return score_begin(t, &ev->piece.content, e);
}

static int turn_prepare_embedding(struct turn_state *t, struct err *e)
{
	int failed = embed_begin(t, e);
	return failed ? failed : turn_check_ids(t, e);
}

int turn_prepare(struct turn_state *t, struct turn_event *ev, struct err *e)
{
	t->losses = params_losses(&t->session->asked.params);
	if (t->session->asked.embeds)
		return turn_prepare_embedding(t, e);
	if (t->env->model->id.config.embedding.headless)
		return err_set(e, ENOTSUP,
			       "%s only makes embeddings: its checkpoint has no output head "
			       "(lm_head.weight)",
			       t->env->model->id.name);
	if (t->session->asked.scores)
		return turn_prepare_score(t, ev, e);
	int failed = dialogue_parse(&t->dialogue, e);
	if (!failed && t->session->asked.params.format == FORMAT_CHOICES)
		failed = dialogue_set_tools(&t->dialogue, "", 0, e);
	if (!failed)
		failed = turn_prepare_answer(t, ev, e);
	if (!failed)
		failed = recall_find(t, ev, e);
	if (failed) /* a refused turn leaves out no messages */
		ev->drop_count = 0;
	return failed;
}

/* ---- what the context holds already ---- */

/* Drops the context, because scoring needs the logits of all rows. */
static void turn_forget_context(struct turn_state *t)
{
	struct session *s = t->session;
	context_rollback(&s->context, 0);
	context_suit(&s->context, t->ids.count);
	drafter_drop(&s->drafter);
	s->context_private = false;
	s->context_losses = t->losses;
	s->context_losses.steering = NULL;
	s->weights_sum = t->env->model->loaded.weights_sum;
}

void turn_admit(struct turn_state *t)
{
	if (t->session->asked.scores) {
		turn_forget_context(t);
	} else {
		t->follow = draft_follows(t) && !choose_works(&t->choose);
		t->undrafted |= choose_works(&t->choose);
		turn_reuse_context(t);
	}
	t->admitted = true;
}

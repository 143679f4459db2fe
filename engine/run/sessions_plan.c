/* Predicts the cost of a turn (session_plan). forecast.h predicts the times. */
#include "engine/model/load.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"
#include "engine/session/state.h"
#include "engine/session/texts.h"
#include "engine/turn/recall.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* ---- the turn's tokens ---- */

/* Encodes the text that the model would read: with text[length] as the next prompt, or, if text is
 * NULL, only the conversation. Fills `asked` for this turn. */
static int session_plan_encode(const struct model *m, struct texts_copy *c, const char *text,
			   size_t length, struct token_list *ids, struct recall_asked *asked,
			   struct err *e)
{
	struct template_text rendered = {0};
	asked->chat = c->params.chat == CHAT_ON ||
		      (c->params.chat == CHAT_UNSET && model_loaded_chats(&m->loaded));
	asked->thinking = THINKING_OFF;
	asked->prompt = text ? text : "";
	asked->prompt_length = text ? length : 0;
	if (!asked->chat)
		return tokenizer_encode_alone(m->loaded.tokenizer, asked->prompt,
					      asked->prompt_length, NULL, ids, e);
	if (!text && !c->dialogue.messages.count)
		return err_set(e, ENODATA,
			       "there are no messages yet; write a prompt into plan, opened for "
			       "reading and writing");
	int failed = dialogue_parse(&c->dialogue, e);
	if (!failed && text)
		failed = messages_add(&c->dialogue.messages, "user", text, length, e);
	if (!failed)
		failed = dialogue_render(&c->dialogue, m->loaded.chat, &c->params, NULL, &rendered,
					 e);
	if (!failed)
		failed = chat_encode_text(m->loaded.chat, &rendered, NULL, ids, e);
	asked->thinking = (int)split_thinking_of(rendered.bytes, rendered.length);
	template_text_free(&rendered);
	return failed;
}

/* How many positions of the session's context the turn would reuse. The run's lock is held. */
static size_t session_plan_own(const struct session *s, const struct token_list *ids,
			   const struct losses *losses)
{
	const struct recurrent *r = &s->context.recurrent;
	if (s->working || s->stepping || s->weights_sum != s->model->loaded.weights_sum ||
	    !step_same_losses(&s->context_losses, losses))
		return 0;
	size_t common = prefixes_common(&s->context.tokens, ids), reach = 0;
	if (!r->bytes || common == s->context.tokens.count)
		return common;
	pthread_mutex_lock(&s->context.budget->lock);
	for (uint32_t i = 0; i < r->checkpoint_count; i++)
		if (r->checkpoints[i].position <= common)
			reach = r->checkpoints[i].position;
	pthread_mutex_unlock(&s->context.budget->lock);
	return reach;
}

static size_t session_plan_kept(struct session *s, const struct params *p, const struct token_list *ids)
{
	const struct model *m = s->model;
	struct run *r = m->run;
	struct prefix_key key = {.owner = m->engine->options.share_all ? 0 : s->owner,
				 .losses = params_losses(p)};
	key.losses.steering = NULL;
	memcpy(key.share, p->share_with, sizeof key.share);
	pthread_mutex_lock(&r->lock);
	key.weights = m->loaded.weights_sum;
	size_t own = session_plan_own(s, ids, &key.losses);
	pthread_mutex_unlock(&r->lock);
	key.long_text = context_is_long(&s->context, ids->count);
	size_t kept = step_needs_cache(&key.losses) ? 0 : prefixes_reach(&r->prefixes, &key, ids);
	own = own > kept ? own : kept;
	return own < ids->count ? own : ids->count - (ids->count > 0);
}

/* ---- experts ---- */

/* Expected bytes to read for this many tokens: of experts that they choose and that are not in
 * memory, if all experts of a layer are equally likely. */
static uint64_t session_plan_expert_bytes(const struct model *m, uint64_t tokens, uint32_t top_k)
{
	double bytes = 0;
	for (uint32_t l = 0; l < model_layers(m) && tokens; l++) {
		uint32_t experts = model_experts(m, l), missing = 0;
		for (uint32_t i = 0; i < experts; i++) {
			struct model_expert now;
			model_expert_inspect(m, l, i, &now);
			missing += !now.resident && !now.on_gpu;
		}
		double each = experts ? (double)top_k / experts : 0;
		bytes += missing * (1 - pow(1 - each, (double)tokens)) *
			 (double)(experts ? model_expert_bytes(m, l) : 0);
	}
	return (uint64_t)bytes;
}

/* ---- an answer that is remembered ---- */

/* Whether the answer is on disk. Not checked for choices, since their ids are not known before each
 * is encoded, nor if turns must be dropped first. */
static bool session_plan_remembered(const struct session *s, const struct texts_copy *c,
				    const struct token_list *ids, struct recall_asked *asked)
{
	const struct model *m = s->model;
	struct remember *r = m->run->env.remember;
	if (!r || s->observer || c->params.format == FORMAT_CHOICES || !ids->count ||
	    ids->count >= m->id.context || !recall_may(&c->params) ||
	    !state_weights(m, &asked->weights))
		return false;
	asked->model = m;
	asked->params = &c->params;
	asked->dialogue = &c->dialogue;
	asked->ids = ids;
	asked->rendered = ids->count;
	return recall_knows(r, s->owner, asked);
}

/* Sets the plan of a remembered answer: nothing is computed. */
static void session_plan_recall(struct session_plan *p)
{
	p->remembered = true;
	p->kept_tokens = p->prompt_tokens;
	p->new_tokens = p->expert_bytes = 0;
	p->timed = true;
	p->first_token_seconds = p->first_token_off = p->token_seconds = p->token_off = 0;
}

/* ---- the whole ---- */

static void session_plan_times(struct model *m, struct session_plan *out)
{
	const struct forecast *f = &m->run->forecast;
	pthread_mutex_lock(&m->run->lock);
	out->timed = forecast_at(&f->first, (double)out->new_tokens, &out->first_token_seconds,
				 &out->first_token_off) &&
		     forecast_at(&f->token, 0, &out->token_seconds, &out->token_off);
	if (f->read_seconds > 0 && f->read_bytes > 0)
		out->first_token_seconds +=
			(double)out->expert_bytes * f->read_seconds / f->read_bytes;
	pthread_mutex_unlock(&m->run->lock);
}

/* Copies the inputs of the turn, once the tokenizer and the template are loaded. */
static int session_plan_copy(struct session *s, const char *text, struct texts_copy *c,
			     struct err *e)
{
	struct model *m = s->model;
	int failed = text ? load_tokenizer_once(m, e) : 0;
	if (!failed && !atomic_load(&m->loaded.speaks))
		failed = err_set(e, EAGAIN, "model not loaded");
	if (failed)
		return failed;
	pthread_mutex_lock(&m->run->lock);
	failed = params_copy(&c->params, &s->params, e);
	if (!failed && (failed = dialogue_copy(&c->dialogue, &s->dialogue, e)))
		params_free(&c->params);
	pthread_mutex_unlock(&m->run->lock);
	return failed;
}

int session_plan(struct session *s, const char *text, size_t length, struct session_plan *out,
		 struct err *e)
{
	struct model *m = s->model;
	struct texts_copy c = {0};
	struct token_list ids = {0};
	struct recall_asked asked = {0};
	*out = (struct session_plan){0};
	int failed = session_plan_copy(s, text, &c, e);
	if (failed)
		return failed;
	failed = session_plan_encode(m, &c, text, length, &ids, &asked, e);
	if (!failed) {
		uint64_t top_k = c.params.experts_per_token;
		out->prompt_tokens = ids.count;
		out->kept_tokens = session_plan_kept(s, &c.params, &ids);
		out->new_tokens = out->prompt_tokens - out->kept_tokens;
		out->context_left = ids.count < m->id.context ? m->id.context - ids.count : 0;
		out->expert_bytes = session_plan_expert_bytes(
			m, out->new_tokens,
			top_k ? (uint32_t)top_k : m->id.config.experts_per_token);
		session_plan_times(m, out);
		if (session_plan_remembered(s, &c, &ids, &asked))
			session_plan_recall(out);
	}
	token_list_free(&ids);
	texts_copy_free(&c);
	return failed;
}

/* Reuses what is computed of a turn's ids, by its session or by others whose texts begin the same
 * way (engine/prefixes); keeps prefixes for other turns; and explains why tokens are computed
 * again. */
#include "engine/json/text_out.h"
#include "engine/model/model_state.h"
#include "engine/prefixes/prefixes.h"
#include "engine/turn/turn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- where conversations part ---- */

/* The offset of the first user message in the rendered text; 0: not found. A template may trim a
 * message, so white space at the message's beginning is ignored. */
static size_t turn_find_first_user(const struct messages *all, const struct template_text *text)
{
	enum { ENOUGH = 64 };
	size_t i = 0, n, at = 0;
	while (i < all->count && !message_is(&all->items[i], "user"))
		i++;
	char *content = i < all->count ? message_text(&all->items[i], &n) : NULL;
	if (!content)
		return 0;
	const char *words = content + strspn(content, " \t\r\n");
	n = strlen(words) < ENOUGH ? strlen(words) : ENOUGH;
	for (size_t k = 1; n && !at && k + n <= text->length; k++)
		if (text->from[k] == MAY_TEXT && text->from[k - 1] != MAY_TEXT &&
		    !memcmp(text->bytes + k, words, n))
			at = k;
	free(content);
	return at;
}

int turn_find_opening(struct turn_state *t, const struct template_text *text, struct err *e)
{
	struct token_list ids = {0};
	struct template_text opening = *text;
	if (t->env->prefixes->goes_back)
		return 0; /* no checkpoint is needed there */
	opening.length = turn_find_first_user(&t->dialogue.messages, text);
	if (!opening.length)
		return 0;
	int failed =
		chat_encode_text(t->env->model->loaded.chat, &opening, &t->session->stop, &ids, e);
	if (!failed)
		t->opening = prefixes_common(&ids, &t->ids);
	token_list_free(&ids);
	return failed;
}

size_t turn_next_stop(const struct turn_state *t, size_t held)
{
	size_t opening = t->opening > held ? t->opening : SIZE_MAX,
	       fork = t->fork > held ? t->fork : SIZE_MAX;
	if (t->env->prefixes->goes_back)
		return SIZE_MAX;
	return opening < fork ? opening : fork;
}

/* ---- taking over and keeping ---- */

static struct prefix_key turn_prefix_key(const struct turn_state *t)
{
	const struct model *m = t->env->model;
	struct prefix_key key = {.owner = m->engine->options.share_all ? 0 : t->owner,
				 .weights = m->loaded.weights_sum,
				 .losses = t->losses,
				 .long_text = context_is_long(&t->session->context, t->ids.count)};
	key.losses.steering = NULL; /* the key outlives it */
	memcpy(key.share, t->session->asked.params.share_with, sizeof key.share);
	return key;
}

/* Whether the turn may share computed prefixes with others. Not if its numbers depend on the cache
 * or on a file from which the session was restored, nor if an observer must see all rows. */
static bool turn_shares(const struct turn_state *t)
{
	const struct session *s = t->session;
	return !s->observer && !s->background && !s->context_private &&
	       !step_needs_cache(&t->losses);
}

/* How many bytes the first `count` ids take in SESSION_RENDERED. */
static uint64_t turn_text_bytes(const struct turn_state *t, size_t count)
{
	struct text_out text = {.counts = true};
	tokenizer_spell(t->env->model->loaded.tokenizer, t->ids.ids, count, &text);
	return text.n;
}

void turn_keep_prefix(struct turn_state *t, bool over)
{
	enum { DISTANCE = 1024 }; /* between two checkpoints of a long prompt */
	struct session *s = t->session;
	const struct prefixes *p = t->env->prefixes;
	size_t held = s->context.tokens.count;
	bool place = over || p->goes_back || held == t->opening || held == t->fork ||
		     held >= t->kept + DISTANCE;
	if (!place || !turn_shares(t))
		return;
	const struct prefix_key key = turn_prefix_key(t);
	forward_bring_state(&t->env->model->loaded.forward, &s->context);
	uint64_t id = prefixes_offer(t->env->prefixes, &key, t->owner, &s->context,
				     turn_text_bytes(t, held));
	t->kept = held;
	if (id)
		atomic_store(&s->prefix, id);
}

/* ---- why something is computed again ---- */

static const char *const reasons[] = {
	[PREFIX_ALL] = "nothing had to be computed again",
	[PREFIX_NONE] = "no kept text has the same beginning: the text is new, or "
			"what was kept of it was removed or evicted long ago",
	[PREFIX_EVICTED] = "the same text was kept, but its memory was needed",
	[PREFIX_DIFFERS] = "the texts differ",
	[PREFIX_LOSSES] = "the same text was computed with other params (experts_per_token, "
			  "drop_missing, substitute)",
	[PREFIX_WEIGHTS] = "the same text was computed by other weights: the store was made again",
	[PREFIX_LONG] = "this model rotates keys differently in texts beyond a certain "
			"length, and the text has crossed it",
	[PREFIX_CHECKPOINT] = "more of the text is the same, but this model can only go back "
			      "to checkpoints, and there is no later one",
	[PREFIX_GIVEN_UP] = "the session had computed it, but its memory was needed",
	[PREFIX_DISK_FULL] = "the session had computed it, but its memory was needed, and there was "
			     "no room for it on disk (-o offload=)",
	[PREFIX_DISK_LOST] = "the session had computed it, but its memory was needed, and it could "
			     "not be read back from disk",
	[PREFIX_PRIVATE] = "a session that was restored, or drops or substitutes experts, shares nothing",
};

static void turn_explain_side(const struct turn_state *t, struct text_out *out, const char *name,
			      const uint32_t *ids, size_t count)
{
	struct text_out text = {0};
	tokenizer_spell(t->env->model->loaded.tokenizer, ids, count, &text);
	text_out_string(out, name);
	text_out_json_text(out, text.n ? text.bytes : "", text.n);
	text_out_string(out, "\n");
	out->failed |= text.failed;
	text_out_free(&text);
}

static void turn_explain_number(struct text_out *out, const char *name, uint64_t number)
{
	char line[64];
	(void)snprintf(line, sizeof line, "%s %" PRIu64 "\n", name, number);
	text_out_string(out, line);
}

/* The text most similar to the prompt, the session's own or a kept one, and how much of it was
 * reused. */
struct turn_likeness {
	size_t positions;
	bool own;
	struct prefix_found found;
};

static void turn_explain(struct turn_state *t, const struct turn_likeness *l)
{
	const struct prefix_found *f = &l->found;
	struct text_out out = {0};
	size_t rest = t->ids.count - f->common;
	turn_explain_number(&out, "prompt_tokens", t->ids.count);
	turn_explain_number(&out, "found_tokens", l->positions);
	text_out_string(&out, !l->positions ? "found_in nothing\n"
			      : l->own	    ? "found_in session\n"
					    : "found_in prefixes\n");
	if (l->own && l->positions && t->session->brought_back)
		turn_explain_number(&out, "from_disk_tokens", t->session->brought_back);
	text_out_string(&out, "reason ");
	text_out_string(&out, reasons[f->reason]);
	text_out_string(&out, "\n");
	if (f->reason == PREFIX_EVICTED)
		turn_explain_number(&out, "evicted_tokens", f->common);
	if (f->reason == PREFIX_DIFFERS) {
		turn_explain_number(&out, "differs_at_token", f->common);
		turn_explain_number(&out, "differs_at_byte", turn_text_bytes(t, f->common));
		turn_explain_side(t, &out, "was ", f->look, f->look_count);
		turn_explain_side(t, &out, "is ", t->ids.ids + f->common,
				  rest < PREFIX_LOOK ? rest : PREFIX_LOOK);
	}
	free(t->why);
	t->why = out.failed ? NULL : out.bytes;
	if (out.failed)
		text_out_free(&out);
}

static void turn_judge(const struct turn_state *t, struct turn_likeness *l)
{
	struct prefix_found *f = &l->found;
	size_t most = f->common < t->ids.count ? f->common : t->ids.count - 1;
	bool same = f->reason == PREFIX_ALL || f->reason == PREFIX_DIFFERS;
	if (l->positions + 1 >= t->ids.count)
		f->reason = PREFIX_ALL;
	else if (t->session->context_given_up)
		f->reason = t->session->offload_failed == ENOSPC ? PREFIX_DISK_FULL
			    : t->session->offload_failed       ? PREFIX_DISK_LOST
							       : PREFIX_GIVEN_UP;
	else if (t->session->context_private && f->reason == PREFIX_NONE)
		f->reason = PREFIX_PRIVATE;
	else if (same && l->positions < most && most >= PREFIX_LEAST)
		f->reason = PREFIX_CHECKPOINT;
}

/* ---- at the beginning of a turn ---- */

/* Rolls the session's own context back to the ids that it has in common with the turn, and returns
 * their number. If weights or lossy params differ, nothing of the context is used. */
static size_t turn_reuse_own(struct turn_state *t, size_t common)
{
	struct session *s = t->session;
	bool same = s->weights_sum == t->env->model->loaded.weights_sum &&
		    step_same_losses(&s->context_losses, &t->losses);
	size_t most = common < t->ids.count ? common : t->ids.count - 1;
	context_suit(&s->context, t->ids.count);
	size_t left = context_rollback(&s->context, same ? most : 0);
	t->recomputed = same ? most - left : 0;
	s->context_private &= left > 0;
	return left;
}

/* Takes over a kept prefix if it is longer than the session's own context by at least a block. For
 * less it would not be worth it, since the session's own context includes the draft layer's keys.
 */
static size_t turn_reuse_kept(struct turn_state *t, size_t left, struct prefix_found *found)
{
	struct session *s = t->session;
	const struct prefix_key key = turn_prefix_key(t);
	struct context taken;
	context_init(&taken, s->context.budget, &t->env->model->id.config, s->context.type);
	prefixes_find(t->env->prefixes, &key, &t->ids, left ? left + KV_BLOCK : 0, &taken, found);
	if (found->positions > left) {
		context_free(&s->context);
		context_move(&s->context, &taken);
		atomic_store(&s->prefix, found->id);
		left = found->positions;
	}
	context_free(&taken);
	return left;
}

void turn_reuse_context(struct turn_state *t)
{
	struct session *s = t->session;
	struct turn_likeness l = {.found.reason = PREFIX_NONE};
	struct prefix_found own = {.reason = PREFIX_NONE};
	const struct prefix_key key = turn_prefix_key(t),
				computed = {.weights = s->weights_sum,
					    .losses = s->context_losses,
					    .long_text = s->context.long_text};
	size_t common = prefixes_common(&s->context.tokens, &t->ids);
	if (common)
		prefixes_look(&s->context.tokens, &computed, &key, common, t->ids.count, &own);
	size_t left = turn_reuse_own(t, common);
	l.positions = turn_shares(t) ? turn_reuse_kept(t, left, &l.found) : left;
	l.own = l.positions == left;
	if (l.own && own.common >= l.found.common && own.reason != PREFIX_NONE)
		l.found = own;
	if (t->follow)
		drafter_begin(&s->drafter, &s->context);
	else
		drafter_drop(&s->drafter);
	forward_bring_state(&t->env->model->loaded.forward, &s->context);
	context_checkpoint(&s->context, l.positions);
	turn_judge(t, &l);
	turn_explain(t, &l);
	s->context_losses = t->losses;
	s->context_losses.steering = NULL;
	s->weights_sum = t->env->model->loaded.weights_sum;
	s->context_private |= step_needs_cache(&t->losses);
	s->context_given_up = false;
	t->kept = l.positions;
}

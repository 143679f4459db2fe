/* Remembered answers. See recall.h. */
#include "engine/model/model_state.h"
#include "engine/session/results.h"
#include "engine/session/session_state.h"
#include "engine/session/state.h"
#include "engine/turn/turn.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void recall_free(struct recall *r)
{
	text_out_free(&r->key);
	*r = (struct recall){0};
}

/* ---- the key ---- */

__attribute__((format(printf, 2, 3))) static void recall_add(struct text_out *o, const char *format,
							     ...)
{
	char line[256];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	text_out_string(o, line);
}

static void recall_add_text(struct text_out *o, const char *name, const char *text, size_t n)
{
	recall_add(o, "%s %zu\n", name, n);
	text_out_add(o, n ? text : "", n);
	text_out_string(o, "\n");
}

static void recall_add_ids(struct text_out *o, const uint32_t *ids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		recall_add(o, "%" PRIu32 "\n", ids[i]);
}

/* Adds the model's identity and how it computes. */
static void recall_add_model(struct text_out *o, const struct model *m, uint64_t weights)
{
	const struct model_identity *id = &m->id;
	recall_add(o, "version 1\narithmetic %d\n", KERNELS_ARITHMETIC);
	recall_add(o, "config %016" PRIx64 "\nweights %016" PRIx64 "\n", id->config_sum, weights);
	for (size_t i = 0; i < LOAD_TEXTS; i++)
		recall_add(o, "file %016" PRIx64 "\n", m->loaded.texts.sums[i]);
	recall_add(o, "recipe %s\nexact %d\nkv %s\ncontext %" PRIu32 "\n", id->recipe.quant,
		   id->recipe.exact, kv_type_name(model_kv_type(id)), id->context);
}

/* At temperature 0 no random number is used. */
static void recall_add_params(struct text_out *o, const struct params *p)
{
	const size_t seed = params_find("seed");
	for (size_t i = 0; i < params_count(); i++) {
		if (!params_changes_text(i) || (i == seed && !(p->temperature > 0)))
			continue;
		char *value = params_get_unresolved(p, i);
		o->failed |= !value;
		recall_add_text(o, params_name(i), value, value ? strlen(value) : 0);
		free(value);
	}
}

static void recall_add_turn(struct text_out *o, const struct recall_asked *a)
{
	const struct dialogue *d = a->dialogue;
	recall_add(o, "chat %d\nthinking %d\n", a->chat, a->thinking);
	recall_add(o, "rendered %zu\ngiven %zu %zu\n", a->rendered, a->given_thoughts, a->given);
	recall_add_text(o, "tools", d->tools.text, d->tools.text ? d->tools.n : 0);
	if (a->params->format == FORMAT_CHOICES)
		recall_add_text(o, "choices", d->choices.text, d->choices.n);
	/* If choices continue a prompt, the ids end before the end of the prompt, so the prompt's
	 * text is added. */
	if (!a->chat)
		recall_add_text(o, "prompt", a->prompt, a->prompt_length);
	recall_add(o, "ids %zu\n", a->ids->count);
	recall_add_ids(o, a->ids->ids, a->ids->count);
}

bool recall_may(const struct params *p)
{
	const struct losses losses = params_losses(p);
	return (!(p->temperature > 0) || !p->seed_random) && !step_needs_cache(&losses);
}

static void recall_write_key(struct text_out *key, const struct recall_asked *a)
{
	recall_add_model(key, a->model, a->weights);
	recall_add_text(key, "share_with", a->params->share_with, strlen(a->params->share_with));
	recall_add_params(key, a->params);
	recall_add_turn(key, a);
	if (key->failed)
		text_out_free(key);
}

static void recall_make_key(struct turn_state *t)
{
	const struct session *s = t->session;
	const struct asked *asked = &s->asked;
	struct recall *r = &t->recall;
	r->ids = t->ids.count;
	if (!t->env->remember || s->observer || s->background || !recall_may(&asked->params) ||
	    !state_weights(t->env->model, &r->weights))
		return;
	recall_write_key(&r->key, &(struct recall_asked){
					  .model = t->env->model,
					  .weights = r->weights,
					  .params = &asked->params,
					  .dialogue = &t->dialogue,
					  .ids = &t->ids,
					  .rendered = t->rendered_ids,
					  .given_thoughts = asked->given_thoughts.n,
					  .given = asked->given.n,
					  .chat = t->chat,
					  .thinking = (int)s->answering.thinking,
					  .prompt = asked->prompt,
					  .prompt_length = asked->prompt_length,
				  });
}

bool recall_knows(struct remember *r, uint32_t owner, const struct recall_asked *a)
{
	struct text_out key = {0};
	struct remember_entry x = {0};
	recall_write_key(&key, a);
	remember_write(r); /* an answer that has just ended may still wait to be written */
	bool knows = key.n && remember_find(r, owner, &key, &x);
	remember_entry_free(&x);
	text_out_free(&key);
	return knows;
}

/* ---- giving it again ---- */

/* The finish words that a file may have. */
static const char *recall_finish(const struct text_out *word)
{
	static const char *const words[] = {"end", "stop", "length", "repetition"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (word->n == strlen(words[i]) && !memcmp(word->bytes, words[i], word->n))
			return words[i];
	return NULL;
}

/* Whether the answer is still in its thoughts. The choice after them is not sampled. */
static bool recall_thinks(const struct turn_state *t)
{
	const struct split_result r = split_result(t->session->answering.split);
	return r.thinking || split_place(t->session->answering.split) == SPLIT_IN_THOUGHTS;
}

static int recall_say(struct turn_state *t, uint32_t id, struct turn_event *ev, struct err *e)
{
	int failed = token_list_append(&t->ids, &id, 1, e);
	return failed ? failed : turn_say(t, id, ev, e);
}

/* Reads ids, one per line. False: the text has another form, or memory ran out. */
static bool recall_read_ids(const struct turn_state *t, const struct text_out *text,
			    struct token_list *ids)
{
	struct err ignored;
	const char *at = text->n ? text->bytes : "";
	while (*at) {
		char *end;
		uint64_t read = strtoull(at, &end, 10);
		const uint32_t id = (uint32_t)read;
		if (end == at || *end != '\n' || read >= t->env->model->id.config.vocabulary ||
		    token_list_append(ids, &id, 1, &ignored))
			return false;
		at = end + 1;
	}
	return true;
}

static int recall_say_ids(struct turn_state *t, const struct token_list *ids, struct turn_event *ev,
			  struct err *e)
{
	bool chooses = choose_works(&t->choose);
	int failed = 0;
	for (size_t i = 0; i < ids->count && !failed; i++) {
		failed = recall_say(t, ids->ids[i], ev, e);
		if (chooses && !recall_thinks(t))
			return failed;
	}
	return failed;
}

static int recall_say_choice(struct turn_state *t, struct remember_entry *x, struct turn_event *ev,
			     struct err *e)
{
	const struct text_out *said = &x->parts[REMEMBER_ANSWER];
	size_t n = said->n && said->bytes[said->n - 1] == '\n' ? said->n - 1 : said->n;
	if (!choose_works(&t->choose))
		return 0;
	ev->chosen = x->parts[REMEMBER_CHOICES];
	x->parts[REMEMBER_CHOICES] = (struct text_out){0};
	return answering_choose(&t->session->answering, n ? said->bytes : "", n, &ev->piece, e);
}

static void recall_explain(struct turn_state *t)
{
	struct text_out out = {0};
	recall_add(&out, "prompt_tokens %zu\nfound_tokens %zu\nfound_in remembered\n"
			 "reason the answer was remembered (-o remember=): nothing was computed\n",
		   t->recall.ids, t->recall.ids);
	free(t->why);
	t->why = out.failed ? NULL : out.bytes;
	if (out.failed)
		text_out_free(&out);
}

static int recall_give(struct turn_state *t, struct remember_entry *x, struct turn_event *ev,
		       struct err *e)
{
	const char *finish = recall_finish(&x->parts[REMEMBER_FINISH]);
	struct token_list ids = {0};
	bool good = finish && recall_read_ids(t, &x->parts[REMEMBER_IDS], &ids);
	int failed = good ? recall_say_ids(t, &ids, ev, e) : 0;
	token_list_free(&ids);
	if (!good)
		return 0;
	if (!failed)
		failed = recall_say_choice(t, x, ev, e);
	if (failed)
		return failed;
	recall_explain(t);
	t->recall.found = true;
	ev->logprobs = x->parts[REMEMBER_LOGPROBS];
	x->parts[REMEMBER_LOGPROBS] = (struct text_out){0};
	if (x->parts[REMEMBER_TOKENS].n)
		ev->tokens = (uint32_t)strtoull(x->parts[REMEMBER_TOKENS].bytes, NULL, 10);
	turn_over(ev, finish, 0, NULL);
	return 0;
}

int recall_find(struct turn_state *t, struct turn_event *ev, struct err *e)
{
	struct remember_entry x = {0};
	recall_make_key(t);
	if (!t->recall.key.n ||
	    !remember_find(t->env->remember, t->owner, &t->recall.key, &x))
		return 0;
	int failed = recall_give(t, &x, ev, e);
	remember_entry_free(&x);
	return failed;
}

/* ---- keeping ---- */

/* Copies a complete answer. */
static void recall_copy(struct answer *a, struct text_out *to)
{
	char piece[4096];
	bool complete;
	ssize_t n;
	while (a && (n = answer_read(a, to->n, piece, sizeof piece, &complete)) > 0)
		text_out_add(to, piece, (size_t)n);
	answer_unref(a);
}

static void recall_fill(const struct turn_state *t, const char *finish, struct remember_entry *x)
{
	const struct session *s = t->session;
	const struct recall *r = &t->recall;
	struct text_out *parts = x->parts;
	tokenizer_spell(t->env->model->loaded.tokenizer, t->ids.ids, r->ids,
			&parts[REMEMBER_QUESTION]);
	recall_copy(answer_ref(s->answer), &parts[REMEMBER_ANSWER]);
	recall_copy(answer_thoughts(s->answer), &parts[REMEMBER_THOUGHTS]);
	recall_copy(answer_logprobs(s->answer), &parts[REMEMBER_LOGPROBS]);
	if (t->chat)
		results_write_calls(s, &parts[REMEMBER_CALLS]);
	text_out_string(&parts[REMEMBER_FINISH], finish);
	recall_add(&parts[REMEMBER_TOKENS], "%" PRIu64, s->stats.output_tokens);
	recall_add_ids(&parts[REMEMBER_IDS], t->ids.ids + r->ids, t->ids.count - r->ids);
	if (choose_works(&t->choose) && s->chosen)
		text_out_string(&parts[REMEMBER_CHOICES], s->chosen);
}

void recall_keep(struct turn_state *t, const char *finish)
{
	struct session *s = t->session;
	struct recall *r = &t->recall;
	const struct text_out word = {.bytes = (char *)(uintptr_t)finish, .n = strlen(finish)};
	if (!r->key.n || r->found || !t->admitted || s->context_private || !recall_finish(&word) ||
	    s->weights_sum != r->weights)
		return;
	struct remember_entry x = {.owner = t->owner};
	recall_fill(t, finish, &x);
	x.parts[REMEMBER_KEY] = r->key;
	r->key = (struct text_out){0};
	remember_put(t->env->remember, &x);
}

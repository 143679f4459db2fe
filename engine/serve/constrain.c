#include "engine/serve/constrain.h"

#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kept_grammar {
	struct kept_grammar *next;
	struct grammar *grammar;
	const struct grammar_tokens *tokens; /* that its masks are of */
	char *key;			     /* [key_n]: all that it was made of */
	size_t key_n;
	_Atomic uint32_t users; /* turns, which may end in any thread */
};

/* ---- what a model keeps ---- */

static void free_kept(struct kept_grammar *k)
{
	grammar_free(k->grammar);
	free(k->key);
	free(k);
}

void constraints_free(struct constraints *c)
{
	while (c->first) {
		struct kept_grammar *k = c->first;
		c->first = k->next;
		free_kept(k);
	}
	for (int i = 0; i < CONSTRAINT_TREES; i++)
		grammar_tokens_free(c->trees[i].tokens);
	free(c->mask);
	*c = (struct constraints){0};
}

/* Those that no turn uses, behind as many as are kept. */
static void forget_old(struct constraints *c)
{
	uint32_t count = 0;
	for (struct kept_grammar **at = &c->first; *at;) {
		struct kept_grammar *k = *at;
		if (++count <= CONSTRAINTS_KEPT || atomic_load(&k->users)) {
			at = &k->next;
			continue;
		}
		*at = k->next;
		free_kept(k);
	}
}

/* ---- the vocabulary ---- */

static uint32_t *end_tokens(const struct session *s, uint32_t *count)
{
	uint32_t size = s->model->id.config.vocabulary;
	uint32_t *ends = malloc(((size_t)size + 1) * sizeof *ends);
	*count = 0;
	for (uint32_t id = 0; ends && id < size; id++)
		if (model_ends(s->model, s->turn.chat, id))
			ends[(*count)++] = id;
	return ends;
}

static int make_tree(const struct session *s, struct kept_tokens *k, struct err *e)
{
	const struct model *m = s->model;
	uint32_t count, *ends = end_tokens(s, &count);
	int failed = ends ? grammar_tokens_new(&k->tokens, m->run.tokenizer, k->writes,
					       m->id.config.vocabulary, ends, count, e)
			  : err_set(e, ENOMEM, "out of memory for end tokens");
	free(ends);
	return failed;
}

/* There are as many places as a model has ways to be asked: two forms, with a template or not. */
static int find_tree(struct session *s, const struct grammar_tokens **out, struct err *e)
{
	struct kept_tokens want = {.writes = s->turn.answering.form, .chat = s->turn.chat};
	struct kept_tokens *k = s->model->run.constraints.trees;
	for (int i = 0; i < CONSTRAINT_TREES; i++, k++) {
		if (k->tokens && (k->writes != want.writes || k->chat != want.chat))
			continue;
		int failed = 0;
		if (!k->tokens) {
			failed = make_tree(s, &want, e);
			*k = want;
		}
		*out = k->tokens;
		return failed;
	}
	return err_set(e, ENOMEM, "out of memory: too many answer formats in one model");
}

/* ---- grammars ---- */

static struct grammar_request request_of(const struct session *s, const struct json *tools)
{
	static const enum grammar_form forms[] = {[FORMAT_TEXT] = FORM_TEXT,
						  [FORMAT_JSON] = FORM_JSON,
						  [FORMAT_SCHEMA] = FORM_SCHEMA,
						  [FORMAT_REGEX] = FORM_REGEX};
	const struct turn *t = &s->turn;
	const struct model_run *m = &s->model->run;
	const char *choice = t->params.tool_choice;
	bool sourced = t->params.format >= FORMAT_SCHEMA;
	return (struct grammar_request){
		.form = forms[t->params.format],
		.source = sourced ? t->params.grammar : "",
		.source_n = sourced ? strlen(t->params.grammar) : 0,
		.choice = !*choice			? CHOICE_AUTO
			  : !strcmp(choice, "none")	? CHOICE_NONE
			  : !strcmp(choice, "required") ? CHOICE_REQUIRED
							: CHOICE_NAMED,
		.tool = choice,
		.tools = tools,
		.writes = t->answering.form,
		.tags = t->chat && chat_template_tags(m->chat),
		.thinking = t->answering.thinking,
		.space = t->answering.characters.skip_space,
		.tokenizer = m->tokenizer,
	};
}

/* All that a grammar is made of, one after the other. */
static int key_of(const struct session *s, const struct grammar_request *r, struct text_out *key,
		  struct err *e)
{
	char numbers[96];
	int n = snprintf(numbers, sizeof numbers, "%d %d %d %d %d %p %zu ", (int)r->form,
			 (int)r->choice, (int)r->thinking, r->space, r->tags,
			 (const void *)r->writes, r->source_n);
	text_out_add(key, numbers, (size_t)n);
	text_out_add(key, r->source, r->source_n);
	if (r->tools) {
		text_out_add(key, r->tool, strlen(r->tool) + 1);
		text_out_add(key, s->conversation.tools.text, s->conversation.tools.n);
	}
	return key->failed ? err_set(e, ENOMEM, "out of memory for a grammar") : 0;
}

/* It is first from then on. */
static struct kept_grammar *find_kept(struct constraints *c, const struct text_out *key,
				      const struct grammar_tokens *tokens)
{
	for (struct kept_grammar **at = &c->first; *at; at = &(*at)->next) {
		struct kept_grammar *k = *at;
		if (k->tokens != tokens || k->key_n != key->n ||
		    memcmp(k->key, key->bytes, key->n) != 0 || grammar_failed(k->grammar, NULL))
			continue;
		*at = k->next;
		k->next = c->first;
		c->first = k;
		return k;
	}
	return NULL;
}

/* Names the param that is to be mended: a source that is wrong by itself, or else what all ask for
 * together. */
static int because_of(struct err *e, const struct grammar_request *r, const struct err *why)
{
	struct err of_source;
	bool source = r->form >= FORM_SCHEMA &&
		      grammar_check(r->form, r->source, r->source_n, &of_source);
	int code =
		source ? err_because(e, why, why->code, "params/grammar (params/format is %s): %s",
				     r->form == FORM_SCHEMA ? "schema" : "regex", of_source.text)
		       : err_because(e, why, why->code, "params/format and tool_choice: %s",
				     why->text);
	err_reason(e, source ? of_source.text : why->text);
	return code;
}

static int make_kept(struct session *s, const struct grammar_request *r, struct text_out *key,
		     struct err *e)
{
	struct constraints *c = &s->model->run.constraints;
	struct constraint *turn = &s->turn.constraint;
	struct err why = {0};
	struct kept_grammar *k = calloc(1, sizeof *k);
	if (!k)
		return err_set(e, ENOMEM, "out of memory for a grammar");
	int failed = grammar_new(&k->grammar, r, &why);
	if (!failed)
		failed = grammar_prepare(k->grammar, turn->tokens, &why);
	if (failed) {
		free_kept(k);
		return because_of(e, r, &why);
	}
	k->tokens = turn->tokens;
	k->key = key->bytes;
	k->key_n = key->n;
	*key = (struct text_out){0};
	k->next = c->first;
	c->first = k;
	return 0;
}

static int find_grammar(struct session *s, const struct grammar_request *r, struct err *e)
{
	struct constraints *c = &s->model->run.constraints;
	struct text_out key = {0};
	int failed = key_of(s, r, &key, e);
	if (!failed && !find_kept(c, &key, s->turn.constraint.tokens))
		failed = make_kept(s, r, &key, e);
	text_out_free(&key);
	if (failed)
		return failed;
	s->turn.constraint.kept = c->first;
	atomic_fetch_add(&c->first->users, 1);
	forget_old(c);
	return 0;
}

/* ---- a turn ---- */

/* What the answer says already, where the turn goes on with one. */
static int read_earlier(struct session *s, struct err *e)
{
	struct turn *t = &s->turn;
	for (size_t i = 0; i < t->earlier.count; i++) {
		char bytes[GRAMMAR_MAX_TOKEN + 1];
		size_t n = grammar_token_bytes(s->model->run.tokenizer, t->answering.form,
					       t->earlier.ids[i], bytes);
		if (!n || !grammar_read(t->constraint.kept->grammar, &t->constraint.at, bytes, n))
			return err_set(e, EINVAL,
				       "the answer so far does not match the format and the tool "
				       "choice; use retry instead of continue");
	}
	return 0;
}

static int check_source(const struct params *p, struct err *e)
{
	if (p->format < FORMAT_SCHEMA || *p->grammar)
		return 0;
	return err_set(e, EINVAL,
		       "params/format is %s, but params/grammar is empty; write it there, or echo "
		       "text > params/format",
		       p->format == FORMAT_SCHEMA ? "schema" : "regex");
}

static bool is_free(const struct params *p)
{
	return p->format == FORMAT_TEXT && !*p->tool_choice;
}

int constrain_begin(struct session *s, struct err *e)
{
	struct turn *t = &s->turn;
	struct constraints *c = &s->model->run.constraints;
	const struct json *tools = t->chat ? s->conversation.tools.json : NULL;
	bool nothing_to_call = !tools && !strcmp(t->params.tool_choice, "none");
	if (is_free(&t->params) || (nothing_to_call && t->params.format == FORMAT_TEXT))
		return 0;
	int failed = check_source(&t->params, e);
	if (!failed)
		failed = find_tree(s, &t->constraint.tokens, e);
	if (!failed && !c->mask) {
		c->mask = calloc((size_t)s->model->id.config.vocabulary * 2 / 64 + 2,
				 sizeof *c->mask);
		failed = c->mask ? 0 : err_set(e, ENOMEM, "out of memory for masks");
	}
	if (failed)
		return failed;
	const struct grammar_request r = request_of(s, tools);
	failed = find_grammar(s, &r, e);
	if (failed)
		return failed;
	grammar_begin(t->constraint.kept->grammar, &t->constraint.at);
	return read_earlier(s, e);
}

int constrain_logits(struct session *s, float *logits, struct err *e)
{
	const struct constraint *c = &s->turn.constraint;
	uint64_t *mask = s->model->run.constraints.mask;
	uint32_t allowed;
	if (!c->kept)
		return 0;
	int failed = grammar_mask(c->kept->grammar, c->tokens, &c->at, mask, &allowed, e);
	if (failed)
		return failed;
	if (!allowed)
		return err_set(e, EIO,
			       "no token of the model continues the answer as the format and the "
			       "tool choice require");
	grammar_apply(c->tokens, mask, allowed, logits, s->model->run.sampler.p);
	return 0;
}

int constrain_take(struct session *s, uint32_t id, bool *over, struct err *e)
{
	struct constraint *c = &s->turn.constraint;
	char bytes[GRAMMAR_MAX_TOKEN + 1];
	*over = false;
	if (!c->kept)
		return 0;
	size_t n = grammar_token_bytes(s->model->run.tokenizer, s->turn.answering.form, id, bytes);
	struct grammar *g = c->kept->grammar;
	if (!n || !grammar_read(g, &c->at, bytes, n)) {
		int failed = grammar_failed(g, e);
		return failed ? failed
			      : err_set(e, EIO,
					"internal error: the sampled token violates the grammar");
	}
	*over = !grammar_may_go_on(g, &c->at);
	return 0;
}

uint32_t constrain_drafts(struct session *s, const uint32_t *draft, uint32_t n)
{
	const struct constraint *c = &s->turn.constraint;
	struct spots at = c->at;
	char bytes[GRAMMAR_MAX_TOKEN + 1];
	for (uint32_t i = 0; c->kept && i < n; i++) {
		size_t length = grammar_token_bytes(s->model->run.tokenizer, s->turn.answering.form,
						    draft[i], bytes);
		if (!length || !grammar_read(c->kept->grammar, &at, bytes, length))
			return i;
	}
	return n;
}

void constrain_end(struct constraint *c)
{
	if (c->kept)
		atomic_fetch_sub(&c->kept->users, 1);
	*c = (struct constraint){0};
}

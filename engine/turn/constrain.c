#include "engine/turn/constrain.h"

#include "engine/model/model_state.h"
#include "engine/turn/turn.h"

#include <errno.h>
#include <string.h>

static struct grammar_request constrain_request(const struct turn_state *t,
						const struct json *tools)
{
	static const enum grammar_form forms[] = {[FORMAT_TEXT] = FORM_TEXT,
						  [FORMAT_JSON] = FORM_JSON,
						  [FORMAT_SCHEMA] = FORM_SCHEMA,
						  [FORMAT_REGEX] = FORM_REGEX};
	const struct params *p = &t->session->asked.params;
	const struct answering *a = &t->session->answering;
	const struct model_loaded *m = &t->env->model->loaded;
	const char *choice = p->tool_choice;
	bool sourced = p->format >= FORMAT_SCHEMA;
	return (struct grammar_request){
		.form = forms[p->format],
		.source = sourced ? p->grammar : "",
		.source_n = sourced ? strlen(p->grammar) : 0,
		.choice = !*choice			? CHOICE_AUTO
			  : !strcmp(choice, "none")	? CHOICE_NONE
			  : !strcmp(choice, "required") ? CHOICE_REQUIRED
							: CHOICE_NAMED,
		.tool = choice,
		.tools = tools,
		.writes = a->form,
		.tags = t->chat && chat_template_tags(m->chat),
		.thinking = a->thinking,
		.space = a->characters.skip_space,
		.tokenizer = m->tokenizer,
	};
}

/* Writes the bytes of a token as the grammar reads them; returns how many, 0: none. */
static size_t constrain_bytes(const struct turn_state *t, uint32_t id,
			      char bytes[GRAMMAR_MAX_TOKEN + 1])
{
	return grammar_token_bytes(t->env->model->loaded.tokenizer, t->session->answering.form, id,
				   bytes);
}

/* Advances the grammar over the answer that the turn continues. */
static int constrain_read_earlier(struct turn_state *t, struct err *e)
{
	const struct token_list *earlier = &t->session->asked.earlier;
	struct grammar *g = grammars_grammar(t->constraint.kept);
	for (size_t i = 0; i < earlier->count; i++) {
		char bytes[GRAMMAR_MAX_TOKEN + 1];
		size_t n = constrain_bytes(t, earlier->ids[i], bytes);
		if (!n || !grammar_read(g, &t->constraint.at, bytes, n))
			return err_set(e, EINVAL,
				       "the answer so far does not match the format and the tool "
				       "choice; use retry instead of continue");
	}
	return 0;
}

static int constrain_check_source(const struct params *p, struct err *e)
{
	if (p->format < FORMAT_SCHEMA || *p->grammar)
		return 0;
	return err_set(e, EINVAL,
		       "params/format is %s, but params/grammar is empty; write it there, or echo "
		       "text > params/format",
		       p->format == FORMAT_SCHEMA ? "schema" : "regex");
}

int constrain_begin(struct turn_state *t, struct err *e)
{
	const struct params *p = &t->session->asked.params;
	const struct document *tools = &t->dialogue.tools;
	const struct json *json = t->chat ? tools->json : NULL;
	bool nothing_to_call = !*p->tool_choice || (!json && !strcmp(p->tool_choice, "none"));
	if (p->format == FORMAT_CHOICES || (p->format == FORMAT_TEXT && nothing_to_call))
		return 0;
	struct constraint *c = &t->constraint;
	const struct grammar_request r = constrain_request(t, json);
	int failed = constrain_check_source(p, e);
	if (!failed)
		failed = grammars_find_tokens(t->env->grammars, t->env->model, r.writes, t->chat,
					      &c->tokens, e);
	if (!failed)
		failed = grammars_take(t->env->grammars, &r, tools->text, tools->n, c->tokens,
				       &c->kept, e);
	if (failed)
		return failed;
	grammar_begin(grammars_grammar(c->kept), &c->at);
	return constrain_read_earlier(t, e);
}

int constrain_logits(const struct turn_state *t, float *logits, const struct turn_scratch *x,
		     struct err *e)
{
	const struct constraint *c = &t->constraint;
	uint32_t allowed;
	if (!c->kept)
		return 0;
	int failed =
		grammar_mask(grammars_grammar(c->kept), c->tokens, &c->at, x->mask, &allowed, e);
	if (failed)
		return failed;
	if (!allowed)
		return err_set(e, EIO,
			       "no token of the model continues the answer as the format and the "
			       "tool choice require");
	grammar_apply(c->tokens, x->mask, allowed, logits, x->sampler->p);
	return 0;
}

int constrain_take(struct turn_state *t, uint32_t id, bool *over, struct err *e)
{
	struct constraint *c = &t->constraint;
	char bytes[GRAMMAR_MAX_TOKEN + 1];
	*over = false;
	if (!c->kept)
		return 0;
	size_t n = constrain_bytes(t, id, bytes);
	struct grammar *g = grammars_grammar(c->kept);
	if (!n || !grammar_read(g, &c->at, bytes, n)) {
		int failed = grammar_failed(g, e);
		return failed ? failed
			      : err_set(e, EIO,
					"internal error: the sampled token violates the grammar");
	}
	*over = !grammar_may_go_on(g, &c->at);
	return 0;
}

uint32_t constrain_drafts(const struct turn_state *t, const uint32_t *draft, uint32_t n)
{
	const struct constraint *c = &t->constraint;
	struct spots at = c->at;
	char bytes[GRAMMAR_MAX_TOKEN + 1];
	for (uint32_t i = 0; c->kept && i < n; i++) {
		size_t length = constrain_bytes(t, draft[i], bytes);
		if (!length || !grammar_read(grammars_grammar(c->kept), &at, bytes, length))
			return i;
	}
	return n;
}

void constrain_end(struct constraint *c)
{
	if (c->kept)
		grammars_give_back(c->kept);
	*c = (struct constraint){0};
}

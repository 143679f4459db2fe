#include "engine/turn/grammars.h"

#include "engine/model/model_state.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kept_grammar {
	struct kept_grammar *next;
	struct grammar *grammar;
	const struct grammar_tokens *tokens; /* the vocabulary of its masks */
	char *key; /* [key_n]: everything that the grammar was made from */
	size_t key_n;
	_Atomic uint32_t users; /* turns that use it; they may end in any thread */
};

/* ---- what a model keeps ---- */

static void grammars_free_kept(struct kept_grammar *k)
{
	grammar_free(k->grammar);
	free(k->key);
	free(k);
}

void grammars_free(struct grammars *c)
{
	while (c->first) {
		struct kept_grammar *k = c->first;
		c->first = k->next;
		grammars_free_kept(k);
	}
	for (int i = 0; i < GRAMMAR_TREES; i++)
		grammar_tokens_free(c->trees[i].tokens);
	*c = (struct grammars){0};
}

/* Frees unused grammars beyond GRAMMARS_KEPT. */
static void grammars_forget_old(struct grammars *c)
{
	uint32_t count = 0;
	for (struct kept_grammar **at = &c->first; *at;) {
		struct kept_grammar *k = *at;
		if (++count <= GRAMMARS_KEPT || atomic_load(&k->users)) {
			at = &k->next;
			continue;
		}
		*at = k->next;
		grammars_free_kept(k);
	}
}

/* ---- the vocabulary ---- */

static uint32_t *grammars_end_tokens(const struct model *m, bool chat, uint32_t *count)
{
	uint32_t size = m->id.config.vocabulary;
	uint32_t *ends = malloc(((size_t)size + 1) * sizeof *ends);
	*count = 0;
	for (uint32_t id = 0; ends && id < size; id++)
		if (model_ends(m, chat, id))
			ends[(*count)++] = id;
	return ends;
}

static int grammars_make_tree(const struct model *m, struct kept_tokens *k, struct err *e)
{
	uint32_t count, *ends = grammars_end_tokens(m, k->chat, &count);
	int failed = ends ? grammar_tokens_new(&k->tokens, m->loaded.tokenizer, k->writes,
					       m->id.config.vocabulary, ends, count, e)
			  : err_set(e, ENOMEM, "out of memory for end tokens");
	free(ends);
	return failed;
}

/* GRAMMAR_TREES is the number of possible trees of a model: two forms, with a template or without.
 */
int grammars_find_tokens(struct grammars *c, const struct model *m, const struct split_form *writes,
			 bool chat, const struct grammar_tokens **out, struct err *e)
{
	struct kept_tokens want = {.writes = writes, .chat = chat};
	struct kept_tokens *k = c->trees;
	for (int i = 0; i < GRAMMAR_TREES; i++, k++) {
		if (k->tokens && (k->writes != want.writes || k->chat != want.chat))
			continue;
		int failed = 0;
		if (!k->tokens) {
			failed = grammars_make_tree(m, &want, e);
			*k = want;
		}
		*out = k->tokens;
		return failed;
	}
	return err_set(e, ENOMEM, "out of memory: too many answer formats in one model");
}

/* ---- grammars ---- */

/* Writes everything that a grammar is made from. */
static int grammars_write_key(const struct grammar_request *r, const char *tools, size_t tools_n,
			      struct text_out *key, struct err *e)
{
	char numbers[96];
	int n = snprintf(numbers, sizeof numbers, "%d %d %d %d %d %p %zu ", (int)r->form,
			 (int)r->choice, (int)r->thinking, r->space, r->tags,
			 (const void *)r->writes, r->source_n);
	text_out_add(key, numbers, (size_t)n);
	text_out_add(key, r->source, r->source_n);
	if (r->tools) {
		text_out_add(key, r->tool, strlen(r->tool) + 1);
		text_out_add(key, tools, tools_n);
	}
	return key->failed ? err_set(e, ENOMEM, "out of memory for a grammar") : 0;
}

/* Finds a kept grammar and moves it to the front. */
static struct kept_grammar *grammars_find(struct grammars *c, const struct text_out *key,
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

/* Adds the name of the wrong param to the error: params/grammar if its source is invalid by itself,
 * else the params together. */
static int grammars_explain(struct err *e, const struct grammar_request *r, const struct err *why)
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

static int grammars_make(struct grammars *c, const struct grammar_request *r,
			 const struct grammar_tokens *tokens, struct text_out *key, struct err *e)
{
	struct err why = {0};
	struct kept_grammar *k = calloc(1, sizeof *k);
	if (!k)
		return err_set(e, ENOMEM, "out of memory for a grammar");
	int failed = grammar_new(&k->grammar, r, &why);
	if (!failed)
		failed = grammar_prepare(k->grammar, tokens, &why);
	if (failed) {
		grammars_free_kept(k);
		return grammars_explain(e, r, &why);
	}
	k->tokens = tokens;
	k->key = key->bytes;
	k->key_n = key->n;
	*key = (struct text_out){0};
	k->next = c->first;
	c->first = k;
	return 0;
}

int grammars_take(struct grammars *c, const struct grammar_request *r, const char *tools,
		  size_t tools_n, const struct grammar_tokens *tokens, struct kept_grammar **out,
		  struct err *e)
{
	struct text_out key = {0};
	int failed = grammars_write_key(r, tools, tools_n, &key, e);
	if (!failed && !grammars_find(c, &key, tokens))
		failed = grammars_make(c, r, tokens, &key, e);
	text_out_free(&key);
	if (failed)
		return failed;
	*out = c->first;
	atomic_fetch_add(&c->first->users, 1);
	grammars_forget_old(c);
	return 0;
}

void grammars_give_back(struct kept_grammar *k)
{
	atomic_fetch_sub(&k->users, 1);
}

struct grammar *grammars_grammar(const struct kept_grammar *k)
{
	return k->grammar;
}

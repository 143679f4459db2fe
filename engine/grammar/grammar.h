/* Texts that are held to a form: which tokens may follow what a model has written.
 *
 * A grammar is compiled from a regular expression, from a JSON schema, or from the tools on offer,
 * and reads bytes (grammar_machine.h). With a vocabulary it says which tokens keep the text on a
 * way that can be finished: a mask of one bit a token. Masks of what a rule itself decides are kept
 * (at most GRAMMAR_MASK_BYTES); what goes on behind a rule's end is followed each time, since it
 * depends on where the rule was called.
 *
 * Sources are hostile: GRAMMAR_MAX_SOURCE bytes, and the bounds of grammar_machine.h. For one
 * thread at a time. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_H

#include "engine/grammar/grammar_machine.h"
#include "engine/grammar/grammar_tokens.h"
#include "engine/json/json.h"
#include "engine/answer/split.h"

enum { GRAMMAR_MASK_BYTES = 32 << 20 };

enum grammar_form {
	FORM_TEXT,   /* anything: for tools */
	FORM_JSON,   /* an object or a list */
	FORM_SCHEMA, /* what a JSON schema admits */
	FORM_REGEX,  /* all of a regular expression */
};
enum grammar_choice {
	CHOICE_AUTO,	 /* the form, or calls */
	CHOICE_NONE,	 /* the form; as text no call either */
	CHOICE_REQUIRED, /* calls, at least one */
	CHOICE_NAMED,	 /* one call of one tool */
};
struct grammar_request {
	enum grammar_form form;
	const char *source; /* [source_n]: of SCHEMA and REGEX */
	size_t source_n;
	enum grammar_choice choice;
	const char *tool;	  /* of NAMED */
	const struct json *tools; /* as the OpenAI interface has them; NULL or empty: none */
	const struct split_form
		*writes;	      /* how the model writes thoughts and calls; NULL: Hermes' */
	bool tags;		      /* of its ways to call, functions in tags before JSON */
	enum split_thinking thinking; /* how the answer begins; OFF (not 0): without thoughts */
	bool space;		      /* it begins with a space that is not part of what is said */
	const struct tokenizer *tokenizer; /* whose marks are tokens; NULL: none are */
};

struct grammar;
/* -EINVAL: the source is wrong, in words that begin with its place where there is one; -ENOTSUP: it
 * asks for what is not known here, by name; -E2BIG, -ENOMEM. */
int grammar_new(struct grammar **out, const struct grammar_request *r, struct err *e);
void grammar_free(struct grammar *g); /* NULL is fine */
/* Compiles and forgets: whether a source is right. */
int grammar_check(enum grammar_form form, const char *source, size_t n, struct err *e);

/* ---- reading ---- */

void grammar_begin(struct grammar *g, struct spots *p);
/* False: the text cannot go on like this, or grammar_failed. */
bool grammar_read(struct grammar *g, struct spots *p, const char *bytes, size_t n);
bool grammar_may_end(const struct grammar *g, const struct spots *p);
bool grammar_may_go_on(const struct grammar *g, const struct spots *p);
/* 0, or what the machine failed of, in words. */
int grammar_failed(const struct grammar *g, struct err *e);

/* ---- masks ---- */

/* Makes the masks that take longest, so that no token has to wait for one (some 20 ms at most of a
 * vocabulary of 152 K; not needed, and changes no mask). */
int grammar_prepare(struct grammar *g, const struct grammar_tokens *t, struct err *e);
/* Sets the bit of each token that may follow (of its place in `order`) in mask
 * [(grammar_places + 63) / 64], and clears all others. Tokens that end an answer may where the text
 * may end. *allowed: how many may. The tokens are always the same ones. -ENOMEM, -E2BIG in words.
 */
int grammar_mask(struct grammar *g, const struct grammar_tokens *t, const struct spots *p,
		 uint64_t *mask, uint32_t *allowed, struct err *e);
/* What may not follow gets minus infinity: logits [vocabulary], scratch as large. */
void grammar_apply(const struct grammar_tokens *t, const uint64_t *mask, uint32_t allowed,
		   float *logits, float *scratch);
/* Bytes that the masks and the machine take now. */
size_t grammar_bytes(const struct grammar *g);

#endif

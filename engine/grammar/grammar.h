/* Answers that must have a given form: which tokens may follow the text so far.
 *
 * A grammar is compiled from a regular expression, a JSON schema or the tools on offer, and reads
 * bytes (grammar_machine.h). With a vocabulary it gives a mask, one bit per token, of the tokens
 * after which the text can still be completed. The part of a mask that one rule decides is cached
 * (at most GRAMMAR_MASK_BYTES). The part after a rule's end depends on the caller of the rule and
 * is computed each time.
 *
 * Sources are hostile: GRAMMAR_MAX_SOURCE bytes, and the bounds of grammar_machine.h.
 *
 * Any thread may call these functions. States and masks are made when first needed, with the
 * grammar's lock held, so calls for the same grammar wait for each other, but not for other
 * grammars. Once its states are known, a mask for a vocabulary of 152 K takes about 10 µs. Logits
 * are changed without the lock. Spots belong to the caller. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_H

#include "engine/grammar/grammar_machine.h"
#include "engine/grammar/grammar_tokens.h"
#include "engine/json/json.h"
#include "engine/answer/split.h"

enum { GRAMMAR_MASK_BYTES = 32 << 20 };

enum grammar_form {
	FORM_TEXT,   /* any text; with tools: any text or calls */
	FORM_JSON,   /* an object or a list */
	FORM_SCHEMA, /* JSON that is valid by a schema */
	FORM_REGEX,  /* a text that matches a regular expression as a whole */
};
enum grammar_choice {
	CHOICE_AUTO,	 /* the form, or calls */
	CHOICE_NONE,	 /* the form, and no call */
	CHOICE_REQUIRED, /* calls, at least one */
	CHOICE_NAMED,	 /* one call of one tool */
};
struct grammar_request {
	enum grammar_form form;
	const char *source; /* [source_n]: of SCHEMA and REGEX */
	size_t source_n;
	enum grammar_choice choice;
	const char *tool;	  /* for NAMED */
	const struct json *tools; /* in OpenAI's format; NULL or empty: none */
	const struct split_form
		*writes; /* how the model writes thoughts and calls; NULL: as Hermes */
	bool tags;	 /* if the form has both: calls as functions in tags, not as JSON */
	enum split_thinking thinking; /* how the answer begins; OFF (not 0): no thoughts */
	bool space;		      /* the answer begins with a space that is not part of it */
	const struct tokenizer *tokenizer; /* for marks that are tokens; NULL: none */
};

struct grammar;
/* Compiles a request. -EINVAL: the source is wrong (the sentence begins with the place);
 * -ENOTSUP: the source needs something that is not supported, by name; -E2BIG, -ENOMEM. */
int grammar_new(struct grammar **out, const struct grammar_request *r, struct err *e);
void grammar_free(struct grammar *g); /* NULL is fine */
/* Whether a source compiles. */
int grammar_check(enum grammar_form form, const char *source, size_t n, struct err *e);

/* ---- reading ---- */

void grammar_begin(struct grammar *g, struct spots *p);
/* False: no text of the grammar continues like this, or see grammar_failed. */
bool grammar_read(struct grammar *g, struct spots *p, const char *bytes, size_t n);
bool grammar_may_end(struct grammar *g, const struct spots *p);
bool grammar_may_go_on(struct grammar *g, const struct spots *p);
/* 0, or the machine's failure, in words. */
int grammar_failed(struct grammar *g, struct err *e);

/* ---- masks ---- */

/* Makes the slowest masks in advance, so that no token waits for one (about 20 ms at most for a
 * vocabulary of 152 K). Optional; changes no mask. */
int grammar_prepare(struct grammar *g, const struct grammar_tokens *t, struct err *e);
/* Sets the bit of each token that may follow, by its place in `order`, in mask[(grammar_places +
 * 63) / 64], and clears all others. Tokens that end an answer may follow where the text may end.
 * *allowed is the number of bits. Pass the same tokens every time. -ENOMEM, -E2BIG in words. */
int grammar_mask(struct grammar *g, const struct grammar_tokens *t, const struct spots *p,
		 uint64_t *mask, uint32_t *allowed, struct err *e);
/* Sets the logits of all other tokens to minus infinity. logits[vocabulary]; scratch has the
 * same size. */
void grammar_apply(const struct grammar_tokens *t, const uint64_t *mask, uint32_t allowed,
		   float *logits, float *scratch);
/* The memory of masks and machine, in bytes. */
size_t grammar_bytes(struct grammar *g);

#endif

/* Tokens that are spelled literally in a text, such as <|im_start|>. */
#ifndef MOEFS_ENGINE_TOKENIZER_ADDED_TOKENS_H
#define MOEFS_ENGINE_TOKENIZER_ADDED_TOKENS_H

#include "cache/err.h"
#include "engine/tokenizer/token.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct added_token {
	char *text; /* as it is matched; normalised if `normalized` */
	uint32_t length, id;
	bool single_word;    /* matches only where no word character touches it */
	bool lstrip, rstrip; /* also takes the white space on that side */
	bool normalized; /* looked for after normalising, in the text between the other tokens */
	uint8_t wants;	 /* enum token_right that each byte needs */
};
struct added_tokens { /* sorted by text after added_tokens_finish */
	struct added_token *items;
	size_t count, capacity;
	bool first[256]; /* first bytes of all tokens */
};
/* Copies token->text. */
int added_tokens_append(struct added_tokens *a, const struct added_token *token, struct err *e);
/* Sorts. Two tokens with the same text are an error, except normalised ones: the lower id
 * counts. */
int added_tokens_finish(struct added_tokens *a, const char *name, struct err *e);
void added_tokens_free(struct added_tokens *a);
/* Id of the token with exactly this text, or -1. */
int64_t added_tokens_find(const struct added_tokens *a, const char *text, size_t n);

/* A walk over a text; begin with from = next = 0. */
struct added_scan {
	size_t from;		  /* where the text not yet handed out begins */
	size_t next;		  /* where to look for the next token */
	const _Atomic bool *stop; /* once true, the search ends */
	const uint8_t *rights;	  /* enum token_right per byte of the text; NULL: MAY_ALL */
};
struct added_hit {
	size_t gap, gap_length; /* ordinary text before the token; may be empty */
	int64_t id;		/* -1: the gap is the rest of the text */
};
/* Finds the next ordinary piece and the token after it. False at the end of the text. */
bool added_tokens_next(const struct added_tokens *a, const char *text, size_t n,
		       struct added_scan *scan, struct added_hit *hit);

#endif

/* Tokens that are spelled literally in the text, such as <|im_start|>. */
#ifndef MOEFS_ENGINE_TOKENIZER_ADDED_TOKENS_H
#define MOEFS_ENGINE_TOKENIZER_ADDED_TOKENS_H

#include "cache/err.h"
#include "engine/tokenizer/token.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct added_token {
	char *text; /* as it is matched: normalised if `normalized` */
	uint32_t length, id;
	bool single_word;    /* only where no word character touches it */
	bool lstrip, rstrip; /* takes the white space on that side with it */
	bool normalized;     /* looked for after normalising, among what the others left */
	uint8_t wants;	     /* enum token_right: of each of its bytes */
};
struct added_tokens { /* sorted by text once added_tokens_finish was called */
	struct added_token *items;
	size_t count, capacity;
	bool first[256]; /* bytes that some token begins with */
};
/* Copies token->text. */
int added_tokens_append(struct added_tokens *a, const struct added_token *token, struct err *e);
/* Sorts; two tokens with the same text are an error, but for normalised ones (the lower id). */
int added_tokens_finish(struct added_tokens *a, const char *name, struct err *e);
void added_tokens_free(struct added_tokens *a);
/* Id of the token with this very text, or -1. */
int64_t added_tokens_find(const struct added_tokens *a, const char *text, size_t n);

/* A walk over a text; start with from = next = 0. */
struct added_scan {
	size_t from;		  /* where the text begins that has not been handed out */
	size_t next;		  /* where to look for the next token */
	const _Atomic bool *stop; /* once true, nothing more is looked for */
	const uint8_t *rights;	  /* enum token_right, one a byte of the text; NULL: all */
};
struct added_hit {
	size_t gap, gap_length; /* ordinary text before the token; may be empty */
	int64_t id;		/* -1: the gap is the rest of the text */
};
/* The next ordinary piece and the token after it; false when the text is used up. */
bool added_tokens_next(const struct added_tokens *a, const char *text, size_t n,
		       struct added_scan *scan, struct added_hit *hit);

#endif

/* A vocabulary as a tree of its tokens' bytes, so that what tokens begin alike with is read once.
 *
 * Left out: tokens without bytes (special ones), those longer than GRAMMAR_MAX_TOKEN, and what the
 * caller says. A token that marks thinking or calls (token_marks.h) is met by no text that merely
 * spells it: a byte that no UTF-8 has, GRAMMAR_MARK, stands before its bytes.
 *
 * Takes 24 bytes for a node, of which there are at most as many as the tokens have bytes (in
 * practice half as many: 11 MB for Qwen3's 152 K), and 4 for a token. Immutable once made. */
#ifndef MOEFS_ENGINE_TEXT_GRAMMAR_TOKENS_H
#define MOEFS_ENGINE_TEXT_GRAMMAR_TOKENS_H

#include "engine/text/tokenizer.h"

enum { GRAMMAR_MAX_TOKEN = 256 };
#define GRAMMAR_MARK 0xff

struct token_node {	 /* in the order of their bytes: what begins with it follows it */
	uint32_t end;	 /* the first node that does not begin with it */
	uint32_t first;	 /* its tokens are order[first] up to the next node's first */
	uint64_t groups; /* of all bytes below it */
	uint16_t depth;	 /* bytes, 0 of the first node */
	uint16_t height; /* bytes of the longest token below it that come after it */
	uint8_t byte;
};
struct grammar_tokens {
	struct token_node *nodes; /* [count + 1], the last without anything but `first` */
	uint32_t count;
	uint32_t *order;     /* ids */
	uint32_t vocabulary; /* ids are below it */
	uint32_t *ends;	     /* ids of the tokens that end an answer */
	uint32_t end_count;
};

/* `ends` [end_count]: ids that are no text. Ids from `vocabulary` on are left out. -ENOMEM in
 * words. */
int grammar_tokens_new(struct grammar_tokens **out, const struct tokenizer *t, uint32_t vocabulary,
		       const uint32_t *ends, uint32_t end_count, struct err *e);
void grammar_tokens_free(struct grammar_tokens *t); /* NULL is fine */

/* Bytes of a token as a grammar reads them: how many, to `bytes`; 0: it is none of the text's. */
size_t grammar_token_bytes(const struct tokenizer *t, uint32_t id,
			   char bytes[GRAMMAR_MAX_TOKEN + 1]);
/* Whether there is a token that marks thinking or calls and is spelled like this. */
bool grammar_is_mark(const struct tokenizer *t, const char *text);

/* Bytes that most grammars take alike are one of these groups, so that one number says which bytes
 * lie below a node. */
enum { BYTE_GROUPS = 64 };
uint8_t byte_group(uint8_t byte);

#endif

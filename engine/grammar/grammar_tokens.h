/* A vocabulary as a tree of its tokens' bytes, so that what tokens begin alike with is read once.
 *
 * Left out: tokens without bytes (special ones), those longer than GRAMMAR_MAX_TOKEN, and what the
 * caller says. A token that marks thinking or calls (added_tokens.h) is met by no text that merely
 * spells it: a byte that no UTF-8 has, GRAMMAR_MARK, stands before its bytes.
 *
 * Takes 24 bytes for a node, of which there are at most as many as the tokens have bytes (in
 * practice a third: 8 MB for Qwen3's 152 K), and 4 for an id. Immutable once made. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_TOKENS_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_TOKENS_H

#include "engine/answer/split_forms.h"
#include "engine/tokenizer/tokenizer.h"

enum { GRAMMAR_MAX_TOKEN = 250 };
#define GRAMMAR_MARK 0xff

struct token_node {	 /* in the order of their bytes: what begins with it follows it */
	uint32_t end;	 /* the first node that does not begin with it */
	uint32_t first;	 /* its tokens are order[first] up to the next node's first */
	uint64_t groups; /* of all bytes below it */
	uint32_t tokens; /* its own and all below */
	uint8_t depth;	 /* bytes, 0 of the first node */
	uint8_t height;	 /* bytes of the longest token below it that come after it */
	uint8_t byte;
	/* It ends a character, and all below is UTF-8 (U+2028 to 203F aside), but for a last one
	 * cut short. */
	bool well;
};
/* A mask has a bit for each place in `order`: tokens that begin alike lie together. */
struct grammar_tokens {
	struct token_node *nodes; /* [count + 1], the last without anything but `first` */
	uint32_t count;
	uint32_t *order; /* [places]: ids; first those of the tree, then what ends an answer */
	uint32_t text_count, end_count; /* of places: the tree's; of tokens that end an answer */
	uint32_t *never;		/* ids that are neither */
	uint32_t never_count;
	uint32_t vocabulary; /* ids are below it */
};
static inline uint32_t grammar_places(const struct grammar_tokens *t)
{
	return t->text_count + t->end_count;
}

/* `writes` says which control tokens are marks, as `ends` [end_count] which tokens are no text. Ids
 * from `vocabulary` on are left out. -ENOMEM in words. */
int grammar_tokens_new(struct grammar_tokens **out, const struct tokenizer *t,
		       const struct split_form *writes, uint32_t vocabulary, const uint32_t *ends,
		       uint32_t end_count, struct err *e);
void grammar_tokens_free(struct grammar_tokens *t); /* NULL is fine */

/* Bytes of a token as a grammar reads them: how many, to `bytes`; 0: it is none of the text's. */
size_t grammar_token_bytes(const struct tokenizer *t, const struct split_form *writes, uint32_t id,
			   char bytes[GRAMMAR_MAX_TOKEN + 1]);
/* Whether there is a token that marks thinking or calls and is spelled like this. */
bool grammar_is_mark(const struct tokenizer *t, const struct split_form *writes, const char *text);

/* Bytes that most grammars take alike are one of these groups, so that one number says which bytes
 * lie below a node; and where all is well there, GROUP_BEYOND says that there are characters beyond
 * ASCII. */
enum { BYTE_GROUPS = 63, GROUP_BEYOND = 63 };
#define GROUPS_ASCII (((uint64_t)1 << 46) - 1)
uint8_t grammar_byte_group(uint8_t byte);

#endif

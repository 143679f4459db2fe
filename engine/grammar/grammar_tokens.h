/* A vocabulary as a tree of its tokens' bytes, so that a common prefix is read once.
 *
 * The tree leaves out tokens without bytes (special ones), tokens longer than GRAMMAR_MAX_TOKEN,
 * and those that the caller names. A token that marks thinking or calls (added_tokens.h) never
 * matches text that merely spells it: its bytes follow GRAMMAR_MARK, a byte that UTF-8 does not
 * have.
 *
 * A node takes 24 bytes; there are at most as many nodes as the tokens have bytes (in practice a
 * third: 8 MB for Qwen3's 152 K). An id takes 4 bytes. Immutable once made. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_TOKENS_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_TOKENS_H

#include "engine/answer/split_forms.h"
#include "engine/tokenizer/tokenizer.h"

enum { GRAMMAR_MAX_TOKEN = 250 };
#define GRAMMAR_MARK 0xff

struct token_node {	 /* in the order of their bytes: children follow their parent */
	uint32_t end;	 /* the first node behind its children */
	uint32_t first;	 /* its own tokens are order[first] up to the next node's first */
	uint64_t groups; /* groups of all bytes below */
	uint32_t tokens; /* own tokens and all below */
	uint8_t depth;	 /* in bytes; 0: the root */
	uint8_t height;	 /* bytes of the longest token below, behind this node */
	uint8_t byte;
	/* The node ends a character, and all bytes below are UTF-8 (without U+2028 to 203F),
	 * except a last character cut short. */
	bool well;
};
/* A mask has one bit per place in `order`: tokens with a common prefix lie together. */
struct grammar_tokens {
	struct token_node *nodes; /* [count + 1]; the last one has only `first` */
	uint32_t count;
	uint32_t *order; /* [places]: ids; first those of the tree, then those that end an answer */
	uint32_t text_count, end_count; /* places of the tree; of tokens that end an answer */
	uint32_t *never;		/* all other ids */
	uint32_t never_count;
	uint32_t vocabulary; /* ids are below this number */
};
static inline uint32_t grammar_places(const struct grammar_tokens *t)
{
	return t->text_count + t->end_count;
}

/* `writes` names the control tokens that are marks, ends[end_count] the tokens that end an
 * answer. Ids from `vocabulary` on are left out. -ENOMEM in words. */
int grammar_tokens_new(struct grammar_tokens **out, const struct tokenizer *t,
		       const struct split_form *writes, uint32_t vocabulary, const uint32_t *ends,
		       uint32_t end_count, struct err *e);
void grammar_tokens_free(struct grammar_tokens *t); /* NULL is fine */

/* Writes the bytes of a token as a grammar reads them and returns their number; 0: not text. */
size_t grammar_token_bytes(const struct tokenizer *t, const struct split_form *writes, uint32_t id,
			   char bytes[GRAMMAR_MAX_TOKEN + 1]);
/* Whether a token with this spelling marks thinking or calls. */
bool grammar_is_mark(const struct tokenizer *t, const struct split_form *writes, const char *text);

/* Groups of bytes that most grammars treat alike, so that one number describes all bytes below a
 * node. GROUP_BEYOND: characters beyond ASCII, where the bytes below are UTF-8. */
enum { BYTE_GROUPS = 63, GROUP_BEYOND = 63 };
#define GROUPS_ASCII (((uint64_t)1 << 46) - 1)
uint8_t grammar_byte_group(uint8_t byte);

#endif

/* A grammar's rules as places that a reader of bytes can stand at (Thompson 1968), each with where
 * it goes from there; and what can be said of them before anything is read. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_NODES_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_NODES_H

#include "engine/grammar/grammar_expr.h"

enum { GRAMMAR_MAX_NODES = 1 << 19, GRAMMAR_MAX_LEFT = 64 };

enum node_kind { NODE_END, NODE_BYTES, NODE_SPLIT, NODE_CALL };
struct grammar_node {
	uint8_t kind;
	uint8_t least, most; /* of BYTES */
	bool live;	     /* the rule can be ended from here */
	bool empties;	     /* and without another byte */
	uint32_t next;	     /* of all but END */
	uint32_t other;	     /* of SPLIT; the rule of CALL */
};
struct rule {
	uint32_t start;	   /* its node */
	uint32_t left;	   /* how many rules may be entered one in another before the first byte */
	bool empties;	   /* it has the empty text: calls of it may be passed over */
	uint64_t first[4]; /* the bytes that its texts begin with, one a bit */
};
static inline bool nodes_rule_begins(const struct rule *r, uint8_t byte)
{
	return r->first[byte >> 6] >> (byte & 63) & 1;
}

struct grammar_nodes {
	struct grammar_node *nodes;
	uint32_t count, room;
	struct rule *rules;
	uint32_t rule_count;
};

/* From a source that did not fail, of which each rule has an expression. Rule 0 is the text.
 * -EINVAL: no text can match, or a rule calls itself before it has read anything; -E2BIG: too
 * large; -ENOMEM. In words. */
int nodes_build(struct grammar_nodes *n, const struct grammar_source *s, struct err *e);
void nodes_free(struct grammar_nodes *n);

#endif

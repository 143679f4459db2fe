/* A grammar's rules as nodes (Thompson 1968): positions of a reader of bytes, each with its
 * successors; and facts known before any byte is read. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_NODES_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_NODES_H

#include "engine/grammar/grammar_expr.h"

enum { GRAMMAR_MAX_NODES = 1 << 19, GRAMMAR_MAX_LEFT = 64 };

enum node_kind { NODE_END, NODE_BYTES, NODE_SPLIT, NODE_CALL };
struct grammar_node {
	uint8_t kind;
	uint8_t least, most; /* for BYTES */
	bool live;	     /* the end of the rule can be reached */
	bool empties;	     /* without another byte */
	uint32_t next;	     /* for all but END */
	uint32_t other;	     /* for SPLIT; the rule for CALL */
};
struct rule {
	uint32_t start;	   /* first node */
	uint32_t left;	   /* depth of rules entered before the first byte */
	bool empties;	   /* matches the empty text: calls may be skipped */
	uint64_t first[4]; /* bytes that begin its texts, one bit each */
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

/* Builds the nodes of a source that did not fail; each rule has an expression, and rule 0 is the
 * text. -EINVAL: no text can match, or a rule calls itself before it reads a byte; -E2BIG: too
 * large; -ENOMEM. In words. */
int nodes_build(struct grammar_nodes *n, const struct grammar_source *s, struct err *e);
void nodes_free(struct grammar_nodes *n);

#endif

/* What parsing expressions and statements has in common: where it is in the tokens, and making
 * nodes.
 *
 * After a failure there may be no node; who builds on nothing builds nothing. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_PARSER_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_PARSER_H

#include "engine/template/template_lex.h"
#include "engine/template/template_tree.h"

enum {
	PARSE_DEPTH_MAX = 200,
	TREE_DEPTH_MAX = 500, /* operators in a row are trees, too */
};

struct parser {
	struct run *r;
	const struct template_token *at; /* the last is T_END, and is never passed */
	int depth;
	uint8_t asks; /* what the macro around this asks for so far */
};

/* ---- tokens ---- */

/* "..." where `wanted` should be. */
void parse_fail(struct parser *p, const char *wanted);
void parse_move(struct parser *p);
bool token_is(const struct template_token *t, enum token_kind kind, const char *text);
bool at_operator(const struct parser *p, const char *text);
bool at_word(const struct parser *p, const char *text);
bool at_one_of(const struct parser *p, const char *const *words);
/* Pass over a token if it is there. */
bool take_operator(struct parser *p, const char *text);
bool take_word(struct parser *p, const char *text);
/* Fail if it is not. */
void want_operator(struct parser *p, const char *text);
void want_token(struct parser *p, enum token_kind kind, const char *wanted);

/* ---- nodes ---- */

struct node *node_new(struct parser *p, enum node_kind kind);
struct node *node_of_two(struct parser *p, enum node_kind kind, uint8_t op, struct node *a,
			 struct node *b);
/* Takes a name into a node. */
void node_take_name(struct parser *p, struct node *n, const char *what);
/* Chains a node to a list whose last `next` is *tail. */
void node_chain(struct node ***tail, struct node *n);
/* One level deeper; the caller takes it off p->depth again. */
bool parse_enter(struct parser *p);

#endif

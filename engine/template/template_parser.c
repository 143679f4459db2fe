#include "engine/template/template_parser.h"

#include <errno.h>
#include <string.h>

/* ---- tokens ---- */

void parse_fail(struct parser *p, const char *wanted)
{
	p->r->line = p->at->line;
	if (p->at->kind == T_END)
		run_fail(p->r, EINVAL, "the template ends where %s should be", wanted);
	else
		run_fail(p->r, EINVAL, "\"%.*s\" where %s should be",
			 (int)(p->at->n < 24 ? p->at->n : 24), p->at->text, wanted);
}

void parse_move(struct parser *p)
{
	if (p->at->kind != T_END)
		p->at++;
}

bool token_is(const struct template_token *t, enum token_kind kind, const char *text)
{
	return t->kind == kind && t->n == strlen(text) && memcmp(t->text, text, t->n) == 0;
}

bool at_operator(const struct parser *p, const char *text)
{
	return token_is(p->at, T_OPERATOR, text);
}

bool at_word(const struct parser *p, const char *text)
{
	return token_is(p->at, T_NAME, text);
}

bool take_operator(struct parser *p, const char *text)
{
	bool there = at_operator(p, text);
	if (there)
		parse_move(p);
	return there;
}

bool take_word(struct parser *p, const char *text)
{
	bool there = at_word(p, text);
	if (there)
		parse_move(p);
	return there;
}

void want_operator(struct parser *p, const char *text)
{
	char wanted[8] = {'"'};
	if (take_operator(p, text))
		return;
	strncat(strncat(wanted, text, 4), "\"", 2);
	parse_fail(p, wanted);
}

void want_token(struct parser *p, enum token_kind kind, const char *wanted)
{
	if (p->at->kind == kind)
		parse_move(p);
	else
		parse_fail(p, wanted);
}

bool at_one_of(const struct parser *p, const char *const *words)
{
	for (; *words; words++)
		if (at_word(p, *words))
			return true;
	return false;
}

/* ---- nodes ---- */

struct node *node_new(struct parser *p, enum node_kind kind)
{
	struct node *n = run_allocate(p->r, sizeof *n);
	if (n)
		*n = (struct node){.kind = (uint8_t)kind, .line = p->at->line};
	return n;
}

struct node *node_of_two(struct parser *p, enum node_kind kind, uint8_t op, struct node *a,
			 struct node *b)
{
	struct node *n = node_new(p, kind);
	if (!n || p->r->failed)
		return NULL;
	n->op = op;
	n->a = a;
	n->b = b;
	n->depth = 1 + (a && (!b || a->depth > b->depth) ? a->depth : b ? b->depth : 0);
	if (n->depth > TREE_DEPTH_MAX)
		run_fail(p->r, EINVAL, "more than %d operators in a row", TREE_DEPTH_MAX);
	return n;
}

void node_take_name(struct parser *p, struct node *n, const char *what)
{
	if (p->at->kind != T_NAME)
		parse_fail(p, what);
	if (!n || p->r->failed)
		return;
	n->name = p->at->text;
	n->name_n = p->at->n;
	parse_move(p);
}

void node_chain(struct node ***tail, struct node *n)
{
	if (!n)
		return;
	**tail = n;
	*tail = &n->next;
}

bool parse_enter(struct parser *p)
{
	if (++p->depth > PARSE_DEPTH_MAX)
		run_fail(p->r, EINVAL, "more than %d levels within one another", PARSE_DEPTH_MAX);
	return !p->r->failed;
}

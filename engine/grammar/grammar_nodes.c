#include "engine/grammar/grammar_nodes.h"

#include <errno.h>
#include <stdlib.h>

/* ---- from expressions to nodes, built from the end ---- */

struct nodes_builder {
	struct grammar_nodes *n;
	const struct grammar_source *s;
	struct triple_table made; /* (expression, next node): node */
	int failed;
	struct err *e;
};

static uint32_t nodes_add(struct nodes_builder *b, struct grammar_node node)
{
	struct grammar_nodes *n = b->n;
	if (b->failed)
		return 0;
	if (n->count >= GRAMMAR_MAX_NODES) {
		b->failed = err_set(b->e, E2BIG,
				    "the grammar is too large: more than %d nodes; use smaller "
				    "bounds (lengths, numbers of items)",
				    GRAMMAR_MAX_NODES);
		return 0;
	}
	struct grammar_node *nodes = grammar_grown(n->nodes, n->count, &n->room, sizeof node);
	if (!nodes) {
		b->failed = err_set(b->e, ENOMEM, "out of memory for a grammar");
		return 0;
	}
	n->nodes = nodes;
	n->nodes[n->count] = node;
	return n->count++;
}

static uint32_t nodes_of_expr(struct nodes_builder *b, uint32_t expr, uint32_t next);

static uint32_t nodes_of_repeat(struct nodes_builder *b, const struct expr *x, uint32_t next)
{
	if (x->most == REPEAT_ENDLESS) {
		uint32_t loop =
			nodes_add(b, (struct grammar_node){.kind = NODE_SPLIT, .other = next});
		uint32_t body = nodes_of_expr(b, x->a, loop);
		if (b->failed)
			return 0;
		b->n->nodes[loop].next = body;
		next = loop;
	} else {
		uint32_t end = next; /* each optional repetition may skip to the end */
		for (uint32_t i = x->least; i < x->most && !b->failed; i++) {
			uint32_t one = nodes_of_expr(b, x->a, next);
			next = nodes_add(b, (struct grammar_node){
						    .kind = NODE_SPLIT, .next = one, .other = end});
		}
	}
	for (uint32_t i = 0; i < x->least && !b->failed; i++)
		next = nodes_of_expr(b, x->a, next);
	return next;
}

/* Alternatives nest to the left: iterates over them. */
static uint32_t nodes_of_either(struct nodes_builder *b, const struct expr *x, uint32_t next)
{
	const struct expr *exprs = b->s->exprs;
	uint32_t any = nodes_of_expr(b, x->b, next);
	while (exprs[x->a].kind == EXPR_EITHER && !b->failed) {
		x = &exprs[x->a];
		uint32_t one = nodes_of_expr(b, x->b, next);
		any = nodes_add(
			b, (struct grammar_node){.kind = NODE_SPLIT, .next = one, .other = any});
	}
	uint32_t first = nodes_of_expr(b, x->a, next);
	return nodes_add(b, (struct grammar_node){.kind = NODE_SPLIT, .next = first, .other = any});
}

static uint32_t nodes_of_new(struct nodes_builder *b, const struct expr *x, uint32_t next)
{
	switch (x->kind) {
	case EXPR_BYTES:
		return nodes_add(b, (struct grammar_node){.kind = NODE_BYTES,
							  .least = (uint8_t)x->least,
							  .most = (uint8_t)x->most,
							  .next = next});
	case EXPR_CALL:
		return nodes_add(
			b, (struct grammar_node){.kind = NODE_CALL, .next = next, .other = x->a});
	case EXPR_REPEAT:
		return nodes_of_repeat(b, x, next);
	case EXPR_EITHER:
		return nodes_of_either(b, x, next);
	default: { /* NOTHING is a loop without bytes or end */
		uint32_t none = nodes_add(b, (struct grammar_node){.kind = NODE_SPLIT});
		if (!b->failed)
			b->n->nodes[none].next = b->n->nodes[none].other = none;
		return none;
	}
	}
}

/* Sequences nest to the left: iterates instead of recursing. */
static uint32_t nodes_of_expr(struct nodes_builder *b, uint32_t expr, uint32_t next)
{
	while (!b->failed) {
		const struct expr *x = &b->s->exprs[expr];
		if (x->kind == EXPR_EMPTY)
			return next;
		if (x->kind == EXPR_THEN) {
			next = nodes_of_expr(b, x->b, next);
			expr = x->a;
			continue;
		}
		struct triple key = {expr, next, 0};
		uint32_t *made = grammar_triple_find(&b->made, key);
		if (made && *made != TRIPLE_NEW)
			return *made;
		uint32_t node = nodes_of_new(b, x, next);
		made = grammar_triple_find(&b->made, key); /* the table may have moved */
		if (made)
			*made = node;
		else if (!b->failed)
			b->failed = err_set(b->e, ENOMEM, "out of memory for a grammar");
		return node;
	}
	return 0;
}

/* ---- facts about nodes ---- */

/* One pass over the nodes; true if anything changed. */
static bool nodes_learn_once(struct grammar_nodes *n)
{
	bool more = false;
	for (uint32_t i = 0; i < n->count; i++) {
		struct grammar_node *x = &n->nodes[i];
		const struct grammar_node *next = &n->nodes[x->next], *other = next;
		bool live = x->kind == NODE_END || next->live, empties = x->kind == NODE_END;
		if (x->kind == NODE_SPLIT) {
			other = &n->nodes[x->other];
			live = next->live || other->live;
			empties = next->empties || other->empties;
		} else if (x->kind == NODE_CALL) {
			live = next->live && n->nodes[n->rules[x->other].start].live;
			empties = next->empties && n->nodes[n->rules[x->other].start].empties;
		}
		more |= live != x->live || empties != x->empties;
		x->live = live;
		x->empties = empties;
	}
	return more;
}

enum { LEARNING_MAX = 1 << 26 }; /* nodes visited: a second at most */

static int nodes_learn(struct grammar_nodes *n, struct err *e)
{
	uint64_t looked = 0;
	while (nodes_learn_once(n)) {
		looked += n->count;
		if (looked > LEARNING_MAX)
			return err_set(e, E2BIG,
				       "the grammar's rules call each other in too long a chain");
	}
	for (uint32_t r = 0; r < n->rule_count; r++)
		n->rules[r].empties = n->nodes[n->rules[r].start].empties;
	return n->nodes[n->rules[0].start].live
		       ? 0
		       : err_set(e, EINVAL, "no text can match the grammar");
}

/* ---- rules that are entered before a byte is read ---- */

struct nodes_left {
	const struct grammar_nodes *n;
	uint32_t *seen;	   /* [count]: rule that visited the node, + 1 */
	uint32_t *todo;	   /* [count] */
	uint32_t *callers; /* [rule_count]: calls of the rule not yet visited */
};

/* Notes the bytes that can begin a rule, and calls `visit` for each rule that can. */
static void nodes_first_calls(struct nodes_left *l, uint32_t rule, uint32_t mark,
			      void (*visit)(struct nodes_left *l, uint32_t caller, uint32_t called))
{
	const struct grammar_nodes *n = l->n;
	uint32_t left = 0;
	l->todo[left++] = n->rules[rule].start;
	while (left) {
		uint32_t at = l->todo[--left];
		const struct grammar_node *x = &n->nodes[at];
		if (l->seen[at] == mark || !x->live)
			continue;
		l->seen[at] = mark;
		if (x->kind == NODE_SPLIT)
			l->todo[left++] = x->other;
		if (x->kind == NODE_SPLIT || (x->kind == NODE_CALL && n->rules[x->other].empties))
			l->todo[left++] = x->next;
		for (uint32_t b = x->least; x->kind == NODE_BYTES && b <= x->most; b++)
			n->rules[rule].first[b >> 6] |= (uint64_t)1 << (b & 63);
		if (x->kind == NODE_CALL)
			visit(l, rule, x->other);
	}
}

static void nodes_count_call(struct nodes_left *l, uint32_t caller, uint32_t called)
{
	(void)caller;
	l->callers[called]++;
}

static void nodes_pass_call(struct nodes_left *l, uint32_t caller, uint32_t called)
{
	struct rule *rules = l->n->rules;
	if (rules[called].left <= rules[caller].left)
		rules[called].left = rules[caller].left + 1;
	l->callers[called]--;
}

static void nodes_note_first(struct nodes_left *l, uint32_t caller, uint32_t called)
{
	struct rule *rules = l->n->rules;
	for (int i = 0; i < 4; i++)
		rules[caller].first[i] |= rules[called].first[i];
}

/* Orders callers before called rules (Kahn 1962); a rule that is never reached calls itself. */
static int nodes_order_rules(struct nodes_left *l, struct err *e)
{
	const struct grammar_nodes *n = l->n;
	uint32_t done = 0, mark = n->rule_count + 1, before;
	for (uint32_t r = 0; r < n->rule_count; r++)
		nodes_first_calls(l, r, r + 1, nodes_count_call);
	do {
		before = done;
		for (uint32_t r = 0; r < n->rule_count; r++)
			if (!l->callers[r]) {
				l->callers[r] = UINT32_MAX;
				nodes_first_calls(l, r, mark++, nodes_pass_call);
				done++;
			}
	} while (done > before);
	if (done < n->rule_count)
		return err_set(e, EINVAL, "the grammar refers to itself with nothing in between");
	for (uint32_t r = 0; r < n->rule_count; r++)
		if (n->rules[r].left > GRAMMAR_MAX_LEFT)
			return err_set(
				e, E2BIG,
				"the grammar's rules begin with each other more than %d deep",
				GRAMMAR_MAX_LEFT);
	for (uint32_t left = GRAMMAR_MAX_LEFT + 1; left-- > 0;) /* called rules first */
		for (uint32_t r = 0; r < n->rule_count; r++)
			if (n->rules[r].left == left)
				nodes_first_calls(l, r, mark++, nodes_note_first);
	return 0;
}

static int nodes_check_left(const struct grammar_nodes *n, struct err *e)
{
	struct nodes_left l = {.n = n};
	l.seen = calloc(n->count, sizeof *l.seen);
	l.todo = malloc((n->count * (size_t)2 + 1) * sizeof *l.todo);
	l.callers = calloc(n->rule_count, sizeof *l.callers);
	int failed = l.seen && l.todo && l.callers
			     ? nodes_order_rules(&l, e)
			     : err_set(e, ENOMEM, "out of memory for a grammar");
	free(l.seen);
	free(l.todo);
	free(l.callers);
	return failed;
}

int nodes_build(struct grammar_nodes *n, const struct grammar_source *s, struct err *e)
{
	struct nodes_builder b = {.n = n, .s = s, .e = e};
	*n = (struct grammar_nodes){.rule_count = s->rule_count};
	n->rules = calloc(s->rule_count, sizeof *n->rules);
	if (!n->rules)
		return err_set(e, ENOMEM, "out of memory for a grammar");
	uint32_t end = nodes_add(&b, (struct grammar_node){.kind = NODE_END});
	for (uint32_t r = s->rule_count; r-- > 0 && !b.failed;) /* called rules first, mostly */
		n->rules[r].start = nodes_of_expr(&b, s->rules[r], end);
	grammar_triple_free(&b.made);
	int failed = b.failed;
	if (!failed)
		failed = nodes_learn(n, e);
	if (!failed)
		failed = nodes_check_left(n, e);
	if (failed)
		nodes_free(n);
	return failed;
}

void nodes_free(struct grammar_nodes *n)
{
	free(n->nodes);
	free(n->rules);
	*n = (struct grammar_nodes){0};
}

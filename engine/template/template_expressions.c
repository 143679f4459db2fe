/* Expressions, by recursive descent. The grammar is Jinja2's, with its precedence:
 *
 *     a if b else c · or · and · not · comparisons, in · + - · ~ · * / // % · ** · -a +a
 *
 * and filters, tests, attributes, items and calls, which bind tightest; but for the minus sign,
 * which they bind behind: -1 | abs is 1. */
#include "engine/template/template_expressions.h"

#include <errno.h>

static struct node *unary(struct parser *p, bool with_filters);

/* ---- what is smallest ---- */

struct node *parse_constant(struct parser *p, struct value v)
{
	struct node *n = node_new(p, N_CONSTANT);
	if (n)
		n->constant = v;
	return n;
}

static struct node *name_or_word(struct parser *p)
{
	static const struct {
		const char *word;
		uint8_t kind;
		bool truth;
	} WORDS[] = {{"true", V_BOOL, true},   {"True", V_BOOL, true},	{"false", V_BOOL, false},
		     {"False", V_BOOL, false}, {"none", V_NONE, false}, {"None", V_NONE, false}};
	static const struct {
		const char *word;
		uint8_t asks;
	} ASKED[] = {
		{"caller", MACRO_CALLER}, {"varargs", MACRO_VARARGS}, {"kwargs", MACRO_KWARGS}};
	struct node *n = NULL;
	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS && !n; i++)
		if (at_word(p, WORDS[i].word))
			n = parse_constant(
				p, (struct value){.kind = WORDS[i].kind, .truth = WORDS[i].truth});
	if (n) {
		parse_move(p);
		return n;
	}
	for (size_t i = 0; i < sizeof ASKED / sizeof *ASKED; i++)
		if (at_word(p, ASKED[i].word))
			p->asks |= ASKED[i].asks;
	n = node_new(p, N_NAME);
	node_take_name(p, n, "a name");
	return n;
}

static void write_value(struct run *r, struct writer *w, const struct value *text)
{
	if (text->kind == V_TEXT)
		write_bytes(r, w, text->text.bytes, text->text.from, text->n);
}

/* Texts beside each other are one. */
static struct node *strings(struct parser *p)
{
	struct writer w = {0};
	struct node *n = parse_constant(p, p->at->value);
	parse_move(p);
	if (p->at->kind != T_STRING || !n)
		return n;
	write_value(p->r, &w, &n->constant);
	for (; p->at->kind == T_STRING; parse_move(p))
		write_value(p->r, &w, &p->at->value);
	n->constant = write_done(p->r, &w);
	return n;
}

/* Items up to a closing bracket; a comma may stand at the end. */
static struct node *items(struct parser *p, enum node_kind kind, const char *close)
{
	struct node *n = node_new(p, kind);
	struct node **tail = n ? &n->a : NULL;
	while (n && !p->r->failed && !at_operator(p, close)) {
		node_chain(&tail, parse_expression(p));
		if (!at_operator(p, close))
			want_operator(p, ",");
	}
	want_operator(p, close);
	return n;
}

static struct node *member(struct parser *p)
{
	struct node *key = parse_expression(p);
	want_operator(p, ":");
	struct node *value = parse_expression(p);
	return node_of_two(p, N_MEMBER, 0, key, value);
}

static struct node *dict(struct parser *p)
{
	struct node *n = node_new(p, N_DICT);
	struct node **tail = n ? &n->a : NULL;
	while (n && !p->r->failed && !at_operator(p, "}")) {
		node_chain(&tail, member(p));
		if (!at_operator(p, "}"))
			want_operator(p, ",");
	}
	want_operator(p, "}");
	return n;
}

static struct node *in_parentheses(struct parser *p)
{
	if (at_operator(p, ")")) {
		struct node *none = node_new(p, N_TUPLE);
		parse_move(p);
		return none;
	}
	struct node *n = parse_tuple(p, parse_expression);
	want_operator(p, ")");
	return n;
}

static struct node *primary(struct parser *p)
{
	struct node *n = NULL;
	if (p->r->failed || !parse_enter(p))
		return NULL;
	if (p->at->kind == T_NAME)
		n = name_or_word(p);
	else if (p->at->kind == T_STRING)
		n = strings(p);
	else if (p->at->kind == T_NUMBER) {
		n = parse_constant(p, p->at->value);
		parse_move(p);
	} else if (take_operator(p, "("))
		n = in_parentheses(p);
	else if (take_operator(p, "["))
		n = items(p, N_LIST, "]");
	else if (take_operator(p, "{"))
		n = dict(p);
	else
		parse_fail(p, "a value");
	p->depth--;
	return n;
}

/* ---- what stands behind a value ---- */

static struct node *argument(struct parser *p)
{
	struct node *n = node_new(p, N_ARGUMENT);
	if (!n)
		return NULL;
	n->flag = take_operator(p, "*");
	if (at_operator(p, "**"))
		run_fail(p->r, ENOTSUP, "** in a call is not known here");
	if (p->at->kind == T_NAME && token_is(p->at + 1, T_OPERATOR, "=")) {
		node_take_name(p, n, "a name");
		parse_move(p);
	}
	n->a = parse_expression(p);
	return n;
}

/* Arguments behind "(", up to ")". */
static struct node *arguments(struct parser *p)
{
	struct node *first = NULL, **tail = &first;
	bool named = false;
	while (!p->r->failed && !at_operator(p, ")")) {
		struct node *a = argument(p);
		if (a && named && !a->name && !a->flag)
			run_fail(p->r, EINVAL, "an argument by position after one by name");
		named |= a && a->name;
		node_chain(&tail, a);
		if (!at_operator(p, ")"))
			want_operator(p, ",");
	}
	want_operator(p, ")");
	return first;
}

struct node *parse_attribute(struct parser *p, struct node *of)
{
	if (p->at->kind == T_NUMBER) {
		struct node *key = parse_constant(p, p->at->value);
		parse_move(p);
		return node_of_two(p, N_ITEM, 0, of, key);
	}
	struct node *n = node_of_two(p, N_ATTRIBUTE, 0, of, NULL);
	node_take_name(p, n, "a name or number");
	return n;
}

/* x[...]: an item, or a slice, whose parts may be left out. */
static struct node *subscript(struct parser *p, struct node *of)
{
	struct node *parts[3] = {NULL};
	int count = 0;
	bool slice = false;
	while (!p->r->failed && !at_operator(p, "]")) {
		if (at_operator(p, ":") && count < 2) {
			slice = true;
			count++;
			parse_move(p);
			continue;
		}
		if (parts[count])
			break;
		parts[count] = slice ? parse_expression(p) : parse_tuple(p, parse_expression);
	}
	if (!slice && !parts[0])
		parse_fail(p, "an index");
	want_operator(p, "]");
	struct node *n = node_of_two(p, slice ? N_SLICE : N_ITEM, 0, of, parts[0]);
	if (n) {
		n->c = parts[1];
		n->d = parts[2];
	}
	return n;
}

static struct node *call(struct parser *p, struct node *what)
{
	struct node *n = node_of_two(p, N_CALL, 0, what, NULL);
	struct node *first = arguments(p);
	if (n)
		n->b = first;
	return n;
}

static struct node *postfix(struct parser *p, struct node *n)
{
	while (!p->r->failed) {
		if (take_operator(p, "."))
			n = parse_attribute(p, n);
		else if (take_operator(p, "["))
			n = subscript(p, n);
		else if (take_operator(p, "("))
			n = call(p, n);
		else
			break;
	}
	return n;
}

struct node *parse_filter(struct parser *p, struct node *of)
{
	struct node *n = node_of_two(p, N_FILTER, 0, of, NULL);
	node_take_name(p, n, "a filter's name");
	if (take_operator(p, "(")) {
		struct node *first = arguments(p);
		if (n)
			n->b = first;
	}
	return n;
}

/* What follows a test's name without brackets is its argument, if it can be one. */
static bool begins_argument(const struct parser *p)
{
	static const char *const NONE_OF[] = {"else", "or", "and", "is", NULL};
	return (p->at->kind == T_NAME && !at_one_of(p, NONE_OF)) || p->at->kind == T_STRING ||
	       p->at->kind == T_NUMBER || at_operator(p, "[") || at_operator(p, "{");
}

static struct node *test(struct parser *p, struct node *of)
{
	bool negated = take_word(p, "not");
	struct node *n = node_of_two(p, N_TEST, 0, of, NULL), *first = NULL;
	node_take_name(p, n, "a test's name");
	if (take_operator(p, "("))
		first = arguments(p);
	else if (begins_argument(p)) {
		first = node_new(p, N_ARGUMENT);
		struct node *value = postfix(p, primary(p));
		if (first)
			first->a = value;
	}
	if (n)
		n->b = first;
	return negated ? node_of_two(p, N_NOT, 0, n, NULL) : n;
}

static struct node *filters(struct parser *p, struct node *n)
{
	while (!p->r->failed) {
		if (take_operator(p, "|"))
			n = parse_filter(p, n);
		else if (take_word(p, "is"))
			n = test(p, n);
		else if (take_operator(p, "("))
			n = call(p, n);
		else
			break;
	}
	return n;
}

/* ---- operators ---- */

static struct node *unary(struct parser *p, bool with_filters)
{
	struct node *n;
	if (p->r->failed || !parse_enter(p))
		return NULL;
	if (take_operator(p, "-"))
		n = node_of_two(p, N_MINUS, 0, unary(p, false), NULL);
	else if (take_operator(p, "+"))
		n = node_of_two(p, N_PLUS, 0, unary(p, false), NULL);
	else
		n = primary(p);
	n = postfix(p, n);
	p->depth--;
	return with_filters ? filters(p, n) : n;
}

/* One level of operators that group from the left. */
struct level {
	const struct {
		const char *text;
		uint8_t kind, op;
	} operators[5];
};
enum { LEVELS = 4 };
static const struct level LEVEL[LEVELS] = {
	{{{"+", N_BINARY, OP_ADD}, {"-", N_BINARY, OP_SUBTRACT}}},
	{{{"~", N_CONCAT, 0}}},
	{{{"*", N_BINARY, OP_MULTIPLY},
	  {"/", N_BINARY, OP_DIVIDE},
	  {"//", N_BINARY, OP_FLOOR},
	  {"%", N_BINARY, OP_MODULO}}},
	{{{"**", N_BINARY, OP_POWER}}},
};

static struct node *operators(struct parser *p, int level)
{
	if (level == LEVELS)
		return unary(p, true);
	struct node *n = operators(p, level + 1);
	for (int i = 0; !p->r->failed && i < 5 && LEVEL[level].operators[i].text;) {
		if (!take_operator(p, LEVEL[level].operators[i].text)) {
			i++;
			continue;
		}
		n = node_of_two(p, (enum node_kind)LEVEL[level].operators[i].kind,
				LEVEL[level].operators[i].op, n, operators(p, level + 1));
		i = 0;
	}
	return n;
}

/* Whether a comparison's operator is here; passes over it. */
static bool take_comparison(struct parser *p, uint8_t *op)
{
	static const struct {
		const char *text;
		uint8_t op;
	} COMPARISONS[] = {{"==", OP_EQUAL},	  {"!=", OP_NOT_EQUAL}, {"<", OP_LESS},
			   {"<=", OP_LESS_EQUAL}, {">", OP_GREATER},	{">=", OP_GREATER_EQUAL}};
	for (size_t i = 0; i < sizeof COMPARISONS / sizeof *COMPARISONS; i++)
		if (take_operator(p, COMPARISONS[i].text)) {
			*op = COMPARISONS[i].op;
			return true;
		}
	bool negated = at_word(p, "not") && token_is(p->at + 1, T_NAME, "in");
	if (negated)
		parse_move(p);
	*op = negated ? OP_NOT_IN : OP_IN;
	return take_word(p, "in");
}

static struct node *comparison(struct parser *p)
{
	struct node *n = operators(p, 0), *first = NULL, **tail = &first;
	uint8_t op;
	while (!p->r->failed && take_comparison(p, &op))
		node_chain(&tail, node_of_two(p, N_OPERAND, op, operators(p, 0), NULL));
	return first ? node_of_two(p, N_COMPARE, 0, n, first) : n;
}

static struct node *not_test(struct parser *p)
{
	if (!take_word(p, "not"))
		return comparison(p);
	if (!parse_enter(p))
		return NULL;
	struct node *n = node_of_two(p, N_NOT, 0, not_test(p), NULL);
	p->depth--;
	return n;
}

static struct node *and_test(struct parser *p)
{
	struct node *n = not_test(p);
	while (!p->r->failed && take_word(p, "and"))
		n = node_of_two(p, N_AND, 0, n, not_test(p));
	return n;
}

struct node *parse_condition(struct parser *p)
{
	struct node *n = and_test(p);
	while (!p->r->failed && take_word(p, "or"))
		n = node_of_two(p, N_OR, 0, n, and_test(p));
	return n;
}

struct node *parse_expression(struct parser *p)
{
	if (!parse_enter(p))
		return NULL;
	struct node *n = parse_condition(p);
	while (!p->r->failed && take_word(p, "if")) {
		n = node_of_two(p, N_CHOICE, 0, parse_condition(p), n);
		struct node *otherwise = take_word(p, "else") ? parse_expression(p) : NULL;
		if (n)
			n->c = otherwise;
	}
	p->depth--;
	return n;
}

struct node *parse_tuple(struct parser *p, struct node *(*item)(struct parser *p))
{
	struct node *first = item(p), *n = NULL, **tail;
	if (p->r->failed || !at_operator(p, ","))
		return first;
	n = node_of_two(p, N_TUPLE, 0, first, NULL);
	if (!n)
		return NULL;
	tail = &first->next;
	while (!p->r->failed && take_operator(p, ",")) {
		bool ends = p->at->kind == T_PRINT_END || p->at->kind == T_TAG_END ||
			    at_operator(p, ")") || at_operator(p, "]") || at_operator(p, "=") ||
			    at_word(p, "in");
		if (ends)
			break;
		node_chain(&tail, item(p));
	}
	return n;
}

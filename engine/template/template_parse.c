/* Statements, and the tree of a whole template. */
#include "engine/template/template_parse.h"

#include "engine/template/template_text.h"

#include <errno.h>
#include <string.h>

enum {
	PARSE_DEPTH_MAX = 200,
	TREE_DEPTH_MAX = 500, /* a row of operators is a deep tree */
};

struct parser {
	struct template_run *r;
	const struct template_token *at; /* the last one, T_END, is never passed */
	int depth;
	uint8_t asks;		    /* special variables used so far by the macro around */
	struct template_node spare; /* returned if there is no memory for a node */
};

/* ---- tokens ---- */

/* Fails: `wanted` was expected instead of the current token. */
static void parse_fail(struct parser *p, const char *wanted)
{
	p->r->line = p->at->line;
	if (p->at->kind == T_END)
		template_fail(p->r, EINVAL, "the template ends, but %s is expected", wanted);
	else
		template_fail(p->r, EINVAL, "\"%.*s\" stands where %s is expected",
			      (int)(p->at->n < 24 ? p->at->n : 24), p->at->text, wanted);
}

static void parse_move(struct parser *p)
{
	if (p->at->kind != T_END)
		p->at++;
}

static bool parse_token_is(const struct template_token *t, enum token_kind kind, const char *text)
{
	return t->kind == kind && t->n == strlen(text) && memcmp(t->text, text, t->n) == 0;
}

static bool parse_at_operator(const struct parser *p, const char *text)
{
	return parse_token_is(p->at, T_OPERATOR, text);
}

static bool parse_at_word(const struct parser *p, const char *text)
{
	return parse_token_is(p->at, T_NAME, text);
}

/* Takes the operator if it is the current token. */
static bool parse_take_operator(struct parser *p, const char *text)
{
	bool there = parse_at_operator(p, text);
	if (there)
		parse_move(p);
	return there;
}

static bool parse_take_word(struct parser *p, const char *text)
{
	bool there = parse_at_word(p, text);
	if (there)
		parse_move(p);
	return there;
}

/* Fail if it is not. */
static void parse_want_operator(struct parser *p, const char *text)
{
	char wanted[8] = {'"'};
	if (parse_take_operator(p, text))
		return;
	strncat(strncat(wanted, text, 4), "\"", 2);
	parse_fail(p, wanted);
}

static void parse_want_token(struct parser *p, enum token_kind kind, const char *wanted)
{
	if (p->at->kind == kind)
		parse_move(p);
	else
		parse_fail(p, wanted);
}

static bool parse_at_one_of(const struct parser *p, const char *const *words)
{
	for (; *words; words++)
		if (parse_at_word(p, *words))
			return true;
	return false;
}

/* ---- nodes ---- */

/* After a failure: a node that nobody reads, so that callers need not check for NULL. */
static struct template_node *parse_node(struct parser *p, enum node_kind kind)
{
	struct template_node *n = template_allocate(p->r, sizeof *n);
	n = n ? n : &p->spare;
	*n = (struct template_node){.kind = (uint8_t)kind, .line = p->at->line};
	return n;
}

static struct template_node *parse_node_of_two(struct parser *p, enum node_kind kind, uint8_t op,
					       struct template_node *a, struct template_node *b)
{
	struct template_node *n = parse_node(p, kind);
	n->op = op;
	n->a = a;
	n->b = b;
	n->depth = 1 + (a && (!b || a->depth > b->depth) ? a->depth : b ? b->depth : 0);
	if (n->depth > TREE_DEPTH_MAX)
		template_fail(p->r, EINVAL, "more than %d operators in a row", TREE_DEPTH_MAX);
	return n;
}

/* Moves a name into a node. */
static void parse_take_name(struct parser *p, struct template_node *n, const char *what)
{
	if (p->at->kind != T_NAME)
		parse_fail(p, what);
	if (p->r->failed)
		return;
	n->name = p->at->text;
	n->name_n = p->at->n;
	parse_move(p);
}

/* Appends a node to a list whose last `next` is *tail. */
static void parse_chain(struct template_node ***tail, struct template_node *n)
{
	if (!n)
		return;
	**tail = n;
	*tail = &n->next;
}

/* Enters one level; the caller decrements p->depth. */
static bool parse_enter(struct parser *p)
{
	if (++p->depth > PARSE_DEPTH_MAX)
		template_fail(p->r, EINVAL, "more than %d levels of nesting", PARSE_DEPTH_MAX);
	return !p->r->failed;
}

/* ---- expressions ---- */

/* Expressions, by recursive descent. The grammar and precedence are Jinja2's:
 *
 *     a if b else c · or · and · not · comparisons, in · + - · ~ · * / // % · ** · -a +a
 *
 * Filters, tests, attributes, items and calls bind tightest, except that a minus sign binds
 * tighter than filters: -1 | abs is 1. */

static struct template_node *parse_expression(struct parser *p);
static struct template_node *parse_tuple(struct parser *p,
					 struct template_node *(*item)(struct parser *p));
static struct template_node *parse_unary(struct parser *p, bool with_filters);

/* ---- operands ---- */

static struct template_node *parse_constant(struct parser *p, struct value v)
{
	struct template_node *n = parse_node(p, N_CONSTANT);
	n->constant = v;
	return n;
}

static struct template_node *parse_name(struct parser *p)
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
	struct template_node *n = NULL;
	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS && !n; i++)
		if (parse_at_word(p, WORDS[i].word))
			n = parse_constant(
				p, (struct value){.kind = WORDS[i].kind, .truth = WORDS[i].truth});
	if (n) {
		parse_move(p);
		return n;
	}
	for (size_t i = 0; i < sizeof ASKED / sizeof *ASKED; i++)
		if (parse_at_word(p, ASKED[i].word))
			p->asks |= ASKED[i].asks;
	n = parse_node(p, N_NAME);
	parse_take_name(p, n, "a name");
	return n;
}

/* Adjacent strings are one. */
static struct template_node *parse_strings(struct parser *p)
{
	struct writer w = {0};
	struct template_node *n = parse_constant(p, p->at->value);
	parse_move(p);
	if (p->at->kind != T_STRING || !n)
		return n;
	text_print(p->r, &w, &n->constant);
	for (; p->at->kind == T_STRING; parse_move(p))
		text_print(p->r, &w, &p->at->value);
	n->constant = value_written(p->r, &w);
	return n;
}

/* Items up to a closing bracket, separated by commas; a trailing comma is allowed. */
static struct template_node *
parse_list(struct parser *p, struct template_node *(*item)(struct parser *p), const char *close)
{
	struct template_node *first = NULL, **tail = &first;
	while (!p->r->failed && !parse_at_operator(p, close)) {
		parse_chain(&tail, item(p));
		if (!parse_at_operator(p, close))
			parse_want_operator(p, ",");
	}
	parse_want_operator(p, close);
	return first;
}

static struct template_node *parse_member(struct parser *p)
{
	struct template_node *key = parse_expression(p);
	parse_want_operator(p, ":");
	struct template_node *value = parse_expression(p);
	return parse_node_of_two(p, N_MEMBER, 0, key, value);
}

static struct template_node *parse_primary(struct parser *p)
{
	struct template_node *n = NULL;
	if (p->r->failed || !parse_enter(p))
		return NULL;
	if (p->at->kind == T_NAME)
		n = parse_name(p);
	else if (p->at->kind == T_STRING)
		n = parse_strings(p);
	else if (p->at->kind == T_NUMBER) {
		n = parse_constant(p, p->at->value);
		parse_move(p);
	} else if (parse_take_operator(p, "(")) {
		n = parse_at_operator(p, ")") ? parse_node(p, N_TUPLE)
					      : parse_tuple(p, parse_expression);
		parse_want_operator(p, ")");
	} else if (parse_take_operator(p, "[")) {
		n = parse_node(p, N_LIST);
		n->a = parse_list(p, parse_expression, "]");
	} else if (parse_take_operator(p, "{")) {
		n = parse_node(p, N_DICT);
		n->a = parse_list(p, parse_member, "}");
	} else
		parse_fail(p, "a value");
	p->depth--;
	return n;
}

/* ---- after an operand ---- */

static struct template_node *parse_argument(struct parser *p)
{
	struct template_node *n = parse_node(p, N_ARGUMENT);
	n->flag = parse_take_operator(p, "*");
	if (parse_at_operator(p, "**"))
		template_fail(p->r, ENOTSUP, "** in a call is not supported");
	if (p->at->kind == T_NAME && parse_token_is(p->at + 1, T_OPERATOR, "=")) {
		parse_take_name(p, n, "a name");
		parse_move(p);
	}
	n->a = parse_expression(p);
	return n;
}

/* Arguments after "(", up to ")". */
static struct template_node *parse_arguments(struct parser *p)
{
	struct template_node *first = parse_list(p, parse_argument, ")");
	bool named = false;
	for (const struct template_node *a = first; a && !p->r->failed; a = a->next) {
		if (named && !a->name && !a->flag)
			template_fail(p->r, EINVAL,
				      "a positional argument follows a keyword argument");
		named |= a->name != NULL;
	}
	return first;
}

/* .NAME of a value. */
static struct template_node *parse_attribute(struct parser *p, struct template_node *of)
{
	if (p->at->kind == T_NUMBER) {
		struct template_node *key = parse_constant(p, p->at->value);
		parse_move(p);
		return parse_node_of_two(p, N_ITEM, 0, of, key);
	}
	struct template_node *n = parse_node_of_two(p, N_ATTRIBUTE, 0, of, NULL);
	parse_take_name(p, n, "a name or number");
	return n;
}

/* x[...]: an item, or a slice whose parts may be omitted. */
static struct template_node *parse_subscript(struct parser *p, struct template_node *of)
{
	struct template_node *parts[3] = {NULL};
	int count = 0;
	bool slice = false;
	while (!p->r->failed && !parse_at_operator(p, "]")) {
		if (parse_at_operator(p, ":") && count < 2) {
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
	parse_want_operator(p, "]");
	struct template_node *n = parse_node_of_two(p, slice ? N_SLICE : N_ITEM, 0, of, parts[0]);
	n->c = parts[1];
	n->d = parts[2];
	return n;
}

static struct template_node *parse_call(struct parser *p, struct template_node *what)
{
	struct template_node *n = parse_node_of_two(p, N_CALL, 0, what, NULL);
	n->b = parse_arguments(p);
	return n;
}

static struct template_node *parse_postfix(struct parser *p, struct template_node *n)
{
	while (!p->r->failed) {
		if (parse_take_operator(p, "."))
			n = parse_attribute(p, n);
		else if (parse_take_operator(p, "["))
			n = parse_subscript(p, n);
		else if (parse_take_operator(p, "("))
			n = parse_call(p, n);
		else
			break;
	}
	return n;
}

/* |NAME or |NAME(arguments) of a value. */
static struct template_node *parse_filter(struct parser *p, struct template_node *of)
{
	struct template_node *n = parse_node_of_two(p, N_FILTER, 0, of, NULL);
	parse_take_name(p, n, "a filter's name");
	if (parse_take_operator(p, "("))
		n->b = parse_arguments(p);
	return n;
}

/* Whether an argument without brackets follows a test's name. */
static bool parse_begins_argument(const struct parser *p)
{
	static const char *const NONE_OF[] = {"else", "or", "and", "is", NULL};
	return (p->at->kind == T_NAME && !parse_at_one_of(p, NONE_OF)) || p->at->kind == T_STRING ||
	       p->at->kind == T_NUMBER || parse_at_operator(p, "[") || parse_at_operator(p, "{");
}

static struct template_node *parse_test(struct parser *p, struct template_node *of)
{
	bool negated = parse_take_word(p, "not");
	struct template_node *n = parse_node_of_two(p, N_TEST, 0, of, NULL), *first = NULL;
	parse_take_name(p, n, "a test's name");
	if (parse_take_operator(p, "("))
		first = parse_arguments(p);
	else if (parse_begins_argument(p)) {
		first = parse_node(p, N_ARGUMENT);
		first->a = parse_postfix(p, parse_primary(p));
	}
	n->b = first;
	return negated ? parse_node_of_two(p, N_NOT, 0, n, NULL) : n;
}

static struct template_node *parse_filters(struct parser *p, struct template_node *n)
{
	while (!p->r->failed) {
		if (parse_take_operator(p, "|"))
			n = parse_filter(p, n);
		else if (parse_take_word(p, "is"))
			n = parse_test(p, n);
		else if (parse_take_operator(p, "("))
			n = parse_call(p, n);
		else
			break;
	}
	return n;
}

/* ---- operators ---- */

static struct template_node *parse_unary(struct parser *p, bool with_filters)
{
	struct template_node *n;
	if (p->r->failed || !parse_enter(p))
		return NULL;
	if (parse_take_operator(p, "-"))
		n = parse_node_of_two(p, N_MINUS, 0, parse_unary(p, false), NULL);
	else if (parse_take_operator(p, "+"))
		n = parse_node_of_two(p, N_PLUS, 0, parse_unary(p, false), NULL);
	else
		n = parse_primary(p);
	n = parse_postfix(p, n);
	p->depth--;
	return with_filters ? parse_filters(p, n) : n;
}

/* One level of left-associative operators. */
struct parse_level {
	const struct {
		const char *text;
		uint8_t kind, op;
	} operators[5];
};
enum { LEVELS = 4 };
static const struct parse_level LEVEL[LEVELS] = {
	{{{"+", N_BINARY, OP_ADD}, {"-", N_BINARY, OP_SUBTRACT}}},
	{{{"~", N_CONCAT, 0}}},
	{{{"*", N_BINARY, OP_MULTIPLY},
	  {"/", N_BINARY, OP_DIVIDE},
	  {"//", N_BINARY, OP_FLOOR},
	  {"%", N_BINARY, OP_MODULO}}},
	{{{"**", N_BINARY, OP_POWER}}},
};

static struct template_node *parse_operators(struct parser *p, int level)
{
	if (level == LEVELS)
		return parse_unary(p, true);
	struct template_node *n = parse_operators(p, level + 1);
	for (int i = 0; !p->r->failed && i < 5 && LEVEL[level].operators[i].text;) {
		if (!parse_take_operator(p, LEVEL[level].operators[i].text)) {
			i++;
			continue;
		}
		n = parse_node_of_two(p, (enum node_kind)LEVEL[level].operators[i].kind,
				      LEVEL[level].operators[i].op, n,
				      parse_operators(p, level + 1));
		i = 0;
	}
	return n;
}

/* Takes a comparison operator if it is the current token. */
static bool parse_take_comparison(struct parser *p, uint8_t *op)
{
	static const struct {
		const char *text;
		uint8_t op;
	} COMPARISONS[] = {{"==", OP_EQUAL},	  {"!=", OP_NOT_EQUAL}, {"<", OP_LESS},
			   {"<=", OP_LESS_EQUAL}, {">", OP_GREATER},	{">=", OP_GREATER_EQUAL}};
	for (size_t i = 0; i < sizeof COMPARISONS / sizeof *COMPARISONS; i++)
		if (parse_take_operator(p, COMPARISONS[i].text)) {
			*op = COMPARISONS[i].op;
			return true;
		}
	bool negated = parse_at_word(p, "not") && parse_token_is(p->at + 1, T_NAME, "in");
	if (negated)
		parse_move(p);
	*op = negated ? OP_NOT_IN : OP_IN;
	return parse_take_word(p, "in");
}

static struct template_node *parse_comparison(struct parser *p)
{
	struct template_node *n = parse_operators(p, 0), *first = NULL, **tail = &first;
	uint8_t op;
	while (!p->r->failed && parse_take_comparison(p, &op))
		parse_chain(&tail,
			    parse_node_of_two(p, N_OPERAND, op, parse_operators(p, 0), NULL));
	return first ? parse_node_of_two(p, N_COMPARE, 0, n, first) : n;
}

static struct template_node *parse_not(struct parser *p)
{
	if (!parse_take_word(p, "not"))
		return parse_comparison(p);
	if (!parse_enter(p))
		return NULL;
	struct template_node *n = parse_node_of_two(p, N_NOT, 0, parse_not(p), NULL);
	p->depth--;
	return n;
}

static struct template_node *parse_and(struct parser *p)
{
	struct template_node *n = parse_not(p);
	while (!p->r->failed && parse_take_word(p, "and"))
		n = parse_node_of_two(p, N_AND, 0, n, parse_not(p));
	return n;
}

/* An expression without a choice (a if b else c) of its own. */
static struct template_node *parse_condition(struct parser *p)
{
	struct template_node *n = parse_and(p);
	while (!p->r->failed && parse_take_word(p, "or"))
		n = parse_node_of_two(p, N_OR, 0, n, parse_and(p));
	return n;
}

static struct template_node *parse_expression(struct parser *p)
{
	if (!parse_enter(p))
		return NULL;
	struct template_node *n = parse_condition(p);
	while (!p->r->failed && parse_take_word(p, "if")) {
		n = parse_node_of_two(p, N_CHOICE, 0, parse_condition(p), n);
		n->c = parse_take_word(p, "else") ? parse_expression(p) : NULL;
	}
	p->depth--;
	return n;
}

/* One item, or a tuple of items separated by commas. */
static struct template_node *parse_tuple(struct parser *p,
					 struct template_node *(*item)(struct parser *p))
{
	struct template_node *first = item(p), *n = NULL, **tail;
	if (p->r->failed || !parse_at_operator(p, ","))
		return first;
	n = parse_node_of_two(p, N_TUPLE, 0, first, NULL);
	tail = &first->next;
	while (!p->r->failed && parse_take_operator(p, ",")) {
		bool ends = p->at->kind == T_PRINT_END || p->at->kind == T_TAG_END ||
			    parse_at_operator(p, ")") || parse_at_operator(p, "]") ||
			    parse_at_operator(p, "=") || parse_at_word(p, "in");
		if (ends)
			break;
		parse_chain(&tail, item(p));
	}
	return n;
}

/* ---- statements ---- */

static struct template_node *parse_statements(struct parser *p, const char *const *ends);

static struct template_node *parse_plain_name(struct parser *p)
{
	struct template_node *n = parse_node(p, N_NAME);
	parse_take_name(p, n, "a name");
	return n;
}

/* The target of an assignment: a name, several, or a namespace's attribute. */
static struct template_node *parse_target(struct parser *p)
{
	if (p->at->kind == T_NAME && parse_token_is(p->at + 1, T_OPERATOR, ".")) {
		struct template_node *of = parse_plain_name(p);
		parse_move(p);
		return parse_attribute(p, of);
	}
	bool brackets = parse_take_operator(p, "(");
	struct template_node *n = parse_tuple(p, parse_plain_name);
	if (brackets)
		parse_want_operator(p, ")");
	return n;
}

static void parse_end_tag(struct parser *p)
{
	parse_want_token(p, T_TAG_END, "the end of the tag");
}

/* Statements up to {% word %}, and that tag. */
static struct template_node *parse_body_until(struct parser *p, const char *word)
{
	const char *const ends[] = {word, NULL};
	parse_end_tag(p);
	struct template_node *first = parse_statements(p, ends);
	parse_move(p);
	parse_end_tag(p);
	return first;
}

static struct template_node *parse_for(struct parser *p)
{
	static const char *const ENDS[] = {"else", "endfor", NULL};
	struct template_node *n = parse_node_of_two(p, N_FOR, 0, parse_target(p), NULL);
	if (!parse_take_word(p, "in"))
		parse_fail(p, "\"in\"");
	if (p->r->failed)
		return NULL;
	n->b = parse_tuple(p, parse_condition);
	if (parse_take_word(p, "if"))
		n->e = parse_expression(p);
	n->flag = parse_take_word(p, "recursive");
	parse_end_tag(p);
	n->c = parse_statements(p, ENDS);
	if (parse_take_word(p, "else"))
		n->d = parse_body_until(p, "endfor");
	else {
		parse_move(p);
		parse_end_tag(p);
	}
	return n;
}

static struct template_node *parse_if(struct parser *p)
{
	static const char *const ENDS[] = {"elif", "else", "endif", NULL};
	struct template_node *first = NULL, **to = &first;
	int count = 0;
	do {
		if (++count > TREE_DEPTH_MAX)
			template_fail(p->r, EINVAL, "more than %d elif in a row", TREE_DEPTH_MAX);
		struct template_node *n =
			parse_node_of_two(p, N_IF, 0, parse_tuple(p, parse_condition), NULL);
		parse_end_tag(p);
		if (p->r->failed)
			return NULL;
		n->b = parse_statements(p, ENDS);
		n->flag = n != first && first;
		*to = n;
		to = &n->c;
	} while (!p->r->failed && parse_take_word(p, "elif"));
	if (parse_take_word(p, "else"))
		*to = parse_body_until(p, "endif");
	else {
		parse_move(p);
		parse_end_tag(p);
	}
	return first;
}

/* NAME|NAME... of a block's text. */
static struct template_node *parse_block_filter(struct parser *p)
{
	struct template_node *n = parse_filter(p, NULL);
	while (!p->r->failed && parse_take_operator(p, "|"))
		n = parse_filter(p, n);
	return n;
}

static struct template_node *parse_set(struct parser *p)
{
	struct template_node *to = parse_target(p);
	if (parse_take_operator(p, "=")) {
		struct template_node *n =
			parse_node_of_two(p, N_SET, 0, to, parse_tuple(p, parse_expression));
		parse_end_tag(p);
		return n;
	}
	struct template_node *by = parse_take_operator(p, "|") ? parse_block_filter(p) : NULL;
	struct template_node *n = parse_node_of_two(p, N_SET_BLOCK, 0, to, by);
	n->c = parse_body_until(p, "endset");
	return n;
}

static struct template_node *parse_parameter(struct parser *p)
{
	struct template_node *n = parse_node(p, N_PARAMETER);
	parse_take_name(p, n, "a parameter's name");
	n->a = parse_take_operator(p, "=") ? parse_expression(p) : NULL;
	return n;
}

/* A macro's body, and which special variables it uses. */
static void parse_macro_body(struct parser *p, struct template_node *n, const char *end)
{
	uint8_t around = p->asks;
	p->asks = 0;
	n->c = parse_body_until(p, end);
	n->asks = p->asks;
	p->asks = around;
}

static struct template_node *parse_macro(struct parser *p)
{
	struct template_node *n = parse_node(p, N_MACRO);
	parse_take_name(p, n, "a macro's name");
	parse_want_operator(p, "(");
	n->a = parse_list(p, parse_parameter, ")");
	parse_macro_body(p, n, "endmacro");
	return n;
}

static struct template_node *parse_call_block(struct parser *p)
{
	struct template_node *body = parse_node(p, N_MACRO);
	struct template_node *first =
		parse_take_operator(p, "(") ? parse_list(p, parse_parameter, ")") : NULL;
	struct template_node *n = parse_node_of_two(p, N_CALL_BLOCK, 0, parse_expression(p), body);
	if (!p->r->failed && n->a->kind != N_CALL)
		parse_fail(p, "a call of a macro");
	body->name = "caller";
	body->name_n = 6;
	body->a = first;
	parse_macro_body(p, body, "endcall");
	return n;
}

static struct template_node *parse_filter_block(struct parser *p)
{
	struct template_node *n =
		parse_node_of_two(p, N_FILTER_BLOCK, 0, NULL, parse_block_filter(p));
	n->c = parse_body_until(p, "endfilter");
	return n;
}

static struct template_node *parse_with(struct parser *p)
{
	struct template_node *n = parse_node(p, N_WITH), **tail = &n->a;
	while (!p->r->failed && p->at->kind != T_TAG_END) {
		struct template_node *to = parse_plain_name(p);
		parse_want_operator(p, "=");
		parse_chain(&tail, parse_node_of_two(p, N_SET, 0, to, parse_expression(p)));
		if (p->at->kind != T_TAG_END)
			parse_want_operator(p, ",");
	}
	n->c = parse_body_until(p, "endwith");
	return n;
}

static struct template_node *parse_generation(struct parser *p)
{
	struct template_node *n = parse_node(p, N_BODY);
	n->c = parse_body_until(p, "endgeneration");
	return n;
}

static struct template_node *parse_break(struct parser *p)
{
	struct template_node *n = parse_node(p, N_BREAK);
	parse_end_tag(p);
	return n;
}

static struct template_node *parse_continue(struct parser *p)
{
	struct template_node *n = parse_break(p);
	n->kind = N_CONTINUE;
	return n;
}

static struct template_node *parse_statement(struct parser *p)
{
	static const struct {
		const char *word;
		struct template_node *(*parse)(struct parser *p);
	} TAGS[] = {{"for", parse_for},		{"if", parse_if},
		    {"set", parse_set},		{"macro", parse_macro},
		    {"call", parse_call_block}, {"filter", parse_filter_block},
		    {"with", parse_with},	{"generation", parse_generation},
		    {"break", parse_break},	{"continue", parse_continue}};
	for (size_t i = 0; i < sizeof TAGS / sizeof *TAGS; i++)
		if (parse_take_word(p, TAGS[i].word))
			return TAGS[i].parse(p);
	p->r->line = p->at->line;
	template_fail(p->r, ENOTSUP, "the tag \"%.*s\" is not supported",
		      (int)(p->at->n < 24 ? p->at->n : 24), p->at->text ? p->at->text : "");
	return NULL;
}

/* Statements up to a tag that begins with one of these words; without words, up to the end. */
static struct template_node *parse_statements(struct parser *p, const char *const *ends)
{
	struct template_node *first = NULL, **tail = &first;
	if (!parse_enter(p))
		return NULL;
	while (!p->r->failed && p->at->kind != T_END) {
		p->r->line = p->at->line;
		if (p->at->kind == T_DATA) {
			struct template_node *n = parse_constant(p, p->at->value);
			n->kind = N_DATA;
			parse_chain(&tail, n);
			parse_move(p);
		} else if (p->at->kind == T_PRINT) {
			parse_move(p);
			parse_chain(&tail,
				    parse_node_of_two(p, N_PRINT, 0,
						      parse_tuple(p, parse_expression), NULL));
			parse_want_token(p, T_PRINT_END, "the end of the expression (}})");
		} else {
			parse_want_token(p, T_TAG, "a tag");
			if (parse_at_one_of(p, ends))
				break;
			parse_chain(&tail, parse_statement(p));
		}
	}
	p->depth--;
	if (*ends && p->at->kind == T_END)
		parse_fail(p, *ends);
	return first;
}

struct template_node *template_parse(struct template_run *r, const char *source, size_t n)
{
	static const char *const NO_ENDS[] = {NULL};
	struct token_array tokens = {0};
	template_lex(r, source, n, &tokens);
	if (r->failed)
		return NULL;
	struct parser p = {.r = r, .at = tokens.items};
	struct template_node *first = parse_statements(&p, NO_ENDS);
	struct template_node *root = template_allocate(r, sizeof *root);
	if (root)
		*root = (struct template_node){
			.kind = N_BODY, .line = tokens.items->line, .c = first};
	return root;
}

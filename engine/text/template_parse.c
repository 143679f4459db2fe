/* From tokens to a tree, by recursive descent. The grammar is Jinja2's, with its precedence:
 *
 *     a if b else c · or · and · not · comparisons, in · + - · ~ · * / // % · ** · -a +a
 *
 * and filters, tests, attributes, items and calls, which bind tightest; but for the minus sign,
 * which they bind behind: -1 | abs is 1. */
#include "engine/text/template_tree.h"

#include "engine/text/template_lex.h"

#include <errno.h>
#include <string.h>

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

static struct node *expression(struct parser *p);
static struct node *or_test(struct parser *p);
static struct node *unary(struct parser *p, bool with_filters);
static struct node *tuple(struct parser *p, struct node *(*item)(struct parser *p));
static struct node *statements(struct parser *p, const char *const *ends);

/* ---- tokens ---- */

static void fail_here(struct parser *p, const char *wanted)
{
	p->r->line = p->at->line;
	if (p->at->kind == T_END)
		run_fail(p->r, EINVAL, "the template ends where %s should be", wanted);
	else
		run_fail(p->r, EINVAL, "\"%.*s\" where %s should be",
			 (int)(p->at->n < 24 ? p->at->n : 24), p->at->text, wanted);
}

static void move(struct parser *p)
{
	if (p->at->kind != T_END)
		p->at++;
}

static bool token_is(const struct template_token *t, enum token_kind kind, const char *text)
{
	return t->kind == kind && t->n == strlen(text) && memcmp(t->text, text, t->n) == 0;
}

static bool is_operator(const struct parser *p, const char *text)
{
	return token_is(p->at, T_OPERATOR, text);
}

static bool is_word(const struct parser *p, const char *text)
{
	return token_is(p->at, T_NAME, text);
}

/* Passes over a token if it is there. */
static bool take_operator(struct parser *p, const char *text)
{
	bool there = is_operator(p, text);
	if (there)
		move(p);
	return there;
}

static bool take_word(struct parser *p, const char *text)
{
	bool there = is_word(p, text);
	if (there)
		move(p);
	return there;
}

static void want_operator(struct parser *p, const char *text)
{
	char wanted[8] = {'"'};
	if (take_operator(p, text))
		return;
	strncat(strncat(wanted, text, 4), "\"", 2);
	fail_here(p, wanted);
}

static void want(struct parser *p, enum token_kind kind, const char *wanted)
{
	if (p->at->kind == kind)
		move(p);
	else
		fail_here(p, wanted);
}

static bool is_one_of(const struct parser *p, const char *const *words)
{
	for (; *words; words++)
		if (is_word(p, *words))
			return true;
	return false;
}

/* ---- nodes ---- */

static struct node *new_node(struct parser *p, enum node_kind kind)
{
	struct node *n = run_allocate(p->r, sizeof *n);
	if (n)
		*n = (struct node){.kind = (uint8_t)kind, .line = p->at->line};
	return n;
}

/* After a failure there may be nothing: who builds on it builds on nothing. */
static struct node *of_two(struct parser *p, enum node_kind kind, uint8_t op, struct node *a,
			   struct node *b)
{
	struct node *n = new_node(p, kind);
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

/* Takes a name into a node. */
static void take_name(struct parser *p, struct node *n, const char *what)
{
	if (p->at->kind != T_NAME)
		fail_here(p, what);
	if (!n || p->r->failed)
		return;
	n->name = p->at->text;
	n->name_n = p->at->n;
	move(p);
}

/* Chains a node to a list whose last `next` is *tail. */
static void chain(struct node ***tail, struct node *n)
{
	if (!n)
		return;
	**tail = n;
	*tail = &n->next;
}

static bool enter(struct parser *p)
{
	if (++p->depth > PARSE_DEPTH_MAX)
		run_fail(p->r, EINVAL, "more than %d levels within one another", PARSE_DEPTH_MAX);
	return !p->r->failed;
}

/* ---- what is smallest ---- */

static struct node *constant(struct parser *p, struct value v)
{
	struct node *n = new_node(p, N_CONSTANT);
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
		if (is_word(p, WORDS[i].word))
			n = constant(
				p, (struct value){.kind = WORDS[i].kind, .truth = WORDS[i].truth});
	if (n) {
		move(p);
		return n;
	}
	for (size_t i = 0; i < sizeof ASKED / sizeof *ASKED; i++)
		if (is_word(p, ASKED[i].word))
			p->asks |= ASKED[i].asks;
	n = new_node(p, N_NAME);
	take_name(p, n, "a name");
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
	struct node *n = constant(p, p->at->value);
	move(p);
	if (p->at->kind != T_STRING || !n)
		return n;
	write_value(p->r, &w, &n->constant);
	for (; p->at->kind == T_STRING; move(p))
		write_value(p->r, &w, &p->at->value);
	n->constant = write_done(p->r, &w);
	return n;
}

/* Items up to a closing bracket; a comma may stand at the end. */
static struct node *items(struct parser *p, enum node_kind kind, const char *close)
{
	struct node *n = new_node(p, kind);
	struct node **tail = n ? &n->a : NULL;
	while (n && !p->r->failed && !is_operator(p, close)) {
		chain(&tail, expression(p));
		if (!is_operator(p, close))
			want_operator(p, ",");
	}
	want_operator(p, close);
	return n;
}

static struct node *member(struct parser *p)
{
	struct node *key = expression(p);
	want_operator(p, ":");
	struct node *value = expression(p);
	return of_two(p, N_MEMBER, 0, key, value);
}

static struct node *dict(struct parser *p)
{
	struct node *n = new_node(p, N_DICT);
	struct node **tail = n ? &n->a : NULL;
	while (n && !p->r->failed && !is_operator(p, "}")) {
		chain(&tail, member(p));
		if (!is_operator(p, "}"))
			want_operator(p, ",");
	}
	want_operator(p, "}");
	return n;
}

static struct node *in_parentheses(struct parser *p)
{
	if (is_operator(p, ")")) {
		struct node *none = new_node(p, N_TUPLE);
		move(p);
		return none;
	}
	struct node *n = tuple(p, expression);
	want_operator(p, ")");
	return n;
}

static struct node *primary(struct parser *p)
{
	struct node *n = NULL;
	if (p->r->failed || !enter(p))
		return NULL;
	if (p->at->kind == T_NAME)
		n = name_or_word(p);
	else if (p->at->kind == T_STRING)
		n = strings(p);
	else if (p->at->kind == T_NUMBER) {
		n = constant(p, p->at->value);
		move(p);
	} else if (take_operator(p, "("))
		n = in_parentheses(p);
	else if (take_operator(p, "["))
		n = items(p, N_LIST, "]");
	else if (take_operator(p, "{"))
		n = dict(p);
	else
		fail_here(p, "a value");
	p->depth--;
	return n;
}

/* ---- what stands behind a value ---- */

static struct node *argument(struct parser *p)
{
	struct node *n = new_node(p, N_ARGUMENT);
	if (!n)
		return NULL;
	n->flag = take_operator(p, "*");
	if (is_operator(p, "**"))
		run_fail(p->r, ENOTSUP, "** in a call is not known here");
	if (p->at->kind == T_NAME && token_is(p->at + 1, T_OPERATOR, "=")) {
		take_name(p, n, "a name");
		move(p);
	}
	n->a = expression(p);
	return n;
}

/* Arguments behind "(", up to ")". */
static struct node *arguments(struct parser *p)
{
	struct node *first = NULL, **tail = &first;
	bool named = false;
	while (!p->r->failed && !is_operator(p, ")")) {
		struct node *a = argument(p);
		if (a && named && !a->name && !a->flag)
			run_fail(p->r, EINVAL, "an argument by position after one by name");
		named |= a && a->name;
		chain(&tail, a);
		if (!is_operator(p, ")"))
			want_operator(p, ",");
	}
	want_operator(p, ")");
	return first;
}

static struct node *attribute(struct parser *p, struct node *of)
{
	if (p->at->kind == T_NUMBER) {
		struct node *key = constant(p, p->at->value);
		move(p);
		return of_two(p, N_ITEM, 0, of, key);
	}
	struct node *n = of_two(p, N_ATTRIBUTE, 0, of, NULL);
	take_name(p, n, "a name or number");
	return n;
}

/* x[...]: an item, or a slice, whose parts may be left out. */
static struct node *subscript(struct parser *p, struct node *of)
{
	struct node *parts[3] = {NULL};
	int count = 0;
	bool slice = false;
	while (!p->r->failed && !is_operator(p, "]")) {
		if (is_operator(p, ":") && count < 2) {
			slice = true;
			count++;
			move(p);
			continue;
		}
		if (parts[count])
			break;
		parts[count] = slice ? expression(p) : tuple(p, expression);
	}
	if (!slice && !parts[0])
		fail_here(p, "an index");
	want_operator(p, "]");
	struct node *n = of_two(p, slice ? N_SLICE : N_ITEM, 0, of, parts[0]);
	if (n) {
		n->c = parts[1];
		n->d = parts[2];
	}
	return n;
}

static struct node *call(struct parser *p, struct node *what)
{
	struct node *n = of_two(p, N_CALL, 0, what, NULL);
	struct node *first = arguments(p);
	if (n)
		n->b = first;
	return n;
}

static struct node *postfix(struct parser *p, struct node *n)
{
	while (!p->r->failed) {
		if (take_operator(p, "."))
			n = attribute(p, n);
		else if (take_operator(p, "["))
			n = subscript(p, n);
		else if (take_operator(p, "("))
			n = call(p, n);
		else
			break;
	}
	return n;
}

/* NAME or NAME(arguments), of a value. */
static struct node *filter(struct parser *p, struct node *of)
{
	struct node *n = of_two(p, N_FILTER, 0, of, NULL);
	take_name(p, n, "a filter's name");
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
	return (p->at->kind == T_NAME && !is_one_of(p, NONE_OF)) || p->at->kind == T_STRING ||
	       p->at->kind == T_NUMBER || is_operator(p, "[") || is_operator(p, "{");
}

static struct node *test(struct parser *p, struct node *of)
{
	bool negated = take_word(p, "not");
	struct node *n = of_two(p, N_TEST, 0, of, NULL), *first = NULL;
	take_name(p, n, "a test's name");
	if (take_operator(p, "("))
		first = arguments(p);
	else if (begins_argument(p)) {
		first = new_node(p, N_ARGUMENT);
		struct node *value = postfix(p, primary(p));
		if (first)
			first->a = value;
	}
	if (n)
		n->b = first;
	return negated ? of_two(p, N_NOT, 0, n, NULL) : n;
}

static struct node *filters(struct parser *p, struct node *n)
{
	while (!p->r->failed) {
		if (take_operator(p, "|"))
			n = filter(p, n);
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
	if (p->r->failed || !enter(p))
		return NULL;
	if (take_operator(p, "-"))
		n = of_two(p, N_MINUS, 0, unary(p, false), NULL);
	else if (take_operator(p, "+"))
		n = of_two(p, N_PLUS, 0, unary(p, false), NULL);
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
		n = of_two(p, (enum node_kind)LEVEL[level].operators[i].kind,
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
	bool negated = is_word(p, "not") && token_is(p->at + 1, T_NAME, "in");
	if (negated)
		move(p);
	*op = negated ? OP_NOT_IN : OP_IN;
	return take_word(p, "in");
}

static struct node *comparison(struct parser *p)
{
	struct node *n = operators(p, 0), *first = NULL, **tail = &first;
	uint8_t op;
	while (!p->r->failed && take_comparison(p, &op))
		chain(&tail, of_two(p, N_OPERAND, op, operators(p, 0), NULL));
	return first ? of_two(p, N_COMPARE, 0, n, first) : n;
}

static struct node *not_test(struct parser *p)
{
	if (!take_word(p, "not"))
		return comparison(p);
	if (!enter(p))
		return NULL;
	struct node *n = of_two(p, N_NOT, 0, not_test(p), NULL);
	p->depth--;
	return n;
}

static struct node *and_test(struct parser *p)
{
	struct node *n = not_test(p);
	while (!p->r->failed && take_word(p, "and"))
		n = of_two(p, N_AND, 0, n, not_test(p));
	return n;
}

static struct node *or_test(struct parser *p)
{
	struct node *n = and_test(p);
	while (!p->r->failed && take_word(p, "or"))
		n = of_two(p, N_OR, 0, n, and_test(p));
	return n;
}

static struct node *expression(struct parser *p)
{
	if (!enter(p))
		return NULL;
	struct node *n = or_test(p);
	while (!p->r->failed && take_word(p, "if")) {
		n = of_two(p, N_CHOICE, 0, or_test(p), n);
		struct node *otherwise = take_word(p, "else") ? expression(p) : NULL;
		if (n)
			n->c = otherwise;
	}
	p->depth--;
	return n;
}

/* One item, or several with commas. */
static struct node *tuple(struct parser *p, struct node *(*item)(struct parser *p))
{
	struct node *first = item(p), *n = NULL, **tail;
	if (p->r->failed || !is_operator(p, ","))
		return first;
	n = of_two(p, N_TUPLE, 0, first, NULL);
	if (!n)
		return NULL;
	tail = &first->next;
	while (!p->r->failed && take_operator(p, ",")) {
		bool ends = p->at->kind == T_PRINT_END || p->at->kind == T_TAG_END ||
			    is_operator(p, ")") || is_operator(p, "]") || is_operator(p, "=") ||
			    is_word(p, "in");
		if (ends)
			break;
		chain(&tail, item(p));
	}
	return n;
}

/* ---- statements ---- */

static struct node *plain_name(struct parser *p)
{
	struct node *n = new_node(p, N_NAME);
	take_name(p, n, "a name");
	return n;
}

/* What is assigned to: a name, several, or a namespace's attribute. */
static struct node *target(struct parser *p)
{
	if (p->at->kind == T_NAME && token_is(p->at + 1, T_OPERATOR, ".")) {
		struct node *of = plain_name(p);
		move(p);
		return attribute(p, of);
	}
	bool brackets = take_operator(p, "(");
	struct node *n = tuple(p, plain_name);
	if (brackets)
		want_operator(p, ")");
	return n;
}

static void end_tag(struct parser *p)
{
	want(p, T_TAG_END, "the end of the tag");
}

/* Statements up to {% word %}, which is passed over. */
static struct node *body_until(struct parser *p, const char *word)
{
	const char *const ends[] = {word, NULL};
	end_tag(p);
	struct node *first = statements(p, ends);
	move(p);
	end_tag(p);
	return first;
}

static struct node *for_loop(struct parser *p)
{
	static const char *const ENDS[] = {"else", "endfor", NULL};
	struct node *n = of_two(p, N_FOR, 0, target(p), NULL);
	if (!take_word(p, "in"))
		fail_here(p, "\"in\"");
	if (!n || p->r->failed)
		return NULL;
	n->b = tuple(p, or_test);
	if (take_word(p, "if"))
		n->e = expression(p);
	n->flag = take_word(p, "recursive");
	end_tag(p);
	n->c = statements(p, ENDS);
	if (take_word(p, "else"))
		n->d = body_until(p, "endfor");
	else {
		move(p);
		end_tag(p);
	}
	return n;
}

static struct node *if_else(struct parser *p)
{
	static const char *const ENDS[] = {"elif", "else", "endif", NULL};
	struct node *first = NULL, **to = &first;
	int count = 0;
	do {
		if (++count > TREE_DEPTH_MAX)
			run_fail(p->r, EINVAL, "more than %d elif in a row", TREE_DEPTH_MAX);
		struct node *n = of_two(p, N_IF, 0, tuple(p, or_test), NULL);
		end_tag(p);
		if (!n || p->r->failed)
			return NULL;
		n->b = statements(p, ENDS);
		n->flag = n != first && first;
		*to = n;
		to = &n->c;
	} while (!p->r->failed && take_word(p, "elif"));
	if (take_word(p, "else"))
		*to = body_until(p, "endif");
	else {
		move(p);
		end_tag(p);
	}
	return first;
}

/* NAME|NAME..., of a block's text. */
static struct node *block_filter(struct parser *p)
{
	struct node *n = filter(p, NULL);
	while (!p->r->failed && take_operator(p, "|"))
		n = filter(p, n);
	return n;
}

static struct node *set(struct parser *p)
{
	struct node *to = target(p);
	if (take_operator(p, "=")) {
		struct node *n = of_two(p, N_SET, 0, to, tuple(p, expression));
		end_tag(p);
		return n;
	}
	struct node *by = take_operator(p, "|") ? block_filter(p) : NULL;
	struct node *n = of_two(p, N_SET_BLOCK, 0, to, by);
	struct node *body = body_until(p, "endset");
	if (n)
		n->c = body;
	return n;
}

static struct node *parameter(struct parser *p)
{
	struct node *n = new_node(p, N_PARAMETER);
	take_name(p, n, "a parameter's name");
	struct node *otherwise = take_operator(p, "=") ? expression(p) : NULL;
	if (n)
		n->a = otherwise;
	return n;
}

static struct node *parameters(struct parser *p)
{
	struct node *first = NULL, **tail = &first;
	while (!p->r->failed && !is_operator(p, ")")) {
		chain(&tail, parameter(p));
		if (!is_operator(p, ")"))
			want_operator(p, ",");
	}
	want_operator(p, ")");
	return first;
}

/* A macro's body, and what it asks for. */
static void macro_body(struct parser *p, struct node *n, const char *end)
{
	uint8_t around = p->asks;
	p->asks = 0;
	struct node *body = body_until(p, end);
	if (n) {
		n->c = body;
		n->asks = p->asks;
	}
	p->asks = around;
}

static struct node *macro(struct parser *p)
{
	struct node *n = new_node(p, N_MACRO);
	take_name(p, n, "a macro's name");
	want_operator(p, "(");
	struct node *first = parameters(p);
	if (n)
		n->a = first;
	macro_body(p, n, "endmacro");
	return n;
}

static struct node *call_block(struct parser *p)
{
	struct node *body = new_node(p, N_MACRO);
	struct node *first = take_operator(p, "(") ? parameters(p) : NULL;
	struct node *n = of_two(p, N_CALL_BLOCK, 0, expression(p), body);
	if (!n)
		return NULL;
	if (n->a->kind != N_CALL)
		fail_here(p, "a call of a macro");
	body->name = "caller";
	body->name_n = 6;
	body->a = first;
	macro_body(p, body, "endcall");
	return n;
}

static struct node *filter_block(struct parser *p)
{
	struct node *n = of_two(p, N_FILTER_BLOCK, 0, NULL, block_filter(p));
	struct node *body = body_until(p, "endfilter");
	if (n)
		n->c = body;
	return n;
}

static struct node *with(struct parser *p)
{
	struct node *n = new_node(p, N_WITH), **tail = n ? &n->a : NULL;
	while (n && !p->r->failed && p->at->kind != T_TAG_END) {
		struct node *to = plain_name(p);
		want_operator(p, "=");
		chain(&tail, of_two(p, N_SET, 0, to, expression(p)));
		if (p->at->kind != T_TAG_END)
			want_operator(p, ",");
	}
	struct node *body = body_until(p, "endwith");
	if (n)
		n->c = body;
	return n;
}

static struct node *generation(struct parser *p)
{
	struct node *n = new_node(p, N_BODY);
	struct node *body = body_until(p, "endgeneration");
	if (n)
		n->c = body;
	return n;
}

static struct node *break_loop(struct parser *p)
{
	struct node *n = new_node(p, N_BREAK);
	end_tag(p);
	return n;
}

static struct node *continue_loop(struct parser *p)
{
	struct node *n = new_node(p, N_CONTINUE);
	end_tag(p);
	return n;
}

static struct node *statement(struct parser *p)
{
	static const struct {
		const char *word;
		struct node *(*parse)(struct parser *p);
	} TAGS[] = {{"for", for_loop},	   {"if", if_else},
		    {"set", set},	   {"macro", macro},
		    {"call", call_block},  {"filter", filter_block},
		    {"with", with},	   {"generation", generation},
		    {"break", break_loop}, {"continue", continue_loop}};
	for (size_t i = 0; i < sizeof TAGS / sizeof *TAGS; i++)
		if (take_word(p, TAGS[i].word))
			return TAGS[i].parse(p);
	p->r->line = p->at->line;
	run_fail(p->r, ENOTSUP, "the tag \"%.*s\" is not known here",
		 (int)(p->at->n < 24 ? p->at->n : 24), p->at->text ? p->at->text : "");
	return NULL;
}

static struct node *print(struct parser *p)
{
	struct node *n = of_two(p, N_PRINT, 0, tuple(p, expression), NULL);
	want(p, T_PRINT_END, "the end of what is printed");
	return n;
}

/* Statements up to a tag that begins with one of these words, at which it stops; without any, up to
 * the template's end. */
static struct node *statements(struct parser *p, const char *const *ends)
{
	struct node *first = NULL, **tail = &first;
	if (!enter(p))
		return NULL;
	while (!p->r->failed && p->at->kind != T_END) {
		p->r->line = p->at->line;
		if (p->at->kind == T_DATA) {
			struct node *n = constant(p, p->at->value);
			if (n)
				n->kind = N_DATA;
			chain(&tail, n);
			move(p);
		} else if (p->at->kind == T_PRINT) {
			move(p);
			chain(&tail, print(p));
		} else {
			want(p, T_TAG, "a tag");
			if (is_one_of(p, ends))
				break;
			chain(&tail, statement(p));
		}
	}
	p->depth--;
	if (*ends && p->at->kind == T_END)
		fail_here(p, *ends);
	return first;
}

struct node *template_parse(struct run *r, const char *source, size_t n)
{
	static const char *const NO_ENDS[] = {NULL};
	struct token_array tokens = {0};
	template_lex(r, source, n, &tokens);
	if (r->failed)
		return NULL;
	struct parser p = {.r = r, .at = tokens.items};
	struct node *root = new_node(&p, N_BODY);
	struct node *first = statements(&p, NO_ENDS);
	if (root)
		root->c = first;
	return r->failed ? NULL : root;
}

/* Statements, and the tree of a whole template. */
#include "engine/template/template_expressions.h"

#include <errno.h>

static struct node *statements(struct parser *p, const char *const *ends);

static struct node *plain_name(struct parser *p)
{
	struct node *n = node_new(p, N_NAME);
	node_take_name(p, n, "a name");
	return n;
}

/* What is assigned to: a name, several, or a namespace's attribute. */
static struct node *target(struct parser *p)
{
	if (p->at->kind == T_NAME && token_is(p->at + 1, T_OPERATOR, ".")) {
		struct node *of = plain_name(p);
		parse_move(p);
		return parse_attribute(p, of);
	}
	bool brackets = take_operator(p, "(");
	struct node *n = parse_tuple(p, plain_name);
	if (brackets)
		want_operator(p, ")");
	return n;
}

static void end_tag(struct parser *p)
{
	want_token(p, T_TAG_END, "the end of the tag");
}

/* Statements up to {% word %}, which is passed over. */
static struct node *body_until(struct parser *p, const char *word)
{
	const char *const ends[] = {word, NULL};
	end_tag(p);
	struct node *first = statements(p, ends);
	parse_move(p);
	end_tag(p);
	return first;
}

static struct node *for_loop(struct parser *p)
{
	static const char *const ENDS[] = {"else", "endfor", NULL};
	struct node *n = node_of_two(p, N_FOR, 0, target(p), NULL);
	if (!take_word(p, "in"))
		parse_fail(p, "\"in\"");
	if (!n || p->r->failed)
		return NULL;
	n->b = parse_tuple(p, parse_condition);
	if (take_word(p, "if"))
		n->e = parse_expression(p);
	n->flag = take_word(p, "recursive");
	end_tag(p);
	n->c = statements(p, ENDS);
	if (take_word(p, "else"))
		n->d = body_until(p, "endfor");
	else {
		parse_move(p);
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
		struct node *n = node_of_two(p, N_IF, 0, parse_tuple(p, parse_condition), NULL);
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
		parse_move(p);
		end_tag(p);
	}
	return first;
}

/* NAME|NAME..., of a block's text. */
static struct node *block_filter(struct parser *p)
{
	struct node *n = parse_filter(p, NULL);
	while (!p->r->failed && take_operator(p, "|"))
		n = parse_filter(p, n);
	return n;
}

static struct node *set(struct parser *p)
{
	struct node *to = target(p);
	if (take_operator(p, "=")) {
		struct node *n = node_of_two(p, N_SET, 0, to, parse_tuple(p, parse_expression));
		end_tag(p);
		return n;
	}
	struct node *by = take_operator(p, "|") ? block_filter(p) : NULL;
	struct node *n = node_of_two(p, N_SET_BLOCK, 0, to, by);
	struct node *body = body_until(p, "endset");
	if (n)
		n->c = body;
	return n;
}

static struct node *parameter(struct parser *p)
{
	struct node *n = node_new(p, N_PARAMETER);
	node_take_name(p, n, "a parameter's name");
	struct node *otherwise = take_operator(p, "=") ? parse_expression(p) : NULL;
	if (n)
		n->a = otherwise;
	return n;
}

static struct node *parameters(struct parser *p)
{
	struct node *first = NULL, **tail = &first;
	while (!p->r->failed && !at_operator(p, ")")) {
		node_chain(&tail, parameter(p));
		if (!at_operator(p, ")"))
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
	struct node *n = node_new(p, N_MACRO);
	node_take_name(p, n, "a macro's name");
	want_operator(p, "(");
	struct node *first = parameters(p);
	if (n)
		n->a = first;
	macro_body(p, n, "endmacro");
	return n;
}

static struct node *call_block(struct parser *p)
{
	struct node *body = node_new(p, N_MACRO);
	struct node *first = take_operator(p, "(") ? parameters(p) : NULL;
	struct node *n = node_of_two(p, N_CALL_BLOCK, 0, parse_expression(p), body);
	if (!n)
		return NULL;
	if (n->a->kind != N_CALL)
		parse_fail(p, "a call of a macro");
	body->name = "caller";
	body->name_n = 6;
	body->a = first;
	macro_body(p, body, "endcall");
	return n;
}

static struct node *filter_block(struct parser *p)
{
	struct node *n = node_of_two(p, N_FILTER_BLOCK, 0, NULL, block_filter(p));
	struct node *body = body_until(p, "endfilter");
	if (n)
		n->c = body;
	return n;
}

static struct node *with(struct parser *p)
{
	struct node *n = node_new(p, N_WITH), **tail = n ? &n->a : NULL;
	while (n && !p->r->failed && p->at->kind != T_TAG_END) {
		struct node *to = plain_name(p);
		want_operator(p, "=");
		node_chain(&tail, node_of_two(p, N_SET, 0, to, parse_expression(p)));
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
	struct node *n = node_new(p, N_BODY);
	struct node *body = body_until(p, "endgeneration");
	if (n)
		n->c = body;
	return n;
}

static struct node *break_loop(struct parser *p)
{
	struct node *n = node_new(p, N_BREAK);
	end_tag(p);
	return n;
}

static struct node *continue_loop(struct parser *p)
{
	struct node *n = node_new(p, N_CONTINUE);
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
	struct node *n = node_of_two(p, N_PRINT, 0, parse_tuple(p, parse_expression), NULL);
	want_token(p, T_PRINT_END, "the end of what is printed");
	return n;
}

/* Statements up to a tag that begins with one of these words, at which it stops; without any, up to
 * the template's end. */
static struct node *statements(struct parser *p, const char *const *ends)
{
	struct node *first = NULL, **tail = &first;
	if (!parse_enter(p))
		return NULL;
	while (!p->r->failed && p->at->kind != T_END) {
		p->r->line = p->at->line;
		if (p->at->kind == T_DATA) {
			struct node *n = parse_constant(p, p->at->value);
			if (n)
				n->kind = N_DATA;
			node_chain(&tail, n);
			parse_move(p);
		} else if (p->at->kind == T_PRINT) {
			parse_move(p);
			node_chain(&tail, print(p));
		} else {
			want_token(p, T_TAG, "a tag");
			if (at_one_of(p, ends))
				break;
			node_chain(&tail, statement(p));
		}
	}
	p->depth--;
	if (*ends && p->at->kind == T_END)
		parse_fail(p, *ends);
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
	struct node *root = node_new(&p, N_BODY);
	struct node *first = statements(&p, NO_ENDS);
	if (root)
		root->c = first;
	return r->failed ? NULL : root;
}

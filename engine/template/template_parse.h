/* Parsing expressions. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_PARSE_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_PARSE_H

#include "engine/template/template_value.h"

/* From a template's source to tokens, and from tokens to a tree. The tree is read by
 * template_eval.c and template_run.c. */

enum token_kind {
	T_END, /* end of the source; the last token */
	T_DATA,
	T_PRINT,     /* {{ */
	T_PRINT_END, /* }} */
	T_TAG,	     /* {% */
	T_TAG_END,   /* %} */
	T_NAME,
	T_NUMBER,
	T_STRING,
	T_OPERATOR,
};
struct template_token {
	enum token_kind kind;
	uint32_t line;
	const char *text; /* in the source, for names and operators */
	size_t n;
	struct value value; /* for data, numbers and strings */
};
struct token_array {
	struct template_token *items;
	size_t count, room;
};

/* Splits source[n] into tokens. The source is valid UTF-8 and NUL-terminated, with line ends as
 * \n, and must outlive the tokens. Removes white space around tags as trim_blocks and
 * lstrip_blocks do. Fails the run. */
void template_lex(struct template_run *r, const char *source, size_t n, struct token_array *tokens);

/* The tree of a template. */

/* Kinds of nodes and their children; lists are chained by `next`. */
enum node_kind {
	/* expressions */
	N_CONSTANT,  /* constant */
	N_NAME,	     /* name */
	N_LIST,	     /* a: items */
	N_TUPLE,     /* a: items */
	N_DICT,	     /* a: N_MEMBERs */
	N_MEMBER,    /* a: key, b: value */
	N_CHOICE,    /* a: if, b: then, c: else or NULL */
	N_OR,	     /* a, b */
	N_AND,	     /* a, b */
	N_NOT,	     /* a */
	N_COMPARE,   /* a: first; b: N_OPERANDs */
	N_OPERAND,   /* op, a */
	N_BINARY,    /* op; a, b */
	N_CONCAT,    /* a, b */
	N_MINUS,     /* a */
	N_PLUS,	     /* a */
	N_ATTRIBUTE, /* a, name */
	N_ITEM,	     /* a, b */
	N_SLICE,     /* a: of; b: start, c: stop, d: step, each may be NULL */
	N_CALL,	     /* a: what; b: N_ARGUMENTs */
	N_ARGUMENT,  /* a; name, or NULL for one by position; flag: *a */
	N_FILTER,    /* a: of what (NULL: a block); name; b: N_ARGUMENTs */
	N_TEST,	     /* the same */
	/* statements */
	N_DATA,		/* constant */
	N_PRINT,	/* a */
	N_FOR,		/* a: target, b: of what, c: body, d: else, e: filter; flag: recursive */
	N_IF,		/* a: test, b: then, c: else; flag: an elif, which is all of that else */
	N_SET,		/* a: target, b: what; N_NAME, N_TUPLE of them, or N_ATTRIBUTE of a name */
	N_SET_BLOCK,	/* a: target, b: N_FILTER or NULL, c: body */
	N_MACRO,	/* name; a: N_PARAMETERs, c: body */
	N_PARAMETER,	/* name; a: default or NULL */
	N_CALL_BLOCK,	/* a: N_CALL, b: an N_MACRO for the body */
	N_FILTER_BLOCK, /* b: N_FILTER, c: body */
	N_WITH,		/* a: N_SETs, c: body */
	N_BODY,		/* c: body */
	N_BREAK,
	N_CONTINUE,
};
enum operator_kind {
	OP_ADD,
	OP_SUBTRACT,
	OP_MULTIPLY,
	OP_DIVIDE,
	OP_FLOOR,
	OP_MODULO,
	OP_POWER,
	OP_EQUAL,
	OP_NOT_EQUAL,
	OP_LESS,
	OP_LESS_EQUAL,
	OP_GREATER,
	OP_GREATER_EQUAL,
	OP_IN,
	OP_NOT_IN,
};
/* Special variables that a macro's body uses. */
enum { MACRO_CALLER = 1, MACRO_VARARGS = 2, MACRO_KWARGS = 4 };

struct template_node {
	uint8_t kind, op;
	uint8_t asks; /* of a macro */
	bool flag;
	uint32_t line;
	uint32_t depth; /* of nested children */
	const char *name;
	size_t name_n;
	struct template_node *next;
	struct template_node *a, *b, *c, *d, *e;
	struct value constant;
};

/* Parses a source as template_lex takes it. The tree lies in the run's memory and borrows the
 * source. NULL: failed. (The tree of an empty template is an N_BODY without children.) */
struct template_node *template_parse(struct template_run *r, const char *source, size_t n);

#endif

/* A template's source as a list of tokens. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_LEX_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_LEX_H

#include "engine/template/template_value.h"

enum token_kind {
	T_END, /* of the source; the last token */
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
	const char *text; /* in the source; of a name or operator */
	size_t n;
	struct value value; /* of data, a number or a string */
};
struct token_array {
	struct template_token *items;
	size_t count, room;
};

/* Splits source[n], valid UTF-8 and NUL-terminated, in which \r\n and \r are \n already; it must
 * outlive the tokens. White space around tags is taken away as trim_blocks and lstrip_blocks want
 * it. Fails the run. */
void template_lex(struct run *r, const char *source, size_t n, struct token_array *tokens);

#endif

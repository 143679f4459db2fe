/* Expressions of a template: their values. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_EVAL_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_EVAL_H

#include "engine/template/template_parse.h"

/* Variables and expressions. A scope is a list of variables; a variable set in a for or a macro
 * ends with its scope, and only namespaces carry values out. */

enum { RUN_DEPTH_MAX = 1000 }; /* nested statements and expressions */

struct variable {
	const char *name;
	size_t n;
	struct value value;
};
struct scope {
	struct scope *parent;
	struct variable *items;
	size_t count, room;
};
struct macro {
	const struct template_node *node;
	struct scope *scope; /* in which the macro was defined */
};
struct interpreter {
	const struct dict *variables;
	struct scope *scope;
	struct writer *out;
	uint32_t depth;
	uint32_t loops; /* nested recursive loops */
	enum { GOES_ON, BREAKS, CONTINUES } flow;
	/* Called by expressions: runs a macro's body; runs a whole loop. */
	void (*run_nodes)(struct template_run *r, const struct template_node *n);
	void (*run_loop)(struct template_run *r, const struct template_node *n,
			 const struct value *of);
};

/* Enters one level and counts one step; call eval_leave even after a failure. */
bool eval_enter(struct template_run *r);
void eval_leave(struct template_run *r);

struct scope *eval_new_scope(struct template_run *r, struct scope *parent);
void eval_set_variable(struct template_run *r, struct scope *s, const char *name, size_t n,
		       struct value v);

struct value eval_expression(struct template_run *r, const struct template_node *n);
/* An N_CALL; `caller`: the body of {% call %}; NULL: none. */
struct value eval_call(struct template_run *r, const struct template_node *n,
		       const struct value *caller);
/* Filters of a block's text; or a filter or test of a value (`block` NULL). */
struct value eval_filter(struct template_run *r, const struct template_node *n,
			 const struct value *block);
/* The output of statements, as a text. */
struct value eval_captured(struct template_run *r, const struct template_node *body);

/* Walking a template's tree. */

/* Renders the tree to `out`, with these variables (a V_DICT). */
void template_run(struct template_run *r, const struct template_node *tree,
		  const struct dict *variables, struct writer *out);

#endif

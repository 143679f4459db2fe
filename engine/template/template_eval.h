/* Expressions of a template: their values. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_EVAL_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_EVAL_H

#include "engine/template/template_parse.h"

/* Names and their values while a template runs. A scope is a list of names; what a for or a macro
 * sets is gone with its scope, and only namespaces carry values out. */

enum { RUN_DEPTH_MAX = 1000 }; /* of statements and expressions within one another */

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
	struct scope *scope; /* that it was made in */
};
struct interpreter {
	const struct dict *variables;
	struct scope *scope;
	struct writer *out;
	uint32_t depth;
	uint32_t loops; /* recursive loops within one another */
	enum { GOES_ON, BREAKS, CONTINUES } flow;
	/* What expressions ask of statements: a macro's body, and a pass of all of a loop. */
	void (*run_nodes)(struct template_run *r, const struct template_node *n);
	void (*run_loop)(struct template_run *r, const struct template_node *n,
			 const struct value *of);
};

/* One level deeper, and one step; eval_leave also where it fails. */
bool eval_enter(struct template_run *r);
void eval_leave(struct template_run *r);

struct scope *eval_new_scope(struct template_run *r, struct scope *parent);
void eval_set_variable(struct template_run *r, struct scope *s, const char *name, size_t n,
		       struct value v);

struct value eval_expression(struct template_run *r, const struct template_node *n);
/* An N_CALL; caller: what {% call %} hands over; NULL: nothing. */
struct value eval_call(struct template_run *r, const struct template_node *n,
		       const struct value *caller);
/* A filter, or several, of a block's text; or a filter or test of a value (block: NULL). */
struct value eval_filter(struct template_run *r, const struct template_node *n,
			 const struct value *block);
/* What statements write, as a text. */
struct value eval_captured(struct template_run *r, const struct template_node *body);

/* Walking a template's tree. */

/* Writes what the tree renders to, with these variables (a V_DICT). */
void template_run(struct template_run *r, const struct template_node *tree,
		  const struct dict *variables, struct writer *out);

#endif

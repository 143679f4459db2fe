/* Names and their values while a template runs. A scope is a list of names; what a for or a macro
 * sets is gone with its scope, and only namespaces carry values out. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_SCOPE_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_SCOPE_H

#include "engine/template/template_tree.h"

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
	const struct node *node;
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
	void (*run_nodes)(struct run *r, const struct node *n);
	void (*run_loop)(struct run *r, const struct node *n, const struct value *of);
};

/* One level deeper, and one step; run_leave also where it fails. */
bool run_enter(struct run *r);
void run_leave(struct run *r);

struct scope *scope_new(struct run *r, struct scope *parent);
void scope_set(struct run *r, struct scope *s, const char *name, size_t n, struct value v);
/* From the innermost scope outwards, then the given variables, then the language's functions. */
struct value scope_find(struct run *r, const char *name, size_t n);

#endif

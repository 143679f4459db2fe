/* Walking a template's tree. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_RUN_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_RUN_H

#include "engine/template/template_tree.h"

/* Writes what the tree renders to, with these variables (a V_DICT). */
void template_run(struct run *r, const struct node *tree, const struct dict *variables,
		  struct writer *out);

#endif

/* The interpreter: runs statements; expressions are evaluated in template_eval.c. */
#include "engine/template/template_eval.h"

#include "engine/template/template_operators.h"
#include "engine/template/template_text.h"

#include <errno.h>

static void run_nodes(struct template_run *r, const struct template_node *n);

/* Assigns to a name, several names, or a namespace's attribute. */
static void run_assign(struct template_run *r, const struct template_node *target, struct value v)
{
	if (target->kind == N_NAME) {
		eval_set_variable(r, r->in->scope, target->name, target->name_n, v);
		return;
	}
	if (target->kind == N_ATTRIBUTE) {
		struct value of = eval_expression(r, target->a);
		if (of.kind != V_NAMESPACE)
			template_fail(r, EINVAL, "only a namespace's attributes can be set");
		else
			value_dict_put(r, of.dict,
				       value_text(r, target->name, target->name_n, FROM_TEMPLATE),
				       v);
		return;
	}
	struct value items = value_items(r, &v);
	size_t i = 0;
	const struct template_node *t = target->a;
	for (; !r->failed && t && i < items.list->count; t = t->next)
		run_assign(r, t, items.list->items[i++]);
	if (!r->failed && (t || i < items.list->count))
		template_fail(r, EINVAL,
			      "%zu values cannot be assigned to a different number of names",
			      items.list->count);
}

/* The items that pass a for's `if`. */
static struct value run_filter_items(struct template_run *r, const struct template_node *n,
				     const struct value *items)
{
	struct value kept = value_list(r, V_LIST);
	struct scope *around = r->in->scope;
	for (size_t i = 0; !r->failed && i < items->list->count; i++) {
		r->in->scope = eval_new_scope(r, around);
		run_assign(r, n->a, items->list->items[i]);
		struct value test = r->failed ? NONE : eval_expression(r, n->e);
		if (!r->failed && value_truth(&test))
			value_append(r, kept.list, items->list->items[i]);
	}
	r->in->scope = around;
	return kept;
}

static void run_loop(struct template_run *r, const struct template_node *n, const struct value *of)
{
	struct scope *around = r->in->scope;
	struct value items = value_items(r, of);
	if (!r->failed && n->e)
		items = run_filter_items(r, n, &items);
	struct loop *l = template_allocate(r, sizeof *l);
	if (!l)
		return;
	*l = (struct loop){.items = items.list, .depth = r->in->loops, .scope = around};
	l->node = n->flag ? n : NULL;
	for (; !r->failed && l->index < items.list->count && r->in->flow != BREAKS; l->index++) {
		r->in->flow = GOES_ON;
		r->in->scope = eval_new_scope(r, around);
		eval_set_variable(r, r->in->scope, "loop", 4,
				  (struct value){.kind = V_LOOP, .loop = l});
		if (!r->failed)
			run_assign(r, n->a, items.list->items[l->index]);
		run_nodes(r, n->c);
	}
	r->in->scope = around;
	r->in->flow = GOES_ON;
	if (!r->failed && items.list->count == 0)
		run_nodes(r, n->d);
}

static void run_for(struct template_run *r, const struct template_node *n)
{
	struct value of = eval_expression(r, n->b);
	uint32_t loops = r->in->loops;
	r->in->loops = 0; /* loop.depth counts only recursion */
	if (!r->failed)
		run_loop(r, n, &of);
	r->in->loops = loops;
}

static void run_if(struct template_run *r, const struct template_node *n)
{
	do {
		struct value test = eval_expression(r, n->a);
		if (r->failed)
			return;
		if (value_truth(&test)) {
			run_nodes(r, n->b);
			return;
		}
		n = n->c;
	} while (n && n->kind == N_IF && n->flag);
	run_nodes(r, n);
}

static void run_set_block(struct template_run *r, const struct template_node *n)
{
	struct value text = eval_captured(r, n->c);
	if (!r->failed && n->b)
		text = eval_filter(r, n->b, &text);
	if (!r->failed)
		run_assign(r, n->a, text);
}

static struct value run_new_macro(struct template_run *r, const struct template_node *n)
{
	struct macro *m = template_allocate(r, sizeof *m);
	if (!m)
		return NONE;
	*m = (struct macro){n, r->in->scope};
	return (struct value){.kind = V_MACRO, .macro = m};
}

static void run_call_block(struct template_run *r, const struct template_node *n)
{
	struct value caller = run_new_macro(r, n->b);
	struct value text = r->failed ? NONE : eval_call(r, n->a, &caller);
	if (!r->failed)
		text_print(r, r->in->out, &text);
}

static void run_filter_block(struct template_run *r, const struct template_node *n)
{
	struct value text = eval_captured(r, n->c);
	if (!r->failed)
		text = eval_filter(r, n->b, &text);
	if (!r->failed)
		text_print(r, r->in->out, &text);
}

static void run_with(struct template_run *r, const struct template_node *n)
{
	struct scope *around = r->in->scope, *inside = eval_new_scope(r, around);
	for (const struct template_node *s = n->a; s && !r->failed; s = s->next)
		eval_set_variable(r, inside, s->a->name, s->a->name_n, eval_expression(r, s->b));
	r->in->scope = inside;
	run_nodes(r, n->c);
	r->in->scope = around;
}

static void run_node(struct template_run *r, const struct template_node *n)
{
	struct value v;
	switch (n->kind) {
	case N_DATA:
		text_print(r, r->in->out, &n->constant);
		break;
	case N_PRINT:
		v = eval_expression(r, n->a);
		if (!r->failed)
			text_print(r, r->in->out, &v);
		break;
	case N_FOR:
		run_for(r, n);
		break;
	case N_IF:
		run_if(r, n);
		break;
	case N_SET:
		v = eval_expression(r, n->b);
		if (!r->failed)
			run_assign(r, n->a, v);
		break;
	case N_SET_BLOCK:
		run_set_block(r, n);
		break;
	case N_MACRO:
		eval_set_variable(r, r->in->scope, n->name, n->name_n, run_new_macro(r, n));
		break;
	case N_CALL_BLOCK:
		run_call_block(r, n);
		break;
	case N_FILTER_BLOCK:
		run_filter_block(r, n);
		break;
	case N_WITH:
		run_with(r, n);
		break;
	case N_BODY:
		run_nodes(r, n->c);
		break;
	default:
		r->in->flow = n->kind == N_BREAK ? BREAKS : CONTINUES;
	}
}

static void run_nodes(struct template_run *r, const struct template_node *n)
{
	if (eval_enter(r))
		for (; n && !r->failed && r->in->flow == GOES_ON; n = n->next) {
			r->line = n->line;
			run_node(r, n);
		}
	eval_leave(r);
}

void template_run(struct template_run *r, const struct template_node *tree,
		  const struct dict *variables, struct writer *out)
{
	struct interpreter in = {
		.variables = variables, .out = out, .run_nodes = run_nodes, .run_loop = run_loop};
	r->in = &in;
	in.scope = eval_new_scope(r, NULL);
	run_nodes(r, tree);
	r->in = NULL;
}

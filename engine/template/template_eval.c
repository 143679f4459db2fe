#include "engine/template/template_eval.h"

#include "engine/template/template_access.h"
#include "engine/template/template_call.h"
#include "engine/template/template_loop.h"
#include "engine/template/template_operators.h"

#include <errno.h>
#include <string.h>

enum { ARGUMENTS_MAX = 64 };

struct value eval_captured(struct run *r, const struct node *body)
{
	struct writer w = {0}, *out = r->in->out;
	r->in->out = &w;
	r->in->run_nodes(r, body);
	r->in->out = out;
	return write_done(r, &w);
}

/* ---- calls ---- */

/* Adds what `*items` spreads out. */
static void spread(struct run *r, struct list *to, const struct value *v)
{
	struct value items = value_items(r, v);
	for (size_t i = 0; !r->failed && i < items.list->count; i++)
		list_append(r, to, items.list->items[i]);
}

/* Evaluates arguments; `named` has room for ARGUMENTS_MAX. */
static struct arguments eval_arguments(struct run *r, const struct node *n,
				       struct named_value named[ARGUMENTS_MAX])
{
	struct list items = {0};
	struct arguments args = {.named = named};
	for (; n && !r->failed; n = n->next) {
		struct value v = eval(r, n->a);
		if (n->flag)
			spread(r, &items, &v);
		else if (!n->name)
			list_append(r, &items, v);
		else if (args.named_count < ARGUMENTS_MAX)
			named[args.named_count++] = (struct named_value){n->name, n->name_n, v};
		else
			run_fail(r, EINVAL, "more than %d arguments by name", ARGUMENTS_MAX);
	}
	args.items = items.items;
	args.count = items.count;
	return args;
}

static const struct value *find_named(const struct arguments *args, const char *name, size_t n)
{
	for (size_t i = 0; i < args->named_count; i++)
		if (args->named[i].n == n && memcmp(args->named[i].name, name, n) == 0)
			return &args->named[i].value;
	return NULL;
}

static bool is_parameter(const struct node *macro, const struct named_value *v)
{
	for (const struct node *p = macro->a; p; p = p->next)
		if (p->name_n == v->n && memcmp(p->name, v->name, v->n) == 0)
			return true;
	return false;
}

/* What is left of the arguments behind the parameters: varargs and kwargs, where they are asked
 * for.
 */
static void bind_rest(struct run *r, const struct macro *m, const struct arguments *args,
		      size_t used)
{
	struct value rest = value_list(r, V_TUPLE), named = value_dict(r, V_DICT);
	for (size_t i = used; !r->failed && i < args->count; i++)
		list_append(r, rest.list, args->items[i]);
	for (size_t i = 0; !r->failed && i < args->named_count; i++)
		if (!is_parameter(m->node, &args->named[i]))
			dict_put(
				r, named.dict,
				value_text(r, args->named[i].name, args->named[i].n, FROM_TEMPLATE),
				args->named[i].value);
	if (r->failed)
		return;
	if ((rest.list->count > 0 && !(m->node->asks & MACRO_VARARGS)) ||
	    (named.dict->count > 0 && !(m->node->asks & MACRO_KWARGS)))
		run_fail(r, EINVAL, "the macro %.*s does not take all these arguments",
			 (int)m->node->name_n, m->node->name);
	if (m->node->asks & MACRO_VARARGS)
		scope_set(r, r->in->scope, "varargs", 7, rest);
	if (m->node->asks & MACRO_KWARGS)
		scope_set(r, r->in->scope, "kwargs", 6, named);
}

static void bind(struct run *r, const struct macro *m, const struct arguments *args)
{
	size_t used = 0;
	for (const struct node *p = m->node->a; p && !r->failed; p = p->next) {
		const struct value *named = find_named(args, p->name, p->name_n);
		struct value v = value_undefined(p->name, p->name_n);
		if (used < args->count && named)
			run_fail(r, EINVAL, "the macro's %.*s is given twice", (int)p->name_n,
				 p->name);
		if (used < args->count)
			v = args->items[used++];
		else if (named)
			v = *named;
		else if (p->a)
			v = eval(r, p->a);
		scope_set(r, r->in->scope, p->name, p->name_n, v);
	}
	bind_rest(r, m, args, used);
}

/* caller: what {% call %} hands over; NULL: nothing. */
static struct value call_macro(struct run *r, const struct macro *m, const struct arguments *args,
			       const struct value *caller)
{
	struct scope *around = r->in->scope;
	struct value text = NONE;
	if (!run_enter(r))
		return text;
	r->in->scope = scope_new(r, m->scope);
	bind(r, m, args);
	if (caller && !(m->node->asks & MACRO_CALLER))
		run_fail(r, EINVAL, "the macro %.*s calls no caller", (int)m->node->name_n,
			 m->node->name);
	if (caller)
		scope_set(r, r->in->scope, "caller", 6, *caller);
	text = eval_captured(r, m->node->c);
	r->in->scope = around;
	r->in->flow = GOES_ON;
	run_leave(r);
	return text;
}

/* loop(items), in a recursive one. */
static struct value call_loop(struct run *r, const struct loop *l, const struct arguments *args)
{
	struct scope *around = r->in->scope;
	struct writer w = {0}, *out = r->in->out;
	if (!l->node || args->count != 1)
		return run_fail(r, EINVAL, "loop is called with items, where the for is recursive");
	if (!run_enter(r))
		return NONE;
	r->in->scope = l->scope;
	r->in->out = &w;
	r->in->loops++;
	r->in->run_loop(r, l->node, &args->items[0]);
	r->in->loops--;
	r->in->out = out;
	r->in->scope = around;
	run_leave(r);
	return write_done(r, &w);
}

static struct value call_value(struct run *r, const struct value *what,
			       const struct arguments *args, const struct value *caller)
{
	switch (what->kind) {
	case V_MACRO:
		return call_macro(r, what->macro, args, caller);
	case V_FUNCTION:
		return function_call(r, what->function, NULL, args);
	case V_METHOD:
		return function_call(r, what->method->function, &what->method->self, args);
	case V_LOOP:
		return call_loop(r, what->loop, args);
	case V_UNDEFINED:
		return run_fail(r, EINVAL, "\"%.*s\" is undefined",
				(int)(what->n < 64 ? what->n : 64),
				what->text.bytes ? what->text.bytes : "");
	default:
		return run_fail(r, EINVAL, "%s cannot be called", value_type_name(what));
	}
}

struct value eval_call(struct run *r, const struct node *n, const struct value *caller)
{
	struct named_value named[ARGUMENTS_MAX];
	struct value what = eval(r, n->a);
	struct arguments args = eval_arguments(r, n->b, named);
	r->line = n->line;
	return r->failed ? NONE : call_value(r, &what, &args, caller);
}

struct value eval_filter(struct run *r, const struct node *n, const struct value *block)
{
	struct named_value named[ARGUMENTS_MAX];
	struct value self = n->a && (!block || n->a->kind != N_FILTER) ? eval(r, n->a)
			    : n->a				       ? eval_filter(r, n->a, block)
								       : *block;
	struct arguments args = eval_arguments(r, n->b, named);
	if (r->failed)
		return NONE;
	r->line = n->line;
	return n->kind == N_TEST ? test_call(r, n->name, n->name_n, &self, &args)
				 : filter_call(r, n->name, n->name_n, &self, &args);
}

/* ---- expressions ---- */

static struct value eval_list(struct run *r, const struct node *n)
{
	struct value list = value_list(r, n->kind == N_LIST ? V_LIST : V_TUPLE);
	for (const struct node *i = n->a; i && !r->failed; i = i->next)
		list_append(r, list.list, eval(r, i));
	return list;
}

static struct value eval_dict(struct run *r, const struct node *n)
{
	struct value dict = value_dict(r, V_DICT);
	for (const struct node *m = n->a; m && !r->failed; m = m->next) {
		struct value key = eval(r, m->a), v = eval(r, m->b);
		if (key.kind == V_LIST || key.kind == V_DICT)
			run_fail(r, EINVAL, "%s cannot be a key", value_type_name(&key));
		else if (!r->failed)
			dict_put(r, dict.dict, key, v);
	}
	return dict;
}

static struct value eval_compare(struct run *r, const struct node *n)
{
	struct value left = eval(r, n->a);
	for (const struct node *o = n->b; o && !r->failed; o = o->next) {
		struct value right = eval(r, o->a);
		if (!r->failed && !compare_by(r, (enum operator_kind)o->op, &left, &right))
			return value_bool(false);
		left = right;
	}
	return value_bool(true);
}

static struct value eval_slice(struct run *r, const struct node *n)
{
	struct value of = eval(r, n->a), ends[3];
	const struct node *parts[3] = {n->b, n->c, n->d};
	for (int i = 0; i < 3; i++)
		ends[i] = parts[i] ? eval(r, parts[i]) : NONE;
	return r->failed ? NONE
			 : value_slice(r, &of, &ends[0], &ends[1], parts[2] ? &ends[2] : NULL);
}

static struct value eval_logic(struct run *r, const struct node *n)
{
	struct value a = eval(r, n->a);
	bool truth = !r->failed && value_truth(&a);
	switch (n->kind) {
	case N_NOT:
		return value_bool(!truth);
	case N_OR:
		return truth ? a : eval(r, n->b);
	case N_AND:
		return truth ? eval(r, n->b) : a;
	default: /* N_CHOICE */
		return truth ? eval(r, n->b) : n->c ? eval(r, n->c) : value_undefined(NULL, 0);
	}
}

static struct value eval_two(struct run *r, const struct node *n)
{
	struct value a = eval(r, n->a), b = n->b ? eval(r, n->b) : NONE;
	if (r->failed)
		return NONE;
	r->line = n->line;
	switch (n->kind) {
	case N_BINARY:
		return operate(r, (enum operator_kind)n->op, &a, &b);
	case N_CONCAT:
		return concatenate(r, &a, &b);
	case N_MINUS:
		return negate(r, &a);
	case N_PLUS:
		b = value_int(0);
		return operate(r, OP_ADD, &a, &b);
	case N_ITEM:
		return value_item(r, &a, &b);
	default: /* N_ATTRIBUTE */
		return value_attribute(r, &a, n->name, n->name_n);
	}
}

static struct value eval_inside(struct run *r, const struct node *n)
{
	switch (n->kind) {
	case N_CONSTANT:
		return n->constant;
	case N_NAME:
		return scope_find(r, n->name, n->name_n);
	case N_LIST:
	case N_TUPLE:
		return eval_list(r, n);
	case N_DICT:
		return eval_dict(r, n);
	case N_COMPARE:
		return eval_compare(r, n);
	case N_SLICE:
		return eval_slice(r, n);
	case N_CALL:
		return eval_call(r, n, NULL);
	case N_FILTER:
	case N_TEST:
		return eval_filter(r, n, NULL);
	case N_CHOICE:
	case N_OR:
	case N_AND:
	case N_NOT:
		return eval_logic(r, n);
	default:
		return eval_two(r, n);
	}
}

struct value eval(struct run *r, const struct node *n)
{
	struct value v = NONE;
	r->line = r->failed ? r->line : n->line;
	if (run_enter(r))
		v = eval_inside(r, n);
	run_leave(r);
	return r->failed ? value_undefined(NULL, 0) : v;
}

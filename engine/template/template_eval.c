#include "engine/template/template_eval.h"

#include "engine/template/template_operators.h"
#include "engine/template/template_call.h"

#include <errno.h>
#include <string.h>

/* ---- variables ---- */

bool eval_enter(struct template_run *r)
{
	if (++r->in->depth > RUN_DEPTH_MAX)
		template_fail(r, EINVAL, "macros, loops or expressions are nested too deeply");
	return template_work(r, 1);
}

void eval_leave(struct template_run *r)
{
	r->in->depth--;
}

struct scope *eval_new_scope(struct template_run *r, struct scope *parent)
{
	struct scope *s = template_allocate(r, sizeof *s);
	if (s)
		*s = (struct scope){.parent = parent};
	return s;
}

static bool eval_is_named(const struct variable *v, const char *name, size_t n)
{
	return v->n == n && memcmp(v->name, name, n) == 0;
}

void eval_set_variable(struct template_run *r, struct scope *s, const char *name, size_t n,
		       struct value v)
{
	if (r->failed || !s)
		return;
	for (size_t i = 0; i < s->count; i++)
		if (eval_is_named(&s->items[i], name, n)) {
			s->items[i].value = v;
			return;
		}
	struct variable *items = template_grow(r, s->items, s->count, &s->room, sizeof *items);
	if (!items)
		return;
	s->items = items;
	s->items[s->count++] = (struct variable){name, n, v};
}

/* Looks in the scopes from the innermost, then in the given variables, then in the global
 * functions. */
static struct value eval_find_variable(struct template_run *r, const char *name, size_t n)
{
	for (const struct scope *s = r->in->scope; s && template_work(r, 1 + s->count / 16);
	     s = s->parent)
		for (size_t i = 0; i < s->count; i++)
			if (eval_is_named(&s->items[i], name, n))
				return s->items[i].value;
	const struct value *given = value_dict_find_name(r, r->in->variables, name, n);
	if (given)
		return *given;
	const struct function *f = call_find(r->language->globals, name, n);
	return f ? (struct value){.kind = V_FUNCTION, .function = f} : value_undefined(name, n);
}

enum { ARGUMENTS_MAX = 64 };

struct value eval_captured(struct template_run *r, const struct template_node *body)
{
	struct writer w = {0}, *out = r->in->out;
	r->in->out = &w;
	r->in->run_nodes(r, body);
	r->in->out = out;
	return value_written(r, &w);
}

/* ---- calls ---- */

/* Evaluates arguments; `named` has room for ARGUMENTS_MAX. */
static struct call_arguments eval_arguments(struct template_run *r, const struct template_node *n,
					    struct named_value named[ARGUMENTS_MAX])
{
	struct list items = {0};
	struct call_arguments args = {.named = named};
	for (; n && !r->failed; n = n->next) {
		struct value v = eval_expression(r, n->a);
		struct value spread = n->flag ? value_items(r, &v) : NONE; /* of *v */
		for (size_t i = 0; n->flag && !r->failed && i < spread.list->count; i++)
			value_append(r, &items, spread.list->items[i]);
		if (n->flag)
			continue;
		if (!n->name)
			value_append(r, &items, v);
		else if (args.named_count < ARGUMENTS_MAX)
			named[args.named_count++] = (struct named_value){n->name, n->name_n, v};
		else
			template_fail(r, EINVAL, "more than %d keyword arguments", ARGUMENTS_MAX);
	}
	args.items = items.items;
	args.count = items.count;
	return args;
}

static bool eval_is_parameter(const struct template_node *macro, const struct named_value *v)
{
	for (const struct template_node *p = macro->a; p; p = p->next)
		if (p->name_n == v->n && memcmp(p->name, v->name, v->n) == 0)
			return true;
	return false;
}

/* Binds the remaining arguments to varargs and kwargs, if the macro uses them. */
static void eval_bind_rest(struct template_run *r, const struct macro *m,
			   const struct call_arguments *args, size_t used)
{
	struct value rest = value_list(r, V_TUPLE), named = value_dict(r, V_DICT);
	for (size_t i = used; !r->failed && i < args->count; i++)
		value_append(r, rest.list, args->items[i]);
	for (size_t i = 0; !r->failed && i < args->named_count; i++)
		if (!eval_is_parameter(m->node, &args->named[i]))
			value_dict_put(
				r, named.dict,
				value_text(r, args->named[i].name, args->named[i].n, FROM_TEMPLATE),
				args->named[i].value);
	if (r->failed)
		return;
	if ((rest.list->count > 0 && !(m->node->asks & MACRO_VARARGS)) ||
	    (named.dict->count > 0 && !(m->node->asks & MACRO_KWARGS)))
		template_fail(r, EINVAL, "too many arguments for the macro %.*s",
			      (int)m->node->name_n, m->node->name);
	if (m->node->asks & MACRO_VARARGS)
		eval_set_variable(r, r->in->scope, "varargs", 7, rest);
	if (m->node->asks & MACRO_KWARGS)
		eval_set_variable(r, r->in->scope, "kwargs", 6, named);
}

static void eval_bind(struct template_run *r, const struct macro *m,
		      const struct call_arguments *args)
{
	size_t used = 0;
	for (const struct template_node *p = m->node->a; p && !r->failed; p = p->next) {
		const struct value *named = call_named(args, p->name, p->name_n);
		struct value v = value_undefined(p->name, p->name_n);
		if (used < args->count && named)
			template_fail(r, EINVAL, "a macro's argument %.*s is given twice",
				      (int)p->name_n, p->name);
		if (used < args->count)
			v = args->items[used++];
		else if (named)
			v = *named;
		else if (p->a)
			v = eval_expression(r, p->a);
		eval_set_variable(r, r->in->scope, p->name, p->name_n, v);
	}
	eval_bind_rest(r, m, args, used);
}

/* `caller`: the body of {% call %}; NULL: none. */
static struct value eval_call_macro(struct template_run *r, const struct macro *m,
				    const struct call_arguments *args, const struct value *caller)
{
	struct scope *around = r->in->scope;
	struct value text = NONE;
	if (!eval_enter(r))
		return text;
	r->in->scope = eval_new_scope(r, m->scope);
	eval_bind(r, m, args);
	if (caller && !(m->node->asks & MACRO_CALLER))
		template_fail(r, EINVAL, "call of the macro %.*s, which does not use caller()",
			      (int)m->node->name_n, m->node->name);
	if (caller)
		eval_set_variable(r, r->in->scope, "caller", 6, *caller);
	text = eval_captured(r, m->node->c);
	r->in->scope = around;
	r->in->flow = GOES_ON;
	eval_leave(r);
	return text;
}

/* loop(items) of a recursive for. */
static struct value eval_call_loop(struct template_run *r, const struct loop *l,
				   const struct call_arguments *args)
{
	struct scope *around = r->in->scope;
	struct writer w = {0}, *out = r->in->out;
	if (!l->node || args->count != 1)
		return template_fail(r, EINVAL,
				     "loop() takes one list, and only in a recursive for");
	if (!eval_enter(r))
		return NONE;
	r->in->scope = l->scope;
	r->in->out = &w;
	r->in->loops++;
	r->in->run_loop(r, l->node, &args->items[0]);
	r->in->loops--;
	r->in->out = out;
	r->in->scope = around;
	eval_leave(r);
	return value_written(r, &w);
}

static struct value eval_call_value(struct template_run *r, const struct value *what,
				    const struct call_arguments *args, const struct value *caller)
{
	switch (what->kind) {
	case V_MACRO:
		return eval_call_macro(r, what->macro, args, caller);
	case V_FUNCTION:
		return call_function(r, what->function, NULL, args);
	case V_METHOD:
		return call_function(r, what->method->function, &what->method->self, args);
	case V_LOOP:
		return eval_call_loop(r, what->loop, args);
	case V_UNDEFINED:
		return template_fail_undefined(r, what);
	default:
		return template_fail(r, EINVAL, "%s cannot be called", value_type_name(what));
	}
}

struct value eval_call(struct template_run *r, const struct template_node *n,
		       const struct value *caller)
{
	struct named_value named[ARGUMENTS_MAX];
	struct value what = eval_expression(r, n->a);
	struct call_arguments args = eval_arguments(r, n->b, named);
	r->line = n->line;
	return r->failed ? NONE : eval_call_value(r, &what, &args, caller);
}

struct value eval_filter(struct template_run *r, const struct template_node *n,
			 const struct value *block)
{
	struct named_value named[ARGUMENTS_MAX];
	struct value self = n->a && (!block || n->a->kind != N_FILTER) ? eval_expression(r, n->a)
			    : n->a				       ? eval_filter(r, n->a, block)
								       : *block;
	struct call_arguments args = eval_arguments(r, n->b, named);
	if (r->failed)
		return NONE;
	r->line = n->line;
	return n->kind == N_TEST ? call_test(r, n->name, n->name_n, &self, &args)
				 : call_filter(r, n->name, n->name_n, &self, &args);
}

/* ---- expressions ---- */

static struct value eval_dict(struct template_run *r, const struct template_node *n)
{
	struct value dict = value_dict(r, V_DICT);
	for (const struct template_node *m = n->a; m && !r->failed; m = m->next) {
		struct value key = eval_expression(r, m->a), v = eval_expression(r, m->b);
		if (key.kind == V_LIST || key.kind == V_DICT)
			template_fail(r, EINVAL, "%s cannot be a key", value_type_name(&key));
		else if (!r->failed)
			value_dict_put(r, dict.dict, key, v);
	}
	return dict;
}

static struct value eval_compare(struct template_run *r, const struct template_node *n)
{
	struct value left = eval_expression(r, n->a);
	for (const struct template_node *o = n->b; o && !r->failed; o = o->next) {
		struct value right = eval_expression(r, o->a);
		if (!r->failed && !operator_compare(r, (enum operator_kind)o->op, &left, &right))
			return value_bool(false);
		left = right;
	}
	return value_bool(true);
}

static struct value eval_logic(struct template_run *r, const struct template_node *n)
{
	struct value a = eval_expression(r, n->a);
	bool truth = !r->failed && value_truth(&a);
	switch (n->kind) {
	case N_NOT:
		return value_bool(!truth);
	case N_OR:
		return truth ? a : eval_expression(r, n->b);
	case N_AND:
		return truth ? eval_expression(r, n->b) : a;
	default: /* N_CHOICE */
		return truth  ? eval_expression(r, n->b)
		       : n->c ? eval_expression(r, n->c)
			      : value_undefined(NULL, 0);
	}
}

static struct value eval_two(struct template_run *r, const struct template_node *n)
{
	struct value a = eval_expression(r, n->a), b = n->b ? eval_expression(r, n->b) : NONE;
	if (r->failed)
		return NONE;
	r->line = n->line;
	switch (n->kind) {
	case N_BINARY:
		return operator_apply(r, (enum operator_kind)n->op, &a, &b);
	case N_CONCAT:
		return operator_concatenate(r, &a, &b);
	case N_MINUS:
		return operator_negate(r, &a);
	case N_PLUS:
		b = value_int(0);
		return operator_apply(r, OP_ADD, &a, &b);
	case N_ITEM:
		return operator_item(r, &a, &b);
	default: /* N_ATTRIBUTE */
		return operator_attribute(r, &a, n->name, n->name_n);
	}
}

static struct value eval_by_kind(struct template_run *r, const struct template_node *n)
{
	struct value v, ends[3];
	switch (n->kind) {
	case N_CONSTANT:
		return n->constant;
	case N_NAME:
		return eval_find_variable(r, n->name, n->name_n);
	case N_LIST:
	case N_TUPLE:
		v = value_list(r, n->kind == N_LIST ? V_LIST : V_TUPLE);
		for (const struct template_node *i = n->a; i && !r->failed; i = i->next)
			value_append(r, v.list, eval_expression(r, i));
		return v;
	case N_DICT:
		return eval_dict(r, n);
	case N_COMPARE:
		return eval_compare(r, n);
	case N_SLICE:
		v = eval_expression(r, n->a);
		ends[0] = n->b ? eval_expression(r, n->b) : NONE;
		ends[1] = n->c ? eval_expression(r, n->c) : NONE;
		ends[2] = n->d ? eval_expression(r, n->d) : NONE;
		return r->failed ? NONE : operator_slice(r, &v, &ends[0], &ends[1], &ends[2]);
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

struct value eval_expression(struct template_run *r, const struct template_node *n)
{
	struct value v = NONE;
	r->line = r->failed ? r->line : n->line;
	if (eval_enter(r))
		v = eval_by_kind(r, n);
	eval_leave(r);
	return r->failed ? value_undefined(NULL, 0) : v;
}

/* The interpreter: statements write, expressions give values. A scope is a list of names; what a
 * for or a macro sets is gone with its scope, and only namespaces carry values out. */
#include "engine/text/template_run.h"

#include "engine/text/template_access.h"
#include "engine/text/template_call.h"
#include "engine/text/template_loop.h"
#include "engine/text/template_operators.h"
#include "engine/text/template_print.h"

#include <errno.h>
#include <string.h>

enum {
	RUN_DEPTH_MAX = 1000, /* of statements and expressions within one another */
	ARGUMENTS_MAX = 64,
};

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
};

static struct value eval(struct run *r, const struct node *n);
static void run_nodes(struct run *r, const struct node *n);

static bool enter(struct run *r)
{
	if (++r->in->depth > RUN_DEPTH_MAX)
		run_fail(r, EINVAL, "macros, loops or expressions too deep within one another");
	return run_work(r, 1);
}

static void leave(struct run *r)
{
	r->in->depth--;
}

/* ---- names ---- */

static struct scope *new_scope(struct run *r, struct scope *parent)
{
	struct scope *s = run_allocate(r, sizeof *s);
	if (s)
		*s = (struct scope){.parent = parent};
	return s;
}

static bool is_named(const struct variable *v, const char *name, size_t n)
{
	return v->n == n && memcmp(v->name, name, n) == 0;
}

static void set_name(struct run *r, struct scope *s, const char *name, size_t n, struct value v)
{
	if (r->failed || !s)
		return;
	for (size_t i = 0; i < s->count; i++)
		if (is_named(&s->items[i], name, n)) {
			s->items[i].value = v;
			return;
		}
	if (s->count == s->room) {
		size_t room = 2 * s->room + 4;
		struct variable *items = run_allocate(r, room * sizeof *items);
		if (!items)
			return;
		if (s->count > 0)
			memcpy(items, s->items, s->count * sizeof *items);
		s->items = items;
		s->room = room;
	}
	s->items[s->count++] = (struct variable){name, n, v};
}

static struct value find_name(struct run *r, const char *name, size_t n)
{
	for (const struct scope *s = r->in->scope; s && run_work(r, 1 + s->count / 16);
	     s = s->parent)
		for (size_t i = 0; i < s->count; i++)
			if (is_named(&s->items[i], name, n))
				return s->items[i].value;
	const struct value *given = dict_find_name(r, r->in->variables, name, n);
	if (given)
		return *given;
	const struct function *f = function_find(TEMPLATE_GLOBALS, name, n);
	return f ? (struct value){.kind = V_FUNCTION, .function = f} : value_undefined(name, n);
}

/* Gives a value to a name, to several, or to an attribute of a namespace. */
static void assign(struct run *r, const struct node *target, struct value v)
{
	if (target->kind == N_NAME) {
		set_name(r, r->in->scope, target->name, target->name_n, v);
		return;
	}
	if (target->kind == N_ATTRIBUTE) {
		struct value of = eval(r, target->a);
		if (of.kind != V_NAMESPACE)
			run_fail(r, EINVAL, "only a namespace's attributes can be set");
		else
			dict_put(r, of.dict,
				 value_text(r, target->name, target->name_n, FROM_TEMPLATE), v);
		return;
	}
	struct value items = value_items(r, &v);
	size_t i = 0;
	const struct node *t = target->a;
	for (; !r->failed && t && i < items.list->count; t = t->next)
		assign(r, t, items.list->items[i++]);
	if (!r->failed && (t || i < items.list->count))
		run_fail(r, EINVAL, "%zu values for another number of names", items.list->count);
}

/* ---- texts that are not printed at once ---- */

/* What statements write, as a text. */
static struct value captured(struct run *r, const struct node *body)
{
	struct writer w = {0}, *out = r->in->out;
	r->in->out = &w;
	run_nodes(r, body);
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
		set_name(r, r->in->scope, "varargs", 7, rest);
	if (m->node->asks & MACRO_KWARGS)
		set_name(r, r->in->scope, "kwargs", 6, named);
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
		set_name(r, r->in->scope, p->name, p->name_n, v);
	}
	bind_rest(r, m, args, used);
}

/* caller: what {% call %} hands over; NULL: nothing. */
static struct value call_macro(struct run *r, const struct macro *m, const struct arguments *args,
			       const struct value *caller)
{
	struct scope *around = r->in->scope;
	struct value text = NONE;
	if (!enter(r))
		return text;
	r->in->scope = new_scope(r, m->scope);
	bind(r, m, args);
	if (caller && !(m->node->asks & MACRO_CALLER))
		run_fail(r, EINVAL, "the macro %.*s calls no caller", (int)m->node->name_n,
			 m->node->name);
	if (caller)
		set_name(r, r->in->scope, "caller", 6, *caller);
	text = captured(r, m->node->c);
	r->in->scope = around;
	r->in->flow = GOES_ON;
	leave(r);
	return text;
}

static void run_loop(struct run *r, const struct node *n, const struct value *items);

/* loop(items), in a recursive one. */
static struct value call_loop(struct run *r, const struct loop *l, const struct arguments *args)
{
	struct scope *around = r->in->scope;
	struct writer w = {0}, *out = r->in->out;
	if (!l->node || args->count != 1)
		return run_fail(r, EINVAL, "loop is called with items, where the for is recursive");
	if (!enter(r))
		return NONE;
	r->in->scope = l->scope;
	r->in->out = &w;
	r->in->loops++;
	run_loop(r, l->node, &args->items[0]);
	r->in->loops--;
	r->in->out = out;
	r->in->scope = around;
	leave(r);
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

static struct value eval_call(struct run *r, const struct node *n, const struct value *caller)
{
	struct named_value named[ARGUMENTS_MAX];
	struct value what = eval(r, n->a);
	struct arguments args = eval_arguments(r, n->b, named);
	r->line = n->line;
	return r->failed ? NONE : call_value(r, &what, &args, caller);
}

/* A filter, or several, of a block's text; or a filter or test of a value. */
static struct value apply(struct run *r, const struct node *n, const struct value *block)
{
	struct named_value named[ARGUMENTS_MAX];
	struct value self = n->a && (!block || n->a->kind != N_FILTER) ? eval(r, n->a)
			    : n->a				       ? apply(r, n->a, block)
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
		return find_name(r, n->name, n->name_n);
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
		return apply(r, n, NULL);
	case N_CHOICE:
	case N_OR:
	case N_AND:
	case N_NOT:
		return eval_logic(r, n);
	default:
		return eval_two(r, n);
	}
}

static struct value eval(struct run *r, const struct node *n)
{
	struct value v = NONE;
	r->line = r->failed ? r->line : n->line;
	if (enter(r))
		v = eval_inside(r, n);
	leave(r);
	return r->failed ? value_undefined(NULL, 0) : v;
}

/* ---- statements ---- */

/* The items that a for's `if` lets through. */
static struct value filtered(struct run *r, const struct node *n, const struct value *items)
{
	struct value kept = value_list(r, V_LIST);
	struct scope *around = r->in->scope;
	for (size_t i = 0; !r->failed && i < items->list->count; i++) {
		r->in->scope = new_scope(r, around);
		assign(r, n->a, items->list->items[i]);
		struct value test = r->failed ? NONE : eval(r, n->e);
		if (!r->failed && value_truth(&test))
			list_append(r, kept.list, items->list->items[i]);
	}
	r->in->scope = around;
	return kept;
}

static void run_pass(struct run *r, const struct node *n, struct loop *l)
{
	r->in->scope = new_scope(r, l->scope);
	struct value self = {.kind = V_LOOP, .loop = l};
	set_name(r, r->in->scope, "loop", 4, self);
	if (!r->failed)
		assign(r, n->a, l->items->items[l->index]);
	run_nodes(r, n->c);
}

static void run_loop(struct run *r, const struct node *n, const struct value *of)
{
	struct scope *around = r->in->scope;
	struct value items = value_items(r, of);
	if (!r->failed && n->e)
		items = filtered(r, n, &items);
	struct loop *l = run_allocate(r, sizeof *l);
	if (!l)
		return;
	*l = (struct loop){.items = items.list, .depth = r->in->loops, .scope = around};
	l->node = n->flag ? n : NULL;
	for (; !r->failed && l->index < items.list->count && r->in->flow != BREAKS; l->index++) {
		r->in->flow = GOES_ON;
		run_pass(r, n, l);
	}
	r->in->scope = around;
	r->in->flow = GOES_ON;
	if (!r->failed && items.list->count == 0)
		run_nodes(r, n->d);
}

static void run_for(struct run *r, const struct node *n)
{
	struct value of = eval(r, n->b);
	uint32_t loops = r->in->loops;
	r->in->loops = 0; /* loop.depth counts recursion alone */
	if (!r->failed)
		run_loop(r, n, &of);
	r->in->loops = loops;
}

static void run_if(struct run *r, const struct node *n)
{
	do {
		struct value test = eval(r, n->a);
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

static void run_set_block(struct run *r, const struct node *n)
{
	struct value text = captured(r, n->c);
	if (!r->failed && n->b)
		text = apply(r, n->b, &text);
	if (!r->failed)
		assign(r, n->a, text);
}

static struct value new_macro(struct run *r, const struct node *n)
{
	struct macro *m = run_allocate(r, sizeof *m);
	if (!m)
		return NONE;
	*m = (struct macro){n, r->in->scope};
	return (struct value){.kind = V_MACRO, .macro = m};
}

static void run_call_block(struct run *r, const struct node *n)
{
	struct value caller = new_macro(r, n->b);
	struct value text = r->failed ? NONE : eval_call(r, n->a, &caller);
	if (!r->failed)
		print_value(r, r->in->out, &text);
}

static void run_filter_block(struct run *r, const struct node *n)
{
	struct value text = captured(r, n->c);
	if (!r->failed)
		text = apply(r, n->b, &text);
	if (!r->failed)
		print_value(r, r->in->out, &text);
}

static void run_with(struct run *r, const struct node *n)
{
	struct scope *around = r->in->scope, *inside = new_scope(r, around);
	for (const struct node *s = n->a; s && !r->failed; s = s->next)
		set_name(r, inside, s->a->name, s->a->name_n, eval(r, s->b));
	r->in->scope = inside;
	run_nodes(r, n->c);
	r->in->scope = around;
}

static void run_node(struct run *r, const struct node *n)
{
	struct value v;
	switch (n->kind) {
	case N_DATA:
		print_value(r, r->in->out, &n->constant);
		break;
	case N_PRINT:
		v = eval(r, n->a);
		if (!r->failed)
			print_value(r, r->in->out, &v);
		break;
	case N_FOR:
		run_for(r, n);
		break;
	case N_IF:
		run_if(r, n);
		break;
	case N_SET:
		v = eval(r, n->b);
		if (!r->failed)
			assign(r, n->a, v);
		break;
	case N_SET_BLOCK:
		run_set_block(r, n);
		break;
	case N_MACRO:
		set_name(r, r->in->scope, n->name, n->name_n, new_macro(r, n));
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

static void run_nodes(struct run *r, const struct node *n)
{
	if (enter(r))
		for (; n && !r->failed && r->in->flow == GOES_ON; n = n->next) {
			r->line = n->line;
			run_node(r, n);
		}
	leave(r);
}

void template_run(struct run *r, const struct node *tree, const struct dict *variables,
		  struct writer *out)
{
	struct interpreter in = {.variables = variables, .out = out};
	r->in = &in;
	in.scope = new_scope(r, NULL);
	run_nodes(r, tree);
	r->in = NULL;
}

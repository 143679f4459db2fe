#include "engine/template/template_scope.h"

#include "engine/template/template_call.h"

#include <errno.h>
#include <string.h>

bool run_enter(struct run *r)
{
	if (++r->in->depth > RUN_DEPTH_MAX)
		run_fail(r, EINVAL, "macros, loops or expressions too deep within one another");
	return run_work(r, 1);
}

void run_leave(struct run *r)
{
	r->in->depth--;
}

struct scope *scope_new(struct run *r, struct scope *parent)
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

void scope_set(struct run *r, struct scope *s, const char *name, size_t n, struct value v)
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

struct value scope_find(struct run *r, const char *name, size_t n)
{
	for (const struct scope *s = r->in->scope; s && run_work(r, 1 + s->count / 16);
	     s = s->parent)
		for (size_t i = 0; i < s->count; i++)
			if (is_named(&s->items[i], name, n))
				return s->items[i].value;
	const struct value *given = dict_find_name(r, r->in->variables, name, n);
	if (given)
		return *given;
	const struct function *f = function_find(r->language->globals, name, n);
	return f ? (struct value){.kind = V_FUNCTION, .function = f} : value_undefined(name, n);
}

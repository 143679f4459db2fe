#include "engine/template/template_call.h"

#include <errno.h>
#include <string.h>

const struct function *call_find(const struct function *table, const char *name, size_t n)
{
	for (; table->name; table++)
		if (strlen(table->name) == n && memcmp(table->name, name, n) == 0)
			return table;
	return NULL;
}

const struct value *call_named(const struct call_arguments *args, const char *name, size_t n)
{
	for (size_t i = 0; i < args->named_count; i++)
		if (args->named[i].n == n && memcmp(args->named[i].name, name, n) == 0)
			return &args->named[i].value;
	return NULL;
}

/* The index of a parameter; -1: no such name. */
static int call_parameter(const struct function *f, const struct named_value *v)
{
	for (int i = 0; i < PARAMETERS_MAX && f->parameters[i]; i++)
		if (strlen(f->parameters[i]) == v->n &&
		    memcmp(f->parameters[i], v->name, v->n) == 0)
			return i;
	return -1;
}

struct value call_function(struct template_run *r, const struct function *f,
			   const struct value *self, const struct call_arguments *args)
{
	const struct value *a[PARAMETERS_MAX] = {NULL};
	size_t count = 0;
	if (!template_work(r, 1))
		return NONE;
	if (f->call_any)
		return f->call_any(r, self, args);
	while (count < PARAMETERS_MAX && f->parameters[count])
		count++;
	if (args->count > count)
		return template_fail(r, EINVAL, "%s takes at most %zu arguments", f->name, count);
	for (size_t i = 0; i < args->count; i++)
		a[i] = &args->items[i];
	for (size_t i = 0; i < args->named_count; i++) {
		int place = call_parameter(f, &args->named[i]);
		if (place < 0 || a[place])
			return template_fail(
				r, EINVAL, "%s has no argument %.*s, or it was given twice",
				f->name, (int)args->named[i].n, args->named[i].name);
		a[place] = &args->named[i].value;
	}
	for (size_t i = 0; i < f->least; i++)
		if (!a[i])
			return template_fail(r, EINVAL, "%s lacks the argument %s", f->name,
					     f->parameters[i]);
	return f->call(r, self, a);
}

struct value call_filter(struct template_run *r, const char *name, size_t n,
			 const struct value *self, const struct call_arguments *args)
{
	const struct function *f = call_find(r->language->filters, name, n);
	if (!f)
		f = call_find(r->language->list_filters, name, n);
	return f ? call_function(r, f, self, args)
		 : template_fail(r, EINVAL, "the filter \"%.*s\" is not supported", (int)n, name);
}

struct value call_test(struct template_run *r, const char *name, size_t n, const struct value *self,
		       const struct call_arguments *args)
{
	const struct function *f = call_find(r->language->tests, name, n);
	return f ? call_function(r, f, self, args)
		 : template_fail(r, EINVAL, "the test \"%.*s\" is not supported", (int)n, name);
}

int64_t call_integer_or(struct template_run *r, const struct value *v, int64_t fallback)
{
	if (!v || v->kind == V_NONE)
		return fallback;
	if (v->kind == V_BOOL)
		return v->truth;
	if (v->kind != V_INT)
		template_fail(r, EINVAL, "an integer is expected, not %s", value_type_name(v));
	return v->kind == V_INT ? v->integer : fallback;
}

bool call_truth_or(const struct value *v, bool fallback)
{
	return v ? value_truth(v) : fallback;
}

bool call_text_argument(struct template_run *r, const struct value *v, struct value *text)
{
	*text = v->kind == V_UNDEFINED ? value_literal("") : *v;
	if (text->kind != V_TEXT)
		template_fail(r, EINVAL, "a text is expected, not %s", value_type_name(v));
	return !r->failed;
}

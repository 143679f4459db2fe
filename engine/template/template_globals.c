/* Functions that belong to no value. */
#include "engine/template/template_call.h"
#include "engine/template/template_print.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static struct value range(struct run *r, const struct value *self, const struct arguments *args)
{
	(void)self;
	if (args->count < 1 || args->count > 3 || args->named_count > 0)
		return run_fail(r, EINVAL, "range takes one to three integers");
	int64_t start = args->count > 1 ? integer_or(r, &args->items[0], 0) : 0;
	int64_t stop = integer_or(r, &args->items[args->count > 1], 0);
	int64_t step = args->count > 2 ? integer_or(r, &args->items[2], 1) : 1;
	struct value list = value_list(r, V_LIST);
	if (step == 0)
		return run_fail(r, EINVAL, "a range in steps of 0");
	for (int64_t i = start; !r->failed && (step > 0 ? i < stop : i > stop);) {
		list_append(r, list.list, value_int(i));
		if (__builtin_add_overflow(i, step, &i))
			break;
	}
	return list;
}

/* Keys of an object given first, and those by name. */
static struct value members(struct run *r, enum value_kind kind, const struct arguments *args)
{
	struct value made = value_dict(r, kind);
	if (args->count > 1 || (args->count == 1 && args->items[0].kind != V_DICT))
		return run_fail(r, EINVAL, "only an object, or arguments by name, make another");
	for (size_t i = 0; !r->failed && args->count == 1 && i < args->items[0].dict->count; i++)
		dict_put(r, made.dict, args->items[0].dict->members[i].key,
			 args->items[0].dict->members[i].value);
	for (size_t i = 0; !r->failed && i < args->named_count; i++)
		dict_put(r, made.dict,
			 value_text(r, args->named[i].name, args->named[i].n, FROM_TEMPLATE),
			 args->named[i].value);
	return made;
}

static struct value namespace(struct run *r, const struct value *self, const struct arguments *args)
{
	(void)self;
	return members(r, V_NAMESPACE, args);
}

static struct value dict(struct run *r, const struct value *self, const struct arguments *args)
{
	(void)self;
	return members(r, V_DICT, args);
}

static struct value raise_exception(struct run *r, const struct value *self,
				    const struct value *const *a)
{
	(void)self;
	struct value words = value_string(r, a[0]);
	if (r->failed)
		return NONE;
	return run_fail(r, EBADMSG, "%.*s", (int)(words.n < 1000 ? words.n : 1000),
			words.text.bytes);
}

static struct value strftime_now(struct run *r, const struct value *self,
				 const struct value *const *a)
{
	struct value format;
	struct writer w = {0};
	(void)self;
	if (!must_be_text(r, a[0], &format))
		return NONE;
	for (uint32_t i = 0; i < format.n && !r->failed; i++) {
		char code[3] = {'%'}, text[64] = "";
		if (format.text.bytes[i] != '%' || i + 1 == format.n) {
			write_bytes(r, &w, format.text.bytes + i, format.text.from + i, 1);
			continue;
		}
		code[1] = format.text.bytes[++i];
		if (!code[1] || !strchr("aAbBdeHIjmMpSyYwUWDFTR%", code[1]))
			return run_fail(r, ENOTSUP, "%%%c of a date is not known here",
					code[1] >= ' ' && code[1] < 127 ? code[1] : '?');
		(void)strftime(text, sizeof text, code, r->clock);
		write_text(r, &w, text);
	}
	return write_done(r, &w);
}

/* What joiner gives: nothing the first time, then the text. The list has the text, and another item
 * once it was called. */
static struct value join_next(struct run *r, const struct value *self, const struct arguments *args)
{
	(void)args;
	if (self->list->count > 1)
		return self->list->items[0];
	list_append(r, self->list, NONE);
	return value_literal("");
}

static const struct function JOIN_NEXT = {.name = "joiner", .call_any = join_next};

static struct value joiner(struct run *r, const struct value *self, const struct value *const *a)
{
	(void)self;
	struct value state = value_list(r, V_LIST);
	struct method *m = run_allocate(r, sizeof *m);
	if (!m)
		return NONE;
	list_append(r, state.list, a[0] ? *a[0] : value_literal(", "));
	*m = (struct method){state, &JOIN_NEXT};
	return (struct value){.kind = V_METHOD, .method = m};
}

const struct function TEMPLATE_GLOBALS[] = {
	{.name = "range", .call_any = range},
	{.name = "namespace", .call_any = namespace},
	{.name = "dict", .call_any = dict},
	{.name = "joiner", .call = joiner, .parameters = {"sep"}},
	{.name = "raise_exception", .call = raise_exception, .parameters = {"message"}, .least = 1},
	{.name = "strftime_now", .call = strftime_now, .parameters = {"format"}, .least = 1},
	{.name = NULL}};

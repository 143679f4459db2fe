#include "engine/template/template_loop.h"

#include <errno.h>
#include <string.h>

struct value loop_attribute(struct run *r, const struct loop *l, const char *name, size_t n)
{
	enum {
		INDEX,
		INDEX0,
		REVINDEX,
		REVINDEX0,
		FIRST,
		LAST,
		LENGTH,
		DEPTH,
		DEPTH0,
		PREVIOUS,
		NEXT
	};
	static const char *const NAMES[] = {"index",  "index0",	  "revindex", "revindex0",
					    "first",  "last",	  "length",   "depth",
					    "depth0", "previtem", "nextitem"};
	size_t i = l->index, count = l->items->count, which = 0;
	run_work(r, 1);
	while (which < sizeof NAMES / sizeof *NAMES &&
	       (strlen(NAMES[which]) != n || memcmp(NAMES[which], name, n) != 0))
		which++;
	switch (which) {
	case INDEX:
		return value_int((int64_t)i + 1);
	case INDEX0:
		return value_int((int64_t)i);
	case REVINDEX:
		return value_int((int64_t)(count - i));
	case REVINDEX0:
		return value_int((int64_t)(count - i) - 1);
	case FIRST:
		return value_bool(i == 0);
	case LAST:
		return value_bool(i + 1 == count);
	case LENGTH:
		return value_int((int64_t)count);
	case DEPTH:
		return value_int((int64_t)l->depth + 1);
	case DEPTH0:
		return value_int(l->depth);
	case PREVIOUS:
		return i > 0 ? l->items->items[i - 1] : value_undefined(name, n);
	case NEXT:
		return i + 1 < count ? l->items->items[i + 1] : value_undefined(name, n);
	default:
		return value_undefined(name, n);
	}
}

static struct value cycle(struct run *r, const struct value *self, const struct arguments *args)
{
	if (args->count == 0)
		return run_fail(r, EINVAL, "loop.cycle of nothing");
	return args->items[self->loop->index % args->count];
}

static struct value changed(struct run *r, const struct value *self, const struct arguments *args)
{
	struct loop *l = self->loop;
	struct value now = value_list(r, V_TUPLE);
	for (size_t i = 0; !r->failed && i < args->count; i++)
		list_append(r, now.list, args->items[i]);
	bool same = !r->failed && l->changed_any && value_equal(r, &now, &l->last);
	l->changed_any = true;
	l->last = now;
	return value_bool(!same);
}

const struct function LOOP_METHODS[] = {{.name = "cycle", .call_any = cycle},
					{.name = "changed", .call_any = changed},
					{.name = NULL}};

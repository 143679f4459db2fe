#include "engine/answer/split_arguments.h"

#include <stdlib.h>
#include <string.h>

void arguments_free(struct arguments *a)
{
	for (size_t i = 0; i < a->count; i++)
		text_out_free(&a->items[i].value);
	free(a->items);
}

static bool is_key(const struct argument *a, const char *key, size_t n)
{
	return a->key_n == n && memcmp(a->key, key, n) == 0;
}

bool arguments_have(const struct arguments *a, const char *key, size_t n)
{
	for (size_t i = 0; i < a->count; i++)
		if (is_key(&a->items[i], key, n))
			return true;
	return false;
}

struct text_out *arguments_add(struct arguments *a, const char *key, size_t n)
{
	for (size_t i = 0; i < a->count; i++)
		if (is_key(&a->items[i], key, n)) {
			text_out_free(&a->items[i].value);
			memmove(&a->items[i], &a->items[i + 1],
				(--a->count - i) * sizeof *a->items);
		}
	if (a->count == a->room) {
		size_t room = 2 * a->room + 4;
		struct argument *items = reallocarray(a->items, room, sizeof *items);
		a->failed |= !items;
		if (!items)
			return NULL;
		a->items = items;
		a->room = room;
	}
	a->items[a->count] = (struct argument){.key = key, .key_n = n};
	return &a->items[a->count++].value;
}

bool arguments_call(struct arguments *a, const char *name, size_t n, struct calls *calls)
{
	struct text_out named = {0}, o = {0};
	text_out_add(&named, name, n);
	text_out_string(&o, "{");
	for (size_t i = 0; i < a->count; i++) {
		text_out_string(&o, i > 0 ? ", " : "");
		text_out_json_text(&o, a->items[i].key, a->items[i].key_n);
		text_out_string(&o, ": ");
		text_out_add(&o, a->items[i].value.bytes, a->items[i].value.n);
		o.failed |= a->items[i].value.failed;
	}
	text_out_string(&o, "}");
	o.failed |= a->failed;
	return calls_append(calls, &named, &o);
}

bool is_call_name(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)name[i] <= ' ' || strchr("<>{}\"'", name[i]))
			return false;
	return n > 0;
}

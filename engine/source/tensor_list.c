#include "engine/source/tensor_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void *list_grow(void *list, size_t count, size_t *room, size_t item_bytes)
{
	if (count < *room)
		return list;
	size_t more = *room ? 2 * *room : 64;
	void *grown = realloc(list, more * item_bytes);
	if (grown)
		*room = more;
	return grown;
}

void tensor_list_free(struct tensor_list *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->tensors[i].name);
	free(l->tensors);
	*l = (struct tensor_list){0};
}

struct checkpoint_tensor *tensor_list_append(struct tensor_list *l, const char *name, size_t length)
{
	struct checkpoint_tensor *tensors =
		list_grow(l->tensors, l->count, &l->room, sizeof *tensors);
	if (!tensors)
		return NULL;
	l->tensors = tensors;
	struct checkpoint_tensor *t = &l->tensors[l->count];
	*t = (struct checkpoint_tensor){.name = strndup(name, length)};
	if (!t->name)
		return NULL;
	l->count++;
	return t;
}

static int tensor_compare_names(const void *a, const void *b)
{
	const struct checkpoint_tensor *x = a, *y = b;
	return strcmp(x->name, y->name);
}

int tensor_list_check_names(const struct tensor_list *l, size_t first, const char *file,
			    struct err *e)
{
	struct checkpoint_tensor *t = l->tensors;
	if (l->count > first)
		qsort(t + first, l->count - first, sizeof *t, tensor_compare_names);
	for (size_t i = first + 1; i < l->count; i++)
		if (!strcmp(t[i - 1].name, t[i].name))
			return err_set(e, EINVAL, "%s: tensor %s is there twice", file, t[i].name);
	return 0;
}

static int tensor_compare_offsets(const void *a, const void *b)
{
	const struct checkpoint_tensor *x = a, *y = b;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

void tensor_list_sort_by_place(const struct tensor_list *l, size_t first)
{
	if (l->count > first)
		qsort(l->tensors + first, l->count - first, sizeof *l->tensors,
		      tensor_compare_offsets);
}

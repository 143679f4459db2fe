/* A list of the stored tensors of one or more files, filled by the readers of container formats. */
#ifndef MOEFS_ENGINE_SOURCE_TENSOR_LIST_H
#define MOEFS_ENGINE_SOURCE_TENSOR_LIST_H

#include "cache/err.h"
#include "engine/source/checkpoint.h"

/* Makes room for one more item: returns `list` or its new address, and sets *room. NULL: out of
 * memory; the list is unchanged. */
void *list_grow(void *list, size_t count, size_t *room, size_t item_bytes);

struct tensor_list { /* zero-initialise */
	struct checkpoint_tensor *tensors;
	size_t count, room;
};
void tensor_list_free(struct tensor_list *l);

/* Appends a tensor with a copy of its name; NULL: out of memory. */
struct checkpoint_tensor *tensor_list_append(struct tensor_list *l, const char *name,
					     size_t length);
/* Sorts the tensors from index `first` on by name. -EINVAL: two have the same name. (Programs that
 * keep only the last of two equal keys would read another model.) */
int tensor_list_check_names(const struct tensor_list *l, size_t first, const char *file,
			    struct err *e);
/* Sorts the tensors from index `first` on, all of one file, by place of their data; empty ones
 * first. */
void tensor_list_sort_by_place(const struct tensor_list *l, size_t first);

/* ---- safetensors.c ---- */

enum { SAFETENSORS_MAX_HEADER = 100 << 20, SAFETENSORS_MAX_NAME = 512 };

/* Appends the tensors of the JSON text[length] of a file whose data has data_bytes. Checks that
 * every type has a known width, that shape times width is the size given, that names are unique,
 * and that the tensors cover the data exactly, without overlap or gap. */
int safetensors_parse(struct tensor_list *l, const char *text, size_t length, uint64_t data_bytes,
		      uint32_t file, const char *name, struct err *e);

#endif

/* The tensors of one or more files, as a container's reader finds them. */
#ifndef MOEFS_ENGINE_SOURCE_TENSOR_LIST_H
#define MOEFS_ENGINE_SOURCE_TENSOR_LIST_H

#include "cache/err.h"
#include "engine/source/checkpoint.h"

/* Makes room for one more item of a list: returns `list` or its new place, and sets *room. NULL
 * without memory; then the list is as before. */
void *list_grow(void *list, size_t count, size_t *room, size_t item_bytes);

struct tensor_list { /* zero-initialise */
	struct checkpoint_tensor *tensors;
	size_t count, room;
};
void tensor_list_free(struct tensor_list *l);

/* A new one at the end, with a copy of its name; NULL: no memory. */
struct checkpoint_tensor *tensor_list_append(struct tensor_list *l, const char *name,
					     size_t length);
/* Sorts the tensors from `first` on by their names; -EINVAL if two of them have the same. (A reader
 * that keeps the last of equal keys would not see the others.) */
int tensor_list_check_names(const struct tensor_list *l, size_t first, const char *file,
			    struct err *e);
/* Sorts the tensors from `first` on, which are those of one file, by where their data is; empty
 * ones first. */
void tensor_list_sort_by_place(const struct tensor_list *l, size_t first);

/* ---- safetensors.c ---- */

enum { SAFETENSORS_MAX_HEADER = 100 << 20, SAFETENSORS_MAX_NAME = 512 };

/* Appends the tensors of the JSON text[length] of a file whose data has data_bytes. Checked: every
 * type has a known width, shape times width is the size given, no name is there twice, and together
 * the tensors cover the data exactly, without overlap or gap. */
int safetensors_parse(struct tensor_list *l, const char *text, size_t length, uint64_t data_bytes,
		      uint32_t file, const char *name, struct err *e);

#endif

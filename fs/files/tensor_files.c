/* tensors/: a NumPy file for each tensor of the checkpoint, called NAME.npy (tensor_names.h).
 *
 * The list is made by a worker, for who first opens the folder or asks for a name in it; the bytes
 * of a file are the workers' as well. Looking loads nothing.
 */
#include "fs/files/files.h"
#include "fs/files/tensor_names.h"
#include "fs/mount/handle.h"

#include <string.h>

/* ---- names ---- */

static bool is_called(const struct model *m, size_t i, const char *file)
{
	char printed[NAME_SIZE];
	tensor_file_name(model_tensor_name(m, i), printed);
	return strcmp(printed, file) == 0;
}

static uint64_t tensor_next(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	if (after >= model_tensors(folder->model->model))
		return 0;
	tensor_file_name(model_tensor_name(folder->model->model, after), name);
	return after + 1;
}

/* Names are found by printing them again, so that none has two. */
static uint64_t tensor_find(const struct node *folder, const char *file)
{
	const struct model *m = folder->model->model;
	char name[NAME_SIZE];
	size_t i;
	if (!tensor_name_read(file, name))
		return 0;
	if (model_tensor_find(m, name, &i))
		return is_called(m, i, file) ? i + 1 : 0;
	for (i = 0; tensor_name_is_cut(file) && i < model_tensors(m); i++)
		if (is_called(m, i, file))
			return i + 1;
	return 0;
}

static void tensor_bind(struct node *child, uint64_t member)
{
	child->item = (uint32_t)member - 1;
}

const struct row_family tensor_family = {tensor_next, tensor_find, tensor_bind};

bool tensors_are_prepared(const struct node *folder)
{
	return model_tensors_are_open(folder->model->model);
}

int tensors_prepare(const struct node *folder, struct err *e)
{
	return model_tensors_open(folder->model->model, e);
}

/* ---- files ---- */

static int64_t tensor_read(const struct handle *h, uint64_t offset, void *buffer, size_t bytes,
			   struct err *e)
{
	return model_tensor_read(h->node.model->model, h->node.item, offset, buffer, bytes, e);
}

static uint64_t tensor_size(const struct node *n)
{
	return model_tensor_bytes(n->model->model, n->item);
}

/* It is made as it is read, and takes no place anywhere. */
static void tensor_attr(const struct node *n, struct stat *st)
{
	(void)n;
	st->st_blocks = 0;
}

const struct row_hooks tensor_hooks = {.attr = tensor_attr};
const struct file_ops tensor_ops = {
	.read_in_worker = tensor_read,
	.size = tensor_size,
};

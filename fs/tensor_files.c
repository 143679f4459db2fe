/* tensors/: a NumPy file for each tensor of the checkpoint, called NAME.npy.
 *
 * What a file's name cannot have, or should not, is written %XX: a slash, %, control bytes, a dot
 * at the beginning. A name of more than NAME_MOST bytes is cut and ends with ~ and a sum of the
 * whole. The list is made by a worker, for who first opens the folder or asks for a name in it; the
 * bytes of a file are the workers' as well. Looking loads nothing.
 */
#include "fs/files.h"
#include "fs/handle.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- names ---- */

#define ENDING ".npy"
enum {
	NAME_MOST = NAME_SIZE - sizeof ENDING, /* bytes: 251 */
	SUM_DIGITS = 16,
	CUT_AT = NAME_MOST - 1 - SUM_DIGITS,
};

/* FNV-1a, 64 bits: for names alone, which no two of one checkpoint need share. */
static uint64_t sum_of(const char *name)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	for (; *name; name++)
		sum = (sum ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	return sum;
}

static bool must_be_written(const char *name, size_t i)
{
	uint8_t byte = (uint8_t)name[i];
	return byte < 0x20 || byte == 0x7f || byte == '/' || byte == '%' || (byte == '.' && !i);
}

/* Where a name that is too long is cut: not within a character. */
static size_t cut(const char *name, size_t length)
{
	while (length > 0 && ((uint8_t)name[length] & 0xc0) == 0x80)
		length--;
	return length;
}

static void print_name(const char *name, char file[NAME_SIZE])
{
	size_t at = 0, fits = 0;
	for (size_t i = 0; name[i] && at <= NAME_MOST; i++) {
		bool written = must_be_written(name, i);
		at += written ? 3 : 1;
		if (at <= CUT_AT)
			fits = i + 1;
	}
	bool whole = at <= NAME_MOST;
	size_t end = whole ? strlen(name) : cut(name, fits);
	char *to = file;
	for (size_t i = 0; i < end; i++)
		if (must_be_written(name, i))
			to += sprintf(to, "%%%02X", (uint8_t)name[i]);
		else
			*to++ = name[i];
	if (!whole)
		to += sprintf(to, "~%016" PRIx64, sum_of(name));
	memcpy(to, ENDING, sizeof ENDING);
}

static int digit(char c)
{
	const char *digits = "0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* What may be the tensor's name, if it was not cut; false: no file is called so. */
static bool read_name(const char *file, char name[NAME_SIZE])
{
	size_t length = strlen(file), at = 0;
	if (length <= sizeof ENDING - 1 || length >= NAME_SIZE ||
	    strcmp(file + length - (sizeof ENDING - 1), ENDING) != 0)
		return false;
	for (size_t i = 0; i < length - (sizeof ENDING - 1); i++) {
		name[at] = file[i];
		if (file[i] == '%') {
			int high = digit(file[i + 1]), low = high < 0 ? -1 : digit(file[i + 2]);
			if (low < 0)
				return false;
			name[at] = (char)(high * 16 + low);
			i += 2;
		}
		if (!name[at++])
			return false;
	}
	name[at] = 0;
	return true;
}

static bool is_called(const struct model *m, size_t i, const char *file)
{
	char printed[NAME_SIZE];
	print_name(model_tensor_name(m, i), printed);
	return strcmp(printed, file) == 0;
}

static uint64_t tensor_next(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	if (after >= model_tensors(folder->model->model))
		return 0;
	print_name(model_tensor_name(folder->model->model, after), name);
	return after + 1;
}

/* Names are found by printing them again, so that none has two. */
static uint64_t tensor_find(const struct node *folder, const char *file)
{
	const struct model *m = folder->model->model;
	char name[NAME_SIZE];
	size_t i;
	if (!read_name(file, name))
		return 0;
	if (model_tensor_find(m, name, &i))
		return is_called(m, i, file) ? i + 1 : 0;
	if (!strchr(file, '~')) /* it would be one that was cut */
		return 0;
	for (i = 0; i < model_tensors(m); i++)
		if (strlen(model_tensor_name(m, i)) > NAME_MOST / 3 && is_called(m, i, file))
			return i + 1;
	return 0;
}

static void tensor_bind(struct node *child, uint64_t member)
{
	child->item = (uint32_t)member - 1;
}

const struct family tensor_family = {tensor_next, tensor_find, tensor_bind};

bool tensors_are_prepared(const struct node *folder)
{
	return model_tensors_are_open(folder->model->model);
}

int tensors_prepare(const struct node *folder, struct err *e)
{
	return model_tensors_open(folder->model->model, e);
}

/* ---- files ---- */

static int64_t tensor_read(const struct node *n, uint64_t offset, void *buffer, size_t bytes,
			   struct err *e)
{
	return model_tensor_read(n->model->model, n->item, offset, buffer, bytes, e);
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

const struct file_ops tensor_ops = {
	.read_in_worker = tensor_read,
	.size = tensor_size,
	.attr = tensor_attr,
};

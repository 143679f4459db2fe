#include "engine/source/package_inside.h"

#include "engine/source/source_file.h"
#include "engine/source/tensor_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

struct package_tensor *package_add(struct package *p, const char *name)
{
	struct package_tensor *tensors = list_grow(p->tensors, p->count, &p->room, sizeof *tensors);
	if (!tensors)
		return NULL;
	p->tensors = tensors;
	struct package_tensor *t = &p->tensors[p->count];
	*t = (struct package_tensor){.name = strdup(name), .format = FORMAT_COUNT};
	p->count += t->name != NULL;
	return t->name ? t : NULL;
}

static int package_compare_names(const void *a, const void *b)
{
	const struct package_tensor *x = a, *y = b;
	return strcmp(x->name, y->name);
}

/* Duplicate names come from codes and plain numbers of the same name, or from codes of two
 * encodings. */
int package_sort(struct package *p, struct err *e)
{
	if (p->count)
		qsort(p->tensors, p->count, sizeof *p->tensors, package_compare_names);
	for (size_t i = 1; i < p->count; i++)
		if (!strcmp(p->tensors[i - 1].name, p->tensors[i].name))
			return err_set(e, EINVAL,
				       "tensor %s is in the checkpoint twice, in %s and in %s",
				       p->tensors[i].name, p->tensors[i - 1].encoding->name,
				       p->tensors[i].encoding->name);
	return 0;
}

void package_close(struct package *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->count; i++)
		free(p->tensors[i].name);
	free(p->tensors);
	if (p->checkpoint)
		checkpoint_close(p->checkpoint);
	else
		files_close(p->files);
	free(p);
}

/* ---- finding ---- */

size_t package_count(const struct package *p)
{
	return p->count;
}

const struct package_tensor *package_tensor(const struct package *p, size_t i)
{
	return &p->tensors[i];
}

static const struct package_tensor *package_find_exactly(const struct package *p, const char *name)
{
	struct package_tensor key = {.name = (char *)name};
	return p->count ? bsearch(&key, p->tensors, p->count, sizeof key, package_compare_names)
			: NULL;
}

const struct package_tensor *package_find(const struct package *p, const char *name)
{
	const struct package_tensor *t = package_find_exactly(p, name);
	size_t stem = source_stem(name, ".weight");
	char shorter[512];
	if (t || !stem || stem >= sizeof shorter)
		return t;
	memcpy(shorter, name, stem);
	shorter[stem] = 0;
	t = package_find_exactly(p, shorter);
	return t && t->encoding->type ? t : NULL;
}

struct files *package_files(const struct package *p)
{
	return p->files;
}

/* ---- shapes ---- */

uint64_t package_rows(const struct package_tensor *t)
{
	uint64_t rows = 1;
	for (uint32_t i = 0; i + 1 < t->dims; i++)
		rows *= t->shape[i];
	return rows;
}

/* Dimensions of 1 in the middle do not matter: [channels, 1, width] has rows of that width, too. */
static bool package_same_shape(const uint64_t *a, uint32_t a_dims, const uint64_t *b,
			       uint32_t b_dims)
{
	uint32_t i = 0, k = 0;
	for (;; i++, k++) {
		while (i > 0 && i + 1 < a_dims && a[i] == 1)
			i++;
		while (k > 0 && k + 1 < b_dims && b[k] == 1)
			k++;
		if (i == a_dims || k == b_dims)
			return i == a_dims && k == b_dims;
		if (a[i] != b[k])
			return false;
	}
}

bool package_fits(const struct package_tensor *t, const uint64_t *shape, uint32_t dims)
{
	if (!t->padded)
		return package_same_shape(t->shape, t->dims, shape, dims);
	uint64_t rows = 1, cols = dims ? shape[dims - 1] : 0, pad = t->padded;
	for (uint32_t i = 0; i + 1 < dims; i++)
		if (__builtin_mul_overflow(rows, shape[i], &rows))
			return false;
	return cols && rows == package_rows(t) &&
	       (cols - 1) / pad + 1 == t->shape[t->dims - 1] / pad;
}

void package_print_shape(char *text, size_t size, const uint64_t *shape, uint32_t dims)
{
	size_t used = 1;
	(void)snprintf(text, size, "[");
	for (uint32_t i = 0; i < dims && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%llu", i ? ", " : "",
					 (unsigned long long)shape[i]);
	if (used < size)
		(void)snprintf(text + used, size - used, "]");
}

enum format package_read_format(const struct package_tensor *t)
{
	return format_is_float(t->format) ? t->format : FORMAT_F32;
}

/* ---- reading ---- */

/* The row of a part that a row of the tensor belongs to. */
static uint64_t package_part_row(const struct package_tensor *t, uint32_t part, uint64_t row)
{
	uint64_t share = t->part[part].share, height = t->dims > 1 ? t->shape[t->dims - 2] : 1;
	if (share == 1)
		return row;
	return row / height * ((height - 1) / share + 1) + row % height / share;
}

struct package_place package_place(const struct package_tensor *t, uint32_t part, uint64_t row,
				   uint32_t rows)
{
	const struct package_part *p = &t->part[part];
	uint64_t first = package_part_row(t, part, row);
	uint64_t last = rows ? package_part_row(t, part, row + rows - 1) : first;
	return (struct package_place){p->file, p->offset + first * p->row_bytes,
				      (last - first + 1) * p->row_bytes};
}

int package_read_part(const struct package *p, const struct package_tensor *t, uint32_t part,
		      uint64_t row, uint32_t rows, void *out, struct err *e)
{
	const struct package_place at = package_place(t, part, row, rows);
	return files_read(p->files, at.file, at.offset, out, at.bytes, e);
}

/* Reads the parts' bytes of these rows, one part after the other, into a buffer that the caller
 * frees. */
static int package_read_parts(const struct package *p, const struct package_tensor *t, uint64_t row,
			      uint32_t rows, uint8_t **buffer, const uint8_t *part[PACKAGE_PARTS],
			      struct err *e)
{
	uint64_t bytes = 0;
	int failed = 0;
	for (uint32_t i = 0; i < t->parts; i++)
		bytes += package_place(t, i, row, rows).bytes;
	*buffer = malloc(bytes);
	if (!*buffer)
		return err_set(e, ENOMEM, "out of memory for %llu bytes of tensor %s",
			       (unsigned long long)bytes, t->name);
	uint8_t *to = *buffer;
	for (uint32_t i = 0; i < t->parts && !failed; i++) {
		part[i] = to;
		failed = package_read_part(p, t, i, row, rows, to, e);
		to += package_place(t, i, row, rows).bytes;
	}
	return failed;
}

struct shape package_shape(const struct package_tensor *t, uint32_t rows, uint32_t cols)
{
	return (struct shape){.format = t->format,
			      .norms = t->norms,
			      .rows = rows,
			      .cols = cols,
			      .group = t->group};
}

/* Decodes a row; with the kernels if it has a kernel format. */
static void package_decode_row(const struct package_tensor *t, const uint8_t *const *part,
			       uint32_t cols, float *out)
{
	const struct shape row = package_shape(t, 1, cols);
	if (t->format == FORMAT_COUNT)
		t->encoding->decode(t, part, cols, out);
	else
		format_dequantise_row(out, &row, &(struct pieces){part[0], part[1], part[2]});
}

static void package_decode(const struct package_tensor *t, const uint8_t *const *part, uint64_t row,
			   uint32_t rows, uint32_t cols, float *out)
{
	for (uint32_t r = 0; r < rows; r++) {
		const uint8_t *at[PACKAGE_PARTS] = {0};
		for (uint32_t i = 0; i < t->parts; i++)
			at[i] = part[i] +
				(package_part_row(t, i, row + r) - package_part_row(t, i, row)) *
					t->part[i].row_bytes;
		package_decode_row(t, at, cols, out + (size_t)r * cols);
	}
}

int package_read(const struct package *p, const struct package_tensor *t, uint64_t row,
		 uint32_t rows, uint32_t cols, void *out, struct err *e)
{
	const uint8_t *part[PACKAGE_PARTS];
	uint8_t *buffer;
	if (format_is_float(t->format))
		return package_read_part(p, t, 0, row, rows, out, e);
	int failed = package_read_parts(p, t, row, rows, &buffer, part, e);
	if (!failed)
		package_decode(t, part, row, rows, cols, out);
	free(buffer);
	return failed;
}

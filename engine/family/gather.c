#include "engine/family/gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SLAB_BYTES = 256 << 10 }; /* of the tensor's rows at a time, but at least one */

struct gathering {
	const struct package *package;
	const struct source *from;
	size_t element;	 /* bytes */
	uint32_t width;	 /* elements of the tensor's rows */
	uint32_t height; /* rows that the slab has room for */
	uint8_t *slab;
	uint8_t *out;
};

static int read_slab(struct gathering *g, uint64_t row, uint32_t rows, struct err *e)
{
	return package_read(g->package, g->from->tensor, row, rows, g->width, g->slab, e);
}

static void copy(const struct gathering *g, size_t to, size_t slab)
{
	memcpy(g->out + to * g->element, g->slab + slab * g->element, g->element);
}

/* The rows are taken apart one by one. */
static int pick(struct gathering *g, uint32_t row, uint32_t rows, struct err *e)
{
	const struct view *v = &g->from->view;
	size_t cols = g->from->cols;
	for (size_t i = 0; i < rows; i++) {
		int failed = read_slab(g, view_place(v, row + i, 0).row, 1, e);
		if (failed)
			return failed;
		for (size_t k = 0; k < cols; k++)
			copy(g, i * cols + k, view_place(v, row + i, k).column);
	}
	return 0;
}

/* Rows of one block: the tensor's rows from first on have a number of each. */
static int cross(struct gathering *g, uint32_t row, uint32_t rows, struct err *e)
{
	const struct view *v = &g->from->view;
	const struct view_place first = view_place(v, row, 0);
	size_t cols = g->from->cols;
	for (size_t k = 0; k < cols; k += g->height) {
		size_t n = cols - k < g->height ? cols - k : g->height;
		int failed = read_slab(g, first.row + k, (uint32_t)n, e);
		if (failed)
			return failed;
		for (size_t i = 0; i < rows; i++)
			for (size_t j = 0; j < n; j++)
				copy(g, i * cols + k + j,
				     j * g->width + first.column + i * v->step);
	}
	return 0;
}

static int cross_blocks(struct gathering *g, uint32_t row, uint32_t rows, struct err *e)
{
	uint64_t block = g->from->view.part[0].block;
	while (rows > 0) {
		uint64_t left = block - row % block;
		uint32_t n = left < rows ? (uint32_t)left : rows;
		int failed = cross(g, row, n, e);
		if (failed)
			return failed;
		g->out += n * g->from->row_bytes;
		row += n;
		rows -= n;
	}
	return 0;
}

int gather_rows(const struct package *p, const struct source *from, uint32_t row, uint32_t rows,
		void *out, struct err *e)
{
	const struct view *v = &from->view;
	struct gathering g = {p, from, from->row_bytes / from->cols, 0, 1, NULL, out};
	g.width = (uint32_t)v->shape[v->dims - 1];
	size_t row_bytes = g.width * g.element;
	if (row_bytes < SLAB_BYTES)
		g.height = (uint32_t)(SLAB_BYTES / row_bytes);
	g.slab = malloc(g.height * row_bytes);
	if (!g.slab)
		return err_set(e, ENOMEM, "out of memory for %zu bytes of a tensor's rows",
			       g.height * row_bytes);
	int failed =
		v->way == VIEW_ACROSS ? cross_blocks(&g, row, rows, e) : pick(&g, row, rows, e);
	free(g.slab);
	return failed;
}

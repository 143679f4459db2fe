/* Numbers of published tensors: from the source, and over them those that roles have made of theirs
 * (tensors.h). */
#include "engine/convert/role_rows.h"
#include "engine/convert/tensors_inside.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	BATCH_NUMBERS = 64 << 10, /* that are made at once, but at least a row's */
	ROW_MOST = 16 << 20,	  /* numbers of a row that is in codes: no model has longer ones */
	ACROSS_NUMBERS = 4 << 20, /* of rows that lie across, at a time */
};

struct reading {
	const struct tensors *list;
	const struct listed_tensor *tensor;
	struct role_reader from;
	/* The batch. */
	uint64_t row;
	uint32_t rows;
	float *out;
};

static int no_memory(const struct reading *r, struct err *e)
{
	return err_set(e, ENOMEM, "out of memory for rows of tensor %s", r->tensor->facts.name);
}

/* ---- what is published ---- */

/* 16-bit floats at the end of out[n], or F32 in all of it, as floats. */
static void widen(float *out, size_t n, enum format from, const void *bytes)
{
	format_dequantise_row(out, &(struct shape){.format = from, .rows = 1, .cols = (uint32_t)n},
			      &(struct pieces){.weights = bytes});
}

static void *end_of(float *out, size_t n, enum format f)
{
	return (uint8_t *)out + n * (f == FORMAT_F32 ? 0 : 2);
}

/* Floats lie one after the other, wherever rows end. */
static int read_floats(const struct reading *r, uint64_t first, size_t count, float *out,
		       struct err *e)
{
	const struct package_tensor *t = r->tensor->published;
	const struct package_part *p = &t->part[0];
	while (count > 0) {
		size_t n = count < BATCH_NUMBERS ? count : BATCH_NUMBERS;
		size_t width = t->format == FORMAT_F32 ? 4 : 2;
		void *bytes = end_of(out, n, t->format);
		int failed = files_read(package_files(r->list->sources.package), p->file,
					p->offset + first * width, bytes, n * width, e);
		if (failed)
			return failed;
		widen(out, n, t->format, bytes);
		first += n;
		out += n;
		count -= n;
	}
	return 0;
}

/* The batch, matrix by matrix: those of different ones may share no scales. */
static int read_published(const struct reading *r, struct err *e)
{
	const struct listed_tensor *l = r->tensor;
	uint64_t height = l->facts.dims > 1 ? l->facts.shape[l->facts.dims - 2] : 1;
	for (uint32_t i = 0, n; i < r->rows; i += n) {
		uint64_t left = height - (r->row + i) % height;
		n = left < r->rows - i ? (uint32_t)left : r->rows - i;
		size_t numbers = n * l->cols;
		enum format format = package_read_format(l->published);
		float *out = r->out + i * l->cols;
		void *bytes = end_of(out, numbers, format);
		int failed = package_read(r->list->sources.package, l->published, r->row + i, n,
					  (uint32_t)l->cols, bytes, e);
		if (failed)
			return failed;
		widen(out, numbers, format, bytes);
	}
	return 0;
}

/* ---- where a role's rows lie in the batch ---- */

/* What was made of numbers after they were published, made again. */
static void redo_change(enum view_change change, float *x, size_t n)
{
	for (size_t i = 0; i < n && change != VIEW_AS_IS; i++)
		x[i] = change == VIEW_PLUS_ONE ? x[i] + 1 : -expf(x[i]);
}

/* Rows of the batch from i on that are the role's one after the other, *row and those behind it. */
static uint32_t run_of(const struct reading *r, const struct view *v, uint32_t i, uint64_t *row)
{
	uint32_t n = 0;
	uint64_t next;
	while (i + n < r->rows && view_find_row(v, r->row + i + n, &next) &&
	       (n == 0 || next == *row + n)) {
		*row = n ? *row : next;
		n++;
	}
	return n;
}

static int along(struct reading *r, struct role_rows *u, struct err *e)
{
	uint64_t cols = r->tensor->cols, row = 0;
	int failed = role_rows_room(u, r->rows, e);
	for (uint32_t i = 0, n; i < r->rows && !failed; i += n ? n : 1) {
		n = run_of(r, &u->from.view, i, &row);
		n = n < u->room ? n : u->room;
		if (n)
			failed = role_rows_read(u, &r->from, (uint32_t)row, n, e);
		for (uint32_t k = 0; k < n && !failed; k++) {
			float *out = r->out + (i + k) * cols;
			(void)role_rows_decode(u, k, 0, u->shape.cols, out);
			redo_change(u->from.view.change, out, u->shape.cols);
		}
	}
	return failed;
}

/* Numbers [first, first + n) of the role's rows of one block, which are the batch's rows `to` and
 * those behind it. */
static int cross_block(struct reading *r, const struct role_rows *of, uint32_t block,
		       uint32_t first, uint32_t n, uint32_t to, float *row, struct err *e)
{
	struct role_rows u = *of; /* its room is lent */
	const struct view *v = &u.from.view;
	uint32_t height = (uint32_t)v->part[0].block;
	if (!r->from.store)
		role_rows_narrow(&u, &first, n);
	for (uint32_t i = 0, rows; i < height; i += rows) {
		rows = height - i < u.room ? height - i : u.room;
		int failed = role_rows_read(&u, &r->from, block * height + i, rows, e);
		if (failed)
			return failed;
		for (uint32_t k = 0; k < rows; k++) {
			const float *from = row + role_rows_decode(&u, k, first, n, row);
			float *out = r->out + to * r->tensor->cols + v->column + (i + k) * v->step;
			for (uint32_t x = 0; x < n; x++)
				out[x * r->tensor->cols] = from[x];
		}
	}
	return 0;
}

static int across(struct reading *r, struct role_rows *u, struct err *e)
{
	const struct view_part *p = &u->from.view.part[0];
	uint64_t end = r->row + r->rows;
	int failed = role_rows_room(u, ACROSS_NUMBERS / u->shape.cols + 1, e);
	float *row = malloc((u->shape.cols + TQ_GROUP) * sizeof *row);
	if (!failed && !row)
		failed = no_memory(r, e);
	for (uint32_t block = 0; block < p->rows / p->block && !failed; block++) {
		uint64_t begins = p->first + block * p->stride, ends = begins + u->shape.cols;
		uint64_t first = begins > r->row ? begins : r->row, last = ends < end ? ends : end;
		if (first < last)
			failed = cross_block(r, u, block, (uint32_t)(first - begins),
					     (uint32_t)(last - first), (uint32_t)(first - r->row),
					     row, e);
	}
	free(row);
	return failed;
}

static int overlay(struct reading *r, const struct tensor_use *use, struct err *e)
{
	struct role_rows u;
	int failed = role_rows_make(&u, &r->from, use->id, e);
	if (failed)
		return failed;
	const struct view *v = &u.from.view;
	if (v->way == VIEW_ACROSS)
		failed = across(r, &u, e);
	else if (v->way == VIEW_ALONG && !v->upright)
		failed = along(r, &u, e);
	else /* biases and convolutions are F32 */
		failed = err_set(e, ENOTSUP, "tensor %s is stored as nothing that leads back",
				 r->tensor->facts.name);
	role_rows_free(&u);
	return failed;
}

/* ---- reading ---- */

static int read_batch(struct reading *r, struct err *e)
{
	const struct listed_tensor *l = r->tensor;
	int failed = l->covered ? 0 : read_published(r, e);
	for (size_t i = l->use; i < l->use + l->uses && !failed; i++) {
		const struct tensor_use *u = &r->list->uses[i];
		if (u->first < r->row + r->rows && u->end > r->row)
			failed = overlay(r, u, e);
	}
	return failed;
}

/* Whole rows, of which the first may have to begin and the last to end within. */
static int read_rows(struct reading *r, uint64_t first, size_t count, float *out, struct err *e)
{
	uint64_t cols = r->tensor->cols;
	if (cols > ROW_MOST)
		return err_set(e, ENOTSUP, "tensor %s has rows of %llu numbers in codes",
			       r->tensor->facts.name, (unsigned long long)cols);
	uint64_t most = cols < BATCH_NUMBERS ? BATCH_NUMBERS / cols : 1;
	uint64_t wanted = (first + count - 1) / cols - first / cols + 1;
	float *batch = malloc((wanted < most ? wanted : most) * cols * sizeof *batch);
	int failed = batch ? 0 : no_memory(r, e);
	r->out = batch;
	while (count > 0 && !failed) {
		uint64_t left = (first + count - 1) / cols - first / cols + 1, in = first % cols;
		r->row = first / cols;
		r->rows = (uint32_t)(left < most ? left : most);
		size_t n = r->rows * cols - in;
		n = n < count ? n : count;
		failed = read_batch(r, e);
		if (!failed)
			memcpy(out, batch + in, n * sizeof *out);
		first += n;
		out += n;
		count -= n;
	}
	free(batch);
	return failed;
}

/* What the source has now is nobody's weights, if it is another. */
static int check_source(const struct tensors *t, const struct package_tensor *of, struct err *e)
{
	const struct files *f = package_files(t->sources.package);
	struct stat st;
	for (uint32_t i = 0; i < of->parts; i++) {
		uint32_t file = of->part[i].file;
		int failed = files_stat(f, file, &st, e);
		if (failed)
			return failed;
		const struct source_stamp now = source_stamp_of(&st);
		if (!source_stamps_equal(&now, &t->stamps[file]))
			return err_set(e, ESTALE,
				       "%s: was changed since its tensors were listed; unmount, "
				       "and mount it anew",
				       files_path(f, file));
	}
	return 0;
}

int tensors_read(const struct tensors *t, size_t i, const struct tensors_store *store,
		 uint64_t first, size_t count, float *out, struct err *e)
{
	const struct listed_tensor *l = &t->list[i];
	struct reading r = {
		.list = t,
		.tensor = l,
		.from = {store, &t->sources, &t->plan, t->kernels, NULL},
	};
	int failed;
	if (!count)
		return 0;
	if (!l->uses && format_is_float(l->published->format))
		failed = read_floats(&r, first, count, out, e);
	else
		failed = read_rows(&r, first, count, out, e);
	encoder_free(r.from.encoder);
	bool all_stored = store && l->covered;
	return failed || all_stored ? failed : check_source(t, l->published, e);
}

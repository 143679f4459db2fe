#include "engine/convert/tensors.h"
#include "engine/convert/encoder.h"
#include "engine/family/sources.h"
#include "engine/source/source.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	BATCH_NUMBERS = 64 << 10, /* numbers converted at a time, at least a row */
	ROW_MOST = 16 << 20,	  /* most numbers in a quantised row; no model has more */
	ACROSS_NUMBERS = 4 << 20, /* numbers of transposed rows (VIEW_ACROSS) at a time */
};

/* A role's tensor (of one layer and expert) whose numbers differ from the published ones. */
struct tensor_use {
	size_t tensor; /* of the list */
	struct tensor_id id;
	uint64_t first, end; /* the range of the tensor's rows that contains the role's rows */
};

struct tensor_entry {
	struct tensor_facts facts;
	const struct package_tensor *published;
	uint64_t rows, cols;
	size_t use, uses;      /* its uses: [use, use + uses) of the list's uses */
	uint64_t numbers_used; /* of these uses */
	bool covered;	       /* the uses cover the whole tensor */
	bool head_is_tied;     /* the tensor is the embedding */
};

struct tensors {
	struct sources sources;
	struct published formats;
	struct plan plan; /* as for a store */
	const struct kernels *kernels;
	struct tensor_entry *list;
	size_t count;
	struct tensor_use *uses;
	size_t use_count;
	struct source_stamp *stamps; /* of the package's files when they were opened */
};

/* ---- the list ---- */

static int tensors_by_name(const void *a, const void *b)
{
	const struct tensor_entry *x = a, *y = b;
	return strcmp(x->facts.name, y->facts.name);
}

bool tensors_find(const struct tensors *t, const char *name, size_t *i)
{
	const struct tensor_entry key = {.facts.name = name};
	const struct tensor_entry *l =
		t->count ? bsearch(&key, t->list, t->count, sizeof key, tensors_by_name) : NULL;
	*i = l ? (size_t)(l - t->list) : 0;
	return l;
}

size_t tensors_count(const struct tensors *t)
{
	return t->count;
}

const struct tensor_facts *tensors_facts(const struct tensors *t, size_t i)
{
	return &t->list[i].facts;
}

static int tensors_list(struct tensors *t, struct err *e)
{
	const struct package *p = t->sources.package;
	t->list = calloc(package_count(p) + 1, sizeof *t->list);
	if (!t->list)
		return err_set(e, ENOMEM, "out of memory for the list of tensors");
	for (size_t i = 0; i < package_count(p); i++) {
		const struct package_tensor *from = package_tensor(p, i);
		if (!from->parts)
			continue;
		struct tensor_entry *l = &t->list[t->count++];
		l->published = from;
		l->facts.name = from->name;
		l->facts.dims = from->dims;
		memcpy(l->facts.shape, from->shape, sizeof from->shape);
	}
	return 0;
}

/* ---- uses of tensors by roles ---- */

static int tensors_add_use(struct tensors *t, struct tensor_id id, const struct shape *s,
			   struct err *e)
{
	struct source from;
	size_t i;
	int failed = sources_find(&t->sources, id, &from, e);
	if (failed)
		return failed;
	if (!tensors_find(t, from.tensor->name, &i)) /* sources_check found it readable */
		return err_set(e, EINVAL, "tensor %s cannot be listed", from.tensor->name);
	struct tensor_entry *l = &t->list[i];
	if (id.role == TENSOR_HEAD && l->head_is_tied)
		return 0;
	l->head_is_tied = id.role == TENSOR_EMBEDDING;
	if (l->published->padded) { /* the role's shape is exact, the file's is not */
		l->facts.dims = from.view.dims;
		memcpy(l->facts.shape, from.view.shape, from.view.dims * sizeof *from.view.shape);
	}
	if (from.view.change == VIEW_AS_IS &&
	    (s->format == FORMAT_F32 || s->format == from.format || encoder_copies(s, &from)))
		return 0; /* the numbers are those in the file, so no store is needed */
	struct tensor_use *u = &t->uses[t->use_count++];
	*u = (struct tensor_use){.tensor = i, .id = id};
	view_rows_between(&from.view, from.cols, &u->first, &u->end);
	l->numbers_used += (uint64_t)from.rows * from.cols;
	return 0;
}

static int tensor_uses_in_order(const void *a, const void *b)
{
	const struct tensor_use *x = a, *y = b;
	if (x->tensor != y->tensor)
		return x->tensor < y->tensor ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static int tensors_add_uses(struct tensors *t, struct err *e)
{
	const struct plan *p = &t->plan;
	uint32_t records = plan_records(p);
	int failed = 0;
	t->uses = calloc(p->dense_count + (size_t)records * EXPERT_PARTS + 1, sizeof *t->uses);
	if (!t->uses)
		return err_set(e, ENOMEM, "out of memory for the list of tensors");
	for (uint32_t i = 0; i < p->dense_count && !failed; i++)
		failed = tensors_add_use(t, p->dense[i].id, &p->dense[i].shape, e);
	for (uint32_t i = 0; i < records; i++)
		for (uint32_t part = p->first_part; part < EXPERT_PARTS && !failed; part++)
			failed = tensors_add_use(t, plan_part_id(p, i, part),
						 plan_part_shape(p, i, part), e);
	if (t->use_count)
		qsort(t->uses, t->use_count, sizeof *t->uses, tensor_uses_in_order);
	for (size_t i = 0; i < t->use_count; i++) {
		struct tensor_entry *l = &t->list[t->uses[i].tensor];
		l->use = l->uses ? l->use : i;
		l->uses++;
	}
	return failed;
}

static int tensor_measure(struct tensor_entry *l, struct err *e)
{
	struct tensor_facts *f = &l->facts;
	uint64_t bytes = sizeof(float);
	bool fits = true;
	for (uint32_t i = 0; i < f->dims; i++)
		fits = fits && !__builtin_mul_overflow(bytes, f->shape[i], &bytes);
	if (!fits || bytes > INT64_MAX / 2)
		return err_set(e, EINVAL, "tensor %s is larger than any file", f->name);
	f->numbers = bytes / sizeof(float);
	l->cols = f->dims ? f->shape[f->dims - 1] : 1;
	l->rows = l->cols ? f->numbers / l->cols : 0;
	l->covered = l->numbers_used == f->numbers;
	return 0;
}

/* ---- opening ---- */

static int tensors_take_stamps(struct tensors *t, struct err *e)
{
	const struct files *f = package_files(t->sources.package);
	struct stat st;
	int failed = 0;
	t->stamps = calloc((size_t)files_count(f) + 1, sizeof *t->stamps);
	if (!t->stamps)
		return err_set(e, ENOMEM, "out of memory for the list of files");
	for (uint32_t i = 0; i < files_count(f) && !failed; i++) {
		failed = files_stat(f, i, &st, e);
		if (!failed)
			t->stamps[i] = source_stamp_of(&st);
	}
	return failed;
}

int tensors_open(struct tensors **out, const struct tensors_of *of, struct err *e)
{
	struct tensors *t = calloc(1, sizeof *t);
	struct recipe r = of->recipe;
	*out = NULL;
	if (!t)
		return err_set(e, ENOMEM, "out of memory for the list of tensors");
	t->kernels = of->kernels;
	r.codec = CODEC_NONE;
	int failed = sources_open(&t->sources, of->directory, of->config, e);
	if (!failed)
		failed = tensors_take_stamps(t, e);
	if (!failed)
		failed = sources_plan(&t->sources, &t->formats, &r, &t->plan, e);
	if (!failed)
		failed = tensors_list(t, e);
	if (!failed)
		failed = tensors_add_uses(t, e);
	for (size_t i = 0; i < t->count && !failed; i++)
		failed = tensor_measure(&t->list[i], e);
	if (failed)
		tensors_close(t);
	else
		*out = t;
	return failed;
}

void tensors_close(struct tensors *t)
{
	if (!t)
		return;
	free(t->stamps);
	free(t->uses);
	free(t->list);
	plan_free(&t->plan);
	sources_free_published(&t->formats);
	sources_close(&t->sources);
	free(t);
}

/* ---- rows of a role in the store's format ---- */

/* Reading some rows of a tensor, the batch, into out[rows][cols of the tensor]. */
struct tensor_batch {
	const struct tensors *list;
	const struct tensor_entry *tensor;
	const struct tensors_store *store; /* NULL: rows are converted from the source */
	struct encoder *encoder;	   /* for converting; created for the first rows */
	uint64_t row;
	uint32_t rows;
	float *out;
};

struct tensor_rows {
	struct tensor_id id;
	struct source from;
	struct shape shape; /* of the whole matrix, as stored */
	uint8_t *stored;    /* `rows` rows, piece after piece; room for `room` rows */
	uint32_t room, rows;
};

static int tensor_no_memory(const struct tensor_batch *r, struct err *e)
{
	return err_set(e, ENOMEM, "out of memory for rows of tensor %s", r->tensor->facts.name);
}

static const struct plan_tensor *tensor_in_plan(const struct plan *p, struct tensor_id id)
{
	const struct plan_tensor *t = p->dense;
	while (t->id.role != id.role || t->id.layer != id.layer)
		t++; /* cannot end: every use is in the plan */
	return t;
}

static bool tensor_is_experts(struct tensor_id id)
{
	return tensor_roles[id.role].place == PLACE_EXPERT;
}

static struct shape tensor_some_rows(const struct shape *s, uint32_t rows)
{
	struct shape some = *s;
	some.rows = rows;
	return some;
}

/* Finds a role's rows. The caller frees u->stored. */
static int tensor_rows_find(struct tensor_rows *u, const struct tensor_batch *r,
			    struct tensor_id id, struct err *e)
{
	const struct plan *p = r->store ? r->store->plan : &r->list->plan;
	*u = (struct tensor_rows){.id = id};
	u->shape = tensor_is_experts(id)
			   ? p->record[p->routed_of[id.layer]].part[id.role - TENSOR_EXPERT_GATE]
			   : tensor_in_plan(p, id)->shape;
	return sources_find(&r->list->sources, id, &u->from, e);
}

/* Makes room for `room` rows, or for all if there are fewer. */
static int tensor_rows_room(struct tensor_rows *u, const struct tensor_batch *r, size_t room,
			    struct err *e)
{
	u->room = u->shape.rows < room ? u->shape.rows : (uint32_t)room;
	struct shape some = tensor_some_rows(&u->shape, u->room);
	if (format_is_tq(some.format))
		some.norms = NORM_F32; /* tensor_rows_encode may have to */
	u->stored = malloc(plan_stored_bytes(&some));
	return u->stored ? 0 : tensor_no_memory(r, e);
}

/* Reads a piece of rows of a dense matrix from the store, chunk by chunk. */
static int tensor_read_dense(const struct tensors_store *from, struct tensor_id id, uint32_t piece,
			     size_t row_bytes, uint32_t row, uint32_t rows, uint8_t *out,
			     struct err *e)
{
	const struct plan_tensor *t = tensor_in_plan(from->plan, id);
	while (rows > 0) {
		uint32_t chunk = row / t->chunk_rows, within = row % t->chunk_rows;
		uint32_t left = plan_chunk_rows(t, chunk) - within, n = left < rows ? left : rows;
		const struct store_range unit =
			store_dense_unit(from->store, t->first_unit + piece * t->chunks + chunk);
		int failed = store_read_dense_bytes(from->store, unit.offset + within * row_bytes,
						    out, n * row_bytes, e);
		if (failed)
			return failed;
		out += n * row_bytes;
		row += n;
		rows -= n;
	}
	return 0;
}

static int tensor_rows_from_store(struct tensor_rows *u, const struct tensors_store *from,
				  uint32_t row, struct err *e)
{
	const struct plan *p = from->plan;
	const struct shape one = tensor_some_rows(&u->shape, 1);
	uint64_t before = 0; /* bytes of the matrix before the piece */
	uint8_t *out = u->stored;
	int failed = 0;
	for (uint32_t i = 0; i < PLAN_PIECES && !failed; i++) {
		size_t bytes = plan_piece_bytes(&one, i);
		if (!bytes)
			continue;
		if (tensor_is_experts(u->id)) {
			uint32_t routed = p->routed_of[u->id.layer];
			uint64_t part =
				p->record[routed].part_offset[u->id.role - TENSOR_EXPERT_GATE];
			failed = store_read_expert(from->store, routed, u->id.expert,
						   part + before + row * bytes, out,
						   u->rows * bytes, e);
		} else {
			failed = tensor_read_dense(from, u->id, i, bytes, row, u->rows, out, e);
		}
		before += plan_piece_bytes(&u->shape, i);
		out += u->rows * bytes;
	}
	return failed;
}

static int tensor_rows_encode(struct tensor_rows *u, struct tensor_batch *r, uint32_t row,
			      struct err *e)
{
	const struct tensors *t = r->list;
	int failed =
		r->encoder ? 0 : encoder_create(&r->encoder, &t->plan, &t->sources, t->kernels, e);
	if (failed)
		return failed;
	struct shape some = tensor_some_rows(&u->shape, u->rows);
	failed = encoder_rows(r->encoder, &some, &u->from, row, u->stored, e);
	if (failed != -ERANGE || some.norms != NORM_F16)
		return failed;
	u->shape.norms = some.norms = NORM_F32; /* the store's norms will be F32, too */
	return encoder_rows(r->encoder, &some, &u->from, row, u->stored, e);
}

/* Reads rows [row, row + rows), at most u->room. */
static int tensor_rows_read(struct tensor_rows *u, struct tensor_batch *r, uint32_t row,
			    uint32_t rows, struct err *e)
{
	u->rows = rows;
	return r->store ? tensor_rows_from_store(u, r->store, row, e)
			: tensor_rows_encode(u, r, row, e);
}

/* How many columns are encoded together, independently of others; 0: the whole row. */
static uint32_t tensor_group(const struct shape *s)
{
	return format_is_tq(s->format) ? TQ_GROUP : format_is_float(s->format) ? 1 : 0;
}

/* For transposed rows that are converted from the source: limits them to columns [*first, *first +
 * n) and columns in the same groups, so that fewer of the tensor's rows are read. *first becomes
 * the index of the first column among these. */
static void tensor_rows_narrow(struct tensor_rows *u, uint32_t *first, uint32_t n)
{
	uint32_t group = tensor_group(&u->shape), cols = u->from.cols;
	if (!group)
		return;
	uint32_t begin = *first / group * group, end = *first + n;
	end += (group - end % group) % group;
	end = end < cols ? end : cols;
	u->from.view.part[0].first += begin;
	u->from.row_bytes = u->from.row_bytes / cols * (end - begin);
	u->from.cols = u->shape.cols = end - begin;
	*first -= begin;
}

/* Decodes numbers [first, first + cols) of row number `row` of the rows that were read, and perhaps
 * some numbers before and after. out[] needs room for a whole row and TQ_GROUP numbers. Returns how
 * many numbers come before.
 */
static uint32_t tensor_rows_decode(const struct tensor_rows *u, uint32_t row, uint32_t first,
				   uint32_t cols, float *out)
{
	const struct shape all = tensor_some_rows(&u->shape, u->rows);
	struct shape one = tensor_some_rows(&u->shape, 1);
	const uint8_t *at[PLAN_PIECES], *base = u->stored;
	for (uint32_t i = 0; i < PLAN_PIECES; i++) {
		at[i] = base + row * plan_piece_bytes(&one, i);
		base += plan_piece_bytes(&all, i);
	}
	uint32_t before = first, group = tensor_group(&one);
	if (group) { /* groups can be decoded independently */
		struct shape skipped = {.format = one.format, .norms = one.norms, .rows = 1};
		skipped.cols = first / group * group;
		at[0] += plan_piece_bytes(&skipped, 0);
		at[1] += plan_piece_bytes(&skipped, 1);
		before = first % group;
		one.cols = before + cols;
	}
	format_dequantise_row(out, &one, &(struct pieces){at[0], at[1], at[2]});
	return before;
}

/* ---- published numbers ---- */

/* Converts n numbers, stored in the last `bytes` bytes of out[n], to floats in out[n]. */
static void tensor_widen(float *out, size_t n, enum format from, const void *bytes)
{
	format_dequantise_row(out, &(struct shape){.format = from, .rows = 1, .cols = (uint32_t)n},
			      &(struct pieces){.weights = bytes});
}

/* Where to put n numbers of 16 or 32 bits so that they end at the end of out[n]. */
static void *tensor_end(float *out, size_t n, enum format f)
{
	return (uint8_t *)out + n * (f == FORMAT_F32 ? 0 : 2);
}

/* Reads numbers of a tensor of floats, contiguously across rows. */
static int tensor_read_floats(const struct tensor_batch *r, uint64_t first, size_t count,
			      float *out, struct err *e)
{
	const struct package_tensor *t = r->tensor->published;
	const struct package_part *p = &t->part[0];
	int failed = 0;
	for (size_t n; count > 0 && !failed; first += n, out += n, count -= n) {
		n = count < BATCH_NUMBERS ? count : BATCH_NUMBERS;
		size_t width = t->format == FORMAT_F32 ? 4 : 2;
		void *bytes = tensor_end(out, n, t->format);
		failed = files_read(package_files(r->list->sources.package), p->file,
				    p->offset + first * width, bytes, n * width, e);
		if (!failed)
			tensor_widen(out, n, t->format, bytes);
	}
	return failed;
}

/* Reads the batch, matrix by matrix: rows of different matrices may share no scales. */
static int tensor_read_published(const struct tensor_batch *r, struct err *e)
{
	const struct tensor_entry *l = r->tensor;
	uint64_t height = l->facts.dims > 1 ? l->facts.shape[l->facts.dims - 2] : 1;
	enum format format = package_read_format(l->published);
	int failed = 0;
	for (uint32_t i = 0, n; i < r->rows && !failed; i += n) {
		uint64_t left = height - (r->row + i) % height;
		n = left < r->rows - i ? (uint32_t)left : r->rows - i;
		size_t numbers = n * l->cols;
		float *out = r->out + i * l->cols;
		void *bytes = tensor_end(out, numbers, format);
		failed = package_read(r->list->sources.package, l->published, r->row + i, n,
				      (uint32_t)l->cols, bytes, e);
		if (!failed)
			tensor_widen(out, numbers, format, bytes);
	}
	return failed;
}

/* ---- putting a role's numbers into the tensor's order ---- */

/* How many rows of the batch from i on are consecutive rows of the role; *row is the first one. */
static uint32_t tensor_run(const struct tensor_batch *r, const struct view *v, uint32_t i,
			   uint64_t *row)
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

static int tensor_put_along(struct tensor_batch *r, struct tensor_rows *u, struct err *e)
{
	uint64_t cols = r->tensor->cols, row = 0;
	const enum view_change change = u->from.view.change;
	int failed = tensor_rows_room(u, r, r->rows, e);
	for (uint32_t i = 0, n; i < r->rows && !failed; i += n ? n : 1) {
		n = tensor_run(r, &u->from.view, i, &row);
		n = n < u->room ? n : u->room;
		if (n)
			failed = tensor_rows_read(u, r, (uint32_t)row, n, e);
		for (uint32_t k = 0; k < n && !failed; k++) {
			float *out = r->out + (i + k) * cols;
			(void)tensor_rows_decode(u, k, 0, u->shape.cols, out);
			/* Applies the source's change of the published numbers again. */
			for (size_t x = 0; change != VIEW_AS_IS && x < u->shape.cols; x++)
				out[x] = change == VIEW_PLUS_ONE ? out[x] + 1 : -expf(out[x]);
		}
	}
	return failed;
}

/* For one block of the role's rows: puts numbers [first, first + n) of each into the batch, from
 * its row `to` on. row[]: buffer for tensor_rows_decode. */
static int tensor_put_block(struct tensor_batch *r, const struct tensor_rows *of, uint32_t block,
			    uint32_t first, uint32_t n, uint32_t to, float *row, struct err *e)
{
	struct tensor_rows u = *of; /* shares the buffer */
	const struct view *v = &u.from.view;
	uint32_t height = (uint32_t)v->part[0].block;
	if (!r->store)
		tensor_rows_narrow(&u, &first, n);
	for (uint32_t i = 0, rows; i < height; i += rows) {
		rows = height - i < u.room ? height - i : u.room;
		int failed = tensor_rows_read(&u, r, block * height + i, rows, e);
		if (failed)
			return failed;
		for (uint32_t k = 0; k < rows; k++) {
			const float *from = row + tensor_rows_decode(&u, k, first, n, row);
			float *out = r->out + to * r->tensor->cols + v->column + (i + k) * v->step;
			for (uint32_t x = 0; x < n; x++)
				out[x * r->tensor->cols] = from[x];
		}
	}
	return 0;
}

static int tensor_put_across(struct tensor_batch *r, struct tensor_rows *u, struct err *e)
{
	const struct view_part *p = &u->from.view.part[0];
	uint64_t end = r->row + r->rows;
	int failed = tensor_rows_room(u, r, ACROSS_NUMBERS / u->shape.cols + 1, e);
	float *row = malloc((u->shape.cols + TQ_GROUP) * sizeof *row);
	if (!failed && !row)
		failed = tensor_no_memory(r, e);
	for (uint32_t block = 0; block < p->rows / p->block && !failed; block++) {
		uint64_t begins = p->first + block * p->stride, ends = begins + u->shape.cols;
		uint64_t first = begins > r->row ? begins : r->row, last = ends < end ? ends : end;
		if (first < last)
			failed = tensor_put_block(r, u, block, (uint32_t)(first - begins),
						  (uint32_t)(last - first),
						  (uint32_t)(first - r->row), row, e);
	}
	free(row);
	return failed;
}

/* ---- reading ---- */

static int tensor_read_batch(struct tensor_batch *r, struct err *e)
{
	const struct tensor_entry *l = r->tensor;
	int failed = l->covered ? 0 : tensor_read_published(r, e);
	for (size_t i = l->use; i < l->use + l->uses && !failed; i++) {
		const struct tensor_use *use = &r->list->uses[i];
		struct tensor_rows u;
		if (use->first >= r->row + r->rows || use->end <= r->row)
			continue;
		failed = tensor_rows_find(&u, r, use->id, e);
		if (failed)
			return failed;
		const struct view *v = &u.from.view;
		if (v->way == VIEW_ACROSS)
			failed = tensor_put_across(r, &u, e);
		else if (v->way == VIEW_ALONG && !v->upright)
			failed = tensor_put_along(r, &u, e);
		else /* cannot happen: biases and convolutions are F32, as published */
			failed = err_set(e, ENOTSUP,
					 "internal error: the stored rows of tensor %s cannot be "
					 "put back into its order",
					 l->facts.name);
		free(u.stored);
	}
	return failed;
}

/* Reads whole rows and copies the wanted numbers, which may begin and end within a row. */
static int tensor_read_rows(struct tensor_batch *r, uint64_t first, size_t count, float *out,
			    struct err *e)
{
	uint64_t cols = r->tensor->cols;
	if (cols > ROW_MOST)
		return err_set(e, ENOTSUP, "tensor %s has rows of %llu numbers in codes",
			       r->tensor->facts.name, (unsigned long long)cols);
	uint64_t most = cols < BATCH_NUMBERS ? BATCH_NUMBERS / cols : 1;
	uint64_t wanted = (first + count - 1) / cols - first / cols + 1;
	float *batch = malloc((wanted < most ? wanted : most) * cols * sizeof *batch);
	int failed = batch ? 0 : tensor_no_memory(r, e);
	r->out = batch;
	while (count > 0 && !failed) {
		uint64_t left = (first + count - 1) / cols - first / cols + 1, in = first % cols;
		r->row = first / cols;
		r->rows = (uint32_t)(left < most ? left : most);
		size_t n = r->rows * cols - in;
		n = n < count ? n : count;
		failed = tensor_read_batch(r, e);
		if (!failed)
			memcpy(out, batch + in, n * sizeof *out);
		first += n;
		out += n;
		count -= n;
	}
	free(batch);
	return failed;
}

/* -ESTALE if the tensor's files were changed since they were opened: numbers of other files are not
 * those of the model. */
static int tensor_check_source(const struct tensors *t, const struct package_tensor *of,
			       struct err *e)
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
				       "%s: was changed since its tensors were listed; unmount it "
				       "and mount it again",
				       files_path(f, file));
	}
	return 0;
}

int tensors_read(const struct tensors *t, size_t i, const struct tensors_store *store,
		 uint64_t first, size_t count, float *out, struct err *e)
{
	const struct tensor_entry *l = &t->list[i];
	struct tensor_batch r = {.list = t, .tensor = l, .store = store};
	int failed;
	if (!count)
		return 0;
	if (!l->uses && format_is_float(l->published->format))
		failed = tensor_read_floats(&r, first, count, out, e);
	else
		failed = tensor_read_rows(&r, first, count, out, e);
	encoder_free(r.encoder);
	bool all_stored = store && l->covered;
	return failed || all_stored ? failed : tensor_check_source(t, l->published, e);
}

#include "engine/convert/role_rows.h"

#include <errno.h>
#include <stdlib.h>

static const struct plan_tensor *dense_tensor(const struct plan *p, struct tensor_id id)
{
	const struct plan_tensor *t = p->dense;
	while (t->id.role != id.role || t->id.layer != id.layer)
		t++; /* it is there: the uses are the plan's */
	return t;
}

static bool is_expert(struct tensor_id id)
{
	return tensor_roles[id.role].place == PLACE_EXPERT;
}

static struct shape shape_in(const struct plan *p, struct tensor_id id)
{
	if (is_expert(id))
		return p->record[p->routed_of[id.layer]].part[id.role - TENSOR_EXPERT_GATE];
	return dense_tensor(p, id)->shape;
}

static struct shape rows_of(const struct shape *s, uint32_t rows)
{
	struct shape some = *s;
	some.rows = rows;
	return some;
}

static size_t stored_bytes(const struct shape *s)
{
	return plan_piece_bytes(s, 0) + plan_piece_bytes(s, 1) + plan_piece_bytes(s, 2);
}

/* A piece of rows [row, row + rows) of an expert's matrix, which has `before` bytes in front. */
static int read_expert(const struct tensors_store *from, struct tensor_id id, uint64_t before,
		       size_t row_bytes, uint32_t row, uint32_t rows, void *out, struct err *e)
{
	uint32_t routed = from->plan->routed_of[id.layer];
	const struct plan_record *r = &from->plan->record[routed];
	uint64_t at = r->part_offset[id.role - TENSOR_EXPERT_GATE] + before + row * row_bytes;
	return store_read_expert(from->store, routed, id.expert, at, out, rows * row_bytes, e);
}

/* The same of a dense one, chunk by chunk. */
static int read_dense(const struct tensors_store *from, struct tensor_id id, uint32_t piece,
		      size_t row_bytes, uint32_t row, uint32_t rows, uint8_t *out, struct err *e)
{
	const struct plan_tensor *t = dense_tensor(from->plan, id);
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

static int from_store(const struct role_reader *r, struct tensor_id id, const struct shape *s,
		      uint32_t row, uint32_t rows, uint8_t *out, struct err *e)
{
	const struct shape one = rows_of(s, 1);
	uint64_t before = 0;
	int failed = 0;
	for (uint32_t i = 0; i < PLAN_PIECES && !failed; i++) {
		size_t bytes = plan_piece_bytes(&one, i);
		if (!bytes)
			continue;
		failed = is_expert(id) ? read_expert(r->store, id, before, bytes, row, rows, out, e)
				       : read_dense(r->store, id, i, bytes, row, rows, out, e);
		before += plan_piece_bytes(s, i);
		out += rows * bytes;
	}
	return failed;
}

/* As a store would have them. */
static int from_source(struct role_reader *r, const struct source *from, struct shape *s,
		       uint32_t row, uint32_t rows, uint8_t *out, struct err *e)
{
	if (!r->encoder) {
		int failed = encoder_create(&r->encoder, r->plan, r->sources, r->kernels, e);
		if (failed)
			return failed;
	}
	struct shape some = rows_of(s, rows);
	int failed = encode_rows(r->encoder, &some, from, row, out, e);
	if (failed != -ERANGE || some.norms != NORM_F16)
		return failed;
	s->norms = some.norms = NORM_F32; /* as the store will be, then */
	return encode_rows(r->encoder, &some, from, row, out, e);
}

/* ---- rows of a role ---- */

int role_rows_make(struct role_rows *u, const struct role_reader *r, struct tensor_id id,
		   struct err *e)
{
	*u = (struct role_rows){.id = id};
	u->shape = shape_in(r->store ? r->store->plan : r->plan, id);
	return sources_find(r->sources, id, &u->from, e);
}

int role_rows_room(struct role_rows *u, size_t room, struct err *e)
{
	struct shape some = u->shape;
	u->room = some.rows < room ? some.rows : (uint32_t)room;
	some.rows = u->room;
	if (format_is_tq(some.format))
		some.norms = NORM_F32; /* which it may come to */
	u->stored = malloc(stored_bytes(&some));
	return u->stored ? 0
			 : err_set(e, ENOMEM, "out of memory for rows of tensor %s",
				   u->from.tensor->name);
}

void role_rows_free(struct role_rows *u)
{
	free(u->stored);
}

int role_rows_read(struct role_rows *u, struct role_reader *r, uint32_t row, uint32_t rows,
		   struct err *e)
{
	u->rows = rows;
	if (r->store)
		return from_store(r, u->id, &u->shape, row, rows, u->stored, e);
	return from_source(r, &u->from, &u->shape, row, rows, u->stored, e);
}

/* Columns that are coded together, and apart from others; 0: all of a row. */
static uint32_t group_of(const struct shape *s)
{
	if (format_is_tq(s->format))
		return TQ_GROUP;
	return format_is_float(s->format) ? 1 : 0;
}

void role_rows_narrow(struct role_rows *u, uint32_t *first, uint32_t n)
{
	uint32_t group = group_of(&u->shape), cols = u->from.cols;
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

uint32_t role_rows_decode(const struct role_rows *u, uint32_t row, uint32_t first, uint32_t cols,
			  float *out)
{
	const struct shape all = rows_of(&u->shape, u->rows);
	struct shape one = rows_of(&u->shape, 1);
	const uint8_t *at[PLAN_PIECES], *base = u->stored;
	for (uint32_t i = 0; i < PLAN_PIECES; i++) {
		at[i] = base + row * plan_piece_bytes(&one, i);
		base += plan_piece_bytes(&all, i);
	}
	uint32_t before = first, group = group_of(&one);
	if (group) { /* whole groups are rows of their own */
		const struct shape skipped = {.format = one.format,
					      .norms = one.norms,
					      .rows = 1,
					      .cols = first / group * group};
		at[0] += plan_piece_bytes(&skipped, 0);
		at[1] += plan_piece_bytes(&skipped, 1);
		before = first % group;
	}
	one.cols = before + cols;
	if (!group)
		one.cols = u->shape.cols;
	format_dequantise_row(out, &one, &(struct pieces){at[0], at[1], at[2]});
	return before;
}

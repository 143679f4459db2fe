#include "engine/convert/encoder.h"
#include "engine/convert/moments.h"
#include "engine/convert/rounding.h"
#include "kernels/block.h"
#include "kernels/watch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* If a norm is outside the range where F16 has full precision, the store uses F32 norms. */
static const float f16_norm_least = 6.2e-5f, f16_norm_most = 6e4f;

enum {
	PIECE_BYTES = 1 << 20, /* of source rows read at a time, except for VIEW_ACROSS */
	GROUPS_TOGETHER = 64,  /* groups that the widest vectors encode at a time (kernels/tc.h) */
	LONG_VECTORS = 16,
};

struct encoder {
	const struct plan *plan;
	const struct sources *sources;
	const struct kernels *kernels;
	uint8_t *source; /* `piece` bytes of rows, as in the checkpoint */
	size_t piece;
	float *row; /* a row, or several rows that are encoded together */
	float *row_norms;

	const struct moments *moments; /* NULL: unknown */
	const struct moments *held;    /* held-back moments for judging rows; NULL: judge none */
	const _Atomic bool *stop;      /* stops rounding by moments */
	/* For the last two different inputs: an expert's gate and up share one, its down has
	 * another. */
	struct encoder_weighing {
		struct rounding *rounding;
		float *held; /* [held_cols][held_cols]: of the first block; NULL: unknown */
		uint32_t held_cols;
		uint64_t same; /* 1 + moments_block's number of the input; 0: none */
		enum format format;
	} weighing[2];
	uint32_t next_weighing;
	struct encoder_weighing *now; /* of the current tensor */
	struct rounding *rounding;    /* of the current tensor; NULL: round to nearest */
	uint32_t calls;		      /* calls that rounded rows */
	struct encoder_verdict verdict;
};

/* ---- life ---- */

static size_t encoder_larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* How many rows are encoded together. For a trellis, vectors have groups as lanes, so rows are
 * combined to fill vectors, unless rows are so long that the remainder does not matter. */
static uint32_t encoder_rows_together(const struct shape *s)
{
	size_t groups = tq_groups(s->cols);
	uint32_t rows = 1;
	if (!format_is_trellis(s->format) || s->cols % TQ_GROUP != 0 ||
	    groups > LONG_VECTORS * GROUPS_TOGETHER)
		return 1;
	while (rows * groups % GROUPS_TOGETHER)
		rows *= 2;
	return rows;
}

/* The numbers of rows that are encoded together, padded to groups. */
static size_t encoder_floats(const struct shape *s)
{
	size_t rows = encoder_larger(encoder_rows_together(s), ROUNDING_ROWS);
	return rows * tq_groups(s->cols) * TQ_GROUP;
}

static size_t encoder_most_floats(const struct plan *p)
{
	size_t most = 0;
	for (uint32_t i = 0; i < p->dense_count; i++)
		most = encoder_larger(most, encoder_floats(&p->dense[i].shape));
	for (uint32_t i = 0; i < p->routed_layers; i++)
		for (uint32_t part = p->first_part; part < EXPERT_PARTS; part++)
			most = encoder_larger(most, encoder_floats(&p->record[i].part[part]));
	return most;
}

/* Whether the checkpoint's experts are VIEW_ACROSS. All experts have the same layout, so the first
 * part of the first expert decides. */
static bool encoder_reads_across(const struct plan *p, const struct sources *s)
{
	struct source from;
	if (!p->routed_layers)
		return false;
	return !sources_find(s, plan_part_id(p, 0, p->first_part), &from, NULL) &&
	       from.view.way == VIEW_ACROSS;
}

int encoder_create(struct encoder **out, const struct plan *p, const struct sources *s,
		   const struct kernels *k, struct err *e)
{
	size_t floats = encoder_most_floats(p);
	struct encoder *x = calloc(1, sizeof *x);
	*out = x;
	if (x) {
		*x = (struct encoder){.plan = p, .sources = s, .kernels = k};
		x->piece = encoder_reads_across(p, s) ? SOURCES_ACROSS_BYTES : PIECE_BYTES;
		x->source = malloc(encoder_larger(x->piece, floats * sizeof *x->row));
		x->row = malloc(floats * sizeof *x->row);
		x->row_norms = malloc((floats / TQ_GROUP + 1) * sizeof *x->row_norms);
		if (x->source && x->row && x->row_norms)
			return 0;
	}
	encoder_free(x);
	*out = NULL;
	return err_set(e, ENOMEM, "out of memory for converting the checkpoint");
}

void encoder_free(struct encoder *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < 2; i++) {
		rounding_free(x->weighing[i].rounding);
		free(x->weighing[i].held);
	}
	free(x->source);
	free(x->row);
	free(x->row_norms);
	free(x);
}

/* ---- rounding by moments ---- */

void encoder_know(struct encoder *x, const struct moments *m, const struct moments *held,
		  const _Atomic bool *stop)
{
	x->moments = m;
	x->held = held;
	x->stop = stop;
}

static int encoder_stopped(struct err *e)
{
	return err_set(e, ECANCELED, "the conversion was stopped");
}

/* Makes w->held for a tensor's inputs. NULL: nothing is known, or out of memory; then these rows
 * are not judged. */
static void encoder_weigh_held(const struct encoder *x, struct encoder_weighing *w,
			       struct tensor_id id, const struct shape *s, uint32_t block)
{
	free(w->held);
	w->held = NULL;
	w->held_cols = s->cols < block ? s->cols : block;
	if (x->held)
		w->held = malloc((size_t)w->held_cols * w->held_cols * sizeof *w->held);
	if (!w->held || moments_weigh(x->held, id, 0, w->held_cols, w->held))
		return;
	free(w->held);
	w->held = NULL;
}

/* Makes w->rounding for a tensor's inputs; NULL: nothing is known. */
static int encoder_weigh(const struct encoder *x, struct encoder_weighing *w, struct tensor_id id,
			 const struct shape *s, uint32_t block, struct err *e)
{
	rounding_free(w->rounding);
	w->rounding = NULL;
	float *h = malloc((size_t)block * block * sizeof *h);
	int failed = h ? rounding_create(&w->rounding, x->kernels, s->format, s->cols, block, e)
		       : err_set(e, ENOMEM, "out of memory for rounding %u columns", block);
	if (!failed)
		rounding_heed(w->rounding, x->stop);
	bool known = !failed;
	for (uint32_t at = 0; at < s->cols && known && !failed; at += block) {
		known = moments_weigh(x->moments, id, at,
				      s->cols - at < block ? s->cols - at : block, h);
		if (known && !rounding_weigh(w->rounding, at, h))
			failed = encoder_stopped(e);
	}
	free(h);
	if (!known) { /* no token used this matrix: round to nearest */
		rounding_free(w->rounding);
		w->rounding = NULL;
	}
	return failed;
}

/* Sets x->rounding for the rows of a tensor. */
static int encoder_begin_tensor(struct encoder *x, struct tensor_id id, const struct shape *s,
				struct err *e)
{
	uint64_t same;
	x->rounding = NULL;
	uint32_t block =
		x->moments && format_tq_bits(s->format) ? moments_block(x->moments, id, &same) : 0;
	if (!block)
		return 0;
	for (size_t i = 0; i < 2; i++)
		if (x->weighing[i].same == same + 1 && x->weighing[i].format == s->format) {
			x->now = &x->weighing[i];
			x->rounding = x->now->rounding;
			return 0;
		}
	struct encoder_weighing *w = &x->weighing[x->next_weighing++ % 2];
	int failed = encoder_weigh(x, w, id, s, block, e);
	if (!failed)
		encoder_weigh_held(x, w, id, s, block);
	w->same = failed ? 0 : same + 1;
	w->format = s->format;
	x->now = w;
	x->rounding = w->rounding;
	return failed;
}

/* ---- judging ---- */

/* Decodes codes and norms of the first row of x->row into q. */
static void encoder_read_back(const struct shape *s, const uint8_t *packed, const float *norms,
			      float *q)
{
	const struct shape row = {
		.format = s->format, .rows = 1, .cols = s->cols, .norms = NORM_F32};
	format_dequantise_row(q, &row,
			      &(struct pieces){packed, (const uint8_t *)(const void *)norms, NULL});
}

/* Returns error[cols]' H error[cols]; overwrites with_h[cols]. */
static double encoder_error(const struct encoder *x, const float *error, float *with_h)
{
	const struct encoder_weighing *w = x->now;
	const struct add_products p = {.a = error,
				       .a_step = 1,
				       .b = w->held,
				       .ldb = w->held_cols,
				       .rows = 1,
				       .cols = w->held_cols,
				       .n = w->held_cols};
	double sum = 0;
	memset(with_h, 0, w->held_cols * sizeof *with_h);
	x->kernels->add_products(with_h, w->held_cols, &p);
	for (uint32_t i = 0; i < w->held_cols; i++)
		sum += (double)error[i] * with_h[i];
	return sum;
}

/* Judges, in some calls, the first of the rows that were just rounded. */
static void encoder_judge_row(struct encoder *x, const struct shape *s, const uint8_t *packed)
{
	enum { EVERY = 4 };
	size_t groups = tq_groups(s->cols);
	if (!x->now->held || x->calls++ % EVERY)
		return;
	uint32_t bits = format_tq_bits(s->format);
	float *numbers = malloc((2 * s->cols + groups) * sizeof *numbers);
	uint8_t *nearest = malloc(groups * tq_group_bytes(bits));
	if (numbers && nearest) {
		float *q = numbers, *with_h = q + s->cols, *norms = with_h + s->cols;
		double error[2] = {0};
		for (size_t i = 0; i < 2; i++) {
			bool good = true;
			if (i && format_is_trellis(s->format))
				good = x->kernels->tc_quantise_row(nearest, norms, x->row, s->cols,
								   bits);
			else if (i)
				good = x->kernels->tq_quantise_row(nearest, norms, x->row, s->cols,
								   bits, TQ_GAIN_LEAST_SQUARES);
			encoder_read_back(s, i ? nearest : packed, i ? norms : x->row_norms, q);
			for (uint32_t c = 0; c < s->cols; c++)
				q[c] = x->row[c] - q[c];
			error[i] = good ? encoder_error(x, q, with_h) : 0;
		}
		bool counts = error[0] > 0 && error[1] > 0;
		x->verdict.rows += counts;
		x->verdict.sum += counts ? log(error[0] / error[1]) : 0;
	}
	free(numbers);
	free(nearest);
}

void encoder_judge(const struct encoder *x, struct encoder_verdict *v)
{
	v->rows += x->verdict.rows;
	v->sum += x->verdict.sum;
}

/* ---- one row, or several together ---- */

static int encoder_not_a_number(const struct source *source, struct err *e)
{
	return err_set(e, EINVAL, "tensor %s holds a NaN or an infinity; the checkpoint is damaged",
		       source->tensor->name);
}

static int encoder_store_norms(const struct encoder *x, const struct shape *s, const char *name,
			       uint8_t *norms, struct err *e)
{
	size_t groups = s->rows * tq_groups(s->cols);
	if (s->norms == NORM_F32) {
		memcpy(norms, x->row_norms, groups * sizeof *x->row_norms);
		return 0;
	}
	for (size_t g = 0; g < groups; g++) {
		float norm = x->row_norms[g];
		uint16_t half = f16_from_f32(norm);
		if (norm != 0 && (norm < f16_norm_least || norm > f16_norm_most))
			return err_set(e, ERANGE,
				       "tensor %s has numbers that 16-bit norms cannot hold; the "
				       "checkpoint is converted again with 32-bit norms; "
				       "send the prompt again",
				       name);
		memcpy(norms + g * sizeof half, &half, sizeof half);
	}
	return 0;
}

/* Quantises x->row into codes of rotated groups. False: a NaN, an infinity or a number above 1e18;
 * or stopped. */
static bool encoder_quantise(struct encoder *x, const struct shape *s, uint8_t *packed)
{
	uint32_t bits = format_tq_bits(s->format);
	if (x->rounding) {
		watch_row(packed, x->row_norms, x->row, s->rows * s->cols, bits);
		if (!rounding_rows(x->rounding, packed, x->row_norms, x->row, s->rows,
				   s->norms == NORM_F16))
			return false;
		encoder_judge_row(x, s, packed);
		return true;
	}
	if (format_is_trellis(s->format))
		return watch_tc_quantise_row(x->kernels, packed, x->row_norms, x->row,
					     s->rows * s->cols, bits);
	return watch_tq_quantise_row(x->kernels, packed, x->row_norms, x->row, s->cols, bits,
				     TQ_GAIN_LEAST_SQUARES);
}

static int encoder_quantise_blocks(const struct encoder *x, const struct shape *s, const char *name,
				   uint8_t *packed, struct err *e)
{
	if (block_quantise(s->format, packed, x->row, s->cols))
		return 0;
	if (recipe_can_pad(&x->plan->recipe))
		return err_set(e, ERANGE,
			       "tensor %s has numbers that the 16-bit scales of blocks cannot hold; "
			       "the checkpoint is converted again without blocks; send the prompt "
			       "again",
			       name);
	return err_set(e, EINVAL, "tensor %s holds numbers above 1e6; the checkpoint is damaged",
		       name);
}

/* Encodes s->rows rows: 1, or more as given by encoder_rows_together or rounding. */
static int encoder_encode(struct encoder *x, const struct shape *s, const struct source *source,
			  const uint8_t *row, uint8_t *packed, uint8_t *norms, struct err *e)
{
	const char *name = source->tensor->name;
	if (x->rounding && atomic_load(x->stop))
		return encoder_stopped(e);
	const struct shape from = {.format = source->format, .rows = 1, .cols = s->cols};
	const struct shape numbers = {.format = FORMAT_F32, .rows = s->rows, .cols = s->cols};
	for (uint32_t r = 0; r < s->rows; r++)
		format_dequantise_row(x->row + (size_t)r * s->cols, &from,
				      &(struct pieces){.weights = row + r * source->row_bytes});
	const struct pieces floats = {.weights = (const uint8_t *)x->row};
	/* For rows that are rounded to nearest, the norms reveal a NaN or an infinity. */
	bool shows = format_tq_bits(s->format) && s->format != source->format && !x->rounding;
	if (!shows && !format_is_finite(&numbers, &floats))
		return encoder_not_a_number(source, e);
	if (s->format == source->format) {
		memcpy(packed, row, source->row_bytes);
		return 0;
	}
	if (s->format == FORMAT_F32) {
		memcpy(packed, x->row, s->cols * sizeof *x->row);
		return 0;
	}
	if (s->format == FORMAT_BF16) {
		for (size_t i = 0; i < s->cols; i++) {
			uint16_t half = bf16_from_f32(x->row[i]);
			memcpy(packed + i * sizeof half, &half, sizeof half);
		}
		return 0;
	}
	if (block_can_quantise(s->format))
		return encoder_quantise_blocks(x, s, name, packed, e);
	if (encoder_quantise(x, s, packed))
		return encoder_store_norms(x, s, name, norms, e);
	if (x->rounding && atomic_load(x->stop))
		return encoder_stopped(e);
	if (!format_is_finite(&numbers, &floats))
		return encoder_not_a_number(source, e);
	return err_set(e, EINVAL, "tensor %s holds numbers above 1e18; the checkpoint is damaged",
		       name);
}

/* ---- rows ---- */

bool encoder_copies(const struct shape *s, const struct source *source)
{
	const struct package_tensor *t = source->tensor;
	bool scales = plan_piece_bytes(s, 1) > 0; /* formats of floats have no norms */
	return source->view.way == VIEW_ALONG && s->format == t->format &&
	       s->format != source->format &&
	       (!scales || s->format == FORMAT_MXFP4 || s->norms == t->norms) &&
	       (!format_affine_bits(s->format) || s->group == t->group);
}

static int encoder_copy_rows(struct encoder *x, const struct shape *s, const struct source *source,
			     uint32_t row0, uint8_t *out, struct err *e)
{
	uint8_t *piece[PLAN_PIECES];
	int failed = 0;
	for (uint32_t i = 0; i < PLAN_PIECES && !failed; i++) {
		piece[i] = out;
		if (plan_piece_bytes(s, i))
			failed = sources_read_part(x->sources, source, i, row0, s->rows, out, e);
		out += plan_piece_bytes(s, i);
	}
	if (!failed && !format_is_finite(s, &(struct pieces){piece[0], piece[1], piece[2]}))
		failed = encoder_not_a_number(source, e);
	return failed;
}

int encoder_rows(struct encoder *x, const struct shape *s, const struct source *source,
		 uint32_t row0, uint8_t *out, struct err *e)
{
	struct shape one = *s, some = *s;
	one.rows = 1;
	if (encoder_copies(s, source))
		return encoder_copy_rows(x, s, source, row0, out, e);
	uint8_t *packed = out, *norms = out + format_packed_bytes(s);
	size_t source_bytes = source->row_bytes, packed_bytes = format_packed_bytes(&one);
	size_t norm_bytes = format_norm_bytes(&one);
	uint32_t piece = source_bytes < x->piece ? (uint32_t)(x->piece / source_bytes) : 1;
	uint32_t together = x->rounding ? ROUNDING_ROWS : encoder_rows_together(s);
	for (uint32_t r = 0; r < s->rows; r += piece) {
		uint32_t n = s->rows - r < piece ? s->rows - r : piece;
		int failed = sources_read(x->sources, source, row0 + r, n, x->source, e);
		for (uint32_t i = 0; i < n && !failed; i += some.rows) {
			some.rows = n - i < together ? n - i : together;
			failed = encoder_encode(x, &some, source, x->source + i * source_bytes,
						packed + (size_t)(r + i) * packed_bytes,
						norms + (size_t)(r + i) * norm_bytes, e);
		}
		if (failed)
			return failed;
	}
	return 0;
}

/* ---- units ---- */

/* Encodes rows [row0, row0 + s->rows) of a tensor. */
static int encoder_tensor(struct encoder *x, struct tensor_id id, const struct shape *s,
			  uint32_t row0, uint8_t *out, struct err *e)
{
	struct source from;
	int failed = sources_find(x->sources, id, &from, e);
	if (!failed)
		failed = encoder_begin_tensor(x, id, s, e);
	return failed ? failed : encoder_rows(x, s, &from, row0, out, e);
}

int encoder_expert(struct encoder *x, uint32_t routed_layer, uint32_t expert, void *record,
		   struct err *e)
{
	const struct plan *p = x->plan;
	const struct plan_record *r = &p->record[routed_layer];
	int failed = 0;
	for (uint32_t part = p->first_part; part < EXPERT_PARTS && !failed; part++)
		failed = encoder_tensor(
			x, plan_part_id(p, routed_layer * p->experts + expert, part),
			&r->part[part], 0, (uint8_t *)record + r->part_offset[part], e);
	return failed;
}

int encoder_chunk(struct encoder *x, const struct plan_tensor *t, uint32_t number, void *chunk,
		  struct err *e)
{
	const struct shape s = plan_chunk_shape(t, number);
	return encoder_tensor(x, t->id, &s, number * t->chunk_rows, chunk, e);
}

size_t encoder_chunk_bytes(const struct plan *p)
{
	size_t most = 0;
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct shape s = plan_chunk_shape(&p->dense[i], 0); /* the largest chunk */
		most = encoder_larger(most, plan_stored_bytes(&s));
	}
	return most;
}

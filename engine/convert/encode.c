#include "engine/convert/encode.h"
#include "engine/convert/moments.h"
#include "engine/convert/rounding.h"
#include "engine/family/gather.h"
#include "kernels/block.h"
#include "kernels/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Norms outside the range that F16 holds with full precision make a store use F32 norms. */
static const float f16_norm_least = 6.2e-5f, f16_norm_most = 6e4f;

enum {
	PIECE_BYTES = 1 << 20, /* of source rows read at a time, where they lie along rows */
	GROUPS_TOGETHER = 64,  /* that the widest vectors encode at a time (kernels/tc.h) */
	LONG_VECTORS = 16,
};

struct encoder {
	const struct plan *plan;
	const struct sources *sources;
	const struct kernels *kernels;
	uint8_t *source; /* rows as the checkpoint has them, of so many bytes at a time */
	size_t piece;
	float *row; /* or some of them together */
	float *row_norms;

	const struct moments *moments; /* NULL: none are known */
	const _Atomic bool *stop;      /* ends rounding by them */
	/* Of the last inputs of either kind that were met: an expert's gate and up, and its down.
	 */
	struct weighing {
		struct rounding *rounding;
		uint64_t same; /* of which inputs, + 1 */
		enum format format;
	} weighing[2];
	uint32_t next_weighing;
	struct rounding *rounding; /* of the tensor at hand; NULL: to the nearest */
};

/* ---- life ---- */

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Rows that are encoded together: of a trellis, as many as fill vectors whose lanes are groups,
 * unless they are so long that what is left over does not matter. */
static uint32_t rows_together(const struct shape *s)
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

static size_t floats_together(const struct shape *s)
{
	return (size_t)rows_together(s) * s->cols;
}

static size_t most_floats(const struct plan *p)
{
	size_t most = 0;
	for (uint32_t i = 0; i < p->dense_count; i++)
		most = larger(most, floats_together(&p->dense[i].shape));
	for (uint32_t layer = 0; layer < p->routed_layers; layer++)
		for (uint32_t i = 0; i < EXPERT_PARTS; i++)
			most = larger(most, floats_together(&p->record[layer].part[i]));
	return most;
}

/* Experts are published all alike. */
static bool any_across(const struct plan *p, const struct sources *s)
{
	struct source from;
	struct tensor_id id = {TENSOR_EXPERT_GATE, p->layer_of[0], 0};
	return p->routed_layers && !sources_find(s, id, &from, NULL) &&
	       from.view.way == VIEW_ACROSS;
}

int encoder_create(struct encoder **out, const struct plan *p, const struct sources *s,
		   const struct kernels *k, struct err *e)
{
	size_t floats = most_floats(p);
	struct encoder *x = calloc(1, sizeof *x);
	*out = x;
	if (x) {
		*x = (struct encoder){.plan = p, .sources = s, .kernels = k};
		x->piece = any_across(p, s) ? GATHER_BYTES : PIECE_BYTES;
		x->source = malloc(larger(x->piece, floats * sizeof *x->row));
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
	for (size_t i = 0; i < 2; i++)
		rounding_free(x->weighing[i].rounding);
	free(x->source);
	free(x->row);
	free(x->row_norms);
	free(x);
}

/* ---- what is known of inputs ---- */

void encoder_know(struct encoder *x, const struct moments *m, const _Atomic bool *stop)
{
	x->moments = m;
	x->stop = stop;
}

static int stopped(struct err *e)
{
	return err_set(e, ECANCELED, "the conversion was stopped");
}

static int weigh(const struct encoder *x, struct weighing *w, struct tensor_id id,
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
			failed = stopped(e);
	}
	free(h);
	if (!known) { /* no token came here: to the nearest */
		rounding_free(w->rounding);
		w->rounding = NULL;
	}
	return failed;
}

/* How the rows of a tensor are rounded from now on. */
static int take_tensor(struct encoder *x, struct tensor_id id, const struct shape *s, struct err *e)
{
	uint64_t same;
	x->rounding = NULL;
	uint32_t block =
		x->moments && format_tq_bits(s->format) ? moments_block(x->moments, id, &same) : 0;
	if (!block)
		return 0;
	for (size_t i = 0; i < 2; i++)
		if (x->weighing[i].same == same + 1 && x->weighing[i].format == s->format) {
			x->rounding = x->weighing[i].rounding;
			return 0;
		}
	struct weighing *w = &x->weighing[x->next_weighing++ % 2];
	int failed = weigh(x, w, id, s, block, e);
	w->same = failed ? 0 : same + 1;
	w->format = s->format;
	x->rounding = w->rounding;
	return failed;
}

/* ---- one row, or some together ---- */

static int store_norms(const struct encoder *x, const struct shape *s, const char *name,
		       uint8_t *norms, struct err *e)
{
	size_t groups = s->rows * tq_groups(s->cols);
	if (s->norms == NORM_F32) {
		memcpy(norms, x->row_norms, groups * sizeof *x->row_norms);
		return 0;
	}
	for (size_t g = 0; g < groups; g++) {
		float norm = x->row_norms[g];
		uint16_t half = f32_to_f16(norm);
		if (norm != 0 && (norm < f16_norm_least || norm > f16_norm_most))
			return err_set(e, ERANGE,
				       "tensor %s has numbers of a size that 16-bit norms do not "
				       "hold; the checkpoint is converted anew with 32-bit norms; "
				       "ask again",
				       name);
		memcpy(norms + g * sizeof half, &half, sizeof half);
	}
	return 0;
}

static int not_a_number(const struct source *source, struct err *e)
{
	return err_set(e, EINVAL, "tensor %s holds a NaN or an infinity; the checkpoint is damaged",
		       source->tensor->name);
}

static void round_row(uint8_t *packed, const float *row, uint32_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint16_t half = f32_to_bf16(row[i]);
		memcpy(packed + i * sizeof half, &half, sizeof half);
	}
}

static int round_blocks(uint8_t *packed, const float *row, uint32_t n, const char *name,
			struct err *e)
{
	if (q8_0_quantise_row(packed, row, n))
		return 0;
	return err_set(e, EINVAL, "tensor %s holds numbers above 8e6; the checkpoint is damaged",
		       name);
}

/* The rows, in rotated groups. */
static bool quantise(struct encoder *x, const struct shape *s, uint8_t *packed)
{
	uint32_t bits = format_tq_bits(s->format);
	if (x->rounding) {
		watch_row(packed, x->row_norms, x->row, s->cols, bits);
		return rounding_row(x->rounding, packed, x->row_norms, x->row,
				    s->norms == NORM_F16);
	}
	if (format_is_trellis(s->format))
		return tc_quantise_row_watched(x->kernels, packed, x->row_norms, x->row,
					       s->rows * s->cols, bits);
	return tq_quantise_row_watched(x->kernels, packed, x->row_norms, x->row, s->cols, bits,
				       TQ_GAIN_LEAST_SQUARES);
}

/* Rows as their store has them: s->rows of them, 1 where rows_together says so, or where
 * they are rounded by what is known of inputs. */
static int encode_some(struct encoder *x, const struct shape *s, const struct source *source,
		       const uint8_t *row, uint8_t *packed, uint8_t *norms, struct err *e)
{
	const char *name = source->tensor->name;
	if (x->rounding && atomic_load(x->stop))
		return stopped(e);
	const struct shape from = {.format = source->format, .rows = 1, .cols = s->cols};
	const struct shape numbers = {.format = FORMAT_F32, .rows = s->rows, .cols = s->cols};
	for (uint32_t r = 0; r < s->rows; r++)
		format_dequantise_row(x->row + (size_t)r * s->cols, &from,
				      &(struct pieces){.weights = row + r * source->row_bytes});
	const struct pieces floats = {.weights = (const uint8_t *)x->row};
	/* Rows that are rounded to the nearest show by their norms that they hold what is none. */
	bool shows = format_tq_bits(s->format) && s->format != source->format && !x->rounding;
	if (!shows && !format_is_finite(&numbers, &floats))
		return not_a_number(source, e);
	if (s->format == source->format) {
		memcpy(packed, row, source->row_bytes);
		return 0;
	}
	if (s->format == FORMAT_F32) {
		memcpy(packed, x->row, s->cols * sizeof *x->row);
		return 0;
	}
	if (s->format == FORMAT_BF16) {
		round_row(packed, x->row, s->cols);
		return 0;
	}
	if (s->format == FORMAT_Q8_0)
		return round_blocks(packed, x->row, s->cols, name, e);
	if (!quantise(x, s, packed)) {
		if (x->rounding && atomic_load(x->stop))
			return stopped(e);
		if (!format_is_finite(&numbers, &floats))
			return not_a_number(source, e);
		return err_set(e, EINVAL,
			       "tensor %s holds numbers above 1e18; the checkpoint is damaged",
			       name);
	}
	return store_norms(x, s, name, norms, e);
}

/* ---- rows as they are ---- */

bool encode_copies(const struct shape *s, const struct source *source)
{
	const struct package_tensor *t = source->tensor;
	bool scales = plan_piece_bytes(s, 1) > 0; /* with floats, norms mean nothing */
	return source->view.way == VIEW_ALONG && s->format == t->format &&
	       s->format != source->format &&
	       (!scales || s->format == FORMAT_MXFP4 || s->norms == t->norms) &&
	       (!format_affine_bits(s->format) || s->group == t->group);
}

/* s->rows rows from row0 on: the bytes that are there. */
static int copy_rows(struct encoder *x, const struct shape *s, const struct source *source,
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
		failed = not_a_number(source, e);
	return failed;
}

/* ---- rows ---- */

int encode_rows(struct encoder *x, const struct shape *s, const struct source *source,
		uint32_t row0, uint8_t *out, struct err *e)
{
	struct shape one = *s, some = *s;
	one.rows = 1;
	if (encode_copies(s, source))
		return copy_rows(x, s, source, row0, out, e);
	uint8_t *packed = out, *norms = out + format_packed_bytes(s);
	size_t source_bytes = source->row_bytes, packed_bytes = format_packed_bytes(&one);
	size_t norm_bytes = format_norm_bytes(&one);
	uint32_t piece = source_bytes < x->piece ? (uint32_t)(x->piece / source_bytes) : 1;
	uint32_t together = x->rounding ? 1 : rows_together(s);
	for (uint32_t r = 0; r < s->rows; r += piece) {
		uint32_t n = s->rows - r < piece ? s->rows - r : piece;
		int failed = sources_read(x->sources, source, row0 + r, n, x->source, e);
		for (uint32_t i = 0; i < n && !failed; i += some.rows) {
			some.rows = n - i < together ? n - i : together;
			failed = encode_some(x, &some, source, x->source + i * source_bytes,
					     packed + (size_t)(r + i) * packed_bytes,
					     norms + (size_t)(r + i) * norm_bytes, e);
		}
		if (failed)
			return failed;
	}
	return 0;
}

/* ---- units ---- */

int encode_expert(struct encoder *x, uint32_t routed_layer, uint32_t expert, void *record,
		  struct err *e)
{
	const struct plan *p = x->plan;
	for (uint32_t part = 0; part < EXPERT_PARTS; part++) {
		struct source from;
		const struct shape *s = &p->record[routed_layer].part[part];
		struct tensor_id id = {plan_part_role(part), p->layer_of[routed_layer], expert};
		uint8_t *packed = (uint8_t *)record + p->record[routed_layer].part_offset[part];
		int failed = sources_find(x->sources, id, &from, e);
		if (!failed)
			failed = take_tensor(x, id, s, e);
		if (!failed)
			failed = encode_rows(x, s, &from, 0, packed, e);
		if (failed)
			return failed;
	}
	return 0;
}

static struct shape chunk_shape(const struct plan_tensor *t, uint32_t number)
{
	struct shape s = t->shape;
	s.rows = plan_chunk_rows(t, number);
	return s;
}

int encode_chunk(struct encoder *x, const struct plan_tensor *t, uint32_t number, void *chunk,
		 struct err *e)
{
	struct source from;
	struct shape s = chunk_shape(t, number);
	int failed = sources_find(x->sources, t->id, &from, e);
	if (!failed)
		failed = take_tensor(x, t->id, &s, e);
	return failed ? failed : encode_rows(x, &s, &from, number * t->chunk_rows, chunk, e);
}

size_t encode_chunk_bytes(const struct plan *p)
{
	size_t most = 0;
	for (uint32_t i = 0; i < p->dense_count; i++) {
		struct shape s = chunk_shape(&p->dense[i], 0); /* the first is the largest */
		most = larger(most, plan_piece_bytes(&s, 0) + plan_piece_bytes(&s, 1) +
					    plan_piece_bytes(&s, 2));
	}
	return most;
}

/* What ThreadSanitizer is told of a matrix product, and of a row that is encoded or taken out of
 * its code.
 *
 * The products, the rotation and the rows' codes are built without it: checked load by load they
 * took nine tenths of the tests' time. Instead what they are given is looked at once, in code that
 * is watched: what another thread does to it meanwhile is reported all the same. In other builds
 * that is nothing.
 */
#ifndef MOEFS_KERNELS_WATCH_H
#define MOEFS_KERNELS_WATCH_H

#include "kernels/kernels.h"

#if defined(__SANITIZE_THREAD__)
#define WATCHED 1
#elif defined(__has_feature)
#define WATCHED __has_feature(thread_sanitizer)
#else
#define WATCHED 0
#endif

/* kernels/watch.c, itself watched, whoever calls it. The memory is left as it is. NULL is nothing.
 */
void watch_read(const void *memory, size_t bytes);
void watch_write(void *memory, size_t bytes);
/* The canonical bytes of a matrix are read. */
void watch_pieces(const struct shape *s, const struct pieces *from);

/* What a product reads of one token. */
static inline void watch_input(const struct input *x, enum input_form form, size_t token)
{
	const size_t groups = tq_groups(x->k);

	switch (form) {
	case INPUT_TQ:
		watch_read(x->q + token * groups * TQ_GROUP, groups * TQ_GROUP);
		watch_read(x->scale + token * groups, groups * sizeof *x->scale);
		break;
	case INPUT_BLOCKS: /* 32 columns have a scale and two sums */
		watch_read(x->block.q + token * x->k, x->k);
		watch_read(x->block.scale + token * (x->k / 32),
			   x->k / 32 * sizeof *x->block.scale);
		watch_read(x->block.sum + token * (x->k / 16), x->k / 16 * sizeof *x->block.sum);
		break;
	default:
		watch_read(x->f + token * x->k, x->k * sizeof *x->f);
	}
}

static inline void watch_product(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				 uint32_t row1, const struct input *x, const uint32_t *tokens,
				 size_t n)
{
	if (!WATCHED)
		return;
	struct shape before = w->shape, through = w->shape;
	before.rows = row0;
	through.rows = row1;
	size_t begin = row0 ? format_arranged_bytes(&before) : 0;
	watch_read((const uint8_t *)w->data + begin, format_arranged_bytes(&through) - begin);

	for (size_t t = 0; t < n; t++) {
		watch_input(x, format_input(w->shape.format), tokens ? tokens[t] : t);
		watch_write(y + t * ldy + row0, (row1 - row0) * sizeof *y);
	}
}

/* The table's multiply of w's format. */
static inline void multiply_watched(const struct kernels *k, float *y, size_t ldy,
				    const struct matrix *w, uint32_t row0, uint32_t row1,
				    const struct input *x, const uint32_t *tokens, size_t n)
{
	watch_product(y, ldy, w, row0, row1, x, tokens, n);
	k->multiply[w->shape.format](y, ldy, w, row0, row1, x, tokens, n);
}

/* The table's tq_prepare, and its encoders of rows and of groups. */
static inline void tq_prepare_watched(const struct kernels *k, int8_t *q, float *scale,
				      const float *x, uint32_t cols)
{
	watch_read(x, cols * sizeof *x);
	watch_write(q, tq_groups(cols) * TQ_GROUP);
	watch_write(scale, tq_groups(cols) * sizeof *scale);
	k->tq_prepare(q, scale, x, cols);
}

static inline bool tq_quantise_row_watched(const struct kernels *k, uint8_t *packed, float *norms,
					   const float *row, uint32_t cols, uint32_t bits,
					   enum tq_gain gain)
{
	watch_read(row, cols * sizeof *row);
	watch_write(packed, tq_groups(cols) * tq_group_bytes(bits));
	watch_write(norms, tq_groups(cols) * sizeof *norms);
	return k->tq_quantise_row(packed, norms, row, cols, bits, gain);
}

static inline bool tc_quantise_row_watched(const struct kernels *k, uint8_t *packed, float *norms,
					   const float *row, uint32_t cols, uint32_t bits)
{
	watch_read(row, cols * sizeof *row);
	watch_write(packed, tq_groups(cols) * tq_group_bytes(bits));
	watch_write(norms, tq_groups(cols) * sizeof *norms);
	return k->tc_quantise_row(packed, norms, row, cols, bits);
}

static inline void tc_encode_watched(const struct kernels *k, uint8_t *packed, float *factor,
				     const float *y, size_t groups, uint32_t bits)
{
	watch_read(y, groups * TQ_GROUP * sizeof *y);
	watch_write(packed, groups * tq_group_bytes(bits));
	watch_write(factor, groups * sizeof *factor);
	k->tc_encode(packed, factor, y, groups, bits);
}

#endif

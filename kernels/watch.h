/* What ThreadSanitizer is told of a matrix product.
 *
 * The products are built without it: checked load by load they took nine tenths of the tests' time.
 * Instead the engine calls them through multiply_watched, which looks at the operands once, word by
 * word, in code that is watched: what another thread does to them meanwhile is reported all the
 * same. In other builds it is the call alone.
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

static inline void watch_read(const void *memory, size_t words)
{
	const volatile uint32_t *at = memory;
	for (size_t i = 0; i < words; i++)
		(void)at[i];
}

/* Arranged weights begin and end at multiples of 64 bytes. */
static inline void watch_weights(const void *memory, size_t bytes)
{
	const volatile uint64_t *at = memory;
	for (size_t i = 0; i < bytes / sizeof *at; i++)
		(void)at[i];
}

static inline void watch_write(float *y, size_t n)
{
	volatile float *at = y;
	for (size_t i = 0; i < n; i++)
		at[i] = 0;
}

/* What a product reads of one token. */
static inline void watch_input(const struct input *x, enum input_form form, size_t token)
{
	const size_t groups = tq_groups(x->k), words = x->k / sizeof(uint32_t);

	switch (form) {
	case INPUT_TQ:
		watch_read(x->q + token * groups * TQ_GROUP, groups * TQ_GROUP / sizeof(uint32_t));
		watch_read(x->scale + token * groups, groups);
		break;
	case INPUT_BLOCKS: /* 32 columns have 8 words, a scale and two sums of 16 bits */
		watch_read(x->block.q + token * x->k, words);
		watch_read(x->block.scale + token * (words / 8), words / 8);
		watch_read(x->block.sum + token * (words / 4), words / 8);
		break;
	default:
		watch_read(x->f + token * x->k, x->k);
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
	watch_weights((const uint8_t *)w->data + begin, format_arranged_bytes(&through) - begin);

	for (size_t t = 0; t < n; t++) {
		watch_input(x, format_input(w->shape.format), tokens ? tokens[t] : t);
		watch_write(y + t * ldy + row0, row1 - row0);
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

#endif

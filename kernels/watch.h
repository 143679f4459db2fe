/* Annotations for ThreadSanitizer: matrix products, attention, encoding and decoding of rows.
 *
 * These functions are built without ThreadSanitizer: with every load checked they took nine tenths
 * of the tests' time. Instead instrumented code touches their operands once, so that races on the
 * operands are still reported. In other builds the functions here do nothing. */
#ifndef MOEFS_KERNELS_WATCH_H
#define MOEFS_KERNELS_WATCH_H

#include "kernels/attention.h"
#include "kernels/kernels.h"

#if defined(__SANITIZE_THREAD__)
#define WATCHED 1
#elif defined(__has_feature)
#define WATCHED __has_feature(thread_sanitizer)
#else
#define WATCHED 0
#endif

/* A function of a table that is built without ThreadSanitizer. */
#if WATCHED
#define UNWATCHED __attribute__((no_sanitize("thread")))
#else
#define UNWATCHED
#endif

/* Defined in kernels/watch.c, which is instrumented. They do not change the memory. NULL is
 * ignored. */
void watch_read(const void *memory, size_t bytes);
void watch_write(void *memory, size_t bytes);
/* Touches one byte per cache line of weights or inputs. A writer writes all columns of a token, or
 * adjacent rows, so each write touches such a byte. Checking every byte took a third of the time of
 * these tests. */
enum { WATCH_LINE = 64 };
void watch_lines(const void *memory, size_t bytes);
/* Touches the canonical bytes of a matrix, as for a read. */
void watch_pieces(const struct shape *s, const struct pieces *from);

/* Touches the memory of one token that a product reads. */
static inline void watch_input(const struct input *x, enum input_form form, size_t token)
{
	const size_t groups = tq_groups(x->k);

	switch (form) {
	case INPUT_TQ:
		watch_lines(x->q + token * groups * TQ_GROUP, groups * TQ_GROUP);
		watch_lines(x->scale + token * groups, groups * sizeof *x->scale);
		break;
	case INPUT_BLOCKS: /* 32 columns have a scale and two sums */
		watch_lines(x->block.q + token * x->k, x->k);
		watch_lines(x->block.scale + token * (x->k / 32),
			    x->k / 32 * sizeof *x->block.scale);
		watch_lines(x->block.sum + token * (x->k / 16), x->k / 16 * sizeof *x->block.sum);
		break;
	default:
		watch_lines(x->f + token * x->k, x->k * sizeof *x->f);
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
	watch_lines((const uint8_t *)w->data + begin, format_arranged_bytes(&through) - begin);

	for (size_t t = 0; t < n; t++) {
		watch_input(x, format_input(w->shape.format), tokens ? tokens[t] : t);
		watch_write(y + t * ldy + row0, (row1 - row0) * sizeof *y);
	}
}

/* Calls the table's multiply of w's format. */
static inline void watch_multiply(const struct kernels *k, float *y, size_t ldy,
				  const struct matrix *w, uint32_t row0, uint32_t row1,
				  const struct input *x, const uint32_t *tokens, size_t n)
{
	watch_product(y, ldy, w, row0, row1, x, tokens, n);
	k->multiply[w->shape.format](y, ldy, w, row0, row1, x, tokens, n);
}

/* Calls the table's add_scaled. */
static inline void watch_add_scaled(const struct kernels *k, float *y, float a, const float *x,
				    size_t n)
{
	watch_write(y, n * sizeof *y);
	watch_read(x, n * sizeof *x);
	k->add_scaled(y, a, x, n);
}

/* Calls the table's add_products. */
static inline void watch_add_products(const struct kernels *k, float *y, size_t ldy,
				      const struct add_products *p)
{
	for (size_t r = 0; WATCHED && r < p->rows; r++)
		watch_lines(y + r * ldy, p->cols * sizeof *y);
	for (size_t t = 0; WATCHED && t < p->n; t++)
		watch_lines(p->b + t * p->ldb, p->cols * sizeof *p->b);
	k->add_products(y, ldy, p);
}

/* Storing a position's key and value begins with column 0 of the key, or with its first code.
 * Readers of a position check that column, so a concurrent store is reported. */
static inline size_t watch_place(enum kv_type type)
{
	return kv_type_codes(type) ? 4 : kv_type_element(type);
}

static inline void watch_kv_put(const struct kernels *k, void *block, enum kv_type type,
				size_t key_offset, size_t value_offset, uint32_t slot,
				const float *key, const float *value, uint32_t head_dim,
				uint32_t latent_dim)
{
	const size_t size = kv_type_element(type), place = watch_place(type);

	watch_write((uint8_t *)block + key_offset * size + slot * place, place);
	watch_read(key, head_dim * sizeof *key);
	watch_read(value, head_dim * sizeof *value);
	k->kv_put(block, type, key_offset, value_offset, slot, key, value, head_dim, latent_dim);
}

static inline void watch_seen(const struct attention *a, uint32_t n)
{
	const size_t size = kv_type_element(a->type), place = watch_place(a->type);
	const size_t end = (size_t)a->length + n - 1;

	for (size_t next, at = attention_from(a, a->length); at < end; at = next) {
		next = (at / KV_BLOCK + 1) * KV_BLOCK;
		next = next < end ? next : end;
		watch_read((const uint8_t *)a->blocks[at / KV_BLOCK] + a->key_offset * size +
				   at % KV_BLOCK * place,
			   (next - at) * place);
	}
}

/* Touches the queries of n tokens. */
static inline void watch_queries(const float *q, size_t stride, const struct attention *a,
				 uint32_t n)
{
	for (size_t t = 0; WATCHED && t < n; t++)
		watch_lines(q + t * stride, (size_t)a->heads * a->head_dim * sizeof *q);
}

static inline void watch_attend(const struct kernels *k, float *out, const float *q, size_t stride,
				const struct attention *a, uint32_t n)
{
	if (WATCHED)
		watch_seen(a, n);
	watch_queries(q, stride, a, n);
	for (size_t at = 0; WATCHED && at < n * stride; at += stride)
		watch_write(out + attention_out(a, at),
			    (size_t)a->heads * attention_value_dim(a) * sizeof *out);
	k->attend_tokens(out, q, stride, a, n);
}

static inline void watch_attend_spans(const struct kernels *k, float *parts, const float *q,
				      size_t stride, const struct attention *a, uint32_t n,
				      uint32_t span0, uint32_t span1)
{
	const size_t row = attention_part(attention_value_dim(a)) * sizeof *parts;

	if (WATCHED)
		watch_seen(a, n);
	watch_queries(q, stride, a, n);
	watch_write(parts, row * a->heads * n * (span1 - span0));
	k->attend_spans(parts, q, stride, a, n, span0, span1);
}

static inline void watch_attend_join(const struct kernels *k, float *out, size_t stride,
				     float *joined, const float *parts, const struct attention *a,
				     uint32_t n, uint32_t span0, uint32_t span1)
{
	const size_t row = attention_part(attention_value_dim(a)) * sizeof *parts;

	watch_lines(parts, row * a->heads * n * (span1 - span0));
	watch_write(joined, row * a->heads * n);
	for (size_t t = 0; WATCHED && t < n; t++)
		watch_write(out + attention_out(a, t * stride),
			    (size_t)a->heads * attention_value_dim(a) * sizeof *out);
	k->attend_join(out, stride, joined, parts, a, n, span0, span1);
}

/* Calls the table's tq_prepare; below, its encoders of rows and groups. */
static inline void watch_tq_prepare(const struct kernels *k, int8_t *q, float *scale,
				    const float *x, uint32_t cols)
{
	watch_read(x, cols * sizeof *x);
	watch_write(q, tq_groups(cols) * TQ_GROUP);
	watch_write(scale, tq_groups(cols) * sizeof *scale);
	k->tq_prepare(q, scale, x, cols);
}

/* Touches the memory of the encoding of a row. */
static inline void watch_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			     uint32_t bits)
{
	watch_read(row, cols * sizeof *row);
	watch_write(packed, tq_groups(cols) * tq_group_bytes(bits));
	watch_write(norms, tq_groups(cols) * sizeof *norms);
}

static inline bool watch_tq_quantise_row(const struct kernels *k, uint8_t *packed, float *norms,
					 const float *row, uint32_t cols, uint32_t bits,
					 enum tq_gain gain)
{
	watch_row(packed, norms, row, cols, bits);
	return k->tq_quantise_row(packed, norms, row, cols, bits, gain);
}

static inline bool watch_tc_quantise_row(const struct kernels *k, uint8_t *packed, float *norms,
					 const float *row, uint32_t cols, uint32_t bits)
{
	watch_row(packed, norms, row, cols, bits);
	return k->tc_quantise_row(packed, norms, row, cols, bits);
}

#endif

/* The scalar table's matrix products, and the 8-bit form of the inputs of TQ matrices.
 *
 * One row, one token, one sum at a time: a blocked kernel must reproduce each of these sums. */
#include "kernels/block_layout.h"
#include "kernels/scalar.h"
#include "kernels/tq_product.h"
#include "kernels/tq.h"

#include <math.h>
#include <string.h>

/* ---- floats ---- */

typedef float scalar_load_fn(const uint8_t *row, size_t i); /* element i of a stored row */

static float scalar_load_f32(const uint8_t *row, size_t i)
{
	float f;
	memcpy(&f, row + sizeof f * i, sizeof f);
	return f;
}

static uint16_t scalar_load_u16(const uint8_t *row, size_t i)
{
	uint16_t u;
	memcpy(&u, row + sizeof u * i, sizeof u);
	return u;
}

static float scalar_load_f16(const uint8_t *row, size_t i)
{
	return f16_to_f32(scalar_load_u16(row, i));
}

static float scalar_load_bf16(const uint8_t *row, size_t i)
{
	return bf16_to_f32(scalar_load_u16(row, i));
}

static float scalar_dot(const uint8_t *row, const float *x, uint32_t k, scalar_load_fn *load)
{
	float lane[SCALAR_DOT_LANES] = {0};

	for (uint32_t i = 0; i < k; i++)
		lane[i % SCALAR_DOT_LANES] = fmaf(load(row, i), x[i], lane[i % SCALAR_DOT_LANES]);
	return scalar_sum_lanes(lane);
}

static void scalar_multiply_floats(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				   uint32_t row1, const struct input *x, const uint32_t *tokens,
				   size_t n, scalar_load_fn *load, size_t element_bytes)
{
	const uint8_t *data = w->data;

	for (size_t t = 0; t < n; t++) {
		const float *xt = x->f + (tokens ? tokens[t] : t) * x->k;
		for (uint32_t r = row0; r < row1; r++)
			y[t * ldy + r] =
				scalar_dot(data + (size_t)r * x->k * element_bytes, xt, x->k, load);
	}
}

void scalar_multiply_f32(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	scalar_multiply_floats(y, ldy, w, row0, row1, x, tokens, n, scalar_load_f32, 4);
}

void scalar_multiply_f16(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	scalar_multiply_floats(y, ldy, w, row0, row1, x, tokens, n, scalar_load_f16, 2);
}

void scalar_multiply_bf16(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			  uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	scalar_multiply_floats(y, ldy, w, row0, row1, x, tokens, n, scalar_load_bf16, 2);
}

/* ---- TQ and TC ---- */

/* The packed bytes of a group in one row; `tile` is its first slab and `lane` the row's place in
 * it. Each byte of a unit is in another plane. */
static void scalar_tq_packed_group(uint8_t *packed, const uint8_t *tile, uint32_t lane,
				   uint32_t bits)
{
	for (uint32_t unit = 0; unit < TQ_GROUP / TQ_UNIT; unit++) {
		const uint8_t *byte = tile + unit / SLAB_UNITS * tq_slab_bytes(bits) +
				      lane * SLAB_UNITS + unit % SLAB_UNITS;
		for (uint32_t p = 0; p < bits; p++)
			*packed++ = byte[(size_t)p * PLANE_BYTES];
	}
}

static void scalar_tq_integers(int8_t integer[TQ_GROUP], const uint8_t *packed, enum format format)
{
	const uint32_t bits = format_tq_bits(format);
	uint8_t index[TQ_GROUP];

	if (format_is_trellis(format)) {
		tc_codes(integer, packed, bits);
		return;
	}
	tq_unpack(index, packed, bits);
	for (size_t i = 0; i < TQ_GROUP; i++)
		integer[i] = tq_codebook(bits)->integer[index[i]];
}

/* Σ integer · q over one group of one row. Less than 2^24 in magnitude, so exact in int32 and in
 * f32. */
static int32_t scalar_tq_group_dot(const uint8_t *tile, uint32_t lane, enum format format,
				   const int8_t q[TQ_GROUP])
{
	uint8_t packed[TQ_GROUP / 8 * 4];
	int8_t integer[TQ_GROUP];
	int32_t sum = 0;

	scalar_tq_packed_group(packed, tile, lane, format_tq_bits(format));
	scalar_tq_integers(integer, packed, format);
	for (size_t i = 0; i < TQ_GROUP; i++)
		sum += integer[i] * q[tq_input_place(i)];
	return sum;
}

static float scalar_tq_row(const struct tq_product *p, enum format format, uint32_t row,
			   size_t token)
{
	const uint8_t *tile = p->w + row / TILE_ROWS * p->block_bytes;
	const uint8_t *norms = tile + tq_slabs_bytes(format_tq_bits(format));
	const uint32_t lane = row % TILE_ROWS;
	float y = 0;

	for (size_t g = 0; g < p->groups; g++, tile += p->tile_bytes, norms += p->tile_bytes) {
		const size_t at = token * p->groups + g;
		const int32_t dot =
			scalar_tq_group_dot(tile, lane, format, p->x->q + at * TQ_GROUP);
		y = fmaf((float)dot,
			 format_norm_at(norms, lane, p->norms) * (p->x->scale[at] * p->gain), y);
	}
	return y;
}

void scalar_multiply_tq(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			const struct input *x, const uint32_t *tokens, size_t n)
{
	const struct tq_product p = tq_product_of(y, ldy, w, row0, row1, x);

	for (size_t t = 0; t < n; t++)
		for (uint32_t r = 0; r < p.rows; r++)
			p.y[t * ldy + r] =
				scalar_tq_row(&p, w->shape.format, r, tokens ? tokens[t] : t);
}

void scalar_tq_prepare(int8_t *q, float *scale, const float *x, uint32_t k)
{
	for (size_t g = 0; g < tq_groups(k); g++) {
		float y[TQ_GROUP];
		tq_load_group(y, x + g * TQ_GROUP, k - g * TQ_GROUP);
		tq_rotate(y);

		const float max = scalar_largest_magnitude(y, TQ_GROUP);
		if (!isfinite(max)) { /* makes every product NaN, so that the failure shows */
			memset(q + g * TQ_GROUP, 0, TQ_GROUP);
			scale[g] = NAN;
			continue;
		}
		/* Dividing by max first cannot overflow, however small max is. */
		const float divisor = max == 0 ? 1 : max;
		for (size_t i = 0; i < TQ_GROUP; i++)
			q[g * TQ_GROUP + tq_input_place(i)] = (int8_t)rintf(y[i] / divisor * 127);
		scale[g] = max / 127;
	}
}

/* ---- blocks ---- */

/* The factor of column i of a block: weight = factor · scale. Byte j of word k of a row's plane
 * has bits of column 4k + j. */
static int scalar_block_code(const struct block_layout *l, const uint8_t *block, size_t row,
			     size_t i)
{
	const size_t k = i / 4;
	const uint8_t *plane = block + row * 4 + i % 4;
	size_t plane_bytes = TILE_ROWS * 4, bits = 0;
	int code = 0;

	if (l->bits == 8)
		return (int8_t)plane[k * plane_bytes] - l->zero;
	if (l->bits & 4) {
		code = plane[k % 4 * plane_bytes] >> 4 * (k / 4) & 15;
		plane += 4 * plane_bytes;
		bits = 4;
	}
	if (l->bits & 2) {
		code |= (plane[k / 4 * plane_bytes] >> 2 * (k % 4) & 3) << bits;
		plane += 2 * plane_bytes;
		bits += 2;
	}
	if (l->bits & 1)
		code |= (*plane >> k & 1) << bits;
	return l->values ? l->values[code] : code - l->zero;
}

struct scalar_scales {
	float scale, offset;
};

/* The scale and offset of columns 16 · half … of a tile, for one row. `at` are the tile's scales.
 */
static struct scalar_scales scalar_block_scales(const struct block_layout *l, const struct shape *s,
						const uint8_t *at, size_t row, size_t half)
{
	const enum norm_type norms = layout_norms(l, s);
	const size_t norm_bytes = layout_norm_bytes(l, s), floats = layout_floats(l);
	const uint8_t *byte = at + floats * TILE_ROWS * norm_bytes + row;
	const float d = floats > 0 ? format_norm_at(at, row, norms) : 0,
		    m = floats > 1 ? format_norm_at(at + TILE_ROWS * norm_bytes, row, norms) : 0;
	const size_t b = l->by_16 ? half : half / HALVES;
	uint8_t of_k[12];

	switch (l->scales) {
	case SCALES_POWER:
		return (struct scalar_scales){block_e8m0_half(*byte), 0};
	case SCALES_SIGNED:
		return (struct scalar_scales){d * (float)(int8_t)byte[b * TILE_ROWS], 0};
	case SCALES_NIBBLES:
		return (struct scalar_scales){d * (float)(byte[b * TILE_ROWS] & 15),
					      -(m * (float)(byte[b * TILE_ROWS] >> 4))};
	case SCALES_K:
		for (size_t i = 0; i < sizeof of_k; i++)
			of_k[i] = byte[i * TILE_ROWS];
		return (struct scalar_scales){d * (float)block_k_scale(of_k, b),
					      -(m * (float)block_k_offset(of_k, b))};
	default:
		return (struct scalar_scales){d, m};
	}
}

/* y and the products of one tile; q, a and sum are the input's from its first column on. */
static float scalar_block_add_tile(float y, const struct block_layout *l, const struct shape *s,
				   const uint8_t *tile, size_t row, struct block_input x)
{
	const size_t width = l->by_16 ? HALF_BLOCK : BLOCK, cols = layout_blocks(l, s) * BLOCK;

	for (size_t i = 0; i < cols; i += width) {
		const uint8_t *block = tile + i / BLOCK * layout_block_bytes(l);
		const struct scalar_scales w = scalar_block_scales(
			l, s, tile + layout_scales_at(l, s), row, i / HALF_BLOCK);
		const float a = x.scale[i / BLOCK];
		int32_t dot = 0, sum = 0;
		for (size_t j = 0; j < width; j++)
			dot += scalar_block_code(l, block, row, i % BLOCK + j) * x.q[i + j];
		for (size_t h = 0; h < width / HALF_BLOCK; h++)
			sum += x.sum[i / HALF_BLOCK + h];
		y = fmaf((float)dot, w.scale * a, y);
		if (l->offsets)
			y = fmaf(w.offset, a * (float)sum, y);
	}
	return y;
}

static float scalar_block_row(const struct block_layout *l, const struct shape *s,
			      const uint8_t *rows, size_t row, struct block_input x)
{
	const size_t cols = layout_blocks(l, s) * BLOCK;
	float y = 0;

	for (size_t i = 0; i < s->cols; i += cols) {
		y = scalar_block_add_tile(y, l, s, rows, row, x);
		rows += layout_tile_bytes(l, s);
		x.q += cols;
		x.scale += cols / BLOCK;
		x.sum += cols / HALF_BLOCK;
	}
	return y;
}

void scalar_multiply_blocks(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			    uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	const struct block_layout *l = &block_layouts[w->shape.format];
	const size_t tiles = x->k / (layout_blocks(l, &w->shape) * BLOCK),
		     rows_bytes = tiles * layout_tile_bytes(l, &w->shape);

	for (size_t t = 0; t < n; t++) {
		const size_t token = tokens ? tokens[t] : t;
		const struct block_input xt = {x->block.q + token * x->k,
					       x->block.scale + token * (x->k / BLOCK),
					       x->block.sum + token * (x->k / HALF_BLOCK)};
		for (uint32_t r = row0; r < row1; r++)
			y[t * ldy + r] = scalar_block_row(
				l, &w->shape, (const uint8_t *)w->data + r / TILE_ROWS * rows_bytes,
				r % TILE_ROWS, xt);
	}
}

void scalar_block_prepare(int8_t *q, float *scale, int16_t *sum, const float *x, uint32_t k)
{
	for (size_t b = 0; b < k / BLOCK; b++, x += BLOCK, q += BLOCK) {
		const float max = scalar_largest_magnitude(x, BLOCK);
		const float divisor = max == 0 ? 1 : max;
		scale[b] = isfinite(max) ? max / 127 : NAN;
		sum[HALVES * b] = sum[HALVES * b + 1] = 0;
		for (size_t i = 0; i < BLOCK; i++) {
			/* Dividing by max first cannot overflow, however small max is. */
			q[i] = isfinite(max) ? (int8_t)rintf(x[i] / divisor * 127) : 0;
			sum[HALVES * b + i / HALF_BLOCK] =
				(int16_t)(sum[HALVES * b + i / HALF_BLOCK] + q[i]);
		}
	}
}

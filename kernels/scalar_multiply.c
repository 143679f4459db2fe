/* The scalar table's matrix products, and the 8-bit form of the inputs of TQ matrices.
 *
 * One row, one token, one sum at a time: what a blocked kernel must reproduce for each of them.
 */
#include "kernels/scalar.h"
#include "kernels/tq_tables.h"

#include <math.h>
#include <string.h>

/* ---- floats ---- */

typedef float load_fn(const uint8_t *row, size_t i); /* element i of a stored row */

static float load_f32(const uint8_t *row, size_t i)
{
	float f;
	memcpy(&f, row + sizeof f * i, sizeof f);
	return f;
}

static uint16_t load_u16(const uint8_t *row, size_t i)
{
	uint16_t u;
	memcpy(&u, row + sizeof u * i, sizeof u);
	return u;
}

static float load_f16(const uint8_t *row, size_t i)
{
	return f16_to_f32(load_u16(row, i));
}

static float load_bf16(const uint8_t *row, size_t i)
{
	return bf16_to_f32(load_u16(row, i));
}

static float dot(const uint8_t *row, const float *x, uint32_t k, load_fn *load)
{
	float lane[DOT_LANES] = {0};

	for (uint32_t i = 0; i < k; i++)
		lane[i % DOT_LANES] = fmaf(load(row, i), x[i], lane[i % DOT_LANES]);
	return sum_lanes(lane);
}

static void multiply_floats(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			    uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n,
			    load_fn *load, size_t element_bytes)
{
	const uint8_t *data = w->data;

	for (size_t t = 0; t < n; t++) {
		const float *xt = x->f + (tokens ? tokens[t] : t) * x->k;
		for (uint32_t r = row0; r < row1; r++)
			y[t * ldy + r] =
				dot(data + (size_t)r * x->k * element_bytes, xt, x->k, load);
	}
}

void scalar_multiply_f32(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, load_f32, 4);
}

void scalar_multiply_f16(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, load_f16, 2);
}

void scalar_multiply_bf16(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			  uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, load_bf16, 2);
}

/* ---- TQ ---- */

/* The packed bytes of a row's unit, which lie in as many planes. */
static uint32_t unit_word(const uint8_t *group, uint32_t unit, uint32_t lane, uint32_t bits)
{
	const uint8_t *byte = group + unit / SLAB_UNITS * tq_slab_bytes(bits);
	uint32_t word = 0;

	byte += lane * SLAB_UNITS + unit % SLAB_UNITS;
	for (uint32_t p = 0; p < bits; p++)
		word |= (uint32_t)byte[(size_t)p * PLANE_BYTES] << 8 * p;
	return word;
}

/* Σ integer[index] · q over one group of one row; `group` is its first slab and `lane` the row's
 * place in it. Less than 2^24 in magnitude, so exact in int32 and in f32. */
static int32_t group_dot(const uint8_t *group, uint32_t lane, const struct tq_codebook *book,
			 const int8_t q[TQ_GROUP])
{
	int32_t sum = 0;

	for (uint32_t unit = 0; unit < TQ_GROUP / TQ_UNIT; unit++) {
		uint32_t word = unit_word(group, unit, lane, book->bits);
		for (uint32_t i = 0; i < TQ_UNIT; i++) {
			sum += book->integer[word & (book->levels - 1)] *
			       q[tq_input_place(unit * TQ_UNIT + i)];
			word >>= book->bits;
		}
	}
	return sum;
}

void scalar_multiply_tq(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			const struct input *x, const uint32_t *tokens, size_t n)
{
	const struct tq_codebook *book = tq_codebook(format_tq_bits(w->shape.format));
	const size_t groups = tq_groups(x->k);
	const size_t tile_bytes = tq_tile_bytes(book->bits, w->shape.norms);

	for (size_t t = 0; t < n; t++) {
		const size_t token = tokens ? tokens[t] : t;
		for (uint32_t r = row0; r < row1; r++) {
			const uint8_t *group = w->data;
			float sum = 0;
			group += r / TILE_ROWS * groups * tile_bytes;
			for (size_t g = 0; g < groups; g++, group += tile_bytes) {
				const uint32_t lane = r % TILE_ROWS;
				const size_t at = token * groups + g;
				const int32_t product =
					group_dot(group, lane, book, x->q + at * TQ_GROUP);
				const float norm = norm_at(group + tq_slabs_bytes(book->bits), lane,
							   w->shape.norms);
				sum = fmaf((float)product, norm * (x->scale[at] * book->gain), sum);
			}
			y[t * ldy + r] = sum;
		}
	}
}

void scalar_tq_prepare(int8_t *q, float *scale, const float *x, uint32_t k)
{
	for (size_t g = 0; g < tq_groups(k); g++) {
		float y[TQ_GROUP];
		tq_load_group(y, x + g * TQ_GROUP, k - g * TQ_GROUP);
		tq_rotate(y);

		const float max = largest_magnitude(y, TQ_GROUP);
		if (!isfinite(max)) { /* keep the failure visible: every product becomes NaN */
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

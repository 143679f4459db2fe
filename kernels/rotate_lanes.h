/* Processes a TQ group before it is multiplied or stored, for every instruction set that has
 * vectors: the rotation, and with it the 8-bit inputs (tq_prepare) and the quantisation of weights
 * (tq_quantise_row). Within kernels/ only.
 *
 * A group is ROTATE_REGISTERS registers from its first load to its last store, element i in lane i
 * mod LANES of register i / LANES. Each lane performs the operations of tq.c in the same order, so
 * every bit agrees. Included once by the *_rotate.c of each table, which makes its tq_quantise_row
 * from rotate_quantise, after the lanes of its instruction set (lanes.h) and:
 *
 *     ROTATE_REGISTERS             TQ_GROUP / LANES
 *     rotate_signs(v, signs)       v times LANES signs, which are 1 or -1
 *     rotate_walsh_hadamard(y)     all butterflies of a group, without division
 *     rotate_dot(a, b)             the dot product of two groups, in tq.c's order of 8 lanes
 *     rotate_index                 LANES indices of levels
 *     rotate_nearest(search, y, bits)      the indices whose levels are nearest
 *     rotate_levels(search, index, bits)   their levels
 *     rotate_pack(packed, index, bits)     a group's indices in the layout of files
 *     rotate_largest(y), rotate_store_slab(q, y, divisor)
 *                                  only if the table has a tq_prepare of its own: the largest
 *                                  magnitude of a group, compared as integers, so that NaN and
 *                                  infinity are the largest; and 32 inputs divided and rounded to 8
 *                                  bits, column 0 of each unit, column 1 of each …
 */
#ifndef MOEFS_KERNELS_ROTATE_LANES_H
#define MOEFS_KERNELS_ROTATE_LANES_H

/* Loads up to 128 of the `left` floats at x; the rest of the group is zero. */
ALWAYS_INLINE void rotate_load(lanes y[ROTATE_REGISTERS], const float *x, size_t left)
{
	for (size_t i = 0; i < ROTATE_REGISTERS; i++) {
		const size_t begin = i * LANES;
		y[i] = left > begin ? lanes_load(x + begin, left - begin) : lanes_all(0);
	}
}

/* ---- rotation ---- */

ALWAYS_INLINE void rotate_multiply(lanes y[ROTATE_REGISTERS], const float signs[TQ_GROUP])
{
	for (size_t i = 0; i < ROTATE_REGISTERS; i++)
		y[i] = rotate_signs(y[i], signs + i * LANES);
}

ALWAYS_INLINE void rotate_divide(lanes y[ROTATE_REGISTERS], float by)
{
	for (size_t i = 0; i < ROTATE_REGISTERS; i++)
		y[i] = lanes_div(y[i], lanes_all(by));
}

ALWAYS_INLINE void rotate_forth(lanes y[ROTATE_REGISTERS])
{
	rotate_multiply(y, tq_signs1);
	rotate_walsh_hadamard(y);
	rotate_divide(y, TQ_SQRT_GROUP);
	rotate_multiply(y, tq_signs2);
}

ALWAYS_INLINE void rotate_back(lanes y[ROTATE_REGISTERS])
{
	rotate_multiply(y, tq_signs2);
	rotate_walsh_hadamard(y);
	rotate_divide(y, TQ_SQRT_GROUP);
	rotate_multiply(y, tq_signs1);
}

/* ---- inputs in 8 bits ---- */

#ifdef rotate_store_slab
void TABLE(tq_prepare)(int8_t *q, float *scale, const float *x, uint32_t k)
{
	enum { SLAB = SLAB_UNITS * TQ_UNIT / LANES }; /* registers */

	for (size_t g = 0; g < tq_groups(k); g++, q += TQ_GROUP) {
		lanes y[ROTATE_REGISTERS];
		rotate_load(y, x + g * TQ_GROUP, k - g * TQ_GROUP);
		rotate_forth(y);

		const float max = rotate_largest(y);
		if (!isfinite(max)) {
			memset(q, 0, TQ_GROUP);
			scale[g] = NAN;
			continue;
		}
		const lanes divisor = lanes_all(max == 0 ? 1 : max);
		for (size_t i = 0; i < ROTATE_REGISTERS; i += SLAB)
			rotate_store_slab(q + i * LANES, y + i, divisor);
		scale[g] = max / 127;
	}
}
#endif

/* ---- quantisation ---- */

/* Computes the norms of all groups, before anything else: a norm is a chain of additions, and this
 * way many chains run at once. True if all are finite. */
ALWAYS_INLINE bool rotate_measure(float *norms, const float *x, size_t left, size_t groups)
{
	bool finite = true;

	for (size_t g = 0; g < groups; g++) {
		lanes y[ROTATE_REGISTERS];
		rotate_load(y, x + g * TQ_GROUP, left - g * TQ_GROUP);
		norms[g] = sqrtf(rotate_dot(y, y));
		finite &= isfinite(norms[g]) != 0;
	}
	return finite;
}

/* Divides a group by its norm, and rotates it. */
ALWAYS_INLINE void rotate_normalise(lanes y[ROTATE_REGISTERS], float norm)
{
	rotate_divide(y, norm == 0 ? 1 : norm);
	rotate_forth(y);
}

/* norm: on entry the group's own, on return the stored one. Inlining makes bits a constant, here
 * and below. */
ALWAYS_INLINE void rotate_quantise_group(uint8_t *packed, float *norm, lanes y[ROTATE_REGISTERS],
					 const struct rotate_search *search, uint32_t bits,
					 enum tq_gain gain)
{
	lanes c[ROTATE_REGISTERS];
	rotate_index index[ROTATE_REGISTERS];

	rotate_normalise(y, *norm);
	for (size_t i = 0; i < ROTATE_REGISTERS; i++) {
		index[i] = rotate_nearest(search, y[i], bits);
		c[i] = rotate_levels(search, index[i], bits);
	}
	rotate_pack(packed, index, bits);

	if (*norm != 0 && gain == TQ_GAIN_LEAST_SQUARES) {
		*norm *= rotate_dot(y, c) / rotate_dot(c, c);
	} else if (*norm != 0) {
		rotate_back(c);
		*norm /= sqrtf(rotate_dot(c, c));
	}
}

ALWAYS_INLINE bool rotate_quantise_row(uint8_t *packed, float *norms, const float *row,
				       uint32_t cols, uint32_t bits, enum tq_gain gain)
{
	struct rotate_search search;
	lanes y[ROTATE_REGISTERS];

	rotate_search_begin(&search, tq_codebook(bits));
	if (!rotate_measure(norms, row, cols, tq_groups(cols)))
		return false;
	for (size_t g = 0; g < tq_groups(cols); g++) {
		rotate_load(y, row + g * TQ_GROUP, cols - g * TQ_GROUP);
		rotate_quantise_group(packed + g * tq_group_bytes(bits), &norms[g], y, &search,
				      bits, gain);
	}
	return true;
}

/* Calls the function with a constant for bits. */
ALWAYS_INLINE bool rotate_quantise(uint8_t *packed, float *norms, const float *row, uint32_t cols,
				   uint32_t bits, enum tq_gain gain)
{
	switch (bits) {
	case 2:
		return rotate_quantise_row(packed, norms, row, cols, 2, gain);
	case 3:
		return rotate_quantise_row(packed, norms, row, cols, 3, gain);
	default:
		return rotate_quantise_row(packed, norms, row, cols, 4, gain);
	}
}

/* y = the rotations of the next groups of a row that has `left` floats left, each group divided by
 * its norm. Not inlined, since its caller, TC's encoder, needs all registers. */
static __attribute__((noinline)) void rotate_groups(float *y, float *norm, const float *x,
						    size_t left, size_t groups)
{
	lanes v[ROTATE_REGISTERS];

	(void)rotate_measure(norm, x, left, groups);
	for (size_t g = 0; g < groups; g++, y += TQ_GROUP) {
		rotate_load(v, x + g * TQ_GROUP, left - g * TQ_GROUP);
		rotate_normalise(v, norm[g]);
		for (size_t i = 0; i < ROTATE_REGISTERS; i++)
			lanes_store(y + i * LANES, LANES, v[i]);
	}
}

#endif

/* Vectors of floats for kernels that are written once for all instruction sets, and functions that
 * follow from their definition. Within kernels/ only. avx2_lanes.h, avx512_lanes.h and neon_lanes.h
 * include this file after they have defined:
 *
 *     TABLE(function)                  the function's name in this table
 *     lanes, LANES                     a register, and how many floats it holds (at most 16)
 *     DOT_REGISTERS                    16 / LANES, the registers of a sum in dot order
 *     lanes_mask                       selects the lanes of an operation
 *     lanes_all(f), lanes_negative(v)  f in every lane; -v
 *     lanes_add, _sub, _mul, _div(a, b)
 *     lanes_fma(a, b, c), lanes_fms(a, b, c)       a · b + c and a · b - c, rounded once
 *     lanes_at_most(v, limit), lanes_at_least(v, limit)    a NaN in v stays a NaN
 *     lanes_load(p, left)              up to LANES of the `left` floats at p, then zeros
 *     lanes_store(p, left, v)          the inverse; memory after the `left` floats is unchanged
 *     lanes_load_f16, lanes_store_f16  the same for 16-bit floats; rounds to nearest even
 *     lanes_load_bf16(p, left)         the same for the upper halves of floats
 *     lanes_first(n)                   a mask of the first n lanes, of all if n is larger
 *     lanes_mask_without(mask, other)  lanes that are in mask and not in other
 *     lanes_keep(v, mask)              v, with zeros in the lanes that are not in the mask
 *     lanes_add_some(sum, v, mask)     sum + v in the lanes of the mask, else sum
 *     lanes_fma_some(a, b, c, mask)    lanes_fma in the lanes of the mask, else c
 *     lanes_raise(max, v, mask)        v > max ? v : max in the lanes of the mask: a NaN in v
 *                                      leaves max unchanged
 *     lanes_largest(v)                 the largest lane; none may be NaN
 *     lanes_dot(sum[DOT_REGISTERS])    the tree of kernels.h: lane l += lane l + 8, + 4, + 2, + 1
 *     lanes_ints, lanes_ints_all(n), lanes_ints_sub(a, b)    integers of 32 bits
 *     lanes_ints_of_bits(v), lanes_ints_half(n)    a float's bits; n >> 1
 *     lanes_power_of_two(n)            scalar_power_of_two of scalar.h
 */
#ifndef MOEFS_KERNELS_LANES_H
#define MOEFS_KERNELS_LANES_H

/* The cases of a switch that makes a count a constant, so that loops over the count are unrolled
 * and their sums stay in registers. CASE(n) is the statement for n. */
#define CASES_TO_3(CASE) CASE(1) CASE(2) CASE(3)
#define CASES_TO_4(CASE) CASES_TO_3(CASE) CASE(4)
#define CASES_TO_6(CASE) CASES_TO_4(CASE) CASE(5) CASE(6)
#define CASES_TO_8(CASE) CASES_TO_6(CASE) CASE(7) CASE(8)
#define CASES_TO_12(CASE) CASES_TO_8(CASE) CASE(9) CASE(10) CASE(11) CASE(12)

/* scalar_exp of scalar.h, operation by operation. */
ALWAYS_INLINE lanes lanes_exp(lanes x)
{
	const lanes round = lanes_all(EXP_ROUND), one = lanes_all(1);

	x = lanes_at_least(x, lanes_all(EXP_LOW));
	x = lanes_at_most(x, lanes_all(EXP_HIGH));

	const lanes shifted = lanes_fma(x, lanes_all(EXP_LOG2E), round);
	const lanes rounded = lanes_sub(shifted, round);
	const lanes_ints n =
		lanes_ints_sub(lanes_ints_of_bits(shifted), lanes_ints_all((int)EXP_ROUND_BITS));

	lanes r = lanes_fma(rounded, lanes_all(-EXP_LN2_HIGH), x);
	r = lanes_fma(rounded, lanes_all(-EXP_LN2_LOW), r);
	lanes p = lanes_all(EXP_C6);
	p = lanes_fma(p, r, lanes_all(EXP_C5));
	p = lanes_fma(p, r, lanes_all(EXP_C4));
	p = lanes_fma(p, r, lanes_all(EXP_C3));
	p = lanes_fma(p, r, lanes_all(EXP_C2));
	p = lanes_fma(p, r, one);
	p = lanes_fma(p, r, one);

	const lanes_ints half = lanes_ints_half(n);
	p = lanes_mul(p, lanes_power_of_two(half));
	return lanes_mul(p, lanes_power_of_two(lanes_ints_sub(n, half)));
}

/* A mask of the positions j … j + LANES - 1 that lie in [from, to). */
ALWAYS_INLINE lanes_mask lanes_between(size_t j, size_t from, size_t to)
{
	return lanes_mask_without(lanes_first(to > j ? to - j : 0),
				  lanes_first(from > j ? from - j : 0));
}

#endif

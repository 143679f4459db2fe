/* The constants of the exponentials and of what is made of them, shared by the CPUs' tables and the kernels of cards.
 *
 * exp(x) = 2^n · exp(r): n = x / ln 2 rounded to an integer, r = x - n · ln 2 in |r| <= ln 2 / 2,
 * with ln 2 in two parts so that n · EXP_LN2_HIGH is exact (Cody and Waite 1980). exp(r) = 1 + r +
 * r² q(r), where q is the polynomial of degree 4 with the least maximal relative error (3.1e-9,
 * Remez; far below f32's 6e-8). The result is within 1 unit in the last place, also if it is
 * subnormal. Limits: exp(-inf) = 0, exp(inf) = inf, NaN stays NaN.
 *
 * A vector version must use these constants and the operations of scalar_exp, one by one.
 */
#ifndef MOEFS_KERNELS_EXPONENTIAL_H
#define MOEFS_KERNELS_EXPONENTIAL_H

#define EXP_LOW (-104.0F) /* exp of less rounds to 0 */
#define EXP_HIGH 89.0F	  /* exp of more overflows */
#define EXP_LOG2E 0x1.715476p+0F
#define EXP_LN2_HIGH 0x1.63p-1F
#define EXP_LN2_LOW (-0x1.bd0106p-13F)
/* 1.5 · 2^23: adding it rounds to an integer, which the low bits of the sum then hold. */
#define EXP_ROUND 0x1.8p+23F
#define EXP_ROUND_BITS 0x4b400000U
#define EXP_C2 0x1.fffffcp-2F
#define EXP_C3 0x1.555492p-3F
#define EXP_C4 0x1.5558fp-5F
#define EXP_C5 0x1.1239d6p-7F
#define EXP_C6 0x1.6a247cp-10F

/* gelu_mul (kernels.h). */
#define GELU_LINE (-1.5957691216057308F)  /* -2 √(2/π) */
#define GELU_CUBE (-0.07135481627159623F) /* the same times .044715 */

/* ---- of the gates of delta nets (delta.h): the same in double precision ----
 *
 * The factors of r^13, r^12 … 1 in the Taylor series of exp(r); the rest is below 1e-17. */

#define DELTA_EXP_LOW (-750.0) /* exp of less rounds to 0 */
#define DELTA_EXP_HIGH 710.0   /* exp of more overflows */
#define DELTA_LOG2E 0x1.71547652b82fep+0
#define DELTA_LN2_HIGH 0x1.62e42feep-1 /* n times this is exact */
#define DELTA_LN2_LOW 0x1.a39ef35793c76p-33
/* 1.5 · 2^52: adding it rounds to an integer, which the low bits of the sum then hold. */
#define DELTA_ROUND 0x1.8p+52
#define DELTA_ROUND_BITS 0x4338000000000000U
#define DELTA_EXP_FACTORS \
	1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320, \
		1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2, 1, 1

#endif

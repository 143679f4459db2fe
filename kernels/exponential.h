/* The constants of the exponential and of what is made of it, shared by the CPUs' tables and the kernels of cards.
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

#endif

/* AVX2 products of TQ matrices.
 *
 * One token: with |q| <= 127 as the unsigned factor of vpmaddubsw and the codebook integer
 * (magnitude <= 114), signed as q is, as the other, it never saturates. With an offset codebook it
 * would. With several tokens the signs would have to be applied again for each token, so the
 * codebook is made unsigned by adding its largest integer. */
#if defined(__x86_64__)

enum { SUM_WORDS = 1 };

#include "kernels/avx2_tq.h"

struct avx2_maker {
	__m256i codebook, unsigned_codebook;
};
/* 16 bytes in both halves, for vpshufb, repeated for fewer levels. */
ALWAYS_INLINE __m256i avx2_load_codebook(uint32_t bits)
{
	const struct tq_codebook *book = tq_codebook(bits);
	_Alignas(16) int8_t table[16];

	for (size_t i = 0; i < 16; i++)
		table[i] = book->integer[i % book->levels];
	return _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)(void *)table));
}

/* Index i (0 … 7) of each unit of eight rows, whose first plane begins there, in the lower bits of
 * each byte; the bits above the index are undefined, but the upper half of the byte is zero:
 * vpshufb reads the low four bits and the highest. i and bits are constants where this is inlined.
 * Planes are loaded where they are needed: there are too few registers to hold all of them. */
ALWAYS_INLINE __m256i avx2_indices(const uint8_t *planes, size_t i, size_t bits)
{
	const size_t plane = i * bits / 8, shift = i * bits % 8, here = 8 - shift;
	const __m256i low = avx2_load32(planes + plane * PLANE_BYTES);

	if (here >= bits)
		return _mm256_and_si256(_mm256_srli_epi16(low, (int)shift), _mm256_set1_epi8(15));
	return avx2_across(low, shift, avx2_load32(planes + (plane + 1) * PLANE_BYTES), here);
}

ALWAYS_INLINE void avx2_prepare_side(union avx2_side *side, const int8_t *q, size_t groups)
{
	for (size_t i = 0; i < groups * TQ_GROUP; i += sizeof(__m256i))
		_mm256_store_si256((__m256i *)(void *)(side->magnitude + i),
				   _mm256_abs_epi8(avx2_load32((const uint8_t *)q + i)));
}

/* The dots of 16 rows with a group's input. Each word of the input is loaded once and used for all
 * rows. */
ALWAYS_INLINE void avx2_dot_group(__m256i dots[AVX2_HALVES], const uint8_t *tile, const int8_t *q,
				  const union avx2_side *side, size_t g, const struct avx2_maker *m,
				  size_t bits)
{
	const int8_t *magnitude = side->magnitude + g * TQ_GROUP;

	for (size_t half = 0; half < AVX2_HALVES; half++)
		dots[half] = _mm256_setzero_si256();
	for (size_t slab = 0; slab < SLABS; slab++) {
		const uint8_t *planes = tile + slab * tq_slab_bytes(bits);
#pragma GCC unroll 8
		for (size_t i = 0; i < TQ_UNIT; i++) {
			const size_t at = slab * TQ_SLAB + i * SLAB_UNITS;
			const __m256i x = avx2_load_four(q + at),
				      size = avx2_load_four(magnitude + at);
			for (size_t half = 0; half < AVX2_HALVES; half++) {
				const __m256i codes = _mm256_shuffle_epi8(
					m->codebook,
					avx2_indices(planes + half * AVX2_HALF_PLANE, i, bits));
				const __m256i pairs =
					_mm256_maddubs_epi16(size, _mm256_sign_epi8(codes, x));
				dots[half] = avx2_add_now(
					dots[half], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
			}
		}
	}
}

ALWAYS_INLINE void avx2_unpack(struct avx2_unpacked *to, const uint8_t *tile,
			       const struct avx2_maker *m, size_t bits)
{
	for (size_t slab = 0; slab < SLABS; slab++) {
		for (size_t half = 0; half < AVX2_HALVES; half++) {
			const uint8_t *planes =
				tile + slab * tq_slab_bytes(bits) + half * AVX2_HALF_PLANE;
			for (size_t i = 0; i < TQ_UNIT; i++)
				to->codes[slab * TQ_UNIT + i][half] = _mm256_shuffle_epi8(
					m->unsigned_codebook, avx2_indices(planes, i, bits));
		}
	}
}

ALWAYS_INLINE void avx2_multiply_tq(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				    uint32_t row1, const struct input *x, const uint32_t *tokens,
				    size_t n, uint32_t bits)
{
	const struct tq_codebook *book = tq_codebook(bits);
	const struct avx2_range range = avx2_range_of((uint8_t)book->integer[book->levels - 1]);
	const __m256i codebook = avx2_load_codebook(bits);
	/* Both are at most 114, so the sum fits in an unsigned byte. */
	const struct avx2_maker m = {
		codebook, _mm256_add_epi8(codebook, _mm256_set1_epi8((int8_t)range.offset))};

	avx2_multiply_groups(y, ldy, w, row0, row1, x, tokens, n, &m, range, bits);
}

void avx2_multiply_tq2(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	avx2_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, 2);
}

void avx2_multiply_tq3(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	avx2_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, 3);
}

void avx2_multiply_tq4(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	avx2_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, 4);
}

#endif

/* Products of TQ matrices for AVX-512 without VNNI and VBMI (Skylake-X).
 *
 * Codes, as in AVX2: a shuffle looks up 4 bits, which a shift and a mask lay bare in each byte of a
 * plane, or two of each where an index begins in one plane and ends in the next.
 *
 * Products: vpmaddubsw on magnitudes of codes and on inputs signed as the codes are, so that what
 * depends on codes alone is made once for all tokens; with an offset codebook it would saturate.
 * Sums begin at zero.
 */
#if defined(__x86_64__)

#include "kernels/avx512_tq.h"

ALWAYS_INLINE __m512i avx512_add_products(__m512i sums, __m512i codes, int32_t q)
{
	const __m512i zero = _mm512_setzero_si512(), x = _mm512_set1_epi32(q);
	const __m512i signed_x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(codes), zero, x);
	const __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(codes), signed_x);
	return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

ALWAYS_INLINE int32_t avx512_first_sum(const int8_t q[TQ_GROUP])
{
	(void)q;
	return 0;
}

struct avx512_maker {
	__m512i codebook;
};

ALWAYS_INLINE void avx512_begin_tile(struct avx512_maker *m, const uint8_t *tile, uint32_t bits)
{
	(void)m, (void)tile, (void)bits;
}

/* Index i (0 … 7) of each unit in the lower bits of each byte; bits above it may be anything, but
 * the upper half of the byte is zero: the shuffle looks at the low four bits, and at the highest.
 */
ALWAYS_INLINE __m512i avx512_indices(const uint8_t *slab, size_t i, size_t bits)
{
	const size_t plane = i * bits / 8, shift = i * bits % 8, here = 8 - shift;
	const __m512i low = avx512_load_plane(slab, plane);

	return _mm512_and_si512(
		here >= bits
			? _mm512_srli_epi16(low, (unsigned)shift)
			: avx512_across(low, shift, avx512_load_plane(slab, plane + 1), 8 - shift),
		_mm512_set1_epi8(15));
}

ALWAYS_INLINE struct avx512_codes avx512_make_codes(struct avx512_maker *m, const uint8_t *slab,
						    size_t pair, uint32_t bits)
{
	return (struct avx512_codes){
		_mm512_shuffle_epi8(m->codebook, avx512_indices(slab, 2 * pair, bits)),
		_mm512_shuffle_epi8(m->codebook, avx512_indices(slab, 2 * pair + 1, bits))};
}

static struct avx512_maker avx512_make_maker(uint32_t bits)
{
	const struct tq_codebook *book = tq_codebook(bits);
	_Alignas(16) int8_t table[16];

	for (size_t i = 0; i < 16; i++)
		table[i] = book->integer[i % book->levels];
	return (struct avx512_maker){
		_mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)(void *)table))};
}

void avx512_multiply_tq2(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	struct avx512_maker m = avx512_make_maker(2);
	avx512_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &m, 2);
}

void avx512_multiply_tq3(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	struct avx512_maker m = avx512_make_maker(3);
	avx512_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &m, 3);
}

void avx512_multiply_tq4(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	struct avx512_maker m = avx512_make_maker(4);
	avx512_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &m, 4);
}

#endif

/* Products of TQ matrices for AVX-512 with VNNI and VBMI (Ice Lake, Zen 4 and later).
 *
 * Codes: a byte permutation looks at 6 bits of an index, which are two indices of 3 bits or one of
 * 4 and two bits more. So the codebooks are tables of 64 bytes, repeated so that the bits that do
 * not matter need no mask: the "even" one goes by the lowest bits, the "odd" one by those above
 * them. A shift lays two indices bare in each byte of a plane at once.
 *
 * Products: vpdpbusd multiplies unsigned by signed bytes, so codes are the codebook's
 * integers plus 128 and sums start at -128 · Σ q.
 */
#if defined(__x86_64__)

#include "kernels/avx512_tq.h"

enum { OFFSET = 128 };

ALWAYS_INLINE __m512i avx512_add_products(__m512i sums, __m512i codes, int32_t q)
{
	return _mm512_dpbusd_epi32(sums, codes, _mm512_set1_epi32(q));
}

ALWAYS_INLINE int32_t avx512_first_sum(const int8_t q[TQ_GROUP])
{
	return -OFFSET * avx512_sum_of_group(q);
}

/* The "even" codebook and the "odd" one. */
struct avx512_maker {
	__m512i even, odd;
};

ALWAYS_INLINE void avx512_begin_tile(struct avx512_maker *m, const uint8_t *tile, uint32_t bits)
{
	(void)m, (void)tile, (void)bits;
}

/* Indices 2 · pair and 2 · pair + 1 of each unit in the lower bits of each byte; the bits above
 * them may be anything. */
ALWAYS_INLINE __m512i avx512_pairs_at(const uint8_t *slab, size_t pair, size_t bits)
{
	const size_t begin = 2 * pair * bits, plane = begin / 8, shift = begin % 8;
	const __m512i low = avx512_load_plane(slab, plane);

	return shift + 2 * bits <= 8
		       ? _mm512_srli_epi16(low, (unsigned)shift)
		       : avx512_across(low, shift, avx512_load_plane(slab, plane + 1), 8 - shift);
}

/* Two indices of 4 bits are more than a permutation looks at. */
ALWAYS_INLINE struct avx512_codes avx512_make_codes(struct avx512_maker *m, const uint8_t *slab,
						    size_t pair, uint32_t bits)
{
	const __m512i pairs = avx512_pairs_at(slab, pair, bits);
	const __m512i odd = bits == 4 ? _mm512_srli_epi16(pairs, 4) : pairs;
	return (struct avx512_codes){_mm512_permutexvar_epi8(pairs, m->even),
				     _mm512_permutexvar_epi8(odd, m->odd)};
}

/* bits is a constant where this is inlined, since a call may have but one tile. */
ALWAYS_INLINE struct avx512_maker avx512_make_maker(uint32_t bits)
{
	const int8_t *integer = tq_codebook(bits)->integer;
	const __m128i book = _mm_loadu_si128((const __m128i *)(const void *)integer);
	const __m512i codes =
		_mm512_add_epi8(_mm512_broadcast_i32x4(book), _mm512_set1_epi8((int8_t)OFFSET));
	/* Byte i holds i. */
	const __m512i byte =
		_mm512_add_epi64(_mm512_set1_epi64(0x0706050403020100),
				 _mm512_mullo_epi64(_mm512_setr_epi64(0, 8, 16, 24, 32, 40, 48, 56),
						    _mm512_set1_epi64(0x0101010101010101)));
	const __m512i index = _mm512_set1_epi8((int8_t)((1 << bits) - 1));
	const __m512i even = _mm512_permutexvar_epi8(_mm512_and_si512(byte, index), codes);
	if (bits == 4)
		return (struct avx512_maker){even, even};
	const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(byte, bits), index);
	return (struct avx512_maker){even, _mm512_permutexvar_epi8(odd, codes)};
}

void avx512vnni_multiply_tq2(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			     uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	struct avx512_maker m = avx512_make_maker(2);
	avx512_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &m, 2);
}

void avx512vnni_multiply_tq3(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			     uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	struct avx512_maker m = avx512_make_maker(3);
	avx512_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &m, 3);
}

void avx512vnni_multiply_tq4(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			     uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	struct avx512_maker m = avx512_make_maker(4);
	avx512_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &m, 4);
}

#endif

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

ALWAYS_INLINE __m512i add_products(__m512i sums, __m512i codes, int32_t q)
{
	return _mm512_dpbusd_epi32(sums, codes, _mm512_set1_epi32(q));
}

ALWAYS_INLINE int32_t first_sum(const int8_t q[TQ_GROUP])
{
	const __m512i offsets = _mm512_set1_epi8((int8_t)OFFSET);
	const __m512i half =
		_mm512_dpbusd_epi32(_mm512_setzero_si512(), offsets, _mm512_loadu_si512(q));
	return -_mm512_reduce_add_epi32(
		_mm512_dpbusd_epi32(half, offsets, _mm512_loadu_si512(q + 64)));
}

ALWAYS_INLINE __m512i load_plane(const uint8_t *slab, size_t plane)
{
	return _mm512_loadu_si512(slab + plane * PLANE_BYTES);
}

/* Indices 2 · pair and 2 · pair + 1 of each unit in the lower bits of each byte; the bits above
 * them may be anything. */
ALWAYS_INLINE __m512i pairs_at(const uint8_t *slab, size_t pair, size_t bits)
{
	const size_t begin = 2 * pair * bits, plane = begin / 8, shift = begin % 8;
	const __m512i low = _mm512_srli_epi16(load_plane(slab, plane), (unsigned)shift);

	if (shift + 2 * bits <= 8)
		return low;
	const __m512i high = _mm512_slli_epi16(load_plane(slab, plane + 1), (unsigned)(8 - shift));
	const __m512i low_mask = _mm512_set1_epi8((int8_t)((1 << (8 - shift)) - 1));
	return _mm512_ternarylogic_epi32(low_mask, low, high, SELECT);
}

/* Two indices of 4 bits are more than a permutation looks at. */
ALWAYS_INLINE struct codes make_codes(const uint8_t *slab, size_t pair, const struct codebooks *u,
				      uint32_t bits)
{
	const __m512i pairs = pairs_at(slab, pair, bits);
	const __m512i odd = bits == 4 ? _mm512_srli_epi16(pairs, 4) : pairs;
	return (struct codes){_mm512_permutexvar_epi8(pairs, u->even),
			      _mm512_permutexvar_epi8(odd, u->odd)};
}

/* bits is a constant where this is inlined, since a call may have but one tile. */
ALWAYS_INLINE struct codebooks make_codebooks(uint32_t bits)
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
		return (struct codebooks){even, even};
	const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(byte, bits), index);
	return (struct codebooks){even, _mm512_permutexvar_epi8(odd, codes)};
}

void avx512vnni_multiply_tq2(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			     uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	const struct codebooks u = make_codebooks(2);
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &u, 2);
}

void avx512vnni_multiply_tq3(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			     uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	const struct codebooks u = make_codebooks(3);
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &u, 3);
}

void avx512vnni_multiply_tq4(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			     uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	const struct codebooks u = make_codebooks(4);
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &u, 4);
}

#endif

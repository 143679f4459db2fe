/* Products of TQ matrices for AVX-512 with VNNI and VBMI (Ice Lake, Zen 4 and later).
 *
 * Codes: a byte permutation looks at 6 bits of an index, which are two indices of 3 bits or one of
 * 4 and two bits more. So the codebooks are tables of 64 bytes, repeated so that the bits that do
 * not matter need no mask: the "even" one goes by the lowest bits, the "odd" one by those above
 * them.
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

/* From eight 64-bit lanes that hold two rows each, bytes of which the low 2 · bits bits are an even
 * and an odd index. */
ALWAYS_INLINE struct codes look_up(__m512i rows, const struct unpacker *u)
{
	const __m512i pairs = _mm512_multishift_epi64_epi8(u->shifts, rows);
	return (struct codes){_mm512_permutexvar_epi8(pairs, u->even),
			      _mm512_permutexvar_epi8(pairs, u->odd)};
}

/* A row's 2 bytes: 32 bytes with rows in pairs already. */
ALWAYS_INLINE struct codes codes_tq2(const uint8_t *unit, const struct unpacker *u)
{
	const __m256i rows = _mm256_loadu_si256((const __m256i *)(const void *)unit);
	return look_up(_mm512_cvtepu32_epi64(rows), u);
}

/* A row's 3 bytes. Of the 64 bytes read 48 are used; the rest of the last read of a tile falls on
 * its norms. */
ALWAYS_INLINE struct codes codes_tq3(const uint8_t *unit, const struct unpacker *u)
{
	return look_up(_mm512_permutexvar_epi8(u->place, _mm512_loadu_si512(unit)), u);
}

/* A row's 4 bytes, each an even and an odd index. */
ALWAYS_INLINE struct codes codes_tq4(const uint8_t *unit, const struct unpacker *u)
{
	const __m512i pairs = _mm512_loadu_si512(unit);
	return (struct codes){_mm512_permutexvar_epi8(pairs, u->even),
			      _mm512_permutexvar_epi8(_mm512_srli_epi32(pairs, 4), u->even)};
}

ALWAYS_INLINE struct codes make_codes(const uint8_t *unit, const struct unpacker *u, uint32_t bits)
{
	return bits == 2 ? codes_tq2(unit, u) : bits == 3 ? codes_tq3(unit, u) : codes_tq4(unit, u);
}

/* bits is a constant where this is inlined, since a call may have but one tile. */
ALWAYS_INLINE struct unpacker make_unpacker(uint32_t bits)
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
	const __m512i lane = _mm512_and_si512(_mm512_srli_epi16(byte, 3), _mm512_set1_epi8(7));
	const __m512i index = _mm512_set1_epi8((int8_t)((1 << bits) - 1));
	const __m512i even = _mm512_and_si512(byte, index);
	const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(byte, bits), index);

	return (struct unpacker){
		.even = _mm512_permutexvar_epi8(even, codes),
		.odd = _mm512_permutexvar_epi8(odd, codes),
		/* 64-bit lane i takes the bytes from 6 · i: two rows, and for TQ3 two bytes more */
		.place = _mm512_sub_epi8(byte, _mm512_add_epi8(lane, lane)),
		/* four bytes of one row, then four of the next; no byte overflows */
		.shifts = _mm512_set1_epi64(0x0e0c0a0806040200 * bits),
	};
}

void avx512vnni_multiply_tq2(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			     uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	const struct unpacker u = make_unpacker(2);
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &u, 2);
}

void avx512vnni_multiply_tq3(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			     uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	const struct unpacker u = make_unpacker(3);
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &u, 3);
}

void avx512vnni_multiply_tq4(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			     uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	const struct unpacker u = make_unpacker(4);
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &u, 4);
}

#endif

/* Products of TQ matrices for AVX-512 without VNNI and VBMI (Skylake-X).
 *
 * Codes, as in AVX2: a shuffle looks up 4 bits, and the bits of three-byte rows are brought there
 * by shifts of 16-bit words, each by its own count.
 *
 * Products: vpmaddubsw on magnitudes of codes and on inputs signed as the codes are, so that what
 * depends on codes alone is made once for all tokens; with an offset codebook it would saturate.
 * Sums begin at zero.
 */
#if defined(__x86_64__)

#include "kernels/avx512_tq.h"

ALWAYS_INLINE __m512i add_products(__m512i sums, __m512i codes, int32_t q)
{
	const __m512i zero = _mm512_setzero_si512(), x = _mm512_set1_epi32(q);
	const __m512i signed_x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(codes), zero, x);
	const __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(codes), signed_x);
	return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

ALWAYS_INLINE int32_t first_sum(const int8_t q[TQ_GROUP])
{
	(void)q;
	return 0;
}

/* From bytes whose lowest `bits` bits are an even index, with the odd one above it. The shuffle
 * looks at the low four bits, and at the highest, which must be zero. */
ALWAYS_INLINE struct codes look_up(__m512i pairs, uint32_t bits, const struct unpacker *u)
{
	const __m512i mask = _mm512_set1_epi8(15);
	const __m512i even = _mm512_and_si512(pairs, mask);
	const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(pairs, bits), mask);
	return (struct codes){_mm512_shuffle_epi8(u->even, even),
			      _mm512_shuffle_epi8(u->even, odd)};
}

/* A row's 2 bytes, as a number of 32 bits: the upper one moves up by 8, and in each the upper half
 * by 4 more. */
ALWAYS_INLINE __m512i pairs_tq2(const uint8_t *unit)
{
	const __m512i rows =
		_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)unit));
	const __m512i bytes = _mm512_or_si512(rows, _mm512_slli_epi32(rows, 8));
	const __m512i low = _mm512_and_si512(bytes, _mm512_set1_epi32(0x000f000f));
	const __m512i high =
		_mm512_and_si512(_mm512_slli_epi32(bytes, 4), _mm512_set1_epi32(0x0f000f00));
	return _mm512_or_si512(low, high);
}

/* A row's 3 bytes b0 b1 b2: first the 12 bytes of four rows into each 128-bit lane, then the 16-bit
 * words b0b1 and b1b2, in which the pairs of indices begin at bits 0 and 6, 4 and 10. Of the 64
 * bytes read 48 are used; the rest of the last read of a tile falls on its norms. */
ALWAYS_INLINE __m512i pairs_tq3(const uint8_t *unit, const struct unpacker *u)
{
	const __m512i spread = _mm512_broadcast_i32x4(
		_mm_setr_epi8(0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11));
	const __m512i rows = _mm512_permutexvar_epi32(u->place, _mm512_loadu_si512(unit));
	const __m512i words = _mm512_shuffle_epi8(rows, spread);
	const __m512i first = _mm512_srlv_epi16(words, u->shifts);
	const __m512i second =
		_mm512_srlv_epi16(words, _mm512_add_epi16(u->shifts, _mm512_set1_epi16(6)));
	const __m512i low = _mm512_and_si512(first, _mm512_set1_epi16(0x003f));
	const __m512i high = _mm512_slli_epi16(second, 8);
	return _mm512_or_si512(low, high);
}

ALWAYS_INLINE struct codes make_codes(const uint8_t *unit, const struct unpacker *u, uint32_t bits)
{
	const __m512i pairs = bits == 2	  ? pairs_tq2(unit)
			      : bits == 3 ? pairs_tq3(unit, u)
					  : _mm512_loadu_si512(unit);
	return look_up(pairs, bits, u);
}

static struct unpacker make_unpacker(uint32_t bits)
{
	const struct tq_codebook *book = tq_codebook(bits);
	_Alignas(16) int8_t table[16];

	for (size_t i = 0; i < 16; i++)
		table[i] = book->integer[i % book->levels];
	return (struct unpacker){
		.even = _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)(void *)table)),
		.place = _mm512_setr_epi32(0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0, 9, 10, 11, 0),
		.shifts = _mm512_set1_epi32(0x00040000), /* of the words b0b1 and b1b2 */
	};
}

void avx512_multiply_tq2(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	const struct unpacker u = make_unpacker(2);
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &u, 2);
}

void avx512_multiply_tq3(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	const struct unpacker u = make_unpacker(3);
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &u, 3);
}

void avx512_multiply_tq4(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	const struct unpacker u = make_unpacker(4);
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &u, 4);
}

#endif

/* AVX2 products of TC matrices.
 *
 * A code is the sum of two entries of tables: by the nibble that ends with the position's newest
 * bit, and by an earlier position's. So each nibble is laid bare once and looked up twice. The bits
 * before those of a byte are in the same byte of the plane before; before a tile's first plane lies
 * its last, each row's four bytes moved on by one.
 *
 * Codes are at most 63 in magnitude and get an offset that makes them unsigned: two products are
 * never more than 16 bits hold, whatever the inputs, and one token is multiplied as several are.
 */
#if defined(__x86_64__)

#include "kernels/avx2_tq.h"
#include "kernels/tc_product.h"

struct maker {
	__m256i a[TC_TURNS], b[TC_TURNS]; /* the codebook's tables; a with the offset */
};
/* Of the position before, and of the one before that, in eight rows. */
struct before {
	__m256i nibbles[TC_MOST_BACK];
};

ALWAYS_INLINE __m256i bare_nibbles(__m256i v, size_t shift)
{
	return _mm256_and_si256(_mm256_srli_epi16(v, (int)shift), _mm256_set1_epi8(15));
}

/* Before the first position of a tile, of which these are eight rows. */
ALWAYS_INLINE struct before begin_tile(const uint8_t *rows, size_t bits)
{
	const __m256i last = load32(rows + SLABS * tq_slab_bytes(bits) - PLANE_BYTES);
	const __m256i plane =
		_mm256_or_si256(_mm256_slli_epi32(last, 8), _mm256_srli_epi32(last, 24));
	struct before b = {{{0}}};

	for (size_t i = 0; i < tc_back((uint32_t)bits); i++)
		b.nibbles[i] = bare_nibbles(plane, 4 - i * bits);
	return b;
}

/* The nibble of position i of each unit of eight rows, whose first plane begins there; `before` is
 * that of the position before. */
ALWAYS_INLINE __m256i nibbles_at(const uint8_t *planes, size_t i, __m256i before, size_t bits)
{
	const uint8_t *plane = planes + ((i + 1) * bits - 1) / 8 * PLANE_BYTES;
	const size_t turn = tc_turn(i, bits);
	const int8_t newer = (int8_t)((1 << turn) - 1);
	const __m256i v = load32(plane);

	if (!turn)
		return bare_nibbles(v, tc_bits_here(i, bits) - 4);
	const __m256i older = tc_follows_byte(i, bits)
				      ? before
				      : _mm256_srli_epi16(load32(plane - PLANE_BYTES), 4);
	return _mm256_or_si256(_mm256_and_si256(v, _mm256_set1_epi8(newer)),
			       _mm256_and_si256(older, _mm256_set1_epi8((int8_t)(15 - newer))));
}

ALWAYS_INLINE __m256i make_code(struct before *b, const uint8_t *planes, size_t i,
				const struct maker *m, size_t bits)
{
	const __m256i nibbles = nibbles_at(planes, i, b->nibbles[0], bits);
	const __m256i codes =
		_mm256_add_epi8(_mm256_shuffle_epi8(m->a[tc_turn(i, bits)], nibbles),
				_mm256_shuffle_epi8(m->b[tc_turn_back(i, bits)],
						    b->nibbles[tc_back((uint32_t)bits) - 1]));

	b->nibbles[1] = b->nibbles[0];
	b->nibbles[0] = nibbles;
	return codes;
}

ALWAYS_INLINE void prepare_side(union side *side, const int8_t *q, size_t groups)
{
	for (size_t g = 0; g < groups; g++)
		side->start[g] = -TC_OFFSET * sum_of_group(q + g * TQ_GROUP);
}

ALWAYS_INLINE void dot_group(__m256i dots[HALVES], const uint8_t *tile, const int8_t *q,
			     const union side *side, size_t g, const struct maker *m, size_t bits)
{
	struct before before[HALVES];

	for (size_t half = 0; half < HALVES; half++) {
		dots[half] = _mm256_set1_epi32(side->start[g]);
		before[half] = begin_tile(tile + half * HALF_PLANE, bits);
	}
	for (size_t slab = 0; slab < SLABS; slab++) {
		const uint8_t *planes = tile + slab * tq_slab_bytes(bits);
#pragma GCC unroll 8
		for (size_t i = 0; i < TQ_UNIT; i++) {
			const __m256i x = load_four(q + slab * TQ_SLAB + i * SLAB_UNITS);
			for (size_t half = 0; half < HALVES; half++) {
				const __m256i codes = make_code(
					&before[half], planes + half * HALF_PLANE, i, m, bits);
				const __m256i pairs = _mm256_maddubs_epi16(codes, x);
				dots[half] = add_now(
					dots[half], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
			}
		}
	}
}

ALWAYS_INLINE void unpack(struct unpacked *to, const uint8_t *tile, const struct maker *m,
			  size_t bits)
{
	for (size_t half = 0; half < HALVES; half++) {
		struct before before = begin_tile(tile + half * HALF_PLANE, bits);
		for (size_t slab = 0; slab < SLABS; slab++) {
			const uint8_t *planes =
				tile + slab * tq_slab_bytes(bits) + half * HALF_PLANE;
#pragma GCC unroll 8
			for (size_t i = 0; i < TQ_UNIT; i++)
				to->codes[slab * TQ_UNIT + i][half] =
					make_code(&before, planes, i, m, bits);
		}
	}
}

ALWAYS_INLINE __m256i load_table(const int8_t table[16], size_t turn, int8_t offset)
{
	_Alignas(16) int8_t turned[16];

	tc_turn_table(turned, table, turn, offset);
	return _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)(const void *)turned));
}

ALWAYS_INLINE void multiply(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			    uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n,
			    uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);
	struct maker m;

	for (size_t i = 0; i < TC_TURNS; i++) {
		m.a[i] = load_table(book->newest, i, TC_OFFSET);
		m.b[i] = load_table(book->before, i, 0);
	}
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &m, range_of(TC_OFFSET), bits);
}

void avx2_multiply_tc2(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply(y, ldy, w, row0, row1, x, tokens, n, 2);
}

void avx2_multiply_tc3(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply(y, ldy, w, row0, row1, x, tokens, n, 3);
}

void avx2_multiply_tc4(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply(y, ldy, w, row0, row1, x, tokens, n, 4);
}

#endif

/* AVX2 products of TC matrices.
 *
 * A code is the sum of two entries of tables: by the nibble that ends with the position's newest
 * bit, and by an earlier position's. So each nibble is extracted once and looked up twice. The bits
 * that precede a byte are in the same byte of the previous plane. The plane before a tile's first
 * is its last, with each row's four bytes rotated by one.
 *
 * Codes are at most 63 in magnitude and get an offset that makes them unsigned. Then the sum of two
 * products always fits in 16 bits, and the sum of four fits except for rare inputs. With several
 * tokens such inputs are clamped. With one token the groups that have such inputs (one in six) are
 * summed two by two, which is cheaper than multiplying by the excess. */
#if defined(__x86_64__)

enum { SUM_WORDS = 2 };

#include "kernels/avx2_tq.h"
#include "kernels/tc.h"

struct avx2_maker {
	__m256i a[TC_TURNS], b[TC_TURNS]; /* the codebook's tables; a with the offset */
};
/* Nibbles of the previous position and of the one before it, for eight rows. */
struct avx2_before {
	__m256i nibbles[TC_MOST_BACK];
};

ALWAYS_INLINE __m256i avx2_bare_nibbles(__m256i v, size_t shift)
{
	return _mm256_and_si256(_mm256_srli_epi16(v, (int)shift), _mm256_set1_epi8(15));
}

/* State before the first position of eight rows of a tile. */
ALWAYS_INLINE struct avx2_before avx2_begin_tile(const uint8_t *rows, size_t bits)
{
	const __m256i last = avx2_load32(rows + SLABS * tq_slab_bytes(bits) - PLANE_BYTES);
	const __m256i plane = _mm256_shuffle_epi8(
		last, _mm256_set_epi32(0x0e0d0c0f, 0x0a09080b, 0x06050407, 0x02010003, 0x0e0d0c0f,
				       0x0a09080b, 0x06050407, 0x02010003));
	struct avx2_before b = {{{0}}};

	for (size_t i = 0; i < tc_back((uint32_t)bits); i++)
		b.nibbles[i] = avx2_bare_nibbles(plane, 4 - i * bits);
	return b;
}

/* The nibble of position i of each unit of eight rows, whose first plane begins at `planes`;
 * `before` is the previous position's. */
ALWAYS_INLINE __m256i avx2_nibbles_at(const uint8_t *planes, size_t i, __m256i before, size_t bits)
{
	const uint8_t *plane = planes + ((i + 1) * bits - 1) / 8 * PLANE_BYTES;
	const size_t turn = tc_turn(i, bits);
	const int8_t newer = (int8_t)((1 << turn) - 1);
	const __m256i v = avx2_load32(plane);

	if (!turn)
		return avx2_bare_nibbles(v, tc_bits_here(i, bits) - 4);
	const __m256i older = tc_follows_byte(i, bits)
				      ? before
				      : _mm256_srli_epi16(avx2_load32(plane - PLANE_BYTES), 4);
	return _mm256_or_si256(_mm256_and_si256(v, _mm256_set1_epi8(newer)),
			       _mm256_and_si256(older, _mm256_set1_epi8((int8_t)(15 - newer))));
}

/* Tables of a turn are loaded where they are needed: there are too few registers for all, and gcc
 * would load them for each half. */
ALWAYS_INLINE __m256i avx2_table_now(const __m256i *tables, size_t turn)
{
	__m256i v;
	if (!turn)
		return tables[0];
	__asm__ volatile("vmovdqa %1, %0" : "=x"(v) : "m"(tables[turn]));
	return v;
}

/* The two tables whose entries add up to a position's code. */
struct avx2_tables {
	__m256i a, b;
};
ALWAYS_INLINE struct avx2_tables avx2_tables_at(const struct avx2_maker *m, size_t i, size_t bits)
{
	return (struct avx2_tables){avx2_table_now(m->a, tc_turn(i, bits)),
				    avx2_table_now(m->b, tc_turn_back(i, bits))};
}

ALWAYS_INLINE __m256i avx2_make_code(struct avx2_before *b, const uint8_t *planes, size_t i,
				     const struct avx2_tables *t, size_t bits)
{
	const __m256i nibbles = avx2_nibbles_at(planes, i, b->nibbles[0], bits);
	const __m256i codes =
		_mm256_add_epi8(_mm256_shuffle_epi8(t->a, nibbles),
				_mm256_shuffle_epi8(t->b, b->nibbles[tc_back((uint32_t)bits) - 1]));

	b->nibbles[1] = b->nibbles[0];
	b->nibbles[0] = nibbles;
	return codes;
}

/* Whether the products of each two words of a group fit in 16 bits, whatever the codes are. */
ALWAYS_INLINE bool avx2_pairs_fit(const int8_t *q, int16_t most)
{
	__m256i beyond = _mm256_setzero_si256();

	for (size_t k = 0; k < TQ_GROUP; k += sizeof beyond)
		beyond = _mm256_or_si256(
			beyond, avx2_beyond_range(avx2_load32((const uint8_t *)q + k), most));
	return _mm256_testz_si256(beyond, beyond);
}

ALWAYS_INLINE void avx2_prepare_side(union avx2_side *side, const int8_t *q, size_t groups)
{
	for (size_t g = 0; g < groups; g++, q += TQ_GROUP) {
		side->start[g] = -TC_OFFSET * avx2_sum_of_group(q);
		side->pairs_fit[g] = avx2_pairs_fit(q, avx2_range_of(TC_OFFSET).most);
	}
}

/* The dots of a slab. `fit`: products of two words are summed in 16 bits. */
ALWAYS_INLINE void avx2_dot_slab(__m256i dots[AVX2_HALVES], struct avx2_before before[AVX2_HALVES],
				 const uint8_t *planes, const int8_t *q, const struct avx2_maker *m,
				 bool fit, size_t bits)
{
	const __m256i ones = _mm256_set1_epi16(1);

#pragma GCC unroll 4
	for (size_t i = 0; i < TQ_UNIT; i += 2) {
		const struct avx2_tables t[2] = {avx2_tables_at(m, i, bits),
						 avx2_tables_at(m, i + 1, bits)};
		const __m256i x[2] = {avx2_load_four(q + i * SLAB_UNITS),
				      avx2_load_four(q + (i + 1) * SLAB_UNITS)};
		for (size_t half = 0; half < AVX2_HALVES; half++) {
			const uint8_t *rows = planes + half * AVX2_HALF_PLANE;
			__m256i pairs[2];
			for (size_t j = 0; j < 2; j++)
				pairs[j] = _mm256_maddubs_epi16(
					avx2_make_code(&before[half], rows, i + j, &t[j], bits),
					x[j]);
			if (fit)
				pairs[1] = _mm256_add_epi16(pairs[0], pairs[1]);
			else
				dots[half] =
					avx2_add_now(dots[half], _mm256_madd_epi16(pairs[0], ones));
			dots[half] = avx2_add_now(dots[half], _mm256_madd_epi16(pairs[1], ones));
		}
	}
}

ALWAYS_INLINE void avx2_dot_slabs(__m256i dots[AVX2_HALVES], struct avx2_before before[AVX2_HALVES],
				  const uint8_t *tile, const int8_t *q, const struct avx2_maker *m,
				  bool fit, size_t bits)
{
	for (size_t slab = 0; slab < SLABS; slab++)
		avx2_dot_slab(dots, before, tile + slab * tq_slab_bytes(bits), q + slab * TQ_SLAB,
			      m, fit, bits);
}

ALWAYS_INLINE void avx2_dot_group(__m256i dots[AVX2_HALVES], const uint8_t *tile, const int8_t *q,
				  const union avx2_side *side, size_t g, const struct avx2_maker *m,
				  size_t bits)
{
	struct avx2_before before[AVX2_HALVES];

	for (size_t half = 0; half < AVX2_HALVES; half++) {
		dots[half] = _mm256_set1_epi32(side->start[g]);
		before[half] = avx2_begin_tile(tile + half * AVX2_HALF_PLANE, bits);
	}
	if (side->pairs_fit[g])
		avx2_dot_slabs(dots, before, tile, q, m, true, bits);
	else
		avx2_dot_slabs(dots, before, tile, q, m, false, bits);
}

ALWAYS_INLINE void avx2_unpack(struct avx2_unpacked *to, const uint8_t *tile,
			       const struct avx2_maker *m, size_t bits)
{
	for (size_t half = 0; half < AVX2_HALVES; half++) {
		struct avx2_before before = avx2_begin_tile(tile + half * AVX2_HALF_PLANE, bits);
		for (size_t slab = 0; slab < SLABS; slab++) {
			const uint8_t *planes =
				tile + slab * tq_slab_bytes(bits) + half * AVX2_HALF_PLANE;
#pragma GCC unroll 8
			for (size_t i = 0; i < TQ_UNIT; i++) {
				const struct avx2_tables t = avx2_tables_at(m, i, bits);
				to->codes[slab * TQ_UNIT + i][half] =
					avx2_make_code(&before, planes, i, &t, bits);
			}
		}
	}
}

ALWAYS_INLINE __m256i avx2_load_table(const int8_t table[16], size_t turn, int8_t offset)
{
	_Alignas(16) int8_t turned[16];

	tc_turn_table(turned, table, turn, offset);
	return _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)(const void *)turned));
}

ALWAYS_INLINE void avx2_multiply_tc(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				    uint32_t row1, const struct input *x, const uint32_t *tokens,
				    size_t n, uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);
	struct avx2_maker m;

	for (size_t i = 0; i < TC_TURNS; i++) {
		m.a[i] = avx2_load_table(book->newest, i, TC_OFFSET);
		m.b[i] = avx2_load_table(book->before, i, 0);
	}
	avx2_multiply_groups(y, ldy, w, row0, row1, x, tokens, n, &m, avx2_range_of(TC_OFFSET),
			     bits);
}

void avx2_multiply_tc2(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	avx2_multiply_tc(y, ldy, w, row0, row1, x, tokens, n, 2);
}

void avx2_multiply_tc3(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	avx2_multiply_tc(y, ldy, w, row0, row1, x, tokens, n, 3);
}

void avx2_multiply_tc4(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	avx2_multiply_tc(y, ldy, w, row0, row1, x, tokens, n, 4);
}

#endif

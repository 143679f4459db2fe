/* Codes of TC matrices for AVX-512, with and without VNNI and VBMI.
 *
 * A code is the sum of two entries of tables: by the nibble that ends with the position's newest
 * bit, and by an earlier position's. So each nibble is laid bare once and looked up twice. The bits
 * before those of a byte are in the same byte of the plane before; before a tile's first plane lies
 * its last, each row's four bytes moved on by one.
 *
 * Codes have an offset that makes them unsigned, so all sums begin with what it adds to them.
 */
#ifndef MOEFS_KERNELS_AVX512_TC_H
#define MOEFS_KERNELS_AVX512_TC_H

#include "kernels/avx512_tq.h"
#include "kernels/tc.h"

struct avx512_maker {
	__m512i a[TC_TURNS], b[TC_TURNS]; /* the codebook, repeated; a with the offset */
	__m512i nibbles[TC_MOST_BACK];	  /* of the position before, and of the one before that */
};

/* To be defined by whoever includes this: nibbles in the lower halves of bytes, with anything above
 * them, as lookup wants them; and a table's entries for them. */
ALWAYS_INLINE __m512i avx512_bare_nibbles(__m512i v);
ALWAYS_INLINE __m512i avx512_look_up(__m512i table, __m512i nibbles);

ALWAYS_INLINE int32_t avx512_first_sum(const int8_t q[TQ_GROUP])
{
	return -TC_OFFSET * avx512_sum_of_group(q);
}

ALWAYS_INLINE void avx512_begin_tile(struct avx512_maker *m, const uint8_t *tile, uint32_t bits)
{
	const __m512i last = avx512_load_plane(tile + (SLABS - 1) * tq_slab_bytes(bits), bits - 1);
	const __m512i before = _mm512_rol_epi32(last, 8);

	for (unsigned i = 0; i < tc_back(bits); i++)
		m->nibbles[i] = avx512_bare_nibbles(_mm512_srli_epi16(before, 4 - i * bits));
}

/* The nibble of position i of each unit; `before` is that of the position before. */
ALWAYS_INLINE __m512i avx512_nibbles_at(const uint8_t *slab, size_t i, __m512i before, size_t bits)
{
	const size_t plane = ((i + 1) * bits - 1) / 8, turn = tc_turn(i, bits);
	const __m512i v = avx512_load_plane(slab, plane);
	const __m512i newer = _mm512_set1_epi8((int8_t)((1 << turn) - 1));

	if (!turn)
		return avx512_bare_nibbles(
			_mm512_srli_epi16(v, (unsigned)tc_bits_here(i, bits) - 4));
	if (tc_follows_byte(i, bits))
		return _mm512_ternarylogic_epi32(newer, v, before, SELECT);
	return avx512_bare_nibbles(_mm512_ternarylogic_epi32(
		newer, v, _mm512_srli_epi16(avx512_load_plane(slab, plane - 1), 4), SELECT));
}

ALWAYS_INLINE __m512i avx512_make_code(struct avx512_maker *m, const uint8_t *slab, size_t i,
				       uint32_t bits)
{
	const __m512i nibbles = avx512_nibbles_at(slab, i, m->nibbles[0], bits);
	const __m512i codes = _mm512_add_epi8(
		avx512_look_up(m->a[tc_turn(i, bits)], nibbles),
		avx512_look_up(m->b[tc_turn_back(i, bits)], m->nibbles[tc_back(bits) - 1]));

	m->nibbles[1] = m->nibbles[0];
	m->nibbles[0] = nibbles;
	return codes;
}

ALWAYS_INLINE struct avx512_codes avx512_make_codes(struct avx512_maker *m, const uint8_t *slab,
						    size_t pair, uint32_t bits)
{
	const __m512i even = avx512_make_code(m, slab, 2 * pair, bits);

	return (struct avx512_codes){even, avx512_make_code(m, slab, 2 * pair + 1, bits)};
}

ALWAYS_INLINE __m512i avx512_load_table(const int8_t table[16], size_t turn, int8_t offset)
{
	_Alignas(16) int8_t turned[16];

	tc_turn_table(turned, table, turn, offset);
	return _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)(const void *)turned));
}

ALWAYS_INLINE void avx512_multiply_tc(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				      uint32_t row1, const struct input *x, const uint32_t *tokens,
				      size_t n, uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);
	struct avx512_maker m;

	for (size_t i = 0; i < TC_TURNS; i++) {
		m.a[i] = avx512_load_table(book->newest, i, TC_OFFSET);
		m.b[i] = avx512_load_table(book->before, i, 0);
	}
	avx512_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &m, bits);
}

#endif

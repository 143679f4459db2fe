/* Codes of TQ and TC matrices in AVX-512 registers, with VNNI and VBMI (AVX512_VNNI) and without;
 * within kernels/ only.
 *
 * A slab's planes are registers whose 32-bit lanes are rows. Each plane becomes registers of codes,
 * for four columns each. Codes are made in pairs, of the indices 2j and 2j + 1 of each unit.
 *
 * A code of TC is the sum of two table entries: one for the nibble that ends with the position's
 * newest bit, and one for an earlier position's nibble. So each nibble is brought to the lower half
 * of its byte once and looked up twice. The bits that precede a byte are in the same byte of the
 * previous plane. The plane before a tile's first is its last, with each row's four bytes rotated
 * by one. With VBMI a code of 3-bit TC is one lookup instead, in a table of all windows.
 *
 * The including file may define before:
 *
 *     AVX512_SIGNED                   codes are the codebook's integers; otherwise they have the
 *                                     offsets below, which make them unsigned if products need that
 *
 * Inlining makes `bits`, `trellis` (whether the format is TC) and the number of a pair
 * constants. */
#ifndef MOEFS_KERNELS_AVX512_TQ_CODES_H
#define MOEFS_KERNELS_AVX512_TQ_CODES_H

#include "kernels/avx512_lanes.h"
#include "kernels/tc.h"

enum {
	SLAB_PAIRS = TQ_UNIT / 2, /* registers of codes in pairs */
	SELECT = 0xca, /* vpternlog: bits of the second where the first has them set, else of the
			  third */
};

/* Added to codes. vpdpbusd multiplies unsigned by signed bytes. */
#if defined(AVX512_SIGNED)
enum { AVX512_TQ_OFFSET = 0, AVX512_TC_OFFSET = 0 };
#elif defined(AVX512_VNNI)
enum { AVX512_TQ_OFFSET = 128, AVX512_TC_OFFSET = TC_OFFSET };
#else
enum { AVX512_TQ_OFFSET = 0, AVX512_TC_OFFSET = TC_OFFSET };
#endif

enum { TC3_WINDOW = 7 }; /* bits */

struct avx512_codes {
	__m512i even, odd;
};

/* Tables for making codes, and TC's previous codes. */
struct avx512_maker {
#ifdef AVX512_VNNI
	__m512i even, odd; /* TQ */
	/* TC of 3 bits: codes of windows 0 … 63 and 64 … 127, by the place of the newest bit; and
	 * the previous plane, shifted down by one bit. */
	__m512i low[TC3_WINDOW], high[TC3_WINDOW], lowered;
#else
	__m512i codebook; /* TQ */
#endif
	__m512i a[TC_TURNS], b[TC_TURNS]; /* TC: the codebook, repeated; the offset is in a */
	__m512i nibbles[TC_MOST_BACK]; /* TC: nibbles of the two previous positions */
};

ALWAYS_INLINE __m512i avx512_load_plane(const uint8_t *slab, size_t plane)
{
	return _mm512_loadu_si512(slab + plane * PLANE_BYTES);
}

/* In each byte: `here` bits of low from `shift` on, above them the lowest bits of high. */
ALWAYS_INLINE __m512i avx512_across(__m512i low, size_t shift, __m512i high, size_t here)
{
	const __m512i low_mask = _mm512_set1_epi8((int8_t)((1 << here) - 1));
	return _mm512_ternarylogic_epi32(low_mask, _mm512_srli_epi16(low, (unsigned)shift),
					 _mm512_slli_epi16(high, (unsigned)here), SELECT);
}

/* ---- codes of TQ ---- */

#ifdef AVX512_VNNI
/* A byte permutation reads 6 bits of an index: two indices of 3 bits, or one of 4 bits and two
 * other bits. So the codebooks are tables of 64 bytes, with entries repeated so that the other bits
 * need no mask: the "even" table uses the lowest bits, the "odd" one the bits above them. One shift
 * brings two indices into place in each byte of a plane. */

/* Indices 2 · pair and 2 · pair + 1 of each unit in the lower bits of each byte; the bits above
 * them are undefined. */
ALWAYS_INLINE __m512i avx512_pairs_at(const uint8_t *slab, size_t pair, size_t bits)
{
	const size_t begin = 2 * pair * bits, plane = begin / 8, shift = begin % 8;
	const __m512i low = avx512_load_plane(slab, plane);

	return shift + 2 * bits <= 8
		       ? _mm512_srli_epi16(low, (unsigned)shift)
		       : avx512_across(low, shift, avx512_load_plane(slab, plane + 1), 8 - shift);
}

/* Two indices of 4 bits are more than one permutation reads. */
ALWAYS_INLINE struct avx512_codes
avx512_look_up_pair(const struct avx512_maker *m, const uint8_t *slab, size_t pair, uint32_t bits)
{
	const __m512i pairs = avx512_pairs_at(slab, pair, bits);
	const __m512i odd = bits == 4 ? _mm512_srli_epi16(pairs, 4) : pairs;
	return (struct avx512_codes){_mm512_permutexvar_epi8(pairs, m->even),
				     _mm512_permutexvar_epi8(odd, m->odd)};
}

/* Byte i has the value i. */
ALWAYS_INLINE __m512i avx512_bytes(void)
{
	return _mm512_add_epi64(_mm512_set1_epi64(0x0706050403020100),
				_mm512_mullo_epi64(_mm512_setr_epi64(0, 8, 16, 24, 32, 40, 48, 56),
						   _mm512_set1_epi64(0x0101010101010101)));
}

/* Inlining makes bits a constant, since a call may have only one tile. */
ALWAYS_INLINE void avx512_load_codebook(struct avx512_maker *m, uint32_t bits)
{
	const int8_t *integer = tq_codebook(bits)->integer;
	const __m128i book = _mm_loadu_si128((const __m128i *)(const void *)integer);
	const __m512i codes = _mm512_add_epi8(_mm512_broadcast_i32x4(book),
					      _mm512_set1_epi8((int8_t)AVX512_TQ_OFFSET));
	const __m512i byte = avx512_bytes();
	const __m512i index = _mm512_set1_epi8((int8_t)((1 << bits) - 1));
	const __m512i even = _mm512_permutexvar_epi8(_mm512_and_si512(byte, index), codes);
	m->even = m->odd = even;
	if (bits == 4)
		return;
	const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(byte, bits), index);
	m->odd = _mm512_permutexvar_epi8(odd, codes);
}
#else
/* A shuffle looks up 4 bits, as in AVX2. A shift and a mask leave them in each byte of a plane; two
 * of each if an index begins in one plane and ends in the next. */

/* Index i (0 … 7) of each unit in the lower bits of each byte. The bits above are undefined, except
 * that the upper half of the byte is zero: the shuffle reads the low four bits and the highest. */
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

ALWAYS_INLINE struct avx512_codes
avx512_look_up_pair(const struct avx512_maker *m, const uint8_t *slab, size_t pair, uint32_t bits)
{
	return (struct avx512_codes){
		_mm512_shuffle_epi8(m->codebook, avx512_indices(slab, 2 * pair, bits)),
		_mm512_shuffle_epi8(m->codebook, avx512_indices(slab, 2 * pair + 1, bits))};
}

ALWAYS_INLINE void avx512_load_codebook(struct avx512_maker *m, uint32_t bits)
{
	const struct tq_codebook *book = tq_codebook(bits);
	_Alignas(16) int8_t table[16];

	for (size_t i = 0; i < 16; i++)
		table[i] = book->integer[i % book->levels];
	m->codebook = _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)(void *)table));
}
#endif

/* ---- codes of TC ---- */

/* avx512_bare_nibbles: nibbles in the lower halves of bytes, with undefined bits above, for
 * avx512_look_up. */
#ifdef AVX512_VNNI
/* A byte permutation reads 6 bits, so a table that is repeated four times needs no mask. */
ALWAYS_INLINE __m512i avx512_bare_nibbles(__m512i v)
{
	return v;
}

ALWAYS_INLINE __m512i avx512_look_up(__m512i table, __m512i nibbles)
{
	return _mm512_permutexvar_epi8(nibbles, table);
}

#else
/* A shuffle also reads the highest bit. */
ALWAYS_INLINE __m512i avx512_bare_nibbles(__m512i v)
{
	return _mm512_and_si512(v, _mm512_set1_epi8(15));
}

ALWAYS_INLINE __m512i avx512_look_up(__m512i table, __m512i nibbles)
{
	return _mm512_shuffle_epi8(table, nibbles);
}

#endif

ALWAYS_INLINE void avx512_begin_ring(struct avx512_maker *m, const uint8_t *tile, uint32_t bits)
{
	const __m512i last = avx512_load_plane(tile + (SLABS - 1) * tq_slab_bytes(bits), bits - 1);
	const __m512i before = _mm512_rol_epi32(last, 8);

	for (unsigned i = 0; i < tc_back(bits); i++)
		m->nibbles[i] = avx512_bare_nibbles(_mm512_srli_epi16(before, 4 - i * bits));
}

/* The nibble of position i of each unit; `before` is the previous position's. */
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

ALWAYS_INLINE __m512i avx512_load_table(const int8_t table[16], size_t turn, int8_t offset)
{
	_Alignas(16) int8_t turned[16];

	tc_turn_table(turned, table, turn, offset);
	return _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)(const void *)turned));
}

/* ---- codes of TC with 3 bits, by whole windows ---- */

#ifdef AVX512_VNNI
/* A permutation of two registers reads 7 bits, a whole window of 3-bit TC: one lookup and no
 * addition. The window that ends with bit `here` - 1 of a byte takes its newest bits from there,
 * and above them, like a nibble, the last bits of the previous plane. That plane is shifted down by
 * one bit, so that its bits are next to the 7 that are read. */
enum { WHOLE_WINDOWS = 3 /* bits */ };

/* The codes of windows `first` … `first` + 63, in the order in which they are read. */
ALWAYS_INLINE __m512i avx512_windows(__m512i newest, __m512i before, uint32_t first, size_t here)
{
	const size_t older = TC3_WINDOW - here;
	const __m512i read = _mm512_or_si512(avx512_bytes(), _mm512_set1_epi8((int8_t)first)),
		      newer = _mm512_set1_epi8((int8_t)((1 << here) - 1)),
		      window = _mm512_or_si512(
			      _mm512_slli_epi16(_mm512_and_si512(read, newer), (unsigned)older),
			      _mm512_srli_epi16(_mm512_andnot_si512(newer, read), (unsigned)here)),
		      nibble = _mm512_srli_epi16(_mm512_and_si512(window, _mm512_set1_epi8(0x78)),
						 3);
	return _mm512_add_epi8(avx512_look_up(newest, nibble), avx512_look_up(before, window));
}

ALWAYS_INLINE void avx512_load_windows(struct avx512_maker *m)
{
	const struct tc_codebook *book = tc_codebook(WHOLE_WINDOWS);
	const __m512i newest = avx512_load_table(book->newest, 0, AVX512_TC_OFFSET),
		      before = avx512_load_table(book->before, 0, 0);

#pragma GCC unroll 7
	for (size_t here = 1; here <= TC3_WINDOW; here++) {
		m->low[here - 1] = avx512_windows(newest, before, 0, here);
		m->high[here - 1] = avx512_windows(newest, before, 64, here);
	}
}

ALWAYS_INLINE __m512i avx512_lower(__m512i plane)
{
	return _mm512_srli_epi16(plane, 1);
}

ALWAYS_INLINE void avx512_begin_windows(struct avx512_maker *m, const uint8_t *tile)
{
	const uint8_t *slab = tile + (SLABS - 1) * tq_slab_bytes(WHOLE_WINDOWS);
	m->lowered = avx512_lower(_mm512_rol_epi32(avx512_load_plane(slab, WHOLE_WINDOWS - 1), 8));
}

ALWAYS_INLINE __m512i avx512_make_whole(struct avx512_maker *m, const uint8_t *slab, size_t i)
{
	const size_t plane = ((i + 1) * WHOLE_WINDOWS - 1) / 8,
		     here = tc_bits_here(i, WHOLE_WINDOWS),
		     table = (here < TC3_WINDOW ? here : TC3_WINDOW) - 1;
	const __m512i v = avx512_load_plane(slab, plane);
	__m512i window = v;

	if (here < TC3_WINDOW)
		window = _mm512_ternarylogic_epi32(
			_mm512_set1_epi8((int8_t)((1 << here) - 1)), v,
			plane ? avx512_lower(avx512_load_plane(slab, plane - 1)) : m->lowered,
			SELECT);
	else if (here > TC3_WINDOW)
		window = m->lowered = avx512_lower(v);
	return _mm512_permutex2var_epi8(m->low[table], window, m->high[table]);
}
#else
enum { WHOLE_WINDOWS = 0 };

ALWAYS_INLINE void avx512_load_windows(struct avx512_maker *m)
{
	(void)m;
}

ALWAYS_INLINE void avx512_begin_windows(struct avx512_maker *m, const uint8_t *tile)
{
	(void)m;
	(void)tile;
}

ALWAYS_INLINE __m512i avx512_make_whole(struct avx512_maker *m, const uint8_t *slab, size_t i)
{
	(void)m;
	(void)i;
	return avx512_load_plane(slab, 0);
}
#endif

/* ---- codes of both ---- */

/* Call before the first pair of a tile. */
ALWAYS_INLINE void avx512_begin_tile(struct avx512_maker *m, const uint8_t *tile, uint32_t bits,
				     bool trellis)
{
	if (trellis && bits == WHOLE_WINDOWS)
		avx512_begin_windows(m, tile);
	else if (trellis)
		avx512_begin_ring(m, tile, bits);
}

/* Codes 2 · pair and 2 · pair + 1 of a slab; all pairs of a tile are made
 * in order. */
ALWAYS_INLINE struct avx512_codes avx512_make_codes(struct avx512_maker *m, const uint8_t *slab,
						    size_t pair, uint32_t bits, bool trellis)
{
	if (!trellis)
		return avx512_look_up_pair(m, slab, pair, bits);
	if (bits == WHOLE_WINDOWS) {
		const __m512i even = avx512_make_whole(m, slab, 2 * pair);
		return (struct avx512_codes){even, avx512_make_whole(m, slab, 2 * pair + 1)};
	}
	const __m512i even = avx512_make_code(m, slab, 2 * pair, bits);
	return (struct avx512_codes){even, avx512_make_code(m, slab, 2 * pair + 1, bits)};
}

ALWAYS_INLINE void avx512_make_maker(struct avx512_maker *m, uint32_t bits, bool trellis)
{
	if (!trellis) {
		avx512_load_codebook(m, bits);
		return;
	}
	if (bits == WHOLE_WINDOWS) {
		avx512_load_windows(m);
		return;
	}
	const struct tc_codebook *book = tc_codebook(bits);
	for (size_t i = 0; i < TC_TURNS; i++) {
		m->a[i] = avx512_load_table(book->newest, i, AVX512_TC_OFFSET);
		m->b[i] = avx512_load_table(book->before, i, 0);
	}
}

/* ---- norms ---- */

ALWAYS_INLINE __m512 avx512_load_norms(const uint8_t *p, enum norm_type type)
{
	return type == NORM_F16
		       ? _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p))
		       : _mm512_loadu_ps(p);
}

#endif

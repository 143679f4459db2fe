/* The AVX-512 products of TQ and TC matrices, with VNNI and VBMI (AVX512_VNNI) and without;
 * included once by avx512_tq.c and by avx512vnni_tq.c.
 *
 * A slab's planes are registers whose 32-bit lanes are rows. Each becomes registers of codes, for
 * four columns each, and each of these meets one 32-bit word of the input in all lanes at once:
 * nothing is ever summed across lanes. Codes are made in pairs, of the indices 2j and 2j + 1 of
 * each unit.
 *
 * A code of TC is the sum of two entries of tables: by the nibble that ends with the position's
 * newest bit, and by an earlier position's. So each nibble is brought to the lower half of its byte
 * once and looked up twice. The bits that precede a byte are in the same byte of the previous
 * plane. The plane before a tile's first is its last, with each row's four bytes rotated by one.
 * TC's codes have an offset that makes them unsigned; the sums begin with the offset's part. With
 * VBMI a code of 3-bit TC is one lookup instead, in a table of all windows.
 *
 * Codes are multiplied as they are made, and not kept: to store them and to load them again takes
 * about as long as to make them again for the next 12 tokens. One token reads its input in
 * place. Several tokens are gathered first, a panel of groups × tokens that stays in the cache for
 * all rows of the call, and multiplied in blocks of at most 12: their sums and the tables stay in
 * registers. (Without VNNI codes are kept for many tokens: avx512_tq_kept.h.)
 *
 * Where these functions are inlined, `bits`, `trellis` (whether the format is TC) and the numbers
 * of units and pairs are constants. */
#ifndef MOEFS_KERNELS_AVX512_TQ_H
#define MOEFS_KERNELS_AVX512_TQ_H

#include "kernels/avx512_lanes.h"
#include "kernels/tq_product.h"

enum {
	SLAB_PAIRS = TQ_UNIT / 2, /* of registers of codes */
	BLOCK_TOKENS = 12,	  /* multiplied together */
	TWO_SUMS_TOKENS = 3,	  /* of a block that has two sums for each */
	PANEL_TOKENS = 48,	  /* gathered together */
	PANEL_GROUPS = 384,	  /* groups in a panel, of all its tokens: 48 KiB */
	AHEAD = 8192,		  /* prefetched, in bytes, also past the end of a matrix */
	SELECT = 0xca, /* vpternlog: bits of the second where the first has them set, else of the
			  third */
};

enum { TC3_WINDOW = 7 }; /* bits */

struct avx512_codes {
	__m512i even, odd;
};

/* Tables for making codes, and TC's previous codes. */
struct avx512_maker {
#ifdef AVX512_VNNI
	__m512i even, odd; /* TQ */
	/* TC of 3 bits: codes of windows 0 … 63 and 64 … 127, by the place of the newest bit, and
	 * the plane before, one bit lower. */
	__m512i low[TC3_WINDOW], high[TC3_WINDOW], lowered;
#else
	__m512i codebook; /* TQ */
#endif
	__m512i a[TC_TURNS], b[TC_TURNS]; /* TC: the codebook, repeated; a with the offset */
	__m512i nibbles[TC_MOST_BACK]; /* TC: nibbles of the previous position and of the one before
					* it */
};

ALWAYS_INLINE int32_t avx512_load_word(const int8_t *q)
{
	int32_t four;
	memcpy(&four, q, sizeof four);
	return four;
}

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

/* Σ q */
ALWAYS_INLINE int32_t avx512_sum_of_group(const int8_t q[TQ_GROUP])
{
	const __m512i ones = _mm512_set1_epi8(1);
	const __m512i pairs =
		_mm512_add_epi16(_mm512_maddubs_epi16(ones, _mm512_loadu_si512(q)),
				 _mm512_maddubs_epi16(ones, _mm512_loadu_si512(q + 64)));
	return _mm512_reduce_add_epi32(_mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

/* ---- codes meet an input: sums[16] += codes[16][4] · q[4] ---- */

#ifdef AVX512_VNNI
/* vpdpbusd multiplies unsigned by signed bytes, so TQ's codes also are the codebook's integers plus
 * an offset. */
enum { AVX512_TQ_OFFSET = 128 };

ALWAYS_INLINE __m512i avx512_add_products(__m512i sums, __m512i codes, int32_t q, bool trellis)
{
	(void)trellis;
	return _mm512_dpbusd_epi32(sums, codes, _mm512_set1_epi32(q));
}
#else
enum { AVX512_TQ_OFFSET = 0 };

/* TC's codes are so small that no sum of two products saturates. TQ's codes are multiplied as
 * magnitudes, by inputs that take the codes' signs; whatever depends only on the codes is computed
 * once for all tokens. With an offset codebook vpmaddubsw would saturate. */
ALWAYS_INLINE __m512i avx512_add_products(__m512i sums, __m512i codes, int32_t q, bool trellis)
{
	const __m512i x = _mm512_set1_epi32(q);
	__m512i pairs;

	if (trellis) {
		pairs = _mm512_maddubs_epi16(codes, x);
	} else {
		const __m512i zero = _mm512_setzero_si512();
		const __m512i signed_x =
			_mm512_mask_sub_epi8(x, _mm512_movepi8_mask(codes), zero, x);
		pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(codes), signed_x);
	}
	return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
#endif

/* The initial value of all sums of a group with this input. */
ALWAYS_INLINE int32_t avx512_first_sum(const int8_t q[TQ_GROUP], bool trellis)
{
	const int32_t offset = trellis ? TC_OFFSET : AVX512_TQ_OFFSET;
	return offset ? -offset * avx512_sum_of_group(q) : 0;
}

/* ---- codes of TQ ---- */

#ifdef AVX512_VNNI
/* A byte permutation reads 6 bits of an index: two indices of 3 bits, or one of 4 bits and two
 * other bits. So the codebooks are tables of 64 bytes, repeated so that the other bits need no
 * mask: the "even" table goes by the lowest bits, the "odd" one by the bits above them. One shift
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

/* Two indices of 4 bits are more than a permutation reads. */
ALWAYS_INLINE struct avx512_codes
avx512_look_up_pair(const struct avx512_maker *m, const uint8_t *slab, size_t pair, uint32_t bits)
{
	const __m512i pairs = avx512_pairs_at(slab, pair, bits);
	const __m512i odd = bits == 4 ? _mm512_srli_epi16(pairs, 4) : pairs;
	return (struct avx512_codes){_mm512_permutexvar_epi8(pairs, m->even),
				     _mm512_permutexvar_epi8(odd, m->odd)};
}

/* Byte i holds i. */
ALWAYS_INLINE __m512i avx512_bytes(void)
{
	return _mm512_add_epi64(_mm512_set1_epi64(0x0706050403020100),
				_mm512_mullo_epi64(_mm512_setr_epi64(0, 8, 16, 24, 32, 40, 48, 56),
						   _mm512_set1_epi64(0x0101010101010101)));
}

/* bits is a constant where this is inlined, since a call may have only one tile. */
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

/* Index i (0 … 7) of each unit in the lower bits of each byte. The bits above it are undefined, but
 * the upper half of the byte is zero: the shuffle reads the low four bits and the highest. */
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

/* avx512_bare_nibbles: nibbles in the lower halves of bytes, undefined bits above them, as
 * avx512_look_up takes them. */
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
 * and above them, as a nibble does, the last bits of the plane before. That plane is lowered by one
 * bit, so that they come next to the 7 that are read. */
enum { WHOLE_WINDOWS = 3 /* bits */ };

/* The codes of windows `first` … `first` + 63 as they are read. */
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
	const __m512i newest = avx512_load_table(book->newest, 0, TC_OFFSET),
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

/* Before the first pair of a tile. */
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
		m->a[i] = avx512_load_table(book->newest, i, TC_OFFSET);
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

/* y = fmaf((float)I, norm · a, y) */
ALWAYS_INLINE __m512 avx512_add_group(__m512 y, __m512i dots, __m512 norms, float a)
{
	return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), _mm512_mul_ps(norms, _mm512_set1_ps(a)),
			       y);
}

/* ---- one token ---- */

/* Groups [g0, g0 + count) of all rows; start[g]: the initial sums of a group. */
ALWAYS_INLINE void avx512_multiply_one(const struct tq_product *p, size_t token, size_t g0,
				       size_t count, const int32_t *start, struct avx512_maker *m,
				       uint32_t bits, bool trellis)
{
	const int8_t *q = p->x->q + (token * p->groups + g0) * TQ_GROUP;
	const float *scale = p->x->scale + token * p->groups + g0;

	for (uint32_t r = 0; r < p->rows; r += TILE_ROWS) {
		const uint8_t *tile = p->w + r / TILE_ROWS * p->block_bytes + g0 * p->tile_bytes;
		const size_t left = p->rows - r;
		__m512 y = g0 ? lanes_load(p->y + r, left) : _mm512_setzero_ps();
		for (size_t g = 0; g < count; g++, tile += p->tile_bytes) {
			/* Four sums, so that none waits for the previous one. */
			__m512i even[2] = {_mm512_set1_epi32(start[g])}, odd[2] = {{0}};
			prefetch_lines((uintptr_t)tile + AHEAD, p->tile_bytes);
			avx512_begin_tile(m, tile, bits, trellis);
			for (size_t slab = 0; slab < SLABS; slab++) {
				const uint8_t *planes = tile + slab * tq_slab_bytes(bits);
				const int8_t *in = q + g * TQ_GROUP + slab * TQ_SLAB;
#pragma GCC unroll 4
				for (size_t i = 0; i < SLAB_PAIRS; i++, in += TQ_UNIT) {
					const struct avx512_codes c =
						avx512_make_codes(m, planes, i, bits, trellis);
					__m512i *e = &even[i % 2], *o = &odd[i % 2];
					*e = avx512_add_products(*e, c.even, avx512_load_word(in),
								 trellis);
					*o = avx512_add_products(*o, c.odd,
								 avx512_load_word(in + 4), trellis);
				}
			}
			const __m512i dots = _mm512_add_epi32(_mm512_add_epi32(even[0], odd[0]),
							      _mm512_add_epi32(even[1], odd[1]));
			y = avx512_add_group(
				y, dots, avx512_load_norms(tile + tq_slabs_bytes(bits), p->norms),
				scale[g] * p->gain);
		}
		lanes_store(p->y + r, left, y);
	}
}

ALWAYS_INLINE void avx512_multiply_token(const struct tq_product *p, size_t token,
					 struct avx512_maker *m, uint32_t bits, bool trellis)
{
	int32_t start[PANEL_GROUPS];

	for (size_t g0 = 0; g0 < p->groups; g0 += PANEL_GROUPS) {
		const size_t left = p->groups - g0;
		const size_t count = left < PANEL_GROUPS ? left : PANEL_GROUPS;
		const int8_t *q = p->x->q + (token * p->groups + g0) * TQ_GROUP;
		for (size_t g = 0; g < count; g++, q += TQ_GROUP)
			start[g] = avx512_first_sum(q, trellis);
		avx512_multiply_one(p, token, g0, count, start, m, bits, trellis);
	}
}

/* ---- several tokens ---- */

/* Some groups of some tokens, group after group: [groups][tokens]. */
struct avx512_panel {
	_Alignas(64) int8_t q[PANEL_GROUPS][TQ_GROUP];
	int32_t start[PANEL_GROUPS]; /* of the sums */
	float a[PANEL_GROUPS];	     /* scale · gain */
	size_t tokens, groups;
};

ALWAYS_INLINE void avx512_gather(struct avx512_panel *to, const struct tq_product *p,
				 const uint32_t *tokens, size_t first, size_t g0, bool trellis)
{
	for (size_t t = 0; t < to->tokens; t++) {
		const size_t at = (tokens ? tokens[first + t] : first + t) * p->groups + g0;
		for (size_t g = 0; g < to->groups; g++) {
			const int8_t *q = p->x->q + (at + g) * TQ_GROUP;
			const size_t i = g * to->tokens + t;
			memcpy(to->q[i], q, TQ_GROUP);
			to->start[i] = avx512_first_sum(q, trellis);
			to->a[i] = p->x->scale[at + g] * p->gain;
		}
	}
}

/* Where a block of a panel's tokens meets 16 rows. */
struct avx512_block {
	const struct avx512_panel *in;
	const uint8_t *tile;	  /* of the panel's first group */
	size_t first;		  /* token of the panel */
	size_t tile_bytes, ahead; /* ahead: prefetched, in bytes; 0: nothing is */
	enum norm_type norms;
};

ALWAYS_INLINE void avx512_start_sums(__m512i even[BLOCK_TOKENS], __m512i odd[BLOCK_TOKENS],
				     const int32_t *start, size_t count)
{
	for (size_t t = 0; t < count; t++) {
		even[t] = _mm512_set1_epi32(start[t]);
		odd[t] = _mm512_setzero_si512();
	}
}

/* q: the words of the first token. Few tokens have two sums each, so that no addition waits for
 * the previous one. */
ALWAYS_INLINE void avx512_add_pair(__m512i even[BLOCK_TOKENS], __m512i odd[BLOCK_TOKENS],
				   const int8_t *q, struct avx512_codes c, size_t count,
				   bool trellis)
{
	__m512i *second = count > TWO_SUMS_TOKENS ? even : odd;

	for (size_t t = 0; t < count; t++)
		even[t] = avx512_add_products(even[t], c.even, avx512_load_word(q + t * TQ_GROUP),
					      trellis);
	for (size_t t = 0; t < count; t++)
		second[t] = avx512_add_products(second[t], c.odd,
						avx512_load_word(q + t * TQ_GROUP + 4), trellis);
}

/* y[count][16 rows] += all groups of the panel. count is a constant where this is inlined, so that
 * sums stay in registers. */
ALWAYS_INLINE void avx512_multiply_groups(__m512 y[BLOCK_TOKENS], const struct avx512_block *b,
					  struct avx512_maker *m, size_t count, uint32_t bits,
					  bool trellis)
{
	const uint8_t *tile = b->tile;

	for (size_t g = 0; g < b->in->groups; g++, tile += b->tile_bytes) {
		const size_t at = g * b->in->tokens + b->first;
		const int8_t *q = b->in->q[at];
		__m512i even[BLOCK_TOKENS], odd[BLOCK_TOKENS];
		if (b->ahead)
			prefetch_lines((uintptr_t)tile + b->ahead, b->tile_bytes);
		avx512_start_sums(even, odd, b->in->start + at, count);
		avx512_begin_tile(m, tile, bits, trellis);
		for (size_t slab = 0; slab < SLABS; slab++, q += TQ_SLAB) {
#pragma GCC unroll 4
			for (size_t i = 0; i < SLAB_PAIRS; i++)
				avx512_add_pair(even, odd, q + i * TQ_UNIT,
						avx512_make_codes(m,
								  tile + slab * tq_slab_bytes(bits),
								  i, bits, trellis),
						count, trellis);
		}
		const __m512 norms = avx512_load_norms(tile + tq_slabs_bytes(bits), b->norms);
		for (size_t t = 0; t < count; t++)
			y[t] = avx512_add_group(y[t], _mm512_add_epi32(even[t], odd[t]), norms,
						b->in->a[at + t]);
	}
}

/* out[count]: the rows of the block's tokens, of which `left` are there; more: whether they hold
 * the sums of earlier groups. */
ALWAYS_INLINE void avx512_multiply_tokens(float *out, size_t ldy, size_t left, bool more,
					  const struct avx512_block *b, struct avx512_maker *m,
					  size_t count, uint32_t bits, bool trellis)
{
	__m512 y[BLOCK_TOKENS];

	for (size_t t = 0; t < count; t++)
		y[t] = more ? lanes_load(out + t * ldy, left) : _mm512_setzero_ps();
	avx512_multiply_groups(y, b, m, count, bits, trellis);
	for (size_t t = 0; t < count; t++)
		lanes_store(out + t * ldy, left, y[t]);
}

/* 16 rows by all tokens of a panel, in blocks of about equal size; out: the first token's. */
ALWAYS_INLINE void avx512_multiply_blocks(float *out, size_t ldy, size_t left, bool more,
					  struct avx512_block *b, struct avx512_maker *m,
					  uint32_t bits, bool trellis)
{
	size_t tokens = b->in->tokens, blocks = (tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;

	for (; blocks > 0; blocks--, b->ahead = 0) {
		const size_t count = (tokens + blocks - 1) / blocks;
		float *y = out + b->first * ldy;
#define CASE(n)                                                                     \
	case n:                                                                     \
		avx512_multiply_tokens(y, ldy, left, more, b, m, n, bits, trellis); \
		break;
		switch (count) {
			CASES_TO_12(CASE)
		}
#undef CASE
		b->first += count;
		tokens -= count;
	}
}

#ifndef AVX512_VNNI
#include "kernels/avx512_tq_kept.h"
#endif

ALWAYS_INLINE void avx512_multiply_panel(const struct tq_product *p, const struct avx512_panel *in,
					 size_t first, size_t g0, struct avx512_maker *m,
					 uint32_t bits, bool trellis)
{
	for (uint32_t r = 0; r < p->rows; r += TILE_ROWS) {
		struct avx512_block b = {
			.in = in,
			.tile = p->w + r / TILE_ROWS * p->block_bytes + g0 * p->tile_bytes,
			.tile_bytes = p->tile_bytes,
			.ahead = in->groups == p->groups ? AHEAD : p->block_bytes,
			.norms = p->norms,
		};
		float *out = p->y + first * p->ldy + r;
#ifndef AVX512_VNNI
		if (in->tokens >= KEPT_TOKENS) {
			avx512_multiply_kept_blocks(out, p->ldy, p->rows - r, g0 > 0, &b, m, bits,
						    trellis);
			continue;
		}
#endif
		avx512_multiply_blocks(out, p->ldy, p->rows - r, g0 > 0, &b, m, bits, trellis);
	}
}

ALWAYS_INLINE void avx512_multiply_tq(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				      uint32_t row1, const struct input *x, const uint32_t *tokens,
				      size_t n, struct avx512_maker *m, uint32_t bits, bool trellis)
{
	const struct tq_product p = tq_product_of(y, ldy, w, row0, row1, x);

	if (n == 1) {
		avx512_multiply_token(&p, tokens ? tokens[0] : 0, m, bits, trellis);
		return;
	}
	for (size_t first = 0; first < n; first += PANEL_TOKENS) {
		struct avx512_panel in;
		in.tokens = n - first < PANEL_TOKENS ? n - first : PANEL_TOKENS;
		for (size_t g0 = 0; g0 < p.groups; g0 += in.groups) {
			const size_t most = PANEL_GROUPS / in.tokens, left = p.groups - g0;
			in.groups = left < most ? left : most;
			avx512_gather(&in, &p, tokens, first, g0, trellis);
			avx512_multiply_panel(&p, &in, first, g0, m, bits, trellis);
		}
	}
}

#define MULTIPLY(name, bits, trellis)                                                             \
	void TABLE(multiply_##name)(float *y, size_t ldy, const struct matrix *w, uint32_t row0,  \
				    uint32_t row1, const struct input *x, const uint32_t *tokens, \
				    size_t n)                                                     \
	{                                                                                         \
		struct avx512_maker m;                                                            \
		avx512_make_maker(&m, bits, trellis);                                             \
		avx512_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &m, bits, trellis);       \
	}
MULTIPLY(tq2, 2, false)
MULTIPLY(tq3, 3, false)
MULTIPLY(tq4, 4, false)
MULTIPLY(tc2, 2, true)
MULTIPLY(tc3, 3, true)
MULTIPLY(tc4, 4, true)
#undef MULTIPLY

#endif

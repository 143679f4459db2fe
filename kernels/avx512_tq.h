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
 * once and looked up twice. The bits before those of a byte are in the same byte of the plane
 * before; before a tile's first plane comes its last, each row's four bytes moved on by one. TC's
 * codes have an offset that makes them unsigned, so all sums begin with what it adds to them.
 *
 * One token is multiplied as the codes are made, at the speed of memory. Several tokens are
 * gathered first, a panel of groups × tokens that stays in the second-level cache for all rows of
 * the call; codes are then made once per group of 16 rows, and blocks of at most 12 tokens are
 * multiplied by them. 12 sums, 2 codes and the constants stay in registers.
 *
 * `bits`, `trellis` (whether the format is TC) and numbers of units and pairs are constants where
 * these functions are inlined.
 */
#ifndef MOEFS_KERNELS_AVX512_TQ_H
#define MOEFS_KERNELS_AVX512_TQ_H

#include "kernels/avx512_lanes.h"
#include "kernels/tq_product.h"

enum {
	SLAB_PAIRS = TQ_UNIT / 2, /* of registers of codes */
	PAIRS = SLABS * SLAB_PAIRS,
	BLOCK_TOKENS = 12,  /* multiplied together */
	PANEL_TOKENS = 48,  /* gathered together */
	PANEL_GROUPS = 384, /* groups in a panel, of all its tokens: 48 KiB */
	SELECT = 0xca, /* vpternlog: bits of the second where the first has them set, else of the
			  third */
};

struct avx512_codes {
	__m512i even, odd;
};

/* What makes codes: tables, and TC's codes before. */
struct avx512_maker {
#ifdef AVX512_VNNI
	__m512i even, odd; /* TQ */
#else
	__m512i codebook; /* TQ */
#endif
	__m512i a[TC_TURNS], b[TC_TURNS]; /* TC: the codebook, repeated; a with the offset */
	__m512i nibbles[TC_MOST_BACK]; /* TC: of the position before, and of the one before that */
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

/* In each byte `here` bits of low's from `shift` on, above them the lowest of high's. */
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
/* vpdpbusd multiplies unsigned by signed bytes, so TQ's codes, too, are the codebook's integers
 * plus an offset. */
enum { AVX512_TQ_OFFSET = 128 };

ALWAYS_INLINE __m512i avx512_add_products(__m512i sums, __m512i codes, int32_t q, bool trellis)
{
	(void)trellis;
	return _mm512_dpbusd_epi32(sums, codes, _mm512_set1_epi32(q));
}
#else
enum { AVX512_TQ_OFFSET = 0 };

/* TC's codes are so small that no sum of two products saturates. TQ's meet, as magnitudes, inputs
 * that are signed as the codes are: what depends on codes alone is made once for all tokens. With
 * an offset codebook vpmaddubsw would saturate. */
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

/* What all the sums of a group with this input begin with. */
ALWAYS_INLINE int32_t avx512_first_sum(const int8_t q[TQ_GROUP], bool trellis)
{
	const int32_t offset = trellis ? TC_OFFSET : AVX512_TQ_OFFSET;
	return offset ? -offset * avx512_sum_of_group(q) : 0;
}

/* ---- codes of TQ ---- */

#ifdef AVX512_VNNI
/* A byte permutation looks at 6 bits of an index, which are two indices of 3 bits or one of 4 and
 * two bits more. So the codebooks are tables of 64 bytes, repeated so that the bits that do not
 * matter need no mask: the "even" one goes by the lowest bits, the "odd" one by those above them. A
 * shift brings two indices into place in each byte of a plane at once. */

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
ALWAYS_INLINE struct avx512_codes
avx512_look_up_pair(const struct avx512_maker *m, const uint8_t *slab, size_t pair, uint32_t bits)
{
	const __m512i pairs = avx512_pairs_at(slab, pair, bits);
	const __m512i odd = bits == 4 ? _mm512_srli_epi16(pairs, 4) : pairs;
	return (struct avx512_codes){_mm512_permutexvar_epi8(pairs, m->even),
				     _mm512_permutexvar_epi8(odd, m->odd)};
}

/* bits is a constant where this is inlined, since a call may have only one tile. */
ALWAYS_INLINE void avx512_load_codebook(struct avx512_maker *m, uint32_t bits)
{
	const int8_t *integer = tq_codebook(bits)->integer;
	const __m128i book = _mm_loadu_si128((const __m128i *)(const void *)integer);
	const __m512i codes = _mm512_add_epi8(_mm512_broadcast_i32x4(book),
					      _mm512_set1_epi8((int8_t)AVX512_TQ_OFFSET));
	/* Byte i holds i. */
	const __m512i byte =
		_mm512_add_epi64(_mm512_set1_epi64(0x0706050403020100),
				 _mm512_mullo_epi64(_mm512_setr_epi64(0, 8, 16, 24, 32, 40, 48, 56),
						    _mm512_set1_epi64(0x0101010101010101)));
	const __m512i index = _mm512_set1_epi8((int8_t)((1 << bits) - 1));
	const __m512i even = _mm512_permutexvar_epi8(_mm512_and_si512(byte, index), codes);
	m->even = m->odd = even;
	if (bits == 4)
		return;
	const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(byte, bits), index);
	m->odd = _mm512_permutexvar_epi8(odd, codes);
}
#else
/* A shuffle looks up 4 bits, as in AVX2, which a shift and a mask leave in each byte of a plane, or
 * two of each where an index begins in one plane and ends in the next. */

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

/* avx512_bare_nibbles: nibbles in the lower halves of bytes, with anything above them, as
 * avx512_look_up wants them. */
#ifdef AVX512_VNNI
/* A byte permutation looks at 6 bits, so a table that is repeated four times needs no mask. */
ALWAYS_INLINE __m512i avx512_bare_nibbles(__m512i v)
{
	return v;
}

ALWAYS_INLINE __m512i avx512_look_up(__m512i table, __m512i nibbles)
{
	return _mm512_permutexvar_epi8(nibbles, table);
}

#else
/* A shuffle looks at the highest bit, too. */
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

ALWAYS_INLINE __m512i avx512_load_table(const int8_t table[16], size_t turn, int8_t offset)
{
	_Alignas(16) int8_t turned[16];

	tc_turn_table(turned, table, turn, offset);
	return _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)(const void *)turned));
}

/* ---- codes of both ---- */

/* Before the first pair of a tile. */
ALWAYS_INLINE void avx512_begin_tile(struct avx512_maker *m, const uint8_t *tile, uint32_t bits,
				     bool trellis)
{
	if (trellis)
		avx512_begin_ring(m, tile, bits);
}

/* Codes 2 · pair and 2 · pair + 1 of the slab whose planes begin there; all pairs of a tile are
 * made in order. */
ALWAYS_INLINE struct avx512_codes avx512_make_codes(struct avx512_maker *m, const uint8_t *slab,
						    size_t pair, uint32_t bits, bool trellis)
{
	if (!trellis)
		return avx512_look_up_pair(m, slab, pair, bits);
	const __m512i even = avx512_make_code(m, slab, 2 * pair, bits);
	return (struct avx512_codes){even, avx512_make_code(m, slab, 2 * pair + 1, bits)};
}

ALWAYS_INLINE void avx512_make_maker(struct avx512_maker *m, uint32_t bits, bool trellis)
{
	if (!trellis) {
		avx512_load_codebook(m, bits);
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

enum { AHEAD_OF_ONE = 8192 }; /* bytes, over the end of a matrix too */

/* Groups [g0, g0 + count) of all rows; start[g] is where the sums of a group begin. */
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
			/* Four sums, so that none waits for the one before it. */
			__m512i even[2] = {_mm512_set1_epi32(start[g])}, odd[2] = {{0}};
			prefetch_lines((uintptr_t)tile + AHEAD_OF_ONE, p->tile_bytes);
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

/* One group of a block of tokens: its panel entries, and the tokens' results y[count][16]. */
struct avx512_token_block {
	const struct avx512_panel *in;
	size_t at;
	float (*y)[TILE_ROWS];
	__m512 norms;
};

ALWAYS_INLINE void avx512_start_sums(__m512i sums[BLOCK_TOKENS], const struct avx512_token_block *b,
				     size_t count)
{
	for (size_t t = 0; t < count; t++)
		sums[t] = _mm512_set1_epi32(b->in->start[b->at + t]);
}

ALWAYS_INLINE void avx512_add_pair(__m512i sums[BLOCK_TOKENS], const struct avx512_token_block *b,
				   size_t pair, struct avx512_codes c, size_t count, bool trellis)
{
	const int8_t *q = b->in->q[b->at] + pair * TQ_UNIT;

	for (size_t t = 0; t < count; t++)
		sums[t] = avx512_add_products(sums[t], c.even, avx512_load_word(q + t * TQ_GROUP),
					      trellis);
	for (size_t t = 0; t < count; t++)
		sums[t] = avx512_add_products(sums[t], c.odd,
					      avx512_load_word(q + t * TQ_GROUP + 4), trellis);
}

ALWAYS_INLINE void avx512_finish_sums(const __m512i sums[BLOCK_TOKENS],
				      const struct avx512_token_block *b, size_t count)
{
	for (size_t t = 0; t < count; t++)
		_mm512_storeu_ps(b->y[t], avx512_add_group(_mm512_loadu_ps(b->y[t]), sums[t],
							   b->norms, b->in->a[b->at + t]));
}

ALWAYS_INLINE void avx512_unpack(struct avx512_codes codes[PAIRS], const uint8_t *tile,
				 struct avx512_maker *m, uint32_t bits, bool trellis)
{
	avx512_begin_tile(m, tile, bits, trellis);
	for (size_t slab = 0; slab < SLABS; slab++) {
#pragma GCC unroll 4
		for (size_t i = 0; i < SLAB_PAIRS; i++)
			codes[slab * SLAB_PAIRS + i] = avx512_make_codes(
				m, tile + slab * tq_slab_bytes(bits), i, bits, trellis);
	}
}

/* count is a constant where this is inlined, so that sums stay in registers. */
ALWAYS_INLINE void avx512_multiply_tokens(const struct avx512_token_block *b,
					  const struct avx512_codes codes[PAIRS], size_t count,
					  bool trellis)
{
	__m512i sums[BLOCK_TOKENS];

	avx512_start_sums(sums, b, count);
	for (size_t i = 0; i < PAIRS; i++)
		avx512_add_pair(sums, b, i, codes[i], count, trellis);
	avx512_finish_sums(sums, b, count);
}

ALWAYS_INLINE void avx512_multiply_block(const struct avx512_token_block *b,
					 const struct avx512_codes codes[PAIRS], size_t count,
					 bool trellis)
{
#define CASE(n)                                               \
	case n:                                               \
		avx512_multiply_tokens(b, codes, n, trellis); \
		break;
	switch (count) {
		CASES_TO_12(CASE)
	}
#undef CASE
}

static __attribute__((noinline)) void
avx512_multiply_tq_block(const struct avx512_token_block *b, const struct avx512_codes codes[PAIRS],
			 size_t count)
{
	avx512_multiply_block(b, codes, count, false);
}

static __attribute__((noinline)) void
avx512_multiply_tc_block(const struct avx512_token_block *b, const struct avx512_codes codes[PAIRS],
			 size_t count)
{
	avx512_multiply_block(b, codes, count, true);
}

/* 16 rows by all tokens of the panel, in blocks of as equal a size as can be. */
ALWAYS_INLINE void avx512_multiply_tiles(float y[][TILE_ROWS], const struct avx512_panel *in,
					 const uint8_t *tile, const struct tq_product *p,
					 struct avx512_maker *m, uint32_t bits, bool trellis)
{
	for (size_t g = 0; g < in->groups; g++, tile += p->tile_bytes) {
		struct avx512_codes codes[PAIRS];
		struct avx512_token_block b = {
			.in = in,
			.at = g * in->tokens,
			.y = y,
			.norms = avx512_load_norms(tile + tq_slabs_bytes(bits), p->norms),
		};
		size_t left = in->tokens;

		prefetch_lines((uintptr_t)tile + p->block_bytes,
			       p->tile_bytes); /* of the next rows */
		avx512_unpack(codes, tile, m, bits, trellis);
		for (size_t blocks = (left + BLOCK_TOKENS - 1) / BLOCK_TOKENS; blocks > 0;
		     blocks--) {
			const size_t count = (left + blocks - 1) / blocks;
			(trellis ? avx512_multiply_tc_block : avx512_multiply_tq_block)(&b, codes,
											count);
			b.at += count;
			b.y += count;
			left -= count;
		}
	}
}

ALWAYS_INLINE void avx512_multiply_panel(const struct tq_product *p, const struct avx512_panel *in,
					 size_t first, size_t g0, struct avx512_maker *m,
					 uint32_t bits, bool trellis)
{
	for (uint32_t r = 0; r < p->rows; r += TILE_ROWS) {
		const uint8_t *tile = p->w + r / TILE_ROWS * p->block_bytes + g0 * p->tile_bytes;
		const size_t left = p->rows - r;
		float *out = p->y + first * p->ldy + r, y[PANEL_TOKENS][TILE_ROWS];

		for (size_t t = 0; t < in->tokens; t++)
			_mm512_storeu_ps(y[t], g0 ? lanes_load(out + t * p->ldy, left)
						  : _mm512_setzero_ps());
		avx512_multiply_tiles(y, in, tile, p, m, bits, trellis);
		for (size_t t = 0; t < in->tokens; t++)
			lanes_store(out + t * p->ldy, left, _mm512_loadu_ps(y[t]));
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

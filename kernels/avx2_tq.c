/* AVX2 products of TQ matrices: exact integer dots of a group, then one fused multiply-add per
 * group.
 *
 * A tile is one group of 16 rows. Its slabs hold 32 columns as planes (format.h); a register of
 * codes holds the codebook integers of 8 rows in 32-bit lanes, for four columns, and meets the same
 * four bytes of a token's input in all lanes at once.
 *
 * One token: vpmaddubsw, which multiplies unsigned by signed bytes and saturates the sum of two
 * products at 16 bits. With |q| <= 127 as the unsigned factor and the codebook integer (magnitude
 * <= 114), signed as q is, as the other, it never does. With an offset codebook it would.
 *
 * Several tokens: the signs would be put on again for each. Codes and inputs are widened to 16 bits
 * instead, once, and vpmaddwd needs nothing else. A code is widened into the upper byte of its
 * lane, which takes one instruction; the sums so are 256 times too large (at most 128 · 114 · 127 ·
 * 256 < 2^31) and are shifted at the end.
 */
#if defined(__x86_64__)

#include "kernels/avx2.h"
#include "kernels/tq_product.h"

enum {
	HALVES = TILE_ROWS / AVX2_LANES, /* a plane's registers of rows */
	BLOCK_TOKENS = 6,		 /* multiplied together: 12 sums, 2 codes, an input */
	PANEL_TOKENS = 48,		 /* gathered together */
	PANEL_GROUPS = 192,		 /* groups in a panel, of all its tokens: 48 KiB */
	PREFETCH_AHEAD = 2048,		 /* bytes */
	WIDE = 2, /* registers of 16-bit codes that one of 8-bit codes becomes */
};

/* gcc would form the products of all tokens before it adds one, and so need more registers than
 * there are: all sums would be kept in memory. */
#define DO_NOW(sum) __asm__ volatile("" : "+x"(sum))

ALWAYS_INLINE __m256i load32(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* 16 bytes in both halves, for vpshufb, repeated for fewer levels. */
ALWAYS_INLINE __m256i load_codebook(uint32_t bits)
{
	const struct tq_codebook *book = tq_codebook(bits);
	_Alignas(16) int8_t table[16];

	for (size_t i = 0; i < 16; i++)
		table[i] = book->integer[i % book->levels];
	return _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)(void *)table));
}

/* ---- making codes ---- */

/* Index i (0 … 7) of each unit, in the lower bits of each byte; bits above it may be anything, but
 * the upper half of the byte is zero: vpshufb looks at the low four bits, and at the highest. i and
 * bits are constants where this is inlined. */
ALWAYS_INLINE __m256i indices(const __m256i planes[], size_t i, size_t bits)
{
	const size_t plane = i * bits / 8, shift = i * bits % 8, here = 8 - shift;
	const __m256i low = _mm256_srli_epi16(planes[plane], (int)shift);

	if (here >= bits)
		return _mm256_and_si256(low, _mm256_set1_epi8(15));
	const int8_t low_mask = (int8_t)((1 << here) - 1);
	return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(low_mask)),
			       _mm256_and_si256(_mm256_slli_epi16(planes[plane + 1], (int)here),
						_mm256_set1_epi8((int8_t)(15 - low_mask))));
}

/* The planes of one half of a slab's rows. */
ALWAYS_INLINE void load_planes(__m256i planes[], const uint8_t *slab, size_t half, size_t bits)
{
	for (size_t p = 0; p < bits; p++)
		planes[p] = load32(slab + p * PLANE_BYTES + half * sizeof planes[p]);
}

/* ---- rows ---- */

struct rows16 {
	__m256 half[HALVES];
};

ALWAYS_INLINE struct rows16 load_norms(const uint8_t *p, enum norm_type type)
{
	struct rows16 norms;

	for (size_t i = 0; i < HALVES; i++)
		norms.half[i] =
			type == NORM_F16
				? _mm256_cvtph_ps(_mm_loadu_si128(
					  (const __m128i *)(const void *)(p + i * 16)))
				: _mm256_loadu_ps((const float *)(const void *)(p + i * 32));
	return norms;
}

/* Up to 16 results of adjacent rows. */
ALWAYS_INLINE struct rows16 load_rows(const float *y, size_t n)
{
	if (n >= TILE_ROWS)
		return (struct rows16){{_mm256_loadu_ps(y), _mm256_loadu_ps(y + AVX2_LANES)}};
	const size_t high = n > AVX2_LANES ? n - AVX2_LANES : 0;
	return (struct rows16){{load_up_to_8(y, n), load_up_to_8(y + AVX2_LANES, high)}};
}

ALWAYS_INLINE void store_rows(float *y, size_t n, struct rows16 v)
{
	store_up_to_8(y, n, v.half[0]);
	if (n > AVX2_LANES)
		store_up_to_8(y + AVX2_LANES, n - AVX2_LANES, v.half[1]);
}

/* y = fmaf((float)I, norm · a, y) */
ALWAYS_INLINE __m256 add_group(__m256 y, __m256i dots, __m256 norms, float a)
{
	return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), _mm256_mul_ps(norms, _mm256_set1_ps(a)),
			       y);
}

/* ---- one token ---- */

/* Four bytes of an input, in all lanes. */
ALWAYS_INLINE __m256i load_four(const int8_t *q)
{
	int32_t four;
	memcpy(&four, q, sizeof four);
	return _mm256_set1_epi32(four);
}

/* Two 16-bit ones. */
ALWAYS_INLINE __m256i load_two(const int16_t *q)
{
	int32_t two;
	memcpy(&two, q, sizeof two);
	return _mm256_set1_epi32(two);
}

/* The dots of 8 rows with a group's input; magnitude[i] = |q[i]|. */
ALWAYS_INLINE __m256i dot_group(const uint8_t *tile, size_t half, const int8_t *q,
				const int8_t *magnitude, __m256i codebook, size_t bits)
{
	/* Two, so that none waits for the one before it. */
	__m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};

	for (size_t slab = 0; slab < SLABS; slab++) {
		__m256i planes[4];
		load_planes(planes, tile + slab * tq_slab_bytes(bits), half, bits);
		for (size_t i = 0; i < TQ_UNIT; i++) {
			const size_t at = slab * TQ_SLAB + i * SLAB_UNITS;
			const __m256i codes =
				_mm256_shuffle_epi8(codebook, indices(planes, i, bits));
			const __m256i pairs =
				_mm256_maddubs_epi16(load_four(magnitude + at),
						     _mm256_sign_epi8(codes, load_four(q + at)));
			sums[i % 2] = _mm256_add_epi32(
				sums[i % 2], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
		}
	}
	return _mm256_add_epi32(sums[0], sums[1]);
}

/* What comes next, the next matrix's first lines included: so much is done with each line that the
 * processor's own look ahead sees too few of them to keep memory busy. */
ALWAYS_INLINE void prefetch_tile(const uint8_t *tile, size_t bits)
{
	for (size_t i = 0; i < SLABS * bits; i++)
		_mm_prefetch((const char *)tile + i * PLANE_BYTES, _MM_HINT_T0);
}

/* Groups [g0, g0 + count) of all rows. */
ALWAYS_INLINE void multiply_one(const struct product *p, size_t token, size_t g0, size_t count,
				const int8_t *magnitude, size_t bits)
{
	const __m256i codebook = load_codebook((uint32_t)bits);
	const int8_t *q = p->x->q + (token * p->groups + g0) * TQ_GROUP;
	const float *scale = p->x->scale + token * p->groups + g0;

	for (uint32_t r = 0; r < p->rows; r += TILE_ROWS) {
		const uint8_t *tile = p->w + r / TILE_ROWS * p->block_bytes + g0 * p->tile_bytes;
		const size_t left = p->rows - r;
		float *out = p->y + r;
		struct rows16 y = g0 ? load_rows(out, left) : (struct rows16){{{0}}};
		for (size_t g = 0; g < count; g++, tile += p->tile_bytes) {
			const struct rows16 norms =
				load_norms(tile + tq_slabs_bytes(bits), p->norms);
			prefetch_tile(tile + PREFETCH_AHEAD, bits);
			for (size_t i = 0; i < HALVES; i++)
				y.half[i] = add_group(y.half[i],
						      dot_group(tile, i, q + g * TQ_GROUP,
								magnitude + g * TQ_GROUP, codebook,
								bits),
						      norms.half[i], scale[g] * p->gain);
		}
		store_rows(out, left, y);
	}
}

ALWAYS_INLINE void multiply_token(const struct product *p, size_t token, size_t bits)
{
	_Alignas(32) int8_t magnitude[PANEL_GROUPS * TQ_GROUP];

	for (size_t g0 = 0; g0 < p->groups; g0 += PANEL_GROUPS) {
		const size_t left = p->groups - g0;
		const size_t count = left < PANEL_GROUPS ? left : PANEL_GROUPS;
		const uint8_t *q = (const uint8_t *)p->x->q + (token * p->groups + g0) * TQ_GROUP;
		for (size_t i = 0; i < count * TQ_GROUP; i += sizeof(__m256i))
			_mm256_store_si256((__m256i *)(void *)(magnitude + i),
					   _mm256_abs_epi8(load32(q + i)));
		multiply_one(p, token, g0, count, magnitude, bits);
	}
}

/* ---- several tokens ---- */

/* Some groups of some tokens, group after group: [groups][tokens]. A register of 8-bit codes meets
 * four inputs; of these the first and the third become a word of two, and then the second and the
 * fourth, for the two registers of 16-bit codes that it becomes. */
struct panel {
	_Alignas(32) int16_t q[PANEL_GROUPS][TQ_GROUP];
	float a[PANEL_GROUPS]; /* scale · gain */
	size_t tokens, groups;
};

/* Codes of one tile; in the order of the panel's words. */
struct unpacked {
	__m256i codes[TQ_GROUP / 2][HALVES];
};

ALWAYS_INLINE void widen_inputs(int16_t to[TQ_GROUP], const int8_t q[TQ_GROUP])
{
	for (size_t i = 0; i < TQ_GROUP; i += sizeof(__m256i)) {
		const __m256i v = load32((const uint8_t *)q + i);
		const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
		const __m256i odd = _mm256_srai_epi16(v, 8);
		const __m256i a = _mm256_unpacklo_epi32(even, odd);
		const __m256i b = _mm256_unpackhi_epi32(even, odd);
		__m256i *out = (__m256i *)(void *)(to + i);
		_mm256_store_si256(out, _mm256_permute2x128_si256(a, b, 0x20));
		_mm256_store_si256(out + 1, _mm256_permute2x128_si256(a, b, 0x31));
	}
}

ALWAYS_INLINE void gather(struct panel *to, const struct product *p, const uint32_t *tokens,
			  size_t first, size_t g0)
{
	for (size_t t = 0; t < to->tokens; t++) {
		const size_t at = (tokens ? tokens[first + t] : first + t) * p->groups + g0;
		for (size_t g = 0; g < to->groups; g++) {
			const size_t i = g * to->tokens + t;
			widen_inputs(to->q[i], p->x->q + (at + g) * TQ_GROUP);
			to->a[i] = p->x->scale[at + g] * p->gain;
		}
	}
}

ALWAYS_INLINE void unpack(struct unpacked *to, const uint8_t *tile, __m256i codebook, size_t bits)
{
	for (size_t slab = 0; slab < SLABS; slab++) {
		for (size_t half = 0; half < HALVES; half++) {
			__m256i planes[4];
			load_planes(planes, tile + slab * tq_slab_bytes(bits), half, bits);
			for (size_t i = 0; i < TQ_UNIT; i++) {
				const size_t word = (slab * TQ_UNIT + i) * WIDE;
				const __m256i codes =
					_mm256_shuffle_epi8(codebook, indices(planes, i, bits));
				to->codes[word][half] = _mm256_slli_epi16(codes, 8);
				to->codes[word + 1][half] =
					_mm256_and_si256(codes, _mm256_set1_epi16((int16_t)0xff00));
			}
		}
	}
}

/* One group of a block of tokens: its panel entries, and the tokens' results y[count][16]. */
struct block {
	const struct panel *in;
	size_t at;
	float (*y)[TILE_ROWS];
	struct rows16 norms;
};

/* count is a constant where this is inlined, so that sums stay in registers. */
ALWAYS_INLINE void multiply_tokens(const struct block *b, const struct unpacked *w, size_t count)
{
	__m256i sums[BLOCK_TOKENS][HALVES];

	for (size_t t = 0; t < count; t++)
		for (size_t i = 0; i < HALVES; i++)
			sums[t][i] = _mm256_setzero_si256();
#pragma GCC unroll 2
	for (size_t word = 0; word < TQ_GROUP / 2; word++) {
		const __m256i *codes = w->codes[word];
		for (size_t t = 0; t < count; t++) {
			const __m256i x = load_two(b->in->q[b->at + t] + 2 * word);
			for (size_t i = 0; i < HALVES; i++) {
				__m256i sum = _mm256_add_epi32(sums[t][i],
							       _mm256_madd_epi16(codes[i], x));
				DO_NOW(sum);
				sums[t][i] = sum;
			}
		}
	}
	for (size_t t = 0; t < count; t++) {
		struct rows16 y = load_rows(b->y[t], TILE_ROWS);
		for (size_t i = 0; i < HALVES; i++)
			y.half[i] = add_group(y.half[i], _mm256_srai_epi32(sums[t][i], 8),
					      b->norms.half[i], b->in->a[b->at + t]);
		store_rows(b->y[t], TILE_ROWS, y);
	}
}

static __attribute__((noinline)) void multiply_block(const struct block *b,
						     const struct unpacked *w, size_t count)
{
#define CASE(n)                           \
	case n:                           \
		multiply_tokens(b, w, n); \
		break;
	switch (count) {
		CASE(1)
		CASE(2)
		CASE(3)
		CASE(4)
		CASE(5)
		CASE(6)
	}
#undef CASE
}

/* 16 rows by all tokens of the panel, in blocks of as equal a size as can be. */
ALWAYS_INLINE void multiply_tiles(float y[][TILE_ROWS], const struct panel *in, const uint8_t *tile,
				  const struct product *p, size_t bits)
{
	const __m256i codebook = load_codebook((uint32_t)bits);

	for (size_t g = 0; g < in->groups; g++, tile += p->tile_bytes) {
		struct unpacked w;
		struct block b = {
			.in = in,
			.at = g * in->tokens,
			.y = y,
			.norms = load_norms(tile + tq_slabs_bytes(bits), p->norms),
		};
		size_t left = in->tokens;

		unpack(&w, tile, codebook, bits);
		prefetch_tile(tile + p->tile_bytes, bits);
		for (size_t blocks = (left + BLOCK_TOKENS - 1) / BLOCK_TOKENS; blocks > 0;
		     blocks--) {
			const size_t count = (left + blocks - 1) / blocks;
			multiply_block(&b, &w, count);
			b.at += count;
			b.y += count;
			left -= count;
		}
	}
}

ALWAYS_INLINE void multiply_panel(const struct product *p, const struct panel *in, size_t first,
				  size_t g0, size_t bits)
{
	for (uint32_t r = 0; r < p->rows; r += TILE_ROWS) {
		const uint8_t *tile = p->w + r / TILE_ROWS * p->block_bytes + g0 * p->tile_bytes;
		const size_t left = p->rows - r;
		float *out = p->y + first * p->ldy + r, y[PANEL_TOKENS][TILE_ROWS];

		for (size_t t = 0; t < in->tokens; t++)
			store_rows(y[t], TILE_ROWS,
				   g0 ? load_rows(out + t * p->ldy, left) : (struct rows16){{{0}}});
		multiply_tiles(y, in, tile, p, bits);
		for (size_t t = 0; t < in->tokens; t++)
			store_rows(out + t * p->ldy, left, load_rows(y[t], TILE_ROWS));
	}
}

/* ---- products ---- */

/* bits is a constant where this is inlined. */
ALWAYS_INLINE void multiply_tq(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			       uint32_t row1, const struct input *x, const uint32_t *tokens,
			       size_t n, size_t bits)
{
	const struct product p = product_of(y, ldy, w, row0, row1, x);

	if (n == 1) {
		multiply_token(&p, tokens ? tokens[0] : 0, bits);
		return;
	}
	for (size_t first = 0; first < n; first += PANEL_TOKENS) {
		struct panel in;
		in.tokens = n - first < PANEL_TOKENS ? n - first : PANEL_TOKENS;
		for (size_t g0 = 0; g0 < p.groups; g0 += in.groups) {
			const size_t most = PANEL_GROUPS / in.tokens, left = p.groups - g0;
			in.groups = left < most ? left : most;
			gather(&in, &p, tokens, first, g0);
			multiply_panel(&p, &in, first, g0, bits);
		}
	}
}

void avx2_multiply_tq2(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, 2);
}

void avx2_multiply_tq3(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, 3);
}

void avx2_multiply_tq4(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, 4);
}

#endif

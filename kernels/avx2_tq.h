/* The body of the AVX2 products of TQ and TC matrices: exact integer dots of a group, then one
 * fused multiply-add per group.
 *
 * A tile is one group of 16 rows. Its slabs have 32 columns as planes (format.h). A register of
 * codes has the integers of 8 rows in 32-bit lanes, for four columns, and meets the same four bytes
 * of a token's input in all lanes at once. With several tokens an offset makes the codes unsigned;
 * the part that the offset adds to a dot is computed beforehand. The including file defines how
 * codes are made, and how codes are multiplied by one token while they are made.
 *
 * vpmaddubsw multiplies unsigned by signed bytes and saturates the sum of two products at 16 bits.
 * That happens if two inputs of one sign add up to more than INT16_MAX / (2 · offset), 186 for TQ3
 * and 143 for TQ4. Such a pair is clamped in the panel, and the difference (excess) is multiplied
 * separately: one pair of rotated inputs in 200, or one in 35. TC's codes are so small that no pair
 * saturates, so products of two words are summed in 16 bits before they are widened, which saves a
 * sixth of the instructions; with several tokens, four inputs of one such sum that exceed 255 are
 * clamped. With codes and inputs of 16 bits neither is needed, but that takes 1.4 times the
 * instructions, and instructions per cycle are the limit here: with hyper-threading half as many as
 * usual. */
#ifndef MOEFS_KERNELS_AVX2_TQ_H
#define MOEFS_KERNELS_AVX2_TQ_H

#include "kernels/avx2_lanes.h"
#include "kernels/tq_product.h"

enum {
	AVX2_HALVES = TILE_ROWS / LANES, /* a plane's registers of rows */
	AVX2_HALF_PLANE = PLANE_BYTES / AVX2_HALVES,
	/* Registers in use: 12 sums, 2 codes, an input; or 8 sums, 4 codes, 2 inputs. SUM_WORDS, 1
	 * or 2, is defined by the file that includes this one: the number of words of codes whose
	 * products are summed in 16 bits. */
	BLOCK_TOKENS = SUM_WORDS == 1 ? 6 : 4,
	PANEL_TOKENS = 48,	   /* tokens gathered together */
	PANEL_GROUPS = 384,	   /* most groups in a panel, over all its tokens: 48 KiB */
	AVX2_AHEAD_OF_ONE = 8192,  /* bytes prefetched */
	AVX2_WORDS = TQ_GROUP / 4, /* words of a group in one lane */
};

/* Assembly: gcc would compute the products of all tokens before adding one and run out of
 * registers, or copy the sum. */
ALWAYS_INLINE __m256i avx2_add_now(__m256i sum, __m256i v)
{
	__asm__ volatile("vpaddd %1, %0, %0" : "+x"(sum) : "x"(v));
	return sum;
}

ALWAYS_INLINE __m256i avx2_load32(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* Codebook integers plus offset are unsigned. most: inputs of one sign in a 16-bit sum may add up
 * to this without saturating or wrapping. */
struct avx2_range {
	int32_t offset;
	int16_t most;
};
enum { ALL = 2 * INT8_MAX * SUM_WORDS }; /* an upper bound of such inputs */

ALWAYS_INLINE struct avx2_range avx2_range_of(uint8_t offset)
{
	const int32_t most = INT16_MAX / (2 * offset);

	return (struct avx2_range){offset, (int16_t)(most < ALL ? most : ALL)};
}

/* Codes of one tile, unsigned. */
struct avx2_unpacked {
	__m256i codes[AVX2_WORDS][AVX2_HALVES];
};

/* Defined by the including file; bits is always a constant. Codebooks for both ways of
 * multiplying. */
struct avx2_maker;
/* Values computed beforehand from one token's inputs, for all groups of one pass. For TQ: |q|. For
 * TC: the initial sums of a group, and whether products of two words are summed in 16 bits. */
union avx2_side {
	_Alignas(32) int8_t magnitude[PANEL_GROUPS * TQ_GROUP];
	struct {
		int32_t start[PANEL_GROUPS];
		bool pairs_fit[PANEL_GROUPS];
	};
};
ALWAYS_INLINE void avx2_prepare_side(union avx2_side *side, const int8_t *q, size_t groups);
/* Computes the dots of 16 rows with the input of group g. */
ALWAYS_INLINE void avx2_dot_group(__m256i dots[AVX2_HALVES], const uint8_t *tile, const int8_t *q,
				  const union avx2_side *side, size_t g, const struct avx2_maker *m,
				  size_t bits);
ALWAYS_INLINE void avx2_unpack(struct avx2_unpacked *to, const uint8_t *tile,
			       const struct avx2_maker *m, size_t bits);

ALWAYS_INLINE int32_t avx2_sum_lanes(__m256i v)
{
	__m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
	s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
	return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* Returns sum + the dots of four columns. */
ALWAYS_INLINE __m256i avx2_add_word(__m256i sum, __m256i codes, __m256i x)
{
	const __m256i pairs = _mm256_maddubs_epi16(codes, x);
	return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* Σ q */
ALWAYS_INLINE int32_t avx2_sum_of_group(const int8_t q[TQ_GROUP])
{
	__m256i sum = _mm256_setzero_si256();

	for (size_t k = 0; k < TQ_GROUP; k += sizeof sum)
		sum = avx2_add_word(sum, _mm256_set1_epi8(1), avx2_load32((const uint8_t *)q + k));
	return avx2_sum_lanes(sum);
}

/* Four bits per byte: `here` bits of low from `shift` on, above them the lowest bits of high. */
ALWAYS_INLINE __m256i avx2_across(__m256i low, size_t shift, __m256i high, size_t here)
{
	const int8_t low_mask = (int8_t)((1 << here) - 1);

	return _mm256_or_si256(
		_mm256_and_si256(_mm256_srli_epi16(low, (int)shift), _mm256_set1_epi8(low_mask)),
		_mm256_and_si256(_mm256_slli_epi16(high, (int)here),
				 _mm256_set1_epi8((int8_t)(15 - low_mask))));
}

/* Sums products over 4 · SUM_WORDS columns in 16 bits. */
ALWAYS_INLINE __m256i avx2_sum_products(const __m256i codes[SUM_WORDS], const __m256i x[SUM_WORDS])
{
	const __m256i sum = _mm256_maddubs_epi16(codes[0], x[0]);

	return SUM_WORDS == 1 ? sum
			      : _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes[SUM_WORDS - 1],
									   x[SUM_WORDS - 1]));
}

/* All ones where the inputs of a 16-bit sum exceed most. */
ALWAYS_INLINE __m256i avx2_beyond_range(__m256i v, int16_t most)
{
	const __m256i ones = _mm256_set1_epi8(1), zero = _mm256_setzero_si256();
	__m256i positive = _mm256_maddubs_epi16(_mm256_max_epi8(v, zero), ones);
	__m256i negative = _mm256_maddubs_epi16(_mm256_abs_epi8(_mm256_min_epi8(v, zero)), ones);

	if (SUM_WORDS == 2) { /* and of the next word */
		positive = _mm256_add_epi16(positive, _mm256_shuffle_epi32(positive, 0xb1));
		negative = _mm256_add_epi16(negative, _mm256_shuffle_epi32(negative, 0xb1));
	}
	return _mm256_cmpgt_epi16(_mm256_max_epi16(positive, negative), _mm256_set1_epi16(most));
}

/* ---- rows ---- */

struct avx2_rows {
	__m256 half[AVX2_HALVES];
};

ALWAYS_INLINE struct avx2_rows avx2_load_norms(const uint8_t *p, enum norm_type type)
{
	struct avx2_rows norms;

	for (size_t i = 0; i < AVX2_HALVES; i++)
		norms.half[i] =
			type == NORM_F16
				? _mm256_cvtph_ps(_mm_loadu_si128(
					  (const __m128i *)(const void *)(p + i * 16)))
				: _mm256_loadu_ps((const float *)(const void *)(p + i * 32));
	return norms;
}

/* Loads up to 16 results of adjacent rows. */
ALWAYS_INLINE struct avx2_rows avx2_load_rows(const float *y, size_t n)
{
	if (n >= TILE_ROWS)
		return (struct avx2_rows){{_mm256_loadu_ps(y), _mm256_loadu_ps(y + LANES)}};
	const size_t high = n > LANES ? n - LANES : 0;
	return (struct avx2_rows){{lanes_load(y, n), lanes_load(y + LANES, high)}};
}

ALWAYS_INLINE void avx2_store_rows(float *y, size_t n, struct avx2_rows v)
{
	lanes_store(y, n, v.half[0]);
	if (n > LANES)
		lanes_store(y + LANES, n - LANES, v.half[1]);
}

/* y = fmaf((float)I, norm · a, y) */
ALWAYS_INLINE __m256 avx2_add_group(__m256 y, __m256i dots, __m256 norms, float a)
{
	return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), _mm256_mul_ps(norms, _mm256_set1_ps(a)),
			       y);
}

/* ---- one token ---- */

/* Loads four bytes of an input into all lanes. */
ALWAYS_INLINE __m256i avx2_load_four(const int8_t *q)
{
	int32_t four;
	memcpy(&four, q, sizeof four);
	return _mm256_set1_epi32(four);
}

ALWAYS_INLINE void avx2_prefetch(const void *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += CACHE_LINE)
		_mm_prefetch((const char *)p + i, _MM_HINT_T0);
}

/* Multiplies groups [g0, g0 + count) of all rows by one token. */
ALWAYS_INLINE void avx2_multiply_one(const struct tq_product *p, size_t token, size_t g0,
				     size_t count, const union avx2_side *side,
				     const struct avx2_maker *m, size_t bits)
{
	const int8_t *q = p->x->q + (token * p->groups + g0) * TQ_GROUP;
	const float *scale = p->x->scale + token * p->groups + g0;

	for (uint32_t r = 0; r < p->rows; r += TILE_ROWS) {
		const uint8_t *tile = p->w + r / TILE_ROWS * p->block_bytes + g0 * p->tile_bytes;
		const size_t left = p->rows - r;
		float *out = p->y + r;
		struct avx2_rows y = g0 ? avx2_load_rows(out, left) : (struct avx2_rows){{{0}}};
		for (size_t g = 0; g < count; g++, tile += p->tile_bytes) {
			const struct avx2_rows norms =
				avx2_load_norms(tile + tq_slabs_bytes(bits), p->norms);
			/* Also prefetches the next matrix's first lines: there is so much work per
			 * cache line that the processor's prefetcher detects too few lines. */
			avx2_prefetch(tile + AVX2_AHEAD_OF_ONE, tq_slabs_bytes(bits));
			__m256i dots[AVX2_HALVES];
			avx2_dot_group(dots, tile, q + g * TQ_GROUP, side, g, m, bits);
			for (size_t i = 0; i < AVX2_HALVES; i++)
				y.half[i] = avx2_add_group(y.half[i], dots[i], norms.half[i],
							   scale[g] * p->gain);
		}
		avx2_store_rows(out, left, y);
	}
}

ALWAYS_INLINE void avx2_multiply_token(const struct tq_product *p, size_t token,
				       const struct avx2_maker *m, size_t bits)
{
	union avx2_side side;

	for (size_t g0 = 0; g0 < p->groups; g0 += PANEL_GROUPS) {
		const size_t left = p->groups - g0;
		const size_t count = left < PANEL_GROUPS ? left : PANEL_GROUPS;
		avx2_prepare_side(&side, p->x->q + (token * p->groups + g0) * TQ_GROUP, count);
		avx2_multiply_one(p, token, g0, count, &side, m, bits);
	}
}

/* ---- several tokens ---- */

/* Four bytes subtracted from a token's word. */
struct avx2_excess {
	uint16_t token, word;
	int32_t bytes;
};

/* Some groups of some tokens, group after group: [groups][tokens]. */
struct avx2_panel {
	_Alignas(32) int8_t q[PANEL_GROUPS][TQ_GROUP]; /* without the excess */
	float a[PANEL_GROUPS];			       /* scale · gain */
	int32_t start[PANEL_GROUPS];		       /* -offset · Σ q, of all of q */
	/* Room for the largest possible number, in order of group. In practice there are few. */
	struct avx2_excess excess[PANEL_GROUPS * AVX2_WORDS];
	size_t excess_end[PANEL_GROUPS]; /* end of each group's entries, over all tokens */
	size_t tokens, groups;
	struct avx2_range range;
};

/* Clamps v to most. */
ALWAYS_INLINE __m256i avx2_clamp_to_range(__m256i v, int16_t most)
{
	const __m256i share = _mm256_set1_epi8((int8_t)(most / (2 * SUM_WORDS)));
	const __m256i low = _mm256_sub_epi8(_mm256_setzero_si256(), share);

	return _mm256_blendv_epi8(v, _mm256_max_epi8(_mm256_min_epi8(v, share), low),
				  avx2_beyond_range(v, most));
}

/* Fills entry i of the panel with one group of one token, clamped. Returns the new end of the
 * excess. */
ALWAYS_INLINE size_t avx2_clamp_group(struct avx2_panel *to, size_t i, size_t token,
				      const int8_t *q, size_t end)
{
	for (size_t k = 0; k < TQ_GROUP; k += sizeof(__m256i)) {
		const __m256i v = avx2_load32((const uint8_t *)q + k);
		const __m256i clamped = avx2_clamp_to_range(v, to->range.most);
		const __m256i same = _mm256_cmpeq_epi32(v, clamped);
		_Alignas(32) int32_t left[sizeof v / 4];

		_mm256_store_si256((__m256i *)(void *)(to->q[i] + k), clamped);
		_mm256_store_si256((__m256i *)(void *)left, _mm256_sub_epi8(v, clamped));
		for (uint32_t words =
			     ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(same)) & 0xff;
		     words; words &= words - 1) {
			const size_t word = (size_t)__builtin_ctz(words);
			to->excess[end++] = (struct avx2_excess){
				(uint16_t)token, (uint16_t)(k / 4 + word), left[word]};
		}
	}
	return end;
}

ALWAYS_INLINE void avx2_gather(struct avx2_panel *to, const struct tq_product *p,
			       const uint32_t *tokens, size_t first, size_t g0)
{
	size_t end = 0;

	for (size_t g = 0; g < to->groups; g++) {
		for (size_t t = 0; t < to->tokens; t++) {
			const size_t at =
				(tokens ? tokens[first + t] : first + t) * p->groups + g0 + g;
			const size_t i = g * to->tokens + t;
			const int8_t *q = p->x->q + at * TQ_GROUP;
			avx2_prefetch(q + TQ_GROUP, TQ_GROUP);
			if (to->range.most < ALL)
				end = avx2_clamp_group(to, i, t, q, end);
			else
				memcpy(to->q[i], q, TQ_GROUP);
			to->start[i] = -to->range.offset * avx2_sum_of_group(q);
			to->a[i] = p->x->scale[at] * p->gain;
		}
		to->excess_end[g] = end;
	}
}

/* One group of a block of tokens: its panel entries, and the tokens' results y[count][16]. */
struct avx2_token_block {
	const int8_t (*q)[TQ_GROUP];
	const float *a;
	const __m256i (*start)[AVX2_HALVES];
	float (*y)[TILE_ROWS];
	struct avx2_rows norms;
};

/* Inlining makes count a constant, so that sums stay in registers. */
ALWAYS_INLINE void avx2_multiply_tokens(const struct avx2_token_block *b,
					const struct avx2_unpacked *w, size_t count)
{
	__m256i sums[BLOCK_TOKENS][AVX2_HALVES];

	for (size_t t = 0; t < count; t++)
		for (size_t i = 0; i < AVX2_HALVES; i++)
			sums[t][i] = b->start[t][i];
#pragma GCC unroll 2
	for (size_t word = 0; word < AVX2_WORDS; word += SUM_WORDS) {
		for (size_t t = 0; t < count; t++) {
			__m256i x[SUM_WORDS];
			for (size_t j = 0; j < SUM_WORDS; j++)
				x[j] = avx2_load_four(b->q[t] + 4 * (word + j));
			for (size_t i = 0; i < AVX2_HALVES; i++) {
				__m256i codes[SUM_WORDS];
				for (size_t j = 0; j < SUM_WORDS; j++)
					codes[j] = w->codes[word + j][i];
				sums[t][i] = avx2_add_now(
					sums[t][i], _mm256_madd_epi16(avx2_sum_products(codes, x),
								      _mm256_set1_epi16(1)));
			}
		}
	}
	for (size_t t = 0; t < count; t++) {
		struct avx2_rows y = avx2_load_rows(b->y[t], TILE_ROWS);
		for (size_t i = 0; i < AVX2_HALVES; i++)
			y.half[i] =
				avx2_add_group(y.half[i], sums[t][i], b->norms.half[i], b->a[t]);
		avx2_store_rows(b->y[t], TILE_ROWS, y);
	}
}

static __attribute__((noinline)) void
avx2_multiply_block(const struct avx2_token_block *b, const struct avx2_unpacked *w, size_t count)
{
#define CASE(n)                                                                  \
	case n:                                                                  \
		avx2_multiply_tokens(b, w, n < BLOCK_TOKENS ? n : BLOCK_TOKENS); \
		break;
	switch (count) {
		CASES_TO_6(CASE)
	}
#undef CASE
}

/* Sets the initial sums of group g: the offset's part and the excess. */
ALWAYS_INLINE void avx2_start_sums(__m256i sums[][AVX2_HALVES], const struct avx2_panel *in,
				   size_t g, const struct avx2_unpacked *w)
{
	for (size_t t = 0; t < in->tokens; t++)
		for (size_t i = 0; i < AVX2_HALVES; i++)
			sums[t][i] = _mm256_set1_epi32(in->start[g * in->tokens + t]);
	for (size_t e = g ? in->excess_end[g - 1] : 0; e < in->excess_end[g]; e++) {
		const struct avx2_excess *x = &in->excess[e];
		for (size_t i = 0; i < AVX2_HALVES; i++)
			sums[x->token][i] = avx2_add_word(sums[x->token][i], w->codes[x->word][i],
							  _mm256_set1_epi32(x->bytes));
	}
}

/* Multiplies 16 rows by all tokens of the panel, in blocks of similar size. */
ALWAYS_INLINE void avx2_multiply_tiles(float y[][TILE_ROWS], const struct avx2_panel *in,
				       const uint8_t *tile, const struct tq_product *p,
				       const struct avx2_maker *m, size_t bits)
{
	const uint8_t *const first = tile;

	for (size_t g = 0; g < in->groups; g++, tile += p->tile_bytes) {
		struct avx2_unpacked w;
		__m256i start[PANEL_TOKENS][AVX2_HALVES];
		struct avx2_token_block b = {
			.q = in->q + g * in->tokens,
			.a = in->a + g * in->tokens,
			.start = start,
			.y = y,
			.norms = avx2_load_norms(tile + tq_slabs_bytes(bits), p->norms),
		};
		size_t left = in->tokens;

		avx2_unpack(&w, tile, m, bits);
		avx2_prefetch(g + 1 < in->groups ? tile + p->tile_bytes : first + p->block_bytes,
			      p->tile_bytes);
		avx2_start_sums(start, in, g, &w);
		for (size_t blocks = (left + BLOCK_TOKENS - 1) / BLOCK_TOKENS; blocks > 0;
		     blocks--) {
			const size_t count = (left + blocks - 1) / blocks;
			avx2_multiply_block(&b, &w, count);
			b.q += count;
			b.a += count;
			b.start += count;
			b.y += count;
			left -= count;
		}
	}
}

ALWAYS_INLINE void avx2_multiply_panel(const struct tq_product *p, const struct avx2_panel *in,
				       size_t first, size_t g0, const struct avx2_maker *m,
				       size_t bits)
{
	for (uint32_t r = 0; r < p->rows; r += TILE_ROWS) {
		const uint8_t *tile = p->w + r / TILE_ROWS * p->block_bytes + g0 * p->tile_bytes;
		const size_t left = p->rows - r;
		float *out = p->y + first * p->ldy + r, y[PANEL_TOKENS][TILE_ROWS];

		for (size_t t = 0; t < in->tokens; t++)
			avx2_store_rows(y[t], TILE_ROWS,
					g0 ? avx2_load_rows(out + t * p->ldy, left)
					   : (struct avx2_rows){{{0}}});
		avx2_multiply_tiles(y, in, tile, p, m, bits);
		for (size_t t = 0; t < in->tokens; t++)
			avx2_store_rows(out + t * p->ldy, left, avx2_load_rows(y[t], TILE_ROWS));
	}
}

/* ---- products ---- */

/* Inlining makes bits a constant. */
ALWAYS_INLINE void avx2_multiply_groups(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
					uint32_t row1, const struct input *x,
					const uint32_t *tokens, size_t n,
					const struct avx2_maker *m, struct avx2_range range,
					size_t bits)
{
	const struct tq_product p = tq_product_of(y, ldy, w, row0, row1, x);

	if (n == 1) {
		avx2_multiply_token(&p, tokens ? tokens[0] : 0, m, bits);
		return;
	}
	for (size_t first = 0; first < n; first += PANEL_TOKENS) {
		struct avx2_panel in;
		in.range = range;
		in.tokens = n - first < PANEL_TOKENS ? n - first : PANEL_TOKENS;
		for (size_t g0 = 0; g0 < p.groups; g0 += in.groups) {
			const size_t most = PANEL_GROUPS / in.tokens, left = p.groups - g0;
			in.groups = left < most ? left : most;
			avx2_prefetch(p.w + g0 * p.tile_bytes, p.tile_bytes);
			avx2_gather(&in, &p, tokens, first, g0);
			avx2_multiply_panel(&p, &in, first, g0, m, bits);
		}
	}
}

#endif

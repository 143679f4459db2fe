/* AVX2 products of TQ matrices: exact integer dots of a group, then one fused multiply-add per
 * group.
 *
 * A tile is one group of 16 rows. Its units hold 8 columns of 16 rows; a register ("codes") holds
 * the 8 codebook integers of 4 rows, one row after the other, so a token's 8 input bytes are
 * broadcast against it. What differs between formats is only how a register of codes is made.
 *
 * vpmaddubsw multiplies unsigned by signed bytes and saturates the sum of two products at 16 bits:
 * with |q| <= 127 as the unsigned factor and the codebook integer (magnitude <= 114), signed as q
 * is, as the other, it never does. With an offset codebook it would.
 */
#if defined(__x86_64__)

#include "kernels/avx2.h"
#include "kernels/tq.h"

enum {
	UNITS = TQ_GROUP / TQ_UNIT,
	QUADS = TILE_ROWS / 4, /* registers of codes in a unit, each of 4 rows */
	TOKENS_AT_ONCE = 64,   /* tokens that share one unpacking of a tile */
};

/* ---- making codes ---- */

/* Registers that hold constants while a matrix is multiplied. */
struct unpacker {
	__m256i codebook; /* for vpshufb, the same 16 bytes in both halves */
	__m256i spread;	  /* for vpshufb, copies a row's bytes to where they are needed; TQ2, TQ3 */
	__m256i align;	  /* multipliers that shift words left; TQ3 */
	__m256i mask;	  /* the bits of the indices in the end */
};
/* The codes of rows 4·quad … 4·quad+3 of a unit. */
typedef __m256i codes_fn(const uint8_t *unit, size_t quad, const struct unpacker *u);

ALWAYS_INLINE __m256i load_twice(const uint8_t *p) /* 16 bytes, into both halves */
{
	return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* A row's 2 bytes b0 b1. Each is copied four times; the first two copies are used as they are, the
 * other two shifted by 4. In each pair one copy has its index in bits 0 and 1, the other in bits 2
 * and 3; the codebook has the same entry at i and at 4 · i, which coincide only at 0. */
ALWAYS_INLINE __m256i codes_tq2(const uint8_t *unit, size_t quad, const struct unpacker *u)
{
	const __m128i rows = _mm_loadl_epi64((const __m128i *)(const void *)(unit + quad * 8));
	const __m256i copies = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(rows), u->spread);
	const __m256i shifted = _mm256_srli_epi16(copies, 4);
	const __m256i pairs = _mm256_blend_epi16(copies, shifted, 0xaa);
	return _mm256_shuffle_epi8(u->codebook, _mm256_and_si256(pairs, u->mask));
}

/* A row's 3 bytes b0 b1 b2 become the four 16-bit words b0b1 b0b1 b1b2 b1b2, in which the pairs of
 * indices 0 1, 2 3, 4 5, 6 7 begin at bits 0, 6, 4 and 10. A multiplication moves each to the top,
 * a shift to the bottom, and a copy shifted by 5 has the second index in the word's second byte.
 * The copies overlap at bit 5, so they are or-ed: a multiplication by 33 would carry. Of the 16
 * bytes read 12 are used; the rest of the last read of a tile falls on its norms.
 */
ALWAYS_INLINE __m256i codes_tq3(const uint8_t *unit, size_t quad, const struct unpacker *u)
{
	const __m256i words = _mm256_shuffle_epi8(load_twice(unit + quad * 12), u->spread);
	const __m256i pairs = _mm256_srli_epi16(_mm256_mullo_epi16(words, u->align), 10);
	const __m256i split = _mm256_or_si256(pairs, _mm256_slli_epi16(pairs, 5));
	return _mm256_shuffle_epi8(u->codebook, _mm256_and_si256(split, u->mask));
}

/* A byte has two indices, the first in its low half. */
ALWAYS_INLINE __m256i codes_tq4(const uint8_t *unit, size_t quad, const struct unpacker *u)
{
	const __m128i rows = _mm_loadu_si128((const __m128i *)(const void *)(unit + quad * 16));
	const __m256i pairs = _mm256_cvtepu8_epi16(rows);
	const __m256i split = _mm256_or_si256(pairs, _mm256_slli_epi16(pairs, 4));
	return _mm256_shuffle_epi8(u->codebook, _mm256_and_si256(split, u->mask));
}

static struct unpacker make_unpacker(const struct tq_codebook *book)
{
	_Alignas(16) int8_t table[16];
	struct unpacker u = {.mask = _mm256_set1_epi8((int8_t)(book->levels - 1))};

	for (size_t i = 0; i < 16; i++)
		table[i] = book->integer[i % book->levels];
	if (book->bits == 2) {
		for (size_t i = 0; i < 4; i++)
			table[4 * i] = book->integer[i];
		u.spread = _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, //
					    4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7);
		u.mask = _mm256_set1_epi16(0x0c03);
	} else if (book->bits == 3) {
		u.spread = _mm256_setr_epi8(0, 1, 0, 1, 1, 2, 1, 2, 3, 4, 3, 4, 4, 5, 4, 5, //
					    6, 7, 6, 7, 7, 8, 7, 8, 9, 10, 9, 10, 10, 11, 10, 11);
		u.align = _mm256_set1_epi64x(0x0001004000100400);
	}
	u.codebook = _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)(void *)table));
	return u;
}

/* ---- integer dots of one tile ---- */

/* A token's 8 bytes of one unit, broadcast: as they are and as magnitudes. */
struct operand {
	__m256i q, magnitude;
};
ALWAYS_INLINE struct operand load_operand(const int8_t *q)
{
	long long eight;
	memcpy(&eight, q, sizeof eight);
	const __m256i v = _mm256_set1_epi64x(eight);
	return (struct operand){v, _mm256_abs_epi8(v)};
}

/* Adds products to sums[8]: of each row two sums, over the columns 0 … 3 and 4 … 7 of the unit. */
ALWAYS_INLINE __m256i add_products(__m256i sums, __m256i codes, struct operand x)
{
	const __m256i pairs = _mm256_maddubs_epi16(x.magnitude, _mm256_sign_epi8(codes, x.q));
	return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* y[16] = fmaf((float)I, norm · a, y[16]) from the sums of the four quads. */
ALWAYS_INLINE void finish_tile(float y[TILE_ROWS], const __m256i sums[QUADS], const __m256 norms[2],
			       float a)
{
	for (size_t half = 0; half < 2; half++) {
		/* vphaddd leaves rows 0 1 4 5 | 2 3 6 7 of the eight; the permutation sorts them.
		 */
		const __m256i mixed = _mm256_hadd_epi32(sums[2 * half], sums[2 * half + 1]);
		const __m256 dots = _mm256_cvtepi32_ps(_mm256_permute4x64_epi64(mixed, 0xd8));
		const __m256 factor = _mm256_mul_ps(norms[half], _mm256_set1_ps(a));
		float *out = y + half * AVX2_LANES;
		_mm256_storeu_ps(out, _mm256_fmadd_ps(dots, factor, _mm256_loadu_ps(out)));
	}
}

ALWAYS_INLINE void load_norms(__m256 norms[2], const uint8_t *p, enum norm_type type)
{
	for (size_t half = 0; half < 2; half++) {
		if (type == NORM_F16)
			norms[half] = _mm256_cvtph_ps(
				_mm_loadu_si128((const __m128i *)(const void *)(p + half * 16)));
		else
			norms[half] = _mm256_loadu_ps((const float *)(const void *)(p + half * 32));
	}
}

/* One token: codes are used as they are made. */
ALWAYS_INLINE void tile_one(__m256i sums[QUADS], const uint8_t *tile, const int8_t *q,
			    const struct unpacker *u, codes_fn *codes, size_t unit_bytes)
{
	for (size_t i = 0; i < QUADS; i++)
		sums[i] = _mm256_setzero_si256();
	for (size_t unit = 0; unit < UNITS; unit++) {
		const struct operand x = load_operand(q + unit * TQ_UNIT);
		for (size_t i = 0; i < QUADS; i++)
			sums[i] = add_products(sums[i], codes(tile + unit * unit_bytes, i, u), x);
	}
}

/* One or two tokens with codes that are already unpacked. */
ALWAYS_INLINE void tile_unpacked(__m256i sums[2][QUADS], const __m256i codes[UNITS][QUADS],
				 const int8_t *const q[2], size_t tokens)
{
	for (size_t t = 0; t < tokens; t++)
		for (size_t i = 0; i < QUADS; i++)
			sums[t][i] = _mm256_setzero_si256();
	for (size_t unit = 0; unit < UNITS; unit++) {
		struct operand x[2];
		for (size_t t = 0; t < tokens; t++)
			x[t] = load_operand(q[t] + unit * TQ_UNIT);
		for (size_t i = 0; i < QUADS; i++)
			for (size_t t = 0; t < tokens; t++)
				sums[t][i] = add_products(sums[t][i], codes[unit][i], x[t]);
	}
}

/* ---- products ---- */

/* One call's operands, and what follows from them. */
struct product {
	const struct input *x;
	const uint32_t *tokens; /* of the chunk at hand, NULL: first, first + 1 … */
	size_t first, groups;
	enum norm_type norms;
	float gain;
};

ALWAYS_INLINE size_t input_group(const struct product *p, size_t t, size_t g)
{
	return (p->tokens ? p->tokens[p->first + t] : p->first + t) * p->groups + g;
}

/* A block of 16 rows and up to TOKENS_AT_ONCE tokens: y[t][16]. */
ALWAYS_INLINE void multiply_block(float y[][TILE_ROWS], const uint8_t *tile,
				  const struct product *p, size_t count, const struct unpacker *u,
				  codes_fn *codes, size_t unit_bytes)
{
	const size_t units_bytes = UNITS * unit_bytes;
	const size_t norm_bytes = p->norms == NORM_F16 ? 2 : 4;
	const size_t tile_bytes = units_bytes + TILE_ROWS * norm_bytes;

	for (size_t g = 0; g < p->groups; g++, tile += tile_bytes) {
		__m256i sums[2][QUADS], unpacked[UNITS][QUADS];
		__m256 norms[2];

		load_norms(norms, tile + units_bytes, p->norms);
		if (count == 1) {
			const size_t at = input_group(p, 0, g);
			tile_one(sums[0], tile, p->x->q + at * TQ_GROUP, u, codes, unit_bytes);
			finish_tile(y[0], sums[0], norms, p->x->scale[at] * p->gain);
			continue;
		}
		for (size_t unit = 0; unit < UNITS; unit++)
			for (size_t i = 0; i < QUADS; i++)
				unpacked[unit][i] = codes(tile + unit * unit_bytes, i, u);
		for (size_t t = 0; t < count; t += 2) {
			const size_t second = t + 1 < count ? t + 1 : t;
			const size_t at[2] = {input_group(p, t, g), input_group(p, second, g)};
			const int8_t *const q[2] = {p->x->q + at[0] * TQ_GROUP,
						    p->x->q + at[1] * TQ_GROUP};
			if (second > t) /* constants, so that the sums stay in registers */
				tile_unpacked(sums, unpacked, q, 2);
			else
				tile_unpacked(sums, unpacked, q, 1);
			for (size_t i = t; i <= second; i++)
				finish_tile(y[i], sums[i - t], norms,
					    p->x->scale[at[i - t]] * p->gain);
		}
	}
}

ALWAYS_INLINE void multiply_tq(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			       uint32_t row1, const struct input *x, const uint32_t *tokens,
			       size_t n, codes_fn *codes, uint32_t bits)
{
	const struct tq_codebook *book = tq_codebook(bits);
	const struct unpacker u = make_unpacker(book);
	struct product p = {
		.x = x,
		.tokens = tokens,
		.groups = tq_groups(x->k),
		.norms = w->shape.norms,
		.gain = book->gain,
	};
	const size_t unit_bytes = (size_t)TILE_ROWS * bits;
	const size_t norm_bytes = p.norms == NORM_F16 ? 2 : 4;
	const size_t block_bytes = p.groups * (UNITS * unit_bytes + TILE_ROWS * norm_bytes);

	for (p.first = 0; p.first < n; p.first += TOKENS_AT_ONCE) {
		const size_t count = n - p.first < TOKENS_AT_ONCE ? n - p.first : TOKENS_AT_ONCE;
		for (uint32_t r = row0; r < row1; r += TILE_ROWS) {
			const uint8_t *block = w->data;
			const size_t rows = row1 - r < TILE_ROWS ? row1 - r : TILE_ROWS;
			float sums[TOKENS_AT_ONCE][TILE_ROWS];

			memset(sums, 0, count * sizeof sums[0]);
			block += r / TILE_ROWS * block_bytes;
			multiply_block(sums, block, &p, count, &u, codes, unit_bytes);
			for (size_t t = 0; t < count; t++)
				memcpy(y + (p.first + t) * ldy + r, sums[t], rows * sizeof(float));
		}
	}
}

void avx2_multiply_tq2(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, codes_tq2, 2);
}

void avx2_multiply_tq3(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, codes_tq3, 3);
}

void avx2_multiply_tq4(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, codes_tq4, 4);
}

#endif

/* AVX2 products of TQ matrices: exact integer dots of a group, then one fused multiply-add per
 * group.
 *
 * A tile is one group of 16 rows. Its units hold 8 columns of 16 rows; a register of codes holds
 * the codebook integers of 8 rows in 32-bit lanes, for the 4 even or the 4 odd columns, and meets 4
 * bytes of a token's input in all lanes at once. What differs between formats is only how codes are
 * made.
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
	HALVES = TILE_ROWS / AVX2_LANES, /* a unit's registers of rows */
	TOKENS_AT_ONCE = 64,		 /* tokens that share one unpacking of a tile */
};

/* ---- making codes ---- */

struct codes {
	__m256i even, odd;
};
/* Registers that hold constants while a matrix is multiplied. */
struct unpacker {
	__m256i codebook; /* for vpshufb: 16 bytes in both halves, repeated for fewer levels */
	__m256i spread;	  /* for vpshufb, copies a row's bytes to where they are needed; TQ2, TQ3 */
	__m256i first, second; /* multipliers that shift words left; TQ3 */
};
/* The codes of rows 8 · half … 8 · half + 7 of a unit. */
typedef struct codes codes_fn(const uint8_t *unit, size_t half, const struct unpacker *u);

ALWAYS_INLINE __m128i load16(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* From bytes whose lowest `bits` bits are an even index, with the odd one above it. vpshufb looks
 * at the low four bits, and at the highest, which must be zero. */
ALWAYS_INLINE struct codes look_up(__m256i pairs, int bits, const struct unpacker *u)
{
	const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(pairs, bits), _mm256_set1_epi8(15));
	return (struct codes){_mm256_shuffle_epi8(u->codebook, pairs),
			      _mm256_shuffle_epi8(u->codebook, odd)};
}

/* A row's 2 bytes, each copied twice: in the second copy the high half is the one that counts. */
ALWAYS_INLINE struct codes codes_tq2(const uint8_t *unit, size_t half, const struct unpacker *u)
{
	const __m256i rows = _mm256_broadcastsi128_si256(load16(unit + half * 16));
	const __m256i copies = _mm256_shuffle_epi8(rows, u->spread);
	const __m256i low = _mm256_and_si256(copies, _mm256_set1_epi16(0x000f));
	const __m256i high =
		_mm256_and_si256(_mm256_srli_epi16(copies, 4), _mm256_set1_epi16(0x0f00));
	return look_up(_mm256_or_si256(low, high), 2, u);
}

/* A row's 3 bytes b0 b1 b2 become the 16-bit words b0b1 and b1b2, in which the pairs of indices
 * begin at bits 0 and 6, 4 and 10. Multiplications move each to the top of its word, shifts from
 * there to the bottom of the first and of the second byte. Of the 16 bytes read 12 are used; the
 * rest of the last read of a tile falls on its norms. */
ALWAYS_INLINE struct codes codes_tq3(const uint8_t *unit, size_t half, const struct unpacker *u)
{
	const __m128i low = load16(unit + half * 24), high = load16(unit + half * 24 + 12);
	const __m256i words = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), u->spread);
	const __m256i first = _mm256_srli_epi16(_mm256_mullo_epi16(words, u->first), 10);
	const __m256i second =
		_mm256_and_si256(_mm256_srli_epi16(_mm256_mullo_epi16(words, u->second), 2),
				 _mm256_set1_epi16(0x3f00));
	return look_up(_mm256_or_si256(first, second), 3, u);
}

/* A row's 4 bytes, each an even and an odd index. */
ALWAYS_INLINE struct codes codes_tq4(const uint8_t *unit, size_t half, const struct unpacker *u)
{
	const __m256i mask = _mm256_set1_epi8(15);
	const __m256i pairs = _mm256_loadu_si256((const __m256i *)(const void *)(unit + half * 32));
	const __m256i even = _mm256_and_si256(pairs, mask);
	const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(pairs, 4), mask);
	return (struct codes){_mm256_shuffle_epi8(u->codebook, even),
			      _mm256_shuffle_epi8(u->codebook, odd)};
}

static struct unpacker make_unpacker(const struct tq_codebook *book)
{
	_Alignas(16) int8_t table[16];
	struct unpacker u = {
		.first = _mm256_set1_epi32(0x00400400),	 /* · 2^10, · 2^6 */
		.second = _mm256_set1_epi32(0x00010010), /* · 2^4, · 1 */
	};

	for (size_t i = 0; i < 16; i++)
		table[i] = book->integer[i % book->levels];
	u.codebook = _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)(void *)table));
	if (book->bits == 2)
		u.spread = _mm256_setr_epi8(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, //
					    8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15,
					    15);
	else
		u.spread = _mm256_broadcastsi128_si256(
			_mm_setr_epi8(0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11));
	return u;
}

/* ---- integer dots of one tile ---- */

/* Four bytes of a token's input, broadcast: as they are and as magnitudes. */
struct operand {
	__m256i q, magnitude;
};
ALWAYS_INLINE struct operand load_operand(const int8_t *q)
{
	int32_t four;
	memcpy(&four, q, sizeof four);
	const __m256i v = _mm256_set1_epi32(four);
	return (struct operand){v, _mm256_abs_epi8(v)};
}

ALWAYS_INLINE __m256i add_products(__m256i sums, __m256i codes, struct operand x)
{
	const __m256i pairs = _mm256_maddubs_epi16(x.magnitude, _mm256_sign_epi8(codes, x.q));
	return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* One unit of one token: both halves of the rows. */
ALWAYS_INLINE void add_unit(__m256i sums[HALVES], const struct codes codes[HALVES], const int8_t *q)
{
	const struct operand even = load_operand(q), odd = load_operand(q + TQ_UNIT / 2);

	for (size_t i = 0; i < HALVES; i++) {
		sums[i] = add_products(sums[i], codes[i].even, even);
		sums[i] = add_products(sums[i], codes[i].odd, odd);
	}
}

/* y[16] = fmaf((float)I, norm · a, y[16]) */
ALWAYS_INLINE void finish_tile(float y[TILE_ROWS], const __m256i sums[HALVES],
			       const __m256 norms[HALVES], float a)
{
	for (size_t i = 0; i < HALVES; i++) {
		const __m256 factor = _mm256_mul_ps(norms[i], _mm256_set1_ps(a));
		float *out = y + i * AVX2_LANES;
		_mm256_storeu_ps(out, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[i]), factor,
						      _mm256_loadu_ps(out)));
	}
}

ALWAYS_INLINE void load_norms(__m256 norms[HALVES], const uint8_t *p, enum norm_type type)
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
ALWAYS_INLINE void tile_one(__m256i sums[HALVES], const uint8_t *tile, const int8_t *q,
			    const struct unpacker *u, codes_fn *codes, size_t unit_bytes)
{
	for (size_t i = 0; i < HALVES; i++)
		sums[i] = _mm256_setzero_si256();
	for (size_t unit = 0; unit < UNITS; unit++, tile += unit_bytes) {
		const struct codes made[HALVES] = {codes(tile, 0, u), codes(tile, 1, u)};
		add_unit(sums, made, q + unit * TQ_UNIT);
	}
}

/* One or two tokens with codes that are already unpacked. */
ALWAYS_INLINE void tile_unpacked(__m256i sums[2][HALVES], const struct codes codes[UNITS][HALVES],
				 const int8_t *const q[2], size_t tokens)
{
	for (size_t t = 0; t < tokens; t++)
		for (size_t i = 0; i < HALVES; i++)
			sums[t][i] = _mm256_setzero_si256();
	for (size_t unit = 0; unit < UNITS; unit++)
		for (size_t t = 0; t < tokens; t++)
			add_unit(sums[t], codes[unit], q[t] + unit * TQ_UNIT);
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
		struct codes unpacked[UNITS][HALVES];
		__m256i sums[2][HALVES];
		__m256 norms[HALVES];

		load_norms(norms, tile + units_bytes, p->norms);
		if (count == 1) {
			const size_t at = input_group(p, 0, g);
			tile_one(sums[0], tile, p->x->q + at * TQ_GROUP, u, codes, unit_bytes);
			finish_tile(y[0], sums[0], norms, p->x->scale[at] * p->gain);
			continue;
		}
		for (size_t unit = 0; unit < UNITS; unit++)
			for (size_t i = 0; i < HALVES; i++)
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

/* Weight formats: sizes, conversions of 16-bit floats, and the way from the canonical layout to the
 * arranged one (format.h draws both). What the bits of a TQ group mean is tq.c's.
 */
#include "kernels/format.h"
#include "kernels/tq.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "weights on disk are little-endian and are read in place");

static const struct {
	const char *name;
	size_t element_bytes; /* of a float; 0 for TQ */
} formats[FORMAT_COUNT] = {
	[FORMAT_F32] = {"f32", 4}, [FORMAT_F16] = {"f16", 2}, [FORMAT_BF16] = {"bf16", 2},
	[FORMAT_TQ2] = {"tq2", 0}, [FORMAT_TQ3] = {"tq3", 0}, [FORMAT_TQ4] = {"tq4", 0},
};

const char *format_name(enum format f)
{
	return formats[f].name;
}

/* Sixteen million rows hold any vocabulary and the flattened experts of a layer, a million columns
 * any hidden size; the largest matrix is then 2^46 bytes, far from overflow. */
bool format_fits(uint64_t rows, uint64_t cols)
{
	return rows >= 1 && rows <= UINT64_C(1) << 24 && cols >= 1 && cols <= UINT64_C(1) << 20;
}

static size_t norm_bytes(const struct shape *s)
{
	return s->norms == NORM_F16 ? 2 : 4;
}

/* Packed bytes of one group in one row. */
static size_t group_bytes(const struct shape *s)
{
	return (size_t)TQ_GROUP / 8 * format_tq_bits(s->format);
}

size_t format_packed_bytes(const struct shape *s)
{
	if (!format_is_tq(s->format))
		return (size_t)s->rows * s->cols * formats[s->format].element_bytes;
	return s->rows * tq_groups(s->cols) * group_bytes(s);
}

size_t format_norm_bytes(const struct shape *s)
{
	if (!format_is_tq(s->format))
		return 0;
	return s->rows * tq_groups(s->cols) * norm_bytes(s);
}

size_t format_arranged_bytes(const struct shape *s)
{
	size_t bytes = format_packed_bytes(s);
	if (format_is_tq(s->format)) {
		size_t blocks = ((size_t)s->rows + TILE_ROWS - 1) / TILE_ROWS;
		bytes = blocks * tq_groups(s->cols) *
			tq_tile_bytes(format_tq_bits(s->format), s->norms);
	}
	return (bytes + 63) / 64 * 64;
}

/* ---- arranging ---- */

/* Byte `from` of the packed bytes of a row's slab, 4 · bits of them, which are here as words, moved
 * to byte `to` of a word. */
static inline __attribute__((always_inline)) uint32_t
move_byte(const uint32_t word[][TILE_ROWS], uint32_t row, size_t from, size_t to)
{
	const uint32_t w = word[from / 4][row];
	const size_t at = from % 4;

	return (at < to ? w << 8 * (to - at) : w >> 8 * (at - to)) & 0xffU << 8 * to;
}

/* One slab of `rows` (1 … 16) adjacent rows. `bits` is a constant where this is inlined, so that
 * the loops over rows become vectors. */
static inline __attribute__((always_inline)) void
interleave_slab(uint8_t *dst, const uint8_t *packed, size_t row_bytes, uint32_t rows, size_t bits)
{
	uint32_t word[4][TILE_ROWS] = {{0}}, plane[TILE_ROWS];

	for (uint32_t r = 0; r < rows; r++)
		for (size_t w = 0; w < bits; w++)
			memcpy(&word[w][r], packed + r * row_bytes + w * sizeof word[w][r],
			       sizeof word[w][r]);
	for (size_t p = 0; p < bits; p++, dst += PLANE_BYTES) {
		for (uint32_t r = 0; r < TILE_ROWS; r++)
			plane[r] = move_byte(word, r, p, 0) | move_byte(word, r, bits + p, 1) |
				   move_byte(word, r, 2 * bits + p, 2) |
				   move_byte(word, r, 3 * bits + p, 3);
		memcpy(dst, plane, PLANE_BYTES);
	}
}

static inline __attribute__((always_inline)) void
interleave_slabs(uint8_t *dst, const uint8_t *packed, size_t row_bytes, uint32_t rows, size_t bits)
{
	for (size_t slab = 0; slab < SLABS; slab++)
		interleave_slab(dst + slab * tq_slab_bytes(bits), packed + slab * bits * SLAB_UNITS,
				row_bytes, rows, bits);
}

/* One group of adjacent rows without its norms. */
typedef void interleave_fn(uint8_t *dst, const uint8_t *packed, size_t row_bytes, uint32_t rows,
			   size_t bits);

static void interleave_group(uint8_t *dst, const uint8_t *packed, size_t row_bytes, uint32_t rows,
			     size_t bits)
{
	if (bits == 2)
		interleave_slabs(dst, packed, row_bytes, rows, 2);
	else if (bits == 3)
		interleave_slabs(dst, packed, row_bytes, rows, 3);
	else
		interleave_slabs(dst, packed, row_bytes, rows, 4);
}

#if defined(__x86_64__)
/* With byte shuffles, for whole blocks: every expert passes through here on its way from the disk,
 * and this takes a quarter of the time. */
#define SHUFFLES __attribute__((target("ssse3")))

/* The 4 · bits packed bytes of a row's slab, those of one plane together. */
SHUFFLES static inline __attribute__((always_inline)) __m128i
load_row(const uint8_t *packed, __m128i by_plane, size_t bits)
{
	int32_t last = 0;
	if (bits == 3) /* not 16 bytes, which may be more than there are */
		memcpy(&last, packed + 8, sizeof last);
	const __m128i *from = (const __m128i *)(const void *)packed;
	const __m128i row =
		bits == 4 ? _mm_loadu_si128(from)
			  : _mm_unpacklo_epi64(_mm_loadl_epi64(from), _mm_cvtsi32_si128(last));
	return _mm_shuffle_epi8(row, by_plane);
}

/* Four rows of a slab: dst is their place in its first plane. */
SHUFFLES static inline __attribute__((always_inline)) void
shuffle_rows(uint8_t *dst, const uint8_t *packed, size_t row_bytes, __m128i by_plane, size_t bits)
{
	__m128i row[4], pair[4], plane[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = load_row(packed + r * row_bytes, by_plane, bits);
	for (size_t half = 0; half < 2; half++) {
		pair[half] = _mm_unpacklo_epi32(row[2 * half], row[2 * half + 1]);
		pair[half + 2] = _mm_unpackhi_epi32(row[2 * half], row[2 * half + 1]);
	}
	for (size_t p = 0; p < 4; p += 2) {
		plane[p] = _mm_unpacklo_epi64(pair[p], pair[p + 1]);
		plane[p + 1] = _mm_unpackhi_epi64(pair[p], pair[p + 1]);
	}
	for (size_t p = 0; p < bits; p++)
		_mm_storeu_si128((__m128i *)(void *)(dst + p * PLANE_BYTES), plane[p]);
}

SHUFFLES static inline __attribute__((always_inline)) void
shuffle_slabs(uint8_t *dst, const uint8_t *packed, size_t row_bytes, size_t bits)
{
	uint8_t byte[16] = {0};
	for (size_t i = 0; i < 4 * bits; i++)
		byte[i] = (uint8_t)(i % SLAB_UNITS * bits + i / SLAB_UNITS);
	const __m128i by_plane = _mm_loadu_si128((const __m128i *)(const void *)byte);

	for (size_t slab = 0; slab < SLABS; slab++)
		for (size_t r = 0; r < TILE_ROWS; r += 4)
			shuffle_rows(dst + slab * tq_slab_bytes(bits) + r * SLAB_UNITS,
				     packed + slab * bits * SLAB_UNITS + r * row_bytes, row_bytes,
				     by_plane, bits);
}

SHUFFLES static void shuffle_group(uint8_t *dst, const uint8_t *packed, size_t row_bytes,
				   uint32_t rows, size_t bits)
{
	(void)rows; /* all of them */
	if (bits == 2)
		shuffle_slabs(dst, packed, row_bytes, 2);
	else if (bits == 3)
		shuffle_slabs(dst, packed, row_bytes, 3);
	else
		shuffle_slabs(dst, packed, row_bytes, 4);
}

static interleave_fn *interleave_for(uint32_t rows)
{
	return rows == TILE_ROWS && __builtin_cpu_supports("ssse3") ? shuffle_group
								    : interleave_group;
}
#else
static interleave_fn *interleave_for(uint32_t rows)
{
	(void)rows;
	return interleave_group;
}
#endif

static void interleave_norms(uint8_t *dst, const uint8_t *norms, size_t row_bytes, uint32_t rows,
			     size_t bytes)
{
	for (uint32_t r = 0; r < rows; r++)
		memcpy(dst + r * bytes, norms + r * row_bytes, bytes);
	memset(dst + rows * bytes, 0, (TILE_ROWS - rows) * bytes);
}

static void arrange_block(uint8_t *dst, const struct shape *s, uint32_t rows, const uint8_t *packed,
			  const uint8_t *norms)
{
	const size_t groups = tq_groups(s->cols), bytes = group_bytes(s), norm = norm_bytes(s);
	const size_t row_bytes = groups * bytes, bits = format_tq_bits(s->format);
	interleave_fn *interleave = interleave_for(rows);

	for (size_t g = 0; g < groups; g++) {
		interleave(dst, packed, row_bytes, rows, bits);
		interleave_norms(dst + tq_slabs_bytes(bits), norms, groups * norm, rows, norm);
		dst += tq_tile_bytes(bits, s->norms);
		packed += bytes;
		norms += norm;
	}
}

void format_arrange(void *dst, const struct shape *s, uint32_t row0, uint32_t rows,
		    const void *packed, const void *norms)
{
	uint8_t *out = dst;
	const uint8_t *from = packed, *from_norms = norms;

	if (!format_is_tq(s->format)) {
		const size_t row_bytes = s->cols * formats[s->format].element_bytes;
		memcpy(out + row0 * row_bytes, from, rows * row_bytes);
		return;
	}
	const size_t groups = tq_groups(s->cols);
	const size_t row_bytes = groups * group_bytes(s), norm_row_bytes = groups * norm_bytes(s);

	out += row0 * (row_bytes + norm_row_bytes);
	for (uint32_t r = 0; r < rows; r += TILE_ROWS) {
		uint32_t block = rows - r < TILE_ROWS ? rows - r : TILE_ROWS;
		arrange_block(out, s, block, from, from_norms);
		out += TILE_ROWS * (row_bytes + norm_row_bytes);
		from += TILE_ROWS * row_bytes;
		from_norms += TILE_ROWS * norm_row_bytes;
	}
}

/* ---- dequantising ---- */

static float norm_at(const struct shape *s, const uint8_t *norms, size_t i)
{
	if (s->norms == NORM_F16) {
		uint16_t h;
		memcpy(&h, norms + 2 * i, sizeof h);
		return f16_to_f32(h);
	}
	float f;
	memcpy(&f, norms + 4 * i, sizeof f);
	return f;
}

static void dequantise_tq(float *out, const struct shape *s, const uint8_t *packed,
			  const uint8_t *norms)
{
	const struct tq_codebook *book = tq_codebook(format_tq_bits(s->format));

	for (size_t g = 0; g < tq_groups(s->cols); g++) {
		uint8_t index[TQ_GROUP];
		float x[TQ_GROUP];
		const size_t start = g * TQ_GROUP;
		const size_t width = s->cols - start < TQ_GROUP ? s->cols - start : TQ_GROUP;
		const float norm = norm_at(s, norms, g);

		tq_unpack(index, packed + g * group_bytes(s), book->bits);
		for (size_t i = 0; i < TQ_GROUP; i++)
			x[i] = book->level[index[i]];
		tq_unrotate(x);
		for (size_t i = 0; i < width; i++)
			out[start + i] = x[i] * norm;
	}
}

void format_dequantise_row(float *out, const struct shape *s, const void *packed, const void *norms)
{
	const uint8_t *from = packed;

	if (format_is_tq(s->format)) {
		dequantise_tq(out, s, from, norms);
		return;
	}
	if (s->format == FORMAT_F32) {
		memmove(out, from, s->cols * sizeof *out);
		return;
	}
	for (size_t i = 0; i < s->cols; i++) {
		uint16_t h;
		memcpy(&h, from + 2 * i, sizeof h);
		out[i] = s->format == FORMAT_F16 ? f16_to_f32(h) : bf16_to_f32(h);
	}
}

/* ---- 16-bit floats ---- */

static uint32_t bits_of(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static float float_of(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

/* A signalling NaN becomes quiet, as the F16C instructions have it. */
float f16_to_f32(uint16_t h)
{
	const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31;
	const uint32_t mantissa = h & 0x3ff;

	if (exponent == 31)
		return float_of(sign | 0x7f800000 | (mantissa ? 0x400000 | mantissa << 13 : 0));
	if (exponent == 0) { /* zero and subnormals: mantissa · 2^-24, exact in f32 */
		float magnitude = (float)mantissa * 0x1p-24f;
		return sign ? -magnitude : magnitude;
	}
	return float_of(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
}

uint16_t f32_to_f16(float f)
{
	const uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;

	if (magnitude > 0x7f800000) /* NaN: quiet, the upper payload kept */
		return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
	if (magnitude >= 0x477ff000) /* 65520 and above round to infinity */
		return (uint16_t)(sign | 0x7c00);
	if (magnitude < 0x38800000) {
		/* Below 2^-14: the result is a multiple of 2^-24. Adding 0.5, whose last bit is
		 * worth 2^-24, lets the addition do the rounding; the sum's low bits are the
		 * result, and a carry into the smallest normal number comes out right. */
		return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5F) - 0x3f000000));
	}
	/* Nearest even: half a unit less one, plus the bit that will be last. */
	const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
	return (uint16_t)(sign | (rounded - ((127U - 15) << 23)) >> 13);
}

float bf16_to_f32(uint16_t b)
{
	return float_of((uint32_t)b << 16);
}

uint16_t f32_to_bf16(float f)
{
	const uint32_t u = bits_of(f);

	if ((u & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

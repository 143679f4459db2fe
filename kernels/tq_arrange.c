/* The way of a TQ matrix from the canonical layout to the arranged one (format.h draws both). What
 * the bits of a group mean is tq.c's.
 */
#include "kernels/tq.h"

#include "kernels/look_ahead.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

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
	const size_t groups = tq_groups(s->cols), bytes = tq_group_bytes(format_tq_bits(s->format)),
		     norm = tq_norm_bytes(s->norms);
	const size_t row_bytes = groups * bytes, bits = format_tq_bits(s->format);
	interleave_fn *interleave = interleave_for(rows);

	for (size_t g = 0; g < groups; g++) {
		look_ahead_in_slot((uintptr_t)dst, tq_tile_bytes(bits, s->norms));
		interleave(dst, packed, row_bytes, rows, bits);
		interleave_norms(dst + tq_slabs_bytes(bits), norms, groups * norm, rows, norm);
		dst += tq_tile_bytes(bits, s->norms);
		packed += bytes;
		norms += norm;
	}
}

void tq_arrange(uint8_t *out, const struct shape *s, uint32_t rows, const struct pieces *pieces)
{
	const size_t groups = tq_groups(s->cols);
	const size_t row_bytes = groups * tq_group_bytes(format_tq_bits(s->format)),
		     norm_row_bytes = groups * tq_norm_bytes(s->norms);
	const uint8_t *from = pieces->weights, *norms = pieces->scales;

	for (uint32_t r = 0; r < rows; r += TILE_ROWS) {
		arrange_block(out, s, rows - r < TILE_ROWS ? rows - r : TILE_ROWS, from, norms);
		out += TILE_ROWS * (row_bytes + norm_row_bytes);
		from += TILE_ROWS * row_bytes;
		norms += TILE_ROWS * norm_row_bytes;
	}
}

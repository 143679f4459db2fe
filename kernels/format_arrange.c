/* A matrix on its way from the bytes of its file into memory (format.h and block_layout.h describe
 * both). Bytes only move; what they mean is defined in tq.c, tc.c and block.c. Blocks pass through
 * the functions of the fastest table, which are written once in arrange_lanes.h.
 */
#include "kernels/block_layout.h"
#include "kernels/kernels.h"
#include "kernels/prefetch.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- TQ and TC: one slab of up to 16 rows ---- */

/* Moves byte `from` of a row's slab, whose 4 · bits packed bytes are in `word`, to byte `to` of a
 * word. */
ALWAYS_INLINE uint32_t arrange_move_byte(const uint32_t word[][TILE_ROWS], uint32_t row,
					 size_t from, size_t to)
{
	const uint32_t w = word[from / 4][row];
	const size_t at = from % 4;

	return (at < to ? w << 8 * (to - at) : w >> 8 * (at - to)) & 0xffU << 8 * to;
}

/* One slab of `rows` (1 … 16) adjacent rows. `bits` is a constant where this is inlined, so that
 * the loops over rows are vectorised. */
ALWAYS_INLINE void arrange_slab(uint8_t *dst, const uint8_t *packed, size_t row_bytes,
				uint32_t rows, size_t bits)
{
	uint32_t word[4][TILE_ROWS] = {{0}}, plane[TILE_ROWS];

	for (uint32_t r = 0; r < rows; r++)
		for (size_t w = 0; w < bits; w++)
			memcpy(&word[w][r], packed + r * row_bytes + w * sizeof word[w][r],
			       sizeof word[w][r]);
	for (size_t p = 0; p < bits; p++, dst += PLANE_BYTES) {
		for (uint32_t r = 0; r < TILE_ROWS; r++)
			plane[r] = arrange_move_byte(word, r, p, 0) |
				   arrange_move_byte(word, r, bits + p, 1) |
				   arrange_move_byte(word, r, 2 * bits + p, 2) |
				   arrange_move_byte(word, r, 3 * bits + p, 3);
		memcpy(dst, plane, PLANE_BYTES);
	}
}

ALWAYS_INLINE void arrange_slabs(uint8_t *dst, const uint8_t *packed, size_t row_bytes,
				 uint32_t rows, size_t bits)
{
	for (size_t slab = 0; slab < SLABS; slab++)
		arrange_slab(dst + slab * tq_slab_bytes(bits), packed + slab * bits * SLAB_UNITS,
			     row_bytes, rows, bits);
}

/* One group of adjacent rows without its norms. */
typedef void arrange_group_fn(uint8_t *dst, const uint8_t *packed, size_t row_bytes, uint32_t rows,
			      size_t bits);

static void arrange_group(uint8_t *dst, const uint8_t *packed, size_t row_bytes, uint32_t rows,
			  size_t bits)
{
	if (bits == 2)
		arrange_slabs(dst, packed, row_bytes, rows, 2);
	else if (bits == 3)
		arrange_slabs(dst, packed, row_bytes, rows, 3);
	else
		arrange_slabs(dst, packed, row_bytes, rows, 4);
}

#if defined(__x86_64__)
/* The same with byte shuffles, for 16 rows, in a quarter of the time: every expert passes through
 * here on its way from the disk. */
#define SHUFFLES __attribute__((target("ssse3")))

/* The 4 · bits packed bytes of a row's slab, grouped by plane. */
SHUFFLES ALWAYS_INLINE __m128i arrange_shuffle_row(const uint8_t *packed, __m128i by_plane,
						   size_t bits)
{
	int32_t last = 0;
	if (bits == 3) /* not 16 bytes: the file may end after 12 */
		memcpy(&last, packed + 8, sizeof last);
	const __m128i *from = (const __m128i *)(const void *)packed;
	const __m128i row =
		bits == 4 ? _mm_loadu_si128(from)
			  : _mm_unpacklo_epi64(_mm_loadl_epi64(from), _mm_cvtsi32_si128(last));
	return _mm_shuffle_epi8(row, by_plane);
}

/* Four rows of a slab: dst is their place in its first plane. */
SHUFFLES ALWAYS_INLINE void arrange_shuffle_rows(uint8_t *dst, const uint8_t *packed,
						 size_t row_bytes, __m128i by_plane, size_t bits)
{
	__m128i row[4], pair[4], plane[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = arrange_shuffle_row(packed + r * row_bytes, by_plane, bits);
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

SHUFFLES ALWAYS_INLINE void arrange_shuffle_slabs(uint8_t *dst, const uint8_t *packed,
						  size_t row_bytes, size_t bits)
{
	uint8_t byte[16] = {0};
	for (size_t i = 0; i < 4 * bits; i++)
		byte[i] = (uint8_t)(i % SLAB_UNITS * bits + i / SLAB_UNITS);
	const __m128i by_plane = _mm_loadu_si128((const __m128i *)(const void *)byte);

	for (size_t slab = 0; slab < SLABS; slab++)
		for (size_t r = 0; r < TILE_ROWS; r += 4)
			arrange_shuffle_rows(dst + slab * tq_slab_bytes(bits) + r * SLAB_UNITS,
					     packed + slab * bits * SLAB_UNITS + r * row_bytes,
					     row_bytes, by_plane, bits);
}

SHUFFLES static void arrange_shuffle_group(uint8_t *dst, const uint8_t *packed, size_t row_bytes,
					   uint32_t rows, size_t bits)
{
	(void)rows; /* 16 */
	if (bits == 2)
		arrange_shuffle_slabs(dst, packed, row_bytes, 2);
	else if (bits == 3)
		arrange_shuffle_slabs(dst, packed, row_bytes, 3);
	else
		arrange_shuffle_slabs(dst, packed, row_bytes, 4);
}

static arrange_group_fn *arrange_group_for(uint32_t rows)
{
	return rows == TILE_ROWS && __builtin_cpu_supports("ssse3") ? arrange_shuffle_group
								    : arrange_group;
}
#else
static arrange_group_fn *arrange_group_for(uint32_t rows)
{
	(void)rows;
	return arrange_group;
}
#endif

/* ---- TQ and TC: rows ---- */

/* The norms of one group of up to 16 rows; missing rows have zeros. */
static void arrange_norms(uint8_t *dst, const uint8_t *norms, size_t row_bytes, uint32_t rows,
			  size_t bytes)
{
	for (uint32_t r = 0; r < rows; r++)
		memcpy(dst + r * bytes, norms + r * row_bytes, bytes);
	memset(dst + rows * bytes, 0, (TILE_ROWS - rows) * bytes);
}

/* Up to 16 rows. */
static void arrange_tq_rows(uint8_t *dst, const struct shape *s, uint32_t rows,
			    const uint8_t *packed, const uint8_t *norms)
{
	const size_t groups = tq_groups(s->cols), bytes = tq_group_bytes(format_tq_bits(s->format)),
		     norm = format_norm_type_bytes(s->norms);
	const size_t row_bytes = groups * bytes, bits = format_tq_bits(s->format);
	arrange_group_fn *group = arrange_group_for(rows);

	for (size_t g = 0; g < groups; g++) {
		prefetch_slot((uintptr_t)dst, tq_tile_bytes(bits, s->norms));
		group(dst, packed, row_bytes, rows, bits);
		arrange_norms(dst + tq_slabs_bytes(bits), norms, groups * norm, rows, norm);
		dst += tq_tile_bytes(bits, s->norms);
		packed += bytes;
		norms += norm;
	}
}

/* Whole blocks of rows; `to` is where the first begins. */
static void arrange_tq(uint8_t *out, const struct shape *s, uint32_t rows,
		       const struct pieces *pieces)
{
	const size_t groups = tq_groups(s->cols);
	const size_t row_bytes = groups * tq_group_bytes(format_tq_bits(s->format)),
		     norm_row_bytes = groups * format_norm_type_bytes(s->norms);
	const uint8_t *from = pieces->weights, *norms = pieces->scales;

	for (uint32_t r = 0; r < rows; r += TILE_ROWS) {
		arrange_tq_rows(out, s, rows - r < TILE_ROWS ? rows - r : TILE_ROWS, from, norms);
		out += TILE_ROWS * (row_bytes + norm_row_bytes);
		from += TILE_ROWS * row_bytes;
		norms += TILE_ROWS * norm_row_bytes;
	}
}

/* ---- blocks ---- */

/* The scales or biases of up to 16 rows, which are a separate piece; `to` is their place in the
 * first tile. Missing rows have zeros. */
static void arrange_piece(const struct arrange_blocks *by, uint8_t *to,
			  const struct arrange_rows *rows, const uint8_t *piece, size_t bytes)
{
	const size_t stride = rows->tiles * bytes;

	if (rows->count == TILE_ROWS)
		by->scales(to, rows->to_tile, piece, stride, rows->tiles, bytes);
	else
		for (size_t t = 0; t < rows->tiles; t++)
			arrange_norms(to + t * rows->to_tile, piece + t * bytes, stride,
				      rows->count, bytes);
}

/* Fewer than 16 rows: tile by tile from a copy in which the missing rows are zeros. */
static void arrange_few_rows(const struct arrange_blocks *by, uint8_t *to,
			     const struct arrange_rows *rows, enum format format)
{
	enum { MOST = 256 }; /* bytes of a tile's row */
	uint8_t tile[TILE_ROWS][MOST] = {{0}};
	struct arrange_rows one = *rows;

	one.from = tile[0];
	one.stride = MOST;
	one.tiles = 1;
	for (size_t t = 0; t < rows->tiles; t++, to += rows->to_tile) {
		for (size_t r = 0; r < rows->count; r++)
			memcpy(tile[r], rows->from + r * rows->stride + t * rows->from_tile,
			       rows->from_tile);
		by->tiles[format](to, &one);
	}
}

/* Up to 16 rows. */
static void arrange_block_rows(const struct arrange_blocks *by, uint8_t *to, const struct shape *s,
			       uint32_t count, const struct pieces *pieces)
{
	const struct block_layout *l = &block_layouts[s->format];
	const size_t tiles = s->cols / format_block_cols(s),
		     stride = format_packed_bytes(s) / s->rows,
		     norms = format_norm_bytes(s) / s->rows / tiles;
	const struct arrange_rows rows = {.from = pieces->weights,
					  .stride = stride,
					  .count = count,
					  .tiles = tiles,
					  .from_tile = stride / tiles,
					  .to_tile = layout_tile_bytes(l, s),
					  .blocks = layout_blocks(l, s),
					  .scales = layout_scales_at(l, s)};

	if (count == TILE_ROWS)
		by->tiles[s->format](to, &rows);
	else
		arrange_few_rows(by, to, &rows, s->format);
	if (norms)
		arrange_piece(by, to + rows.scales, &rows, pieces->scales, norms);
	if (format_bias_bytes(s))
		arrange_piece(by, to + rows.scales + TILE_ROWS * norms, &rows, pieces->biases,
			      norms);
}

/* Bytes of 16 arranged rows of blocks. */
static size_t arrange_block_rows_bytes(const struct shape *s)
{
	return s->cols / format_block_cols(s) * layout_tile_bytes(&block_layouts[s->format], s);
}

void arrange_blocks_by(const struct arrange_blocks *by, uint8_t *to, const struct shape *s,
		       uint32_t rows, const struct pieces *pieces)
{
	struct pieces from = *pieces;

	for (uint32_t r = 0; r < rows; r += TILE_ROWS) {
		struct shape above = *s;
		above.rows = r;
		const size_t scales = format_norm_bytes(&above);
		from.weights = (const uint8_t *)pieces->weights + format_packed_bytes(&above);
		if (scales)
			from.scales = (const uint8_t *)pieces->scales + scales;
		if (format_bias_bytes(&above))
			from.biases = (const uint8_t *)pieces->biases + format_bias_bytes(&above);
		arrange_block_rows(by, to, s, rows - r < TILE_ROWS ? rows - r : TILE_ROWS, &from);
		to += arrange_block_rows_bytes(s);
	}
}

/* ---- any format ---- */

size_t format_arranged_bytes(const struct shape *s)
{
	const size_t tiles_down = ((size_t)s->rows + TILE_ROWS - 1) / TILE_ROWS;
	size_t bytes = format_packed_bytes(s);

	if (format_is_tq(s->format))
		bytes = tiles_down * tq_groups(s->cols) *
			tq_tile_bytes(format_tq_bits(s->format), s->norms);
	else if (format_is_block(s->format))
		bytes = tiles_down * arrange_block_rows_bytes(s);
	return (bytes + 63) / 64 * 64;
}

void format_arrange(void *dst, const struct shape *s, uint32_t row0, uint32_t rows,
		    const struct pieces *from)
{
	struct shape before = *s;
	uint8_t *to = dst;

	before.rows = row0;
	if (format_is_tq(s->format)) {
		arrange_tq(to + format_packed_bytes(&before) + format_norm_bytes(&before), s, rows,
			   from);
	} else if (format_is_block(s->format)) {
		arrange_blocks_by(kernels_fastest()->arrange,
				  to + row0 / TILE_ROWS * arrange_block_rows_bytes(s), s, rows,
				  from);
	} else {
		struct shape these = *s;
		these.rows = rows;
		memcpy(to + format_packed_bytes(&before), from->weights,
		       format_packed_bytes(&these));
	}
}

/* Matrices of blocks on their way into memory: which tiles lie where, in files and there. What is
 * done to them is block_codes.h's.
 */
#include "kernels/block.h"
#include "kernels/block_layout.h"
#include "kernels/block_ways.h"

#include <string.h>

#if defined(__x86_64__)
const struct block_ways *const *block_ways_available(void)
{
	static const struct block_ways *const all[] = {&block_ways_scalar, NULL};
	static const struct block_ways *const avx2[] = {&block_ways_scalar, &block_ways_avx2, NULL};
	static const struct block_ways *const avx512[] = {&block_ways_scalar, &block_ways_avx2,
							  &block_ways_avx512, NULL};

	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
		return all;
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
			       __builtin_cpu_supports("avx512vl") &&
			       __builtin_cpu_supports("avx512dq")
		       ? avx512
		       : avx2;
}
#else
const struct block_ways *const *block_ways_available(void)
{
	static const struct block_ways *const all[] = {
		&block_ways_scalar,
#if defined(__aarch64__)
		&block_ways_neon,
#endif
		NULL
	};

	return all;
}
#endif

static const struct block_ways *fastest(void)
{
	const struct block_ways *const *ways = block_ways_available();

	while (ways[1])
		ways++;
	return *ways;
}

/* Element `tile` of each row of a piece that lies apart; missing rows are zeros. */
static void put_few_apart(uint8_t *to, const uint8_t *from, size_t stride, size_t bytes,
			  uint32_t rows)
{
	memset(to, 0, TILE_ROWS * bytes);
	for (size_t r = 0; r < rows; r++)
		memcpy(to + r * bytes, from + r * stride, bytes);
}

/* A piece that lies apart, of all tiles: `to` is its place in the first. */
static void put_piece(const struct block_ways *ways, uint8_t *to, const struct block_rows *rows,
		      const uint8_t *piece, size_t bytes)
{
	const size_t stride = rows->tiles * bytes;

	if (rows->count == TILE_ROWS)
		ways->apart(to, rows->to_tile, piece, stride, rows->tiles, bytes);
	else
		for (size_t t = 0; t < rows->tiles; t++)
			put_few_apart(to + t * rows->to_tile, piece + t * bytes, stride, bytes,
				      rows->count);
}

/* Fewer than 16 rows, tile by tile from where zeros are the others. */
static void put_few(uint8_t *to, const struct block_rows *rows, block_way *way)
{
	enum { MOST = 256 }; /* bytes of a tile's row */
	uint8_t tile[TILE_ROWS][MOST] = {{0}};
	struct block_rows one = *rows;

	one.from = tile[0];
	one.stride = MOST;
	one.tiles = 1;
	for (size_t t = 0; t < rows->tiles; t++, to += rows->to_tile) {
		for (size_t r = 0; r < rows->count; r++)
			memcpy(tile[r], rows->from + r * rows->stride + t * rows->from_tile,
			       rows->from_tile);
		way(to, &one);
	}
}

/* Up to 16 rows. */
static void arrange_rows(uint8_t *to, const struct shape *s, uint32_t count,
			 const struct pieces *pieces, const struct block_ways *ways)
{
	const struct block_layout *l = &block_layouts[s->format];
	const size_t tiles = s->cols / format_block_cols(s),
		     stride = format_packed_bytes(s) / s->rows,
		     norms = format_norm_bytes(s) / s->rows / tiles;
	const struct block_rows rows = {.from = pieces->weights,
					.stride = stride,
					.count = count,
					.tiles = tiles,
					.from_tile = stride / tiles,
					.to_tile = layout_tile_bytes(l, s),
					.blocks = layout_blocks(l, s),
					.scales = layout_scales_at(l, s)};

	if (count == TILE_ROWS)
		ways->way[s->format](to, &rows);
	else
		put_few(to, &rows, ways->way[s->format]);
	if (norms)
		put_piece(ways, to + rows.scales, &rows, pieces->scales, norms);
	if (format_bias_bytes(s))
		put_piece(ways, to + rows.scales + TILE_ROWS * norms, &rows, pieces->biases, norms);
}

size_t block_rows_bytes(const struct shape *s)
{
	return s->cols / format_block_cols(s) * layout_tile_bytes(&block_layouts[s->format], s);
}

void block_arrange_by(const struct block_ways *ways, uint8_t *to, const struct shape *s,
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
		arrange_rows(to, s, rows - r < TILE_ROWS ? rows - r : TILE_ROWS, &from, ways);
		to += block_rows_bytes(s);
	}
}

void block_arrange(uint8_t *to, const struct shape *s, uint32_t rows, const struct pieces *pieces)
{
	block_arrange_by(fastest(), to, s, rows, pieces);
}

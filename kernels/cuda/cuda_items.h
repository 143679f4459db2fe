/* Whose inputs a product multiplies: items, and parts of their matrices (cuda_launch.h); and how
 * blocks of threads share the tiles of 16 rows of all of them. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_ITEMS_H
#define MOEFS_KERNELS_CUDA_CUDA_ITEMS_H

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_launch.h"

enum { CUDA_ROWS = 16 }; /* of a tile */

/* Sixteen inputs, or codes, four in a word. */
struct cuda_quad {
	uint32_t word[4];
} __attribute__((aligned(16)));

/* Item i, which there is. */
CUDA_THREAD struct cuda_item cuda_item_of(const struct cuda_product *p, uint32_t i)
{
	struct cuda_item item;

	if (p->items)
		return p->items[i];
	item.record = p->slots[0];
	item.first = i * p->most;
	item.n = p->n - item.first < p->most ? p->n - item.first : p->most;
	return item;
}

CUDA_THREAD bool cuda_item_there(const struct cuda_product *p, uint32_t i)
{
	return p->item_count ? i < *p->item_count : i * p->most < p->n;
}

/* The tiles of all items. */
CUDA_THREAD uint32_t cuda_tiles_in_all(const struct cuda_product *p)
{
	return p->item_count ? *p->item_count * p->parts * p->sharing.tiles : p->sharing.all;
}

/* The assignment of an item's token t. Where an item has fewer tokens than its kernel, its last one
 * stands in the others' places. */
CUDA_THREAD uint32_t cuda_assignment_of(const struct cuda_product *p, struct cuda_item item,
					uint32_t t)
{
	const uint32_t i = item.first + (t < item.n ? t : item.n - 1);

	return p->items ? p->order[i] : i;
}

/* The record's matrix of a part. */
CUDA_THREAD const uint8_t *cuda_matrix_of(const struct cuda_product *p, struct cuda_item item,
					  uint32_t part)
{
	return item.record + p->offset + part * p->part_bytes;
}

/* ---- codes that are looked up ---- */

/* Four values of a table of sixteen signed bytes, by four nibbles without their highest bits; upper: 4 where
 * such a bit was set. */
CUDA_THREAD uint32_t cuda_four_values(const uint32_t table[4], uint32_t nibbles, uint32_t upper)
{
	return cuda_permute(cuda_permute(table[0], table[1], nibbles),
			    cuda_permute(table[2], table[3], nibbles), 0x3210 + upper);
}

/* By eight nibbles. */
CUDA_THREAD void cuda_eight_values(uint32_t value[2], const uint32_t table[4], uint32_t nibbles)
{
	const uint32_t lower = nibbles & 0x77777777, upper = nibbles >> 1 & 0x44444444;

	value[0] = cuda_four_values(table, lower, upper & 0xffff);
	value[1] = cuda_four_values(table, lower >> 16, upper >> 16);
}

/* ---- tiles ---- */

/* A tile, and where its items' inputs and results are. */
struct cuda_tile {
	const uint8_t *weights;
	uint32_t row, n, part, unused;
};

/* The tiles that a block of threads has at once, in shared memory, for kernels of `tokens` tokens.
 */
struct cuda_tiles {
	struct cuda_tile *tile;
	uint32_t *assignment; /* [tiles][tokens] */
	uint32_t *input;      /* [tiles][tokens]: its first group, or block */
};

/* They begin at `memory`; what follows them is at input + tokens · at_once. */
CUDA_THREAD struct cuda_tiles cuda_tiles_at(void *memory, const struct cuda_product *p,
					    uint32_t tokens)
{
	struct cuda_tiles t;

	t.tile = (struct cuda_tile *)memory;
	t.assignment = (uint32_t *)(void *)(t.tile + p->sharing.at_once);
	t.input = t.assignment + tokens * p->sharing.at_once;
	return t;
}

/* The tile of that number among all of the launch, and its token t, by one thread. bytes: of 16
 * rows. */
CUDA_THREAD void cuda_tile_find(const struct cuda_product *p, const struct cuda_tiles *tiles,
				uint32_t tokens, uint32_t bytes, uint32_t at, uint32_t number,
				uint32_t t)
{
	const uint32_t matrix = number / p->sharing.tiles, tile = number % p->sharing.tiles;
	const struct cuda_item item = cuda_item_of(p, matrix / p->parts);
	const uint32_t assignment = cuda_assignment_of(p, item, t);
	struct cuda_tile *to = &tiles->tile[at];

	tiles->assignment[at * tokens + t] = assignment;
	tiles->input[at * tokens + t] = assignment / p->divide * p->groups;
	if (t > 0)
		return;
	to->row = tile * CUDA_ROWS;
	to->n = item.n;
	to->part = matrix % p->parts;
	to->weights = cuda_matrix_of(p, item, to->part) + (size_t)tile * bytes;
	cuda_prefetch(to->weights, bytes);
	if (p->next_bytes)
		cuda_prefetch(item.record + p->next +
				      (size_t)(to->part * p->sharing.tiles + tile) * p->next_bytes,
			      p->next_bytes);
}

/* The tiles of this block of threads, which is one of those of the product: [from, to). */
struct cuda_share {
	uint32_t from, to;
};
CUDA_THREAD struct cuda_share cuda_share_of(const struct cuda_product *p)
{
	const struct cuda_sharing *s = &p->sharing;
	const uint32_t all = cuda_tiles_in_all(p), i = cuda_block_x() - s->first;
	struct cuda_share share;

	share.from = cuda_times_upper(all, i * s->part);
	share.to = cuda_block_x() + 1 < s->end ? cuda_times_upper(all, (i + 1) * s->part) : all;
	return share;
}

/* Whether this block of threads is one of the product's, of several; [0, 0) are those of a product that is not
 * there. */
CUDA_THREAD bool cuda_has_this_block(const struct cuda_product *p)
{
	return cuda_block_x() >= p->sharing.first && cuda_block_x() < p->sharing.end;
}

/* ---- pieces: a tile's groups of a pass, one after the other ---- */

struct cuda_piece_place {
	uint32_t tile, group; /* group: of the pass */
};

/* The first piece of this warp. */
CUDA_THREAD struct cuda_piece_place cuda_first_place(uint32_t groups)
{
	struct cuda_piece_place at;

	at.tile = cuda_thread() / CUDA_WARP / groups;
	at.group = cuda_thread() / CUDA_WARP % groups;
	return at;
}

/* The next piece of this warp. Of a tile whose groups are found in several passes there is no other
 * tile. */
CUDA_THREAD struct cuda_piece_place cuda_next_place(struct cuda_piece_place at,
						    const struct cuda_sharing *s, uint32_t groups)
{
	const bool beyond = at.group + s->step_groups >= groups;

	at.group += s->step_groups - (beyond ? groups : 0);
	at.tile += s->step_tiles + beyond;
	return at;
}

/* ---- sums: a thread's row of a tile, and its token ---- */

struct cuda_sum_place {
	uint32_t tile, token, row;
};
CUDA_THREAD struct cuda_sum_place cuda_sum_place_of(uint32_t i, uint32_t tokens)
{
	struct cuda_sum_place at;

	at.row = i % CUDA_ROWS;
	at.token = i / CUDA_ROWS % tokens;
	at.tile = i / CUDA_ROWS / tokens;
	return at;
}

CUDA_THREAD void cuda_put_sum(const struct cuda_product *p, const struct cuda_tiles *tiles,
			      uint32_t tokens, struct cuda_sum_place at, float y)
{
	const struct cuda_tile *tile = &tiles->tile[at.tile];
	const uint32_t row = tile->row + at.row;

	if (at.token < tile->n && row < p->rows)
		p->y[tile->part * p->y_part +
		     tiles->assignment[at.tile * tokens + at.token] * p->ldy + row] = y;
}

#endif

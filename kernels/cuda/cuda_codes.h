/* Codes of TC and TQ in registers, as a warp multiplies a tile of 16 rows, one group of 128 columns, by the inputs
 * of up to 8 tokens. format.h and tc.h say how arranged matrices lie in memory. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_CODES_H
#define MOEFS_KERNELS_CUDA_CUDA_CODES_H

#include "kernels/cuda/cuda_items.h"
#include "kernels/cuda/cuda_rounding.h"

/* ---- rings of TC ----
 *
 * Word w of a slab's plane has byte w of four units, 8 columns each. A ring goes through one byte of
 * the four slabs' planes, then through the next. */

/* Four bytes of two words, alternating: the lower two of each, or the upper two. */
CUDA_THREAD uint32_t cuda_mix_lower(uint32_t a, uint32_t b)
{
	return cuda_permute(a, b, 0x5140);
}
CUDA_THREAD uint32_t cuda_mix_upper(uint32_t a, uint32_t b)
{
	return cuda_permute(a, b, 0x7362);
}

/* to[k]: byte k of the four words, the first one's lowest. */
CUDA_THREAD void cuda_transpose(uint32_t to[4], uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	const uint32_t ab = cuda_mix_lower(a, b), cd = cuda_mix_lower(c, d);
	const uint32_t above_ab = cuda_mix_upper(a, b), above_cd = cuda_mix_upper(c, d);

	to[0] = cuda_permute(ab, cd, 0x5410);
	to[1] = cuda_permute(ab, cd, 0x7632);
	to[2] = cuda_permute(above_ab, above_cd, 0x5410);
	to[3] = cuda_permute(above_ab, above_cd, 0x7632);
}

/* ---- a warp's tile and group ----
 *
 * Thread 4 g + c of a warp has slab c of the rows 2 g and 2 g + 1, and the inputs of token g in that
 * slab, 32 columns. So the words of both rows are one load, and what a thread decodes is in the order
 * of cuda_multiply_tile: unit k of its slab is the bytes of step k. */

/* What a thread has of a group: words of a slab's planes. */
struct cuda_slab {
	struct cuda_two plane[4];
};

/* `tile`: the group's first word in the tile. */
CUDA_THREAD void cuda_slab_load(struct cuda_slab *s, uint32_t bits, const uint8_t *tile)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, row = lane / 4 * 2;
	const uint32_t *words = (const uint32_t *)(const void *)tile + row;

	CUDA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		if (i < bits)
			s->plane[i] = cuda_load_two(words + (lane % 4 * bits + i) * CUDA_ROWS);
}

/* The last plane of the slab before. A ring's bytes in the first slab follow those of the ring before in
 * the last one. */
CUDA_THREAD uint32_t cuda_plane_before(uint32_t last)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP;
	const uint32_t before = cuda_from_lane(last, lane / 4 * 4 + (lane + 3) % 4);

	return cuda_permute(before, 0, lane % 4 == 0 ? 0x2103 : 0x3210);
}

/* Inputs of a slab, and dots, of `sets`, a constant, sets of eight tokens. */
enum { CUDA_SETS_MOST = 4 };
struct cuda_slab_inputs {
	uint32_t sets;
	struct cuda_quad set[CUDA_SETS_MOST][2];
};
struct cuda_dots {
	int32_t set[CUDA_SETS_MOST][4];
};

/* Adds the products of a unit's codes. */
CUDA_THREAD void cuda_multiply_sets(struct cuda_dots *sum, const uint32_t code[4],
				    const struct cuda_slab_inputs *in, uint32_t unit)
{
	CUDA_UNROLL
	for (uint32_t i = 0; i < in->sets; i++)
		cuda_multiply_tile(sum->set[i], code, in->set[i][unit / 2].word + unit % 2 * 2);
}

/* ---- TC3 ----
 *
 * Two codes that follow each other depend on ten bits of the ring. The table of the pairs is at the
 * beginning of the shared memory, some copies of it, word i of copy l at i · copies + l.
 *
 * A unit's four pairs begin at the bits 4, 10, 16 and 22 of its four bytes, of which the first is the one
 * before the unit: at bit 4 of the first two bytes, 2 of the middle two, 0 and 6 of the last two. Such
 * bytes of two units share a word. A number of a pair is moved to its place in an address by a product in
 * the lower half, and by a shift in the upper one, so that both kinds of units of the processor have
 * work. */

struct cuda_pairs {
	uint32_t lane;	 /* the byte of the thread's copy */
	uint32_t copies; /* a constant */
	uint32_t times[4]; /* of a word, for each pair of a unit */
};

/* Where a unit's pair begins in its half of a word. */
CUDA_THREAD uint32_t cuda_pair_bit(uint32_t i)
{
	return i == 0 ? 4 : i == 1 ? 2 : i == 2 ? 0 : 6;
}

CUDA_THREAD struct cuda_pairs cuda_pairs_of(uint32_t copies)
{
	struct cuda_pairs t;

	t.lane = cuda_shared_byte(cuda_shared()) + cuda_thread() % copies * 4;
	t.copies = copies;
	CUDA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		t.times[i] = copies * 4 >> cuda_pair_bit(i);
	return t;
}

/* Writes the pairs of TC3, each thread those of some numbers. Threads that follow each other begin with
 * copies that follow each other, so that they write to different banks. */
CUDA_THREAD void cuda_copy_pairs(const uint16_t *pairs, uint32_t copies)
{
	struct cuda_quad *to = (struct cuda_quad *)(void *)cuda_shared();
	const uint32_t quads = copies / 4;

	for (uint32_t i = cuda_thread(); i < CUDA_PAIRS; i += cuda_threads()) {
		const uint32_t pair = pairs[i];
		const struct cuda_quad four = {{pair, pair, pair, pair}};
		CUDA_UNROLL
		for (uint32_t k = 0; k < quads; k++)
			to[i * quads + (k ^ i % quads)] = four;
	}
}

/* Pair i of the unit in the lower or upper half of the word. */
CUDA_THREAD uint32_t cuda_pair(const struct cuda_pairs *t, uint32_t word, uint32_t i, bool upper)
{
	const uint32_t bit = cuda_pair_bit(i), shift = t->copies == 32 ? 7 : 6;
	const uint32_t own = word & (uint32_t)(CUDA_PAIRS - 1) << (bit + (upper ? 16 : 0));

	return cuda_shared_at(upper ? (own >> (16 + bit - shift)) + t->lane
				    : cuda_times_and(own, t->times[i], t->lane));
}

/* The words of the units k and k + 1 of a row: first bytes, middle and last. */
struct cuda_rings {
	uint32_t first, middle, last;
};

/* A unit's eight codes. */
CUDA_THREAD void cuda_tc3_codes(uint32_t code[2], const struct cuda_rings *r, bool upper,
				const struct cuda_pairs *t)
{
	code[0] = cuda_pair(t, r->first, 0, upper) + cuda_pair(t, r->middle, 1, upper) * 65536;
	code[1] = cuda_pair(t, r->last, 2, upper) + cuda_pair(t, r->last, 3, upper) * 65536;
}

CUDA_THREAD struct cuda_rings cuda_rings_of(const struct cuda_slab *s, uint32_t row, uint32_t before,
					    bool upper)
{
	const uint32_t a = s->plane[0].row[row], b = s->plane[1].row[row], c = s->plane[2].row[row];
	struct cuda_rings r;

	r.first = upper ? cuda_mix_upper(before, a) : cuda_mix_lower(before, a);
	r.middle = upper ? cuda_mix_upper(a, b) : cuda_mix_lower(a, b);
	r.last = upper ? cuda_mix_upper(b, c) : cuda_mix_lower(b, c);
	return r;
}

/* Adds the group's dots with the slab's inputs. */
CUDA_THREAD void cuda_tc3_multiply(struct cuda_dots *sum, const struct cuda_slab *s,
				   const struct cuda_slab_inputs *in, const struct cuda_pairs *t)
{
	const uint32_t before[2] = {cuda_plane_before(s->plane[2].row[0]),
				    cuda_plane_before(s->plane[2].row[1])};

	CUDA_UNROLL
	for (uint32_t k = 0; k < 4; k += 2) {
		const struct cuda_rings first = cuda_rings_of(s, 0, before[0], k > 0),
					second = cuda_rings_of(s, 1, before[1], k > 0);
		CUDA_UNROLL
		for (uint32_t i = 0; i < 2; i++) {
			uint32_t one[2], other[2];
			cuda_tc3_codes(one, &first, i > 0, t);
			cuda_tc3_codes(other, &second, i > 0, t);
			const uint32_t a[4] = {one[0], other[0], one[1], other[1]};
			cuda_multiply_sets(sum, a, in, k + i);
		}
	}
}

/* ---- TC4 ---- */

/* Four bytes of a table of sixteen, none above 127, by four nibbles. `other`: the nibbles with their
 * highest bits changed. Where a nibble's highest bit is set, the permutation makes copies of a sign:
 * zeros. */
CUDA_THREAD uint32_t cuda_look_up(const uint32_t table[4], uint32_t nibbles, uint32_t other)
{
	return cuda_permute(table[0], table[1], nibbles) | cuda_permute(table[2], table[3], other);
}

/* Nibbles, and the same with their highest bits changed. */
struct cuda_nibbles {
	uint32_t own, other;
};
CUDA_THREAD struct cuda_nibbles cuda_nibbles_of(uint32_t own)
{
	const struct cuda_nibbles n = {own, own ^ 0x88888888};
	return n;
}

/* Four codes by their newest nibbles and those before, from bit `from` of both on. 64 is in each number of the
 * tables, so no byte carries into the next; the 128 of a sum becomes a sign. */
CUDA_THREAD uint32_t cuda_four_codes(const struct cuda_trellis *c, struct cuda_nibbles newest,
				     struct cuda_nibbles before, uint32_t from)
{
	return (cuda_look_up(c->newest, newest.own >> from, newest.other >> from) +
		cuda_look_up(c->before, before.own >> from, before.other >> from)) ^
	       0x80808080;
}

/* A unit's eight codes; before: the nibble before the unit. */
CUDA_THREAD void cuda_tc4_codes(uint32_t code[2], uint32_t unit, uint32_t before,
				const struct cuda_trellis *c)
{
	const struct cuda_nibbles own = cuda_nibbles_of(unit),
				  back = cuda_nibbles_of(unit << 4 | before);

	CUDA_UNROLL
	for (uint32_t i = 0; i < 32; i += 16)
		code[i / 16] = cuda_four_codes(c, own, back, i);
}

/* Adds the group's dots with the slab's inputs. */
CUDA_THREAD void cuda_tc4_multiply(struct cuda_dots *sum, const struct cuda_slab *s,
				   const struct cuda_slab_inputs *in, const struct cuda_trellis *c)
{
	uint32_t unit[2][4], before[2];

	CUDA_UNROLL
	for (uint32_t r = 0; r < 2; r++) {
		before[r] = cuda_plane_before(s->plane[3].row[r]);
		cuda_transpose(unit[r], s->plane[0].row[r], s->plane[1].row[r], s->plane[2].row[r],
			       s->plane[3].row[r]);
	}
	CUDA_UNROLL
	for (uint32_t k = 0; k < 4; k++) {
		uint32_t first[2], second[2];
		cuda_tc4_codes(first, unit[0][k], before[0] >> (8 * k + 4) & 15, c);
		cuda_tc4_codes(second, unit[1][k], before[1] >> (8 * k + 4) & 15, c);
		const uint32_t a[4] = {first[0], second[0], first[1], second[1]};
		cuda_multiply_sets(sum, a, in, k);
	}
}

/* ---- TC2 ----
 *
 * A code's newest nibble begins two bits after that of the code before, so the nibbles of a shifted unit are those
 * of every other code. */

/* A unit's eight codes; stream: the byte before the unit, then its two. */
CUDA_THREAD void cuda_tc2_codes(uint32_t code[2], uint32_t stream, const struct cuda_trellis *c)
{
	const uint32_t even = cuda_four_codes(c, cuda_nibbles_of(stream >> 6),
					      cuda_nibbles_of(stream >> 2), 0),
		       odd = cuda_four_codes(c, cuda_nibbles_of(stream >> 8),
					     cuda_nibbles_of(stream >> 4), 0);

	code[0] = cuda_mix_lower(even, odd);
	code[1] = cuda_mix_upper(even, odd);
}

/* The streams of a row's four units; what is above 24 bits is of no use. */
CUDA_THREAD void cuda_tc2_streams(uint32_t to[4], const struct cuda_slab *s, uint32_t row)
{
	const uint32_t a = s->plane[0].row[row], b = s->plane[1].row[row],
		       before = cuda_plane_before(b);
	const uint32_t lower = cuda_mix_lower(before, a), upper = cuda_mix_upper(before, a);

	to[0] = cuda_permute(lower, b, 0x4410);
	to[1] = cuda_permute(lower, b, 0x5532);
	to[2] = cuda_permute(upper, b, 0x6610);
	to[3] = cuda_permute(upper, b, 0x7732);
}

/* Adds the group's dots with the slab's inputs. */
CUDA_THREAD void cuda_tc2_multiply(struct cuda_dots *sum, const struct cuda_slab *s,
				   const struct cuda_slab_inputs *in, const struct cuda_trellis *c)
{
	uint32_t stream[2][4];

	cuda_tc2_streams(stream[0], s, 0);
	cuda_tc2_streams(stream[1], s, 1);
	CUDA_UNROLL
	for (uint32_t k = 0; k < 4; k++) {
		uint32_t first[2], second[2];
		cuda_tc2_codes(first, stream[0][k], c);
		cuda_tc2_codes(second, stream[1][k], c);
		const uint32_t a[4] = {first[0], second[0], first[1], second[1]};
		cuda_multiply_sets(sum, a, in, k);
	}
}

/* ---- TQ: codes are indices of a table of signed bytes ---- */

/* A unit's eight codes of `bits` bits, a nibble each. */
CUDA_THREAD uint32_t cuda_spread(uint32_t unit, uint32_t bits)
{
	if (bits == 2) {
		unit = (unit & 0x000000ff) | (unit & 0x0000ff00) << 8;
		unit = (unit & 0x000f000f) | (unit & 0x00f000f0) << 4;
		unit = (unit & 0x03030303) | (unit & 0x0c0c0c0c) << 2;
	}
	if (bits == 3) {
		unit = (unit & 0x00000fff) | (unit & 0x00fff000) << 4;
		unit = (unit & 0x003f003f) | (unit & 0x0fc00fc0) << 2;
		unit = (unit & 0x07070707) | (unit & 0x38383838) << 1;
	}
	return unit;
}

/* Adds the group's dots with the slab's inputs. Instead of planes that are not there it takes zeros. */
CUDA_THREAD void cuda_tq_multiply(struct cuda_dots *sum, const struct cuda_slab *s,
				  const struct cuda_slab_inputs *in, const struct cuda_trellis *c)
{
	uint32_t unit[2][4];

	CUDA_UNROLL
	for (uint32_t r = 0; r < 2; r++)
		cuda_transpose(unit[r], s->plane[0].row[r], s->plane[1].row[r],
			       c->bits > 2 ? s->plane[2].row[r] : 0,
			       c->bits > 3 ? s->plane[3].row[r] : 0);
	CUDA_UNROLL
	for (uint32_t k = 0; k < 4; k++) {
		uint32_t first[2], second[2];
		cuda_eight_values(first, c->newest, cuda_spread(unit[0][k], c->bits));
		cuda_eight_values(second, c->newest, cuda_spread(unit[1][k], c->bits));
		const uint32_t a[4] = {first[0], second[0], first[1], second[1]};
		cuda_multiply_sets(sum, a, in, k);
	}
}

/* ---- a group's norm ---- */

/* The bits of a row's norm of a tile, whose norms begin at `norms`, and the norm. Bits that are loaded early
 * are made a number late: that would wait for them. */
CUDA_THREAD uint32_t cuda_norm_bits(const uint8_t *norms, uint32_t row, uint32_t bytes)
{
	return cuda_load_bits(norms + row * bytes, bytes == 4);
}
CUDA_THREAD float cuda_norm(uint32_t bits, uint32_t bytes)
{
	return bytes == 4 ? cuda_float(bits) : cuda_from_half((uint16_t)bits);
}

/* The same of the rows 2 g and 2 g + 1 of threads 4 g … 4 g + 3. Norms of two bytes are both in the first word. */
CUDA_THREAD struct cuda_two cuda_two_norms(const uint8_t *norms, uint32_t bytes)
{
	const uint8_t *from = norms + cuda_thread() % CUDA_WARP / 4 * 2 * bytes;
	struct cuda_two both = {{0, 0}};

	if (bytes == 4)
		return cuda_load_two(from);
	both.row[0] = cuda_load_bits(from, true);
	return both;
}
CUDA_THREAD float cuda_norm_of_two(struct cuda_two norms, uint32_t row, uint32_t bytes)
{
	return cuda_norm(bytes == 4 ? norms.row[row] : norms.row[0] >> row * 16, bytes);
}

#endif

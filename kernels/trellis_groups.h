/* TC's encoder around its trellis (trellis_lanes.h): groups of a row become targets that lie lane
 * by lane, and streams that lie so become bytes. Included once by the *_trellis.c of each table, in
 * place of trellis_lanes.h.
 */
#ifndef MOEFS_KERNELS_TRELLIS_GROUPS_H
#define MOEFS_KERNELS_TRELLIS_GROUPS_H

#include "kernels/trellis_lanes.h"

#include <math.h>
#include <string.h>

/* ---- targets ---- */

/* The eight columns of a unit, each of the same eight groups, from eight vectors of a group's unit
 * each; with more SHORTS the same in every 128 bits. */
ALWAYS_INLINE void trellis_turn(shorts v[TQ_UNIT])
{
#pragma GCC unroll 3
	for (size_t round = 0; round < 3; round++) {
		shorts w[TQ_UNIT];
#pragma GCC unroll 4
		for (size_t i = 0; i < TQ_UNIT / 2; i++) {
			w[2 * i] = shorts_zip_low(v[i], v[i + TQ_UNIT / 2]);
			w[2 * i + 1] = shorts_zip_high(v[i], v[i + TQ_UNIT / 2]);
		}
#pragma GCC unroll 8
		for (size_t i = 0; i < TQ_UNIT; i++)
			v[i] = w[i];
	}
}

static void trellis_make_targets(int16_t target[][TQ_GROUP], const float *y, size_t groups,
				 float scale)
{
	for (size_t g = 0; g < groups; g++, y += TQ_GROUP)
		for (size_t i = 0; i < TQ_GROUP; i++)
			target[g][i] = tc_target(y[i], scale);
}

/* Of SHORTS groups. */
static void trellis_turn_targets(int16_t x[TQ_GROUP][SHORTS], const int16_t target[][TQ_GROUP])
{
	for (size_t t = 0; t < TQ_GROUP; t += TQ_UNIT) {
		shorts v[TQ_UNIT];
		for (size_t i = 0; i < TQ_UNIT; i++)
			v[i] = shorts_units(target[i] + tc_column(t), TQ_UNIT * TQ_GROUP);
		trellis_turn(v);
		for (size_t i = 0; i < TQ_UNIT; i++)
			shorts_store(x[t + i], v[i]);
	}
}

/* ---- bytes ---- */

/* A slab's eight halves of units lie, group by group, in the order of its packed bytes: byte
 * u of a slab's units is unit u · SLABS + slab of the ring. */
ALWAYS_INLINE void trellis_turn_streams(int16_t stream[SHORTS][2 * UNITS],
					const struct trellis_streams *from)
{
	for (size_t slab = 0; slab < SLABS; slab++) {
		shorts v[TQ_UNIT];
		for (size_t i = 0; i < TQ_UNIT; i++)
			v[i] = shorts_load(from->half[(i / 2 * SLABS + slab) * 2 + i % 2]);
		trellis_turn(v);
		for (size_t i = 0; i < TQ_UNIT; i++)
			shorts_store_units(&stream[i][slab * TQ_UNIT], TQ_UNIT * 2 * UNITS, v[i]);
	}
}

/* Units one after the other; with more than they have, but for the last. */
ALWAYS_INLINE void trellis_pack_units(uint8_t *packed, const int16_t half[2 * UNITS], uint32_t bits)
{
	for (size_t u = 0; u < UNITS; u++) {
		const uint32_t low = (uint16_t)half[2 * u], high = (uint16_t)half[2 * u + 1];
		const uint32_t unit = low | high << HALF_UNIT * bits;
		memcpy(packed + u * bits, &unit, u + 1 < UNITS ? sizeof unit : bits);
	}
}

ALWAYS_INLINE void trellis_take_out(uint8_t *packed, float *factor,
				    const struct trellis_streams *from, size_t groups,
				    uint32_t bits)
{
	int16_t stream[SHORTS][2 * UNITS];

	trellis_turn_streams(stream, from);
	for (size_t g = 0; g < groups; g++) {
		const size_t half = g / 4 % 2, at = g / 8 * 4 + g % 4;
		trellis_pack_units(packed + g * tq_group_bytes(bits), stream[g], bits);
		factor[g] = tc_factor(from->with_target[half][at], from->with_itself[half][at]);
	}
}

/* ---- together ---- */

enum { TRELLIS_TOGETHER = TRELLIS_WAYS * SHORTS };
ALWAYS_INLINE size_t trellis_together(uint32_t bits)
{
	return trellis_ways(bits) * SHORTS;
}

/* Of so many groups those that go this way. */
ALWAYS_INLINE size_t trellis_part(size_t groups, size_t way)
{
	const size_t first = way * SHORTS;

	return groups < first ? 0 : groups - first < SHORTS ? groups - first : SHORTS;
}

ALWAYS_INLINE void trellis_encode_lanes(uint8_t *packed, float *factor,
					const int16_t target[][TQ_GROUP], size_t groups,
					const struct trellis *t, uint32_t bits)
{
	_Alignas(64) uint8_t memory[trellis_ways(bits)][trellis_path_bytes(bits)];
	struct trellis_path *path[TRELLIS_WAYS];
	struct trellis_streams out[TRELLIS_WAYS];
	shorts seam[TRELLIS_WAYS];

	for (uint32_t w = 0; w < trellis_ways(bits); w++) {
		path[w] = (struct trellis_path *)(void *)memory[w];
		trellis_turn_targets(path[w]->x, target + w * SHORTS);
	}
	trellis_find_seams(seam, path, t, bits);
	trellis_follow_and_trace(out, path, seam, t, bits);
	for (uint32_t w = 0; w < trellis_ways(bits); w++)
		trellis_take_out(packed + w * SHORTS * tq_group_bytes(bits), factor + w * SHORTS,
				 &out[w], trellis_part(groups, w), bits);
}

/* Of up to together(bits) groups; there are targets of all. */
typedef void trellis_encode_fn(uint8_t *packed, float *factor, const int16_t target[][TQ_GROUP],
			       size_t groups, const struct trellis *t);

#define ENCODE(bits)                                                                       \
	static void trellis_encode_##bits(uint8_t *packed, float *factor,                  \
					  const int16_t target[][TQ_GROUP], size_t groups, \
					  const struct trellis *t)                         \
	{                                                                                  \
		trellis_encode_lanes(packed, factor, target, groups, t, bits);             \
	}
ENCODE(2)
ENCODE(3)
ENCODE(4)
#undef ENCODE

static trellis_encode_fn *const trellis_encoders[] = {trellis_encode_2, trellis_encode_3,
						      trellis_encode_4};

void TABLE(tc_encode)(uint8_t *packed, float *factor, const float *y, size_t groups, uint32_t bits)
{
	int16_t target[TRELLIS_TOGETHER][TQ_GROUP] = {{0}};
	struct trellis t;

	trellis_make(&t, bits);
	for (size_t g = 0; g < groups; g += trellis_together(bits)) {
		const size_t left = groups - g;
		const size_t count = left < trellis_together(bits) ? left : trellis_together(bits);
		trellis_make_targets(target, y + g * TQ_GROUP, count, t.scale);
		trellis_encoders[bits - 2](packed + g * tq_group_bytes(bits), factor + g, target,
					   count, &t);
	}
}

/* ---- rows ---- */

/* The targets of a row's next groups, of which so many floats are left. */
static bool trellis_normalise(int16_t target[][TQ_GROUP], float *norm, const float *x, size_t left,
			      size_t groups, float scale)
{
	float y[TQ_UNIT * TQ_GROUP];

	for (size_t g = 0; g < groups; g += TQ_UNIT) {
		const size_t count = groups - g < TQ_UNIT ? groups - g : TQ_UNIT;
		tq_normalise(y, norm + g, x + g * TQ_GROUP, left - g * TQ_GROUP, count);
		for (size_t i = 0; i < count; i++)
			if (!isfinite(norm[g + i]))
				return false;
		trellis_make_targets(target + g, y, count, scale);
	}
	return true;
}

bool TABLE(tc_quantise_row)(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			    uint32_t bits)
{
	const size_t groups = tq_groups(cols);
	int16_t target[TRELLIS_TOGETHER][TQ_GROUP] = {{0}};
	struct trellis t;

	trellis_make(&t, bits);
	for (size_t g = 0; g < groups; g += trellis_together(bits)) {
		const size_t left = groups - g, begin = g * TQ_GROUP;
		const size_t count = left < trellis_together(bits) ? left : trellis_together(bits);
		float norm[TRELLIS_TOGETHER], factor[TRELLIS_TOGETHER];
		if (!trellis_normalise(target, norm, row + begin, cols - begin, count, t.scale))
			return false;
		trellis_encoders[bits - 2](packed + g * tq_group_bytes(bits), factor, target, count,
					   &t);
		for (size_t i = 0; i < count; i++)
			norms[g + i] = norm[i] * factor[i];
	}
	return true;
}

#endif

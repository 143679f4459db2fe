/* Rotary positions (RoPE, Su et al. 2021): frequencies with the scaling of a model's config, and
 * the angles of a step's rows. See step.h; kernels turn the heads (kernels.h, rope). */
#include "engine/compute/step.h"

#include <math.h>

static const double whole_turn = 2 * 3.14159265358979323846;

void rotation_take(struct rotation all[CONFIG_ROPES], struct arena *a, const struct config *c,
		   size_t rows)
{
	for (int i = 0; i < CONFIG_ROPES; i++) {
		struct rotation *r = &all[i];
		r->half = c->rope[i].dim / 2;
		r->cos = arena_take(a, rows * r->half, sizeof *r->cos);
		r->sin = arena_take(a, rows * r->half, sizeof *r->sin);
		r->frequency = arena_take(a, r->half, sizeof *r->frequency);
	}
}

/* ---- frequencies ---- */

/* Llama 3: waves longer than the context of the first training turn slower, short ones keep their
 * frequency, and between the two it changes evenly. */
static double rotation_llama3(const struct rope *p, double frequency)
{
	double wave = whole_turn / frequency;
	if (wave > p->original / p->low)
		return frequency / p->factor;
	if (wave < p->original / p->high)
		return frequency;
	double kept = (p->original / wave - p->low) / (p->high - p->low);
	return (1 - kept) * frequency / p->factor + kept * frequency;
}

/* The dimension whose wave makes `turns` turns within the context of the first training. */
static double rotation_dimension(const struct rope *p, double turns)
{
	return p->dim * log(p->original / (turns * whole_turn)) / (2 * log(p->theta));
}

/* YaRN (Peng et al. 2023): dimensions that turn often are kept, those that turn seldom slowed down,
 * along a ramp. */
static double rotation_yarn(const struct rope *p, uint32_t i, double frequency)
{
	double low = rotation_dimension(p, p->high), high = rotation_dimension(p, p->low);
	if (p->truncate) {
		low = floor(low);
		high = ceil(high);
	}
	low = fmax(low, 0);
	high = fmin(high, p->dim - 1);
	if (low == high)
		high += 0.001; /* or the ramp would divide by zero */
	double slowed = fmin(fmax((i - low) / (high - low), 0), 1);
	return frequency / p->factor * slowed + frequency * (1 - slowed);
}

static double rotation_frequency(const struct rope *p, uint32_t i)
{
	double frequency = pow(p->theta, -2.0 * i / p->dim);
	switch (p->scaling) {
	case ROPE_LINEAR:
		return frequency / p->factor;
	case ROPE_LLAMA3:
		return rotation_llama3(p, frequency);
	case ROPE_YARN:
		return rotation_yarn(p, i, frequency);
	case ROPE_PROPORTIONAL:
		return i < p->turning ? frequency / p->factor : 0;
	case ROPE_FACTORS:
		return frequency / (double)p->factors[i];
	case ROPE_DEFAULT:
	case ROPE_LONG: /* is two of factors */
	case ROPE_SCALINGS:
		break;
	}
	return frequency;
}

void rotation_init(struct rotation all[CONFIG_ROPES], const struct config *c)
{
	for (int r = 0; r < CONFIG_ROPES; r++)
		for (uint32_t i = 0; i < all[r].half; i++)
			all[r].frequency[i] = rotation_frequency(&c->rope[r], i);
}

/* ---- angles ---- */

/* In double: at position 30,000 a float angle would be off by 1e-3. */
void rotation_at(const struct rotation *r, const struct rope *rope, size_t position, float *cosine,
		 float *sine)
{
	for (uint32_t i = 0; i < r->half; i++) {
		double angle = (double)position * r->frequency[i];
		cosine[i] = (float)cos(angle) * rope->amplitude;
		sine[i] = (float)sin(angle) * rope->amplitude;
	}
}

void rotation_turn_pairs(float *x, const float *cos, const float *sin, uint32_t half, bool back)
{
	for (uint32_t i = 0; i < half; i++) {
		float a = x[2 * i], b = x[2 * i + 1], s = back ? -sin[i] : sin[i];
		x[2 * i] = fmaf(a, cos[i], -(b * s));
		x[2 * i + 1] = fmaf(b, cos[i], a * s);
	}
}

void rotation_set(struct rotation all[CONFIG_ROPES], const struct config *c, uint32_t first,
		  uint32_t position, uint32_t n, bool long_text)
{
	for (int rope = 0; rope < CONFIG_ROPES; rope++) {
		struct rotation *r = &all[rope];
		int of = rope == 0 && long_text ? CONFIG_LONG_ROPE : rope;
		for (uint32_t t = 0; t < n; t++) {
			size_t at = (size_t)(first + t) * r->half;
			rotation_at(&all[of], &c->rope[of], position + t, r->cos + at, r->sin + at);
		}
	}
}

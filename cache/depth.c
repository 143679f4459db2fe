/* See the header. */
#include "cache/depth.h"

/* A stretch is long enough that one slow read does not decide. Every TRIAL-th stretch tries a
 * neighbouring depth, which must be better by more than the noise. */
enum { STRETCH = 16, TRIAL = 8 };
static const double smoothing = 0.3, gain_wanted = 1.04, loss_allowed = 0.98;

void depth_init(struct depth_tuner *t)
{
	*t = (struct depth_tuner){.depth = DEPTH_START, .base = DEPTH_START};
}

void depth_restart(struct depth_tuner *t)
{
	t->reads = 0;
}

static void depth_smooth(double *rate, double measured)
{
	*rate = *rate > 0 ? *rate + smoothing * (measured - *rate) : measured;
}

/* Increases the depth if that is clearly faster, or decreases it if that is hardly slower. */
static void depth_choose_base(struct depth_tuner *t)
{
	double here = t->rate[t->base];
	if (t->base < DEPTH_MOST && t->rate[t->base + 1] > here * gain_wanted)
		t->base++;
	else if (t->base > 1 && t->rate[t->base - 1] > here * loss_allowed)
		t->base--;
}

/* Trials alternate between the depth above and the depth below. */
static uint32_t depth_choose_next(struct depth_tuner *t)
{
	uint32_t turn = ++t->stretches % (2 * TRIAL);
	if (turn == TRIAL && t->base < DEPTH_MOST)
		return t->base + 1;
	if (turn == 0 && t->base > 1)
		return t->base - 1;
	return t->base;
}

void depth_note(struct depth_tuner *t, uint64_t bytes, uint64_t now_ns)
{
	if (t->reads++ == 0) { /* time runs from the end of one read to the end of another */
		t->start_ns = now_ns;
		t->bytes = 0;
		return;
	}
	t->bytes += bytes;
	if (t->reads <= STRETCH || now_ns <= t->start_ns)
		return;
	depth_smooth(&t->rate[t->depth], (double)t->bytes / (double)(now_ns - t->start_ns));
	depth_choose_base(t);
	t->depth = depth_choose_next(t);
	t->reads = 0;
}

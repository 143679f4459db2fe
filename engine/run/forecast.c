/* See forecast.h. */
#include "engine/run/forecast.h"

#include <math.h>

/* ---- what was measured ---- */

/* What one more point leaves of those before. */
static const double fading = 0.95;
/* A turn that lost its processors for a while counts as so much at most of what was expected. */
static const double far_more = 2;
enum { FEW = 8 }; /* points, before which anything is believed */

void forecast_learn(struct forecast_line *l, double x, double y)
{
	double expected, off;
	if (forecast_at(l, x, &expected, &off)) {
		l->off = l->count > 1 ? 0.8 * l->off + 0.2 * fabs(y - expected)
				      : fabs(y - expected);
		if (l->count >= FEW)
			y = fmin(y, far_more * expected);
	}
	l->weight = fading * l->weight + 1;
	l->x = fading * l->x + x;
	l->y = fading * l->y + y;
	l->xx = fading * l->xx + x * x;
	l->xy = fading * l->xy + x * y;
	l->count++;
}

bool forecast_at(const struct forecast_line *l, double x, double *y, double *off)
{
	if (!l->count)
		return false;
	double mean_x = l->x / l->weight, mean_y = l->y / l->weight;
	double spread = l->xx / l->weight - mean_x * mean_x;
	double slope = spread > 1e-6 * (1 + mean_x * mean_x)
			       ? (l->xy / l->weight - mean_x * mean_y) / spread
			       : 0;
	double begin = mean_y - slope * mean_x;
	if (slope <= 0 || begin < 0) { /* noise: through the origin, or level */
		slope = mean_x > 0 && begin < 0 ? mean_y / mean_x : 0;
		begin = slope > 0 ? 0 : mean_y;
	}
	*y = begin + slope * x;
	*off = l->off;
	return true;
}

void forecast_count(struct forecast *f, const struct session_stats *s)
{
	double waited = s->wait_seconds - s->decode_wait_seconds;
	uint64_t computed = s->prompt_tokens - s->cached_tokens;
	double first = s->first_token_seconds - s->queued_seconds - waited;
	if (s->output_tokens && first > 0)
		forecast_learn(&f->first, (double)computed, first);
	if (s->output_tokens > 1 && s->decode_seconds > 0)
		forecast_learn(&f->token, 0, s->decode_seconds / (double)(s->output_tokens - 1));
	f->read_bytes = fading * f->read_bytes + (double)s->bytes_read;
	f->read_seconds = fading * f->read_seconds + s->wait_seconds;
}

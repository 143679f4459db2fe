/* The gates of a gated delta net. A few numbers per token, so there is one version, in double
 * precision. */
#include "kernels/delta.h"

#include <math.h>

/* Where x is a NaN fmax says 0, and the other term NaN. */
static double softplus(double x)
{
	return fmax(x, 0) + log1p(exp(-fabs(x)));
}

void delta_gates(float *decay, float *beta, const float *a, const float *b, const float *a_log,
		 const float *dt_bias, size_t heads)
{
	for (size_t h = 0; h < heads; h++) {
		const double step = softplus((double)a[h] + dt_bias[h]);
		decay[h] = (float)exp(-exp((double)a_log[h]) * step);
		beta[h] = (float)(1 / (1 + exp(-(double)b[h])));
	}
}

/* The scalar table's activations beside silu. Comparisons are such that NaN stays NaN. */
#include "kernels/activation.h"
#include "kernels/exp.h"
#include "kernels/scalar.h"

#include <math.h>

void scalar_gelu_mul(float *gate, const float *up, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const float x = gate[i], u = x * fmaf(GELU_CUBE, x * x, GELU_LINE);
		gate[i] = x / (1 + exp_f32(u)) * up[i];
	}
}

void scalar_swiglu_clamped(float *gate, const float *up, size_t n, float alpha, float limit)
{
	for (size_t i = 0; i < n; i++) {
		const float g = gate[i] > limit ? limit : gate[i];
		float u = up[i] > limit ? limit : up[i];
		u = u < -limit ? -limit : u;
		gate[i] = (u + 1) * (g / (1 + exp_f32(g * -alpha)));
	}
}

void scalar_softcap(float *x, size_t n, float cap)
{
	const float twice = 2 / cap;
	for (size_t i = 0; i < n; i++)
		x[i] = cap * (1 - 2 / (1 + exp_f32(x[i] * twice)));
}

/* Activations beside silu, on vectors, for every instruction set that has them; within kernels/
 * only. As delta_lanes.h, after which each table's *_delta.c includes it, and which says what a
 * vector is; the operations are those of scalar_activation.c in the same order. Besides:
 *
 *     lanes_at_most(v, limit), lanes_at_least(v, limit)    where v is NaN it stays so
 */
#ifndef MOEFS_KERNELS_ACTIVATION_LANES_H
#define MOEFS_KERNELS_ACTIVATION_LANES_H

#include "kernels/activation.h"
#include "kernels/kernels.h"

/* x / (1 + exp(y)) */
static lanes over_exp(lanes x, lanes y)
{
	return lanes_div(x, lanes_add(lanes_all(1), lanes_exp(y)));
}

void TABLE(gelu_mul)(float *gate, const float *up, size_t n)
{
	const lanes cube = lanes_all(GELU_CUBE), line = lanes_all(GELU_LINE);

	for (size_t i = 0; i < n; i += LANES) {
		const lanes x = lanes_load(gate + i, n - i);
		const lanes u = lanes_mul(x, lanes_fma(cube, lanes_mul(x, x), line));
		lanes_store(gate + i, n - i, lanes_mul(over_exp(x, u), lanes_load(up + i, n - i)));
	}
}

void TABLE(swiglu_clamped)(float *gate, const float *up, size_t n, float alpha, float limit)
{
	const lanes most = lanes_all(limit), least = lanes_all(-limit), one = lanes_all(1);
	const lanes factor = lanes_all(-alpha);

	for (size_t i = 0; i < n; i += LANES) {
		const lanes g = lanes_at_most(lanes_load(gate + i, n - i), most);
		const lanes u =
			lanes_at_least(lanes_at_most(lanes_load(up + i, n - i), most), least);
		lanes_store(gate + i, n - i,
			    lanes_mul(lanes_add(u, one), over_exp(g, lanes_mul(g, factor))));
	}
}

void TABLE(softcap)(float *x, size_t n, float cap)
{
	const lanes all = lanes_all(cap), twice = lanes_all(2 / cap), one = lanes_all(1);

	for (size_t i = 0; i < n; i += LANES) {
		const lanes y = lanes_mul(lanes_load(x + i, n - i), twice);
		lanes_store(x + i, n - i,
			    lanes_mul(all, lanes_sub(one, over_exp(lanes_all(2), y))));
	}
}

#endif

#include "engine/compute/glu.h"

static void silu(const struct environment *env, float *gate, const float *up, size_t n)
{
	env->kernels->silu_mul(gate, up, n);
}

static void gelu(const struct environment *env, float *gate, const float *up, size_t n)
{
	env->kernels->gelu_mul(gate, up, n);
}

static void clamped(const struct environment *env, float *gate, const float *up, size_t n)
{
	const struct config *c = env->config;
	env->kernels->swiglu_clamped(gate, up, n, c->glu_alpha, c->glu_limit);
}

static void (*const units[GLUS])(const struct environment *, float *, const float *, size_t) = {
	[GLU_SILU] = silu,
	[GLU_GELU] = gelu,
	[GLU_CLAMPED] = clamped,
};

void glu_run(const struct environment *env, float *gate, const float *up, size_t n)
{
	units[env->config->glu](env, gate, up, n);
}

/* Which kernels this machine can run, and which of them to use. */
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* AVX2 includes that the system saves the wide registers. F16C is asked for by hand, since not
 * every compiler's __builtin_cpu_supports knows it. */
static bool has_avx2(void)
{
	unsigned int eax, ebx, ecx, edx;

	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	       __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

/* Skylake-X and later. */
static bool has_avx512(void)
{
	return has_avx2() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512dq");
}

/* Ice Lake, Zen 4 and later. */
static bool has_avx512vnni(void)
{
	return has_avx512() && __builtin_cpu_supports("avx512vnni") &&
	       __builtin_cpu_supports("avx512vbmi");
}

/* Each set of instructions includes those before it. */
static const struct kernels *const lists[][5] = {
	{&kernels_scalar},
	{&kernels_scalar, &kernels_avx2},
	{&kernels_scalar, &kernels_avx2, &kernels_avx512},
	{&kernels_scalar, &kernels_avx2, &kernels_avx512, &kernels_avx512vnni},
};

const struct kernels *const *kernels_available(void)
{
	return lists[has_avx512vnni() ? 3 : has_avx512() ? 2 : has_avx2() ? 1 : 0];
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

const struct kernels *const *kernels_available(void)
{
	static const struct kernels *const lists[][4] = {
		{&kernels_scalar, &kernels_neon},
		{&kernels_scalar, &kernels_neon, &kernels_neondot},
	};

	return lists[getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? 1 : 0];
}
#else
const struct kernels *const *kernels_available(void)
{
	static const struct kernels *const list[] = {&kernels_scalar, NULL};

	return list;
}
#endif

const struct kernels *kernels_best(void)
{
	const struct kernels *const *available = kernels_available(), *best = NULL;
	const char *wanted = getenv("MOEFS_KERNELS");

	for (; *available; available++) {
		best = *available;
		if (wanted && strcmp(wanted, best->name) == 0)
			break;
	}
	return best;
}

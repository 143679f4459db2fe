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
#endif

static const struct kernels *const portable[] = {&kernels_scalar, NULL};

const struct kernels *const *kernels_available(void)
{
#if defined(__x86_64__)
	static const struct kernels *const avx2[] = {&kernels_scalar, &kernels_avx2, NULL};

	if (has_avx2())
		return avx2;
#endif
	return portable;
}

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

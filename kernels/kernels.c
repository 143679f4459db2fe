/* Which kernels this machine can run, and which of them to use. */
#include "kernels/kernels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The AVX2 check includes that the system saves the wide registers. F16C is checked by cpuid,
 * since not every compiler's __builtin_cpu_supports knows it. */
static bool kernels_have_avx2(void)
{
	unsigned int eax, ebx, ecx, edx;

	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	       __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

/* Skylake-X and later. */
static bool kernels_have_avx512(void)
{
	return kernels_have_avx2() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512dq");
}

/* Ice Lake, Zen 4 and later. */
static bool kernels_have_avx512vnni(void)
{
	return kernels_have_avx512() && __builtin_cpu_supports("avx512vnni") &&
	       __builtin_cpu_supports("avx512vbmi");
}

/* Sapphire Rapids and later. A process has to ask for the memory in which the system saves tiles
 * (Linux 5.16); where it is refused, there are no tiles. */
static bool kernels_have_avx512amx(void)
{
	enum { AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25 };     /* cpuid 7, edx */
	enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 }; /* arch_prctl(2) */
	unsigned int eax, ebx, ecx, edx;

	return kernels_have_avx512vnni() && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) &&
	       (edx & AMX_TILE) && (edx & AMX_INT8) &&
	       syscall(SYS_arch_prctl, (long)ARCH_REQ_XCOMP_PERM, (long)XTILEDATA) == 0;
}

/* Each set of instructions includes those before it. */
static const struct kernels *const kernels_lists[][6] = {
	{&kernels_scalar},
	{&kernels_scalar, &kernels_avx2},
	{&kernels_scalar, &kernels_avx2, &kernels_avx512},
	{&kernels_scalar, &kernels_avx2, &kernels_avx512, &kernels_avx512vnni},
	{&kernels_scalar, &kernels_avx2, &kernels_avx512, &kernels_avx512vnni, &kernels_avx512amx},
};

static int kernels_list(void)
{
	return kernels_have_avx512amx()	   ? 4
	       : kernels_have_avx512vnni() ? 3
	       : kernels_have_avx512()	   ? 2
					   : kernels_have_avx2();
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

static const struct kernels *const kernels_lists[][4] = {
	{&kernels_scalar, &kernels_neon},
	{&kernels_scalar, &kernels_neon, &kernels_neondot},
};

static int kernels_list(void)
{
	return getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? 1 : 0;
}
#else
static const struct kernels *const kernels_lists[][2] = {{&kernels_scalar}};

static int kernels_list(void)
{
	return 0;
}
#endif

const struct kernels *const *kernels_available(void)
{
	static atomic_int known; /* 1 + the list's index: cpuid is slow in virtual machines */

	if (!known)
		known = 1 + kernels_list();
	return kernels_lists[known - 1];
}

const struct kernels *kernels_fastest(void)
{
	const struct kernels *const *available = kernels_available();

	while (available[1])
		available++;
	return *available;
}

const struct kernels *kernels_best(void)
{
	const struct kernels *const *available = kernels_available();
	const char *wanted = getenv("MOEFS_KERNELS");

	for (; wanted && *available; available++)
		if (strcmp(wanted, (*available)->name) == 0)
			return *available;
	return kernels_fastest();
}

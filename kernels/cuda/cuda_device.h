/* What lets the kernels of cards be compiled three times: by nvcc or clang for a card, and by any
 * compiler of C for the tests, where a thread of the system stands for each thread of a card
 * (tests/cuda/threads.c).
 *
 * Sources here are C that is C++ as well. Operations whose rounding matters are written as the
 * instruction of PTX that rounds so, and depend on no option. Only sums and products of floats are
 * left to the compiler: it must not fuse them (-fmad=false, -ffp-contract=off). */
#ifndef MOEFS_KERNELS_CUDA_CUDA_DEVICE_H
#define MOEFS_KERNELS_CUDA_CUDA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CUDA_WARP = 32 };

#if defined(__CUDA__) || defined(__CUDACC__)

#define CUDA_KERNEL extern "C" __attribute__((global)) void
/* For blocks of no more than so many threads, which bounds the registers of each. */
#define CUDA_KERNEL_OF(threads) \
	extern "C" __attribute__((global)) __attribute__((launch_bounds(threads))) void
#define CUDA_THREAD static inline __attribute__((device, always_inline))
#define CUDA_UNROLL _Pragma("unroll")

/* A thread's place. */
CUDA_THREAD uint32_t cuda_thread(void)
{
	uint32_t i;
	asm("mov.u32 %0, %%tid.x;" : "=r"(i));
	return i;
}
CUDA_THREAD uint32_t cuda_threads(void)
{
	uint32_t n;
	asm("mov.u32 %0, %%ntid.x;" : "=r"(n));
	return n;
}
CUDA_THREAD uint32_t cuda_block_x(void)
{
	uint32_t i;
	asm("mov.u32 %0, %%ctaid.x;" : "=r"(i));
	return i;
}
CUDA_THREAD uint32_t cuda_block_y(void)
{
	uint32_t i;
	asm("mov.u32 %0, %%ctaid.y;" : "=r"(i));
	return i;
}
CUDA_THREAD uint32_t cuda_blocks_x(void)
{
	uint32_t n;
	asm("mov.u32 %0, %%nctaid.x;" : "=r"(n));
	return n;
}

/* The memory that a block of threads shares; a launch says how much. */
extern __attribute__((shared)) float cuda_shared_floats[];
CUDA_THREAD float *cuda_shared(void)
{
	return cuda_shared_floats;
}
/* All threads of the block. */
CUDA_THREAD void cuda_barrier(void)
{
	asm volatile("bar.sync 0;" ::: "memory");
}
/* The number of the thread whose place in the warp differs in these bits. All 32 must call. */
CUDA_THREAD uint32_t cuda_swap(uint32_t v, uint32_t bits)
{
	uint32_t other;
	asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
		     : "=r"(other)
		     : "r"(v), "r"(bits));
	return other;
}

CUDA_THREAD uint32_t cuda_bits(float f)
{
	uint32_t u;
	asm("mov.b32 %0, %1;" : "=r"(u) : "f"(f));
	return u;
}
CUDA_THREAD float cuda_float(uint32_t u)
{
	float f;
	asm("mov.b32 %0, %1;" : "=f"(f) : "r"(u));
	return f;
}
CUDA_THREAD float cuda_fma(float a, float b, float c)
{
	float f;
	asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(f) : "f"(a), "f"(b), "f"(c));
	return f;
}
CUDA_THREAD float cuda_divide(float a, float b)
{
	float f;
	asm("div.rn.f32 %0, %1, %2;" : "=f"(f) : "f"(a), "f"(b));
	return f;
}
CUDA_THREAD float cuda_root(float a)
{
	float f;
	asm("sqrt.rn.f32 %0, %1;" : "=f"(f) : "f"(a));
	return f;
}
/* To the nearest integer, even of two; |f| <= 2^31. */
CUDA_THREAD int32_t cuda_round(float f)
{
	int32_t i;
	asm("cvt.rni.s32.f32 %0, %1;" : "=r"(i) : "f"(f));
	return i;
}
CUDA_THREAD float cuda_from_half(uint16_t h)
{
	float f;
	asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
	return f;
}
CUDA_THREAD uint16_t cuda_to_half(float f)
{
	uint16_t h;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
	return h;
}
/* sum + the products of four signed bytes. */
CUDA_THREAD int32_t cuda_dot4(uint32_t a, uint32_t b, int32_t sum)
{
	int32_t i;
	asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(i) : "r"(a), "r"(b), "r"(sum));
	return i;
}
/* Four bytes of the eight of a (0 … 3) and b, chosen by four nibbles; a nibble of 8 more makes
 * eight copies of its byte's highest bit. */
CUDA_THREAD uint32_t cuda_permute(uint32_t a, uint32_t b, uint32_t nibbles)
{
	uint32_t u;
	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(u) : "r"(a), "r"(b), "r"(nibbles));
	return u;
}

#else

#include "kernels/format.h"

#include <math.h>
#include <string.h>

#define CUDA_KERNEL static void
#define CUDA_KERNEL_OF(threads) static void
#define CUDA_THREAD static inline __attribute__((unused))
#define CUDA_UNROLL

/* By who runs the kernels. */
uint32_t cuda_thread(void);
uint32_t cuda_threads(void);
uint32_t cuda_block_x(void);
uint32_t cuda_block_y(void);
uint32_t cuda_blocks_x(void);
float *cuda_shared(void);
void cuda_barrier(void);
uint32_t cuda_swap(uint32_t v, uint32_t bits);

CUDA_THREAD uint32_t cuda_bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}
CUDA_THREAD float cuda_float(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}
CUDA_THREAD float cuda_fma(float a, float b, float c)
{
	return fmaf(a, b, c);
}
CUDA_THREAD float cuda_divide(float a, float b)
{
	return a / b;
}
CUDA_THREAD float cuda_root(float a)
{
	return sqrtf(a);
}
CUDA_THREAD int32_t cuda_round(float f)
{
	return (int32_t)rintf(f);
}
CUDA_THREAD float cuda_from_half(uint16_t h)
{
	return f16_to_f32(h);
}
CUDA_THREAD uint16_t cuda_to_half(float f)
{
	return f16_from_f32(f);
}
CUDA_THREAD int32_t cuda_dot4(uint32_t a, uint32_t b, int32_t sum)
{
	for (uint32_t i = 0; i < 32; i += 8)
		sum += (int8_t)(a >> i) * (int8_t)(b >> i);
	return sum;
}
CUDA_THREAD uint32_t cuda_permute(uint32_t a, uint32_t b, uint32_t nibbles)
{
	const uint64_t both = (uint64_t)b << 32 | a;
	uint32_t u = 0;

	for (uint32_t i = 0; i < 4; i++) {
		const uint32_t n = nibbles >> 4 * i & 15, byte = both >> n % 8 * 8 & 255;
		u |= (n < 8 ? byte : byte >> 7 ? 255 : 0) << 8 * i;
	}
	return u;
}

#endif

/* ---- of the above ---- */

CUDA_THREAD float cuda_swap_float(float f, uint32_t bits)
{
	return cuda_float(cuda_swap(cuda_bits(f), bits));
}
CUDA_THREAD float cuda_nan(void)
{
	return cuda_float(0x7fc00000);
}
CUDA_THREAD float cuda_minus_infinity(void)
{
	return cuda_float(0xff800000);
}

#endif

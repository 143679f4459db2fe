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
/* The same, where a processor is to have room for two blocks. */
#define CUDA_KERNEL_OF_TWO(threads) \
	extern "C" __attribute__((global)) __attribute__((launch_bounds(threads, 2))) void
#define CUDA_THREAD static inline __attribute__((device, always_inline))
#define CUDA_UNROLL _Pragma("unroll")
#define CUDA_UNROLL_8 _Pragma("unroll 8")
#define CUDA_UNROLL_4 _Pragma("unroll 4")
#define CUDA_ROLLED _Pragma("unroll 1")

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
/* All threads of the warp. */
CUDA_THREAD void cuda_warp_barrier(void)
{
	asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
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

/* The number of another thread of the warp. All 32 must call. */
CUDA_THREAD uint32_t cuda_from_lane(uint32_t v, uint32_t lane)
{
	uint32_t other;
	asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"
		     : "=r"(other)
		     : "r"(v), "r"(lane));
	return other;
}

/* A kernel may begin before the one ahead of it in the stream has ended, if it was launched so. It lets
 * the next one begin, and waits for the end of the one ahead before it reads or writes what that one
 * writes or reads. Every kernel waits, so all before those two have ended, too. */
CUDA_THREAD void cuda_let_next_begin(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/* Only waits: the next one begins when this one has ended. */
CUDA_THREAD void cuda_wait_alone(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
CUDA_THREAD void cuda_wait_for_ahead(void)
{
	cuda_let_next_begin();
	cuda_wait_alone();
}
/* Adds 1, and returns what was there before. What this block's threads have written before a barrier is seen
 * by whom this tells that they have, and by their blocks after another barrier. */
CUDA_THREAD uint32_t cuda_count(uint32_t *counter)
{
	uint32_t before;
	asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
	return before;
}
/* 1 where main memory polls: whatever the block of threads has written there before a barrier, main memory has
 * then. */
CUDA_THREAD void cuda_tell(uint32_t *flag)
{
	asm volatile("fence.acq_rel.sys; st.relaxed.sys.u32 [%0], 1;" ::"l"(flag) : "memory");
}
/* Eight bytes of the card's memory that no thread of this launch writes. */
struct cuda_two {
	uint32_t row[2];
} __attribute__((aligned(8)));
CUDA_THREAD struct cuda_two cuda_load_two(const void *from)
{
	struct cuda_two to;
	asm("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(to.row[0]), "=r"(to.row[1]) : "l"(from));
	return to;
}
/* Two or four of them. */
CUDA_THREAD uint32_t cuda_load_bits(const void *from, bool four)
{
	uint32_t to;
	if (four) {
		asm("ld.global.nc.u32 %0, [%1];" : "=r"(to) : "l"(from));
	} else {
		uint16_t half;
		asm("ld.global.nc.u16 %0, [%1];" : "=h"(half) : "l"(from));
		to = half;
	}
	return to;
}
/* Begins to bring bytes, a multiple of 16 from a multiple of 16 on, closer. */
CUDA_THREAD void cuda_prefetch(const void *from, uint32_t bytes)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes)
		     : "memory");
#else
	(void)from;
	(void)bytes;
#endif
}

/* A byte of shared memory, as its instructions count. */
CUDA_THREAD uint32_t cuda_shared_byte(const void *shared)
{
	uint32_t at;
	asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(at) : "l"(shared));
	return at;
}

/* Begins to copy 16 bytes to a byte of shared memory. */
CUDA_THREAD void cuda_copy16_at(uint32_t byte, const void *from)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(byte), "l"(from) : "memory");
#else
	struct cuda_sixteen {
		uint32_t word[4];
	} __attribute__((aligned(16)));
	const struct cuda_sixteen s = *(const struct cuda_sixteen *)from;
	asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(byte), "r"(s.word[0]), "r"(s.word[1]),
		     "r"(s.word[2]), "r"(s.word[3])
		     : "memory");
#endif
}
CUDA_THREAD void cuda_copy16(void *shared, const void *from)
{
	cuda_copy16_at(cuda_shared_byte(shared), from);
}
/* The same of one number, wherever it lies. */
CUDA_THREAD void cuda_copy_number(float *shared, const float *from)
{
#if __CUDA_ARCH__ >= 800
	const uint32_t at = cuda_shared_byte(shared);
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
#else
	*shared = *from;
#endif
}
/* Ends a batch of copies. */
CUDA_THREAD void cuda_copies_end(void)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/* Waits for the copies of this thread: all, or all but the last batch. */
CUDA_THREAD void cuda_copies_wait(void)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
}
CUDA_THREAD void cuda_copies_wait_but_last(void)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
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
CUDA_THREAD float cuda_inverse(float a)
{
	float f;
	asm("rcp.rn.f32 %0, %1;" : "=f"(f) : "f"(a));
	return f;
}
CUDA_THREAD float cuda_root(float a)
{
	float f;
	asm("sqrt.rn.f32 %0, %1;" : "=f"(f) : "f"(a));
	return f;
}
CUDA_THREAD double cuda_divide_double(double a, double b)
{
	double f;
	asm("div.rn.f64 %0, %1, %2;" : "=d"(f) : "d"(a), "d"(b));
	return f;
}
CUDA_THREAD double cuda_root_double(double a)
{
	double f;
	asm("sqrt.rn.f64 %0, %1;" : "=d"(f) : "d"(a));
	return f;
}
CUDA_THREAD uint64_t cuda_double_bits(double f)
{
	uint64_t u;
	asm("mov.b64 %0, %1;" : "=l"(u) : "d"(f));
	return u;
}
CUDA_THREAD double cuda_double(uint64_t u)
{
	double f;
	asm("mov.b64 %0, %1;" : "=d"(f) : "l"(u));
	return f;
}
/* Rounds to nearest even. */
CUDA_THREAD float cuda_from_double(double f)
{
	float rounded;
	asm("cvt.rn.f32.f64 %0, %1;" : "=f"(rounded) : "d"(f));
	return rounded;
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
/* a · b + c; it stays a product: compilers make shifts of those by powers of two, which other units of
 * the processor do. */
CUDA_THREAD uint32_t cuda_times_and(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t u;
	asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(u) : "r"(a), "r"(b), "r"(c));
	return u;
}
/* The upper half of a product. */
CUDA_THREAD uint32_t cuda_times_upper(uint32_t a, uint32_t b)
{
	uint32_t u;
	asm("mul.hi.u32 %0, %1, %2;" : "=r"(u) : "r"(a), "r"(b));
	return u;
}
/* A number of shared memory, by its byte there. */
CUDA_THREAD uint32_t cuda_shared_at(uint32_t byte)
{
	uint32_t u;
	asm("ld.shared.u32 %0, [%1];" : "=r"(u) : "r"(byte));
	return u;
}
/* The same of numbers that the block of threads has written there: one or two. */
CUDA_THREAD uint32_t cuda_shared_number(uint32_t byte)
{
	uint32_t u;
	asm volatile("ld.shared.u32 %0, [%1];" : "=r"(u) : "r"(byte) : "memory");
	return u;
}
CUDA_THREAD struct cuda_two cuda_shared_two(uint32_t byte)
{
	struct cuda_two to;
	asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
		     : "=r"(to.row[0]), "=r"(to.row[1])
		     : "r"(byte)
		     : "memory");
	return to;
}
/* Two halves that the block of threads has written there, or one. */
struct cuda_pair {
	float f[2];
};
CUDA_THREAD struct cuda_pair cuda_shared_pair(uint32_t byte)
{
	uint32_t u;
	struct cuda_pair p;
	asm volatile("ld.shared.u32 %0, [%1];" : "=r"(u) : "r"(byte) : "memory");
	asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }"
	    : "=f"(p.f[0]), "=f"(p.f[1])
	    : "r"(u));
	return p;
}
CUDA_THREAD float cuda_shared_half(uint32_t byte)
{
	uint32_t u;
	float f;
	asm volatile("ld.shared.u16 %0, [%1];" : "=r"(u) : "r"(byte) : "memory");
	asm("{ .reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f32.f16 %0, a; }" : "=f"(f) : "r"(u));
	return f;
}
/* Four bytes of the eight of a (0 … 3) and b, chosen by four nibbles; a nibble of 8 more makes
 * eight copies of its byte's highest bit. */
CUDA_THREAD uint32_t cuda_permute(uint32_t a, uint32_t b, uint32_t nibbles)
{
	uint32_t u;
	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(u) : "r"(a), "r"(b), "r"(nibbles));
	return u;
}

/* sum += a · b by a warp, of signed bytes: 16 rows by 8 tokens. Thread 4 g + c has of a the bytes 4 c
 * … 4 c + 3 of rows g and g + 8, then the bytes 16 farther of both; of b those bytes of token g; of
 * sum the tokens 2 c and 2 c + 1 of row g, then of row g + 8. */
CUDA_THREAD void cuda_multiply_tile(int32_t sum[4], const uint32_t a[4], const uint32_t b[2])
{
#if __CUDA_ARCH__ >= 800
	asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
	    "{%8, %9}, {%0, %1, %2, %3};"
	    : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
	const uint32_t lane = cuda_thread() % CUDA_WARP, c = lane % 4;
	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t half = 0; half < 2; half++) {
			const uint32_t first = cuda_from_lane(a[2 * half], lane - c + i);
			const uint32_t second = cuda_from_lane(a[2 * half + 1], lane - c + i);
			for (uint32_t t = 0; t < 2; t++) {
				const uint32_t other = cuda_from_lane(b[half], (2 * c + t) * 4 + i);
				sum[t] = cuda_dot4(first, other, sum[t]);
				sum[2 + t] = cuda_dot4(second, other, sum[2 + t]);
			}
		}
#endif
}

#else

#include "kernels/format.h"

#include <math.h>
#include <string.h>

#define CUDA_KERNEL static void
#define CUDA_KERNEL_OF(threads) static void
#define CUDA_KERNEL_OF_TWO(threads) static void
#define CUDA_THREAD static inline __attribute__((unused))
#define CUDA_UNROLL
#define CUDA_UNROLL_8
#define CUDA_UNROLL_4
#define CUDA_ROLLED

/* By who runs the kernels. */
uint32_t cuda_thread(void);
uint32_t cuda_threads(void);
uint32_t cuda_block_x(void);
uint32_t cuda_block_y(void);
uint32_t cuda_blocks_x(void);
float *cuda_shared(void);
void cuda_barrier(void);
void cuda_warp_barrier(void);
uint32_t cuda_swap(uint32_t v, uint32_t bits);
uint32_t cuda_from_lane(uint32_t v, uint32_t lane);
void cuda_multiply_tile(int32_t sum[4], const uint32_t a[4], const uint32_t b[2]);

struct cuda_two {
	uint32_t row[2];
};
CUDA_THREAD struct cuda_two cuda_load_two(const void *from)
{
	struct cuda_two to;
	memcpy(&to, from, sizeof to);
	return to;
}
CUDA_THREAD uint32_t cuda_load_bits(const void *from, bool four)
{
	uint32_t to = 0;
	memcpy(&to, from, four ? 4 : 2);
	return to;
}
CUDA_THREAD void cuda_let_next_begin(void)
{
}
CUDA_THREAD void cuda_wait_alone(void)
{
}
CUDA_THREAD void cuda_wait_for_ahead(void)
{
}
CUDA_THREAD uint32_t cuda_count(uint32_t *counter)
{
	return (*counter)++;
}
CUDA_THREAD void cuda_tell(uint32_t *flag)
{
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}
CUDA_THREAD void cuda_prefetch(const void *from, uint32_t bytes)
{
	(void)from;
	(void)bytes;
}
CUDA_THREAD void cuda_copy16_at(uint32_t byte, const void *from)
{
	memcpy((uint8_t *)cuda_shared() + byte, from, 16);
}
CUDA_THREAD void cuda_copy16(void *shared, const void *from)
{
	memcpy(shared, from, 16);
}
CUDA_THREAD void cuda_copy_number(float *shared, const float *from)
{
	*shared = *from;
}
CUDA_THREAD void cuda_copies_end(void)
{
}
CUDA_THREAD void cuda_copies_wait(void)
{
}
CUDA_THREAD void cuda_copies_wait_but_last(void)
{
}
CUDA_THREAD uint32_t cuda_times_and(uint32_t a, uint32_t b, uint32_t c)
{
	return a * b + c;
}
CUDA_THREAD uint32_t cuda_times_upper(uint32_t a, uint32_t b)
{
	return (uint32_t)((uint64_t)a * b >> 32);
}
CUDA_THREAD uint32_t cuda_shared_byte(const void *shared)
{
	return (uint32_t)((const uint8_t *)shared - (const uint8_t *)cuda_shared());
}
CUDA_THREAD uint32_t cuda_shared_at(uint32_t byte)
{
	return *(const uint32_t *)(const void *)((const uint8_t *)cuda_shared() + byte);
}
CUDA_THREAD uint32_t cuda_shared_number(uint32_t byte)
{
	return cuda_shared_at(byte);
}
CUDA_THREAD struct cuda_two cuda_shared_two(uint32_t byte)
{
	const struct cuda_two to = {{cuda_shared_at(byte), cuda_shared_at(byte + 4)}};
	return to;
}
struct cuda_pair {
	float f[2];
};
CUDA_THREAD struct cuda_pair cuda_shared_pair(uint32_t byte)
{
	const uint32_t u = cuda_shared_at(byte);
	const struct cuda_pair p = {{f16_to_f32((uint16_t)u), f16_to_f32((uint16_t)(u >> 16))}};
	return p;
}
CUDA_THREAD float cuda_shared_half(uint32_t byte)
{
	return f16_to_f32(*(const uint16_t *)(const void *)((const uint8_t *)cuda_shared() + byte));
}

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
CUDA_THREAD float cuda_inverse(float a)
{
	return 1 / a;
}
CUDA_THREAD float cuda_root(float a)
{
	return sqrtf(a);
}
CUDA_THREAD double cuda_divide_double(double a, double b)
{
	return a / b;
}
CUDA_THREAD double cuda_root_double(double a)
{
	return sqrt(a);
}
CUDA_THREAD uint64_t cuda_double_bits(double f)
{
	uint64_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}
CUDA_THREAD double cuda_double(uint64_t u)
{
	double f;
	memcpy(&f, &u, sizeof f);
	return f;
}
CUDA_THREAD float cuda_from_double(double f)
{
	return (float)f;
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

/* cuda_multiply_tile without the bytes 16 farther: 16 columns. */
CUDA_THREAD void cuda_multiply_half(int32_t sum[4], const uint32_t a[2], uint32_t b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
	    "{%0, %1, %2, %3};"
	    : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
	    : "r"(a[0]), "r"(a[1]), "r"(b));
#else
	const uint32_t both[4] = {a[0], a[1], 0, 0}, input[2] = {b, 0};
	cuda_multiply_tile(sum, both, input);
#endif
}

/* The largest of a warp's numbers. */
CUDA_THREAD uint32_t cuda_largest(uint32_t u)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	uint32_t largest;
	asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(largest) : "r"(u));
	return largest;
#else
	CUDA_UNROLL
	for (uint32_t h = 1; h < CUDA_WARP; h *= 2) {
		const uint32_t other = cuda_swap(u, h);
		u = other > u ? other : u;
	}
	return u;
#endif
}

/* Four numbers from a multiple of 16 bytes on, at once. */
struct cuda_four {
	float f[4];
} __attribute__((aligned(16)));
CUDA_THREAD struct cuda_four cuda_four_of(const float *from)
{
	return *(const struct cuda_four *)(const void *)from;
}

/* The larger magnitude as a number, or a NaN if one is; compared as integers, NaNs come last. */
CUDA_THREAD float cuda_larger_magnitude(float a, float b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	float f;
	asm("{ .reg .f32 a, b; abs.f32 a, %1; abs.f32 b, %2; max.NaN.f32 %0, a, b; }"
	    : "=f"(f)
	    : "f"(a), "f"(b));
	return f;
#else
	const uint32_t first = cuda_bits(a) & 0x7fffffff, second = cuda_bits(b) & 0x7fffffff;
	return cuda_float(first > second ? first : second);
#endif
}

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
CUDA_THREAD bool cuda_infinite(float f)
{
	return (cuda_bits(f) & 0x7fffffff) == 0x7f800000;
}

#endif

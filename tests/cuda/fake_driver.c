/* A libcuda.so.1 without a card: kernels are run by threads of the system (threads.c), the card's memory
 * is the program's. So everything but the card itself is tested where there is none.
 *
 * FAKE_CUDA: none (no card), old (a kernel is not in the module), memory (none is left), wild (the first
 * launch accesses memory that is not there: nothing works until the context is given back). */
#include "engine/gpu/gpu_driver.h"
#include "kernels/cuda/cuda_tables.h"
#include "tests/cuda/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FAKE_INVALID = 1, FAKE_NOT_FOUND = 500, FAKE_WILD = 700 };

static int fake_error; /* sticks */
static char fake_place; /* addresses of handles: of a kernel, fake_kernels + its number */
static char fake_kernels[CUDA_KERNEL_COUNT];

static bool fake_is(const char *how)
{
	const char *wanted = getenv("FAKE_CUDA");
	return wanted && strcmp(wanted, how) == 0;
}

/* The exported functions, with the operands of gpu_driver.h; the names are its rows. */
#define FAKE(name, operands) \
	int name operands;   \
	int name operands

FAKE(cuInit, (unsigned flags))
{
	return flags ? FAKE_INVALID : fake_is("none") ? GPU_NO_DEVICE : 0;
}
FAKE(cuDriverGetVersion, (int *version))
{
	*version = 12030;
	return 0;
}
FAKE(cuGetErrorName, (int result, const char **name))
{
	*name = result == GPU_NO_DEVICE	      ? "CUDA_ERROR_NO_DEVICE"
		: result == GPU_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
		: result == FAKE_NOT_FOUND    ? "CUDA_ERROR_NOT_FOUND"
		: result == FAKE_WILD	      ? "CUDA_ERROR_ILLEGAL_ADDRESS"
					      : "CUDA_ERROR_INVALID_VALUE";
	return 0;
}
FAKE(cuGetErrorString, (int result, const char **text))
{
	(void)result;
	*text = "as the test wants";
	return 0;
}
FAKE(cuDeviceGetCount, (int *count))
{
	*count = 1;
	return 0;
}
FAKE(cuDeviceGet, (int *device, int ordinal))
{
	*device = ordinal;
	return ordinal == 0 ? 0 : FAKE_INVALID;
}
FAKE(cuDeviceGetName, (char *name, int size, int device))
{
	(void)device;
	(void)snprintf(name, (size_t)size, "Card of threads");
	return 0;
}
FAKE(cuDeviceTotalMem_v2, (size_t * bytes, int device))
{
	(void)device;
	*bytes = (size_t)3 << 30;
	return 0;
}
FAKE(cuDeviceGetAttribute, (int *value, int attribute, int device))
{
	(void)device;
	*value = attribute == GPU_PROCESSORS	     ? 2
		 : attribute == GPU_CAPABILITY_MAJOR ? 8
		 : attribute == GPU_CAPABILITY_MINOR ? 6
		 : attribute == GPU_SHARED_MOST	     ? 101376
						     : 0;
	return *value ? 0 : FAKE_INVALID;
}
FAKE(cuDevicePrimaryCtxRetain, (gpu_context * context, int device))
{
	(void)device;
	*context = (gpu_context)(void *)&fake_place;
	return 0;
}
FAKE(cuDevicePrimaryCtxRelease_v2, (int device))
{
	(void)device;
	fake_error = 0;
	return 0;
}
FAKE(cuCtxSetCurrent, (gpu_context context))
{
	return context ? 0 : FAKE_INVALID;
}
FAKE(cuModuleLoadData, (gpu_module * module, const void *image))
{
	*module = (gpu_module)(void *)&fake_place;
	return image ? fake_error : FAKE_INVALID;
}
FAKE(cuModuleUnload, (gpu_module module))
{
	return module ? fake_error : FAKE_INVALID;
}
FAKE(cuModuleGetFunction, (gpu_function * function, gpu_module module, const char *name))
{
	for (int k = 0; k < CUDA_KERNEL_COUNT; k++)
		if (strcmp(name, cuda_kernel_name((enum cuda_kernel)k)) == 0)
			*function = (gpu_function)(void *)(fake_kernels + k);
	return module && !fake_is("old") ? fake_error : FAKE_NOT_FOUND;
}
FAKE(cuFuncSetAttribute, (gpu_function function, int attribute, int value))
{
	return function && attribute == GPU_FUNCTION_SHARED && value <= 101376 ? fake_error
									       : FAKE_INVALID;
}
FAKE(cuMemGetInfo_v2, (size_t * free_now, size_t *total))
{
	*free_now = *total = (size_t)3 << 30;
	return fake_error;
}
FAKE(cuMemAlloc_v2, (gpu_address * address, size_t bytes))
{
	void *p = NULL;

	if (fake_error)
		return fake_error;
	if (fake_is("memory") || posix_memalign(&p, 256, bytes) != 0)
		return GPU_OUT_OF_MEMORY;
	*address = (uintptr_t)p;
	return 0;
}
FAKE(cuMemFree_v2, (gpu_address address))
{
	free((void *)(uintptr_t)address);
	return fake_error;
}
FAKE(cuMemAllocHost_v2, (void **memory, size_t bytes))
{
	*memory = malloc(bytes);
	return *memory ? fake_error : GPU_OUT_OF_MEMORY;
}
FAKE(cuMemFreeHost, (void *memory))
{
	free(memory);
	return fake_error;
}
FAKE(cuMemcpyHtoDAsync_v2, (gpu_address to, const void *from, size_t bytes, gpu_stream stream))
{
	(void)stream;
	memcpy((void *)(uintptr_t)to, from, bytes);
	return fake_error;
}
FAKE(cuMemcpyDtoHAsync_v2, (void *to, gpu_address from, size_t bytes, gpu_stream stream))
{
	(void)stream;
	memcpy(to, (void *)(uintptr_t)from, bytes);
	return fake_error;
}
FAKE(cuMemcpyDtoDAsync_v2, (gpu_address to, gpu_address from, size_t bytes, gpu_stream stream))
{
	(void)stream;
	memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
	return fake_error;
}
FAKE(cuMemsetD8Async, (gpu_address to, unsigned char byte, size_t bytes, gpu_stream stream))
{
	(void)stream;
	memset((void *)(uintptr_t)to, byte, bytes);
	return fake_error;
}
FAKE(cuLaunchKernel,
     (gpu_function function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
      unsigned threads_y, unsigned threads_z, unsigned shared, gpu_stream stream, void **operands,
      void **extra))
{
	const struct runner r = threads_runner();
	const struct cuda_grid g = {x, y, threads_x, shared};
	const long k = (char *)(void *)function - fake_kernels;

	if (z != 1 || threads_y != 1 || threads_z != 1 || !stream || extra || x == 0 || y == 0 ||
	    shared > 101376)
		return FAKE_INVALID;
	if (fake_is("wild")) { /* once, also if the library is loaded again */
		fake_error = FAKE_WILD;
		setenv("FAKE_CUDA", "", 1);
	}
	if (!fake_error && !r.launch(r.ctx, (enum cuda_kernel)k, &g, operands[0], 0))
		return FAKE_INVALID;
	return 0; /* what goes wrong in a kernel is told later */
}
FAKE(cuStreamCreate, (gpu_stream * stream, unsigned flags))
{
	*stream = (gpu_stream)(void *)&fake_place;
	return flags == GPU_STREAM_APART ? fake_error : FAKE_INVALID;
}
FAKE(cuStreamSynchronize, (gpu_stream stream))
{
	return stream ? fake_error : FAKE_INVALID;
}
FAKE(cuStreamDestroy_v2, (gpu_stream stream))
{
	return stream ? fake_error : FAKE_INVALID;
}

/* Events are moments. */
FAKE(cuEventCreate, (gpu_event * event, unsigned flags))
{
	(void)flags;
	*event = malloc(sizeof(struct timespec));
	return *event ? fake_error : GPU_OUT_OF_MEMORY;
}
FAKE(cuEventRecord, (gpu_event event, gpu_stream stream))
{
	(void)stream;
	clock_gettime(CLOCK_MONOTONIC, (struct timespec *)(void *)event);
	return fake_error;
}
FAKE(cuEventElapsedTime, (float *milliseconds, gpu_event from, gpu_event to))
{
	const struct timespec *a = (const void *)from, *b = (const void *)to;
	*milliseconds = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 +
				(double)(b->tv_nsec - a->tv_nsec) * 1e-6);
	return fake_error;
}
FAKE(cuEventDestroy_v2, (gpu_event event))
{
	free(event);
	return 0;
}

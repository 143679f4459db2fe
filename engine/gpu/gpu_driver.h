/* NVIDIA's driver, opened at run time: libcuda.so.1, by its exported names. The program does not link
 * with it and needs no toolkit.
 *
 * Types and names are those of NVIDIA's "CUDA Driver API" reference. A function that has a second
 * version is asked for by the name with _v2, as the reference's headers rename it. */
#ifndef MOEFS_ENGINE_GPU_GPU_DRIVER_H
#define MOEFS_ENGINE_GPU_GPU_DRIVER_H

#include "cache/err.h"

#include <stddef.h>
#include <stdint.h>

typedef uint64_t gpu_address;
typedef struct gpu_context_of_driver *gpu_context;
typedef struct gpu_module_of_driver *gpu_module;
typedef struct gpu_function_of_driver *gpu_function;
typedef struct gpu_stream_of_driver *gpu_stream;
typedef struct gpu_event_of_driver *gpu_event;
typedef struct gpu_graph_of_driver *gpu_graph;	       /* launches that were captured */
typedef struct gpu_sequence_of_driver *gpu_sequence; /* the same, ready to be launched as one */

/* CUlaunchAttribute and CUlaunchConfig. */
struct gpu_launch_attribute {
	int id, unused;
	union {
		char pad[64];
		int allowed;
	} value;
};
struct gpu_launch {
	unsigned x, y, z, threads_x, threads_y, threads_z, shared;
	gpu_stream stream;
	struct gpu_launch_attribute *attributes;
	unsigned attribute_count;
};

/* Attributes of a device and of a function; flags of a stream. */
enum {
	GPU_PROCESSORS = 16,
	GPU_CAPABILITY_MAJOR = 75,
	GPU_CAPABILITY_MINOR = 76,
	GPU_SHARED_MOST = 97, /* bytes that a block of threads may ask for */
	GPU_FUNCTION_SHARED = 8,
	GPU_STREAM_APART = 1, /* does not wait for the stream 0 */
	GPU_CAPTURE_THREAD = 1, /* other threads may call the driver meanwhile */
	GPU_EVENT_NO_TIME = 2, /* of an event: its time is not asked for */
	GPU_LAUNCH_EARLY = 6, /* an attribute: a kernel may begin before the one ahead of it ends */
};
/* Results that the program distinguishes. */
enum { GPU_OUT_OF_MEMORY = 2, GPU_NO_DEVICE = 100, GPU_NOT_READY = 600 };

/* DO(field, exported name, operands). */
#define GPU_FUNCTIONS(DO)                                                                         \
	DO(init, "cuInit", (unsigned flags))                                                      \
	DO(version, "cuDriverGetVersion", (int *version))                                         \
	DO(error_name, "cuGetErrorName", (int result, const char **name))                         \
	DO(error_text, "cuGetErrorString", (int result, const char **text))                       \
	DO(device_count, "cuDeviceGetCount", (int *count))                                        \
	DO(device, "cuDeviceGet", (int *device, int ordinal))                                     \
	DO(device_name, "cuDeviceGetName", (char *name, int size, int device))                    \
	DO(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes, int device))                    \
	DO(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))     \
	DO(context_retain, "cuDevicePrimaryCtxRetain", (gpu_context * context, int device))       \
	DO(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                         \
	DO(context_use, "cuCtxSetCurrent", (gpu_context context))                                 \
	DO(module_load, "cuModuleLoadData", (gpu_module * module, const void *image))             \
	DO(module_unload, "cuModuleUnload", (gpu_module module))                                  \
	DO(module_function, "cuModuleGetFunction",                                                \
	   (gpu_function * function, gpu_module module, const char *name))                        \
	DO(function_set, "cuFuncSetAttribute", (gpu_function function, int attribute, int value)) \
	DO(memory_free_now, "cuMemGetInfo_v2", (size_t * free, size_t * total))                   \
	DO(memory_take, "cuMemAlloc_v2", (gpu_address * address, size_t bytes))                   \
	DO(memory_give, "cuMemFree_v2", (gpu_address address))                                    \
	DO(host_take, "cuMemAllocHost_v2", (void **memory, size_t bytes))                         \
	DO(host_give, "cuMemFreeHost", (void *memory))                                            \
	DO(copy_in, "cuMemcpyHtoDAsync_v2",                                                       \
	   (gpu_address to, const void *from, size_t bytes, gpu_stream stream))                   \
	DO(copy_out, "cuMemcpyDtoHAsync_v2",                                                      \
	   (void *to, gpu_address from, size_t bytes, gpu_stream stream))                         \
	DO(copy_within, "cuMemcpyDtoDAsync_v2",                                                   \
	   (gpu_address to, gpu_address from, size_t bytes, gpu_stream stream))                   \
	DO(fill, "cuMemsetD8Async",                                                               \
	   (gpu_address to, unsigned char byte, size_t bytes, gpu_stream stream))                 \
	DO(launch, "cuLaunchKernel",                                                              \
	   (gpu_function function, unsigned x, unsigned y, unsigned z, unsigned threads_x,        \
	    unsigned threads_y, unsigned threads_z, unsigned shared, gpu_stream stream,           \
	    void **operands, void **extra))                                                       \
	DO(launch_with, "cuLaunchKernelEx",                                                       \
	   (const struct gpu_launch *launch, gpu_function function, void **operands,              \
	    void **extra))                                                                        \
	DO(capture_begin, "cuStreamBeginCapture_v2", (gpu_stream stream, int mode))               \
	DO(capture_end, "cuStreamEndCapture", (gpu_stream stream, gpu_graph * graph))             \
	DO(graph_prepare, "cuGraphInstantiateWithFlags",                                          \
	   (gpu_sequence * sequence, gpu_graph graph, unsigned long long flags))                  \
	DO(graph_destroy, "cuGraphDestroy", (gpu_graph graph))                                    \
	DO(sequence_launch, "cuGraphLaunch", (gpu_sequence sequence, gpu_stream stream))          \
	DO(sequence_destroy, "cuGraphExecDestroy", (gpu_sequence sequence))                       \
	DO(stream_create, "cuStreamCreate", (gpu_stream * stream, unsigned flags))                \
	DO(stream_look, "cuStreamQuery", (gpu_stream stream))                                     \
	DO(stream_wait, "cuStreamSynchronize", (gpu_stream stream))                               \
	DO(stream_destroy, "cuStreamDestroy_v2", (gpu_stream stream))                             \
	DO(event_create, "cuEventCreate", (gpu_event * event, unsigned flags))                    \
	DO(event_record, "cuEventRecord", (gpu_event event, gpu_stream stream))                   \
	DO(event_wait, "cuEventSynchronize", (gpu_event event))                                   \
	DO(event_elapsed, "cuEventElapsedTime",                                                   \
	   (float *milliseconds, gpu_event from, gpu_event to))                                   \
	DO(event_destroy, "cuEventDestroy_v2", (gpu_event event))

struct gpu_driver {
	void *library;
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a list of parameters */
#define GPU_FIELD(field, name, operands) int(*field) operands;
	GPU_FUNCTIONS(GPU_FIELD)
#undef GPU_FIELD
};

/* Loads the library, finds all of its functions and initialises it. The driver starts threads and
 * does not survive a fork. ENODEV: there is no library, no GPU, or no driver in the Linux kernel. */
int gpu_driver_open(struct gpu_driver *d, struct err *e);
/* Closes an open driver. Its memory, modules and contexts must have been freed before. */
void gpu_driver_close(struct gpu_driver *d);

/* 0, or the result in words: what was tried, the driver's name and sentence for it. ENOMEM where the
 * card's memory does not suffice, ENODEV where there is no card, else EIO. */
int gpu_driver_check(const struct gpu_driver *d, int result, const char *what, struct err *e);

#endif

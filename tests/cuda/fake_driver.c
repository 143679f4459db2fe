/* A libcuda.so.1 without a card: kernels are run by the program itself (threads.c), the card's memory is
 * the program's. So everything but the card itself is tested where there is none.
 *
 * What goes wrong is a word, in FAKE_CUDA when the driver is opened, or from fake_cuda_be at any time:
 *     none            there is no card
 *     old             a kernel is not in the module
 *     memory          none is left; memory-after=N: after N more pieces
 *     wild            the next launch accesses memory that is not there: nothing works until the
 *                     context is given back; wild-after=N: the launch after N others. Once.
 *     late            nothing goes wrong, but from now on work is done when it is waited for, not when it
 *                     is started; early: the contrary
 *
 * Any thread may call. Memory that was not written yet is full of NaNs. */
#include "engine/gpu/gpu_driver.h"
#include "kernels/cuda/cuda_tables.h"
#include "tests/cuda/runner.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FAKE_INVALID = 1, FAKE_NOT_FOUND = 500, FAKE_WILD = 700, FAKE_CAPTURING = 900 };

static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER; /* protects what follows */
static int fake_error;					      /* sticks */
static char fake_word[32]; /* what goes wrong, without "=N" */
static long fake_left;	   /* launches or pieces of memory before that */
static bool fake_late;
static long fake_taken;	   /* what the program holds: contexts, memory, streams, sequences, events */
static int fake_contexts;  /* of these */
static long fake_played;   /* sequences that were started */
static char fake_place;	   /* addresses of handles: of a kernel, fake_kernels + its number */
static char fake_kernels[CUDA_KERNEL_COUNT];

/* ---- for tests, which find these by dlsym ---- */

void fake_cuda_be(const char *word);
/* How much the program holds: that it gives all back. */
long fake_cuda_taken(void);
/* How often a sequence was started. */
long fake_cuda_played(void);

void fake_cuda_be(const char *word)
{
	const char *number = strchr(word, '=');
	const bool late = strcmp(word, "late") == 0, early = strcmp(word, "early") == 0;

	(void)pthread_mutex_lock(&fake_lock);
	if (late || early)
		fake_late = late;
	(void)snprintf(fake_word, sizeof fake_word, "%.*s", (int)strcspn(word, "="), word);
	fake_left = number ? strtol(number + 1, NULL, 10) : 0;
	(void)pthread_mutex_unlock(&fake_lock);
}

long fake_cuda_taken(void)
{
	(void)pthread_mutex_lock(&fake_lock);
	const long taken = fake_taken;
	(void)pthread_mutex_unlock(&fake_lock);
	return taken;
}

long fake_cuda_played(void)
{
	(void)pthread_mutex_lock(&fake_lock);
	const long played = fake_played;
	(void)pthread_mutex_unlock(&fake_lock);
	return played;
}

static bool fake_is(const char *word)
{
	(void)pthread_mutex_lock(&fake_lock);
	const bool is = strcmp(fake_word, word) == 0;
	(void)pthread_mutex_unlock(&fake_lock);
	return is;
}

/* Whether what goes wrong is this, now. The lock is held. */
static bool fake_goes(const char *word)
{
	return strncmp(fake_word, word, strlen(word)) == 0 && fake_left-- <= 0;
}

/* Counts what was taken, or with -1 given back; returns the error that sticks. */
static int fake_count(int more)
{
	(void)pthread_mutex_lock(&fake_lock);
	fake_taken += more;
	const int error = fake_error;
	(void)pthread_mutex_unlock(&fake_lock);
	return error;
}

/* ---- work ---- */

struct fake_launch {
	enum cuda_kernel kernel;
	struct cuda_grid grid;
	_Alignas(16) unsigned char operands[4096]; /* the most that a kernel may have */
};
/* A graph, and a sequence, which has a copy of the launches. */
struct fake_graph {
	size_t count;
	struct fake_launch *launches;
};
static _Thread_local struct fake_graph *fake_captured; /* not NULL: launches go there */

/* Launches, a copy, bytes, or a moment. */
struct fake_work {
	struct fake_work *next;
	struct fake_graph launches;
	void *to;
	const void *from; /* NULL: `byte` */
	size_t bytes;
	unsigned char byte;
	void *owned; /* launches, or what is copied: freed afterwards */
	struct timespec *moment;
};
struct fake_stream {
	struct fake_stream *next;
	struct fake_work *first, *last;
};
static struct fake_stream *fake_streams;

/* Main memory that the card reads at any time; other memory it copies at once. */
struct fake_pinned {
	struct fake_pinned *next;
	char *memory;
	size_t bytes;
};
static struct fake_pinned *fake_pinned;

/* What goes wrong in a kernel is told later. The lock is held, here and below. */
static void fake_run_launch(const struct fake_launch *l)
{
	const struct runner r = threads_runner();

	if (!fake_error && fake_goes("wild")) {
		fake_error = FAKE_WILD;
		fake_word[0] = 0;
		(void)setenv("FAKE_CUDA", "", 1); /* also if the library is loaded again */
	}
	if (!fake_error && !r.launch(r.ctx, l->kernel, &l->grid, l->operands, 0))
		fake_error = FAKE_INVALID;
}

static void fake_do(struct fake_work *w)
{
	for (size_t i = 0; i < w->launches.count; i++)
		fake_run_launch(&w->launches.launches[i]);
	if (w->bytes && w->from && !fake_error)
		memmove(w->to, w->from, w->bytes);
	else if (w->bytes && !fake_error)
		memset(w->to, w->byte, w->bytes);
	if (w->moment)
		(void)clock_gettime(CLOCK_MONOTONIC, w->moment);
	free(w->owned);
	free(w);
}

static void fake_do_stream(struct fake_stream *s)
{
	while (s->first) {
		struct fake_work *w = s->first;
		s->first = w->next;
		fake_do(w);
	}
}

/* Does the work now, or leaves it to who waits. */
static int fake_start(const struct fake_work *what, gpu_stream stream)
{
	struct fake_stream *s = (struct fake_stream *)(void *)stream;
	struct fake_work *w = malloc(sizeof *w);

	if (!w)
		abort();
	*w = *what;
	(void)pthread_mutex_lock(&fake_lock);
	if (s->first)
		s->last->next = w;
	else
		s->first = w;
	s->last = w;
	if (!fake_late)
		fake_do_stream(s);
	const int error = fake_error;
	(void)pthread_mutex_unlock(&fake_lock);
	return error;
}

/* What frees memory waits for all work. */
static void fake_do_all(void)
{
	(void)pthread_mutex_lock(&fake_lock);
	for (struct fake_stream *s = fake_streams; s; s = s->next)
		fake_do_stream(s);
	(void)pthread_mutex_unlock(&fake_lock);
}

static void *fake_copy_of(const void *from, size_t bytes)
{
	void *copy = malloc(bytes ? bytes : 1);

	if (!copy)
		abort();
	memcpy(copy, from, bytes);
	return copy;
}

static bool fake_is_pinned(const void *memory)
{
	bool is = false;

	(void)pthread_mutex_lock(&fake_lock);
	for (const struct fake_pinned *p = fake_pinned; p; p = p->next)
		is = is || ((const char *)memory >= p->memory &&
			    (const char *)memory < p->memory + p->bytes);
	(void)pthread_mutex_unlock(&fake_lock);
	return is;
}

/* ---- the card ---- */

/* The exported functions, with the operands of gpu_driver.h; the names are its rows. */
#define FAKE(name, operands) \
	int name operands;   \
	int name operands

FAKE(cuInit, (unsigned flags))
{
	const char *how = getenv("FAKE_CUDA");

	if (how && *how)
		fake_cuda_be(how);
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
	(void)pthread_mutex_lock(&fake_lock);
	fake_contexts++;
	fake_taken++;
	(void)pthread_mutex_unlock(&fake_lock);
	return 0;
}
FAKE(cuDevicePrimaryCtxRelease_v2, (int device))
{
	(void)device;
	(void)pthread_mutex_lock(&fake_lock);
	fake_taken--;
	if (--fake_contexts == 0)
		fake_error = 0;
	(void)pthread_mutex_unlock(&fake_lock);
	return 0;
}
FAKE(cuCtxSetCurrent, (gpu_context context))
{
	return context ? 0 : FAKE_INVALID;
}
FAKE(cuModuleLoadData, (gpu_module * module, const void *image))
{
	*module = (gpu_module)(void *)&fake_place;
	return image ? fake_count(1) : FAKE_INVALID;
}
FAKE(cuModuleUnload, (gpu_module module))
{
	return module ? fake_count(-1) : FAKE_INVALID;
}
FAKE(cuModuleGetFunction, (gpu_function * function, gpu_module module, const char *name))
{
	for (int k = 0; k < CUDA_KERNEL_COUNT; k++)
		if (strcmp(name, cuda_kernel_name((enum cuda_kernel)k)) == 0)
			*function = (gpu_function)(void *)(fake_kernels + k);
	return module && !fake_is("old") ? fake_count(0) : FAKE_NOT_FOUND;
}
FAKE(cuFuncSetAttribute, (gpu_function function, int attribute, int value))
{
	return function && attribute == GPU_FUNCTION_SHARED && value <= 101376 ? fake_count(0)
									       : FAKE_INVALID;
}

/* ---- memory ---- */

FAKE(cuMemGetInfo_v2, (size_t * free_now, size_t *total))
{
	*free_now = *total = (size_t)3 << 30;
	return fake_count(0);
}
FAKE(cuMemAlloc_v2, (gpu_address * address, size_t bytes))
{
	void *p = NULL;

	if (fake_captured)
		return FAKE_CAPTURING;
	(void)pthread_mutex_lock(&fake_lock);
	int result = fake_error;
	if (!result && (fake_goes("memory") || posix_memalign(&p, 256, bytes) != 0))
		result = GPU_OUT_OF_MEMORY;
	fake_taken += !result;
	(void)pthread_mutex_unlock(&fake_lock);
	if (result)
		return result;
	memset(p, 0xff, bytes);
	*address = (uintptr_t)p;
	return 0;
}
FAKE(cuMemFree_v2, (gpu_address address))
{
	if (fake_captured || !address)
		return FAKE_CAPTURING;
	fake_do_all();
	free((void *)(uintptr_t)address);
	return fake_count(-1);
}
FAKE(cuMemAllocHost_v2, (void **memory, size_t bytes))
{
	struct fake_pinned *p = malloc(sizeof *p);

	*memory = malloc(bytes);
	if (!p || !*memory)
		abort();
	(void)pthread_mutex_lock(&fake_lock);
	*p = (struct fake_pinned){fake_pinned, *memory, bytes};
	fake_pinned = p;
	(void)pthread_mutex_unlock(&fake_lock);
	return fake_count(1);
}
FAKE(cuMemFreeHost, (void *memory))
{
	fake_do_all();
	(void)pthread_mutex_lock(&fake_lock);
	struct fake_pinned **at = &fake_pinned, *found;
	while (*at && (*at)->memory != memory)
		at = &(*at)->next;
	found = *at;
	if (found)
		*at = found->next;
	(void)pthread_mutex_unlock(&fake_lock);
	free(found);
	free(memory);
	return found ? fake_count(-1) : FAKE_INVALID;
}
FAKE(cuMemcpyHtoDAsync_v2, (gpu_address to, const void *from, size_t bytes, gpu_stream stream))
{
	struct fake_work w = {.to = (void *)(uintptr_t)to, .from = from, .bytes = bytes};

	if (fake_captured)
		return FAKE_CAPTURING;
	if (!fake_is_pinned(from))
		w.from = w.owned = fake_copy_of(from, bytes);
	return fake_start(&w, stream);
}
FAKE(cuMemcpyDtoHAsync_v2, (void *to, gpu_address from, size_t bytes, gpu_stream stream))
{
	const struct fake_work w = {.to = to, .from = (void *)(uintptr_t)from, .bytes = bytes};

	return fake_captured ? FAKE_CAPTURING : fake_start(&w, stream);
}
FAKE(cuMemcpyDtoDAsync_v2, (gpu_address to, gpu_address from, size_t bytes, gpu_stream stream))
{
	return cuMemcpyDtoHAsync_v2((void *)(uintptr_t)to, from, bytes, stream);
}
FAKE(cuMemsetD8Async, (gpu_address to, unsigned char byte, size_t bytes, gpu_stream stream))
{
	const struct fake_work w = {.to = (void *)(uintptr_t)to, .byte = byte, .bytes = bytes};

	return fake_captured ? FAKE_CAPTURING : fake_start(&w, stream);
}

/* ---- launches, and those that are captured ---- */

/* Bytes of a kernel's operands. */
static size_t fake_operands(enum cuda_kernel k)
{
#define FAKE_SIZE(name, operands) sizeof(operands),
	static const size_t sizes[] = {CUDA_KERNELS(FAKE_SIZE)};
#undef FAKE_SIZE
	return sizes[k];
}

static int fake_capture(const struct fake_launch *l)
{
	struct fake_graph *g = fake_captured;
	struct fake_launch *more = realloc(g->launches, (g->count + 1) * sizeof *more);

	if (!more)
		abort();
	g->launches = more;
	g->launches[g->count++] = *l;
	return fake_count(0);
}

/* Starts launches, of which it makes a copy. */
static int fake_launch_all(const struct fake_launch *launches, size_t count, gpu_stream stream)
{
	struct fake_work w = {.owned = fake_copy_of(launches, count * sizeof *launches)};

	w.launches = (struct fake_graph){count, w.owned};
	return fake_start(&w, stream);
}

FAKE(cuLaunchKernelEx,
     (const struct gpu_launch *launch, gpu_function function, void **operands, void **extra))
{
	struct fake_launch l = {0};

	if (launch->z != 1 || launch->threads_y != 1 || launch->threads_z != 1 ||
	    !launch->stream || extra || launch->x == 0 || launch->y == 0 || launch->y > 65535 ||
	    launch->shared > 101376)
		return FAKE_INVALID;
	l.kernel = (enum cuda_kernel)((char *)(void *)function - fake_kernels);
	l.grid = (struct cuda_grid){launch->x, launch->y, launch->threads_x, launch->shared};
	memcpy(l.operands, operands[0], fake_operands(l.kernel));
	return fake_captured ? fake_capture(&l) : fake_launch_all(&l, 1, launch->stream);
}
FAKE(cuLaunchKernel,
     (gpu_function function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
      unsigned threads_y, unsigned threads_z, unsigned shared, gpu_stream stream, void **operands,
      void **extra))
{
	const struct gpu_launch l = {x,	     y,	     z,	   threads_x, threads_y, threads_z,
				     shared, stream, NULL, 0};
	return cuLaunchKernelEx(&l, function, operands, extra);
}
FAKE(cuStreamBeginCapture_v2, (gpu_stream stream, int mode))
{
	if (!stream || mode != GPU_CAPTURE_THREAD || fake_captured)
		return FAKE_INVALID;
	fake_captured = calloc(1, sizeof *fake_captured);
	return fake_captured ? fake_count(1) : GPU_OUT_OF_MEMORY;
}
FAKE(cuStreamEndCapture, (gpu_stream stream, gpu_graph *graph))
{
	*graph = (gpu_graph)(void *)fake_captured;
	fake_captured = NULL;
	return stream && *graph ? fake_count(0) : FAKE_INVALID;
}
FAKE(cuGraphInstantiateWithFlags,
     (gpu_sequence * sequence, gpu_graph graph, unsigned long long flags))
{
	const struct fake_graph *from = (const void *)graph;
	struct fake_graph *g = fake_copy_of(from, sizeof *g);

	g->launches = fake_copy_of(from->launches, from->count * sizeof *g->launches);
	*sequence = (gpu_sequence)(void *)g;
	return flags ? FAKE_INVALID : fake_count(1);
}
FAKE(cuGraphLaunch, (gpu_sequence sequence, gpu_stream stream))
{
	const struct fake_graph *g = (const void *)sequence;

	(void)pthread_mutex_lock(&fake_lock);
	fake_played++;
	(void)pthread_mutex_unlock(&fake_lock);
	return stream && !fake_captured ? fake_launch_all(g->launches, g->count, stream)
					: FAKE_INVALID;
}
FAKE(cuGraphDestroy, (gpu_graph graph))
{
	struct fake_graph *g = (void *)graph;

	free(g->launches);
	free(g);
	return fake_count(-1);
}
FAKE(cuGraphExecDestroy, (gpu_sequence sequence))
{
	return cuGraphDestroy((gpu_graph)(void *)sequence);
}

/* ---- streams ---- */

FAKE(cuStreamCreate, (gpu_stream * stream, unsigned flags))
{
	struct fake_stream *s = calloc(1, sizeof *s);

	if (!s)
		abort();
	(void)pthread_mutex_lock(&fake_lock);
	s->next = fake_streams;
	fake_streams = s;
	(void)pthread_mutex_unlock(&fake_lock);
	*stream = (gpu_stream)(void *)s;
	return flags == GPU_STREAM_APART ? fake_count(1) : FAKE_INVALID;
}
FAKE(cuStreamSynchronize, (gpu_stream stream))
{
	struct fake_stream *s = (struct fake_stream *)(void *)stream;

	if (!s || fake_captured)
		return FAKE_CAPTURING;
	(void)pthread_mutex_lock(&fake_lock);
	fake_do_stream(s);
	(void)pthread_mutex_unlock(&fake_lock);
	return fake_count(0);
}
/* Who asks whether the work is done waits for it. */
FAKE(cuStreamQuery, (gpu_stream stream))
{
	return cuStreamSynchronize(stream);
}
FAKE(cuStreamDestroy_v2, (gpu_stream stream))
{
	struct fake_stream **at = &fake_streams, *s = (struct fake_stream *)(void *)stream;
	const int result = cuStreamSynchronize(stream);

	(void)pthread_mutex_lock(&fake_lock);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	(void)pthread_mutex_unlock(&fake_lock);
	free(s);
	(void)fake_count(-1);
	return result;
}

/* Events are moments. */
FAKE(cuEventCreate, (gpu_event * event, unsigned flags))
{
	(void)flags;
	*event = calloc(1, sizeof(struct timespec));
	return *event ? fake_count(1) : GPU_OUT_OF_MEMORY;
}
FAKE(cuEventRecord, (gpu_event event, gpu_stream stream))
{
	const struct fake_work w = {.moment = (struct timespec *)(void *)event};

	return fake_start(&w, stream);
}
FAKE(cuEventSynchronize, (gpu_event event))
{
	fake_do_all();
	return event ? fake_error : FAKE_INVALID;
}
FAKE(cuEventElapsedTime, (float *milliseconds, gpu_event from, gpu_event to))
{
	const struct timespec *a = (const void *)from, *b = (const void *)to;
	*milliseconds = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 +
				(double)(b->tv_nsec - a->tv_nsec) * 1e-6);
	return fake_count(0);
}
FAKE(cuEventDestroy_v2, (gpu_event event))
{
	free(event);
	return fake_count(-1);
}

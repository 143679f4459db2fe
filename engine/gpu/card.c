/* See card.h. */
#include "engine/gpu/card.h"
#include "kernels/cuda/cuda_tables.h"

#include <errno.h>
#include <string.h>

/* ---- facts ---- */

int card_look(const struct gpu_driver *d, int ordinal, struct card_facts *facts, struct err *e)
{
	const struct {
		int attribute;
		uint32_t *to;
	} attributes[] = {
		{GPU_PROCESSORS, &facts->processors},
		{GPU_CAPABILITY_MAJOR, &facts->major},
		{GPU_CAPABILITY_MINOR, &facts->minor},
		{GPU_SHARED_MOST, &facts->shared},
	};
	int count = 0, device = 0, version = 0, result = d->device_count(&count);
	size_t memory = 0;

	memset(facts, 0, sizeof *facts);
	if (!result && ordinal >= count)
		return err_set(e, ENODEV, "there is no GPU %d: the driver has %d", ordinal, count);
	result = result ? result : d->version(&version);
	result = result ? result : d->device(&device, ordinal);
	result = result ? result : d->device_name(facts->name, sizeof facts->name, device);
	result = result ? result : d->device_memory(&memory, device);
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes && !result; i++) {
		int value = 0;
		result = d->device_attribute(&value, attributes[i].attribute, device);
		*attributes[i].to = (uint32_t)value;
	}
	facts->name[sizeof facts->name - 1] = 0;
	facts->driver = (uint32_t)version;
	facts->memory = memory;
	return gpu_driver_check(d, result, "the GPU's properties cannot be read", e);
}

/* ---- opening ---- */

/* Finds the kernels of the module; each may use as much shared memory as the card has. */
static int card_find_kernels(struct card *c, struct err *e)
{
	const struct gpu_driver *d = &c->driver;

	for (size_t k = 0; k < CUDA_KERNEL_COUNT; k++) {
		const char *name = cuda_kernel_name((enum cuda_kernel)k);
		int result = d->module_function(&c->kernels[k], c->module, name);
		if (!result)
			result = d->function_set(c->kernels[k], GPU_FUNCTION_SHARED,
						 (int)c->facts.shared);
		if (result)
			return gpu_driver_check(d, result, name, e);
	}
	return 0;
}

/* Loads the first image that the driver takes. */
static int card_load(struct card *c, const struct cuda_image *images, struct err *e)
{
	int failed = err_set(e, ENOTSUP,
			     "this program was built without GPU kernels: neither nvcc nor clang "
			     "was found");

	for (const struct cuda_image *i = images; i->name; i++) {
		const int result = c->driver.module_load(&c->module, i->bytes);
		c->image = i;
		if (!result)
			return card_find_kernels(c, e);
		struct err why;
		(void)gpu_driver_check(&c->driver, result, i->name, &why);
		failed = err_set(e, ENOTSUP, "the driver cannot load the kernels: %s", why.text);
	}
	c->module = NULL;
	return failed;
}

int card_open(struct card *c, int ordinal, const struct cuda_image *images, struct err *e)
{
	struct gpu_driver *d = &c->driver;
	size_t free_now = 0, total;

	memset(c, 0, sizeof *c);
	int failed = gpu_driver_open(d, e);
	if (failed)
		return failed;
	failed = card_look(d, ordinal, &c->facts, e);
	if (!failed) {
		int result = d->device(&c->device, ordinal);
		result = result ? result : d->context_retain(&c->context, c->device);
		result = result ? result : d->context_use(c->context);
		result = result ? result : d->memory_free_now(&free_now, &total);
		result = result ? result : d->stream_create(&c->stream, GPU_STREAM_APART);
		failed = gpu_driver_check(d, result, "the GPU cannot be opened", e);
	}
	c->facts.free = free_now;
	if (!failed)
		failed = card_load(c, images, e);
	if (failed)
		card_close(c);
	return failed;
}

void card_close(struct card *c)
{
	const struct gpu_driver *d = &c->driver;

	if (!d->library)
		return;
	if (c->module)
		(void)d->module_unload(c->module);
	if (c->stream)
		(void)d->stream_destroy(c->stream);
	if (c->context)
		(void)d->context_release(c->device);
	gpu_driver_close(&c->driver);
	memset(c, 0, sizeof *c);
}

/* ---- memory and work ---- */

int card_take(struct card *c, size_t bytes, gpu_address *address, struct err *e)
{
	return gpu_driver_check(&c->driver, c->driver.memory_take(address, bytes),
				"no GPU memory", e);
}

void card_give(struct card *c, gpu_address address)
{
	if (address)
		(void)c->driver.memory_give(address);
}

int card_copy_in(struct card *c, gpu_address to, const void *from, size_t bytes, struct err *e)
{
	return gpu_driver_check(&c->driver, c->driver.copy_in(to, from, bytes, c->stream),
				"copying to the GPU", e);
}

int card_copy_out(struct card *c, void *to, gpu_address from, size_t bytes, struct err *e)
{
	return gpu_driver_check(&c->driver, c->driver.copy_out(to, from, bytes, c->stream),
				"copying from the GPU", e);
}

int card_clear(struct card *c, gpu_address to, size_t bytes, struct err *e)
{
	return gpu_driver_check(&c->driver, c->driver.fill(to, 0, bytes, c->stream),
				"clearing GPU memory", e);
}

int card_launch(struct card *c, enum cuda_kernel k, const struct cuda_grid *g, const void *operands,
		struct err *e)
{
	void *all[] = {(void *)(uintptr_t)operands}; /* which are only read */
	struct gpu_launch_attribute early = {.id = GPU_LAUNCH_EARLY, .value.allowed = 1};
	const bool waits = c->image->waits && c->facts.major >= c->image->waits;
	const struct gpu_launch launch = {g->x, g->y, 1, g->threads, 1, 1, g->shared, c->stream,
					  &early, waits};
	const int result = c->driver.launch_with(&launch, c->kernels[k], all, NULL);

	return gpu_driver_check(&c->driver, result, cuda_kernel_name(k), e);
}

int card_record(struct card *c, struct err *e)
{
	return gpu_driver_check(&c->driver,
				c->driver.capture_begin(c->stream, GPU_CAPTURE_THREAD),
				"noting launches", e);
}

int card_recorded(struct card *c, gpu_sequence *sequence, struct err *e)
{
	gpu_graph graph = NULL;
	int result = c->driver.capture_end(c->stream, &graph);

	*sequence = NULL;
	if (!result)
		result = c->driver.graph_prepare(sequence, graph, 0);
	if (graph)
		(void)c->driver.graph_destroy(graph);
	return gpu_driver_check(&c->driver, result, "launches as one", e);
}

int card_play(struct card *c, gpu_sequence sequence, struct err *e)
{
	return gpu_driver_check(&c->driver, c->driver.sequence_launch(sequence, c->stream),
				"launches as one", e);
}

void card_forget(struct card *c, gpu_sequence sequence)
{
	if (sequence)
		(void)c->driver.sequence_destroy(sequence);
}

int card_wait(struct card *c, struct err *e)
{
	return gpu_driver_check(&c->driver, c->driver.stream_wait(c->stream),
				"the GPU's work failed", e);
}

/* One card: its memory, the kernels on it, and the order in which it works. A card belongs to one
 * thread; all its work goes through one stream, so what was begun first is done first. */
#ifndef MOEFS_ENGINE_GPU_CARD_H
#define MOEFS_ENGINE_GPU_CARD_H

#include "engine/gpu/gpu_driver.h"
#include "kernels/cuda/cuda_images.h"
#include "kernels/cuda/cuda_launch.h"

struct card_facts {
	char name[96];
	uint32_t major, minor;	/* compute capability */
	uint32_t driver;	/* the CUDA version of the driver: 1000 · major + 10 · minor */
	uint32_t processors;
	uint32_t shared;	/* bytes that a block of threads may ask for */
	uint64_t memory, free;	/* bytes; free: when it was opened, 0: not known */
};

struct card {
	struct gpu_driver driver;
	int device;
	gpu_context context;
	gpu_stream stream;
	gpu_module module;
	const struct cuda_image *image; /* the one that was loaded */
	gpu_function kernels[CUDA_KERNEL_COUNT];
	struct card_facts facts;
};

/* The facts of a card, by a driver that is open; takes no memory on it. ENODEV: no such card. */
int card_look(const struct gpu_driver *d, int ordinal, struct card_facts *facts, struct err *e);

/* Opens a card and loads the first of these images that its driver takes. All kernels are there
 * afterwards. ENOTSUP: none is taken; the sentence says why not the last one. */
int card_open(struct card *c, int ordinal, const struct cuda_image *images, struct err *e);
/* Waits for nothing: work that was begun is lost. Gives back the context, and with it all memory. */
void card_close(struct card *c);

/* Memory on the card, 256-byte aligned. ENOMEM where it does not suffice. */
int card_take(struct card *c, size_t bytes, gpu_address *address, struct err *e);
void card_give(struct card *c, gpu_address address);

/* Begin to copy; the memory of the program must stay until card_wait. */
int card_copy_in(struct card *c, gpu_address to, const void *from, size_t bytes, struct err *e);
int card_copy_out(struct card *c, void *to, gpu_address from, size_t bytes, struct err *e);
/* Begins to fill with zeros. */
int card_clear(struct card *c, gpu_address to, size_t bytes, struct err *e);
/* Begins a kernel; operands are copied. */
int card_launch(struct card *c, enum cuda_kernel k, const struct cuda_grid *g, const void *operands,
		struct err *e);
/* Waits until all that was begun is done. A failure may be that of any of it. */
int card_wait(struct card *c, struct err *e);

#endif

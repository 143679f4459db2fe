/* One GPU: its memory, the loaded kernels, and a stream of work. A card is used by one thread. All
 * work goes through one stream, so it is done in the order in which it was started. */
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

/* Reads a GPU's properties with an open driver; takes no GPU memory. ENODEV: no such GPU. */
int card_look(const struct gpu_driver *d, int ordinal, struct card_facts *facts, struct err *e);

/* Opens a GPU and loads the first of these images that its driver accepts; then c->kernels is
 * complete. ENOTSUP: no image is accepted; the sentence says why the last one is not. */
int card_open(struct card *c, int ordinal, const struct cuda_image *images, struct err *e);
/* Releases the context, and with it all GPU memory, without waiting for work that was started. */
void card_close(struct card *c);

/* Allocates GPU memory, 256-byte aligned. ENOMEM: there is not enough. */
int card_take(struct card *c, size_t bytes, gpu_address *address, struct err *e);
void card_give(struct card *c, gpu_address address);

/* Start a copy; the buffer in main memory must stay valid until card_wait. */
int card_copy_in(struct card *c, gpu_address to, const void *from, size_t bytes, struct err *e);
int card_copy_out(struct card *c, void *to, gpu_address from, size_t bytes, struct err *e);
/* Starts filling with zeros. */
int card_clear(struct card *c, gpu_address to, size_t bytes, struct err *e);
/* Starts a kernel; operands are copied. It may begin before the one ahead of it in the stream ends:
 * kernels wait for that one themselves (cuda_wait_for_ahead). */
int card_launch(struct card *c, enum cuda_kernel k, const struct cuda_grid *g, const void *operands,
		struct err *e);
/* Launches from card_record on until card_recorded are not done but noted, as a sequence that is
 * started as one and takes less time. Nothing but launches in between. The sequence may be started any
 * number of times until it is freed; NULL is fine. */
int card_record(struct card *c, struct err *e);
int card_recorded(struct card *c, gpu_sequence *sequence, struct err *e);
int card_play(struct card *c, gpu_sequence sequence, struct err *e);
void card_forget(struct card *c, gpu_sequence sequence);
/* Waits until all work is done. An error may belong to any of the work since the last wait. */
int card_wait(struct card *c, struct err *e);

#endif

/* Whoever runs the kernels of cards for a test: threads of the system, or a card. */
#ifndef MOEFS_TESTS_CUDA_RUNNER_H
#define MOEFS_TESTS_CUDA_RUNNER_H

#include "kernels/cuda/cuda_tables.h"

#include <stdbool.h>

struct runner {
	void *ctx;
	struct cuda_room room;
	/* Memory with a copy of these bytes, or zeros where data is NULL; NULL: there is none. It
	 * lasts until `forget`. */
	void *(*put)(void *ctx, const void *data, size_t bytes);
	bool (*get)(void *ctx, void *to, const void *from, size_t bytes);
	/* Runs a kernel and waits for its end. */
	bool (*launch)(void *ctx, enum cuda_kernel k, const struct cuda_grid *g,
		       const void *operands, size_t bytes);
	void (*forget)(void *ctx);
};

/* Kernels as C, by the threads of crew.h. */
struct runner threads_runner(void);

/* One kernel, or several that belong together, against the scalar table. False: some result differs,
 * and is told on standard output, or could not be had. */
struct kernel_case {
	const char *name;
	bool (*run)(const struct runner *r);
};
extern const struct kernel_case kernel_cases[];
extern const size_t kernel_case_count;
/* Runs all cases and prints a line for each. False: some case failed. */
bool kernel_cases_agree(const struct runner *r);

#endif

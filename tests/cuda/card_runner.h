/* Runs the kernels on a card (runner.h), and measures it. */
#ifndef MOEFS_TESTS_CUDA_CARD_RUNNER_H
#define MOEFS_TESTS_CUDA_CARD_RUNNER_H

#include "engine/gpu/card.h"
#include "tests/cuda/runner.h"

enum { CARD_PIECES = 64 };

struct card_runner {
	struct card card;
	const struct cuda_image *images;
	gpu_address pieces[CARD_PIECES];
	size_t count;
	bool lacking; /* a piece was not to be had: nothing is launched until all are forgotten */
};

/* Of a card that is open. What fails is told on standard output; a card that is of no more use after
 * a failure is opened again. */
struct runner card_runner(struct card_runner *x);

/* Prints what memory, launches and products of one token take. */
void card_measure(struct card *c);
/* Prints what the layers of one token take. */
void card_measure_layers(struct card *c);
/* Prints what delta nets take, without their products. */
void card_measure_delta(struct card *c);

#endif

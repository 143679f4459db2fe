/* moefs-bench run --answers: steps that each answer several contexts, beside the limits of memory
 * and of computing. run_answers.c measures whole steps, run_cached.c products in the cache. */
#ifndef MOEFS_TESTS_BENCH_RUN_ANSWERS_H
#define MOEFS_TESTS_BENCH_RUN_ANSWERS_H

#include "tests/bench/run.h"

enum { ANSWERS_MOST = 64, CACHED_KINDS = 24 };

/* The model is loaded, every expert is in memory, and r->answers lists how many contexts. */
int run_answers(struct run *r, struct err *e);

/* ---- run_cached.c ---- */

/* Matrices of a step that are alike: multiplied alike, whatever their rows. */
struct cached_kind {
	struct matrix w;    /* a few rows of one of them, which stay in the cache */
	double dense_rows;  /* of all such matrices that every step passes through */
	double expert_rows; /* of one expert's such matrices, the mean over layers */
	double rows_per_second[ANSWERS_MOST + 1]; /* of all threads, by tokens; 0: unknown */
};

struct cached {
	struct cached_kind kind[CACHED_KINDS];
	uint32_t count, threads;
	const struct kernels *kernels;
	/* Inputs of the widest matrix, in every form, and outputs for each thread. */
	uint32_t widest;
	float *f, *scale, *block_scale, *y;
	int8_t *q, *block_q;
	int16_t *block_sum;
	struct pager_batch batch; /* holds `expert`, the first one of the first routed layer */
	struct pager_ready expert;
};

int cached_open(struct cached *c, const struct run *r, struct err *e);
void cached_close(struct cached *c);
/* Forgets the measured speeds. */
void cached_forget(struct cached *c);
/* Seconds that the products of a step take all threads if nothing but computing limits them:
 * `tokens` through the dense matrices, and experts[n] experts with n tokens each. */
int cached_seconds(struct cached *c, uint32_t tokens, const double experts[ANSWERS_MOST + 1],
		   double seconds, double *out, struct err *e);

#endif

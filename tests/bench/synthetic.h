/* Synthetic weights: random, of a model's true geometry, written straight into a store, or as a
 * checkpoint that is still to be converted.
 *
 * TQ indices are drawn with the frequencies that the codebook's levels have in a Gaussian, floats
 * are Gaussian; nothing is quantised, and only about a megabyte per thread is in memory. Weights
 * depend only on the seed and their place, not on the number of threads.
 *
 * Activations stay sane: projections have σ = 1/√inputs, so that they keep the variance of their
 * input; what is added to the residual stream has σ smaller by √(2 · layers), as GPT-2 begins
 * (Radford et al. 2019); embeddings have σ = 1; norm weights are 1 (published as 0 where they are
 * zero-centred) and biases 0.
 *
 * So do the states of delta nets: A_log is 0 and dt_bias such that softplus of it rises from 0.01
 * in the first value head to 0.1 in the last, at even ratios, so that heads let their states fade
 * by factors between 0.99 and 0.9 for each token, as trained ones begin; the projection that moves
 * this has a deviation of 1, and moves it by a factor of about e. Keys have length 1 and half of
 * what they find is corrected (b is 0 in the mean), which bounds a state by its values; a
 * convolution's taps have σ = 1/√width, and its output the variance of its input.
 *
 * skew X > 0 makes experts popular: each layer ranks its experts at random, and the one of rank r
 * gets -X · ln(r + 1) added to its router logit for every token, against the logits' own deviation
 * of about 0.7. (What all tokens share, and the router's rows pick up, is one direction of random
 * signs that is added to every embedding.) At 0 routing is almost uniform.
 */
#ifndef MOEFS_TESTS_BENCH_SYNTHETIC_H
#define MOEFS_TESTS_BENCH_SYNTHETIC_H

#include "cache/err.h"
#include "engine/family/config.h"
#include "engine/family/plan.h"
#include "engine/compute/threads.h"

struct synthetic {
	const struct config *config;
	const struct plan *plan;
	uint64_t seed;
	double skew;
	struct threads *threads;
};

/* Writes the store into `folder`, whose parents exist; continues with one that was interrupted.
 * fingerprint is that of the directory that the store belongs to. */
int synthetic_write(const struct synthetic *s, const char *folder, const uint64_t fingerprint[2],
		    struct err *e);

/* Writes a checkpoint in BF16 into a directory that has its config.json: shards of a few GB of
 * safetensors and their index. Not the same numbers as in a store by the same seed. */
int synthetic_write_raw(const struct synthetic *s, const char *directory, struct err *e);

/* Between synthetic.c, synthetic_raw.c and synthetic_gguf.c: the deviation of a matrix, and the
 * numbers of rows [row0, row0 + rows) of a tensor in a float format, drawn from a sequence of its
 * own. */
struct synthetic_tables;
float synthetic_sigma(const struct synthetic *s, enum tensor_role role, const struct shape *shape);
struct synthetic_tables *synthetic_tables_new(void); /* freed by free(); NULL: out of memory */
void synthetic_draw(const struct synthetic *s, const struct synthetic_tables *t, uint64_t sequence,
		    struct tensor_id id, const struct shape *shape, uint32_t row0, uint32_t rows,
		    uint8_t *to);

#endif

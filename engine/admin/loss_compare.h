/* What a store's predictions lose against those of the checkpoint that it was made from: the
 * Kullback-Leibler divergence of the distributions after each token of a text.
 *
 * The checkpoint is read in place, in its own 16 or 32 bits, and computed exactly; the store as it
 * runs. The rows of all windows go through a layer of the one, then of the other. So in memory are
 * a layer of each and the heads, no expert is read twice, and logits are those of HEAD_ROWS rows at
 * a time. Nothing of a loaded model is used but its threads.
 */
#ifndef MOEFS_ENGINE_ADMIN_LOSS_COMPARE_H
#define MOEFS_ENGINE_ADMIN_LOSS_COMPARE_H

#include "cache/err.h"
#include "engine/compute/threads.h"
#include "engine/convert/convert.h"
#include "engine/model/store_loss.h"

enum { LOSS_TOKENS = 2048, LOSS_WINDOWS = 64 };

/* Windows of a text, each of which is read with an empty context: window i is ids[begin[i]] to
 * before ids[begin[i + 1]], two tokens at least. */
struct loss_text {
	uint32_t ids[LOSS_TOKENS];
	uint32_t begin[LOSS_WINDOWS + 1];
	uint32_t windows; /* at least one */
};

struct loss_of {
	const struct config *config;
	const struct backend *backend;
	const struct kernels *kernels;
	struct threads *threads;
	const char *directory; /* the checkpoint's */
	uint64_t number[2];    /* as source_number has it */
	const char *folder;    /* the store's */
	const _Atomic bool *stop;	   /* ends the comparison between two layers */
	struct convert_progress *progress; /* counts layers; total is 0 at the end */
};

/* Blocks for as long as reading the checkpoint and computing the text twice take. -ECANCELED:
 * *stop; -ENOTSUP: the checkpoint's experts lie so that they cannot be read in place; other codes
 * as those of opening either. */
int loss_compare(const struct loss_of *of, const struct loss_text *text, struct store_loss *out,
		 struct err *e);

/* Logits [n] to logarithms of probabilities [n], in place if both are the same; returns the likeliest. */
uint32_t loss_normalise(float *to, const float *logits, uint32_t n);

#endif

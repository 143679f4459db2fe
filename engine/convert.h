/* Converting a checkpoint into a store: what a model's first mount does.
 *
 * Tensors stream through: each thread takes the next unit (an expert, or a chunk of rows of a dense
 * tensor), reads its source, quantises and writes it; no more than a few MiB per thread are in
 * memory, or two records where they are coded. An interrupted conversion goes on where it stopped.
 */
#ifndef MOEFS_ENGINE_CONVERT_H
#define MOEFS_ENGINE_CONVERT_H

#include "cache/err.h"
#include "engine/config.h"
#include "engine/plan.h"
#include "kernels/kernels.h"

#include <stdatomic.h>

struct convert_progress {
	_Atomic uint64_t done, total; /* bytes of the source; total 0 while none runs */
	_Atomic uint64_t started_ns;  /* CLOCK_MONOTONIC */
};

enum { CODEC_WORDS = 96 };

struct conversion {
	const char *directory; /* the checkpoint */
	const char *folder;    /* the store's */
	const struct config *config;
	struct recipe recipe; /* kept, norms and codec are found out */
	uint64_t fingerprint[2];
	uint32_t threads;
	const struct kernels *kernels; /* for quantising */
	const _Atomic bool *stop;      /* ends it with -ECANCELED; can be resumed */
	struct convert_progress *progress;
	char codec_words[CODEC_WORDS]; /* the result: what was measured to choose the codec */
};

/* 0: the store is complete. -EBUSY: another process is converting it. */
int convert_run(struct conversion *v, struct err *e);

#endif

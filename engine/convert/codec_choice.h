/* Whether a new store's experts are coded: as asked, or by measuring what it would gain here. */
#ifndef MOEFS_ENGINE_CONVERT_CODEC_CHOICE_H
#define MOEFS_ENGINE_CONVERT_CODEC_CHOICE_H

#include "cache/err.h"
#include "engine/convert/convert.h"
#include "engine/family/sources.h"

#include <stdbool.h>
#include <stdint.h>

/* What `auto` decides by. Speeds are in bytes of decoded records per second, but for the device's.
 */
struct codec_figures {
	double share;	 /* of a record's bytes that are stored */
	double device;	 /* bytes that it reads per second; 0: unknown */
	double one, all; /* decoding by one thread, and by `threads` together */
	uint32_t threads;
	uint32_t missing; /* records that a layer waits for at once */
};
bool codec_pays(const struct codec_figures *f);

struct codec_choice {
	enum recipe_codec codec; /* CODEC_NONE or CODEC_ZSTD */
	uint64_t
		expected_bytes; /* of a stored record; 0: the space was checked when it was begun */
	char words[CODEC_WORDS]; /* what was measured; empty if nothing was */
};

/* The choice for a conversion by this plan, whose recipe has what was asked for. A conversion that
 * was begun in the same folder keeps its codec, if auto was asked for, and is measured no more. The
 * store's device is measured on the checkpoint's files if they lie on it; else it is unknown, and
 * auto is none. Blocks (reads a few experts and computes for a tenth of a second); fails if they
 * cannot be read.
 */
int codec_choose(struct codec_choice *out, const struct conversion *v,
		 const struct sources *sources, const struct plan *p, struct err *e);

#endif

/* The formats that a package's tensors are in, for the recipe that keeps them: what is quantised
 * already is stored and computed with as it is.
 *
 * One entry for each role in each layer. Where the kernels' products do not know a format, the
 * recipe's own takes its place; so, as F32, where the experts of a layer disagree.
 */
#ifndef MOEFS_ENGINE_FAMILY_PUBLISHED_H
#define MOEFS_ENGINE_FAMILY_PUBLISHED_H

#include "engine/family/sources.h"

struct published {	 /* zero-initialise */
	uint32_t layers; /* a draft's among them */
	struct published_format {
		enum format format; /* FORMAT_COUNT: none that is kept */
		enum norm_type norms;
		uint32_t group;
	} * of; /* [layers][TENSOR_ROLES]; of what occurs once, in the layer that its id has */
};

/* Forgets what was found before. What is missing is not looked for: sources_check says so. */
int published_find(struct published *p, const struct sources *s, struct err *e);
void published_free(struct published *p);

/* For a plan: the formats of those that have one that is kept. */
struct plan_formats published_formats(const struct published *p);

/* Whether a package has quantised tensors that are kept, and what most of the quantised ones are
 * in, as sentences have it; NULL: none is. */
bool published_any(const struct package *p);
const char *published_encoding(const struct package *p);

#endif

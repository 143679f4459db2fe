/* A checkpoint's tensors against a plan: everything that the plan wants is there and has the right
 * shape, and nothing is there that it does not want (promise 1). */
#ifndef MOEFS_ENGINE_FAMILY_SOURCES_H
#define MOEFS_ENGINE_FAMILY_SOURCES_H

#include "cache/err.h"
#include "engine/source/checkpoint.h"
#include "engine/family/plan.h"

struct sources {
	struct checkpoint *checkpoint;
	const struct config *config;
	bool *used; /* [checkpoint_count] */
};

/* Opens the checkpoint and checks it: an unknown, missing or misshapen tensor is an error that
 * names it. The config outlives the sources. */
int sources_open(struct sources *s, const char *directory, const struct config *c,
		 const struct plan *p, struct err *e);
void sources_close(struct sources *s);

/* The tensor with that id (a tied head's is the embedding's), name[size] its name; NULL with words.
 */
const struct checkpoint_tensor *sources_find(const struct sources *s, struct tensor_id id,
					     char *name, size_t size, struct err *e);
/* The type of what is not quantised: that of all matrices if they agree, else F32, which holds any.
 */
enum format sources_kept_format(const struct sources *s);

#endif

/* A checkpoint's tensors against a plan: everything that the plan wants is there and has the right
 * shape, and nothing is there that it does not want (promise 1). */
#ifndef MOEFS_ENGINE_FAMILY_SOURCES_H
#define MOEFS_ENGINE_FAMILY_SOURCES_H

#include "cache/err.h"
#include "engine/source/checkpoint.h"
#include "engine/family/plan.h"
#include "engine/source/witness.h"

struct sources {
	struct checkpoint *checkpoint;
	const struct config *config;
	bool *used;		 /* [checkpoint_count] */
	struct witness *witness; /* the opener's: hears what is read for a store */
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

/* Bytes [offset, offset + bytes) of a tensor were read and have this XXH3-64; see witness_note.
 * With no bytes only whether the file is what it was. */
int sources_note(const struct sources *s, const struct checkpoint_tensor *t, uint64_t offset,
		 uint64_t bytes, uint64_t hash, struct err *e);

#endif

/* GGUF files that are split into parts: NAME-00001-of-00003.gguf and so on. The first has all the
 * keys; each has tensors, and says which part of how many it is. */
#ifndef MOEFS_ENGINE_SOURCE_GGUF_SPLIT_H
#define MOEFS_ENGINE_SOURCE_GGUF_SPLIT_H

#include "cache/err.h"
#include "engine/source/gguf.h"

enum { GGUF_MAX_PARTS = 4096 };

struct gguf_split {
	const char *name;     /* of the file that was given, without its folder; the path's */
	size_t stem;	      /* how much of it the parts have in common, at the beginning */
	uint32_t part, count; /* counted from 0; a file that is not split is the only part */
};

/* By the name of the file alone, which is at the end of the path. */
struct gguf_split gguf_split_of(const char *path);
/* The name of a part. */
int gguf_part_name(const struct gguf_split *s, uint32_t part, char *name, size_t size,
		   struct err *e);
/* Whether a part's keys say what its name says. */
int gguf_check_part(const struct gguf *g, const struct gguf_split *s, uint32_t part,
		    const char *path, struct err *e);

#endif

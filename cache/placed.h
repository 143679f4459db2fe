/* What is behind a store in place (store_place.h), for the files that make it and read it. */
#ifndef MOEFS_CACHE_PLACED_H
#define MOEFS_CACHE_PLACED_H

#include "cache/store_place.h"

#include <stdatomic.h>
#include <sys/stat.h>

struct placed_file {
	int direct; /* or -1 */
	uint32_t align;
	struct stat was;
};

struct placed {
	struct store_place of;
	struct placed_file *file; /* [of.file_count] */
	/* [units]; 0: nobody has read it yet. Each is set once. */
	_Atomic uint64_t *sums;
	_Atomic uint64_t fresh; /* how many were set since they were last kept */
};

#endif

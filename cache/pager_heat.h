/* How hot each expert was, saved in a file beside the store for the next mount's warm start.
 *
 * The file is a hint: it is not synced, and a damaged or foreign one is ignored. It has a head and
 * one float per expert, in the machine's byte order:
 *
 *      0  "MOEHEAT1"
 *      8  the policy's name, 16 bytes, zero-padded
 *     24  u32 layers, u32 experts
 *     32  u64 XXH3-64 of the floats
 *     40  the floats
 */
#ifndef MOEFS_CACHE_PAGER_HEAT_H
#define MOEFS_CACHE_PAGER_HEAT_H

#include "cache/err.h"

#include <stddef.h>
#include <stdint.h>

enum { HEAT_HEAD = 40 };
/* Above any policy's counts: a count that fades by 7e-7 per use stays below 1.5e6. */
#define HEAT_MOST 1e7F

struct heat_identity {
	const char *policy;
	uint32_t layers, experts;
};

/* Fills heat[layers * experts], each from 0 to HEAT_MOST, from the bytes of a file. `folder` is
 * used in error messages. -ENOENT: the file belongs to another model or policy; -EIO: damaged.
 * Bytes after the floats are ignored.
 */
int heat_decode(float *heat, const struct heat_identity *of, const uint8_t *in, size_t bytes,
		const char *folder, struct err *e);
/* heat_decode for the file in a store's folder; also returns the codes of opening a file. */
int heat_read(float *heat, const struct heat_identity *of, const char *folder, struct err *e);
/* Replaces the file. After a failure the old file is still there. */
int heat_write(const float *heat, const struct heat_identity *of, const char *folder,
	       struct err *e);

#endif

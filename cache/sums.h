/* The checksums of what was read of a source that is used in place (store_place.h): a small file
 * beside where its store would be, so that what a later mount reads is known to be what an earlier
 * one did.
 *
 * The file, in the machine's byte order:
 *   0   "MOESUMS2"
 *   8   2 x u64: the source's number; 2 x u64: the digest of the plan
 *   40  u32: units, u32: 0
 *   48  u64 of each unit: its XXH3, 0 if it was not read yet
 *   …   u64: XXH3 of all before
 *
 * A file of another source or plan, or one that is damaged, says nothing: what is read is then
 * remembered anew.
 */
#ifndef MOEFS_CACHE_SUMS_H
#define MOEFS_CACHE_SUMS_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SUMS_HEAD = 48 };

struct sums_of {
	uint64_t source[2], plan[2];
	uint32_t units;
};

#define SUMS_FILE "sums"

/* The head of such a file, whatever it is of; false: it is none. */
bool sums_decode_head(struct sums_of *out, const uint8_t in[SUMS_HEAD]);
/* Fills sums[units] from the bytes of a file; `folder` is for the words. -ENOENT: it is of another
 * source or plan; -EIO: it is damaged. */
int sums_decode(uint64_t *sums, const struct sums_of *of, const uint8_t *in, size_t bytes,
		const char *folder, struct err *e);
/* The same from the folder; also the codes of opening a file there (store_files.h). */
int sums_read(uint64_t *sums, const struct sums_of *of, const char *folder, struct err *e);
/* Replaces the file. After a failure the old one is still there. */
int sums_write(const uint64_t *sums, const struct sums_of *of, const char *folder, struct err *e);

#endif

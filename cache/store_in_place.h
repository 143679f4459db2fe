/* A checkpoint that is used in place of a store: its records are read from its own files, where
 * each lies in pieces, and nothing is copied.
 *
 * It is a `struct store` like one with files of its own, with these differences. A record has
 * several extents (store_expert_extents). Dense units are made by a callback. Checksums exist only
 * for what was read: the first reader of a unit remembers its checksum, once the files are seen to
 * have the sizes and times with which they were opened, so that the checksum is of what the
 * checkpoint had when it was mounted. Each later reader finds the same checksum or fails. The
 * checksums are saved in a small file for the next mount.
 *
 * The folder of such a store has that file and the experts' heat, and need not exist.
 */
#ifndef MOEFS_CACHE_STORE_IN_PLACE_H
#define MOEFS_CACHE_STORE_IN_PLACE_H

#include "cache/err.h"
#include "cache/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct in_place_file {
	const char *path;
	int fd; /* open for plain reads */
		/* As it must be when the store is opened, and stay. */
};

struct in_place_piece {
	uint32_t file;
	uint64_t offset, bytes;
};

/* All that is pointed to outlives the store, which ends it by `close`. */
struct in_place_source {
	const char *name;	    /* of the source, for the words of errors */
	struct store_key key;	    /* the fingerprint: a number that is another after any change */
	struct store_layout layout; /* plain */
	const struct in_place_file *files;
	uint32_t file_count;
	/* Of all records: record i is pieces [first[i], first[i + 1]), one after the other. */
	const struct in_place_piece *pieces;
	const uint32_t *first;
	/* Reads dense unit `unit` into buffer[bytes], which is its size. From any thread. known:
	 * its sum is, so that no more has to be looked for in it. */
	int (*read_dense)(void *ctx, uint32_t unit, bool known, void *buffer, size_t bytes,
			  struct err *e);
	/* Looks at a record that nobody has read before, for damage that no checksum shows; 0, or
	 * an error with a sentence. From any thread. NULL: any bytes will do. */
	int (*check)(void *ctx, uint32_t record, const struct store_pieces *stored, struct err *e);
	void (*close)(void *ctx);
	void *ctx;
};

/* -EINVAL, in words: the pieces are not in the files, or are not what the layout says. After a
 * failure nothing is closed. */
int store_in_place_open(struct store **out, const struct in_place_source *place, struct err *e);
bool store_is_in_place(const struct store *s);
/* -ESTALE, in words, if a file is no longer as it was when the store was opened. */
int store_in_place_unchanged(const struct store *s, struct err *e);

/* Sets the store's folder, which was "the source" until now, and loads the checksums saved there,
 * if they are of this source and plan. To be called before several threads use the store. Fails
 * only without memory. */
int store_in_place_use_folder(struct store *s, const char *folder, struct err *e);
/* Saves the checksums there, if there are new ones. */
int store_in_place_save_sums(const struct store *s, struct err *e);

/* ---- the file of checksums ---- */

/* The checksums of what was read of a source in place: a small file beside where its store would
 * be, so that what a later mount reads is known to be what an earlier one read.
 *
 * The file, in the machine's byte order:
 *   0   "MOESUMS2"
 *   8   2 x u64: the source's number; 2 x u64: the digest of the plan
 *   40  u32: units, u32: 0
 *   48  u64 of each unit: its XXH3, 0 if it was not read yet
 *   …   u64: XXH3 of all before
 *
 * A file of another source or plan, or a damaged one, is ignored: what is read is then remembered
 * again.
 */
enum { SUMS_HEAD = 48 };

struct store_sums_identity {
	uint64_t source[2], plan[2];
	uint32_t units;
};

#define SUMS_FILE "sums"

/* Reads the head of such a file, of any source; false: it is not one. */
bool store_sums_decode_head(struct store_sums_identity *out, const uint8_t in[SUMS_HEAD]);
/* Fills sums[units] from the bytes of a file; `folder` is for the words. -ENOENT: it is of another
 * source or plan; -EIO: it is damaged. */
int store_sums_decode(uint64_t *sums, const struct store_sums_identity *of, const uint8_t *in,
		      size_t bytes, const char *folder, struct err *e);
/* The same from the folder; also the codes of opening a file there (store_files.h). */
int store_sums_read(uint64_t *sums, const struct store_sums_identity *of, const char *folder,
		    struct err *e);
/* Replaces the file. After a failure the old one is still there. */
int store_sums_write(const uint64_t *sums, const struct store_sums_identity *of, const char *folder,
		     struct err *e);

#endif

/* A checkpoint used in place of a store: its records are read from the checkpoint's own files, in
 * pieces, and nothing is copied.
 *
 * It is a `struct store` like any other, with these differences. A record has several extents
 * (store_expert_extents). A callback makes the dense units. Nobody wrote checksums: the first
 * reader of a unit remembers its checksum, after checking that the files still have the sizes and
 * times that they had when they were opened. So the checksum is of the data at the time of the
 * mount. Each later reader must find the same checksum, or fails. The checksums are saved in a
 * small file for the next mount.
 *
 * The folder of such a store holds that file and the experts' heat. It need not exist.
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
	int fd; /* open for plain reads; the file must not change */
};

struct in_place_piece {
	uint32_t file;
	uint64_t offset, bytes;
};

/* The source. Everything pointed to must outlive the store, which calls `close` at its end. */
struct in_place_source {
	const char *name;	    /* of the source, for error messages */
	struct store_key key;	    /* the fingerprint differs after any change of a file */
	struct store_layout layout; /* plain */
	const struct in_place_file *files;
	uint32_t file_count;
	/* Pieces of all records: record i is pieces [first[i], first[i + 1]), in order. */
	const struct in_place_piece *pieces;
	const uint32_t *first;
	/* Reads dense unit `unit` into buffer[bytes]; bytes is its size. From any thread. known:
	 * the unit's checksum is known, so the callback need not look for damage. */
	int (*read_dense)(void *ctx, uint32_t unit, bool known, void *buffer, size_t bytes,
			  struct err *e);
	/* Checks a record that was never read before for damage that no checksum can show. Returns
	 * 0, or an error with a sentence. From any thread. NULL: any bytes are accepted. */
	int (*check)(void *ctx, uint32_t record, const struct store_pieces *stored, struct err *e);
	void (*close)(void *ctx);
	void *ctx;
};

/* -EINVAL: the pieces are not within the files, or do not fit the layout. After a failure `close`
 * is not called. */
int store_in_place_open(struct store **out, const struct in_place_source *place, struct err *e);
bool store_is_in_place(const struct store *s);
/* -ESTALE: a file has changed since the store was opened. */
int store_in_place_unchanged(const struct store *s, struct err *e);

/* Sets the store's folder (before that its name is the source's) and loads the checksums saved
 * there, if they belong to this source and plan. Call this before several threads use the store.
 * Fails only without memory. */
int store_in_place_use_folder(struct store *s, const char *folder, struct err *e);
/* Saves the checksums in the folder, if there are new ones. */
int store_in_place_save_sums(const struct store *s, struct err *e);

/* ---- the file of checksums ---- */

/* The file of checksums lies in the folder where the source's store would be. With it a mount knows
 * that it reads the same data as an earlier mount.
 *
 * The file, in the machine's byte order:
 *   0   "MOESUMS2"
 *   8   2 x u64: the source's number; 2 x u64: the digest of the plan
 *   40  u32: units, u32: 0
 *   48  u64 of each unit: its XXH3, 0 if it was not read yet
 *   …   u64: XXH3 of all before
 *
 * A file that belongs to another source or plan, or is damaged, is ignored; then the checksums are
 * collected anew.
 */
enum { SUMS_HEAD = 48 };

struct store_sums_identity {
	uint64_t source[2], plan[2];
	uint32_t units;
};

#define SUMS_FILE "sums"

/* Decodes the header of such a file, of any source. False: it is not such a header. */
bool store_sums_decode_head(struct store_sums_identity *out, const uint8_t in[SUMS_HEAD]);
/* Fills sums[units] from the bytes of a file; `folder` is used in error messages. -ENOENT: the file
 * belongs to another source or plan; -EIO: it is damaged. */
int store_sums_decode(uint64_t *sums, const struct store_sums_identity *of, const uint8_t *in,
		      size_t bytes, const char *folder, struct err *e);
/* store_sums_decode for the file in the folder; also returns the codes of store_file_open. */
int store_sums_read(uint64_t *sums, const struct store_sums_identity *of, const char *folder,
		    struct err *e);
/* Replaces the file. After a failure the old file is still there. */
int store_sums_write(const uint64_t *sums, const struct store_sums_identity *of, const char *folder,
		     struct err *e);

#endif

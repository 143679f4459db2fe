/* A checkpoint in the place of a store: its records are computed with from its own files, where
 * each lies in pieces, and nothing is copied.
 *
 * It is a `struct store` like one with files of its own, with what follows from nobody having
 * written it for us. A record is several extents (store_expert_extents). Dense units are made by a
 * callback, as whoever describes the source reads its tensors. And there are no checksums before
 * something was read: the first to read a unit remembers its sum, once the files' sizes and times
 * are seen to be those that they were opened with, so that what was remembered is what the
 * checkpoint had when it was mounted. Whoever reads the unit again finds the same or fails. Sums
 * are kept in a small file for the next mount (sums.h).
 *
 * The folder of such a store has that file and the experts' heat, and need not exist.
 */
#ifndef MOEFS_CACHE_STORE_PLACE_H
#define MOEFS_CACHE_STORE_PLACE_H

#include "cache/store.h"

struct store_place_file {
	const char *path;
	int fd; /* open for plain reads */
		/* As it must be when the store is opened, and stay. */
};

struct store_place_piece {
	uint32_t file;
	uint64_t offset, bytes;
};

/* All that is pointed to outlives the store, which ends it by `close`. */
struct store_place {
	const char *name;	    /* of the source, for the words of errors */
	struct store_key key;	    /* the fingerprint: a number that is another after any change */
	struct store_layout layout; /* plain */
	const struct store_place_file *files;
	uint32_t file_count;
	/* Of all records: record i is pieces [first[i], first[i + 1]), one after the other. */
	const struct store_place_piece *pieces;
	const uint32_t *first;
	/* Reads dense unit `unit` into buffer[bytes], which is its size. From any thread. known:
	 * its sum is, so that no more has to be looked for in it. */
	int (*read_dense)(void *ctx, uint32_t unit, bool known, void *buffer, size_t bytes,
			  struct err *e);
	/* Looks at a record that nobody has read before, for what no sum tells; 0, or an error in
	 * words. From any thread. NULL: any bytes will do. */
	int (*check)(void *ctx, uint32_t record, const struct store_pieces *stored, struct err *e);
	void (*close)(void *ctx);
	void *ctx;
};

/* -EINVAL, in words: the pieces are not in the files, or are not what the layout says. After a
 * failure nothing is closed. */
int store_place_open(struct store **out, const struct store_place *place, struct err *e);
bool store_in_place(const struct store *s);
/* -ESTALE, in words, if a file is no longer as it was when the store was opened. */
int store_place_unchanged(const struct store *s, struct err *e);

/* Names the folder, which was "the source" until now, and takes the sums that are kept there, if
 * they are of this source and plan. Before several threads use the store. A failure is one of
 * memory. */
int store_place_keep_in(struct store *s, const char *folder, struct err *e);
/* Keeps the sums there, if there are new ones. */
int store_place_keep(const struct store *s, struct err *e);

#endif

/* A store's record of the source that it was made from: the file `source` in the store's folder, or
 * `source.partial` during conversion (written by witness.h).
 *
 * The store's key names its source by a number. This file says what the number stands for: the
 * checksum of samples, the stamps of each file (source.h), and XXH3 hashes that cover every byte of
 * the files. Each hash covers a range: a tensor, or a MiB of a tensor, as read for converting, or
 * the bytes between tensors. A source with equal stamps is the same source. A source with other
 * stamps and equal bytes is a copy; its stamps replace the old ones. A source with other bytes is a
 * different source, and gets a store with another name.
 *
 * Records have 56 bytes, little-endian, each with its checksum. Records are only appended, so a
 * crash or a full disk loses only the last ones:
 *
 *   head      0  "MOEFSSRC", u32 version, u32 0, u64 name[2], u64 sampled[2], u64 sum
 *   others    0  u32 kind, u32 file
 *             8  FILE: u64 XXH3 of its name, u64 size, i64 mtime, i64 ctime (seconds), u32 and u32
 *                their nanoseconds; files are numbered in order, and a later record of the same
 *                file has its newer stamp
 *
 *                RANGE: u64 offset, u64 bytes, u64 XXH3-64, 0, 0
 *
 *                COMPLETE, CLOSED: u64 number of RANGE records before, 0 …
 *
 *            48  u64 XXH3-64 of the 48 bytes before, seeded with the name
 *
 * COMPLETE: the ranges cover the files, and at this time the files had the noted stamps. CLOSED: a
 * conversion ended here, and everything that it read is recorded above and flushed to disk. Without
 * CLOSED, the last records may be missing.
 *
 * A record that is torn, damaged or of another name is skipped. Every number is checked before it
 * is used, and none decides how much memory is allocated.
 */
#ifndef MOEFS_ENGINE_SOURCE_IDENTITY_H
#define MOEFS_ENGINE_SOURCE_IDENTITY_H

#include "cache/err.h"
#include "engine/source/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IDENTITY_FILE "source"
#define IDENTITY_PARTIAL "source.partial"

enum {
	IDENTITY_RECORD = 56,
	IDENTITY_MOST_FILES = 1 << 13,
	IDENTITY_MOST_RANGES = 1 << 22, /* 4 TB in ranges of 1 MiB */
};

struct identity_file {
	uint64_t name_hash;
	struct source_stamp stamp;
};
struct identity_range {
	uint32_t file;
	uint64_t offset, bytes, hash;
};
struct identity { /* zero-initialise */
	uint64_t name[2], sampled[2];
	struct identity_file *files;
	uint32_t file_count;
	struct identity_range *ranges;
	size_t range_count, file_room, range_room;
	uint64_t kept; /* RANGE records in the file, duplicates included */
	bool complete, closed;
	uint64_t end; /* offset in the file after the last record before COMPLETE and CLOSED */
	bool partial; /* read from IDENTITY_PARTIAL */
};
void identity_free(struct identity *id);

/* ---- identity.c: records and comparisons ---- */

void identity_encode_head(uint8_t out[IDENTITY_RECORD], const struct identity *id);
void identity_encode_file(uint8_t out[IDENTITY_RECORD], const struct identity *id, uint32_t file);
void identity_encode_range(uint8_t out[IDENTITY_RECORD], const struct identity *id,
			   const struct identity_range *r);
enum identity_end { IDENTITY_COMPLETE, IDENTITY_CLOSED };
void identity_encode_end(uint8_t out[IDENTITY_RECORD], const struct identity *id,
			 enum identity_end end);
/* The checksum of a record after the head. */
uint64_t identity_record_sum(const uint8_t record[IDENTITY_RECORD], const struct identity *id);

/* Sets name and sampled; false: not a head record. */
bool identity_decode_head(struct identity *id, const uint8_t in[IDENTITY_RECORD]);
/* Reads a record after the head; skips an unusable one. 0 or -ENOMEM. */
int identity_decode(struct identity *id, const uint8_t in[IDENTITY_RECORD], struct err *e);

int identity_add_file(struct identity *id, const struct identity_file *f, struct err *e);
int identity_add_range(struct identity *id, const struct identity_range *r, struct err *e);
/* Sorts the ranges by place and drops duplicates. -ESTALE: the same bytes were read twice with
 * different results. */
int identity_sort(struct identity *id, struct err *e);

/* Iterates over the gaps between sorted ranges, from the beginning of the first file. */
struct identity_gaps { /* zero-initialise */
	size_t next, count;
	uint32_t file;
	uint64_t offset;
	bool begun;
};
/* False: no more gaps. Ignores ranges that are added during the iteration. */
bool identity_next_gap(const struct identity *id, struct identity_gaps *at,
		       struct identity_range *gap);

enum identity_says {
	IDENTITY_SAME,	/* all stamps are equal */
	IDENTITY_MAYBE, /* stamps differ: call identity_verify */
	IDENTITY_OTHER,
};
enum identity_says identity_compare(const struct identity *id, const struct source_state *now);

/* ---- identity.c: in a store's folder ---- */

/* Reads one of the two files in the open folder `dir`. -ENOENT: missing, or unusable. */
int identity_read(struct identity *out, int dir, const char *folder, const char *name,
		  struct err *e);
/* Reads the complete identity with this name from either of the two files. -ENOENT: neither has it.
 */
int identity_find(struct identity *out, const char *folder, const uint64_t name[2], struct err *e);
/* Writes a complete identity beside a store that has none. */
int identity_write(const struct identity *id, const char *folder, struct err *e);
/* Saves new stamps in the file that identity_find found. */
int identity_keep_stamps(const struct identity *id, const char *folder, struct err *e);

/* ---- identity_check.c: reading the source ---- */

/* Called after each MiB or less that was read. Returns false to stop with -ECANCELED. May be NULL.
 */
typedef bool identity_went_fn(void *ctx, uint64_t bytes);

/* How many bytes identity_verify and identity_of_source read. */
uint64_t identity_bytes(const struct identity *id);
/* Reads every range and compares its hash. 0: the same source; the identity gets the current
 * stamps. -ESTALE: another source, or a source that is changing. Other codes: reading failed. */
int identity_verify(struct identity *id, const struct source_state *now, identity_went_fn *went,
		    void *ctx, struct err *e);
/* Hashes whole files, one range per file, for a store that has no identity. */
int identity_of_source(struct identity *out, const struct source_state *now, identity_went_fn *went,
		       void *ctx, struct err *e);
/* Sets r->hash to the XXH3-64 of a range of the open file. */
int identity_hash(struct identity_range *r, int fd, const char *path, identity_went_fn *went,
		  void *ctx, struct err *e);

#endif

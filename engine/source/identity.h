/* What a store remembers of the source that it was made from: the file `source` in its folder, or
 * `source.partial` while it is made (witness.h writes that).
 *
 * The store's key names its source by a number. Here is what the number stands for: the sum of
 * samples, the stamps of each file that was read (source.h), and an XXH3 of every byte of them, by
 * ranges: each tensor, or MiB of a tensor, as it was read for converting, and the bytes between
 * tensors. With equal stamps it is the same source. With other stamps and the same bytes it is a
 * copy, and its stamps replace the old ones. With other bytes it is another source, and gets a
 * store with another name.
 *
 * Records of 56 bytes, little-endian, each with its checksum, are only ever appended, so that a
 * crash or a full disk costs the last of them:
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
 * COMPLETE: the ranges cover the files, and the files were then as their stamps say. CLOSED: a
 * conversion ended here, and all that it read is above, on the disk; without it the last records
 * may be missing.
 *
 * A record that is torn, damaged or of another name is passed over; every number is checked before
 * it is used, and nothing is allocated by one.
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
	IDENTITY_MOST_RANGES = 1 << 22, /* 4 TB by the MiB */
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
	uint64_t kept; /* ranges in its file, counting those that are there twice */
	bool complete, closed;
	uint64_t end; /* in its file, of the last record before COMPLETE and CLOSED */
	bool partial; /* read from IDENTITY_PARTIAL */
};
void identity_free(struct identity *id);

/* ---- identity.c: records, and what follows from them ---- */

void identity_encode_head(uint8_t out[IDENTITY_RECORD], const struct identity *id);
void identity_encode_file(uint8_t out[IDENTITY_RECORD], const struct identity *id, uint32_t file);
void identity_encode_range(uint8_t out[IDENTITY_RECORD], const struct identity *id,
			   const struct identity_range *r);
enum identity_end { IDENTITY_COMPLETE, IDENTITY_CLOSED };
void identity_encode_end(uint8_t out[IDENTITY_RECORD], const struct identity *id,
			 enum identity_end end);
/* The sum that a record after the head has. */
uint64_t identity_record_sum(const uint8_t record[IDENTITY_RECORD], const struct identity *id);

/* Sets name and sampled; false: not a head. */
bool identity_decode_head(struct identity *id, const uint8_t in[IDENTITY_RECORD]);
/* Reads a record after the head; unusable ones are skipped. 0, or -ENOMEM. */
int identity_decode(struct identity *id, const uint8_t in[IDENTITY_RECORD], struct err *e);

int identity_add_file(struct identity *id, const struct identity_file *f, struct err *e);
int identity_add_range(struct identity *id, const struct identity_range *r, struct err *e);
/* Sorts the ranges by place and drops those that are there twice. -ESTALE in words: the same bytes
 * were read twice and were different. */
int identity_sort(struct identity *id, struct err *e);

/* The gaps between sorted ranges, from the first file's beginning on. */
struct identity_gaps { /* zero-initialise */
	size_t next, count;
	uint32_t file;
	uint64_t offset;
	bool begun;
};
/* False: no more gaps. Ranges that are added in between do not count. */
bool identity_next_gap(const struct identity *id, struct identity_gaps *at,
		       struct identity_range *gap);

enum identity_says {
	IDENTITY_SAME,	/* by all stamps */
	IDENTITY_MAYBE, /* stamps differ; identity_verify knows */
	IDENTITY_OTHER,
};
enum identity_says identity_compare(const struct identity *id, const struct source_state *now);

/* ---- identity.c: in a store's folder ---- */

/* Reads one of the two files in the open folder `dir`. -ENOENT: missing, or unusable. */
int identity_read(struct identity *out, int dir, const char *folder, const char *name,
		  struct err *e);
/* Reads the complete identity with this name from either file; -ENOENT: neither has it. */
int identity_find(struct identity *out, const char *folder, const uint64_t name[2], struct err *e);
/* Writes a complete one beside a store that has none. */
int identity_write(const struct identity *id, const char *folder, struct err *e);
/* Keeps the stamps in the file that identity_find found. */
int identity_keep_stamps(const struct identity *id, const char *folder, struct err *e);

/* ---- identity_check.c: reading the source ---- */

/* Called for each MiB or less that was read; false ends the reading with -ECANCELED. May be NULL.
 */
typedef bool identity_went_fn(void *ctx, uint64_t bytes);

/* The bytes that identity_verify and identity_of_source read. */
uint64_t identity_bytes(const struct identity *id);
/* Reads every range and compares. 0: the same source; the identity gets its present stamps. -ESTALE
 * with a sentence: another source, or one that is changing. Other codes: it cannot be read. */
int identity_verify(struct identity *id, const struct source_state *now, identity_went_fn *went,
		    void *ctx, struct err *e);
/* Hashes whole files, a range each, for a store that has no identity. */
int identity_of_source(struct identity *out, const struct source_state *now, identity_went_fn *went,
		       void *ctx, struct err *e);
/* XXH3-64 of a range of the open file into r->hash. */
int identity_hash(struct identity_range *r, int fd, const char *path, identity_went_fn *went,
		  void *ctx, struct err *e);

#endif

/* The two small binary files of a store, byte by byte: the index and the journal.
 *
 * All numbers are little-endian and are encoded one by one, never as the memory of a struct.
 *
 * index     0  "MOEFSIDX"
 *           8  u32 version: 3, or 4 where the layers' records differ in size; u32 layers, u32
 *              experts, u32 dense units
 *          24  u64 fingerprint[2]
 *          40  recipe, 48 bytes, zero-padded
 *          88  u64 experts base, u64 bytes of the largest record, u64 dense base, u64 dense bytes
 *         120  u64 codec: 0 plain, 1 coded
 *         128  u64 digest[2] of the engine's plan
 *         144  version 4: u64 bytes of a record of each layer
 *              u64 bytes of each dense unit (they lie end to end, from 0)
 *              coded: u64 offset, u64 bytes of each stored record in experts.safetensors
 *              u64 XXH3-64 of each unit, the expert records first
 *              u64 XXH3-64 of all the bytes before
 *
 * journal   0  "MOEFSJNL"
 *           8  u32 version, u32 0
 *          16  u64 digest[2] of the plan: the engine's, the key, all places and the headers
 *          32  u64 fingerprint[2]
 *          48  recipe, 48 bytes, zero-padded
 *          96  u64 XXH3-64 of the bytes before
 *         104  entries of 40 bytes: u32 unit, u32 0, u64 offset and u64 bytes in the unit's file,
 *              u64 XXH3-64 of the unit's data, and the XXH3-64 of these 32 bytes. The last is
 *              seeded with the digest, so that an entry that is torn or belongs to another plan
 *              is never accepted
 *
 * Every number is checked before it is used. Only store_index_read and store_index_write open
 * files.
 */
#ifndef MOEFS_CACHE_STORE_FORMAT_H
#define MOEFS_CACHE_STORE_FORMAT_H

#include "cache/err.h"
#include "cache/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	INDEX_VERSION = 3,
	INDEX_VERSION_MIXED = 4,
	JOURNAL_VERSION = 2,
	STORE_MAX_UNITS = 1 << 24, /* bounds the index to 512 MiB; the largest models have 2^16 */
	INDEX_HEAD = 144,
	INDEX_MOST = INDEX_HEAD + 8 * (4 * STORE_MAX_UNITS + 1),
	JOURNAL_HEAD = 104,
	JOURNAL_ENTRY = 40,
};

struct store_index {
	struct store_info info;
	struct store_layer {
		uint64_t offset, bytes; /* of its first record, after record 0; of each record */
	} * layers;			/* [layers] */
	uint64_t *dense_offsets;	/* [dense_units + 1]; the last is dense_bytes */
	uint64_t *checksums;		/* [units] */
	struct store_range *stored;	/* [records] in experts.safetensors; NULL: plain */
};

/* Checks that the numbers fit each other and 63 bits; `what` begins the error's sentence. */
int store_info_check(const struct store_info *info, const char *what, struct err *e);
/* store_records and store_units: call only after store_info_check. */
static inline uint32_t store_records(const struct store_info *info)
{
	return info->layers * info->experts;
}
static inline uint32_t store_units(const struct store_info *info)
{
	return store_records(info) + info->dense_units;
}
/* The size of a decoded record. */
static inline uint64_t store_index_record_bytes(const struct store_index *index, uint32_t record)
{
	return index->layers[record / index->info.experts].bytes;
}
/* Where a record of a plain store lies in experts.safetensors. */
struct store_range store_index_plain_range(const struct store_index *index, uint32_t record);
/* Sets the sizes of the layers' records; index->layers must be allocated. bytes == NULL: all layers
 * have the largest size. -EINVAL: the sizes are not possible, or do not fit info->mixed and
 * info->record_bytes. */
int store_index_set_layers(struct store_index *index, const uint64_t *bytes, const char *what,
			   struct err *e);
/* Whether a stored record may lie in this range, in a file of any size. */
bool store_range_valid(const struct store_index *index, uint32_t record, struct store_range r);
/* The place of the next stored record after one that ends at `end`. */
static inline uint64_t store_range_next(uint64_t end)
{
	return (end + STORE_ALIGN - 1) / STORE_ALIGN * STORE_ALIGN;
}
/* Sizes of experts.safetensors (coded: up to the last record whose place is known so far) and
 * dense.safetensors. */
uint64_t store_experts_size(const struct store_index *index);
uint64_t store_dense_size(const struct store_info *info);

bool store_key_equal(const struct store_key *a, const struct store_key *b);

size_t store_index_bytes(const struct store_info *info);
void store_index_encode(uint8_t *out, const struct store_index *index);
/* Allocates zeroed arrays for the numbers in index->info. After -ENOMEM call store_index_free. */
int store_index_allocate(struct store_index *index);
/* Decodes an index and allocates its arrays; `path` is used in error messages. -ESTALE: another
 * version. */
int store_index_decode(struct store_index *out, const uint8_t *in, size_t bytes, const char *path,
		       struct err *e);
void store_index_free(struct store_index *index);
/* Reads the index in a folder. After success free `out`. */
int store_index_read(struct store_index *out, int dir, const char *folder, struct err *e);
/* Writes the index into its partial file and syncs that. Call with the lock held. */
int store_index_write(int dir, const char *folder, const struct store_index *index, struct err *e);
/* store_check for an index: whether it has this layout. */
int store_index_check(const struct store_index *index, const struct store_layout *layout,
		      const char *folder, struct err *e);

static inline bool store_digest_equal(struct store_digest a, struct store_digest b)
{
	return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}
/* The digest of everything that decides where a unit lies, what it means and what the headers
 * say. */
struct store_digest store_plan_digest(const struct store_plan *plan);

/* The largest size of a journal. A unit has more than one entry only if a resume found its data
 * damaged and the unit was written again. */
static inline uint64_t store_journal_most(const struct store_info *info)
{
	return JOURNAL_HEAD + (uint64_t)JOURNAL_ENTRY * (8 * (uint64_t)store_units(info) + 64);
}

struct store_journal_head {
	struct store_digest digest;
	struct store_key key;
};
void store_journal_encode_head(uint8_t out[JOURNAL_HEAD], const struct store_journal_head *head);
/* False: the header is torn, damaged or of another version. */
bool store_journal_decode_head(struct store_journal_head *out, const uint8_t in[JOURNAL_HEAD]);

struct store_journal_entry {
	uint32_t unit;
	struct store_range place; /* in the unit's file */
	uint64_t checksum;
};
void store_journal_encode_entry(uint8_t out[JOURNAL_ENTRY], struct store_digest digest,
				const struct store_journal_entry *entry);
/* False: the entry is torn, damaged, or made for another plan. */
bool store_journal_decode_entry(struct store_journal_entry *out, const uint8_t in[JOURNAL_ENTRY],
				struct store_digest digest);

#endif

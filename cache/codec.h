/* The codec of 16-bit records: two byte planes and zstd. Lossless, and smaller on disk.
 *
 * In trained 16-bit weights the low byte is random. The high byte holds sign and exponent, and its
 * values are distributed very unevenly: in bfloat16 these 8 bits compress to 2.7, so a record
 * shrinks to 0.67 of its size. A record is cut into blocks. Each block is split into the plane of
 * its odd bytes (the high bytes, since numbers are little-endian) and the plane of its even bytes.
 * A plane that zstd shrinks is stored as one zstd frame, any other plane unchanged. Both planes of
 * a block and the coded form of one fit into a core's second-level cache.
 *
 *      0  u64 XXH3-64 of the record
 *      8  for each block of CODEC_BLOCK bytes (the last may be shorter): u32 stored bytes of its
 *         high plane, u32 stored bytes of its low plane; if this is the plane's own size, the
 *         plane is stored unchanged
 *
 *         then the planes, end to end, each block's high plane before its low plane
 *
 * Numbers are little-endian. If a block has an odd number of bytes, the last byte belongs to the
 * low plane. The checksum at the front verifies the decoded record. The stored bytes may have a
 * checksum of their own elsewhere.
 *
 * The codec only sees bytes. The engine decides whether coding pays; the store decides where the
 * result is written.
 */
#ifndef MOEFS_CACHE_CODEC_H
#define MOEFS_CACHE_CODEC_H

#include <stddef.h>
#include <stdint.h>

enum {
	CODEC_BLOCK = 1 << 18,
	CODEC_TEMP = CODEC_BLOCK, /* bytes of memory that decoding needs in addition to the
				   * record */
};
/* The largest record that can be coded; below this bound no sum of sizes overflows. */
#define CODEC_RECORD_MOST ((uint64_t)1 << 40)

/* The smallest and the largest number of bytes that a coded record takes. */
size_t codec_least(size_t record_bytes);
size_t codec_most(size_t record_bytes);

/* Codes record[record_bytes] into out[codec_most(record_bytes)] and sets *bytes to the coded size.
 * -ENOMEM. */
int codec_encode(void *out, size_t *bytes, const void *record, size_t record_bytes);

/* Decodes `stored` into record[record_bytes], with temp[CODEC_TEMP] for planes; the three must not
 * overlap. `stored` may hold any bytes: -EIO if they are not the code of a record of this size;
 * then the contents of record[] are undefined, but nothing was written beyond it. -ENOMEM. */
int codec_decode(void *record, size_t record_bytes, const void *stored, size_t stored_bytes,
		 void *temp);

#endif

/* The codec of 16-bit records: two byte planes and zstd, smaller on disk without losing a bit.
 *
 * Trained weights in 16 bits are random in their low byte and very unevenly distributed in the high
 * one, which holds sign and exponent: bfloat16 takes 2.7 bits for those 8, so a record shrinks to
 * 0.67 of its size. A record is cut into blocks, and each block into the plane of its odd bytes
 * (high, since numbers are little-endian) and that of its even bytes; a plane that zstd shrinks is
 * one zstd frame, any other is stored as it is. Blocks are small enough that both planes and the
 * result of one stay in a core's second-level cache.
 *
 *      0  u64 XXH3-64 of the record
 *      8  for each block of CODEC_BLOCK bytes (the last may be shorter): u32 bytes of its high
 *         plane as stored, u32 bytes of its low plane; the plane's own size means stored as it is
 *
 *         then the planes, end to end, each block's high plane before its low plane
 *
 * Numbers are little-endian. Of an odd number of bytes the last belongs to the low plane. The sum
 * at the front verifies a decoded record, whether or not the stored bytes have a sum elsewhere.
 *
 * The codec only sees bytes. The engine decides whether coding pays, the store where the result is
 * written.
 */
#ifndef MOEFS_CACHE_CODEC_H
#define MOEFS_CACHE_CODEC_H

#include <stddef.h>
#include <stdint.h>

enum {
	CODEC_BLOCK = 1 << 18,
	CODEC_TEMP = CODEC_BLOCK, /* bytes of memory that decoding asks for besides the record */
};
/* The largest record that can be coded; no sum of sizes overflows below it. */
#define CODEC_RECORD_MOST ((uint64_t)1 << 40)

/* The least and the most bytes that a coded record takes. */
size_t codec_least(size_t record_bytes);
size_t codec_most(size_t record_bytes);

/* Codes record[record_bytes] into out[codec_most(record_bytes)] and sets *bytes to the coded size.
 * -ENOMEM. */
int codec_encode(void *out, size_t *bytes, const void *record, size_t record_bytes);

/* Decodes `stored` into record[record_bytes], with temp[CODEC_TEMP] for planes; the three must not
 * overlap. `stored` may hold any bytes: -EIO if it is not the code of a record of this size. Then
 * record[] holds nothing of use, and nothing beyond it was written. -ENOMEM. */
int codec_decode(void *record, size_t record_bytes, const void *stored, size_t stored_bytes,
		 void *temp);

#endif

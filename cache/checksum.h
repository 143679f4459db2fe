/* XXH3 of whole records, as fast as the processor allows. The library's plain functions are
 * compiled for every x86-64 and reach 20 GB/s where AVX-512 reaches 80. Its dispatching functions
 * choose by processor, but not every libxxhash has them: they are used where present. Both give the
 * same checksums. */
#ifndef MOEFS_CACHE_CHECKSUM_H
#define MOEFS_CACHE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

uint64_t checksum_of(const void *bytes, size_t n);			/* XXH3_64bits */
void checksum_update(XXH3_state_t *state, const void *bytes, size_t n); /* XXH3_64bits_update */

#endif

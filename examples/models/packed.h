/* Packed files, in which the repository holds the demonstration model and the fixtures: the size of the file (u64,
 * little-endian), and the file itself, in the smaller of two forms. The highest byte of the size says which:
 * - 0, for weights of 16 bits: one record of cache/codec.h;
 * - 1, for numbers of 32 bits: the first bytes of each four bytes, then the second, third and fourth bytes (the file is
 *   padded with zeros to a multiple of four), compressed by zstd. */
#ifndef MOEFS_EXAMPLES_MODELS_PACKED_H
#define MOEFS_EXAMPLES_MODELS_PACKED_H

#include <stddef.h>
#include <stdint.h>

/* Both return a buffer of *out_bytes, which the caller frees; NULL: no memory, or `data` is not a packed file, is damaged,
 * or is one of more than CODEC_RECORD_MOST bytes. */
uint8_t *packed_encode(const uint8_t *data, size_t bytes, size_t *out_bytes);
uint8_t *packed_decode(const uint8_t *data, size_t bytes, size_t *out_bytes);

#endif

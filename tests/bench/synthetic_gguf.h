/* A synthetic GGUF file of a mixture's geometry, with types mixed as published files mix them:
 * random codes under scales that give weights the deviation of synthetic.h, norms of 1, a
 * vocabulary of its own in which each byte is a token. */
#ifndef MOEFS_TESTS_BENCH_SYNTHETIC_GGUF_H
#define MOEFS_TESTS_BENCH_SYNTHETIC_GGUF_H

#include "tests/bench/synthetic.h"

#include <stdio.h>

/* The mix of that name ("q4_k_m", "q8_0", "mxfp4"), or NULL. */
struct gguf_mix;
const struct gguf_mix *gguf_mix_find(const char *name);

/* Writes the file at path; *bytes is its size. -ENOTSUP: no family but qwen3_moe can be written. */
int synthetic_write_gguf(const struct synthetic *s, const struct gguf_mix *mix, const char *path,
			 uint64_t *bytes, struct err *e);

/* Between synthetic_gguf.c and synthetic_gguf_keys.c: all keys of a file, *count of them. */
void gguf_write_keys(FILE *to, const struct config *c, uint32_t file_type, uint64_t *count);
void gguf_write_number(FILE *to, uint64_t value, size_t bytes);
void gguf_write_string(FILE *to, const char *text);

#endif

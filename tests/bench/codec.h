/* The codec of 16-bit records on this machine: its compression and its speed. */
#ifndef MOEFS_TESTS_BENCH_CODEC_H
#define MOEFS_TESTS_BENCH_CODEC_H

#include "cache/err.h"

#include <stddef.h>
#include <stdint.h>

struct codec_bench {
	size_t record_bytes, stored_bytes;
	uint8_t *record, *stored; /* one record, normally distributed bfloat16 */
	uint8_t **memory;	  /* of each thread, for what it makes */
	uint32_t threads;
};

/* For up to `threads` threads. Close it after a failure, too. */
int codec_bench_open(struct codec_bench *b, size_t record_bytes, uint32_t threads, struct err *e);
void codec_bench_close(struct codec_bench *b);

/* Bytes of records per second that `threads` threads code, or decode and verify, together. */
int codec_bench_encode(struct codec_bench *b, uint32_t threads, double seconds, double *rate,
		       struct err *e);
int codec_bench_decode(struct codec_bench *b, uint32_t threads, double seconds, double *rate,
		       struct err *e);

#endif

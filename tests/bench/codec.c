/* Coding and decoding the same record over and over, each thread into memory of its own. */
#include "tests/bench/codec.h"

#include "cache/checksum.h"
#include "cache/codec.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A record that failed to decode counts as 0. */
static double decode_piece(void *ctx, uint32_t thread)
{
	struct codec_bench *b = ctx;
	uint8_t *memory = b->memory[thread];
	volatile uint64_t sum = checksum_of(b->stored, b->stored_bytes); /* as the store does */
	(void)sum;
	int rc = codec_decode(memory, b->record_bytes, b->stored, b->stored_bytes,
			      memory + b->record_bytes);
	return rc ? 0 : (double)b->record_bytes;
}

static double encode_piece(void *ctx, uint32_t thread)
{
	struct codec_bench *b = ctx;
	size_t bytes;
	int rc = codec_encode(b->memory[thread], &bytes, b->record, b->record_bytes);
	return rc ? 0 : (double)b->record_bytes;
}

/* Rounded to the nearest bfloat16, by Box and Muller's method. */
static void fill_weights(uint8_t *record, size_t bytes)
{
	uint64_t state = 1;
	for (size_t i = 0; i + 2 <= bytes; i += 2) {
		double u = ((double)(random_u64(&state) >> 11) + .5) * 0x1p-53;
		double v = (double)(random_u64(&state) >> 11) * 0x1p-53;
		float x = (float)(.02 * sqrt(-2 * log(u)) * cos(2 * M_PI * v));
		uint32_t bits;
		memcpy(&bits, &x, sizeof bits);
		bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
		record[i] = (uint8_t)bits;
		record[i + 1] = (uint8_t)(bits >> 8);
	}
}

int codec_bench_open(struct codec_bench *b, size_t record_bytes, uint32_t threads, struct err *e)
{
	*b = (struct codec_bench){.record_bytes = record_bytes, .threads = threads};
	size_t most = codec_most(record_bytes), decoding = record_bytes + CODEC_TEMP;
	b->record = calloc(1, record_bytes);
	b->stored = malloc(most);
	b->memory = calloc(threads, sizeof *b->memory);
	bool whole = b->record && b->stored && b->memory;
	for (uint32_t i = 0; i < threads && whole; i++) {
		b->memory[i] = calloc(1, most > decoding ? most : decoding);
		whole = b->memory[i];
	}
	if (!whole)
		return err_set(e, ENOMEM, "no memory for records of %zu bytes", record_bytes);
	fill_weights(b->record, record_bytes);
	int rc = codec_encode(b->stored, &b->stored_bytes, b->record, record_bytes);
	return rc ? err_sys(e, -rc, "a record cannot be coded") : 0;
}

void codec_bench_close(struct codec_bench *b)
{
	for (uint32_t i = 0; b->memory && i < b->threads; i++)
		free(b->memory[i]);
	free((void *)b->memory);
	free(b->stored);
	free(b->record);
}

int codec_bench_encode(struct codec_bench *b, uint32_t threads, double seconds, double *rate,
		       struct err *e)
{
	return crew_rate(rate, threads, seconds, encode_piece, b, e);
}

int codec_bench_decode(struct codec_bench *b, uint32_t threads, double seconds, double *rate,
		       struct err *e)
{
	return crew_rate(rate, threads, seconds, decode_piece, b, e);
}

/* The parts of moefs-bench kernels: products, attention, gated delta net, functions on vectors,
 * and rows that are encoded or rounded. */
#ifndef MOEFS_TESTS_BENCH_KERNELS_H
#define MOEFS_TESTS_BENCH_KERNELS_H

#include "kernels/kernels.h"
#include "tests/bench/bench.h"
#include "tests/bench/ceiling.h"

enum { TABLES_MOST = 7 };

struct kernels_bench {
	struct effort effort;
	const char *tables, *formats, *parts; /* names with commas between; NULL: all */
	struct number_list tokens, columns, positions;
	uint64_t memory; /* bytes of weights, or of keys and values, to go through */
	const struct kernels *table[TABLES_MOST + 1]; /* those that are measured, then NULL */
	struct number_list threads;		      /* 1 and all */
	struct ceiling ceiling;
	struct report report;
};

int bench_multiply(struct kernels_bench *b, struct err *e);
int bench_attention(struct kernels_bench *b, struct err *e);
int bench_delta(struct kernels_bench *b, struct err *e);
int bench_vectors(struct kernels_bench *b, struct err *e);
int bench_encoding(struct kernels_bench *b, struct err *e);
int bench_rounding(struct kernels_bench *b, struct err *e);

/* Numbers of ±0.5 … 1 in every element: neither a NaN nor anything so small that it is slow. bytes
 * is a multiple of 8. */
void fill_floats(void *to, size_t bytes, enum format format);

/* Ceilings besides those of arithmetic (enum peak): bytes read from memory, and bytes read and
 * written where each is read and written back in place. */
enum { CEILING_READ = PEAK_COUNT, CEILING_UPDATE };
int measure_update(const struct kernels_bench *b, uint32_t threads, double *rate, struct err *e);

/* Rounds, each between two measurements of the ceiling, of which the larger counts: a neighbour
 * that takes the core for a moment lowers a ceiling, and nothing raises one. Rates are in the
 * ceiling's unit per second, which is `scale` times what `piece` returns. */
struct beside {
	struct summary rate, percent;
};
int measure_beside(const struct kernels_bench *b, uint32_t threads, uint32_t ceiling,
		   piece_fn *piece, void *ctx, double scale, struct beside *out, struct err *e);

#endif

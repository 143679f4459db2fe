/* Rows that are made into rotated groups, one thread, everything in the cache: as many floats as
 * the widest vectors encode at a time. */
#include "tests/bench/kernels.h"

#include <errno.h>
#include <stdlib.h>

enum { COLS = 64 * TQ_GROUP };

struct encoding {
	const struct kernels *kernels;
	enum format format;
	float row[COLS], norms[COLS / TQ_GROUP];
	uint8_t packed[COLS];
};

static double encode_row(void *ctx, uint32_t thread)
{
	struct encoding *x = ctx;
	const uint32_t bits = format_tq_bits(x->format);
	(void)thread;
	if (format_is_trellis(x->format))
		(void)x->kernels->tc_quantise_row(x->packed, x->norms, x->row, COLS, bits);
	else
		(void)x->kernels->tq_quantise_row(x->packed, x->norms, x->row, COLS, bits,
						  TQ_GAIN_LEAST_SQUARES);
	return COLS;
}

static int measure_format(struct kernels_bench *b, struct encoding *x, struct table *t,
			  struct err *e)
{
	double ns[ROUNDS_MOST];
	for (size_t r = 0; r < b->effort.rounds; r++) {
		int failed = crew_rate(&ns[r], 1, b->effort.seconds, encode_row, x, e);
		if (failed)
			return failed;
		ns[r] = 1e9 / ns[r];
	}
	struct summary s = summarise(ns, b->effort.rounds);
	table_text(t, x->kernels->name);
	table_text(t, format_name(x->format));
	table_summary(t, &s);
	return 0;
}

int bench_encoding(struct kernels_bench *b, struct err *e)
{
	static const enum format formats[] = {FORMAT_TQ2, FORMAT_TQ3, FORMAT_TQ4,
					      FORMAT_TC2, FORMAT_TC3, FORMAT_TC4};
	static const struct column columns[] = {
		{"kernels", "kernels", -1},
		{"format", "format", -1},
		{"ns", "ns a weight", 3},
	};
	struct table t;
	struct encoding *x = calloc(1, sizeof *x);
	int failed = x ? 0 : err_set(e, ENOMEM, "out of memory for a row");
	table_begin(&t, &b->report, "encoding",
		    "rows of 8192 floats to groups, one thread, in the cache", columns,
		    sizeof columns / sizeof *columns);
	if (x)
		fill_floats(x->row, sizeof x->row, FORMAT_F32);
	for (size_t k = 0; b->table[k] && !failed; k++)
		for (size_t f = 0; f < sizeof formats / sizeof *formats && !failed; f++) {
			x->kernels = b->table[k];
			x->format = formats[f];
			if (name_listed(b->formats, format_name(formats[f])))
				failed = measure_format(b, x, &t, e);
		}
	table_end(&t);
	free(x);
	return failed;
}

/* Rows that are rounded by what is known of their inputs (engine/convert/rounding.h): the time of
 * one thread, waiting for the processor not counted, for each group of each row. */
#include "engine/convert/rounding.h"
#include "tests/bench/kernels.h"
#include "tests/unit/random.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { COLS = 8 * TQ_GROUP, CAUSES = 96, INPUTS = 2048 };

struct rounded {
	float row[ROUNDING_ROWS * COLS], norms[ROUNDING_ROWS * COLS / TQ_GROUP];
	float moment[COLS * COLS], mix[CAUSES * COLS], x[COLS];
	uint8_t packed[ROUNDING_ROWS * COLS];
};

/* Weights, and inputs of which some columns are larger, and which have causes in common. */
static void round_make(struct rounded *r, const struct kernels *k)
{
	struct random random = {26};
	random_normal(&random, r->row, sizeof r->row / sizeof *r->row);
	random_normal(&random, r->mix, sizeof r->mix / sizeof *r->mix);
	for (size_t t = 0; t < INPUTS; t++) {
		float cause[CAUSES];
		random_normal(&random, r->x, COLS);
		random_normal(&random, cause, CAUSES);
		for (size_t c = 0; c < CAUSES; c++)
			k->add_scaled(r->x, cause[c] * (c % 7 ? .2F : 1), r->mix + c * COLS, COLS);
		const struct add_products p = {.a = r->x,
					       .a_row = 1,
					       .b = r->x,
					       .rows = COLS,
					       .cols = COLS,
					       .n = 1};
		k->add_products(r->moment, COLS, &p);
	}
}

static double round_thread_seconds(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* cannot fail for this clock */
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Microseconds a group. */
static double round_once(struct rounding *how, struct rounded *r, double least_seconds)
{
	double begin = round_thread_seconds(), spent = 0, groups = 0;
	do {
		(void)rounding_rows(how, r->packed, r->norms, r->row, ROUNDING_ROWS, true);
		groups += ROUNDING_ROWS * COLS / TQ_GROUP;
		spent = round_thread_seconds() - begin;
	} while (spent < least_seconds);
	return spent / groups * 1e6;
}

static int round_measure(struct kernels_bench *b, const struct kernels *k, enum format format,
			 struct rounded *r, struct table *t, struct err *e)
{
	struct rounding *how;
	double us[ROUNDS_MOST];
	int failed = rounding_create(&how, k, format, COLS, COLS, e);
	if (failed)
		return failed;
	(void)rounding_weigh(how, 0, r->moment);
	for (size_t i = 0; i < b->effort.rounds; i++)
		us[i] = round_once(how, r, b->effort.seconds);
	rounding_free(how);
	struct summary s = summarise(us, b->effort.rounds);
	table_text(t, k->name);
	table_text(t, format_name(format));
	table_summary(t, &s);
	return 0;
}

int bench_rounding(struct kernels_bench *b, struct err *e)
{
	static const enum format formats[] = {FORMAT_TQ3, FORMAT_TC2, FORMAT_TC3, FORMAT_TC4};
	static const struct column columns[] = {
		{"kernels", "kernels", -1},
		{"format", "format", -1},
		{"us", "us a group", 1},
	};
	struct table t;
	struct rounded *r = calloc(1, sizeof *r);
	int failed = r ? 0 : err_set(e, ENOMEM, "out of memory for rows and moments");
	table_begin(&t, &b->report, "rounding",
		    "16 rows of 1024 weights by moments of whole rows, one thread's own time",
		    columns, sizeof columns / sizeof *columns);
	if (r)
		round_make(r, kernels_best());
	for (size_t k = 0; b->table[k] && !failed; k++)
		for (size_t f = 0; f < sizeof formats / sizeof *formats && !failed; f++)
			if (name_listed(b->formats, format_name(formats[f])))
				failed = round_measure(b, b->table[k], formats[f], r, &t, e);
	table_end(&t);
	free(r);
	return failed;
}

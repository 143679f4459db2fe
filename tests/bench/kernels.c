/* moefs-bench kernels: every kernel of every instruction set of this machine, each between two
 * measurements of its ceiling. Kernels are called as in the engine, but without its thread pool,
 * whose overhead shows in moefs-bench run. */
#include "tests/bench/kernels.h"

#include <errno.h>
#include <string.h>

static const uint64_t keep_bits[] = {
	[FORMAT_F32] = UINT64_C(0x807fffff807fffff),
	[FORMAT_F16] = UINT64_C(0x83ff83ff83ff83ff),
	[FORMAT_BF16] = UINT64_C(0x807f807f807f807f),
};
static const uint64_t set_bits[] = {
	[FORMAT_F32] = UINT64_C(0x3f0000003f000000),
	[FORMAT_F16] = UINT64_C(0x3800380038003800),
	[FORMAT_BF16] = UINT64_C(0x3f003f003f003f00),
};

void fill_floats(void *to, size_t bytes, enum format format)
{
	uint64_t state = bytes;
	for (size_t i = 0; i < bytes; i += sizeof state) {
		uint64_t word = (random_u64(&state) & keep_bits[format]) | set_bits[format];
		memcpy((char *)to + i, &word, sizeof word);
	}
}

static int measure_ceiling(const struct kernels_bench *b, uint32_t threads, uint32_t ceiling,
			   double *rate, struct err *e)
{
	if (ceiling == CEILING_READ)
		return ceiling_read(&b->ceiling, threads, rate, e);
	if (ceiling == CEILING_UPDATE)
		return measure_update(b, threads, rate, e);
	return ceiling_peak(&b->ceiling, (enum peak)ceiling, threads, rate, e);
}

int measure_beside(const struct kernels_bench *b, uint32_t threads, uint32_t ceiling,
		   piece_fn *piece, void *ctx, double scale, struct beside *out, struct err *e)
{
	double rates[ROUNDS_MOST], percents[ROUNDS_MOST], before, after;
	int failed = measure_ceiling(b, threads, ceiling, &before, e);
	for (size_t i = 0; i < b->effort.rounds && !failed; i++) {
		failed = crew_rate(&rates[i], threads, b->effort.seconds, piece, ctx, e);
		if (!failed)
			failed = measure_ceiling(b, threads, ceiling, &after, e);
		if (failed)
			break;
		double most = before > after ? before : after;
		rates[i] *= scale;
		percents[i] = most > 0 ? 100 * rates[i] / most : 0;
		before = after;
	}
	if (failed)
		return failed;
	out->rate = summarise(rates, b->effort.rounds);
	out->percent = summarise(percents, b->effort.rounds);
	return 0;
}

static int choose_tables(struct kernels_bench *b, struct err *e)
{
	const struct kernels *const *k = kernels_available();
	size_t n = 0;
	bool fastest = b->tables && !strcmp(b->tables, "fastest");
	for (; *k && n < TABLES_MOST; k++)
		if (fastest ? !k[1] : name_listed(b->tables, (*k)->name))
			b->table[n++] = *k;
	return n ? 0
		 : err_set(e, EINVAL, "--kernels %s: this machine runs none of them", b->tables);
}

static const struct {
	const char *name;
	int (*bench)(struct kernels_bench *b, struct err *e);
} parts[] = {
	{"products", bench_multiply}, {"attention", bench_attention}, {"delta", bench_delta},
	{"vectors", bench_vectors},   {"encoding", bench_encoding}, {"rounding", bench_rounding},
};

static int measure(struct kernels_bench *b, struct err *e)
{
	int failed = choose_tables(b, e);
	if (!failed)
		failed = ceiling_open(&b->ceiling, b->memory, (uint32_t)b->effort.threads,
				      b->effort.seconds, e);
	if (failed)
		return failed;
	report_begin(&b->report, "kernels", b->effort.json);
	for (size_t i = 0; i < sizeof parts / sizeof *parts && !failed; i++)
		if (name_listed(b->parts, parts[i].name))
			failed = parts[i].bench(b, e);
	int unreported = report_end(&b->report, failed ? NULL : e);
	ceiling_close(&b->ceiling);
	return failed ? failed : unreported;
}

int kernels_command(int argc, char **argv, struct err *e)
{
	struct kernels_bench b = {
		.effort = effort_default(),
		.tokens = {3, {1, 8, 32}},
		.columns = {2, {2048, 768}},
		.positions = {3, {128, 1024, 8192}},
		.memory = 256 << 20,
	};
	b.effort.seconds = .05;
	const struct bench_option options[] = {
		{"kernels", OPTION_TEXT, &b.tables, 0, 0, "only these tables, or fastest (all)"},
		{"formats", OPTION_TEXT, &b.formats, 0, 0, "only these weight formats (all)"},
		{"parts", OPTION_TEXT, &b.parts, 0, 0,
		 "only these of products, attention, delta, vectors, encoding, rounding (all)"},
		{"tokens", OPTION_LIST, &b.tokens, 1, 4096, "tokens of a product"},
		{"columns", OPTION_LIST, &b.columns, 1, 1 << 20, "inputs of a matrix"},
		{"positions", OPTION_LIST, &b.positions, 1, 1 << 20, "of attention"},
		{"memory", OPTION_NUMBER, &b.memory, 1 << 20, UINT64_C(1) << 40,
		 "bytes that each goes through"},
		{"seconds", OPTION_SECONDS, &b.effort.seconds, 0, 0, "of each measurement"},
		EFFORT_OPTIONS(&b.effort),
	};
	const struct command_line line = {"kernels", options, sizeof options / sizeof *options,
					  NULL, 0};
	int failed = command_line_parse(&line, argc, argv, e);
	if (failed)
		return failed;
	b.threads = (struct number_list){1, {1, (uint32_t)b.effort.threads}};
	b.threads.count += b.effort.threads > 1;
	return measure(&b, e);
}

/* moefs-bench machine: the ceilings. Memory read by 1 … N threads, multiply-accumulates of int8,
 * BF16 and FP32 with operands in registers, what meeting costs threads, coding and decoding of 16-bit records, and O_DIRECT
 * reads of records as large as experts. */
#include "engine/memory/cpus.h"
#include "tests/bench/bench.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/codec.h"
#include "tests/bench/disk.h"
#include "tests/bench/meetings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct machine {
	struct effort effort;
	uint64_t memory, file;
	const char *folder;
	struct number_list records, depths;
	bool no_disk;
	struct report report;
};

static const char *const peak_names[PEAK_COUNT] = {"int8", "bf16", "fp32"};

/* ---- what machine this is ---- */

/* The rest of the first line of a file that begins with `key`, without colon and spaces. */
static void line_of(const char *path, const char *key, char *text, size_t size)
{
	char line[4096];
	FILE *f = fopen(path, "re");
	(void)snprintf(text, size, "unknown");
	while (f && fgets(line, sizeof line, f)) {
		if (strncmp(line, key, strlen(key)) != 0)
			continue;
		const char *value = line + strlen(key);
		value += strspn(value, " \t:");
		(void)snprintf(text, size, "%.*s", (int)strcspn(value, "\n"), value);
		break;
	}
	if (f)
		(void)fclose(f);
}

static void describe_cpus(struct machine *m)
{
	struct cpus c = {0};
	cpu_set_t allowed;
	if (!sched_getaffinity(0, sizeof allowed, &allowed))
		cpus_look(&c, &allowed, "");
	report_number(&m->report, "logical", "processors for this process", c.logical, 0);
	report_number(&m->report, "cores", "of so many cores", c.cores, 0);
	report_number(&m->report, "nodes", "memory nodes", c.nodes, 0);
	if (c.quota > 0)
		report_number(&m->report, "quota", "processors' time of the control group", c.quota,
			      2);
}

/* Where the pages of a buffer lie: "N0 131072", pages of each memory node (numa_maps of proc(5)).
 */
static void describe_pages(struct machine *m, const void *memory)
{
	char line[4096], start[32], text[256] = "unknown";
	FILE *f = fopen("/proc/self/numa_maps", "re");
	int length = snprintf(start, sizeof start, "%lx ", (unsigned long)(uintptr_t)memory);
	while (f && fgets(line, sizeof line, f)) {
		size_t n = 0;
		if (strncmp(line, start, (size_t)length) != 0)
			continue;
		for (char *save, *word = strtok_r(line, " \n", &save); word && n < sizeof text - 48;
		     word = strtok_r(NULL, " \n", &save))
			if (*word == 'N')
				n += (size_t)snprintf(text + n, sizeof text - n, "%s%.40s",
						      n ? ", " : "", word);
	}
	if (f)
		(void)fclose(f);
	report_text(&m->report, "pages", "pages of that memory on each node", text);
}

static void describe(struct machine *m)
{
	char text[256];
	report_begin(&m->report, "machine", m->effort.json);
	line_of("/proc/cpuinfo", "model name", text, sizeof text);
	report_text(&m->report, "cpu", "processor", text);
	describe_cpus(m);
	report_number(&m->report, "cache_mib", "last caches, MiB",
		      (double)ceiling_cache_bytes() / (1 << 20), 1);
	report_number(&m->report, "buffer_mib", "memory is read from, MiB",
		      (double)m->memory / (1 << 20), 0);
	report_number(&m->report, "memory_gib", "memory, GiB",
		      (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / (1 << 30),
		      1);
	report_text(&m->report, "read_instruction", "memory is read by",
		    ceiling_read_instruction());
	for (enum peak p = 0; p < PEAK_COUNT; p++) {
		const char *instruction = ceiling_peak_instruction(p);
		(void)snprintf(text, sizeof text, "%s_instruction", peak_names[p]);
		report_text(&m->report, text, peak_names[p], instruction ? instruction : "none");
	}
}

/* ---- memory and arithmetic ---- */

/* A row of the table: threads, GB/s and GOP/s of each kind, the rounds of all of them mixed. */
static int measure_threads(struct machine *m, const struct ceiling *c, uint32_t threads,
			   struct table *t, struct err *e)
{
	double rates[1 + PEAK_COUNT][ROUNDS_MOST];
	size_t rounds = m->effort.rounds;
	for (size_t r = 0; r < rounds; r++) {
		int failed = ceiling_read(c, threads, &rates[0][r], e);
		for (enum peak p = 0; p < PEAK_COUNT && !failed; p++)
			failed = ceiling_peak(c, p, threads, &rates[1 + p][r], e);
		if (failed)
			return failed;
		for (size_t i = 0; i <= PEAK_COUNT; i++)
			rates[i][r] *= 1e-9;
	}
	table_number(t, threads);
	for (size_t i = 0; i <= PEAK_COUNT; i++) {
		struct summary s = summarise(rates[i], rounds);
		if (s.most > 0)
			table_summary(t, &s);
		else
			table_none(t);
	}
	return 0;
}

static int measure_cores(struct machine *m, struct err *e)
{
	static const struct column columns[] = {
		{"threads", "threads", 0},	     {"read_gb_per_s", "read GB/s", 1},
		{"int8_gop_per_s", "int8 GOP/s", 0}, {"bf16_gop_per_s", "BF16 GOP/s", 0},
		{"fp32_gop_per_s", "FP32 GOP/s", 0},
	};
	struct table t;
	struct ceiling c;
	uint32_t most = (uint32_t)m->effort.threads;
	int failed = ceiling_open(&c, m->memory, most, m->effort.seconds, e);
	if (!failed)
		describe_pages(m, c.memory);
	table_begin(&t, &m->report, "arithmetic_and_memory", "memory and arithmetic", columns,
		    sizeof columns / sizeof *columns);
	/* 1, 2, 4 … and all */
	for (uint32_t n = 1; n <= most && !failed; n = n < most && 2 * n > most ? most : 2 * n)
		failed = measure_threads(m, &c, n, &t, e);
	table_end(&t);
	ceiling_close(&c);
	return failed;
}

/* ---- codec ---- */

/* An expert of Qwen3-30B-A3B in bfloat16. */
enum { CODEC_RECORD = 3 * 2048 * 768 * 2 };

static int measure_coding(struct machine *m, struct codec_bench *b, uint32_t threads,
			  struct table *t, struct err *e)
{
	double coded[ROUNDS_MOST], decoded[ROUNDS_MOST], seconds = m->effort.seconds;
	size_t rounds = m->effort.rounds;
	for (size_t r = 0; r < rounds; r++) {
		int failed = codec_bench_encode(b, threads, seconds, &coded[r], e);
		if (!failed)
			failed = codec_bench_decode(b, threads, seconds, &decoded[r], e);
		if (failed)
			return failed;
		coded[r] *= 1e-9;
		decoded[r] *= 1e-9;
	}
	struct summary coding = summarise(coded, rounds), decoding = summarise(decoded, rounds);
	table_number(t, threads);
	table_number(t, (double)b->stored_bytes / (double)b->record_bytes);
	table_summary(t, &coding);
	table_summary(t, &decoding);
	return 0;
}

static int measure_codec(struct machine *m, struct err *e)
{
	static const struct column columns[] = {
		{"threads", "threads", 0},
		{"share_stored", "share stored", 3},
		{"coded_gb_per_s", "coded GB/s", 2},
		{"decoded_gb_per_s", "decoded GB/s", 2},
	};
	struct table t;
	struct codec_bench b;
	uint32_t most = (uint32_t)m->effort.threads;
	int failed = codec_bench_open(&b, CODEC_RECORD, most, e);
	table_begin(&t, &m->report, "codec", "codec: records of bfloat16, their bytes", columns,
		    sizeof columns / sizeof *columns);
	for (uint32_t n = 1; n <= most && !failed; n = n < most && 2 * n > most ? most : 2 * n)
		failed = measure_coding(m, &b, n, &t, e);
	table_end(&t);
	codec_bench_close(&b);
	return failed;
}

/* ---- disk ---- */

static int measure_disk(struct machine *m, const struct disk *d, uint32_t record, uint32_t depth,
			struct table *t, struct err *e)
{
	double rates[ROUNDS_MOST];
	for (size_t r = 0; r < m->effort.rounds; r++) {
		int failed = disk_read(d, record, depth, 2 * m->effort.seconds, &rates[r], e);
		if (failed)
			return failed;
		rates[r] *= 1e-9;
	}
	struct summary s = summarise(rates, m->effort.rounds);
	table_number(t, record);
	table_number(t, depth);
	table_summary(t, &s);
	return 0;
}

static int measure_disks(struct machine *m, struct err *e)
{
	static const struct column columns[] = {
		{"record_bytes", "record, bytes", 0},
		{"depth", "depth", 0},
		{"read_gb_per_s", "read GB/s", 2},
	};
	struct table t;
	struct disk d;
	int failed = disk_open(&d, m->folder, m->file, e);
	if (failed == -ENOTSUP) { /* the other ceilings stand */
		report_text(&m->report, "disk", "disk: not measured", e->text);
		return 0;
	}
	if (failed)
		return failed;
	table_begin(&t, &m->report, "disk", "disk: O_DIRECT reads through io_uring", columns,
		    sizeof columns / sizeof *columns);
	for (uint32_t i = 0; i < m->records.count && !failed; i++)
		for (uint32_t k = 0; k < m->depths.count && !failed; k++)
			failed = measure_disk(m, &d, m->records.value[i] / DISK_ALIGN * DISK_ALIGN,
					      m->depths.value[k], &t, e);
	table_end(&t);
	disk_close(&d);
	return failed;
}

int machine_command(int argc, char **argv, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	struct machine m = {
		.effort = effort_default(),
		.memory = ceiling_bytes(),
		.file = 1 << 30,
		.folder = tmp && *tmp ? tmp : ".",
		.records = {3, {1 << 20, 2 << 20, 4700000}},
		.depths = {4, {1, 2, 4, 8}},
	};
	const struct bench_option options[] = {
		EFFORT_OPTIONS(&m.effort),
		{"seconds", OPTION_SECONDS, &m.effort.seconds, 0, 0, "of each measurement"},
		{"memory", OPTION_NUMBER, &m.memory, 1 << 20, UINT64_C(1) << 40,
		 "bytes to read from"},
		{"dir", OPTION_TEXT, &m.folder, 0, 0, "where the disk is measured"},
		{"file", OPTION_NUMBER, &m.file, 1 << 20, UINT64_C(1) << 40,
		 "bytes of the file to read from"},
		{"records", OPTION_LIST, &m.records, DISK_ALIGN, 1 << 30, "bytes of a read"},
		{"depths", OPTION_LIST, &m.depths, 1, DISK_DEPTH_MOST, "reads in flight"},
		{"no-disk", OPTION_FLAG, &m.no_disk, 0, 0, "leave the disk out"},
	};
	const struct command_line line = {"machine", options, sizeof options / sizeof *options,
					  NULL, 0};
	int failed = command_line_parse(&line, argc, argv, e);
	if (failed)
		return failed;
	describe(&m);
	failed = measure_cores(&m, e);
	if (!failed)
		failed = meetings_report(&m.report, &m.effort, e);
	if (!failed)
		failed = measure_codec(&m, e);
	if (!failed && !m.no_disk)
		failed = measure_disks(&m, e);
	int unreported = report_end(&m.report, failed ? NULL : e);
	return failed ? failed : unreported;
}

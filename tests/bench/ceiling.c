#include "tests/bench/ceiling.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- without special instructions: what the compiler makes of 16-byte vectors ---- */

enum { PORTABLE_ACCUMULATORS = 12 };
typedef float float4 __attribute__((vector_size(16)));
typedef uint64_t word2 __attribute__((vector_size(16)));

static bool everywhere(void)
{
	return true;
}

static double fp32_portable(uint32_t repeats)
{
	volatile float half = .5F;
	const float4 x = {half, half, half, half};
	float4 a[PORTABLE_ACCUMULATORS] = {{0}};
	for (uint32_t n = 0; n < repeats; n++)
		for (int i = 0; i < PORTABLE_ACCUMULATORS; i++)
			a[i] = a[i] * x + x;
	for (int i = 0; i < PORTABLE_ACCUMULATORS; i++)
		half = a[i][0];
	return (double)repeats * PORTABLE_ACCUMULATORS * 8;
}

static uint64_t read_portable(const uint8_t *from, size_t bytes)
{
	word2 sum[4] = {{0}};
	for (size_t i = 0; i < bytes; i += 64)
		for (size_t j = 0; j < 4; j++)
			sum[j] ^= *(const word2 *)(const void *)(from + i + 16 * j);
	sum[0] ^= sum[1] ^ sum[2] ^ sum[3];
	return sum[0][0] ^ sum[0][1];
}

static const struct ceiling_reader portable_readers[] = {
	{"16-byte loads", everywhere, read_portable},
};
static const struct ceiling_unit portable_units[] = {
	{PEAK_FP32, "multiply and add, 16 bytes", everywhere, fp32_portable},
	{PEAK_COUNT, NULL, NULL, NULL},
};

/* ---- choosing ---- */

static const struct ceiling_reader *reader(void)
{
#if defined(__x86_64__)
	for (const struct ceiling_reader *r = ceiling_x86_readers; r->read; r++)
		if (r->here())
			return r;
#endif
	return portable_readers;
}

static const struct ceiling_unit *unit_of(const struct ceiling_unit *list, enum peak p)
{
	for (; list->run; list++)
		if (list->peak == p && list->here())
			return list;
	return NULL;
}

static const struct ceiling_unit *unit(enum peak p)
{
	const struct ceiling_unit *u = NULL;
#if defined(__x86_64__)
	u = unit_of(ceiling_x86_units, p);
#endif
	return u ? u : unit_of(portable_units, p);
}

const char *ceiling_peak_instruction(enum peak p)
{
	const struct ceiling_unit *u = unit(p);
	return u ? u->instruction : NULL;
}

const char *ceiling_read_instruction(void)
{
	return reader()->instruction;
}

/* ---- caches ---- */

/* The first line of a file; false if there is none. */
static bool first_line(char *text, int size, const char *path)
{
	FILE *f = fopen(path, "re");
	bool there = f && fgets(text, size, f);
	if (f)
		(void)fclose(f);
	return there;
}

/* The bytes of a processor's last cache, counted for the first of those that share it. */
static size_t last_cache(uint32_t cpu)
{
	char path[128], text[256];
	for (int index = 4; index >= 0; index--) {
		(void)snprintf(path, sizeof path,
			       "/sys/devices/system/cpu/cpu%u/cache/index%d/shared_cpu_list", cpu,
			       index);
		if (!first_line(text, sizeof text, path))
			continue;
		if (strtoul(text, NULL, 10) != cpu)
			return 0;
		(void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cache/index%d/size",
			       cpu, index);
		return first_line(text, sizeof text, path)
			       ? (size_t)strtoul(text, NULL, 10) << (strchr(text, 'M') ? 20 : 10)
			       : 0;
	}
	return 0;
}

size_t ceiling_cache_bytes(void)
{
	size_t bytes = 0;
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	for (long cpu = 0; cpu < cpus; cpu++)
		bytes += last_cache((uint32_t)cpu);
	return bytes;
}

size_t ceiling_bytes(void)
{
	size_t least = (size_t)256 << 20, wanted = 8 * ceiling_cache_bytes();
	size_t most = (size_t)sysconf(_SC_PHYS_PAGES) / 4 * (size_t)sysconf(_SC_PAGESIZE);
	wanted = wanted > least ? wanted : least;
	return wanted < most ? wanted : most;
}

/* ---- measuring ---- */

/* Read at a time by one thread: 30 µs. */
enum { PIECE = 1 << 20, REPEATS = 10000, THREADS_MOST = 1024 };

struct reading {
	const struct ceiling *ceiling;
	ceiling_read_fn *read;
	size_t part;		     /* bytes of each thread, in pieces */
	size_t next[THREADS_MOST];   /* where each is in its part */
	_Atomic uint64_t everything; /* so that nothing read is unused */
};

static double read_piece(void *ctx, uint32_t thread)
{
	struct reading *r = ctx;
	const uint8_t *from = r->ceiling->memory + thread * r->part + r->next[thread];
	r->everything ^= r->read(from, PIECE);
	r->next[thread] = (r->next[thread] + PIECE) % r->part;
	return PIECE;
}

int ceiling_open(struct ceiling *c, size_t bytes, uint32_t threads, double seconds, struct err *e)
{
	size_t pieces = bytes / PIECE / threads;
	*c = (struct ceiling){.threads = threads, .seconds = seconds};
	if (!pieces || threads > THREADS_MOST)
		return err_set(e, ERANGE, "%zu bytes are too few for %u threads to read from",
			       bytes, threads);
	c->bytes = pieces * PIECE * threads;
	c->memory = buffer_allocate(c->bytes, e);
	return c->memory ? 0 : -ENOMEM;
}

void ceiling_close(struct ceiling *c)
{
	buffer_free(c->memory, c->bytes);
	*c = (struct ceiling){0};
}

int ceiling_read(const struct ceiling *c, uint32_t threads, double *rate, struct err *e)
{
	struct reading r = {
		.ceiling = c, .read = reader()->read, .part = c->bytes / threads / PIECE * PIECE};
	return crew_rate(rate, threads, c->seconds, read_piece, &r, e);
}

static double run_unit(void *ctx, uint32_t thread)
{
	(void)thread;
	return ((const struct ceiling_unit *)ctx)->run(REPEATS);
}

int ceiling_peak(const struct ceiling *c, enum peak p, uint32_t threads, double *rate,
		 struct err *e)
{
	const struct ceiling_unit *u = unit(p);
	*rate = 0;
	return u ? crew_rate(rate, threads, c->seconds, run_unit, (void *)u, e) : 0;
}

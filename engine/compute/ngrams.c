/* Tables of n-grams, read by the row from the source. See ngrams.h. */
#include "engine/compute/ngrams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

struct ngram_shard {
	struct source from;
	uint64_t first; /* of the table's rows */
};

struct ngram_table {
	struct ngram_shard *shards; /* in the order of their rows */
	uint32_t count;
};

struct ngram_tables {
	struct sources sources;
	uint32_t width; /* numbers of a row */
	uint32_t count;
	uint64_t bytes;
	_Atomic uint64_t rows, waited;
	struct ngram_table table[NGRAM_TABLES];
};

/* ---- opening ---- */

static int ngrams_add_shard(struct ngram_tables *t, struct ngram_table *to, const struct source *s)
{
	struct ngram_shard *more = realloc(to->shards, (to->count + 1) * sizeof *more);
	if (!more)
		return -ENOMEM;
	uint64_t rows = package_rows(s->tensor);
	to->shards = more;
	more[to->count] = (struct ngram_shard){*s, 0};
	if (to->count) {
		const struct ngram_shard *last = &more[to->count - 1];
		more[to->count].first = last->first + package_rows(last->from.tensor);
	}
	to->count++;
	for (uint32_t part = 0; part < s->tensor->parts; part++)
		t->bytes += s->tensor->part[part].row_bytes * rows / s->tensor->part[part].share;
	return 0;
}

static int ngrams_open_table(struct ngram_tables *t, uint32_t table, struct err *e)
{
	struct ngram_table *to = &t->table[table];
	struct source shard;
	for (uint32_t i = 0; !sources_find_shard(&t->sources, table, i, &shard); i++)
		if (ngrams_add_shard(t, to, &shard))
			return err_set(e, ENOMEM, "out of memory for the tables of n-grams");
	return to->count ? 0
			 : err_set(e, ENOENT,
				   "the checkpoint has no table of n-grams any more; a %s model reads "
				   "it where it was published, so keep the source",
				   t->sources.config->model_type);
}

int ngrams_open(struct ngram_tables **out, const struct config *c, const char *path, struct err *e)
{
	struct ngram_tables *t = calloc(1, sizeof *t);
	struct err why;
	if (!t)
		return err_set(e, ENOMEM, "out of memory for the tables of n-grams");
	int failed = sources_open(&t->sources, path, c, &why);
	if (failed) {
		free(t);
		return err_set(e, -failed,
			       "%s; a %s model reads its table of n-grams where it was published, "
			       "so it needs the source",
			       why.text, c->model_type);
	}
	t->count = c->ngrams.tables;
	t->width = c->ngrams.dim / c->ngrams.hash[0].rows;
	failed = sources_check_ngrams(&t->sources, e);
	for (uint32_t i = 0; i < t->count && !failed; i++)
		failed = ngrams_open_table(t, i, e);
	if (failed)
		ngrams_close(t);
	else
		*out = t;
	return failed;
}

void ngrams_close(struct ngram_tables *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->count; i++)
		free(t->table[i].shards);
	sources_close(&t->sources);
	free(t);
}

/* ---- rows ---- */

/* The shard of a row; *row becomes its number there. */
static const struct source *ngrams_shard(const struct ngram_table *t, uint64_t *row)
{
	uint32_t low = 0, high = t->count;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		*(t->shards[middle].first <= *row ? &low : &high) = middle;
	}
	*row -= t->shards[low].first;
	return &t->shards[low].from;
}

void ngrams_ahead(const struct ngram_tables *t, uint32_t table, const uint64_t *rows,
		  uint32_t count)
{
	const struct files *files = package_files(t->sources.package);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t row = rows[i];
		const struct source *s = ngrams_shard(&t->table[table], &row);
		for (uint32_t part = 0; part < s->tensor->parts; part++) {
			struct package_place p = package_place(s->tensor, part, row, 1);
			(void)posix_fadvise(files_descriptor(files, p.file), (off_t)p.offset,
					    (off_t)p.bytes, POSIX_FADV_WILLNEED);
		}
	}
}

/* Whether the first byte of a row is in memory. */
static bool ngrams_is_here(const struct ngram_tables *t, const struct source *s, uint64_t row)
{
	struct package_place p = package_place(s->tensor, 0, row, 1);
	char byte;
	struct iovec one = {&byte, 1};
	return preadv2(files_descriptor(package_files(t->sources.package), p.file), &one, 1,
		       (off_t)p.offset, RWF_NOWAIT) == 1;
}

static int ngrams_read_row(const struct ngram_tables *t, const struct source *s, uint64_t row,
			   float *out, struct err *e)
{
	enum format format = package_read_format(s->tensor);
	uint8_t *end = (uint8_t *)(out + t->width);
	if (format != FORMAT_F32) /* read to the end of where it becomes floats */
		end -= (size_t)t->width * sizeof(uint16_t);
	else
		end = (uint8_t *)out;
	int failed = package_read(t->sources.package, s->tensor, row, 1, t->width, end, e);
	if (!failed && format != FORMAT_F32)
		format_dequantise_row(
			out, &(struct shape){.format = format, .rows = 1, .cols = t->width},
			&(struct pieces){.weights = end});
	return failed;
}

int ngrams_read(struct ngram_tables *t, uint32_t table, const uint64_t *rows, uint32_t count,
		float *out, uint32_t *waited, struct err *e)
{
	int failed = 0;
	uint32_t absent = 0;
	for (uint32_t i = 0; i < count && !failed; i++) {
		uint64_t row = rows[i];
		const struct source *s = ngrams_shard(&t->table[table], &row);
		absent += !ngrams_is_here(t, s, row);
		failed = ngrams_read_row(t, s, row, out + (size_t)i * t->width, e);
	}
	atomic_fetch_add(&t->rows, count);
	atomic_fetch_add(&t->waited, absent);
	*waited += absent;
	return failed;
}

struct ngram_counts ngrams_counts(const struct ngram_tables *t)
{
	return (struct ngram_counts){atomic_load(&t->rows), atomic_load(&t->waited), t->bytes};
}

/* ---- what is in memory ---- */

/* Ranges of a file that are looked at, evenly spread. */
enum { SAMPLES = 256, SAMPLE_PAGES = 64 };

/* Pages of some of the file's bytes [offset, offset + bytes) that are in memory, scaled up. */
static uint64_t ngrams_resident_of(int file, uint64_t offset, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), piece = SAMPLE_PAGES * page, seen = 0, in = 0;
	uint64_t step = bytes / SAMPLES > piece ? bytes / SAMPLES / page * page : piece;
	offset -= offset % page;
	for (uint64_t at = 0; at < bytes; at += step) {
		unsigned char resident[SAMPLE_PAGES];
		size_t n = bytes - at < piece ? (size_t)(bytes - at) : (size_t)piece;
		void *map = mmap(NULL, n, PROT_READ, MAP_SHARED, file, (off_t)(offset + at));
		if (map == MAP_FAILED)
			break;
		if (!mincore(map, n, resident))
			for (size_t i = 0; i < (n + page - 1) / page; i++, seen++)
				in += resident[i] & 1;
		(void)munmap(map, n);
	}
	return seen ? bytes / seen * in : 0;
}

uint64_t ngrams_resident(const struct ngram_tables *t)
{
	const struct files *files = package_files(t->sources.package);
	uint64_t resident = 0;
	for (uint32_t i = 0; i < t->count; i++)
		for (uint32_t k = 0; k < t->table[i].count; k++) {
			const struct package_part *p = &t->table[i].shards[k].from.tensor->part[0];
			resident += ngrams_resident_of(files_descriptor(files, p->file), p->offset,
						       p->bytes);
		}
	return resident;
}

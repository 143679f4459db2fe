/* For fuzzers of a store's files: small stores, plain and coded, each in a folder of its own, and
 * changes of their files that an input asks for. Nothing is synced, since fault_io.h stands for
 * io.c. */
#ifndef MOEFS_TESTS_FUZZ_SMALL_STORE_H
#define MOEFS_TESTS_FUZZ_SMALL_STORE_H

#include "cache/codec.h"
#include "cache/store.h"
#include "cache/store_files.h"
#include "cache/store_format.h"
#include "tests/fuzz/folder.h"
#include "tests/unit/fault_io.h"

#include <xxhash.h>

enum { SMALL_LAYERS = 2, SMALL_EXPERTS = 3, SMALL_DENSE = 4, SMALL_RECORD = 333 };
enum {
	SMALL_RECORDS = SMALL_LAYERS * SMALL_EXPERTS,
	SMALL_UNITS = SMALL_RECORDS + SMALL_DENSE,
	SMALL_FILE_MOST = 1 << 16,
};
static const struct store_range small_dense[SMALL_DENSE] = {
	{0, 100}, {100, 7}, {107, 0}, {107, 500}};

struct small_file {
	uint8_t bytes[SMALL_FILE_MOST];
	size_t size;
};

static const struct store_plan *small_plan(enum store_codec codec)
{
	static struct store_plan plan[2];
	static uint8_t head[STORE_ALIGN], dense_head[40];
	struct store_plan *p = &plan[codec];
	memset(head, ' ', sizeof head);
	memset(dense_head, '.', sizeof dense_head);
	*p = (struct store_plan){
		.key = {{1, 2}, "fuzz"},
		.layout = {.digest = {{3, 4}},
			   .codec = codec,
			   .layers = SMALL_LAYERS,
			   .experts = SMALL_EXPERTS,
			   .record_bytes = SMALL_RECORD,
			   .dense = small_dense,
			   .dense_units = SMALL_DENSE},
		.experts_header = head,
		.experts_header_bytes = sizeof head,
		.dense_header = dense_head,
		.dense_header_bytes = sizeof dense_head,
	};
	return p;
}

static size_t small_unit_bytes(uint32_t unit)
{
	return unit < SMALL_RECORDS ? SMALL_RECORD : small_dense[unit - SMALL_RECORDS].bytes;
}

static void small_must(int failed, const struct err *e)
{
	if (!failed)
		return;
	(void)fprintf(stderr, "%s\n", e->text);
	abort();
}

static void small_put(struct store_writer *w, uint32_t unit)
{
	uint8_t bytes[512];
	struct store_put *put;
	struct err e = {0};
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i % 2 ? unit : i * 37 + unit);
	small_must(store_put_begin(w, unit, &put, &e), &e);
	small_must(store_put_bytes(put, bytes, small_unit_bytes(unit), &e), &e);
	small_must(store_put_commit(put, &e), &e);
}

static const char *small_folder(char path[192], const char *name)
{
	(void)snprintf(path, 192, "%s/%s", folder_path(), name);
	return path;
}

static void small_read_file(struct small_file *f, const char *folder, const char *name)
{
	char path[256];
	(void)snprintf(path, sizeof path, "%s/%s", folder, name);
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, f->bytes, sizeof f->bytes);
	if (n < 0 || n == sizeof f->bytes)
		abort();
	f->size = (size_t)n;
	close(fd);
}

/* Reads all that the store has, into memory of the sizes that the plan gives it. */
static void small_read_units(struct store *s)
{
	struct err e = {0};
	for (uint32_t i = 0; i < SMALL_RECORDS; i++) {
		uint32_t layer = i / SMALL_EXPERTS, expert = i % SMALL_EXPERTS;
		if (!store_has_expert(s, layer, expert))
			continue;
		if (store_expert(s, layer, expert).bytes > codec_most(SMALL_RECORD))
			abort();
		uint8_t *record = malloc(SMALL_RECORD), byte;
		(void)store_read_record(s, layer, expert, record, SMALL_RECORD, &e);
		(void)store_read_expert(s, layer, expert, SMALL_RECORD - 1, &byte, 1, &e);
		free(record);
	}
	for (uint32_t i = 0; i < SMALL_DENSE; i++) {
		uint8_t *unit = malloc(small_dense[i].bytes + !small_dense[i].bytes);
		(void)store_read_dense(s, i, unit, small_dense[i].bytes, &e);
		free(unit);
	}
}

static void small_resize(struct small_file *f, size_t size)
{
	if (size >= SMALL_FILE_MOST)
		return;
	if (size > f->size)
		memset(f->bytes + f->size, 0, size - f->size);
	f->size = size;
}

/* Takes so much from one number of 8 bytes and gives it to a later one: sums of them stay right. */
static void small_move(struct small_file *f, size_t at, size_t distance, uint8_t amount)
{
	uint64_t from, to;
	size_t other = at + 8 * distance;
	if (other + 8 > f->size)
		return;
	memcpy(&from, f->bytes + at, 8);
	memcpy(&to, f->bytes + other, 8);
	from -= amount;
	to += amount;
	memcpy(f->bytes + at, &from, 8);
	memcpy(f->bytes + other, &to, 8);
}

/* Changes a file as an input says, over and over: a place of two bytes, what to do there, and what
 * with. 0 to 8: these many bytes are put there. 9: the file ends there. 10: a move, of two bytes:
 * how far, and how much. */
static void small_change(struct small_file *f, const uint8_t *data, size_t size)
{
	while (size >= 5) {
		size_t place = data[0] | (size_t)data[1] << 8, at = f->size ? place % f->size : 0;
		uint8_t what = data[2] % 11;
		size_t n = what <= 8 ? what : what == 10 ? 2 : 0;
		data += 3;
		size -= 3;
		n = n < size ? n : size;
		if (what == 9)
			small_resize(f, place);
		else if (what == 10)
			small_move(f, at / 8 * 8, data[0] % 16, data[1]);
		else if (at + n <= f->size && n)
			memcpy(f->bytes + at, data, n);
		data += n;
		size -= n;
	}
}

#endif

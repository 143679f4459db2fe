/* Small stores for tests; see the header. */
#include "store_help.h"

#include "golden.h"

#include "cache/store_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

void test_store_init(struct test_store *t, const char *parent, const char *name)
{
	memset(t, 0, sizeof *t);
	(void)snprintf(t->folder, sizeof t->folder, "%s/%s", parent, name);
	t->layers = 3;
	t->experts = 4;
	t->dense_units = 5;
	t->record_bytes = 5000;
	t->seed = 1;
	t->key = (struct store_key){{0x1122334455667788, 0x99aabbccddeeff00}, "tq3"};
	t->digest = (struct store_digest){{0xd1, 0xd2}};
	test_store_plan(t);
}

void test_store_plan(struct test_store *t)
{
	static const uint64_t sizes[] = {1, 4096, 777, 20000, 64};
	uint64_t end = 0;
	memset(t->head, ' ', sizeof t->head);
	memset(t->dense_head, '.', sizeof t->dense_head);
	for (uint32_t i = 0; i < t->dense_units; i++) {
		t->dense[i] = (struct store_range){end, sizes[i % 5]};
		end += sizes[i % 5];
	}
	t->plan = (struct store_plan){
		.key = t->key,
		.layout = {.digest = t->digest,
			   .codec = t->codec,
			   .layers = t->layers,
			   .experts = t->experts,
			   .record_bytes = t->record_bytes,
			   .layer_bytes = *t->layer_bytes ? t->layer_bytes : NULL,
			   .dense = t->dense,
			   .dense_units = t->dense_units},
		.expected_bytes = t->record_bytes,
		.experts_header = t->head,
		.experts_header_bytes = t->record_bytes ? sizeof t->head : 0,
		.dense_header = t->dense_head,
		.dense_header_bytes = sizeof t->dense_head,
	};
}

uint32_t test_units(const struct test_store *t)
{
	return t->layers * t->experts + t->dense_units;
}

uint64_t test_unit_bytes(const struct test_store *t, uint32_t unit)
{
	uint32_t records = t->layers * t->experts;
	if (unit >= records)
		return t->dense[unit - records].bytes;
	return *t->layer_bytes ? t->layer_bytes[unit / t->experts] : t->record_bytes;
}

void test_unit_fill(const struct test_store *t, uint32_t unit, uint8_t *out)
{
	uint64_t x = (t->seed * 1000003 + unit + 1) * 0x9e3779b97f4a7c15;
	bool shrinks = t->codec == STORE_CODED && unit < t->layers * t->experts;
	for (uint64_t i = 0; i < test_unit_bytes(t, unit); i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		out[i] = (uint8_t)(x >> 56) & (shrinks && i % 2 ? 7 : 0xff);
	}
}

int test_put(const struct test_store *t, struct store_writer *w, uint32_t unit, struct err *e)
{
	uint8_t *bytes = malloc(TEST_UNIT_MOST);
	struct store_put *p;
	test_unit_fill(t, unit, bytes);
	int rc = store_put_begin(w, unit, &p, e);
	if (rc == 0) {
		uint64_t size = test_unit_bytes(t, unit), piece = size / 3 + 1;
		for (uint64_t at = 0; at < size && rc == 0; at += piece)
			rc = store_put_bytes(p, bytes + at, piece < size - at ? piece : size - at,
					     e);
		if (rc)
			store_put_abandon(p);
		else
			rc = store_put_commit(p, e);
	}
	free(bytes);
	return rc;
}

int test_write_rest(const struct test_store *t, struct store_writer *w, bool keep, struct err *e)
{
	for (uint32_t unit = test_units(t); unit-- > 0;) {
		int rc = store_writer_has(w, unit) ? 0 : test_put(t, w, unit, e);
		if (rc) {
			store_writer_close(w, keep);
			return rc;
		}
	}
	return store_writer_finish(w, e);
}

void test_store_write(const struct test_store *t)
{
	struct store_writer *w;
	struct err e = {0};
	int rc = store_writer_open(&w, t->folder, &t->plan, &e);
	if (rc == 0)
		rc = test_write_rest(t, w, false, &e);
	if (rc)
		fail_msg("cannot write the store: %s", e.text);
}

static bool expert_right(const struct test_store *t, const struct store *s, uint32_t unit,
			 const uint8_t *expected, uint8_t *got)
{
	uint32_t layer = unit / t->experts, expert = unit % t->experts;
	struct store_extent x = store_expert(s, layer, expert);
	const void *record = NULL;
	uint8_t *scratch = malloc(store_scratch_bytes(s) + 1);
	bool right = x.bytes <= TEST_UNIT_MOST &&
		     pread(x.fd, got, x.bytes, (off_t)x.offset) == (ssize_t)x.bytes &&
		     store_verify_expert(s, layer, expert, got, NULL) == 0 &&
		     store_unpack_expert(s, layer, expert, got, scratch, &record, NULL) == 0 &&
		     memcmp(record, expected, test_unit_bytes(t, unit)) == 0;
	free(scratch);
	return right;
}

bool test_store_right(const struct test_store *t, const struct store *s)
{
	uint8_t *expected = malloc(TEST_UNIT_MOST), *got = malloc(TEST_UNIT_MOST);
	uint32_t records = t->layers * t->experts;
	bool right = true;
	for (uint32_t unit = 0; unit < test_units(t) && right; unit++) {
		test_unit_fill(t, unit, expected);
		if (unit < records)
			right = expert_right(t, s, unit, expected, got);
		else
			right = store_read_dense(s, unit - records, got, test_unit_bytes(t, unit),
						 NULL) == 0 &&
				memcmp(got, expected, test_unit_bytes(t, unit)) == 0;
	}
	free(expected);
	free(got);
	return right;
}

/* ---- the index ---- */

static uint8_t *read_index(const char *folder, size_t *bytes)
{
	char path[256];
	struct stat st;
	(void)snprintf(path, sizeof path, "%s/" STORE_INDEX, folder);
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	uint8_t *index = malloc((size_t)st.st_size + 1);
	assert_int_equal(read(fd, index, (size_t)st.st_size), st.st_size);
	close(fd);
	*bytes = (size_t)st.st_size;
	return index;
}

static void write_index(const char *folder, const uint8_t *index, size_t bytes)
{
	char path[256];
	(void)snprintf(path, sizeof path, "%s/" STORE_INDEX, folder);
	int fd = open(path, O_WRONLY | O_TRUNC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, index, bytes), bytes);
	close(fd);
}

void test_index_forge(const char *folder, void (*change)(struct store_index *index))
{
	size_t bytes;
	struct store_index index;
	uint8_t *in = read_index(folder, &bytes);
	assert_int_equal(store_index_decode(&index, in, bytes, "x", NULL), 0);
	change(&index);
	bytes = store_index_bytes(&index.info);
	uint8_t *out = malloc(bytes);
	store_index_encode(out, &index);
	write_index(folder, out, bytes);
	store_index_free(&index);
	free(out);
	free(in);
}

/* ---- folders ---- */

void test_folder_make(char out[32])
{
	const char *parent = getenv("TMPDIR");
	if (!parent || strlen(parent) > 16)
		parent = "/tmp";
	(void)snprintf(out, 32, "%s/moefs-XXXXXX", parent);
	assert_non_null(mkdtemp(out));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void test_folder_remove(const char *path)
{
	(void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

char test_folder[32];

int test_folder_setup(void **state)
{
	(void)state;
	test_folder_make(test_folder);
	return 0;
}

int test_folder_setup_fast(void **state)
{
	(void)state;
	(void)snprintf(test_folder, sizeof test_folder, "%s/moefs-test-XXXXXX", test_memory_folder());
	return mkdtemp(test_folder) ? 0 : -1;
}

int test_folder_teardown(void **state)
{
	(void)state;
	test_folder_remove(test_folder);
	return access(test_folder, F_OK) ? 0 : -1;
}

/* Coded stores: records of any stored length come back to the bit, lie end to end, are taken up
 * after an interruption, and are refused if anything about them was changed. test_store.c tests
 * what coded and plain stores have in common, test_store_faults.c faults. */
#include "cache/codec.h"
#include "cache/store_files.h"
#include "cache/store_format.h"
#include "store_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

struct fixture {
	char parent[32];
	struct test_store t;
	struct err e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	assert_non_null(f);
	test_folder_make(f->parent);
	test_store_init(&f->t, f->parent, "store");
	f->t.codec = STORE_CODED;
	f->t.record_bytes = 30001;
	test_store_plan(&f->t);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	test_folder_remove(f->parent);
	free(f);
	return 0;
}

/* ---- helpers ---- */

enum { RECORDS = 12, RECORD_BYTES = 30001 };

static char *path_of(const struct fixture *f, const char *name)
{
	static char path[384];
	(void)snprintf(path, sizeof path, "%s/%s", f->t.folder, name);
	return path;
}

static uint64_t file_size(const struct fixture *f, const char *name)
{
	struct stat st;
	assert_int_equal(stat(path_of(f, name), &st), 0);
	return (uint64_t)st.st_size;
}

static uint8_t *slurp(const struct fixture *f, const char *name, size_t *size)
{
	*size = file_size(f, name);
	uint8_t *bytes = malloc(*size + 1);
	int fd = open(path_of(f, name), O_RDONLY);
	assert_int_equal(read(fd, bytes, *size), *size);
	close(fd);
	return bytes;
}

static void write_at(const struct fixture *f, const char *name, const void *bytes, size_t size,
		     uint64_t offset)
{
	int fd = open(path_of(f, name), O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, size, (off_t)offset), size);
	close(fd);
}

static void flip(const struct fixture *f, const char *name, uint64_t offset)
{
	size_t size;
	uint8_t *bytes = slurp(f, name, &size);
	assert_true(offset < size);
	bytes[offset] ^= 0x10;
	write_at(f, name, bytes + offset, 1, offset);
	free(bytes);
}

static struct store_writer *writer(struct fixture *f)
{
	struct store_writer *w;
	if (store_writer_open(&w, f->t.folder, &f->t.plan, &f->e))
		fail_msg("%s", f->e.text);
	return w;
}

static void put(struct fixture *f, struct store_writer *w, uint32_t unit)
{
	if (test_put(&f->t, w, unit, &f->e))
		fail_msg("%s", f->e.text);
}

static struct store *opened(struct fixture *f)
{
	struct store *s;
	if (store_open(&s, f->t.folder, &f->t.key, &f->e))
		fail_msg("%s", f->e.text);
	return s;
}

static void assert_complete(struct fixture *f)
{
	struct store *s = opened(f);
	assert_true(test_store_right(&f->t, s));
	store_close(s);
}

/* A record's stored bytes, to be freed, and memory to decode it in. */
struct stored {
	uint8_t *bytes, *scratch;
	size_t size;
};

static struct stored stored_record(const struct store *s, uint32_t layer, uint32_t expert)
{
	struct store_extent x = store_expert(s, layer, expert);
	struct stored r = {malloc(x.bytes), malloc(store_scratch_bytes(s)), x.bytes};
	assert_int_equal(pread(x.fd, r.bytes, x.bytes, (off_t)x.offset), x.bytes);
	return r;
}

static void stored_free(struct stored *r)
{
	free(r->bytes);
	free(r->scratch);
}

static int by_offset(const void *a, const void *b)
{
	const struct store_extent *x = a, *y = b;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Every record begins at the first page after the one before, and the file ends with the last. */
static void assert_no_holes(const struct fixture *f, const struct store *s)
{
	struct store_extent x[RECORDS];
	uint64_t end = store_info(s)->experts_base;
	for (uint32_t i = 0; i < RECORDS; i++)
		x[i] = store_expert(s, i / f->t.experts, i % f->t.experts);
	qsort(x, RECORDS, sizeof *x, by_offset);
	for (uint32_t i = 0; i < RECORDS; i++) {
		assert_int_equal(x[i].offset, store_range_next(end));
		end = x[i].offset + x[i].bytes;
	}
	assert_int_equal(file_size(f, STORE_EXPERTS), end);
}

/* ---- the round trip ---- */

struct crew {
	struct fixture *f;
	struct store_writer *w;
	_Atomic uint32_t next;
	_Atomic int failures;
};

static void *write_units(void *ctx)
{
	struct crew *c = ctx;
	uint32_t i;
	while ((i = c->next++) < test_units(&c->f->t))
		if (test_put(&c->f->t, c->w, (i * 7 + 3) % test_units(&c->f->t), NULL))
			c->failures++;
	return NULL;
}

static void records_of_several_threads_lie_end_to_end_and_come_back(void **state)
{
	struct fixture *f = *state;
	struct crew c = {.f = f, .w = writer(f)};
	pthread_t thread[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, write_units, &c), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(c.failures, 0);
	assert_int_equal(store_writer_finish(c.w, &f->e), 0);
	assert_complete(f);
	struct store *s = opened(f);
	assert_no_holes(f, s);
	store_close(s);
}

static void stored_records_are_smaller_and_say_how_large(void **state)
{
	struct fixture *f = *state;
	uint64_t sum = 0;
	test_store_write(&f->t);
	struct store *s = opened(f);
	assert_int_equal(store_info(s)->codec, STORE_CODED);
	assert_int_equal(store_info(s)->record_bytes, RECORD_BYTES);
	for (uint32_t i = 0; i < RECORDS; i++) {
		struct store_extent x = store_expert(s, i / 4, i % 4);
		assert_true(x.bytes < RECORD_BYTES * 3 / 4);
		assert_int_equal(x.offset % STORE_ALIGN, 0);
		sum += x.bytes;
	}
	assert_int_equal(store_experts_bytes(s), sum);
	assert_true(store_scratch_bytes(s) >= RECORD_BYTES);
	store_close(s);
}

static void a_plain_record_is_unpacked_where_it_is(void **state)
{
	struct fixture *f = *state;
	const void *record = NULL;
	f->t.codec = STORE_PLAIN;
	test_store_plan(&f->t);
	test_store_write(&f->t);
	struct store *s = opened(f);
	assert_int_equal(store_scratch_bytes(s), 0);
	assert_int_equal(store_experts_bytes(s), RECORDS * RECORD_BYTES);
	struct stored r = stored_record(s, 2, 3);
	assert_int_equal(store_unpack_expert(s, 2, 3, r.bytes, NULL, &record, &f->e), 0);
	assert_ptr_equal(record, r.bytes);
	r.bytes[77] ^= 1;
	assert_int_equal(store_unpack_expert(s, 2, 3, r.bytes, NULL, &record, &f->e), -EIO);
	assert_non_null(strstr(f->e.text, "layer 2 expert 3"));
	stored_free(&r);
	store_close(s);
}

static void a_model_without_experts_may_be_asked_for_a_coded_store(void **state)
{
	struct fixture *f = *state;
	f->t.layers = f->t.experts = 0;
	f->t.record_bytes = 0;
	test_store_plan(&f->t);
	test_store_write(&f->t);
	assert_complete(f);
}

struct looker {
	struct fixture *f;
	struct store *s;
	uint32_t unit;
	bool right;
};

static void *look_at_one(void *ctx)
{
	struct looker *l = ctx;
	uint8_t *expected = malloc(TEST_UNIT_MOST), piece[700];
	test_unit_fill(&l->f->t, l->unit, expected);
	l->right = true;
	for (uint64_t at = 0; at < RECORD_BYTES; at += sizeof piece) {
		size_t n = RECORD_BYTES - at < sizeof piece ? RECORD_BYTES - at : sizeof piece;
		l->right &= store_read_expert(l->s, l->unit / 4, l->unit % 4, at, piece, n, NULL) ==
				    0 &&
			    memcmp(piece, expected + at, n) == 0;
	}
	free(expected);
	return NULL;
}

static void several_lookers_read_decoded_records_in_pieces(void **state)
{
	struct fixture *f = *state;
	struct looker l[3];
	pthread_t thread[3];
	uint8_t byte;
	test_store_write(&f->t);
	struct store *s = opened(f);
	for (uint32_t i = 0; i < 3; i++) {
		l[i] = (struct looker){.f = f, .s = s, .unit = 5 * i};
		assert_int_equal(pthread_create(&thread[i], NULL, look_at_one, &l[i]), 0);
	}
	for (uint32_t i = 0; i < 3; i++) {
		pthread_join(thread[i], NULL);
		assert_true(l[i].right);
	}
	assert_int_equal(store_read_expert(s, 0, 0, RECORD_BYTES, &byte, 0, &f->e), 0);
	assert_int_equal(store_read_expert(s, 0, 0, RECORD_BYTES, &byte, 1, &f->e), -EINVAL);
	assert_int_equal(store_read_expert(s, 0, 0, UINT64_MAX, &byte, 1, &f->e), -EINVAL);
	store_close(s);
}

/* ---- damage ---- */

static void every_flipped_bit_of_a_stored_record_is_refused(void **state)
{
	struct fixture *f = *state;
	const void *record;
	f->t.record_bytes = 999;
	test_store_plan(&f->t);
	test_store_write(&f->t);
	struct store *s = opened(f);
	struct stored r = stored_record(s, 1, 2);
	for (size_t bit = 0; bit < 8 * r.size; bit++) {
		r.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		f->e = (struct err){0};
		assert_int_equal(store_unpack_expert(s, 1, 2, r.bytes, r.scratch, &record, &f->e),
				 -EIO);
		assert_non_null(strstr(f->e.text, "layer 1 expert 2"));
		r.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(store_unpack_expert(s, 1, 2, r.bytes, r.scratch, &record, &f->e), 0);
	stored_free(&r);
	store_close(s);
}

static void a_reader_of_a_damaged_record_gets_an_error_and_others_do_not(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[64];
	test_store_write(&f->t);
	struct store *s = opened(f);
	flip(f, STORE_EXPERTS, store_expert(s, 1, 1).offset + 5000);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(store_read_expert(s, 1, 0, 0, bytes, sizeof bytes, &f->e), 0);
		assert_int_equal(store_read_expert(s, 1, 1, 0, bytes, sizeof bytes, &f->e), -EIO);
		assert_non_null(strstr(f->e.text, "layer 1 expert 1"));
	}
	store_close(s);
}

static uint64_t forged_sum;

static void forge_sum(struct store_index *index)
{
	index->checksums[6] = forged_sum;
}

static void
a_record_that_decodes_to_another_is_refused_even_if_its_stored_sum_is_right(void **state)
{
	struct fixture *f = *state;
	const void *record;
	test_store_write(&f->t);
	struct store *s = opened(f);
	struct stored r = stored_record(s, 1, 2);
	store_close(s);
	r.bytes[r.size - 1] ^= 1; /* in a plain plane: it decodes, to another number */
	forged_sum = XXH3_64bits(r.bytes, r.size);
	test_index_forge(f->t.folder, forge_sum);
	s = opened(f);
	assert_int_equal(store_verify_expert(s, 1, 2, r.bytes, &f->e), 0);
	assert_int_equal(store_unpack_expert(s, 1, 2, r.bytes, r.scratch, &record, &f->e), -EIO);
	stored_free(&r);
	store_close(s);
}

static void place_off_the_grid(struct store_index *i)
{
	i->stored[3].offset += 512;
}
static void place_before_the_data(struct store_index *i)
{
	i->stored[3].offset = 0;
}
static void place_beyond_all_files(struct store_index *i)
{
	i->stored[3].offset = UINT64_MAX - STORE_ALIGN + 1;
}
static void length_of_nothing(struct store_index *i)
{
	i->stored[3].bytes = codec_least(RECORD_BYTES) - 1;
}
static void length_above_the_codec(struct store_index *i)
{
	i->stored[3].bytes = codec_most(RECORD_BYTES) + 1;
}
static void place_beyond_this_file(struct store_index *i)
{
	i->stored[3].offset += (uint64_t)1 << 40;
}

static void an_index_with_impossible_places_is_refused(void **state)
{
	struct fixture *f = *state;
	static const struct {
		void (*change)(struct store_index *);
		int code;
	} cases[] = {
		{place_off_the_grid, EINVAL},	  {place_before_the_data, EINVAL},
		{place_beyond_all_files, EINVAL}, {length_of_nothing, EINVAL},
		{length_above_the_codec, EINVAL}, {place_beyond_this_file, EIO},
	};
	size_t size;
	test_store_write(&f->t);
	uint8_t *good = slurp(f, STORE_INDEX, &size);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct store *s;
		write_at(f, STORE_INDEX, good, size, 0);
		test_index_forge(f->t.folder, cases[i].change);
		assert_int_equal(store_open(&s, f->t.folder, NULL, &f->e), -cases[i].code);
		assert_non_null(strstr(f->e.text, f->t.folder));
	}
	free(good);
}

static void an_index_cut_or_changed_anywhere_is_refused(void **state)
{
	struct fixture *f = *state;
	struct store *s;
	size_t size;
	test_store_write(&f->t);
	uint8_t *bytes = slurp(f, STORE_INDEX, &size);
	for (size_t n = 0; n < size; n++) {
		bytes[n] ^= (uint8_t)(1 << n % 8);
		write_at(f, STORE_INDEX, bytes, size, 0);
		int rc = store_open(&s, f->t.folder, NULL, &f->e);
		assert_true(rc == -EIO || rc == -EINVAL || rc == -ESTALE);
		bytes[n] ^= (uint8_t)(1 << n % 8);
	}
	write_at(f, STORE_INDEX, bytes, size, 0);
	for (size_t n = size; n-- > 0;) {
		assert_int_equal(truncate(path_of(f, STORE_INDEX), (off_t)n), 0);
		int rc = store_open(&s, f->t.folder, NULL, &f->e);
		assert_true(rc == -EIO || rc == -EINVAL);
	}
	free(bytes);
}

static void a_file_cut_short_or_grown_is_refused(void **state)
{
	struct fixture *f = *state;
	struct store *s;
	test_store_write(&f->t);
	uint64_t size = file_size(f, STORE_EXPERTS);
	for (int change = -1; change <= 1; change += 2) {
		assert_int_equal(truncate(path_of(f, STORE_EXPERTS), (off_t)size + change), 0);
		assert_int_equal(store_open(&s, f->t.folder, NULL, &f->e), -EIO);
		assert_non_null(strstr(f->e.text, STORE_EXPERTS));
	}
}

/* ---- interruption ---- */

/* Interrupts a conversion of all units but two. */
static void interrupted(struct fixture *f)
{
	struct store_writer *w = writer(f);
	for (uint32_t i = 2; i < test_units(&f->t); i++)
		put(f, w, i);
	store_writer_close(w, true);
}

static uint32_t resumed_units(struct fixture *f)
{
	uint32_t n = 0;
	struct store_writer *w = writer(f);
	for (uint32_t i = 0; i < test_units(&f->t); i++)
		n += store_writer_has(w, i);
	store_writer_close(w, true);
	return n;
}

static void what_a_crash_left_behind_the_last_record_is_cut_off(void **state)
{
	struct fixture *f = *state;
	static const uint8_t junk[100000];
	interrupted(f);
	write_at(f, STORE_EXPERTS STORE_PARTIAL, junk, sizeof junk,
		 file_size(f, STORE_EXPERTS STORE_PARTIAL));
	assert_int_equal(test_write_rest(&f->t, writer(f), false, &f->e), 0);
	assert_complete(f);
	struct store *s = opened(f);
	assert_no_holes(f, s);
	store_close(s);
}

static void a_torn_journal_costs_what_was_torn_off_and_leaves_no_hole(void **state)
{
	struct fixture *f = *state;
	interrupted(f);
	assert_int_equal(resumed_units(f), 15);
	/* The dense units were committed last; two entries of records go with theirs. */
	assert_int_equal(truncate(path_of(f, STORE_JOURNAL), JOURNAL_HEAD + 9 * JOURNAL_ENTRY - 1),
			 0);
	assert_int_equal(resumed_units(f), 8);
	assert_int_equal(test_write_rest(&f->t, writer(f), false, &f->e), 0);
	assert_complete(f);
	struct store *s = opened(f);
	assert_no_holes(f, s);
	store_close(s);
}

static void a_changed_bit_in_the_journal_is_never_trusted(void **state)
{
	struct fixture *f = *state;
	size_t size, data_size;
	interrupted(f);
	uint8_t *journal = slurp(f, STORE_JOURNAL, &size);
	uint8_t *data = slurp(f, STORE_EXPERTS STORE_PARTIAL, &data_size);
	for (size_t n = JOURNAL_HEAD; n < size; n += 3) {
		journal[n] ^= (uint8_t)(1 << n % 8);
		write_at(f, STORE_JOURNAL, journal, size, 0);
		/* The last record is cut off when its entry is bad. */
		write_at(f, STORE_EXPERTS STORE_PARTIAL, data, data_size, 0);
		assert_int_equal(resumed_units(f), 14);
		journal[n] ^= (uint8_t)(1 << n % 8);
	}
	free(data);
	free(journal);
	test_store_write(&f->t);
	assert_complete(f);
}

static void a_record_that_changed_since_is_written_again(void **state)
{
	struct fixture *f = *state;
	interrupted(f);
	flip(f, STORE_EXPERTS STORE_PARTIAL, STORE_ALIGN + 100); /* unit 2 was the first */
	struct store_writer *w = writer(f);
	assert_false(store_writer_has(w, 2));
	assert_true(store_writer_has(w, 3));
	assert_int_equal(test_write_rest(&f->t, w, false, &f->e), 0);
	assert_complete(f);
}

static void an_unfinished_conversion_names_its_source(void **state)
{
	struct fixture *f = *state;
	struct store_key key;
	assert_int_equal(store_unfinished(f->t.folder, &key), -ENOENT);
	interrupted(f);
	assert_int_equal(store_unfinished(f->t.folder, &key), 0);
	assert_memory_equal(&key, &f->t.key, sizeof key);
	flip(f, STORE_JOURNAL, 50);
	assert_int_equal(store_unfinished(f->t.folder, &key), -ENOENT);
	flip(f, STORE_JOURNAL, 50);
	assert_int_equal(test_write_rest(&f->t, writer(f), false, &f->e), 0);
	assert_int_equal(store_unfinished(f->t.folder, &key), -ENOENT);
	assert_complete(f);
}

static void a_plain_conversion_is_not_taken_up_as_a_coded_one(void **state)
{
	struct fixture *f = *state;
	f->t.codec = STORE_PLAIN;
	test_store_plan(&f->t);
	interrupted(f);
	f->t.codec = STORE_CODED;
	test_store_plan(&f->t);
	assert_int_equal(resumed_units(f), 0);
	test_store_write(&f->t);
	assert_complete(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_of_several_threads_lie_end_to_end_and_come_back),
		TEST(stored_records_are_smaller_and_say_how_large),
		TEST(a_plain_record_is_unpacked_where_it_is),
		TEST(a_model_without_experts_may_be_asked_for_a_coded_store),
		TEST(several_lookers_read_decoded_records_in_pieces),
		TEST(every_flipped_bit_of_a_stored_record_is_refused),
		TEST(a_reader_of_a_damaged_record_gets_an_error_and_others_do_not),
		TEST(a_record_that_decodes_to_another_is_refused_even_if_its_stored_sum_is_right),
		TEST(an_index_with_impossible_places_is_refused),
		TEST(an_index_cut_or_changed_anywhere_is_refused),
		TEST(a_file_cut_short_or_grown_is_refused),
		TEST(what_a_crash_left_behind_the_last_record_is_cut_off),
		TEST(a_torn_journal_costs_what_was_torn_off_and_leaves_no_hole),
		TEST(a_changed_bit_in_the_journal_is_never_trusted),
		TEST(a_record_that_changed_since_is_written_again),
		TEST(an_unfinished_conversion_names_its_source),
		TEST(a_plain_conversion_is_not_taken_up_as_a_coded_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

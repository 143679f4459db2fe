/* Layouts of stores: a store of another layout is never read and is made again, whatever its
 * sizes; and no number in an index or a journal decides how much is read into memory of another
 * size. */
#include "fault_io.h"
#include "store_help.h"

#include "cache/codec.h"
#include "cache/store_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct fixture {
	char parent[32];
	struct test_store t;
	struct err e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	memset(&faults, 0, sizeof faults);
	test_folder_make(f->parent);
	test_store_init(&f->t, f->parent, "store");
	*state = f;
	return 0;
}

static int setup_coded(void **state)
{
	(void)setup(state);
	struct fixture *f = *state;
	f->t.codec = STORE_CODED;
	test_store_plan(&f->t);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	memset(&faults, 0, sizeof faults);
	test_folder_remove(f->parent);
	free(f);
	return 0;
}

/* ---- helpers ---- */

static char *path_of(const struct fixture *f, const char *name)
{
	static char path[128];
	(void)snprintf(path, sizeof path, "%s/%s", f->t.folder, name);
	return path;
}

static struct store *opened(struct fixture *f)
{
	struct store *s;
	if (store_open(&s, f->t.folder, &f->t.key, &f->e))
		fail_msg("%s", f->e.text);
	return s;
}

static int checked(struct fixture *f, const struct store_layout *layout)
{
	struct store *s = opened(f);
	int rc = store_check(s, layout, &f->e);
	store_close(s);
	return rc;
}

static void assert_stale(const struct fixture *f, int rc)
{
	assert_int_equal(rc, -ESTALE);
	assert_non_null(strstr(f->e.text, f->t.folder));
	assert_non_null(strstr(f->e.text, "converted again"));
}

/* A conversion over an existing store: the writer does not take the store for its own. */
static void made_anew(struct fixture *f)
{
	struct store_writer *w;
	if (store_writer_open(&w, f->t.folder, &f->t.plan, &f->e) ||
	    test_write_rest(&f->t, w, false, &f->e))
		fail_msg("%s", f->e.text);
	assert_int_equal(checked(f, &f->t.plan.layout), 0);
	struct store *s = opened(f);
	assert_true(test_store_right(&f->t, s));
	store_close(s);
}

/* ---- another layout ---- */

static void a_store_is_read_by_the_layout_that_made_it_alone(void **state)
{
	struct fixture *f = *state;
	test_store_write(&f->t);
	const struct store_layout right = f->t.plan.layout;
	assert_int_equal(checked(f, &right), 0);
	struct store_layout other[7];
	struct store_range exchanged[16], huge[16];
	for (int i = 0; i < 7; i++)
		other[i] = right;
	other[0].digest.word[0]++; /* of the same sizes, but tensors have changed places */
	other[1].digest.word[1]++;
	other[2].layers = right.experts, other[2].experts = right.layers;
	other[3].record_bytes++;
	other[4].codec = right.codec == STORE_CODED ? STORE_PLAIN : STORE_CODED;
	memcpy(exchanged, f->t.dense, sizeof exchanged);
	exchanged[0].bytes = f->t.dense[1].bytes, exchanged[1].bytes = f->t.dense[0].bytes;
	exchanged[1].offset = exchanged[0].bytes;
	other[5].dense = exchanged;
	memset(huge, 0, sizeof huge);
	huge[0].bytes = f->t.dense[4].offset + f->t.dense[4].bytes;
	for (int i = 1; i < 5; i++)
		huge[i].offset = huge[0].bytes;
	other[6].dense = huge;
	for (int i = 0; i < 7; i++)
		assert_stale(f, checked(f, &other[i]));
}

static void a_store_of_another_layout_is_made_anew(void **state)
{
	struct fixture *f = *state;
	test_store_write(&f->t);
	struct test_store before = f->t;
	struct store *old = opened(f);
	f->t.digest.word[0]++;
	f->t.seed = 2;
	test_store_plan(&f->t);
	made_anew(f);
	assert_true(test_store_right(&before, old)); /* its readers keep it */
	store_close(old);
}

static void an_interrupted_conversion_of_another_layout_begins_anew(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w;
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), 0);
	assert_int_equal(test_put(&f->t, w, 5, &f->e), 0);
	store_writer_close(w, true);
	assert_true(store_interrupted(f->t.folder, &f->t.plan));
	f->t.digest.word[1]++;
	f->t.seed = 2;
	test_store_plan(&f->t);
	assert_false(store_interrupted(f->t.folder, &f->t.plan));
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), 0);
	assert_false(store_writer_has(w, 5));
	assert_int_equal(test_write_rest(&f->t, w, false, &f->e), 0);
	assert_int_equal(checked(f, &f->t.plan.layout), 0);
}

/* ---- sizes ---- */

static void all_in_the_first_unit(struct store_index *index)
{
	for (uint32_t i = 1; i < index->info.dense_units; i++)
		index->dense_offsets[i] = index->info.dense_bytes;
}

static void a_unit_is_read_into_memory_of_its_own_size_alone(void **state)
{
	struct fixture *f = *state;
	test_store_write(&f->t);
	test_index_forge(f->t.folder, all_in_the_first_unit);
	assert_stale(f, checked(f, &f->t.plan.layout));
	struct store *s = opened(f);
	uint8_t *one = malloc(f->t.dense[0].bytes), *record = malloc(f->t.record_bytes - 1);
	assert_int_equal(store_read_dense(s, 0, one, f->t.dense[0].bytes, &f->e), -EIO);
	assert_non_null(strstr(f->e.text, "remove the folder"));
	assert_int_equal(store_read_record(s, 0, 0, record, f->t.record_bytes - 1, &f->e), -EIO);
	free(record);
	free(one);
	store_close(s);
	made_anew(f);
}

/* ---- a hostile journal ---- */

enum { UNITS = 17, RECORDS = 12 };

/* The places of all units by a conversion's journal. */
static void read_entries(const struct fixture *f, struct store_journal_entry entry[UNITS])
{
	uint8_t bytes[JOURNAL_HEAD + UNITS * JOURNAL_ENTRY];
	int fd = open(path_of(f, STORE_JOURNAL), O_RDONLY);
	assert_int_equal(read(fd, bytes, sizeof bytes), sizeof bytes);
	close(fd);
	for (int i = 0; i < UNITS; i++)
		assert_true(store_journal_decode_entry(&entry[i],
						       bytes + JOURNAL_HEAD + i * JOURNAL_ENTRY,
						       store_plan_digest(&f->t.plan)));
}

static void write_entry(const struct fixture *f, int i, const struct store_journal_entry *entry)
{
	uint8_t bytes[JOURNAL_ENTRY];
	store_journal_encode_entry(bytes, store_plan_digest(&f->t.plan), entry);
	int fd = open(path_of(f, STORE_JOURNAL), O_WRONLY);
	assert_int_equal(pwrite(fd, bytes, sizeof bytes, JOURNAL_HEAD + i * JOURNAL_ENTRY),
			 sizeof bytes);
	close(fd);
}

static uint32_t units_taken_up(struct fixture *f)
{
	struct store_writer *w;
	uint32_t n = 0;
	if (store_writer_open(&w, f->t.folder, &f->t.plan, &f->e))
		fail_msg("%s", f->e.text);
	for (uint32_t i = 0; i < UNITS; i++)
		n += store_writer_has(w, i);
	store_writer_close(w, true);
	return n;
}

static void all_units_in_and_not_published(struct fixture *f)
{
	struct store_writer *w;
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), 0);
	for (uint32_t i = 0; i < UNITS; i++)
		assert_int_equal(test_put(&f->t, w, i, &f->e), 0);
	store_writer_close(w, true);
}

/* Entries with right checksums. Each costs only its own unit, and no byte is read for it. */
static void a_journals_places_are_those_of_the_plan(void **state)
{
	struct fixture *f = *state;
	struct store_journal_entry right[UNITS], bad[8];
	all_units_in_and_not_published(f);
	read_entries(f, right);
	for (int i = 0; i < 8; i++)
		bad[i] = right[3];
	bad[0].place.bytes = f->t.record_bytes * 1000;
	bad[1].place.bytes = UINT64_MAX - bad[1].place.offset;
	bad[2].place.bytes = 0;
	bad[3].place.offset += (uint64_t)1 << 40;
	bad[4].place.offset = UINT64_MAX - STORE_ALIGN + 1;
	bad[5].unit = UNITS;
	bad[6].unit = UINT32_MAX;
	bad[7] = right[RECORDS + 3]; /* of a dense unit, whose place the plan knows */
	bad[7].place.bytes *= 2;
	for (int i = 0; i < 8; i++) {
		int at = i < 7 ? 3 : RECORDS + 3;
		struct stat st;
		write_entry(f, at, &bad[i]);
		assert_int_equal(units_taken_up(f), UNITS - 1);
		assert_int_equal(stat(path_of(f, STORE_EXPERTS STORE_PARTIAL), &st), 0);
		assert_true(st.st_size < 1 << 20);
		write_entry(f, at, &right[at]);
		assert_int_equal(units_taken_up(f), UNITS);
	}
	made_anew(f);
}

static void a_journal_that_no_conversion_could_have_written_begins_anew(void **state)
{
	struct fixture *f = *state;
	all_units_in_and_not_published(f);
	assert_int_equal(truncate(path_of(f, STORE_JOURNAL), (off_t)1 << 40), 0);
	assert_int_equal(units_taken_up(f), 0);
	made_anew(f);
}

#define BOTH(name)                                                  \
	cmocka_unit_test_setup_teardown(name, setup, teardown),     \
	{                                                           \
#name " (coded)", name, setup_coded, teardown, NULL \
	}

int main(void)
{
	faults_begin();
	const struct CMUnitTest tests[] = {
		BOTH(a_store_is_read_by_the_layout_that_made_it_alone),
		BOTH(a_store_of_another_layout_is_made_anew),
		BOTH(an_interrupted_conversion_of_another_layout_begins_anew),
		BOTH(a_unit_is_read_into_memory_of_its_own_size_alone),
		BOTH(a_journals_places_are_those_of_the_plan),
		BOTH(a_journal_that_no_conversion_could_have_written_begins_anew),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

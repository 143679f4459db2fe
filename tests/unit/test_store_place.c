/* A checkpoint used in place of a store: records in several pieces of several files are read
 * correctly by one request whose reads run together; bytes that change between two reads are
 * reported. */
#include "fault_io.h"
#include "cache/pager_inside.h"
#include "cache/store_in_place.h"
#include "pager_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Two layers of four experts; a record is 5000 bytes in three pieces, from two files, none of which
 * begins where direct reads could. */
enum { LAYERS = 2, EXPERTS = 4, RECORDS = LAYERS * EXPERTS, PIECES = 3, FILES = 2 };
enum { RECORD_BYTES = 5000, DENSE_UNITS = 2, DENSE_BYTES = 300, FILE_BYTES = 64 << 10 };
static const uint64_t piece_bytes[PIECES] = {3000, 77, RECORD_BYTES - 3077};

static enum pager_io io;
static const uint32_t all[EXPERTS] = {0, 1, 2, 3};

struct placed_test {
	char folder[32], kept[64], path[FILES][64];
	uint8_t bytes[FILES][FILE_BYTES];
	struct in_place_file file[FILES];
	struct in_place_piece piece[RECORDS * STORE_PIECES + STORE_PIECES];
	uint32_t first[RECORDS + 1];
	struct store_range dense[DENSE_UNITS];
	struct in_place_source place;
	struct store *store;
	struct pager *pager;
	struct pager_source *source;
	int closed;
	uint8_t dense_byte; /* all of the dense data */
	bool known;	    /* that a dense unit was, when it was last read */
	struct err e;
};

static void write_file(const char *path, const void *data, size_t bytes, off_t at)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(pwrite(fd, data, bytes, at), bytes);
	close(fd);
}

static int dense(void *ctx, uint32_t unit, bool known, void *buffer, size_t bytes, struct err *e)
{
	((struct placed_test *)ctx)->known = known;
	(void)e;
	memset(buffer, ((struct placed_test *)ctx)->dense_byte + (int)unit, bytes);
	return 0;
}

static void note_close(void *ctx)
{
	((struct placed_test *)ctx)->closed++;
}

static void describe(struct placed_test *t)
{
	uint64_t at[FILES] = {13, 1001};
	for (uint32_t i = 0; i < RECORDS; i++) {
		t->first[i + 1] = t->first[i] + PIECES;
		for (uint32_t k = 0; k < PIECES; k++) {
			uint32_t file = k == 1;
			t->piece[t->first[i] + k] =
				(struct in_place_piece){file, at[file], piece_bytes[k]};
			at[file] += piece_bytes[k] + 5;
		}
	}
	for (uint32_t i = 0; i < DENSE_UNITS; i++)
		t->dense[i] = (struct store_range){(uint64_t)i * DENSE_BYTES, DENSE_BYTES};
	t->place = (struct in_place_source){
		.name = "the source",
		.key = {.fingerprint = {1, 2}, .recipe = "auto"},
		.layout = {.digest = {{3, 4}},
			   .layers = LAYERS,
			   .experts = EXPERTS,
			   .record_bytes = RECORD_BYTES,
			   .dense = t->dense,
			   .dense_units = DENSE_UNITS},
		.files = t->file,
		.file_count = FILES,
		.pieces = t->piece,
		.first = t->first,
		.read_dense = dense,
		.close = note_close,
		.ctx = t,
	};
}

static int open_place(struct placed_test *t)
{
	return store_in_place_open(&t->store, &t->place, &t->e);
}

static void expect(const struct placed_test *t, uint32_t record, uint8_t out[RECORD_BYTES])
{
	for (uint32_t i = t->first[record]; i < t->first[record + 1]; i++) {
		memcpy(out, t->bytes[t->piece[i].file] + t->piece[i].offset, t->piece[i].bytes);
		out += t->piece[i].bytes;
	}
}

static void arrange_pieces(void *ctx, uint32_t layer, void *slot, const struct store_pieces *record)
{
	uint8_t *to = slot;
	(void)ctx;
	(void)layer;
	for (uint32_t i = 0; i < record->count; i++) {
		memcpy(to, record->piece[i].data, record->piece[i].bytes);
		to += record->piece[i].bytes;
	}
}

static void start_pager(struct placed_test *t)
{
	const struct pager_supply supply = {
		.store = t->store, .slot_bytes = RECORD_BYTES, .arrange_pieces = arrange_pieces};
	if (pager_create_with(&t->pager, 2 * SLOT, io, &t->e) ||
	    pager_add(t->pager, &t->source, &supply, &t->e))
		fail_msg("%s", t->e.text);
}

static int setup(void **state)
{
	static const char *const names[FILES] = {"one", "other"};
	struct placed_test *t = calloc(1, sizeof *t);
	static const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	unsigned seed = 1;
	char folder[32];
	memset(&faults, 0, sizeof faults);
	test_folder_make(folder);
	memcpy(t->folder, folder, sizeof folder);
	(void)snprintf(t->kept, sizeof t->kept, "%s/kept", folder);
	assert_int_equal(mkdir(t->kept, 0700), 0);
	for (int f = 0; f < FILES; f++) {
		(void)snprintf(t->path[f], sizeof t->path[f], "%s/%s", folder, names[f]);
		for (int i = 0; i < FILE_BYTES; i++)
			t->bytes[f][i] = (uint8_t)rand_r(&seed);
		write_file(t->path[f], t->bytes[f], FILE_BYTES, 0);
		t->file[f] = (struct in_place_file){t->path[f], open(t->path[f], O_RDONLY)};
		/* A change within one tick of the clock is seen all the same. */
		assert_int_equal(futimens(t->file[f].fd, long_ago), 0);
	}
	describe(t);
	if (open_place(t))
		fail_msg("%s", t->e.text);
	*state = t;
	return 0;
}

static void stop(struct placed_test *t)
{
	if (t->source)
		pager_remove(t->source);
	if (t->pager)
		pager_destroy(t->pager);
	store_close(t->store);
	t->source = NULL;
	t->pager = NULL;
	t->store = NULL;
}

static int teardown(void **state)
{
	struct placed_test *t = *state;
	faults.fail_on = 0;
	stop(t);
	for (int f = 0; f < FILES; f++)
		close(t->file[f].fd);
	test_folder_remove(t->folder);
	free(t);
	return 0;
}

static bool ready_right(const struct placed_test *t, uint32_t record, const struct pager_ready *r)
{
	uint8_t expected[RECORD_BYTES];
	expect(t, record, expected);
	return !memcmp(r->data, expected, sizeof expected);
}

/* The number of correct experts of a layer, or the code that ended the batch. */
static int read_layer(struct placed_test *t, uint32_t layer)
{
	struct pager_batch b;
	struct pager_ready r;
	int got, right = 0, failed = 0;
	assert_int_equal(pager_begin(&b, t->source, layer, all, NULL, EXPERTS, 1, &t->e), 0);
	while ((got = pager_next(&b, &r, 1, &t->e)) > 0) {
		if (r.error) {
			t->e = *r.error;
			failed = -t->e.code;
			continue;
		}
		right += ready_right(t, layer * EXPERTS + all[r.index], &r);
		pager_put(&b, &r);
	}
	pager_end(&b);
	return got < 0 ? got : failed ? failed : right;
}

/* ---- reading ---- */

static void pieces_come_together_as_one_record(void **state)
{
	struct placed_test *t = *state;
	start_pager(t);
	for (int round = 0; round < 3; round++)
		for (uint32_t layer = 0; layer < LAYERS; layer++)
			assert_int_equal(read_layer(t, layer), EXPERTS);
	struct pager_stats s;
	pager_stats(t->pager, &s);
	assert_int_equal(s.hits + s.misses, 3 * RECORDS); /* an expert is one, not three */
	assert_true(s.peak <= 2 * SLOT);
}

static void short_and_interrupted_reads_of_pieces_are_continued(void **state)
{
	struct placed_test *t = *state;
	start_pager(t);
	faults.stutter = true;
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		assert_int_equal(read_layer(t, layer), EXPERTS);
	faults.stutter = false;
}

/* A failed batch leaves reads of its other experts in flight: the next batch must not take them
 * for its own. */
static void wait_until_landed(struct pager *p)
{
	pthread_mutex_lock(&p->lock);
	while (p->flying) {
		pthread_mutex_unlock(&p->lock);
		(void)nanosleep(&fault_moment, NULL);
		pthread_mutex_lock(&p->lock);
	}
	pthread_mutex_unlock(&p->lock);
}

static void a_piece_that_fails_fails_the_expert_and_the_next_batch_tries_again(void **state)
{
	struct placed_test *t = *state;
	start_pager(t);
	for (long n = 1; n <= 2 * PIECES; n++) {
		wait_until_landed(t->pager);
		faults.fail_at = n;
		faults.fail_code = EIO;
		faults.failable = 0;
		faults.fail_on = OP_READ;
		int code = read_layer(t, (uint32_t)n % LAYERS);
		faults.fail_on = 0;
		assert_int_equal(code, -EIO);
		assert_non_null(strstr(t->e.text, t->path[0]));
		assert_non_null(strstr(t->e.text, " expert "));
		assert_int_equal(read_layer(t, ((uint32_t)n + 1) % LAYERS), EXPERTS);
	}
}

/* The first piece's read hangs; the others of its expert are begun, and end, meanwhile. All are one
 * read to the pager. */
static void the_pieces_of_an_expert_are_in_flight_together(void **state)
{
	struct placed_test *t = *state;
	struct pager_batch b;
	struct pager_ready r;
	struct pager_stats s;
	start_pager(t);
	pager_stats(t->pager, &s);
	if (strcmp(s.io, "io_uring") != 0) {
		print_message("io_uring is refused here\n");
		skip();
	}
	faults.hold_at = 1;
	assert_int_equal(pager_begin(&b, t->source, 0, all, NULL, 1, 1, &t->e), 0);
	while (faults.reads < PIECES) /* their ends, the held one's among them */
		(void)nanosleep(&fault_moment, NULL);
	assert_true(faults.held);
	pthread_mutex_lock(&t->pager->lock);
	assert_int_equal(t->pager->flying, 1);
	pthread_mutex_unlock(&t->pager->lock);
	assert_false(test_resident(t->source, 0, 0));
	faults.hold_at = 0;
	assert_int_equal(pager_next(&b, &r, 1, &t->e), 1);
	assert_true(ready_right(t, 0, &r));
	pager_put(&b, &r);
	pager_end(&b);
	pager_stats(t->pager, &s);
	assert_int_equal(s.misses, 1);
}

static void readers_get_records_piece_by_piece(void **state)
{
	struct placed_test *t = *state;
	uint8_t expected[RECORD_BYTES], got[RECORD_BYTES];
	static const uint32_t at[] = {0, 1, 2999, 3000, 3001, 3076, 3077, 4999, 5000};
	expect(t, 6, expected);
	for (size_t i = 0; i < sizeof at / sizeof *at; i++)
		for (size_t k = i; k < sizeof at / sizeof *at; k++) {
			size_t n = at[k] - at[i];
			assert_int_equal(store_read_expert(t->store, 1, 2, at[i], got, n, &t->e),
					 0);
			assert_memory_equal(got, expected + at[i], n);
		}
	assert_int_equal(store_read_expert(t->store, 1, 2, 4999, got, 2, &t->e), -EINVAL);
	assert_int_equal(store_read_record(t->store, 1, 2, got, RECORD_BYTES, &t->e), 0);
	assert_memory_equal(got, expected, RECORD_BYTES);
	assert_int_equal(store_experts_bytes(t->store), RECORDS * RECORD_BYTES);
}

/* ---- the description ---- */

static void assert_refused(struct placed_test *t)
{
	struct store *s;
	int closed = t->closed;
	assert_int_equal(store_in_place_open(&s, &t->place, &t->e), -EINVAL);
	assert_non_null(strstr(t->e.text, "the source"));
	assert_int_equal(t->closed, closed);
}

static void pieces_that_cannot_be_are_refused(void **state)
{
	struct placed_test *t = *state;
	static const struct in_place_piece bad[] = {
		{0, FILE_BYTES - 2999, 3000},
		{0, FILE_BYTES + 1, 3000},
		{0, UINT64_MAX - 5, 3000},
		{0, 13, UINT64_MAX - 12},
		{FILES, 13, 3000},
		{0, 13, 3001},
		{0, 13, 0},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		t->piece[0] = bad[i];
		assert_refused(t);
	}
	describe(t);
	t->first[1] = 0; /* a record of none */
	assert_refused(t);
	describe(t);
	for (uint32_t k = 0; k <= STORE_PIECES; k++) /* and one of too many */
		t->piece[t->first[RECORDS - 1] + k] = (struct in_place_piece){
			0, 13 + k, k < STORE_PIECES ? 1 : RECORD_BYTES - STORE_PIECES};
	t->first[RECORDS] = t->first[RECORDS - 1] + STORE_PIECES + 1;
	assert_refused(t);
	describe(t);
}

/* ---- checksums of reads ---- */

static int read_one(struct placed_test *t, uint32_t record)
{
	uint8_t got[RECORD_BYTES];
	return store_read_record(t->store, record / EXPERTS, record % EXPERTS, got, sizeof got,
				 &t->e);
}

static void change_byte(const struct placed_test *t, uint32_t record)
{
	const struct in_place_piece *p = &t->piece[t->first[record] + 2];
	uint8_t other = (uint8_t)~t->bytes[p->file][p->offset + 9];
	write_file(t->path[p->file], &other, 1, (off_t)p->offset + 9);
}

static void assert_said(struct placed_test *t, int code, const char *what)
{
	assert_int_equal(code, -ESTALE);
	assert_non_null(strstr(t->e.text, what));
	assert_non_null(strstr(t->e.text, "was changed while mounted"));
}

static void what_was_read_and_is_another_is_an_error_in_words(void **state)
{
	struct placed_test *t = *state;
	assert_int_equal(read_one(t, 5), 0);
	change_byte(t, 5);
	assert_said(t, read_one(t, 5), t->path[0]);
	/* Unread records are not compared either. */
	assert_said(t, read_one(t, 6), t->path[0]);
	start_pager(t);
	assert_said(t, read_layer(t, 1), t->path[0]);
}

static void unchanged_records_are_served_whatever_else_changed(void **state)
{
	struct placed_test *t = *state;
	assert_int_equal(read_one(t, 5), 0);
	change_byte(t, 6);
	assert_int_equal(read_one(t, 5), 0);
}

static void dense_units_are_remembered_too(void **state)
{
	struct placed_test *t = *state;
	uint8_t got[DENSE_BYTES];
	assert_int_equal(store_read_dense(t->store, 1, got, sizeof got, &t->e), 0);
	assert_int_equal(got[7], 1);
	assert_false(t->known);
	assert_int_equal(store_read_dense(t->store, 1, got, sizeof got, &t->e), 0);
	assert_true(t->known);
	assert_int_equal(store_read_dense(t->store, 1, got, 9, &t->e), -EIO);
	t->dense_byte = 4;
	assert_said(t, store_read_dense(t->store, 1, got, sizeof got, &t->e), "the source");
}

static void open_again(struct placed_test *t)
{
	stop(t);
	if (open_place(t) || store_in_place_use_folder(t->store, t->kept, &t->e))
		fail_msg("%s", t->e.text);
}

/* With the same number, as a disk that fails would leave it. */
static void the_next_mount_knows_what_this_one_read(void **state)
{
	struct placed_test *t = *state;
	open_again(t);
	assert_int_equal(read_one(t, 5), 0);
	assert_int_equal(store_in_place_save_sums(t->store, &t->e), 0);
	change_byte(t, 5);
	open_again(t);
	assert_said(t, read_one(t, 5), t->path[0]);
	t->place.key.fingerprint[1]++; /* by its times it is another source */
	open_again(t);
	assert_int_equal(read_one(t, 5), 0);
}

static void nothing_is_written_where_nothing_was_read(void **state)
{
	struct placed_test *t = *state;
	uint64_t sums[RECORDS + DENSE_UNITS];
	const struct store_sums_identity of = {{1, 2}, {3, 4}, RECORDS + DENSE_UNITS};
	open_again(t);
	assert_int_equal(store_in_place_save_sums(t->store, &t->e), 0);
	assert_int_equal(store_sums_read(sums, &of, t->kept, &t->e), -ENOENT);
	assert_int_equal(read_one(t, 1), 0);
	assert_int_equal(store_in_place_save_sums(t->store, &t->e), 0);
	assert_int_equal(store_sums_read(sums, &of, t->kept, &t->e), 0);
	for (uint32_t i = 0; i < RECORDS + DENSE_UNITS; i++)
		assert_int_equal(sums[i] != 0, i == 1);
}

/* ---- the file of sums ---- */

static void a_damaged_file_of_sums_says_nothing(void **state)
{
	struct placed_test *t = *state;
	enum { UNITS = 3, BYTES = SUMS_HEAD + 8 * (UNITS + 1) };
	const uint64_t sums[UNITS] = {7, 0, 9};
	const struct store_sums_identity of = {{1, 2}, {3, 4}, UNITS};
	uint64_t got[UNITS];
	uint8_t file[BYTES + 1] = {0};
	char path[80];
	(void)snprintf(path, sizeof path, "%s/sums", t->kept);
	assert_int_equal(store_sums_write(sums, &of, t->kept, &t->e), 0);
	assert_int_equal(store_sums_read(got, &of, t->kept, &t->e), 0);
	assert_memory_equal(got, sums, sizeof sums);
	int fd = open(path, O_RDONLY);
	assert_int_equal(read(fd, file, sizeof file), BYTES);
	close(fd);
	for (size_t i = 0; i < BYTES; i++) {
		file[i] ^= 1;
		int code = store_sums_decode(got, &of, file, BYTES, "folder", &t->e);
		assert_int_equal(code, i < SUMS_HEAD ? -ENOENT : -EIO);
		assert_non_null(strstr(t->e.text, "folder/sums"));
		file[i] ^= 1;
	}
	for (size_t n = 0; n <= BYTES + 1; n++)
		if (n != BYTES)
			assert_int_equal(store_sums_decode(got, &of, file, n, "folder", &t->e),
					 -EIO);
	write_file(path, "damage", 6, SUMS_HEAD);
	open_again(t); /* whose sums are of 10 units */
	assert_int_equal(read_one(t, 5), 0);
}

static void a_crash_while_sums_are_kept_leaves_the_old_ones(void **state)
{
	struct placed_test *t = *state;
	const uint64_t old[1] = {7}, new[1] = {8};
	const struct store_sums_identity of = {{1, 2}, {3, 4}, 1};
	uint64_t got[1];
	assert_int_equal(store_sums_write(old, &of, t->kept, &t->e), 0);
	static const unsigned ops[] = {OP_WRITE, OP_FOLDER};
	for (size_t i = 0; i < 2; i++) {
		faults.fail_code = EIO;
		faults.fail_at = 0;
		faults.fail_on = ops[i];
		assert_int_equal(store_sums_write(new, &of, t->kept, &t->e), -EIO);
		faults.fail_on = 0;
		assert_int_equal(store_sums_read(got, &of, t->kept, &t->e), 0);
		assert_int_equal(got[0], 7);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	faults_begin();
	const struct CMUnitTest reading[] = {
		TEST(pieces_come_together_as_one_record),
		TEST(short_and_interrupted_reads_of_pieces_are_continued),
		TEST(a_piece_that_fails_fails_the_expert_and_the_next_batch_tries_again),
		TEST(what_was_read_and_is_another_is_an_error_in_words),
	};
	/* pread is one thread, which makes one read at a time. */
	const struct CMUnitTest io_uring[] = {
		TEST(the_pieces_of_an_expert_are_in_flight_together),
	};
	const struct CMUnitTest tests[] = {
		TEST(readers_get_records_piece_by_piece),
		TEST(pieces_that_cannot_be_are_refused),
		TEST(unchanged_records_are_served_whatever_else_changed),
		TEST(dense_units_are_remembered_too),
		TEST(the_next_mount_knows_what_this_one_read),
		TEST(nothing_is_written_where_nothing_was_read),
		TEST(a_damaged_file_of_sums_says_nothing),
		TEST(a_crash_while_sums_are_kept_leaves_the_old_ones),
	};
	io = PAGER_IO_URING;
	int failed = cmocka_run_group_tests_name("io_uring", reading, NULL, NULL);
	failed += cmocka_run_group_tests_name("io_uring alone", io_uring, NULL, NULL);
	io = PAGER_IO_PREAD;
	failed += cmocka_run_group_tests_name("pread", reading, NULL, NULL);
	return failed + cmocka_run_group_tests(tests, NULL, NULL);
}

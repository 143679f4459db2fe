/* The pager on a bad disk (short, failing and hanging reads, a ring that takes nothing) and
 * without memory. Results are right or an error that names the expert, and the pool is intact
 * afterwards. */
#include "fault_io.h"
#include "memory_help.h"
#include "cache/pager_inside.h"
#include "pager_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>

static enum pager_io io;

static const uint32_t all[8] = {0, 1, 2, 3, 4, 5, 6, 7};

static int setup(void **state)
{
	struct test_pager *f = malloc(sizeof *f);
	memset(&faults, 0, sizeof faults);
	test_pager_open(f, 8, 5, io);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	faults.fail_on = 0;
	faults.stutter = false;
	test_pager_close(*state);
	free(*state);
	return 0;
}

static void fail_reads(long at, int code)
{
	faults.fail_at = at;
	faults.fail_code = code;
	faults.failable = 0;
	faults.fail_on = OP_READ; /* last: the pager's threads look at it first */
}

static void assert_whole(struct test_pager *f)
{
	struct pager_stats s = test_pager_settle(f);
	faults.fail_on = 0;
	for (uint32_t layer = 0; layer < 3; layer++)
		assert_int_equal(test_batch(f, layer, all, 8), 8);
	pager_stats(f->pager, &s);
	assert_true(s.peak <= 5 * SLOT);
}

static void short_and_interrupted_reads_are_continued(void **state)
{
	struct test_pager *f = *state;
	faults.stutter = true;
	for (uint32_t round = 0; round < 6; round++)
		assert_int_equal(test_batch(f, round % 3, all, 8), 8);
	faults.stutter = false;
	assert_whole(f);
}

static void a_read_that_fails_names_the_expert_and_the_next_batch_tries_again(void **state)
{
	struct test_pager *f = *state;
	for (long n = 1; n <= 7; n++) { /* of 8 reads, one may be saved by an expert that stayed */
		fail_reads(n, EIO);
		assert_int_equal(test_batch(f, (uint32_t)n % 3, all, 8), -EIO);
		assert_non_null(strstr(f->e.text, "experts.safetensors"));
		assert_non_null(strstr(f->e.text, " expert "));
		assert_non_null(strstr(f->e.text, "remove the folder"));
		assert_whole(f);
		assert_int_equal(pager_set_budget(f->pager, SLOT, &f->e), 0); /* forget most */
		assert_int_equal(pager_set_budget(f->pager, 5 * SLOT, &f->e), 0);
	}
}

static void every_read_may_fail_and_the_pool_stays_whole(void **state)
{
	struct test_pager *f = *state;
	for (int i = 0; i < 5; i++) {
		fail_reads(0, EIO);
		assert_int_equal(test_batch(f, 0, all, 8), -EIO);
		assert_int_equal(test_pager_settle(f).used, 0);
	}
	assert_whole(f);
}

/* Runs a batch of all experts of a layer. Returns how many came and were right; *failed: how many
 * were returned with words. */
static uint32_t run_to_the_end(struct test_pager *f, uint32_t layer, uint32_t *failed)
{
	struct pager_batch b;
	struct pager_ready ready[3];
	bool seen[8] = {false};
	uint32_t right = 0;
	int got;
	*failed = 0;
	assert_int_equal(pager_begin(&b, f->source, layer, all, NULL, 8, 1, &f->e), 0);
	while ((got = pager_next(&b, ready, 3, &f->e)) > 0)
		for (int i = 0; i < got; i++) {
			uint32_t expert = ready[i].index;
			char words[32];
			assert_false(seen[expert]);
			seen[expert] = true;
			assert_int_equal(!ready[i].data, !!ready[i].error);
			(void)snprintf(words, sizeof words, "layer %u expert %u", layer, expert);
			if (ready[i].error)
				assert_non_null(strstr(ready[i].error->text, words));
			else
				right += test_slot_right(&f->t, layer, expert, ready[i].data);
			*failed += ready[i].error != NULL;
			pager_put(&b, &ready[i]);
		}
	assert_int_equal(got, 0);
	pager_end(&b);
	return right;
}

static void an_expert_that_cannot_be_read_leaves_the_others_of_its_batch(void **state)
{
	struct test_pager *f = *state;
	uint32_t failed;
	for (long n = 0; n <= 7; n++) { /* 0: every read, of those that miss */
		uint32_t misses = 0;
		for (uint32_t expert = 0; expert < 8; expert++)
			misses += !test_resident(f->source, (uint32_t)n % 3, expert);
		fail_reads(n, EIO);
		assert_int_equal(run_to_the_end(f, (uint32_t)n % 3, &failed), 8 - (n ? 1 : misses));
		assert_int_equal(failed, n ? 1 : misses);
		assert_whole(f);
		assert_int_equal(pager_set_budget(f->pager, SLOT, &f->e), 0); /* forget most */
		assert_int_equal(pager_set_budget(f->pager, 5 * SLOT, &f->e), 0);
	}
}

static void a_file_that_ends_too_early_is_an_error(void **state)
{
	struct test_pager *f = *state;
	fail_reads(0, 0);
	assert_int_equal(test_batch(f, 2, all, 1), -EIO);
	assert_non_null(strstr(f->e.text, "ends before layer 2 expert 0"));
	assert_whole(f);
}

static void where_direct_reads_are_refused_plain_ones_do(void **state)
{
	struct test_pager *f = *state;
	if (store_expert(f->store, 0, 0).direct_fd < 0) {
		print_message("this file system has no direct reads: not tried\n");
		skip();
	}
	fail_reads(1, EINVAL);
	assert_int_equal(test_batch(f, 0, all, 8), 8);
	assert_whole(f);
}

static void a_ring_that_takes_nothing_is_replaced_by_plain_reads(void **state)
{
	struct test_pager *f = *state;
	faults.fail_code = EAGAIN;
	faults.fail_on = OP_SUBMIT;
	for (uint32_t layer = 0; layer < 3; layer++)
		assert_int_equal(test_batch(f, layer, all, 8), 8);
	assert_whole(f);
}

static void a_ring_that_hesitates_goes_on(void **state)
{
	struct test_pager *f = *state;
	assert_int_equal(test_batch(f, 0, all, 2), 2);
	struct pager_batch b;
	struct pager_ready ready[8];
	int got, n = 0;
	assert_int_equal(pager_begin(&b, f->source, 1, all, NULL, 8, 1, &f->e), 0);
	assert_int_equal(pager_next(&b, ready, 1, &f->e), 1);
	faults.fail_code = EBUSY;
	faults.fail_at = 1;
	faults.failable = 0;
	faults.fail_on = OP_SUBMIT; /* with reads in flight the next submission fails once */
	do {
		pager_put(&b, &ready[0]);
		n++;
	} while ((got = pager_next(&b, ready, 1, &f->e)) > 0);
	pager_end(&b);
	assert_int_equal(got, 0);
	assert_int_equal(n, 8);
	assert_whole(f);
}

static void stop_ring_and_arrange(void *ctx, uint32_t layer, void *slot, const void *record)
{
	if (*(_Atomic bool *)ctx)
		faults.fail_on = OP_SUBMIT;
	test_arrange(NULL, layer, slot, record);
}

/* All reads are requested, some are in flight, then the ring takes no more. No new request will
 * come, so the pager must not wait only for new work. */
static void a_ring_that_stops_in_the_middle_is_replaced_by_plain_reads(void **state)
{
	struct test_pager *f = *state;
	faults.fail_code = EAGAIN;
	for (uint32_t round = 0; round < 9; round++) {
		struct pager_source *s;
		struct pager *p;
		_Atomic bool stop = false;
		assert_int_equal(pager_create_with(&p, 8 * SLOT, io, &f->e), 0);
		assert_int_equal(test_pager_add(f, p, &s, 5000, stop_ring_and_arrange, &stop), 0);
		for (uint32_t layer = 0; layer < 3; layer++) {
			stop = layer == 2;
			assert_int_equal(test_batch_most(s, &f->t, layer, all, 8, 8, &f->e), 8);
		}
		faults.fail_on = 0;
		pager_remove(s);
		pager_destroy(p);
	}
	assert_whole(f);
}

/* ---- a disk that hangs ---- */

struct apart { /* a batch in its own thread */
	struct test_pager *f;
	struct err e;
	uint32_t layer;
	int right;
	pthread_t thread;
};

static void *run_apart(void *arg)
{
	struct apart *a = arg;
	a->right = test_batch_most(a->f->source, &a->f->t, a->layer, all, 2, 2, &a->e);
	return NULL;
}

/* The read of expert 1 hangs when this returns. It is the batch's only read, since several reads
 * may end in any order. */
static void begin_hanging(struct apart *a, struct test_pager *f)
{
	*a = (struct apart){.f = f};
	assert_int_equal(test_batch(f, 0, all, 1), 1);
	faults.reads = 0;
	faults.hold_at = 1;
	assert_int_equal(pthread_create(&a->thread, NULL, run_apart, a), 0);
	while (!faults.held)
		(void)nanosleep(&fault_moment, NULL);
}

static void let_go(struct apart *a)
{
	faults.hold_at = 0;
	assert_int_equal(pthread_join(a->thread, NULL), 0);
	assert_int_equal(a->right, 2);
}

static void while_one_read_hangs_other_batches_go_on(void **state)
{
	struct test_pager *f = *state;
	struct apart a;
	struct pager_stats s;
	struct pager_expert x;
	begin_hanging(&a, f);
	for (int i = 0; i < 4; i++)
		assert_int_equal(test_batch(f, 1 + (uint32_t)i % 2, all, 8), 8);
	pager_stats(f->pager, &s);
	pager_inspect(f->source, 0, 1, &x);
	assert_false(x.resident);
	let_go(&a);
	assert_whole(f);
}

static void while_one_read_hangs_the_budget_can_be_changed(void **state)
{
	struct test_pager *f = *state;
	struct apart a;
	begin_hanging(&a, f);
	assert_int_equal(pager_set_budget(f->pager, SLOT, &f->e), 0);
	assert_int_equal(pager_set_budget(f->pager, 5 * SLOT, &f->e), 0);
	let_go(&a);
	assert_whole(f);
}

static void batches_that_wait_for_a_hanging_read_get_it_when_it_ends(void **state)
{
	struct test_pager *f = *state;
	struct apart a, b = {.f = f};
	begin_hanging(&a, f);
	assert_int_equal(pthread_create(&b.thread, NULL, run_apart, &b), 0);
	let_go(&a);
	assert_int_equal(pthread_join(b.thread, NULL), 0);
	assert_int_equal(b.right, 2);
	assert_whole(f);
}

static bool is_set(void *flag)
{
	return *(_Atomic bool *)flag;
}

static void a_batch_that_forgoes_what_hangs_ends_without_it(void **state)
{
	struct test_pager *f = *state;
	struct pager_batch b;
	struct pager_ready ready[2];
	_Atomic bool stop = true;
	faults.reads = 0;
	faults.hold_at = 1;
	assert_int_equal(pager_begin(&b, f->source, 0, all, NULL, 2, 1, &f->e), 0);
	while (!faults.held)
		(void)nanosleep(&fault_moment, NULL);
	b.stop = is_set;
	b.stop_ctx = &stop;
	assert_int_equal(pager_next(&b, ready, 2, &f->e), -ECANCELED);
	stop = false; /* the other one comes, whichever hangs */
	assert_int_equal(pager_next(&b, ready, 2, &f->e), 1);
	assert_true(test_slot_right(&f->t, 0, ready[0].index, ready[0].data));
	pager_forgo(&b, !ready[0].index);
	pager_forgo(&b, ready[0].index); /* it has it: no effect */
	assert_int_equal(b.held, 1);
	pager_put(&b, &ready[0]);
	assert_int_equal(pager_next(&b, ready, 2, &f->e), 0);
	pager_end(&b);
	faults.hold_at = 0;
	assert_whole(f);
}

/* ---- a hanging source and others ---- */

struct beside { /* a pager for two sources, of which the first hangs */
	struct test_pager f;
	struct test_store other;
	struct store_writer *writer;
	struct store *store; /* the other's; or the view of one that has no expert yet */
	struct pager_source *source;
	struct apart apart; /* a batch of the first */
};

static void beside_open(struct beside *b)
{
	memset(b, 0, sizeof *b);
	test_pager_open(&b->f, 8, 40, io);
	test_store_init(&b->other, b->f.parent, "other");
	b->other.experts = 8;
	test_store_plan(&b->other);
	pthread_mutex_lock(&b->f.pager->lock);
	b->f.pager->depth.depth = DEPTH_MOST; /* the possible result of the read */
	pthread_mutex_unlock(&b->f.pager->lock);
}

static void *run_in_the_other(void *arg)
{
	struct beside *b = arg;
	b->apart.right = test_batch_most(b->source, &b->other, 0, all, 8, 8, &b->apart.e);
	return NULL;
}

/* While a number of threads hang for one source, batches of the other are read. */
static void others_go_on(struct beside *b, const _Atomic long *hanging)
{
	assert_int_equal(pthread_create(&b->apart.thread, NULL, run_in_the_other, b), 0);
	while (*hanging < b->f.pager->worker_share)
		(void)nanosleep(&fault_moment, NULL);
	for (uint32_t layer = 0; layer < 3; layer++)
		assert_int_equal(test_batch(&b->f, layer, all, 8), 8);
	assert_int_equal(*hanging, b->f.pager->worker_share);
}

static void beside_close(struct beside *b)
{
	assert_int_equal(pthread_join(b->apart.thread, NULL), 0);
	assert_int_equal(b->apart.right, 8);
	pager_remove(b->source);
	store_close(b->store);
	test_pager_close(&b->f);
}

static void while_all_reads_of_one_source_hang_those_of_another_go_on(void **state)
{
	(void)state;
	struct beside b;
	struct stat st;
	beside_open(&b);
	test_store_write(&b.other);
	assert_int_equal(store_open(&b.store, b.other.folder, NULL, &b.f.e), 0);
	const struct pager_supply supply = {
		.store = b.store, .slot_bytes = 5000, .arrange = test_arrange};
	assert_int_equal(pager_add(b.f.pager, &b.source, &supply, &b.f.e), 0);
	assert_int_equal(fstat(store_expert(b.store, 0, 0).fd, &st), 0);
	faults.hang_file = st.st_ino;
	others_go_on(&b, &faults.hanging);
	faults.hang_file = 0;
	beside_close(&b);
}

static _Atomic long making;
static _Atomic bool make_on;

/* The other model, whose conversion has made nothing yet: its experts are made this way. */
static void beside_makes(struct beside *b, pager_make_fn *make, pager_keep_fn *keep)
{
	if (store_writer_open(&b->writer, b->other.folder, &b->other.plan, &b->f.e) ||
	    store_writer_view(b->writer, &b->store, &b->f.e))
		fail_msg("%s", b->f.e.text);
	const struct pager_supply supply = {.store = b->store,
					    .slot_bytes = 5000,
					    .arrange = test_arrange,
					    .make = make,
					    .keep = keep,
					    .ctx = b};
	assert_int_equal(pager_add(b->f.pager, &b->source, &supply, &b->f.e), 0);
}

/* A checkpoint whose disk hangs. */
static int make_late(void *ctx, uint32_t layer, uint32_t expert, void *record, void **made,
		     struct err *e)
{
	const struct beside *b = ctx;
	(void)e;
	making++;
	while (!make_on)
		(void)nanosleep(&fault_moment, NULL);
	making--;
	*made = NULL;
	test_unit_fill(&b->other, layer * b->other.experts + expert, record);
	return 0;
}

static void while_experts_of_one_source_are_made_and_hang_those_of_another_go_on(void **state)
{
	(void)state;
	struct beside b;
	beside_open(&b);
	beside_makes(&b, make_late, NULL);
	make_on = false;
	others_go_on(&b, &making);
	make_on = true;
	store_writer_close(b.writer, false);
	beside_close(&b);
}

static _Atomic long keeping, kept;
static _Atomic bool keep_on;

static int make_at_once(void *ctx, uint32_t layer, uint32_t expert, void *record, void **made,
			struct err *e)
{
	const struct beside *b = ctx;
	(void)e;
	*made = ctx;
	test_unit_fill(&b->other, layer * b->other.experts + expert, record);
	return 0;
}

/* A store whose disk hangs. */
static void keep_late(void *ctx, uint32_t layer, uint32_t expert, const void *record, void *made)
{
	const struct beside *b = ctx;
	uint8_t right[5000];
	assert_ptr_equal(made, ctx);
	keeping++;
	while (!keep_on)
		(void)nanosleep(&fault_moment, NULL);
	for (int i = 0; i < 20; i++) /* for a batch that does not wait for it */
		(void)nanosleep(&fault_moment, NULL);
	test_unit_fill(&b->other, layer * b->other.experts + expert, right);
	assert_memory_equal(record, right, sizeof right);
	keeping--;
	kept++;
}

static void a_batch_gets_a_made_expert_before_it_is_kept_and_its_source_stays(void **state)
{
	(void)state;
	struct beside b;
	beside_open(&b);
	uint32_t share = b.f.pager->worker_share;
	beside_makes(&b, make_at_once, keep_late);
	keeping = kept = 0;
	keep_on = false;
	assert_int_equal(test_batch_most(b.source, &b.other, 0, all, share, (int)share, &b.f.e),
			 share);
	while (keeping < share)
		(void)nanosleep(&fault_moment, NULL);
	for (uint32_t layer = 0; layer < 3; layer++) /* of the other source */
		assert_int_equal(test_batch(&b.f, layer, all, 8), 8);
	assert_int_equal(keeping, share);
	keep_on = true;
	pager_remove(b.source);
	assert_int_equal(kept, share);
	store_writer_close(b.writer, false);
	store_close(b.store);
	test_pager_close(&b.f);
}

/* ---- no memory ---- */

static void without_memory_for_the_pool_a_batch_ends_in_words(void **state)
{
	struct test_pager *f = *state;
	struct rlimit before;
	test_memory_limitable();
	assert_int_equal(test_batch(f, 0, all, 1), 1); /* buffers are made when first used */
	test_memory_limit(RLIMIT_AS, 0, &before);
	int rc = test_batch(f, 1, all, 8);
	test_memory_unlimit(RLIMIT_AS, &before);
	if (rc != 8) { /* or the pool manages with its memory */
		assert_int_equal(rc, -ENOMEM);
		/* A thread that has allocated nothing before finds no memory for the reason either. */
		if (!strstr(f->e.text, "lower the budget") && !strstr(f->e.text, "out of memory for the reason"))
			fail_msg("%s", f->e.text);
	}
	assert_whole(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	faults_begin();
	const struct CMUnitTest tests[] = {
		TEST(short_and_interrupted_reads_are_continued),
		TEST(a_read_that_fails_names_the_expert_and_the_next_batch_tries_again),
		TEST(every_read_may_fail_and_the_pool_stays_whole),
		TEST(an_expert_that_cannot_be_read_leaves_the_others_of_its_batch),
		TEST(a_file_that_ends_too_early_is_an_error),
		TEST(where_direct_reads_are_refused_plain_ones_do),
		TEST(a_ring_that_takes_nothing_is_replaced_by_plain_reads),
		TEST(a_ring_that_hesitates_goes_on),
		TEST(a_ring_that_stops_in_the_middle_is_replaced_by_plain_reads),
		TEST(while_one_read_hangs_other_batches_go_on),
		TEST(while_one_read_hangs_the_budget_can_be_changed),
		TEST(batches_that_wait_for_a_hanging_read_get_it_when_it_ends),
		TEST(a_batch_that_forgoes_what_hangs_ends_without_it),
		cmocka_unit_test(
			while_experts_of_one_source_are_made_and_hang_those_of_another_go_on),
		cmocka_unit_test(a_batch_gets_a_made_expert_before_it_is_kept_and_its_source_stays),
		TEST(without_memory_for_the_pool_a_batch_ends_in_words),
	};
	const struct CMUnitTest plain[] = {
		/* reads of a ring occupy no thread */
		cmocka_unit_test(while_all_reads_of_one_source_hang_those_of_another_go_on),
	};
	io = PAGER_IO_URING;
	int failed = cmocka_run_group_tests_name("faults by io_uring", tests, NULL, NULL);
	io = PAGER_IO_PREAD;
	failed += cmocka_run_group_tests_name("a source that hangs, by pread", plain, NULL, NULL);
	return failed + cmocka_run_group_tests_name("faults by pread", tests, NULL, NULL);
}

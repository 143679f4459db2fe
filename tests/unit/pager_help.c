/* A pager over a small store; see the header. */
#include "pager_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RECORD = 5000, BATCH_MOST = 16 };

void test_arrange(void *ctx, uint32_t layer, void *slot, const void *record)
{
	(void)ctx;
	(void)layer;
	for (int i = 0; i < RECORD; i++)
		((uint8_t *)slot)[i] = (uint8_t) ~((const uint8_t *)record)[i];
}

bool test_slot_right(const struct test_store *t, uint32_t layer, uint32_t expert, const void *slot)
{
	uint8_t expected[RECORD];
	test_unit_fill(t, layer * t->experts + expert, expected);
	test_arrange(NULL, layer, expected, expected);
	return memcmp(slot, expected, RECORD) == 0;
}

int test_pager_add(struct test_pager *f, struct pager *p, struct pager_source **out,
		   size_t slot_bytes, pager_arrange_fn *arrange, void *ctx)
{
	const struct pager_supply supply = {
		.store = f->store, .slot_bytes = slot_bytes, .arrange = arrange, .ctx = ctx};
	return pager_add(p, out, &supply, &f->e);
}

void test_pager_open(struct test_pager *f, uint32_t experts, uint32_t slots, enum pager_io io)
{
	memset(f, 0, sizeof *f);
	test_folder_make(f->parent);
	test_store_init(&f->t, f->parent, "store");
	f->t.experts = experts;
	test_store_plan(&f->t);
	test_store_write(&f->t);
	if (store_open(&f->store, f->t.folder, NULL, &f->e) ||
	    pager_create_with(&f->pager, (uint64_t)slots * SLOT, io, &f->e) ||
	    pager_set_policy(f->pager, "lru", &f->e) ||
	    test_pager_add(f, f->pager, &f->source, RECORD, test_arrange, NULL))
		fail_msg("%s", f->e.text);
}

struct pager_stats test_pager_settle(const struct test_pager *f)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	struct pager_stats s;
	for (pager_stats(f->pager, &s); s.used != s.experts_resident * SLOT;
	     pager_stats(f->pager, &s))
		nanosleep(&moment, NULL);
	return s;
}

bool test_resident(const struct pager_source *s, uint32_t layer, uint32_t expert)
{
	struct pager_expert x;
	pager_inspect(s, layer, expert, &x);
	return x.resident;
}

void test_pager_close(struct test_pager *f)
{
	struct pager_stats stats;
	if (f->source)
		pager_remove(f->source);
	pager_stats(f->pager, &stats);
	assert_int_equal(stats.used, 0);
	assert_int_equal(stats.experts_resident, 0);
	pager_destroy(f->pager);
	store_close(f->store);
	test_folder_remove(f->parent);
}

int test_batch_most(struct pager_source *s, const struct test_store *t, uint32_t layer,
		    const uint32_t *experts, uint32_t n, uint32_t most, struct err *e)
{
	struct pager_batch b;
	struct pager_ready ready[BATCH_MOST];
	bool seen[BATCH_MOST] = {false};
	int got, right = 0, failed = 0;
	int rc = pager_begin(&b, s, layer, experts, NULL, n, 1, e);
	if (rc)
		return rc;
	while ((got = pager_next(&b, ready, most, e)) > 0)
		for (int i = 0; i < got; i++) {
			uint32_t k = ready[i].index;
			if (ready[i].error) {
				failed = -ready[i].error->code;
				*e = *ready[i].error;
			} else {
				right += !seen[k] &&
					 test_slot_right(t, layer, experts[k], ready[i].data);
			}
			seen[k] = true;
			pager_put(&b, &ready[i]);
		}
	pager_end(&b);
	return got < 0 ? got : failed ? failed : right;
}

int test_batch(struct test_pager *f, uint32_t layer, const uint32_t *experts, uint32_t n)
{
	return test_batch_most(f->source, &f->t, layer, experts, n, BATCH_MOST, &f->e);
}

void test_use(struct test_pager *f, struct pager_source *s, uint32_t layer, uint32_t expert,
	      float credit)
{
	struct pager_batch b;
	struct pager_ready ready;
	if (pager_begin(&b, s, layer, &expert, &credit, 1, 1, &f->e) ||
	    pager_next(&b, &ready, 1, &f->e) != 1)
		fail_msg("%s", f->e.text);
	assert_true(test_slot_right(&f->t, layer, expert, ready.data));
	pager_put(&b, &ready);
	pager_end(&b);
}

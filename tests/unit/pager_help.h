/* A pager over a small store, and batches that check the experts they get. */
#ifndef MOEFS_TESTS_UNIT_PAGER_HELP_H
#define MOEFS_TESTS_UNIT_PAGER_HELP_H

#include "cache/pager.h"
#include "store_help.h"

static const size_t SLOT = 8192; /* two pages: the slot of a record of 5000 bytes */

struct test_pager {
	char parent[32];
	struct test_store t;
	struct store *store;
	struct pager *pager;
	struct pager_source *source;
	struct err e;
};

/* 3 layers of `experts` experts of 5000 bytes, in a pool of `slots`. */
void test_pager_open(struct test_pager *f, uint32_t experts, uint32_t slots, enum pager_io io);
void test_pager_close(struct test_pager *f);
/* Waits until no read is in flight: memory in use then equals resident experts; else fails. */
struct pager_stats test_pager_settle(const struct test_pager *f);
bool test_resident(const struct pager_source *s, uint32_t layer, uint32_t expert);
/* A source of the same store in the pool p. */
int test_pager_add(struct test_pager *f, struct pager *p, struct pager_source **out,
		   size_t slot_bytes, pager_arrange_fn *arrange, void *ctx);

/* "Arranged" is every byte inverted, so that a raw record is not taken for it. */
void test_arrange(void *ctx, uint32_t layer, void *slot, const void *record);
bool test_slot_right(const struct test_store *t, uint32_t layer, uint32_t expert, const void *slot);

/* Runs a batch, taking up to `most` experts at a time. Returns the number of correct experts, each
 * counted once, or the negative errno that ended the batch. */
int test_batch_most(struct pager_source *s, const struct test_store *t, uint32_t layer,
		    const uint32_t *experts, uint32_t n, uint32_t most, struct err *e);
int test_batch(struct test_pager *f, uint32_t layer, const uint32_t *experts, uint32_t n);
/* A batch of one expert that counts `credit`; fails the test if the expert is wrong. */
void test_use(struct test_pager *f, struct pager_source *s, uint32_t layer, uint32_t expert,
	      float credit);

#endif

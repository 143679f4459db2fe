/* Small stores for tests: every byte of unit u follows from u and a seed, so any unit can be made
 * and checked without the others. Records of a coded store shrink to less than 0.75, and each to
 * another size. */
#ifndef MOEFS_TESTS_UNIT_STORE_HELP_H
#define MOEFS_TESTS_UNIT_STORE_HELP_H

#include "cache/store.h"
#include "cache/store_format.h"

#include <stdbool.h>
#include <stdint.h>

struct test_store {
	char folder[64]; /* does not exist until a store is written */
	uint32_t layers, experts, dense_units;
	uint64_t record_bytes, seed;
	uint64_t layer_bytes[8]; /* of each layer's records, record_bytes at most; 0: all are of
				    that */
	enum store_codec codec;
	struct store_key key;
	struct store_digest digest;
	uint8_t head[STORE_ALIGN], dense_head[100];
	struct store_range dense[16];
	struct store_plan plan;
};

/* 3 layers of 4 experts of 5000 bytes, and 5 dense units of different sizes. */
void test_store_init(struct test_store *t, const char *parent, const char *name);
/* Call after changing the fields before the heads. */
void test_store_plan(struct test_store *t);

uint32_t test_units(const struct test_store *t);
uint64_t test_unit_bytes(const struct test_store *t, uint32_t unit);
void test_unit_fill(const struct test_store *t, uint32_t unit, uint8_t *out);
/* Any unit fits. */
enum { TEST_UNIT_MOST = 1 << 16 };

/* Writes a unit in several pieces. The first failure's code, or 0. */
int test_put(const struct test_store *t, struct store_writer *w, uint32_t unit, struct err *e);
/* Writes all units that the writer lacks and finishes: 0, or the first failure's code. Frees the
 * writer in any case; `keep` applies after a failure. */
int test_write_rest(const struct test_store *t, struct store_writer *w, bool keep, struct err *e);
/* Writes the whole store; fails the test if it cannot. */
void test_store_write(const struct test_store *t);
/* True if every expert and every dense unit of an open store verifies and has the right bytes. */
bool test_store_right(const struct test_store *t, const struct store *s);

/* Rewrites a store's index after a change, with the right checksum. */
void test_index_forge(const char *folder, void (*change)(struct store_index *index));

/* Makes a folder under $TMPDIR or /tmp; removes it with its contents. */
void test_folder_make(char out[32]);
void test_folder_remove(const char *path);

/* A group's own folder: cmocka's setup makes it there, or where files are fastest
 * (test_memory_folder), and teardown removes it. */
extern char test_folder[32];
int test_folder_setup(void **state);
int test_folder_setup_fast(void **state);
int test_folder_teardown(void **state);

#endif

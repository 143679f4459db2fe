/* Layers whose experts differ in size: plans, stores and pools. If all layers are alike, nothing
 * changes. */
#include "engine/family/plan.h"
#include "golden.h"
#include "pager_help.h"

#include "cache/store_files.h"
#include "engine/family/family.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static struct err e;

static void assert_words(int code, int wanted, const char *words)
{
	if (code != -wanted || !strstr(e.text, words))
		fail_msg("%d, \"%s\" instead of %d and \"%s\"", code, e.text, -wanted, words);
}

/* ---- plans ---- */

/* Of a file that keeps more of what experts give in one layer, or of nothing. */
struct formats {
	uint32_t layer; /* whose down projection is in TQ4 */
	bool unfit;	/* and has blocks that its columns do not fill */
};

static void of_a_file(void *ctx, struct tensor_id id, struct shape *s)
{
	const struct formats *f = ctx;
	if (id.role != TENSOR_EXPERT_DOWN || id.layer != f->layer)
		return;
	s->format = f->unfit ? FORMAT_Q6_K : FORMAT_TQ4;
	s->cols -= f->unfit;
}

static struct config *config_of(const char *fixture)
{
	struct config *c = malloc(sizeof *c);
	assert_non_null(c);
	if (config_read(c, test_fixture(fixture), &e))
		fail_msg("%s", e.text);
	return c;
}

static int plan_of(struct plan *p, const struct config *c, struct formats f)
{
	struct recipe r;
	assert_int_equal(recipe_find(&r, "tq3", &e), 0);
	return plan_make_with(p, c, &r, &(struct plan_formats){of_a_file, &f}, &e);
}

static void a_plan_has_a_record_of_each_layer(void **state)
{
	(void)state;
	struct config *c = config_of("qwen3_moe");
	struct plan alike, mixed;
	assert_int_equal(plan_of(&alike, c, (struct formats){.layer = UINT32_MAX}), 0);
	assert_int_equal(plan_of(&mixed, c, (struct formats){.layer = 1}), 0);
	assert_null(alike.layer_record_bytes);
	assert_null(plan_layout(&alike).layer_bytes);
	uint64_t sum = 0;
	for (uint32_t i = 0; i < mixed.routed_layers; i++) {
		const struct plan_record *r = &mixed.record[i], *other = &alike.record[i];
		const struct shape *down = &r->part[EXPERT_PARTS - 1];
		assert_int_equal(down->format, i == 1 ? FORMAT_TQ4 : FORMAT_TQ3);
		assert_int_equal(r->part_offset[1], other->part_offset[1]);
		assert_int_equal(r->bytes, r->part_offset[2] + format_packed_bytes(down) +
						   format_norm_bytes(down));
		assert_int_equal(r->slot_bytes, r->slot_offset[2] + format_arranged_bytes(down));
		assert_true(i == 1 ? r->bytes > other->bytes : r->bytes == other->bytes);
		assert_int_equal(plan_layout(&mixed).layer_bytes[i], r->bytes);
		assert_int_equal(mixed.layer_slot_bytes[i], r->slot_bytes);
		sum += r->bytes * mixed.experts;
	}
	assert_int_equal(mixed.record_bytes, mixed.record[1].bytes);
	assert_int_equal(mixed.slot_bytes, mixed.record[1].slot_bytes);
	assert_int_equal(plan_records_bytes(&mixed), sum);
	assert_int_equal(mixed.parameters, alike.parameters);
	plan_free(&alike);
	plan_free(&mixed);
	free(c);
}

static void which_layer_is_unlike_the_others_changes_the_digest(void **state)
{
	(void)state;
	struct config *c = config_of("qwen3_moe");
	struct store_digest d[4];
	for (uint32_t i = 0; i < 4; i++) { /* the fourth is no layer: all are alike */
		struct plan p;
		assert_int_equal(plan_of(&p, c, (struct formats){.layer = i < 3 ? i : 99}), 0);
		d[i] = p.digest;
		plan_free(&p);
		for (uint32_t k = 0; k < i; k++)
			assert_false(store_digest_equal(d[i], d[k]));
	}
	struct recipe r;
	struct plan p;
	assert_int_equal(recipe_find(&r, "tq3", &e), 0);
	assert_int_equal(plan_make(&p, c, &r, &e), 0);
	assert_true(store_digest_equal(p.digest, d[3]));
	plan_free(&p);
	free(c);
}

static void a_shape_that_there_is_not_is_named(void **state)
{
	(void)state;
	struct config *c = config_of("qwen3_moe");
	struct plan p;
	assert_words(plan_of(&p, c, (struct formats){.layer = 1, .unfit = true}), EINVAL,
		     "layers.1.mlp.experts.0.down_proj");
	assert_null(p.dense);
	free(c);
}

/* Each part of a record lands where the layer's slot has it. */
static void a_record_is_arranged_as_its_layer_is(void **state)
{
	(void)state;
	struct config *c = config_of("qwen3_moe");
	struct plan p;
	assert_int_equal(plan_of(&p, c, (struct formats){.layer = 1}), 0);
	uint8_t *record = malloc(p.record_bytes), *slot = aligned_alloc(64, p.slot_bytes),
		*want = aligned_alloc(64, p.slot_bytes);
	for (uint64_t i = 0; i < p.record_bytes; i++)
		record[i] = (uint8_t)(i * 37 + i / 251);
	for (uint32_t layer = 0; layer < 2; layer++) {
		const struct plan_record *r = &p.record[layer];
		memset(slot, 0, p.slot_bytes);
		memset(want, 0, p.slot_bytes);
		plan_arrange_record(&p, layer, slot, record);
		for (int i = 0; i < EXPERT_PARTS; i++) {
			const struct shape *s = &r->part[i];
			const uint8_t *from = record + r->part_offset[i];
			const struct pieces pieces = {.weights = from,
						      .scales = from + format_packed_bytes(s)};
			format_arrange(want + r->slot_offset[i], s, 0, s->rows, &pieces);
		}
		assert_memory_equal(slot, want, r->slot_bytes);
	}
	free(record);
	free(slot);
	free(want);
	plan_free(&p);
	free(c);
}

/* ---- stores ---- */

struct fixture {
	char parent[32];
	struct test_store t;
};

static const uint64_t sizes[] = {5000, 7001, 4096};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	test_folder_make(f->parent);
	test_store_init(&f->t, f->parent, "store");
	f->t.record_bytes = 7001;
	memcpy(f->t.layer_bytes, sizes, sizeof sizes);
	test_store_plan(&f->t);
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
	test_folder_remove(f->parent);
	free(f);
	return 0;
}

static void assert_complete(const struct fixture *f)
{
	struct store *s;
	assert_int_equal(store_open(&s, f->t.folder, &f->t.key, &e), 0);
	assert_int_equal(store_check(s, &f->t.plan.layout, &e), 0);
	assert_true(store_info(s)->mixed);
	assert_true(test_store_right(&f->t, s));
	store_close(s);
}

static void a_store_of_layers_of_different_sizes_reads_back(void **state)
{
	struct fixture *f = *state;
	test_store_write(&f->t);
	assert_complete(f);
	struct store *s;
	assert_int_equal(store_open(&s, f->t.folder, NULL, &e), 0);
	for (uint32_t layer = 0; layer < 3; layer++) {
		uint8_t record[8000], expected[8000];
		uint64_t bytes = sizes[layer];
		assert_int_equal(store_record_bytes(s, layer), bytes);
		test_unit_fill(&f->t, layer * 4 + 3, expected);
		assert_int_equal(store_read_record(s, layer, 3, record, bytes, &e), 0);
		assert_memory_equal(record, expected, bytes);
		assert_int_equal(store_read_record(s, layer, 3, record, bytes - 1, &e), -EIO);
		memset(record, 0, sizeof record);
		assert_int_equal(store_read_expert(s, layer, 3, 9, record, bytes - 9, &e), 0);
		assert_memory_equal(record, expected + 9, bytes - 9);
		assert_int_equal(store_read_expert(s, layer, 3, 9, record, bytes - 8, &e), -EINVAL);
	}
	store_close(s);
}

static void the_records_of_a_plain_one_lie_end_to_end(void **state)
{
	struct fixture *f = *state;
	struct store *s;
	test_store_write(&f->t);
	assert_int_equal(store_open(&s, f->t.folder, NULL, &e), 0);
	uint64_t at = STORE_ALIGN;
	for (uint32_t i = 0; i < 12; i++) {
		struct store_extent x = store_expert(s, i / 4, i % 4);
		assert_int_equal(x.offset, at);
		assert_int_equal(x.bytes, sizes[i / 4]);
		at += x.bytes;
	}
	assert_int_equal(store_experts_bytes(s), at - STORE_ALIGN);
	store_close(s);
}

static void a_conversion_that_was_interrupted_goes_on(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w;
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &e), 0);
	for (uint32_t unit = 1; unit < test_units(&f->t); unit += 3)
		assert_int_equal(test_put(&f->t, w, unit, &e), 0);
	store_writer_close(w, true);
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &e), 0);
	assert_true(store_writer_resumed(w));
	for (uint32_t unit = 0; unit < test_units(&f->t); unit++)
		assert_int_equal(store_writer_has(w, unit), unit % 3 == 1);
	assert_int_equal(test_write_rest(&f->t, w, true, &e), 0);
	assert_complete(f);
}

static void a_conversion_by_other_sizes_begins_anew(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w;
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &e), 0);
	assert_int_equal(test_put(&f->t, w, 0, &e), 0);
	store_writer_close(w, true);
	f->t.layer_bytes[0] = sizes[2], f->t.layer_bytes[2] = sizes[0];
	assert_false(store_interrupted(f->t.folder, &f->t.plan));
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &e), 0);
	assert_false(store_writer_resumed(w));
	assert_int_equal(test_write_rest(&f->t, w, true, &e), 0);
	assert_complete(f);
}

static void a_store_is_of_the_plan_whose_sizes_it_has(void **state)
{
	struct fixture *f = *state;
	struct store *s;
	struct store_layout other = f->t.plan.layout;
	const uint64_t exchanged[] = {4096, 7001, 5000};
	test_store_write(&f->t);
	assert_int_equal(store_open(&s, f->t.folder, NULL, &e), 0);
	assert_int_equal(store_check(s, &other, &e), 0);
	other.layer_bytes = exchanged;
	assert_int_equal(store_check(s, &other, &e), -ESTALE);
	other.layer_bytes = NULL;
	assert_int_equal(store_check(s, &other, &e), -ESTALE);
	store_close(s);
}

static void sizes_that_make_no_sense_are_refused(void **state)
{
	struct fixture *f = *state;
	static const uint64_t bad[][3] = {
		{0, 7001, 4096},    {5000, 7000, 4096},	      {5000, 7002, 4096},
		{7001, 7001, 7001}, {5000, 7001, UINT64_MAX},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct store_writer *w;
		struct store_plan plan = f->t.plan;
		plan.layout.layer_bytes = bad[i];
		assert_words(store_writer_open(&w, f->t.folder, &plan, &e), EINVAL,
			     "make no sense");
	}
}

/* The index of a store, with one layer's size changed and its sum made right. */
static void an_index_of_such_sizes_is_refused(void **state)
{
	struct fixture *f = *state;
	static const uint64_t bad[][3] = {
		{0, 7001, 4096},    {5000, 7000, 4096},	      {5000, 7002, 4096},
		{7001, 7001, 7001}, {5000, 7001, UINT64_MAX},
	};
	char path[128];
	uint8_t index[2048];
	struct store_index out;
	test_store_write(&f->t);
	(void)snprintf(path, sizeof path, "%s/" STORE_INDEX, f->t.folder);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	size_t n = fread(index, 1, sizeof index, file);
	(void)fclose(file);
	assert_int_equal(index[8], INDEX_VERSION_MIXED);
	assert_int_equal(store_index_decode(&out, index, n, "x", &e), 0);
	store_index_free(&out);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		for (int layer = 0; layer < 3; layer++) {
			uint64_t v = htole64(bad[i][layer]);
			memcpy(index + INDEX_HEAD + 8 * layer, &v, 8);
		}
		uint64_t sum = htole64(XXH3_64bits(index, n - 8));
		memcpy(index + n - 8, &sum, 8);
		assert_words(store_index_decode(&out, index, n, "x", &e), EINVAL, "make no sense");
	}
}

/* Byte for byte: stores converted before sizes could differ stay valid. */
static void where_all_layers_are_alike_the_index_is_of_the_version_before(void **state)
{
	struct fixture *f = *state;
	memset(f->t.layer_bytes, 0, sizeof f->t.layer_bytes);
	test_store_plan(&f->t);
	test_store_write(&f->t);
	struct store *s;
	char path[128];
	uint8_t head[12];
	assert_int_equal(store_open(&s, f->t.folder, NULL, &e), 0);
	assert_false(store_info(s)->mixed);
	assert_int_equal(store_index_bytes(store_info(s)),
			 INDEX_HEAD + 8 * (5 + 12 + 5 + 1)); /* dense sizes, sums, its own */
	store_close(s);
	(void)snprintf(path, sizeof path, "%s/" STORE_INDEX, f->t.folder);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
	(void)fclose(file);
	assert_int_equal(head[8], 3);
}

/* ---- pools ---- */

enum { EXPERTS = 12, LAYERS = 3, SMALL = 600 << 10, LARGE = 1900 << 10, MOST = 64 << 20 };
static const size_t slot_sizes[LAYERS] = {SMALL, LARGE, SMALL};
static const uint32_t all[EXPERTS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static int add_mixed(struct test_pager *f, const size_t *bytes)
{
	const struct pager_supply supply = {.store = f->store,
					    .slot_bytes = LARGE,
					    .layer_slot_bytes = bytes,
					    .arrange = test_arrange};
	return pager_add(f->pager, &f->source, &supply, &e);
}

static void open_pool(struct test_pager *f, uint32_t experts)
{
	test_pager_open(f, experts, MOST / SLOT, PAGER_IO_URING);
	pager_remove(f->source);
	f->source = NULL;
	assert_int_equal(pager_set_policy(f->pager, "scales no-prefetch", &e), 0);
	assert_int_equal(add_mixed(f, slot_sizes), 0);
}

static uint64_t resident_bytes(const struct test_pager *f)
{
	uint64_t sum = 0;
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		for (uint32_t i = 0; i < EXPERTS; i++) {
			struct pager_expert x;
			pager_inspect(f->source, layer, i, &x);
			assert_true(!x.resident || x.bytes == slot_sizes[layer]);
			sum += x.bytes;
		}
	return sum;
}

static void a_slot_is_as_large_as_its_layers_experts(void **state)
{
	(void)state;
	struct test_pager f;
	struct pager_stats own, s;
	open_pool(&f, EXPERTS);
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		assert_int_equal(test_batch(&f, layer, all, EXPERTS), EXPERTS);
	uint64_t bytes = resident_bytes(&f);
	assert_int_equal(bytes, (uint64_t)EXPERTS * (SMALL + LARGE + SMALL));
	pager_source_stats(f.source, &own);
	pager_stats(f.pager, &s);
	assert_int_equal(own.used, bytes);
	assert_in_range(s.used, bytes, s.budget);
	test_pager_close(&f);
}

static void whatever_the_budget_it_is_never_exceeded(void **state)
{
	(void)state;
	static const uint64_t budgets[] = {40 << 20, LARGE, LARGE + SMALL, (5 << 20) + 4095,
					   10 << 20, LARGE, MOST - 1};
	struct test_pager f;
	struct pager_stats s;
	open_pool(&f, EXPERTS);
	for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
		assert_int_equal(pager_set_budget(f.pager, budgets[i], &e), 0);
		for (uint32_t k = 0; k < 2 * LAYERS; k++) {
			assert_int_equal(test_batch_most(f.source, &f.t, k % LAYERS, all, EXPERTS,
							 1 + k, &e),
					 EXPERTS);
			pager_stats(f.pager, &s);
			assert_true(s.used <= budgets[i]);
			assert_true(resident_bytes(&f) <= s.used);
		}
	}
	assert_words(pager_set_budget(f.pager, LARGE - 4096, &e), ERANGE, "one expert");
	test_pager_close(&f);
}

static void slots_that_make_no_sense_are_refused(void **state)
{
	(void)state;
	static const size_t bad[][LAYERS] = {{SMALL, 0, SMALL}, {SMALL, LARGE + 1, SMALL}};
	struct test_pager f;
	open_pool(&f, EXPERTS);
	pager_remove(f.source);
	for (int i = 0; i < 2; i++)
		assert_words(add_mixed(&f, bad[i]), EINVAL, "experts of");
	assert_int_equal(add_mixed(&f, slot_sizes), 0);
	test_pager_close(&f);
}

/* Distinct experts of a layer for a turn: mostly from a few that change slowly. */
enum { NUMBER = 40, USED = 6, COMMON = 10 };
static void draw(uint32_t experts[USED], uint32_t turn, uint32_t *random)
{
	uint32_t first = turn / LAYERS / 8, each = COMMON / (USED - 1);
	for (uint32_t i = 0; i < USED; i++) {
		*random = *random * 1103515245 + 12345;
		uint32_t at = i ? (i - 1) * each + (*random >> 16) % each
				: COMMON + (*random >> 16) % (NUMBER - COMMON);
		experts[i] = (first + at) % NUMBER;
	}
}

/* Half of what there is fits. Room is made for one expert by giving up one, and by a region of
 * others only until the sizes have their shares. */
static void one_size_does_not_lose_regions_to_every_need_of_another(void **state)
{
	(void)state;
	enum { ROUNDS = 300 };
	struct test_pager f;
	struct pager_stats before = {0}, s;
	uint64_t regions = 0;
	uint32_t random = 1;
	open_pool(&f, NUMBER);
	assert_int_equal(pager_set_budget(f.pager, NUMBER * (SMALL + LARGE + SMALL) / 2, &e), 0);
	for (uint32_t turn = 0; turn < ROUNDS * LAYERS; turn++, before = s) {
		uint32_t experts[USED];
		draw(experts, turn, &random);
		assert_int_equal(test_batch(&f, turn % LAYERS, experts, USED), USED);
		pager_stats(f.pager, &s);
		regions += s.evictions - before.evictions > s.misses - before.misses;
	}
	assert_true(s.evictions > 0);
	assert_in_range(regions, 0, 4);
	test_pager_close(&f);
}

#define PLAIN(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define CODED(name)                                                \
	{                                                          \
#name ", coded", name, setup_coded, teardown, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plan_has_a_record_of_each_layer),
		cmocka_unit_test(which_layer_is_unlike_the_others_changes_the_digest),
		cmocka_unit_test(a_shape_that_there_is_not_is_named),
		cmocka_unit_test(a_record_is_arranged_as_its_layer_is),
		PLAIN(a_store_of_layers_of_different_sizes_reads_back),
		CODED(a_store_of_layers_of_different_sizes_reads_back),
		PLAIN(the_records_of_a_plain_one_lie_end_to_end),
		PLAIN(a_conversion_that_was_interrupted_goes_on),
		CODED(a_conversion_that_was_interrupted_goes_on),
		PLAIN(a_conversion_by_other_sizes_begins_anew),
		CODED(a_conversion_by_other_sizes_begins_anew),
		PLAIN(a_store_is_of_the_plan_whose_sizes_it_has),
		CODED(a_store_is_of_the_plan_whose_sizes_it_has),
		PLAIN(sizes_that_make_no_sense_are_refused),
		PLAIN(an_index_of_such_sizes_is_refused),
		PLAIN(where_all_layers_are_alike_the_index_is_of_the_version_before),
		cmocka_unit_test(a_slot_is_as_large_as_its_layers_experts),
		cmocka_unit_test(whatever_the_budget_it_is_never_exceeded),
		cmocka_unit_test(slots_that_make_no_sense_are_refused),
		cmocka_unit_test(one_size_does_not_lose_regions_to_every_need_of_another),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A store and the plan that reads it: plans that give a byte another meaning have another digest.
 * A model whose store has, or falsely claims, another layout makes it again and answers correctly.
 */
#include "engine/convert/store_folder.h"
#include "engine/family/family.h"
#include "golden.h"
#include "session_help.h"
#include "store_help.h"

#include "cache/store_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

static struct err e;

/* ---- digests ---- */

static void plan_of(struct plan *p, const struct config *c, const char *quant, enum format kept,
		    enum norm_type norms)
{
	struct recipe r;
	assert_int_equal(recipe_find(&r, quant, &e), 0);
	recipe_keep(&r, kept, norms);
	if (plan_make(p, c, &r, &e))
		fail_msg("%s", e.text);
}

static struct store_digest digest_of(const struct config *c, const char *quant, enum format kept,
				     enum norm_type norms)
{
	struct plan p;
	plan_of(&p, c, quant, kept, norms);
	struct store_digest d = p.digest;
	plan_free(&p);
	return d;
}

static struct config *config_of(const char *fixture)
{
	char path[64];
	struct config *c = malloc(sizeof *c);
	(void)snprintf(path, sizeof path, "fixtures/%s", fixture);
	assert_non_null(c);
	if (config_read(c, test_data(path), &e))
		fail_msg("%s", e.text);
	return c;
}

static void the_same_model_and_recipe_have_the_same_digest(void **state)
{
	(void)state;
	struct config *c = config_of("qwen3_moe"), *again = config_of("qwen3_moe");
	struct store_digest one = digest_of(c, "tq3", FORMAT_BF16, NORM_F16);
	assert_true(store_digest_equal(one, digest_of(again, "tq3", FORMAT_BF16, NORM_F16)));
	struct plan p;
	plan_of(&p, c, "tq3", FORMAT_BF16, NORM_F16);
	p.recipe.codec =
		CODEC_ZSTD; /* what a record means is the same; plan_layout says the rest */
	assert_true(store_digest_equal(plan_layout(&p).digest, one));
	assert_int_equal(plan_layout(&p).codec, STORE_CODED);
	plan_free(&p);
	/* Of the digest's first version. Another one here costs everybody a conversion. */
	assert_true(one.word[0] == UINT64_C(0x778d9e4de60a5249) &&
		    one.word[1] == UINT64_C(0x5f9a0591ba7bb517));
	free(again);
	free(c);
}

/* The same family with two tensors' names exchanged: to a plan, the tensors. */
static struct family exchanged(const struct family *f, enum tensor_role one, enum tensor_role other,
			       struct tensor_name names[3])
{
	struct family g = *f;
	assert_null(f->names);
	names[0] = (struct tensor_name){one, tensor_roles[other].name, NULL};
	names[1] = (struct tensor_name){other, tensor_roles[one].name, NULL};
	names[2] = (struct tensor_name){0};
	g.names = names;
	return g;
}

static void whatever_changes_what_a_byte_means_changes_the_digest(void **state)
{
	(void)state;
	enum { MOST = 16 };
	static const enum tensor_role alike[][2] = {
		{TENSOR_K, TENSOR_V},
		{TENSOR_Q_NORM, TENSOR_K_NORM},
		{TENSOR_MIXER_NORM, TENSOR_FEED_FORWARD_NORM},
		{TENSOR_EXPERT_GATE, TENSOR_EXPERT_UP},
	};
	struct store_digest d[MOST];
	uint32_t n = 0;
	struct config *c = config_of("qwen3_moe");
	d[n++] = digest_of(c, "tq3", FORMAT_BF16, NORM_F16);
	d[n++] = digest_of(c, "tq3", FORMAT_BF16, NORM_F32);
	d[n++] = digest_of(c, "tq3", FORMAT_F16, NORM_F16); /* as many bits */
	d[n++] = digest_of(c, "tq4", FORMAT_BF16, NORM_F16);
	d[n++] = digest_of(c, "bf16", FORMAT_BF16, NORM_F16);
	d[n++] = digest_of(c, "bf16", FORMAT_F16, NORM_F16);
	for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
		struct tensor_name names[3];
		struct family g = exchanged(c->family, alike[i][0], alike[i][1], names);
		const struct family *right = c->family;
		c->family = &g;
		d[n++] = digest_of(c, "tq3", FORMAT_BF16, NORM_F16);
		c->family = right;
	}
	uint32_t experts = c->experts;
	for (uint32_t layer = c->layers; layer < experts; layer++)
		c->layer[layer] = c->layer[0];
	c->experts = c->layers, c->layers = experts; /* as many records */
	d[n++] = digest_of(c, "tq3", FORMAT_BF16, NORM_F16);
	c->layers = c->experts, c->experts = experts;
	c->layer[0].feed_forward = FEED_FORWARD_DENSE;
	d[n++] = digest_of(c, "tq3", FORMAT_BF16, NORM_F16);
	c->layer[0].feed_forward = FEED_FORWARD_ROUTED;
	c->layer[1].feed_forward = FEED_FORWARD_DENSE; /* as many of each */
	d[n++] = digest_of(c, "tq3", FORMAT_BF16, NORM_F16);
	assert_true(n <= MOST);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < i; k++)
			if (store_digest_equal(d[i], d[k]))
				fail_msg("%u and %u have the same digest", k, i);
	free(c);
}

/* ---- models ---- */

static const char capital[] = "What is the capital of France?";
static const char paris[] = "The capital of France is Paris.\n";

static void path_in_store(char path[512], const char *name)
{
	glob_t found;
	char pattern[128];
	(void)snprintf(pattern, sizeof pattern, "%s/*/tq3/%s", test_stores(), name);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	(void)snprintf(path, 512, "%s", found.gl_pathv[0]);
	globfree(&found);
}

static uint8_t *slurp(const char *name, size_t *bytes)
{
	char path[512];
	struct stat st;
	path_in_store(path, name);
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	uint8_t *all = malloc((size_t)st.st_size + 1);
	assert_int_equal(read(fd, all, (size_t)st.st_size), st.st_size);
	close(fd);
	*bytes = (size_t)st.st_size;
	return all;
}

static void spit(const char *name, const uint8_t *all, size_t bytes)
{
	char path[512];
	path_in_store(path, name);
	int fd = open(path, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, all, bytes), bytes);
	close(fd);
}

static ino_t inode_of(const char *name)
{
	char path[512];
	struct stat st;
	path_in_store(path, name);
	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

/* A mount: one greedy turn, and then the store is complete. */
static void asked(const char *want)
{
	struct test_model m;
	test_model_ready(&m, test_fable(), &(struct engine_options){.quant = "tq3"});
	struct session *s = test_greedy_session(&m);
	test_answer(s, capital, want);
	session_end(s);
	test_wait_converted(m.model);
	test_model_close(&m);
}

static int no_stores(void **state)
{
	(void)state;
	test_stores_remove();
	return 0;
}

static void put64(uint8_t *at, uint64_t v)
{
	v = htole64(v);
	memcpy(at, &v, sizeof v);
}

static uint64_t get64(const uint8_t *at)
{
	uint64_t v;
	memcpy(&v, at, sizeof v);
	return le64toh(v);
}

static void seal(uint8_t *index, size_t bytes)
{
	put64(index + bytes - 8, XXH3_64bits(index, bytes - 8));
}

/* The last unit has all the dense data, and the others have none: the totals are right, and so is
 * every sum. */
static void claim_one_huge_unit(void)
{
	size_t n, dense_bytes;
	uint8_t *index = slurp(STORE_INDEX, &n), *dense = slurp(STORE_DENSE, &dense_bytes);
	uint8_t *sizes = index + INDEX_HEAD;
	uint32_t units = index[20] | (uint32_t)index[21] << 8,
		 records = index[12] * (uint32_t)index[16];
	uint64_t base = get64(index + 104), all = dense_bytes - base;
	uint8_t *sums = sizes + 8 * (units + records);
	for (uint32_t i = 0; i < units; i++) {
		uint64_t bytes = i + 1 < units ? 0 : all;
		put64(sizes + 8 * i, bytes);
		put64(sums + 8 * i, XXH3_64bits(dense + base, bytes));
	}
	seal(index, n);
	spit(STORE_INDEX, index, n);
	free(dense);
	free(index);
}

static void a_model_never_reads_a_unit_larger_than_its_own(void **state)
{
	(void)state;
	asked(paris);
	ino_t before = inode_of(STORE_DENSE);
	claim_one_huge_unit();
	asked(paris);
	assert_true(inode_of(STORE_DENSE) != before);
	before = inode_of(STORE_DENSE);
	asked(paris);
	assert_true(inode_of(STORE_DENSE) == before);
}

/* Keys and values of the first layer change places, with their sums, and the head says so: a store
 * as a plan with another order of the two would have made it. */
static void exchange_keys_and_values(void)
{
	size_t n, dense_bytes, head_bytes;
	uint8_t *index = slurp(STORE_INDEX, &n), *dense = slurp(STORE_DENSE, &dense_bytes);
	uint32_t units = index[20] | (uint32_t)index[21] << 8,
		 records = index[12] * (uint32_t)index[16];
	struct config *c = malloc(sizeof *c);
	struct plan p;
	assert_int_equal(config_read(c, test_fable(), &e), 0);
	plan_of(&p, c, "tq3", FORMAT_BF16, NORM_F16);
	const struct plan_tensor *k = p.dense, *v;
	while (k->id.role != TENSOR_K || k->id.layer != 0)
		k++;
	for (v = k; v->id.role != TENSOR_V; v++)
		;
	head_bytes = get64(index + 104);
	uint8_t *sums = index + INDEX_HEAD + 8 * (units + records);
	assert_int_equal(k->chunks, 1);
	for (uint32_t i = 0; i < 2; i++) { /* weights, norms */
		struct store_range a = p.units[k->first_unit + i], b = p.units[v->first_unit + i];
		uint8_t *x = dense + head_bytes + a.offset, *y = dense + head_bytes + b.offset;
		assert_int_equal(a.bytes, b.bytes);
		for (uint64_t at = 0; at < a.bytes; at++) {
			uint8_t byte = x[at];
			x[at] = y[at];
			y[at] = byte;
		}
		put64(sums + 8 * (k->first_unit + i), XXH3_64bits(x, a.bytes));
		put64(sums + 8 * (v->first_unit + i), XXH3_64bits(y, b.bytes));
	}
	for (char *at = (char *)dense; (at = memmem(at, head_bytes - (size_t)(at - (char *)dense),
						    ".layers.0.self_attn.", 20));
	     at += 21) {
		char *letter = at + 20;
		if (!memcmp(letter + 1, "_proj", 5) && (*letter == 'k' || *letter == 'v'))
			*letter = *letter == 'k' ? 'v' : 'k';
	}
	seal(index, n);
	spit(STORE_INDEX, index, n);
	spit(STORE_DENSE, dense, dense_bytes);
	plan_free(&p);
	free(c);
	free(dense);
	free(index);
}

static void change_digest(struct store_index *index)
{
	index->info.digest.word[0] ^= 1;
}

static void store_folder_of(char folder[512])
{
	path_in_store(folder, STORE_INDEX);
	*strrchr(folder, '/') = 0;
}

static void tensors_that_have_changed_places_are_not_read_as_each_other(void **state)
{
	(void)state;
	char folder[512];
	asked(paris);
	ino_t before = inode_of(STORE_DENSE);
	store_folder_of(folder);
	exchange_keys_and_values();
	test_index_forge(folder, change_digest);
	asked(paris);
	assert_true(inode_of(STORE_DENSE) != before);
}

static void a_store_of_a_version_that_is_not_read_is_made_anew(void **state)
{
	(void)state;
	size_t n;
	asked(paris);
	ino_t before = inode_of(STORE_DENSE);
	uint8_t *index = slurp(STORE_INDEX, &n);
	index[8] = INDEX_VERSION - 1;
	seal(index, n);
	spit(STORE_INDEX, index, n);
	free(index);
	asked(paris);
	assert_true(inode_of(STORE_DENSE) != before);
}

#define MODEL_TEST(name) cmocka_unit_test_setup_teardown(name, no_stores, no_stores)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_model_and_recipe_have_the_same_digest),
		cmocka_unit_test(whatever_changes_what_a_byte_means_changes_the_digest),
		MODEL_TEST(a_model_never_reads_a_unit_larger_than_its_own),
		MODEL_TEST(tensors_that_have_changed_places_are_not_read_as_each_other),
		MODEL_TEST(a_store_of_a_version_that_is_not_read_is_made_anew),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Dense tensors in formats of one, two and three pieces: read, arranged, and for the embedding
 * read row by row. */
#include "engine/compute/weights.h"
#include "engine/family/family.h"
#include "golden.h"
#include "random_blocks.h"
#include "store_help.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct err e;

/* Of a file that mixes formats. */
static void of_a_file(void *ctx, struct tensor_id id, struct shape *s)
{
	static const struct {
		enum tensor_role role;
		enum format format;
		enum norm_type norms;
	} some[] = {
		{TENSOR_EMBEDDING, FORMAT_AFFINE6, NORM_BF16},
		{TENSOR_Q, FORMAT_AFFINE4, NORM_F16},
		{TENSOR_K, FORMAT_MXFP4, NORM_F16},
		{TENSOR_V, FORMAT_Q8_0, NORM_F16},
		{TENSOR_O, FORMAT_AFFINE3, NORM_F32},
		{TENSOR_DOWN, FORMAT_Q5_1, NORM_F16},
	};
	(void)ctx;
	for (size_t i = 0; i < sizeof some / sizeof *some; i++)
		if (some[i].role == id.role) {
			s->format = some[i].format;
			s->norms = some[i].norms;
			s->group = format_affine_bits(s->format) ? 32 : 0;
		}
}

/* A model's dense part, whose bytes are random, in a store. */
struct model {
	char parent[32], folder[64];
	struct config config;
	struct plan plan;
	struct store *store;
	uint8_t *data; /* of all units */
};

/* A tensor's bytes: all its rows, piece after piece. */
static struct pieces pieces_of(const struct model *m, const struct plan_tensor *t)
{
	uint8_t *at = m->data + m->plan.units[t->first_unit].offset;
	uint8_t *scales = at + format_packed_bytes(&t->shape);
	return (struct pieces){at, scales, scales + format_norm_bytes(&t->shape)};
}

static void fill(struct model *m)
{
	struct random random = {1};
	m->data = calloc(1, m->plan.dense_bytes);
	assert_non_null(m->data);
	for (uint32_t i = 0; i < m->plan.dense_count; i++) {
		const struct plan_tensor *t = &m->plan.dense[i];
		struct pieces p = pieces_of(m, t);
		if (format_is_block(t->shape.format))
			random_blocks(&random, &t->shape, (uint8_t *)p.weights, (uint8_t *)p.scales,
				      (uint8_t *)p.biases);
	}
}

static void write_units(struct model *m)
{
	char head[100];
	memset(head, '.', sizeof head);
	const struct store_plan plan = {.key = {{1, 2}, "test"},
					.layout = plan_layout(&m->plan),
					.dense_header = head,
					.dense_header_bytes = sizeof head};
	struct store_writer *w;
	assert_int_equal(store_writer_open(&w, m->folder, &plan, &e), 0);
	for (uint32_t u = 0; u < m->plan.unit_count; u++) {
		const struct store_range *r = &m->plan.units[u];
		struct store_put *put;
		assert_int_equal(store_put_begin(w, u, &put, &e), 0);
		assert_int_equal(store_put_bytes(put, m->data + r->offset, r->bytes, &e), 0);
		assert_int_equal(store_put_commit(put, &e), 0);
	}
	assert_int_equal(store_writer_finish(w, &e), 0);
	assert_int_equal(store_open(&m->store, m->folder, NULL, &e), 0);
}

static int setup(void **state)
{
	struct model *m = calloc(1, sizeof *m);
	struct recipe r;
	test_folder_make(m->parent);
	(void)snprintf(m->folder, sizeof m->folder, "%s/store", m->parent);
	if (config_read(&m->config, test_fixture("qwen3"), &e))
		fail_msg("%s", e.text);
	assert_int_equal(recipe_find(&r, "tq3", &e), 0);
	if (plan_make_with(&m->plan, &m->config, &r, &(struct plan_formats){of_a_file, NULL}, &e))
		fail_msg("%s", e.text);
	fill(m);
	write_units(m);
	*state = m;
	return 0;
}

static int teardown(void **state)
{
	struct model *m = *state;
	store_close(m->store);
	plan_free(&m->plan);
	test_folder_remove(m->parent);
	free(m->data);
	free(m);
	return 0;
}

static struct weights load(const struct model *m)
{
	static const _Atomic bool never = false;
	struct weights w;
	if (weights_load(&w, &m->plan, &m->config, m->store, false, &never, &e))
		fail_msg("%s", e.text);
	return w;
}

static void tensors_of_every_number_of_pieces_are_arranged(void **state)
{
	const struct model *m = *state;
	struct weights w = load(m);
	uint32_t blocks = 0;
	for (uint32_t i = 0; i < m->plan.dense_count; i++) {
		const struct plan_tensor *t = &m->plan.dense[i];
		if (!format_is_block(t->shape.format) || t->id.role == TENSOR_EMBEDDING)
			continue;
		const struct matrix *got = &w.layer[t->id.layer].m[t->id.role];
		const struct pieces from = pieces_of(m, t);
		const size_t bytes = format_arranged_bytes(&t->shape);
		uint8_t *want = calloc(1, bytes);
		format_arrange(want, &t->shape, 0, t->shape.rows, &from);
		assert_memory_equal(got->data, want, bytes);
		assert_int_equal(got->shape.format, t->shape.format);
		free(want);
		blocks++;
	}
	assert_int_equal(blocks, 5 * m->config.layers);
	weights_free(&w);
}

static void rows_of_an_embedding_in_three_pieces_are_read(void **state)
{
	const struct model *m = *state;
	struct weights w = load(m);
	const struct plan_tensor *t = w.tables[TABLE_EMBEDDING].tensor;
	const struct pieces all = pieces_of(m, t);
	struct shape row = t->shape;
	row.rows = 1;
	for (uint32_t pass = 0; pass < 2; pass++) /* the second time some are still there */
		for (uint32_t token = 0; token < t->shape.rows; token += 5) {
			float got[1024], want[1024];
			const struct pieces from = {
				(const uint8_t *)all.weights + token * format_packed_bytes(&row),
				(const uint8_t *)all.scales + token * format_norm_bytes(&row),
				(const uint8_t *)all.biases + token * format_bias_bytes(&row)};
			assert_int_equal(weights_row(&w, TABLE_EMBEDDING, token, got, &e), 0);
			format_dequantise_row(want, &row, &from);
			assert_memory_equal(got, want, row.cols * sizeof *want);
		}
	weights_free(&w);
}

static void lists_of_experts_name_experts_and_each_once(void **state)
{
	(void)state;
	static const float good[] = {0, 3, 2, 1, 2, 3};
	static const float bad[] = {4, -1, .5F, 2, NAN, INFINITY, 1e30F};
	assert_int_equal(weights_check_list(good, 2, 3, 4, &e), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		float list[6];
		memcpy(list, good, sizeof list);
		list[3] = bad[i]; /* 2: the token has it already */
		assert_int_equal(weights_check_list(list, 2, 3, 4, &e), -EINVAL);
		assert_non_null(strstr(e.text, "token 1"));
	}
}

static void many_rows_are_what_single_ones_are(void **state)
{
	const struct model *m = *state;
	struct weights w = load(m), alone = load(m);
	const struct plan_tensor *t = w.tables[TABLE_EMBEDDING].tensor;
	uint32_t rows = t->shape.rows, tokens[600];
	size_t stride = t->shape.cols + 3, n = sizeof tokens / sizeof *tokens;
	float *got = calloc(n * stride, sizeof *got), want[1024];
	bool there[600];
	struct threads *threads;
	assert_non_null(got);
	assert_int_equal(threads_create(&threads, 3, &e), 0);
	for (uint32_t pass = 0; pass < 3; pass++) { /* then some are among the recent ones */
		uint32_t left = 0;
		for (uint32_t i = 0; i < n; i++)
			tokens[i] = (i * i * 7 + pass * 5) % rows;
		tokens[n / 2] = rows; /* no such token */
		memset(there, 1, sizeof there);
		weights_rows(&w, TABLE_EMBEDDING, tokens, (uint32_t)n, got, stride, there, threads);
		assert_false(there[n / 2]);
		for (uint32_t i = 0; i < n; i++) {
			if (tokens[i] == rows)
				continue;
			assert_int_equal(
				weights_row(&alone, TABLE_EMBEDDING, tokens[i], want, &e), 0);
			if (there[i])
				assert_memory_equal(got + i * stride, want,
						    t->shape.cols * sizeof *want);
			left += !there[i];
			assert_int_equal(weights_row(&w, TABLE_EMBEDDING, tokens[i], got, &e), 0);
			assert_memory_equal(got, want, t->shape.cols * sizeof *want);
		}
		if (!pass)
			assert_int_equal(left, 0);
	}
	threads_destroy(threads);
	free(got);
	weights_free(&alone);
	weights_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tensors_of_every_number_of_pieces_are_arranged),
		cmocka_unit_test(rows_of_an_embedding_in_three_pieces_are_read),
		cmocka_unit_test(lists_of_experts_name_experts_and_each_once),
		cmocka_unit_test(many_rows_are_what_single_ones_are),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

/* Recipes by their names: their sizes for published models, their texts, and tensors that are
 * small or in blocks. */
#include "engine/family/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct err e;

static const char *const quants[] = {"2bit", "3bit", "4bit", "6bit", "8bit",
				     "tq2",  "tq3",  "tq4",  "bf16"};
enum { QUANTS = sizeof quants / sizeof *quants };

/* The sizes of Qwen3-30B-A3B, Qwen3-32B, Qwen3-4B, SmolLM2-135M and Qwen3.6-35B-A3B. */
static const char moe
	[] = "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 2048, \"num_hidden_layers\": 48, "
	     "\"vocab_size\": 151936, \"max_position_embeddings\": 40960, \"num_attention_heads\": "
	     "32, "
	     "\"num_key_value_heads\": 4, \"head_dim\": 128, \"intermediate_size\": 6144, "
	     "\"moe_intermediate_size\": 768, \"num_experts\": 128, \"num_experts_per_tok\": 8, "
	     "\"norm_topk_prob\": true, \"rope_theta\": 1000000.0, \"rms_norm_eps\": 1e-06, "
	     "\"tie_word_embeddings\": false}",
     dense[] =
	     "{\"model_type\": \"qwen3\", \"hidden_size\": 5120, \"num_hidden_layers\": 64, "
	     "\"vocab_size\": 151936, \"max_position_embeddings\": 40960, \"num_attention_heads\": "
	     "64, "
	     "\"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": 25600, "
	     "\"rope_theta\": 1000000.0, \"rms_norm_eps\": 1e-06, \"tie_word_embeddings\": false}";

static const char four_billion[] =
	"{\"model_type\": \"qwen3\", \"hidden_size\": 2560, \"num_hidden_layers\": 36, "
	"\"vocab_size\": 151936, \"max_position_embeddings\": 40960, \"num_attention_heads\": 32, "
	"\"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": 9728, "
	"\"rope_theta\": 1000000.0, \"rms_norm_eps\": 1e-06, \"tie_word_embeddings\": true}";

/* Rows of 576 are no whole groups of 128. */
static const char uneven[] =
	"{\"model_type\": \"llama\", \"hidden_size\": 576, \"num_hidden_layers\": 30, "
	"\"vocab_size\": 49152, \"max_position_embeddings\": 8192, \"num_attention_heads\": 9, "
	"\"num_key_value_heads\": 3, \"intermediate_size\": 1536, \"rope_theta\": 100000.0, "
	"\"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": true}";

static const char hybrid[] =
	"{\"model_type\": \"qwen3_next\", \"hidden_size\": 2048, \"num_hidden_layers\": 40, "
	"\"vocab_size\": 248320, \"max_position_embeddings\": 40960, \"num_attention_heads\": 16, "
	"\"num_key_value_heads\": 2, \"head_dim\": 256, \"intermediate_size\": 5120, "
	"\"moe_intermediate_size\": 512, \"shared_expert_intermediate_size\": 512, "
	"\"num_experts\": 256, \"num_experts_per_tok\": 8, \"norm_topk_prob\": true, "
	"\"linear_conv_kernel_dim\": 4, \"linear_num_key_heads\": 16, "
	"\"linear_key_head_dim\": 128, \"linear_num_value_heads\": 32, "
	"\"linear_value_head_dim\": 128, \"partial_rotary_factor\": 0.25, "
	"\"rope_theta\": 10000000.0, \"rms_norm_eps\": 1e-06, \"tie_word_embeddings\": false}";

static void plan_of(struct plan *p, struct config *c, const char *text, const char *quant)
{
	struct recipe r;
	if (config_parse(c, text, strlen(text), "config.json", &e))
		fail_msg("%s", e.text);
	assert_int_equal(recipe_find(&r, quant, &e), 0);
	if (plan_make(p, c, &r, &e))
		fail_msg("%s", e.text);
}

/* Bits per weight, of the matrices that a token uses or of all. */
static double bits_of(const char *text, const char *quant, bool all)
{
	struct config *c = malloc(sizeof *c);
	struct plan p;
	double bytes = 0, weights = 0;
	assert_non_null(c);
	plan_of(&p, c, text, quant);
	for (uint32_t i = 0; i < p.dense_count; i++) {
		const struct shape *s = &p.dense[i].shape;
		enum tensor_class class = tensor_roles[p.dense[i].id.role].class;
		if (class == CLASS_EMBEDDING || class >= CLASS_MATRICES)
			continue;
		bytes += (double)(format_packed_bytes(s) + format_norm_bytes(s));
		weights += (double)s->rows * s->cols;
	}
	for (uint32_t i = 0; i < p.routed_layers; i++) {
		double times = all ? p.experts : c->experts_per_token;
		bytes += times * (double)p.record[i].bytes;
		for (uint32_t k = 0; k < EXPERT_PARTS; k++)
			weights += times * p.record[i].part[k].rows * p.record[i].part[k].cols;
	}
	plan_free(&p);
	free(c);
	return 8 * bytes / weights;
}

static void a_recipe_has_about_the_bits_of_its_name(void **state)
{
	(void)state;
	static const struct {
		const char *text, *quant;
		bool all;
		double most;
	} sizes[] = {
		{moe, "3bit", false, 3.2},    {moe, "3bit", true, 3.2},
		{dense, "3bit", true, 3.2},   {hybrid, "3bit", false, 3.65},
		{hybrid, "3bit", true, 3.2},  {hybrid, "4bit", false, 4.2},
		{hybrid, "2bit", false, 2.3}, {moe, "4bit", false, 4.2},
		{moe, "4bit", true, 4.2},     {dense, "4bit", true, 4.9},
		{moe, "2bit", true, 2.3},     {moe, "2bit", false, 2.3},
		{dense, "2bit", true, 2.3},   {uneven, "4bit", true, 6.2},
		{dense, "6bit", true, 6.7},   {four_billion, "6bit", true, 6.7},
		{moe, "6bit", true, 6.7},     {dense, "8bit", true, 8.6},
		{uneven, "8bit", true, 8.6},
	};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		double bits = bits_of(sizes[i].text, sizes[i].quant, sizes[i].all);
		print_message("%s, %s: %.3f bits\n", sizes[i].quant,
			      sizes[i].all ? "all" : "a token's", bits);
		assert_true(bits <= sizes[i].most && bits > sizes[i].most - .2);
	}
}

static void a_text_leads_back_to_its_recipe(void **state)
{
	(void)state;
	for (int i = 0; i < QUANTS; i++) {
		struct recipe r, back;
		char text[64];
		assert_int_equal(recipe_find(&r, quants[i], &e), 0);
		recipe_to_text(&r, text, sizeof text);
		assert_true(recipe_from_text(&back, text));
		assert_string_equal(back.quant, quants[i]);
		assert_memory_equal(back.of, r.of, sizeof r.of);
		assert_memory_equal(back.of_hybrids, r.of_hybrids, sizeof r.of_hybrids);
	}
	struct recipe r;
	assert_false(recipe_from_text(&r, "5bit kept bf16 norms f16"));
	assert_int_equal(recipe_find(&r, "5bit", &e), -EINVAL);
	for (int i = 0; i < QUANTS; i++)
		assert_non_null(strstr(e.text, quants[i]));
}

/* A matrix whose rows are not whole blocks is stored unchanged. */
static void routers_are_in_blocks_where_rows_are_whole_ones(void **state)
{
	(void)state;
	static const char small[] =
		"{\"model_type\": \"qwen3_moe\", \"hidden_size\": %d, \"num_hidden_layers\": 1, "
		"\"vocab_size\": 64, \"max_position_embeddings\": 64, \"num_attention_heads\": 2, "
		"\"num_key_value_heads\": 1, \"head_dim\": 16, \"intermediate_size\": 32, "
		"\"moe_intermediate_size\": 32, \"num_experts\": 4, \"num_experts_per_tok\": 2, "
		"\"norm_topk_prob\": true, \"rope_theta\": 10000.0, \"rms_norm_eps\": 1e-06, "
		"\"tie_word_embeddings\": false}";
	struct config *c = malloc(sizeof *c);
	assert_non_null(c);
	for (int width = 48; width <= 64; width += 16) {
		char text[1024];
		struct plan p;
		bool found = false;
		(void)snprintf(text, sizeof text, small, width);
		plan_of(&p, c, text, "4bit");
		for (uint32_t i = 0; i < p.dense_count; i++)
			if (p.dense[i].id.role == TENSOR_ROUTER) {
				assert_int_equal(p.dense[i].shape.format,
						 width == 64 ? FORMAT_Q8_0 : FORMAT_BF16);
				found = true;
			}
		assert_true(found);
		plan_free(&p);
	}
	free(c);
}

static void read_config(struct config *c, const char *text)
{
	if (config_parse(c, text, strlen(text), "config.json", &e))
		fail_msg("%s", e.text);
}

static void the_default_follows_from_experts_and_from_weights(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t budget;
		const char *quant, *models;
	} models[] = {{moe, UINT64_C(18) << 30, "4bit", "models whose experts fit the budget"},
		      {moe, UINT64_C(12) << 30, "3bit",
		       "models whose experts, in 4bit, do not fit the budget"},
		      {hybrid, UINT64_C(18) << 30, "4bit", "models whose experts fit the budget"},
		      {hybrid, 0, "3bit", "models whose experts, in 4bit, do not fit the budget"},
		      {dense, 0, "4bit", "dense models of more than 4 billion weights"},
		      {four_billion, 0, "6bit", "dense models of up to 4 billion weights"},
		      {uneven, 0, "8bit", "dense models of up to 1 billion weights"}};
	struct config *c = malloc(sizeof *c);
	assert_non_null(c);
	for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
		struct recipe r, none;
		read_config(c, models[i].text);
		recipe_find_default(&r, c, models[i].budget);
		assert_string_equal(r.quant, models[i].quant);
		assert_string_equal(recipe_default_of(&r, c), models[i].models);
		assert_int_equal(recipe_find(&none, "auto", &e), 0);
		none.budget = models[i].budget;
		assert_null(recipe_default_of(&none, c));
		recipe_keep_none(&none, c);
		assert_string_equal(none.quant, models[i].quant);
	}
	free(c);
}

static void defaults_of_earlier_versions_are_tried_the_latest_first(void **state)
{
	(void)state;
	struct config *c = malloc(sizeof *c);
	struct recipe r, now;
	assert_non_null(c);
	read_config(c, uneven);
	recipe_find_default(&r, c, 0);
	assert_true(recipe_make_former(&r, c, 0));
	assert_string_equal(r.quant, "4bit");
	assert_null(recipe_default_of(&r, c));
	assert_int_equal(recipe_find(&now, "4bit", &e), 0);
	assert_false(recipe_includes(&r, &now)); /* a store of today's was asked for */
	assert_true(recipe_includes(&now, &r));
	assert_true(recipe_make_former(&r, c, 1));
	assert_string_equal(r.quant, "tq3");
	assert_false(recipe_make_former(&r, c, 2));
	/* With experts, what is the default with another budget is one of these. */
	static const char *const formers[] = {"3bit", "4bit", "tq3"};
	read_config(c, moe);
	for (size_t i = 0; i < sizeof formers / sizeof *formers; i++) {
		assert_true(recipe_make_former(&r, c, i));
		assert_string_equal(r.quant, formers[i]);
	}
	assert_false(recipe_make_former(&r, c, 3));
	free(c);
}

/* The format of a tensor by a recipe's text. */
static enum format format_by(const char *text, const struct config *c, enum tensor_role role,
			     uint32_t layer)
{
	struct recipe r;
	uint32_t rows, cols;
	const struct tensor_id id = {role, layer, 0};
	assert_true(recipe_from_text(&r, text));
	config_tensor_shape(c, role, layer, &rows, &cols);
	return recipe_format(&r, c, id, cols);
}

static void a_text_names_the_table_that_its_store_was_made_by(void **state)
{
	(void)state;
	static const char first[] = "4bit kept bf16 norms f16",
			  second[] = "4bit.2 kept bf16 norms f16",
			  refined[] = "4bit kept bf16 norms f16 ref131072.beef";
	struct config *c = malloc(sizeof *c);
	struct recipe r, now;
	char text[64];
	assert_non_null(c);
	read_config(c, dense);
	for (uint32_t layer = 0; layer < 64; layer += 63) {
		assert_int_equal(format_by(first, c, TENSOR_DOWN, layer), FORMAT_TC4);
		assert_int_equal(format_by(refined, c, TENSOR_V, layer), FORMAT_TC4);
		assert_int_equal(format_by(second, c, TENSOR_DOWN, layer), FORMAT_Q6_K);
		assert_int_equal(format_by(second, c, TENSOR_V, layer), FORMAT_Q6_K);
		assert_int_equal(format_by(second, c, TENSOR_UP, layer),
				 layer ? FORMAT_Q6_K : FORMAT_TC4);
	}
	assert_int_equal(recipe_find(&r, "4bit", &e), 0);
	recipe_to_text(&r, text, sizeof text);
	assert_string_equal(text, second);
	assert_true(recipe_from_text(&now, first) && recipe_includes(&r, &now));
	recipe_take_table(&r, &now);
	assert_memory_equal(r.of, now.of, sizeof r.of);
	recipe_to_text(&r, text, sizeof text);
	assert_string_equal(text, first);
	assert_false(recipe_from_text(&now, "4bit.4 kept bf16 norms f16"));
	assert_false(recipe_from_text(&now, "3bit.3 kept bf16 norms f16"));
	free(c);
}

/* Of dense models alone; what is asked for by the name takes it as well as an unrefined one. */
static void refined_stores_have_tables_of_their_own(void **state)
{
	(void)state;
	static const char four[] = "4bit.3 kept bf16 norms f16 ref32768.beef",
			  three[] = "3bit.2 kept bf16 norms f16 ref32768.beef";
	struct config *c = malloc(sizeof *c);
	struct recipe r, now;
	char text[64];
	assert_non_null(c);
	read_config(c, uneven);
	assert_int_equal(format_by(four, c, TENSOR_Q, 0), FORMAT_TC4);
	assert_int_equal(format_by(four, c, TENSOR_V, 0), FORMAT_Q8_0);
	assert_int_equal(format_by(four, c, TENSOR_Q, 29), FORMAT_Q8_0);
	for (uint32_t layer = 0; layer < 30; layer++) {
		bool more = layer < 3 || layer >= 27 || layer % 3 == 2;
		assert_int_equal(format_by(four, c, TENSOR_DOWN, layer),
				 more ? FORMAT_Q6_K : FORMAT_TC4);
	}
	assert_int_equal(format_by(three, c, TENSOR_DOWN, 0), FORMAT_TC4);
	assert_int_equal(format_by(three, c, TENSOR_UP, 0), FORMAT_TC4);
	assert_int_equal(format_by(three, c, TENSOR_UP, 1), FORMAT_TC3);
	assert_int_equal(format_by(three, c, TENSOR_Q, 1), FORMAT_TC3);
	assert_int_equal(format_by(three, c, TENSOR_K, 1), FORMAT_TC4);
	assert_int_equal(format_by(three, c, TENSOR_UP, 29), FORMAT_TC4);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(recipe_find(&r, i ? "3bit" : "4bit", &e), 0);
		assert_true(recipe_from_text(&now, i ? three : four));
		assert_true(recipe_includes(&r, &now));
		recipe_make_refined(&r, c);
		r.refined = 32768;
		r.refined_by = 0xbeef;
		recipe_to_text(&r, text, sizeof text);
		assert_string_equal(text, i ? three : four);
	}
	read_config(c, moe);
	assert_int_equal(recipe_find(&r, "3bit", &e), 0);
	recipe_make_refined(&r, c);
	assert_int_equal(r.table, 1);
	free(c);
}

/* Of 576 columns, which are no whole groups of 128 and no whole blocks of 256. */
static void rows_of_any_length_have_a_format_that_fits_them(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum format q, down;
	} rows[] = {{"4bit.2 kept bf16 norms f16", FORMAT_Q8_0, FORMAT_Q6_K},
		    {"4bit kept bf16 norms f16", FORMAT_TC4, FORMAT_TC4},
		    {"3bit kept bf16 norms f16", FORMAT_TC3, FORMAT_TC3},
		    {"6bit kept bf16 norms f16", FORMAT_Q8_0, FORMAT_Q6_K},
		    {"8bit kept bf16 norms f16", FORMAT_Q8_0, FORMAT_Q8_0}};
	struct config *c = malloc(sizeof *c);
	assert_non_null(c);
	read_config(c, uneven);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_int_equal(format_by(rows[i].text, c, TENSOR_Q, 1), rows[i].q);
		assert_int_equal(format_by(rows[i].text, c, TENSOR_DOWN, 1), rows[i].down);
	}
	assert_int_equal(format_by(rows[0].text, c, TENSOR_HEAD, 0), FORMAT_Q5_0);
	assert_int_equal(format_by(rows[0].text, c, TENSOR_UP, 28), FORMAT_Q5_0);
	assert_int_equal(format_by(rows[0].text, c, TENSOR_UP, 29), FORMAT_Q8_0); /* the last */
	c->hidden_size = 40; /* no whole blocks of 32 either */
	assert_int_equal(format_by("4bit.2 kept f16 norms f16", c, TENSOR_UP, 1), FORMAT_TC4);
	assert_int_equal(format_by("4bit.2 kept f16 norms f16", c, TENSOR_V, 1), FORMAT_F16);
	assert_int_equal(format_by("6bit kept f16 norms f16", c, TENSOR_UP, 1), FORMAT_F16);
	free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_recipe_has_about_the_bits_of_its_name),
		cmocka_unit_test(a_text_leads_back_to_its_recipe),
		cmocka_unit_test(the_default_follows_from_experts_and_from_weights),
		cmocka_unit_test(defaults_of_earlier_versions_are_tried_the_latest_first),
		cmocka_unit_test(a_text_names_the_table_that_its_store_was_made_by),
		cmocka_unit_test(refined_stores_have_tables_of_their_own),
		cmocka_unit_test(rows_of_any_length_have_a_format_that_fits_them),
		cmocka_unit_test(routers_are_in_blocks_where_rows_are_whole_ones),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

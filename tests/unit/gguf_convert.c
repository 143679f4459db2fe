#include "gguf_convert.h"
#include "checkpoint_help.h"
#include "golden.h"
#include "kernels/format.h"

#include <json-c/json.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NAME = 256, TENSORS_MOST = 1024 };

/* A tensor as the file gets it. */
struct out {
	char name[NAME];
	size_t dims;
	uint64_t shape[4];
	float *x;
	size_t count;
};
struct maker {
	const struct gguf_conversion *c;
	struct json_object *document, *config; /* config: the text part */
	struct test_checkpoint from;
	struct out out[TENSORS_MOST];
	size_t count;
	uint32_t layers;
};

/* ---- config ---- */

static struct json_object *member(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;
	return json_object_object_get_ex(o, key, &v) ? v : NULL;
}

static uint32_t number(const struct maker *m, const char *key)
{
	struct json_object *v = member(m->config, key);
	return v ? (uint32_t)json_object_get_int64(v) : 0;
}

static double real(const struct maker *m, const char *key)
{
	struct json_object *v = member(m->config, key),
			   *rope = member(m->config, "rope_parameters");
	return json_object_get_double(v ? v : member(rope, key));
}

static void put_u32(struct test_gguf *g, const struct maker *m, const char *suffix, uint32_t value)
{
	char key[NAME];
	(void)snprintf(key, sizeof key, "%s.%s", m->c->architecture, suffix);
	if (value)
		test_gguf_u32(g, key, value);
}

static void put_f32(struct test_gguf *g, const struct maker *m, const char *suffix,
		    const char *name)
{
	char key[NAME];
	(void)snprintf(key, sizeof key, "%s.%s", m->c->architecture, suffix);
	if (member(m->config, name) || member(member(m->config, "rope_parameters"), name))
		test_gguf_f32(g, key, (float)real(m, name));
}

static bool is(const struct maker *m, const char *architecture)
{
	return !strcmp(m->c->architecture, architecture);
}

static bool is_hybrid(const struct maker *m)
{
	return is(m, "qwen35") || is(m, "qwen35moe") || is(m, "qwen3next");
}

static bool is_paired(const struct maker *m)
{
	return is(m, "llama") || is(m, "granitemoe");
}

static uint32_t head_dim(const struct maker *m)
{
	uint32_t dim = number(m, "head_dim");
	return dim ? dim : number(m, "hidden_size") / number(m, "num_attention_heads");
}

static void put_hybrid_keys(struct test_gguf *g, const struct maker *m)
{
	put_u32(g, m, "ssm.conv_kernel", number(m, "linear_conv_kernel_dim"));
	put_u32(g, m, "ssm.state_size", number(m, "linear_key_head_dim"));
	put_u32(g, m, "ssm.group_count", number(m, "linear_num_key_heads"));
	put_u32(g, m, "ssm.time_step_rank", number(m, "linear_num_value_heads"));
	put_u32(g, m, "ssm.inner_size",
		number(m, "linear_num_value_heads") * number(m, "linear_value_head_dim"));
	put_u32(g, m, "full_attention_interval", 4);
	put_u32(g, m, "rope.dimension_count",
		(uint32_t)(head_dim(m) * real(m, "partial_rotary_factor")));
	if (!is(m, "qwen3next")) {
		char key[NAME];
		static const int32_t sections[] = {11, 11, 10, 0};
		(void)snprintf(key, sizeof key, "%s.rope.dimension_sections", m->c->architecture);
		test_gguf_array(g, key, GGUF_I32, 4, sections, sizeof sections);
	}
}

static void put_keys(struct test_gguf *g, const struct maker *m)
{
	static const char *const copied[][2] = {
		{"context_length", "max_position_embeddings"},
		{"embedding_length", "hidden_size"},
		{"feed_forward_length", "intermediate_size"},
		{"attention.head_count", "num_attention_heads"},
		{"attention.head_count_kv", "num_key_value_heads"},
		{"attention.key_length", "head_dim"},
		{"attention.value_length", "head_dim"},
		{"expert_count", "num_local_experts"},
		{"expert_count", "num_experts"},
		{"expert_used_count", "num_experts_per_tok"},
		{"expert_feed_forward_length", "moe_intermediate_size"},
		{"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
		{"nextn_predict_layers", "mtp_num_hidden_layers"},
	};
	test_gguf_string(g, "general.architecture", m->c->architecture);
	test_gguf_string(g, "general.name", m->c->fixture);
	put_u32(g, m, "block_count", m->layers + number(m, "mtp_num_hidden_layers"));
	for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
		put_u32(g, m, copied[i][0], number(m, copied[i][1]));
	put_f32(g, m, "attention.layer_norm_rms_epsilon", "rms_norm_eps");
	put_f32(g, m, "rope.freq_base", "rope_theta");
	if (is_paired(m)) {
		put_u32(g, m, "vocab_size", number(m, "vocab_size"));
		put_u32(g, m, "rope.dimension_count", head_dim(m));
	}
	if (is(m, "granitemoe")) {
		put_f32(g, m, "attention.scale", "attention_multiplier");
		put_f32(g, m, "embedding_scale", "embedding_multiplier");
		put_f32(g, m, "residual_scale", "residual_multiplier");
		put_f32(g, m, "logit_scale", "logits_scaling");
	}
	if (is_hybrid(m))
		put_hybrid_keys(g, m);
	test_gguf_u32(g, "general.quantization_version", 2);
}

/* ---- vocabulary ---- */

static void put_vocabulary(struct test_gguf *g, const struct maker *m)
{
	enum { MOST = 4096 };
	char path[512];
	static const char *tokens[MOST], *merges[MOST];
	static int32_t kinds[MOST];
	size_t count = 0, merge_count;
	(void)snprintf(path, sizeof path, "%s/tokenizer.json", test_fixture(m->c->fixture));
	struct json_object *all = json_object_from_file(path), *model = member(all, "model");
	json_object_object_foreach(member(model, "vocab"), text, id)
	{
		size_t i = (size_t)json_object_get_int(id);
		assert_true(i < MOST);
		tokens[i] = text;
		kinds[i] = 1;
		count = i + 1 > count ? i + 1 : count;
	}
	struct json_object *added = member(all, "added_tokens");
	for (size_t k = 0; k < json_object_array_length(added); k++) {
		struct json_object *one = json_object_array_get_idx(added, k);
		size_t i = (size_t)json_object_get_int(member(one, "id"));
		assert_true(i < MOST);
		tokens[i] = json_object_get_string(member(one, "content"));
		kinds[i] = 3;
		count = i + 1 > count ? i + 1 : count;
	}
	struct json_object *list = member(model, "merges");
	merge_count = json_object_array_length(list);
	static char joined[MOST][64];
	for (size_t i = 0; i < merge_count && i < MOST; i++) {
		struct json_object *one = json_object_array_get_idx(list, i);
		bool pair = json_object_is_type(one, json_type_array);
		(void)snprintf(
			joined[i], sizeof joined[i], pair ? "%s %s" : "%s",
			json_object_get_string(pair ? json_object_array_get_idx(one, 0) : one),
			pair ? json_object_get_string(json_object_array_get_idx(one, 1)) : "");
		merges[i] = joined[i];
	}
	test_gguf_string(g, "tokenizer.ggml.model", "gpt2");
	test_gguf_string(g, "tokenizer.ggml.pre", "qwen2");
	test_gguf_strings(g, "tokenizer.ggml.tokens", tokens, count);
	test_gguf_array(g, "tokenizer.ggml.token_type", GGUF_I32, count, kinds,
			count * sizeof *kinds);
	test_gguf_strings(g, "tokenizer.ggml.merges", merges, merge_count);
	test_gguf_u32(g, "tokenizer.ggml.eos_token_id", number(m, "eos_token_id"));
	test_gguf_bool(g, "tokenizer.ggml.add_bos_token", false);
	json_object_put(all);
}

/* ---- tensors ---- */

static struct out *add(struct maker *m, const char *name)
{
	assert_true(m->count < TENSORS_MOST);
	struct out *o = &m->out[m->count++];
	*o = (struct out){0};
	(void)snprintf(o->name, sizeof o->name, "%s", name);
	return o;
}

static struct out *add_copy(struct maker *m, const char *name, const struct test_tensor *t)
{
	struct out *o = add(m, name);
	o->dims = t->dims;
	o->count = test_tensor_elements(t);
	memcpy(o->shape, t->shape, t->dims * sizeof *t->shape);
	o->x = malloc(o->count * sizeof *o->x);
	assert_non_null(o->x);
	for (size_t i = 0; i < o->count; i++)
		o->x[i] = test_tensor_get(t, i);
	return o;
}

/* Rows in groups of `width` numbers: group i becomes the one that order says. */
static void reorder(float *x, size_t groups, size_t width,
		    size_t (*order)(const struct maker *, size_t), const struct maker *m)
{
	float *copy = malloc(groups * width * sizeof *copy);
	assert_non_null(copy);
	memcpy(copy, x, groups * width * sizeof *copy);
	for (size_t i = 0; i < groups; i++)
		memcpy(x + i * width, copy + order(m, i) * width, width * sizeof *x);
	free(copy);
}

/* Row i of a head's pairs: even ones are the first half's. */
static size_t paired(const struct maker *m, size_t i)
{
	size_t dim = head_dim(m), at = i % dim;
	return i - at + at % 2 * (dim / 2) + at / 2;
}

/* Value head i: the i / keys-th of key head i % keys. */
static size_t tiled(const struct maker *m, size_t i)
{
	size_t keys = number(m, "linear_num_key_heads"),
	       each = number(m, "linear_num_value_heads") / keys;
	return i % keys * each + i / keys;
}

static bool ends(const char *name, const char *ending)
{
	size_t n = strlen(name), k = strlen(ending);
	return n >= k && !strcmp(name + n - k, ending);
}

/* What a delta net's value heads are reordered in. */
static void tile(struct maker *m, const char *part, struct out *o)
{
	size_t heads = number(m, "linear_num_value_heads"),
	       dim = number(m, "linear_value_head_dim"),
	       keys = 2 * (size_t)number(m, "linear_num_key_heads") *
		      number(m, "linear_key_head_dim"),
	       cols = o->dims > 1 ? o->shape[o->dims - 1] : 1;
	if (ends(part, "in_proj_qkv.weight") || ends(part, "conv1d.weight"))
		reorder(o->x + keys * cols, heads, dim * cols, tiled, m);
	else if (ends(part, "in_proj_z.weight"))
		reorder(o->x, heads, dim * cols, tiled, m);
	else if (ends(part, "in_proj_a.weight") || ends(part, "in_proj_b.weight") ||
		 ends(part, "A_log") || ends(part, "dt_bias"))
		reorder(o->x, heads, cols, tiled, m);
	else if (ends(part, "out_proj.weight"))
		for (size_t r = 0; r < o->shape[0]; r++)
			reorder(o->x + r * cols, heads, dim, tiled, m);
}

/* q, k, v and z, head by head as published: all q, all k and all v, or all z. */
static void unfuse(struct maker *m, const char *layer, const struct test_tensor *t)
{
	size_t keys = number(m, "linear_num_key_heads"), key = number(m, "linear_key_head_dim"),
	       value = number(m, "linear_num_value_heads") / keys *
		       number(m, "linear_value_head_dim"),
	       cols = t->shape[1], each = 2 * key + 2 * value;
	const size_t begin[] = {0, key, 2 * key, 2 * key + value},
		     size[] = {key, key, value, value};
	char name[NAME];
	struct out *o = NULL;
	for (int part = 0; part < 4; part++) {
		if (part == 0 || part == 3) {
			(void)snprintf(name, sizeof name, "%s%s", layer,
				       part ? "attn_gate.weight" : "attn_qkv.weight");
			o = add(m, name);
			o->dims = 2;
			o->shape[0] = keys * (part ? value : 2 * key + value);
			o->shape[1] = cols;
			o->x = malloc(o->shape[0] * cols * sizeof *o->x);
			assert_non_null(o->x);
		}
		for (size_t h = 0; h < keys; h++)
			for (size_t i = 0; i < size[part] * cols; i++)
				o->x[o->count++] =
					test_tensor_get(t, (h * each + begin[part]) * cols + i);
	}
}

/* Gate above up in each expert: one of the two. */
static void halve(struct maker *m, const char *name, const struct test_tensor *t, size_t half)
{
	struct out *o = add(m, name);
	size_t experts = t->shape[0], rows = t->shape[1] / 2, cols = t->shape[2];
	*o = (struct out){.dims = 3, .shape = {experts, rows, cols}, .x = NULL};
	(void)snprintf(o->name, sizeof o->name, "%s", name);
	o->x = malloc(experts * rows * cols * sizeof *o->x);
	assert_non_null(o->x);
	for (size_t e = 0; e < experts; e++)
		for (size_t i = 0; i < rows * cols; i++)
			o->x[o->count++] = test_tensor_get(t, (2 * e + half) * rows * cols + i);
}

/* One expert's matrix, added to the stack of its layer, in the order of experts. */
static void stack(struct maker *m, const char *layer, const char *as, uint32_t expert,
		  uint32_t experts, const struct test_tensor *t)
{
	char name[NAME];
	if (m->c->apart) {
		(void)snprintf(name, sizeof name, "%sffn_%s.%u.weight", layer, as, expert);
		(void)add_copy(m, name, t);
		return;
	}
	(void)snprintf(name, sizeof name, "%sffn_%s_exps.weight", layer, as);
	struct out *o = NULL;
	for (size_t i = 0; i < m->count && !o; i++)
		o = strcmp(m->out[i].name, name) ? NULL : &m->out[i];
	size_t each = test_tensor_elements(t);
	if (!o) {
		o = add(m, name);
		o->dims = 3;
		o->shape[0] = experts;
		memcpy(o->shape + 1, t->shape, 2 * sizeof *t->shape);
		o->count = experts * each;
		o->x = calloc(o->count, sizeof *o->x);
		assert_non_null(o->x);
	}
	for (size_t i = 0; i < each; i++)
		o->x[expert * each + i] = test_tensor_get(t, i);
}

/* What follows "layers.N." in names: where it goes. */
static const char *const names[][2] = {
	{"input_layernorm.weight", "attn_norm.weight"},
	{"self_attn.q_proj.weight", "attn_q.weight"},
	{"self_attn.k_proj.weight", "attn_k.weight"},
	{"self_attn.v_proj.weight", "attn_v.weight"},
	{"self_attn.o_proj.weight", "attn_output.weight"},
	{"self_attn.q_proj.bias", "attn_q.bias"},
	{"self_attn.k_proj.bias", "attn_k.bias"},
	{"self_attn.v_proj.bias", "attn_v.bias"},
	{"self_attn.q_norm.weight", "attn_q_norm.weight"},
	{"self_attn.k_norm.weight", "attn_k_norm.weight"},
	{"linear_attn.in_proj_qkv.weight", "attn_qkv.weight"},
	{"linear_attn.in_proj_z.weight", "attn_gate.weight"},
	{"linear_attn.in_proj_qkvz.weight", "ssm_in.weight"},
	{"linear_attn.in_proj_ba.weight", "ssm_ba.weight"},
	{"linear_attn.in_proj_b.weight", "ssm_beta.weight"},
	{"linear_attn.in_proj_a.weight", "ssm_alpha.weight"},
	{"linear_attn.conv1d.weight", "ssm_conv1d.weight"},
	{"linear_attn.A_log", "ssm_a"},
	{"linear_attn.dt_bias", "ssm_dt.bias"},
	{"linear_attn.norm.weight", "ssm_norm.weight"},
	{"linear_attn.out_proj.weight", "ssm_out.weight"},
	{"mlp.gate_proj.weight", "ffn_gate.weight"},
	{"mlp.up_proj.weight", "ffn_up.weight"},
	{"mlp.down_proj.weight", "ffn_down.weight"},
	{"mlp.gate.weight", "ffn_gate_inp.weight"},
	{"block_sparse_moe.gate.weight", "ffn_gate_inp.weight"},
	{"block_sparse_moe.router.layer.weight", "ffn_gate_inp.weight"},
	{"block_sparse_moe.output_linear.weight", "ffn_down_exps.weight"},
	{"mlp.experts.down_proj", "ffn_down_exps.weight"},
	{"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
	{"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
	{"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
	{"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"},
};

static const char *name_of(const struct maker *m, const char *part)
{
	if (!strcmp(part, "post_attention_layernorm.weight"))
		return is_hybrid(m) ? "post_attention_norm.weight" : "ffn_norm.weight";
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(names[i][0], part))
			return names[i][1];
	fail_msg("no name for %s", part);
	return NULL;
}

static void convert_numbers(struct maker *m, const char *part, struct out *o)
{
	bool norm = ends(part, "norm.weight") && !ends(part, "linear_attn.norm.weight");
	if (ends(part, "layernorm.weight"))
		norm = true;
	for (size_t i = 0; i < o->count; i++)
		if (ends(part, "A_log"))
			o->x[i] = -expf(o->x[i]);
		else if (norm && is_hybrid(m))
			o->x[i] += 1;
	if (is_paired(m) && (ends(part, "q_proj.weight") || ends(part, "k_proj.weight")))
		reorder(o->x, o->shape[0], o->shape[1], paired, m);
	if (is(m, "qwen35") || is(m, "qwen35moe"))
		tile(m, part, o);
	if (ends(part, "conv1d.weight")) { /* [channels, 1, width] */
		o->shape[1] = o->shape[2];
		o->dims = 2;
	}
}

static void convert_in_layer(struct maker *m, uint32_t number_of, const char *part,
			     const struct test_tensor *t)
{
	static const char *const experts[][2] = {
		{"gate_proj.weight", "gate"}, {"up_proj.weight", "up"},
		{"down_proj.weight", "down"}, {"w1.weight", "gate"},
		{"w3.weight", "up"},	      {"w2.weight", "down"},
	};
	char layer[32], name[NAME];
	uint32_t expert;
	int at = 0;
	(void)snprintf(layer, sizeof layer, "blk.%u.", number_of);
	if (sscanf(part, "mlp.experts.%u.%n", &expert, &at) == 1 ||
	    sscanf(part, "block_sparse_moe.experts.%u.%n", &expert, &at) == 1) {
		uint32_t count = number(m, "num_experts");
		count = count ? count : number(m, "num_local_experts");
		for (size_t i = 0; i < sizeof experts / sizeof *experts; i++)
			if (!strcmp(part + at, experts[i][0]))
				stack(m, layer, experts[i][1], expert, count, t);
		return;
	}
	if (!strcmp(part, "block_sparse_moe.input_linear.weight") ||
	    !strcmp(part, "mlp.experts.gate_up_proj")) {
		(void)snprintf(name, sizeof name, "%sffn_gate_exps.weight", layer);
		halve(m, name, t, 0);
		(void)snprintf(name, sizeof name, "%sffn_up_exps.weight", layer);
		halve(m, name, t, 1);
		return;
	}
	if (!strcmp(part, "linear_attn.in_proj_qkvz.weight") && !m->c->fused) {
		unfuse(m, layer, t);
		return;
	}
	(void)snprintf(name, sizeof name, "%s%s", layer, name_of(m, part));
	convert_numbers(m, part, add_copy(m, name, t));
}

/* Tensors of the draft: after the last layer. */
static void convert_draft(struct maker *m, const char *part, const struct test_tensor *t)
{
	static const char *const drafts[][2] = {
		{"fc.weight", "eh_proj.weight"},
		{"pre_fc_norm_embedding.weight", "enorm.weight"},
		{"pre_fc_norm_hidden.weight", "hnorm.weight"},
		{"norm.weight", "shared_head_norm.weight"},
	};
	char name[NAME];
	uint32_t layer;
	int at = 0;
	if (sscanf(part, "layers.%u.%n", &layer, &at) == 1) {
		convert_in_layer(m, m->layers + layer, part + at, t);
		return;
	}
	for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++)
		if (!strcmp(part, drafts[i][0])) {
			(void)snprintf(name, sizeof name, "blk.%u.nextn.%s", m->layers,
				       drafts[i][1]);
			struct out *o = add_copy(m, name, t);
			for (size_t k = 0; i > 0 && k < o->count; k++)
				o->x[k] += 1;
		}
}

static void convert_tensor(struct maker *m, const struct test_tensor *t)
{
	static const char nested[] = "model.language_model.";
	const char *name = t->name;
	uint32_t layer;
	int at = 0;
	if (strstr(name, "visual."))
		return;
	if (!strncmp(name, "mtp.", 4)) {
		convert_draft(m, name + 4, t);
		return;
	}
	if (!strncmp(name, nested, sizeof nested - 1))
		name += sizeof nested - 1;
	else if (!strncmp(name, "model.", 6))
		name += 6;
	if (sscanf(name, "layers.%u.%n", &layer, &at) == 1)
		convert_in_layer(m, layer, name + at, t);
	else if (!strcmp(name, "embed_tokens.weight"))
		(void)add_copy(m, "token_embd.weight", t);
	else if (!strcmp(name, "lm_head.weight"))
		(void)add_copy(m, "output.weight", t);
	else if (!strcmp(name, "norm.weight"))
		convert_numbers(m, name, add_copy(m, "output_norm.weight", t));
	else
		fail_msg("no place for %s", t->name);
}

/* ---- writing ---- */

static void put_tensor(struct test_gguf *g, const struct maker *m, const struct out *o)
{
	bool kept = o->dims < 2 || strstr(o->name, "norm") || strstr(o->name, "ffn_gate_inp") ||
		    strstr(o->name, "ssm_conv1d");
	const char *type = kept ? "F32" : m->c->type;
	size_t width = strcmp(type, "F32") ? 2 : 4;
	uint8_t *bytes = malloc(o->count * width);
	assert_non_null(bytes);
	for (size_t i = 0; i < o->count; i++) {
		uint16_t half = *type == 'B' ? f32_to_bf16(o->x[i]) : f32_to_f16(o->x[i]);
		memcpy(bytes + i * width, width == 2 ? (const void *)&half : &o->x[i], width);
	}
	test_gguf_tensor(g, o->name,
			 width == 4	? 0
			 : *type == 'B' ? 30
					: 1,
			 o->shape, o->dims, bytes, o->count * width);
	free(bytes);
}

static void write_part(const struct maker *m, uint32_t part, uint32_t parts, const char *path)
{
	struct test_gguf g = {.version = m->c->version};
	if (!part) {
		put_keys(&g, m);
		put_vocabulary(&g, m);
	}
	if (parts > 1) {
		test_gguf_u16(&g, "split.no", (uint16_t)part);
		test_gguf_u16(&g, "split.count", (uint16_t)parts);
		test_gguf_u32(&g, "split.tensors.count", (uint32_t)m->count);
	}
	for (size_t i = m->count * part / parts; i < m->count * (part + 1) / parts; i++)
		put_tensor(&g, m, &m->out[i]);
	if (!part && m->c->change)
		m->c->change(&g);
	test_gguf_write(&g, path);
	test_gguf_free(&g);
}

void test_gguf_convert(const struct gguf_conversion *c, const char *folder, const char *name,
		       char path[512])
{
	struct maker *m = calloc(1, sizeof *m);
	uint32_t parts = c->parts ? c->parts : 1;
	assert_non_null(m);
	(void)snprintf(path, 512, "%s/config.json", test_fixture(c->fixture));
	m->c = c;
	m->document = json_object_from_file(path);
	m->config = member(m->document, "text_config");
	m->config = m->config ? m->config : m->document;
	m->layers = number(m, "num_hidden_layers");
	test_checkpoint_read(&m->from, c->fixture);
	for (size_t i = 0; i < m->from.count; i++)
		convert_tensor(m, &m->from.tensors[i]);
	for (uint32_t part = parts; part-- > 0;) { /* the first last: its path stays */
		if (parts > 1)
			(void)snprintf(path, 512, "%s/%s-%05u-of-%05u.gguf", folder, name, part + 1,
				       parts);
		else
			(void)snprintf(path, 512, "%s/%s.gguf", folder, name);
		write_part(m, part, parts, path);
	}
	for (size_t i = 0; i < m->count; i++)
		free(m->out[i].x);
	test_checkpoint_free(&m->from);
	json_object_put(m->document);
	free(m);
}

/* Reads config.json: the family, the values that all families have, then the family's own. Also
 * reads generation_config.json. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"
#include "engine/source/source_file.h"
#include "engine/source/quantization.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_MAX_BYTES = 4 << 20 };

/* ---- what all families have ---- */

static void config_read_heads(struct reader *r)
{
	struct config *c = r->config;
	reader_u32_or(r, "num_key_value_heads", 1, c->heads, c->heads, &c->kv_heads);
	/* For latent attention head_dim is not used and may be 0. */
	reader_u32_or(r, "head_dim", c->family->own_positions ? 0 : 2, 4096,
		      c->hidden_size / c->heads, &c->head_dim);
	if (!c->head_dim && c->family->own_positions)
		c->head_dim = 2;
	if (c->heads % c->kv_heads)
		reader_refuse(r, EINVAL,
			      "num_attention_heads (%u) is not a multiple of num_key_value_heads "
			      "(%u)",
			      c->heads, c->kv_heads);
	if (c->head_dim % 2 || !c->head_dim)
		reader_refuse(r, EINVAL, "a head dim of %u cannot be rotated: it must be even",
			      c->head_dim);
	if ((uint64_t)c->heads * c->head_dim > CONFIG_MAX_WIDTH)
		reader_refuse(r, EINVAL, "%u heads of %u are wider than the %d that is supported",
			      c->heads, c->head_dim, CONFIG_MAX_WIDTH);
	for (uint32_t layer = 0; layer < c->layers + CONFIG_DRAFT_LAYERS; layer++) {
		c->layer[layer].head_dim = c->head_dim;
		c->layer[layer].kv_heads = c->kv_heads;
	}
	c->attention_scale = (float)(1 / sqrt(c->head_dim));
}

static void config_read_flags(struct reader *r)
{
	struct config *c = r->config;
	const struct family *f = c->family;
	bool bias = false, sliding = false;
	double eps;
	reader_bool(r, "tie_word_embeddings", &c->tied_head);
	reader_bool(r, "attention_bias", &bias);
	reader_double_or(r, "rms_norm_eps", 0, 1, f->rms_eps > 0 ? f->rms_eps : 1e-6, &eps);
	c->rms_eps = (float)eps;
	const char *activation = reader_string_or(r, "hidden_act", "silu");
	if (strcmp(activation, "silu") != 0 &&
	    (!f->activation || strcmp(activation, f->activation) != 0))
		reader_unsupported(r, "hidden_act", activation, "silu");
	reader_bool(r, "use_sliding_window", &sliding);
	if (sliding)
		reader_unsupported(r, "use_sliding_window", "true", "false");
	c->qkv_bias = bias || f->qkv_bias;
	c->output_bias = bias;
	c->normalise_top_k = f->normalise_top_k;
	c->head_norms = f->head_norms;
	c->router_order = f->router_order;
}

/* Checks first that the weights' encoding is supported. The package reads the weights. */
static void config_check_quantisation(struct reader *r)
{
	struct quantization q = {0};
	if (!r->failed)
		r->failed = quantization_parse(&q, r->json, r->name, r->e);
}

static void config_read_end_tokens(struct reader *r)
{
	if (!r->failed)
		r->failed = generation_end_tokens(&r->config->generation, r->json, r->name, r->e);
}

/* Numbers each layer's state. A draft layer has its own context, where its state is the first. */
static void config_number_states(struct config *c)
{
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		struct layer *l = &c->layer[layer];
		l->state = c->mixers[l->mixer]++;
		uint64_t *width = &c->kv_width[config_kv_kind(l)];
		l->kv_at = l->keys_of ? c->layer[l->keys_of - 1].kv_at : *width;
		*width += config_kv_width(c, layer);
		config_place_codes(c, layer);
		c->window = l->window > c->window ? l->window : c->window;
		l->index_at = c->kv_width[KV_INDEX];
		l->entries_at = l->index_at + config_index_width(c, layer);
		c->kv_width[KV_INDEX] = l->entries_at + config_entries_width(c, layer);
		l->past_at = c->kv_width[KV_WINDOWED];
		c->kv_width[KV_WINDOWED] += config_past_width(c, layer);
		uint32_t past = config_past_window(c, layer);
		c->window = past > c->window ? past : c->window;
	}
}

/* ---- the files ---- */

static void config_read_family(struct reader *r)
{
	const char *type;
	char known[1024];
	r->failed = json_get_string(r->json, "model_type", r->name, &type, r->e);
	if (r->failed)
		return;
	r->config->family = family_find(type, &r->config->model_type);
	family_list(known, sizeof known);
	if (!r->config->family)
		reader_refuse(r, ENOTSUP, "models of type %.64s are not supported; these are: %s",
			      type, known);
}

/* A key that only GGUF files have (gguf_tables.c). */
static void config_read_pooling(struct reader *r)
{
	double type = 0;
	if (!r->failed && json_has(r->json, "gguf_pooling_type"))
		r->failed =
			json_get_double(r->json, "gguf_pooling_type", r->name, 0, 255, &type, r->e);
	embedding_take_gguf(&r->config->embedding, (unsigned)type);
}

static void config_read_layers(struct reader *r)
{
	struct config *c = r->config;
	const char *list = c->family->layers_list;
	if (!list || json_has(r->json, "num_hidden_layers")) {
		reader_u32(r, "num_hidden_layers", 1, CONFIG_MAX_LAYERS, &c->layers);
		return;
	}
	size_t count = json_count(reader_list_or_null(r, list));
	if (!count || count > CONFIG_MAX_LAYERS)
		reader_refuse(r, EINVAL, "%s names %zu layers, where 1 to %d are supported", list,
			      count, CONFIG_MAX_LAYERS);
	else
		c->layers = (uint32_t)count;
}

static void config_read_text(struct reader *r)
{
	struct config *c = r->config;
	const struct family *f = c->family;
	const struct reader_number numbers[] = {
		{"hidden_size", &c->hidden_size, CONFIG_MAX_WIDTH},
		{"vocab_size", &c->vocabulary, CONFIG_MAX_VOCABULARY},
		{f->positions ? f->positions : "max_position_embeddings", &c->max_positions,
		 CONFIG_MAX_POSITIONS},
		{"num_attention_heads", &c->heads, 4096},
	};
	config_check_quantisation(r);
	config_read_layers(r);
	reader_numbers(r, numbers, sizeof numbers / sizeof *numbers);
	if (r->failed) /* the number of heads may be 0 */
		return;
	config_read_heads(r);
	config_read_flags(r);
	if (!f->own_positions) /* else f->parts have read the layers' heads and rotations */
		rope_read_config(r, c->head_dim, &c->rope[0]);
	if (f->only)
		reader_only(r, f->only);
	for (int i = 0; i < FAMILY_PARTS && f->parts[i] && !r->failed; i++)
		f->parts[i](r);
	config_read_end_tokens(r);
	config_read_pooling(r);
	if (!r->failed)
		config_number_states(c);
}

/* In a multimodal model, values of text_config override values at the top. */
static void config_read_whole(struct reader *r)
{
	const struct json *text = NULL;
	config_read_family(r);
	if (!r->failed)
		r->config->tied_head = r->config->family->tied;
	if (!r->failed && r->config->family->nested)
		text = reader_object_or_null(r, "text_config");
	if (text) {
		config_check_quantisation(r);
		config_read_end_tokens(r);
		reader_bool(r, "tie_word_embeddings", &r->config->tied_head);
		r->json = text;
	}
	if (!r->failed)
		config_read_text(r);
}

int config_parse(struct config *c, const char *text, size_t length, const char *name, struct err *e)
{
	struct reader r = {.config = c, .name = name, .e = e};
	struct json *whole;
	*c = (struct config){
		.embedding_multiplier = 1,
		.residual_multiplier = 1,
		.logits_scaling = 1,
		.router_multiplier = 1,
		.routed_scaling = 1,
		.router_groups = 1,
		.router_top_groups = 1,
		.streams.count = 1,
		.generation = GENERATION_DEFAULTS,
	};
	int failed = json_parse_text(&whole, text, length, name, e);
	if (failed)
		return failed;
	r.json = whole;
	config_read_whole(&r);
	json_free(whole);
	return r.failed;
}

int config_parse_generation(struct config *c, const char *text, size_t length, const char *name,
			    struct err *e)
{
	struct json *json;
	int failed = json_parse_text(&json, text, length, name, e);
	if (failed)
		return failed;
	failed = generation_read(&c->generation, json, name, e);
	json_free(json);
	return failed;
}

/* Reads directory/file and hands it to parse. */
static int config_read_file(struct config *c, const char *directory, const char *file,
			    int (*parse)(struct config *, const char *, size_t, const char *,
					 struct err *),
			    struct err *e)
{
	char path[4096], *text;
	size_t length;
	if (snprintf(path, sizeof path, "%s/%s", directory, file) >= (int)sizeof path)
		return err_set(e, ENAMETOOLONG, "%.64s…: the path is too long", directory);
	int failed = json_read_file(&text, &length, path, CONFIG_MAX_BYTES, e);
	if (failed)
		return failed;
	failed = parse(c, text, length, path, e);
	free(text);
	return failed;
}

/* Turns the keys back into a config.json and reads it; then applies the changes made by the
 * converter.
 */
static int config_read_gguf(struct config *c, const char *path, struct err *e)
{
	char *text;
	size_t length;
	int failed = gguf_config_of(path, &text, &length, e);
	if (failed)
		return failed;
	failed = config_parse(c, text, length, path, e);
	free(text);
	c->gguf = true;
	c->delta_net.tiled = !failed && c->family->gguf->tiled_heads;
	return failed;
}

int config_read(struct config *c, const char *path, struct err *e)
{
	struct err missing;
	if (source_is_file(path))
		return config_read_gguf(c, path, e);
	int failed = config_read_file(c, path, "config.json", config_parse, e);
	if (failed)
		return failed;
	failed = embedding_read(&c->embedding, path, e);
	if (failed)
		return failed;
	c->embedding.headless &= !c->tied_head;
	c->tied_head |= c->embedding.headless;
	failed = config_read_file(c, path, "generation_config.json", config_parse_generation,
				  &missing);
	if (failed && failed != -ENOENT)
		*e = missing;
	return failed == -ENOENT ? 0 : failed;
}

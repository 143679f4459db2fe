/* The flow through config.json: the family, what all families have, and then what is special in it.
 * And generation_config.json. */
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

/* ---- sizes ---- */

/* Numbers that every config has and that are simply copied. */
static const struct number {
	const char *key;
	size_t offset; /* of a uint32_t in struct config */
	uint32_t most;
} numbers[] = {
	{"hidden_size", offsetof(struct config, hidden_size), CONFIG_MAX_WIDTH},
	{"num_hidden_layers", offsetof(struct config, layers), CONFIG_MAX_LAYERS},
	{"vocab_size", offsetof(struct config, vocabulary), CONFIG_MAX_VOCABULARY},
	{"max_position_embeddings", offsetof(struct config, max_positions), CONFIG_MAX_POSITIONS},
	{"num_attention_heads", offsetof(struct config, heads), 4096},
};

static int config_read_numbers(const struct reader *r)
{
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		const struct number *n = &numbers[i];
		uint32_t *to = (uint32_t *)(void *)((char *)r->config + n->offset);
		int failed = reader_u32(r, n->key, 1, n->most, to);
		if (failed)
			return failed;
	}
	return 0;
}

static int config_read_heads(const struct reader *r)
{
	struct config *c = r->config;
	int failed = reader_u32_or(r, "num_key_value_heads", 1, c->heads, c->heads, &c->kv_heads);
	if (!failed)
		failed = reader_u32_or(r, "head_dim", 2, 4096, c->hidden_size / c->heads,
				       &c->head_dim);
	if (failed)
		return failed;
	if (c->heads % c->kv_heads)
		return err_set(r->e, EINVAL,
			       "%s: num_attention_heads (%u) is not a multiple of "
			       "num_key_value_heads (%u)",
			       r->name, c->heads, c->kv_heads);
	if (c->head_dim % 2 || !c->head_dim)
		return err_set(r->e, EINVAL,
			       "%s: a head dim of %u cannot be rotated: it must be even", r->name,
			       c->head_dim);
	if ((uint64_t)c->heads * c->head_dim > CONFIG_MAX_WIDTH)
		return err_set(r->e, EINVAL,
			       "%s: %u heads of %u are wider than the %d that is supported",
			       r->name, c->heads, c->head_dim, CONFIG_MAX_WIDTH);
	c->attention_scale = (float)(1 / sqrt(c->head_dim));
	return 0;
}

/* ---- what is computed only in one way ---- */

static int config_check_activation(const struct reader *r)
{
	const char *act;
	int failed = json_get_string_or(r->json, "hidden_act", r->name, "silu", &act, r->e);
	if (!failed && strcmp(act, "silu") != 0)
		return reader_unsupported(r, "hidden_act", act, "silu");
	return failed;
}

static int config_check_window(const struct reader *r)
{
	bool sliding;
	int failed =
		json_get_bool_or(r->json, "use_sliding_window", r->name, false, &sliding, r->e);
	if (!failed && sliding)
		return reader_unsupported(r, "use_sliding_window", "true", "false");
	return failed;
}

/* How the weights are written is the package's business; that they can be read is told here, before
 * anything else is looked at. */
static int config_check_quantisation(const struct reader *r)
{
	struct quantization q = {0};
	return quantization_parse(&q, r->json, r->name, r->e);
}

/* A family of several kinds of layers reads their heads and rotations itself. */
static int config_read_positions(const struct reader *r)
{
	struct config *c = r->config;
	for (uint32_t layer = 0; layer < c->layers + CONFIG_DRAFT_LAYERS; layer++) {
		c->layer[layer].head_dim = c->head_dim;
		c->layer[layer].kv_heads = c->kv_heads;
	}
	return c->family->own_positions ? 0 : rope_read_config(r, c->head_dim, &c->rope[0]);
}

/* ---- layers ---- */

/* Where each layer's state lies. A draft's has a context of its own and is the first there. */
static void config_number_states(struct config *c)
{
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		struct layer *l = &c->layer[layer];
		l->state = c->mixers[l->mixer]++;
		uint64_t *width = &c->kv_width[config_kv_kind(l)];
		l->kv_at = *width;
		*width += config_kv_width(c, layer);
		c->window = l->window > c->window ? l->window : c->window;
	}
}

static int config_read_end_tokens(const struct reader *r)
{
	return generation_end_tokens(&r->config->generation, r->json, r->name, r->e);
}

/* ---- the files ---- */

static int config_read_family(const struct reader *r)
{
	const char *type;
	char known[256];
	int failed = json_get_string(r->json, "model_type", r->name, &type, r->e);
	if (failed)
		return failed;
	r->config->family = family_find(type, &r->config->model_type);
	if (r->config->family)
		return 0;
	family_list(known, sizeof known);
	return err_set(r->e, ENOTSUP, "%s: models of type %.64s are not supported; these are: %s",
		       r->name, type, known);
}

static int config_read_flags(const struct reader *r)
{
	struct config *c = r->config;
	bool bias = false;
	double eps = 0;
	int failed = json_get_bool_or(r->json, "tie_word_embeddings", r->name, c->tied_head,
				      &c->tied_head, r->e);
	if (!failed)
		failed = json_get_bool_or(r->json, "attention_bias", r->name, false, &bias, r->e);
	c->qkv_bias = c->output_bias = bias;
	if (!failed)
		failed = json_get_double_or(r->json, "rms_norm_eps", r->name, 0, 1,
					    c->family->rms_eps > 0 ? c->family->rms_eps : 1e-6,
					    &eps, r->e);
	c->rms_eps = (float)eps;
	return failed;
}

static int config_read_parts(const struct reader *r)
{
	struct config *c = r->config;
	const struct family *f = c->family;
	c->qkv_bias |= f->qkv_bias;
	c->normalise_top_k = f->normalise_top_k;
	c->head_norms = f->head_norms;
	c->router_order = f->router_order;
	int failed = f->only ? reader_only(r, f->only) : 0;
	for (int i = 0; i < FAMILY_PARTS && f->parts[i] && !failed; i++)
		failed = f->parts[i](r);
	return failed;
}

static int config_read_text(const struct reader *r)
{
	static int (*const parts[])(const struct reader *) = {
		config_check_quantisation, config_read_numbers,	    config_read_heads,
		config_read_flags,	   config_check_activation, config_check_window,
		config_read_positions,	   config_read_parts,	    config_read_end_tokens,
	};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		int failed = parts[i](r);
		if (failed)
			return failed;
	}
	config_number_states(r->config);
	return 0;
}

/* Of a model that also sees, what is said at the top holds unless its text part says otherwise. */
static int config_read_whole(struct reader *r)
{
	const struct json *text = NULL;
	int failed = config_read_family(r);
	if (!failed && r->config->family->nested)
		failed = json_get_object_or_null(r->json, "text_config", r->name, &text, r->e);
	if (failed || !text)
		return failed ? failed : config_read_text(r);
	failed = config_check_quantisation(r);
	if (!failed)
		failed = config_read_end_tokens(r);
	if (!failed)
		failed = json_get_bool_or(r->json, "tie_word_embeddings", r->name, false,
					  &r->config->tied_head, r->e);
	r->json = text;
	return failed ? failed : config_read_text(r);
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
		.generation = GENERATION_DEFAULTS,
	};
	int failed = json_parse_text(&whole, text, length, name, e);
	if (failed)
		return failed;
	r.json = whole;
	failed = config_read_whole(&r);
	json_free(whole);
	return failed;
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

/* Its keys as the config.json that they were made from, and what its converter has changed since.
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
	failed = config_read_file(c, path, "generation_config.json", config_parse_generation,
				  &missing);
	if (failed && failed != -ENOENT)
		*e = missing;
	return failed == -ENOENT ? 0 : failed;
}

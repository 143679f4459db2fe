#include "engine/family/config.h"
#include "engine/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_MAX_BYTES = 4 << 20 };

/* What the parts below share. */
struct reader {
	struct config *config;
	struct json *json; /* owned by who parsed it */
	const char *name;  /* of the file, for messages */
	struct err *e;
};

/* ---- sizes ---- */

/* Unsigned values that are simply copied; `other` is the newer name of the same key. */
static const struct number {
	const char *key, *other;
	size_t offset; /* of a uint32_t in struct config */
	uint32_t least, most;
	bool routed_only; /* in families with experts; others do not have the key */
} numbers[] = {
	{"hidden_size", NULL, offsetof(struct config, hidden_size), 1, CONFIG_MAX_WIDTH, false},
	{"num_hidden_layers", NULL, offsetof(struct config, layers), 1, CONFIG_MAX_LAYERS, false},
	{"vocab_size", NULL, offsetof(struct config, vocabulary), 1, CONFIG_MAX_VOCABULARY, false},
	{"max_position_embeddings", NULL, offsetof(struct config, max_positions), 1,
	 CONFIG_MAX_POSITIONS, false},
	{"num_attention_heads", NULL, offsetof(struct config, heads), 1, 4096, false},
	{"intermediate_size", NULL, offsetof(struct config, intermediate_size), 1, CONFIG_MAX_WIDTH,
	 false},
	{"num_experts", "num_local_experts", offsetof(struct config, experts), 1,
	 CONFIG_MAX_EXPERTS, true},
	{"num_experts_per_tok", NULL, offsetof(struct config, experts_per_token), 1,
	 CONFIG_MAX_EXPERTS, true},
	{"moe_intermediate_size", NULL, offsetof(struct config, expert_size), 1, CONFIG_MAX_WIDTH,
	 true},
};

static int get_u32(const struct reader *r, const char *key, uint32_t least, uint32_t most,
		   uint32_t *to)
{
	uint64_t value;
	int failed = json_get_uint(r->json, key, r->name, least, most, &value, r->e);
	if (!failed)
		*to = (uint32_t)value;
	return failed;
}

static int get_u32_or(const struct reader *r, const char *key, uint32_t least, uint32_t most,
		      uint32_t fallback, uint32_t *to)
{
	*to = fallback;
	return json_has(r->json, key) ? get_u32(r, key, least, most, to) : 0;
}

static int read_numbers(const struct reader *r)
{
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		const struct number *n = &numbers[i];
		if (n->routed_only && !r->config->architecture->routed)
			continue;
		uint32_t *to = (uint32_t *)(void *)((char *)r->config + n->offset);
		bool other = n->other && json_has(r->json, n->other);
		int failed = get_u32(r, other ? n->other : n->key, n->least, n->most, to);
		if (failed)
			return failed;
	}
	return 0;
}

static int read_heads(const struct reader *r)
{
	struct config *c = r->config;
	int failed = get_u32_or(r, "num_key_value_heads", 1, c->heads, c->heads, &c->kv_heads);
	if (!failed)
		failed =
			get_u32_or(r, "head_dim", 2, 4096, c->hidden_size / c->heads, &c->head_dim);
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
	return 0;
}

/* ---- what is computed only in one way ---- */

static int unsupported(const struct reader *r, const char *key, const char *value,
		       const char *supported)
{
	return err_set(r->e, ENOTSUP, "%s: \"%s\" is %s, but only %s is supported", r->name, key,
		       value, supported);
}

static int check_activation(const struct reader *r)
{
	const char *act;
	int failed = json_get_string_or(r->json, "hidden_act", r->name, "silu", &act, r->e);
	if (!failed && strcmp(act, "silu") != 0)
		return unsupported(r, "hidden_act", act, "silu");
	return failed;
}

static int check_attention(const struct reader *r)
{
	bool sliding;
	const struct json *types;
	int failed =
		json_get_bool_or(r->json, "use_sliding_window", r->name, false, &sliding, r->e);
	if (!failed && sliding)
		return unsupported(r, "use_sliding_window", "true", "false");
	if (!failed)
		failed = json_get_list_or_null(r->json, "layer_types", r->name, &types, r->e);
	if (failed || !types)
		return failed;
	for (const struct json *v = NULL; (v = json_next(types, v));) {
		const char *type;
		failed = json_as_string(v, "layer_types", r->name, &type, r->e);
		if (failed)
			return failed;
		if (strcmp(type, "full_attention") != 0)
			return unsupported(r, "layer_types", type, "full_attention");
	}
	return 0;
}

static int check_not_quantised(const struct reader *r)
{
	static const char *const keys[] = {"quantization_config", "quantization"};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (json_has(r->json, keys[i]))
			return err_set(
				r->e, ENOTSUP,
				"%s has a \"%s\": the checkpoint is quantised; mount the original "
				"in BF16, F16 or F32",
				r->name, keys[i]);
	return 0;
}

/* ---- positions ---- */

/* The type has had two names. */
static int check_rope_type(const struct reader *r, const struct json *rope)
{
	static const char *const keys[] = {"rope_type", "type"};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const char *type;
		int failed = json_get_string_or(rope, keys[i], r->name, "default", &type, r->e);
		if (failed)
			return failed;
		if (strcmp(type, "default") != 0)
			return unsupported(r, keys[i], type, "default");
	}
	return 0;
}

static int check_rotated_whole(const struct reader *r, const struct json *from)
{
	double factor;
	int failed =
		json_get_double_or(from, "partial_rotary_factor", r->name, 0, 1, 1, &factor, r->e);
	if (!failed && factor != 1)
		return unsupported(r, "partial_rotary_factor", "less than 1", "1");
	return failed;
}

/* rope_parameters (newer) holds theta and type; rope_theta and rope_scaling (older) are apart. */
static int read_rope(const struct reader *r)
{
	const struct json *newer, *scaling;
	int failed = json_get_object_or_null(r->json, "rope_parameters", r->name, &newer, r->e);
	if (!failed)
		failed = json_get_object_or_null(r->json, "rope_scaling", r->name, &scaling, r->e);
	if (!failed)
		failed = json_get_double(newer ? newer : r->json, "rope_theta", r->name, 1, 1e15,
					 &r->config->rope_theta, r->e);
	if (!failed)
		failed = check_rotated_whole(r, r->json);
	if (!failed && newer)
		failed = check_rotated_whole(r, newer);
	if (!failed && newer)
		failed = check_rope_type(r, newer);
	if (!failed && scaling)
		failed = check_rope_type(r, scaling);
	return failed;
}

/* ---- layers ---- */

static int read_mlp_only_layers(const struct reader *r)
{
	const struct json *list;
	int failed = json_get_list_or_null(r->json, "mlp_only_layers", r->name, &list, r->e);
	if (failed || !list)
		return failed;
	for (const struct json *v = NULL; (v = json_next(list, v));) {
		uint64_t layer;
		failed = json_as_uint(v, "mlp_only_layers", r->name, 0, CONFIG_MAX_LAYERS - 1,
				      &layer, r->e);
		if (failed)
			return failed;
		r->config->dense_layer[layer] = 1;
	}
	return 0;
}

static int read_routing(const struct reader *r)
{
	struct config *c = r->config;
	uint32_t step;
	bool normalise;
	if (!c->architecture->routed)
		return 0;
	if (c->experts_per_token > c->experts)
		return err_set(r->e, EINVAL, "%s: %u experts per token, but only %u experts",
			       r->name, c->experts_per_token, c->experts);
	int failed = json_get_bool_or(r->json, "norm_topk_prob", r->name, false, &normalise, r->e);
	if (!failed)
		failed = get_u32_or(r, "decoder_sparse_step", 1, CONFIG_MAX_LAYERS, 1, &step);
	if (!failed)
		failed = read_mlp_only_layers(r);
	if (failed)
		return failed;
	enum router_normalisation how = c->architecture->router_normalisation;
	c->normalise_top_k =
		how == NORMALISE_ALWAYS || (how == NORMALISE_AS_CONFIGURED && normalise);
	for (uint32_t layer = 0; layer < c->layers; layer++)
		if ((layer + 1) % step)
			c->dense_layer[layer] = 1;
	return 0;
}

static int read_end_tokens(const struct reader *r)
{
	return generation_end_tokens(&r->config->generation, r->json, r->name, r->e);
}

/* ---- the files ---- */

static int read_architecture(const struct reader *r)
{
	const char *type;
	char known[256];
	int failed = json_get_string(r->json, "model_type", r->name, &type, r->e);
	if (failed)
		return failed;
	r->config->architecture = architecture_find(type);
	if (r->config->architecture)
		return 0;
	architecture_list(known, sizeof known);
	return err_set(r->e, ENOTSUP, "%s: models of type %.64s are not supported; these are: %s",
		       r->name, type, known);
}

static int read_flags(const struct reader *r)
{
	struct config *c = r->config;
	double eps = 0;
	int failed = json_get_bool_or(r->json, "tie_word_embeddings", r->name, false, &c->tied_head,
				      r->e);
	if (!failed)
		failed = json_get_bool_or(r->json, "attention_bias", r->name, false,
					  &c->attention_bias, r->e);
	if (!failed)
		failed = json_get_double_or(r->json, "rms_norm_eps", r->name, 0, 1, 1e-6, &eps,
					    r->e);
	c->rms_eps = (float)eps;
	return failed;
}

static int read_config(const struct reader *r)
{
	static int (*const parts[])(const struct reader *) = {
		read_architecture, check_not_quantised, read_numbers,	 read_heads,
		read_flags,	   check_activation,	check_attention, read_rope,
		read_routing,	   read_end_tokens};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		int failed = parts[i](r);
		if (failed)
			return failed;
	}
	return 0;
}

int config_parse(struct config *c, const char *text, size_t length, const char *name, struct err *e)
{
	struct reader r = {.config = c, .name = name, .e = e};
	*c = (struct config){.generation = GENERATION_DEFAULTS};
	int failed = json_parse_text(&r.json, text, length, name, e);
	if (failed)
		return failed;
	failed = read_config(&r);
	json_free(r.json);
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
static int read_file(struct config *c, const char *directory, const char *file,
		     int (*parse)(struct config *, const char *, size_t, const char *,
				  struct err *),
		     struct err *e)
{
	char path[4096], *text;
	size_t length;
	if (snprintf(path, sizeof path, "%s/%s", directory, file) >= (int)sizeof path)
		return err_set(e, ENAMETOOLONG, "%.64s…: the path is too long", directory);
	int failed = read_whole_file(&text, &length, path, CONFIG_MAX_BYTES, e);
	if (failed)
		return failed;
	failed = parse(c, text, length, path, e);
	free(text);
	return failed;
}

int config_read(struct config *c, const char *directory, struct err *e)
{
	struct err missing;
	int failed = read_file(c, directory, "config.json", config_parse, e);
	if (failed)
		return failed;
	failed = read_file(c, directory, "generation_config.json", config_parse_generation,
			   &missing);
	if (failed && failed != -ENOENT)
		*e = missing;
	return failed == -ENOENT ? 0 : failed;
}

/* ---- tensors ---- */

bool config_has_tensor(const struct config *c, enum tensor_role role, uint32_t layer)
{
	switch (role) {
	case TENSOR_Q_BIAS:
	case TENSOR_K_BIAS:
	case TENSOR_V_BIAS:
		return c->architecture->qkv_bias || c->attention_bias;
	case TENSOR_O_BIAS:
		return c->attention_bias;
	case TENSOR_Q_NORM:
	case TENSOR_K_NORM:
		return c->architecture->head_norms;
	case TENSOR_GATE:
	case TENSOR_UP:
	case TENSOR_DOWN:
		return !config_routed(c, layer);
	case TENSOR_ROUTER:
	case TENSOR_EXPERT_GATE:
	case TENSOR_EXPERT_UP:
	case TENSOR_EXPERT_DOWN:
		return config_routed(c, layer);
	default:
		return true;
	}
}

void config_tensor_shape(const struct config *c, enum tensor_role role, uint32_t *rows,
			 uint32_t *cols)
{
	uint32_t hidden = c->hidden_size, q = c->heads * c->head_dim,
		 kv = c->kv_heads * c->head_dim;
	const struct {
		uint32_t rows, cols; /* cols 0: a vector */
	} shapes[TENSOR_ROLES] = {
		[TENSOR_EMBEDDING] = {c->vocabulary, hidden},
		[TENSOR_FINAL_NORM] = {hidden, 0},
		[TENSOR_HEAD] = {c->vocabulary, hidden},
		[TENSOR_ATTENTION_NORM] = {hidden, 0},
		[TENSOR_Q] = {q, hidden},
		[TENSOR_K] = {kv, hidden},
		[TENSOR_V] = {kv, hidden},
		[TENSOR_O] = {hidden, q},
		[TENSOR_Q_BIAS] = {q, 0},
		[TENSOR_K_BIAS] = {kv, 0},
		[TENSOR_V_BIAS] = {kv, 0},
		[TENSOR_O_BIAS] = {hidden, 0},
		[TENSOR_Q_NORM] = {c->head_dim, 0},
		[TENSOR_K_NORM] = {c->head_dim, 0},
		[TENSOR_FEED_FORWARD_NORM] = {hidden, 0},
		[TENSOR_GATE] = {c->intermediate_size, hidden},
		[TENSOR_UP] = {c->intermediate_size, hidden},
		[TENSOR_DOWN] = {hidden, c->intermediate_size},
		[TENSOR_ROUTER] = {c->experts, hidden},
		[TENSOR_EXPERT_GATE] = {c->expert_size, hidden},
		[TENSOR_EXPERT_UP] = {c->expert_size, hidden},
		[TENSOR_EXPERT_DOWN] = {hidden, c->expert_size},
	};
	*rows = shapes[role].rows;
	*cols = shapes[role].cols;
}

/* Reading parts of a config.json that several families share. */
#include "engine/family/reader.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- one value ---- */

/* The family's default for a missing or null key; NULL: none. */
static const uint32_t *reader_default(const struct reader *r, const char *key)
{
	const struct family_default *d = r->config->family->defaults;
	if (json_has(r->json, key))
		return NULL;
	while (d && d->key && strcmp(d->key, key) != 0)
		d++;
	return d && d->key ? &d->value : NULL;
}

void reader_u32(struct reader *r, const char *key, uint32_t least, uint32_t most, uint32_t *to)
{
	const uint32_t *missing = r->failed ? NULL : reader_default(r, key);
	uint64_t value = missing ? *missing : 0;
	if (!r->failed && !missing)
		r->failed = json_get_uint(r->json, key, r->name, least, most, &value, r->e);
	if (!r->failed)
		*to = (uint32_t)value;
}

void reader_u32_or(struct reader *r, const char *key, uint32_t least, uint32_t most,
		   uint32_t fallback, uint32_t *to)
{
	*to = fallback;
	if (json_has(r->json, key) || reader_default(r, key))
		reader_u32(r, key, least, most, to);
}

void reader_double(struct reader *r, const char *key, double least, double most, double *to)
{
	if (!r->failed)
		r->failed = json_get_double(r->json, key, r->name, least, most, to, r->e);
}

void reader_double_or(struct reader *r, const char *key, double least, double most, double fallback,
		      double *to)
{
	*to = fallback;
	if (json_has(r->json, key))
		reader_double(r, key, least, most, to);
}

void reader_bool(struct reader *r, const char *key, bool *to)
{
	if (!r->failed)
		r->failed = json_get_bool_or(r->json, key, r->name, *to, to, r->e);
}

const char *reader_string_or(struct reader *r, const char *key, const char *fallback)
{
	const char *text = fallback;
	if (!r->failed)
		r->failed = json_get_string_or(r->json, key, r->name, fallback, &text, r->e);
	return text;
}

const struct json *reader_list_or_null(struct reader *r, const char *key)
{
	const struct json *list = NULL;
	if (!r->failed)
		r->failed = json_get_list_or_null(r->json, key, r->name, &list, r->e);
	return list;
}

const struct json *reader_object_or_null(struct reader *r, const char *key)
{
	const struct json *object = NULL;
	if (!r->failed)
		r->failed = json_get_object_or_null(r->json, key, r->name, &object, r->e);
	return object;
}

void reader_factor(struct reader *r, const char *key, float *to)
{
	double factor;
	reader_double_or(r, key, 1e-6, 1e6, 1, &factor);
	*to = (float)factor;
}

void reader_numbers(struct reader *r, const struct reader_number *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		reader_u32(r, numbers[i].key, 1, numbers[i].most, numbers[i].to);
}

/* ---- keys with only one supported value ---- */

void reader_refuse(struct reader *r, int code, const char *format, ...)
{
	char text[1024];
	va_list args;
	if (r->failed)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	r->failed = err_set(r->e, code, "%s: %s", r->name, text);
}

void reader_unsupported(struct reader *r, const char *key, const char *value, const char *supported)
{
	reader_refuse(r, ENOTSUP, "\"%s\" is %s, but only %s is supported", key, value, supported);
}

void reader_only(struct reader *r, const struct only *keys)
{
	char shown[80];
	for (; keys->key; keys++) {
		if (!json_has(r->json, keys->key))
			continue;
		json_show(json_find(r->json, keys->key), shown, sizeof shown);
		if (strcmp(shown, keys->value) != 0)
			reader_unsupported(r, keys->key, shown, keys->value);
	}
}

/* ---- kinds of layers ---- */

/* Reads an item of layer_types; other NULL: only full attention is allowed. */
static bool reader_layer_is(struct reader *r, const struct json *value, const char *other)
{
	const char *type = "full_attention";
	char supported[64];
	r->failed = json_as_string(value, "layer_types", r->name, &type, r->e);
	bool is_other = other && !strcmp(type, other);
	(void)snprintf(supported, sizeof supported, "%s%sfull_attention", other ? other : "",
		       other ? " or " : "");
	if (!is_other && strcmp(type, "full_attention") != 0)
		reader_unsupported(r, "layer_types", type, supported);
	return is_other;
}

bool reader_layer_types(struct reader *r, const char *other, bool is_other[CONFIG_MAX_LAYERS])
{
	const struct json *types = reader_list_or_null(r, "layer_types"), *v = NULL;
	if (types && json_count(types) != r->config->layers)
		reader_refuse(r, EINVAL, "layer_types names %zu layers of %u", json_count(types),
			      r->config->layers);
	for (uint32_t layer = 0; !r->failed && (v = json_next(types, v)); layer++)
		is_other[layer] = reader_layer_is(r, v, other);
	return types;
}

/* The number of a name; the error lists all names. */
static uint32_t reader_kind_of(struct reader *r, const char *key, const char *name,
			       const struct reader_kind *names)
{
	char supported[256] = "";
	size_t used = 0;
	for (const struct reader_kind *n = names; n->name; n++) {
		if (!strcmp(name, n->name))
			return n->kind;
		int more = snprintf(supported + used, sizeof supported - used, "%s%s",
				    used ? ", " : "", n->name);
		used += more > 0 && (size_t)more < sizeof supported - used ? (size_t)more : 0;
	}
	reader_unsupported(r, key, name, supported);
	return 0;
}

bool reader_layer_kinds(struct reader *r, const char *key, const struct reader_kind *names,
			uint32_t kind[CONFIG_MAX_LAYERS])
{
	const struct json *list = reader_list_or_null(r, key), *v = NULL;
	if (list && json_count(list) != r->config->layers)
		reader_refuse(r, EINVAL, "%s names %zu layers of %u", key, json_count(list),
			      r->config->layers);
	for (uint32_t layer = 0; !r->failed && (v = json_next(list, v)); layer++) {
		const char *name = "";
		r->failed = json_as_string(v, key, r->name, &name, r->e);
		if (!r->failed)
			kind[layer] = reader_kind_of(r, key, name, names);
	}
	return list;
}

void reader_only_full_attention(struct reader *r)
{
	const struct json *types = reader_list_or_null(r, "layer_types"), *v = NULL;
	while (!r->failed && (v = json_next(types, v)))
		(void)reader_layer_is(r, v, NULL);
}

void reader_windows(struct reader *r)
{
	struct config *c = r->config;
	bool sliding[CONFIG_MAX_LAYERS];
	uint32_t window;
	reader_u32_or(r, "sliding_window", 1, CONFIG_MAX_POSITIONS, 0, &window);
	bool typed = reader_layer_types(r, "sliding_attention", sliding);
	for (uint32_t layer = 0; layer < c->layers && !r->failed; layer++) {
		if (typed && sliding[layer] && !window)
			r->failed = json_wrong(NULL, "sliding_window", r->name,
					       "a number where layer_types has sliding_attention",
					       r->e);
		c->layer[layer].window = typed && !sliding[layer] ? 0 : window;
	}
}

void reader_logit_cap(struct reader *r)
{
	double cap;
	reader_double_or(r, "final_logit_softcapping", 1e-3, 1e6, 0, &cap);
	r->config->logit_cap = (float)cap;
}

void reader_latent(struct reader *r)
{
	struct config *c = r->config;
	struct latent *l = &c->latent;
	const struct reader_number numbers[] = {
		{"kv_lora_rank", &l->rank, CONFIG_MAX_WIDTH},
		{"qk_nope_head_dim", &l->nope, 4096},
		{"v_head_dim", &l->value, 4096},
	};
	reader_u32_or(r, "q_lora_rank", 1, CONFIG_MAX_WIDTH, 0, &l->query_rank);
	reader_numbers(r, numbers, sizeof numbers / sizeof *numbers);
	reader_u32(r, "qk_rope_head_dim", 0, 4096, &l->rope);
	if (l->rope % 2)
		reader_refuse(r, EINVAL,
			      "\"qk_rope_head_dim\" is %u, which cannot be rotated in pairs",
			      l->rope);
	uint64_t widest = l->nope + l->rope;
	widest = l->rank > widest ? l->rank : widest;
	widest = l->value > widest ? l->value : widest;
	if (c->heads * widest > CONFIG_MAX_LATENT)
		reader_refuse(r, EINVAL,
			      "%u heads of a latent of %u are wider than the %d that is supported",
			      c->heads, l->rank, CONFIG_MAX_LATENT);
	c->attention_scale = (float)(1 / sqrt(l->nope + l->rope));
}

void reader_check_mamba(struct reader *r)
{
	const struct mamba *m = &r->config->mamba;
	if (r->failed)
		return;
	if (m->heads % m->groups)
		reader_refuse(r, EINVAL, "%u heads of Mamba cannot be %u equal groups", m->heads,
			      m->groups);
	uint64_t inner = (uint64_t)m->heads * m->head_dim, keys = (uint64_t)m->groups * m->state;
	if (!m->head_dim || 2 * inner + 2 * keys + m->heads > CONFIG_MAX_WIDTH)
		reader_refuse(r, EINVAL,
			      "Mamba with %u heads of %u and %u groups with states of %u is not "
			      "between 1 and the %d numbers wide that are supported",
			      m->heads, m->head_dim, m->groups, m->state, CONFIG_MAX_WIDTH);
}

/* ---- attention with an index, several streams ---- */

void reader_check_index(struct reader *r)
{
	const struct config *c = r->config;
	const struct chooser *x = &c->chooser;
	if ((uint64_t)x->heads * x->dim > CONFIG_MAX_WIDTH)
		reader_refuse(r, EINVAL,
			      "%u heads of an index, of %u, are wider than the %d that is supported",
			      x->heads, x->dim, CONFIG_MAX_WIDTH);
	for (int i = 0; i < CONFIG_ROPES; i++)
		if (c->rope[i].dim > x->dim)
			reader_refuse(r, EINVAL,
				      "%u numbers of a head are rotated, but heads of the index have "
				      "only %u",
				      c->rope[i].dim, x->dim);
}

void reader_check_streams(struct reader *r)
{
	const struct config *c = r->config;
	if ((uint64_t)c->streams.count * c->hidden_size > CONFIG_MAX_WIDTH)
		reader_refuse(r, EINVAL,
			      "%u residual streams of %u are wider than the %d that is supported",
			      c->streams.count, c->hidden_size, CONFIG_MAX_WIDTH);
}

void reader_mixed_streams(struct reader *r)
{
	struct streams *s = &r->config->streams;
	double eps;
	s->kind = STREAMS_MIXED;
	reader_u32_or(r, "hc_mult", 2, CONFIG_MAX_STREAMS, 4, &s->count);
	reader_u32_or(r, "hc_sinkhorn_iters", 1, 1000, 20, &s->iterations);
	reader_double_or(r, "hc_eps", 0, 1, 1e-6, &eps);
	s->eps = (float)eps;
	reader_check_streams(r);
}

/* ---- delta nets ---- */

static void reader_delta_layers(struct reader *r)
{
	struct config *c = r->config;
	bool linear[CONFIG_MAX_LAYERS];
	uint32_t interval = 1;
	bool typed = reader_layer_types(r, "linear_attention", linear);
	if (!typed)
		reader_u32_or(r, "full_attention_interval", 1, CONFIG_MAX_LAYERS, 4, &interval);
	for (uint32_t layer = 0; layer < c->layers && !r->failed; layer++)
		if (typed ? linear[layer] : (layer + 1) % interval > 0)
			c->layer[layer].mixer = MIXER_DELTA_NET;
}

void reader_delta_nets(struct reader *r)
{
	reader_delta_layers(r);
	struct delta_net *n = &r->config->delta_net;
	const struct reader_number numbers[] = {
		{"linear_num_key_heads", &n->key_heads, 4096},
		{"linear_num_value_heads", &n->value_heads, 4096},
		{"linear_key_head_dim", &n->key_dim, 4096},
		{"linear_value_head_dim", &n->value_dim, 4096},
		{"linear_conv_kernel_dim", &n->width, 64},
	};
	reader_numbers(r, numbers, sizeof numbers / sizeof *numbers);
	if (r->failed) /* the number of heads may be 0 */
		return;
	if (n->value_heads % n->key_heads)
		reader_refuse(r, EINVAL,
			      "linear_num_value_heads (%u) is not a multiple of "
			      "linear_num_key_heads (%u)",
			      n->value_heads, n->key_heads);
	uint64_t values = (uint64_t)n->value_heads * n->value_dim,
		 keys = (uint64_t)n->key_heads * n->key_dim;
	if (2 * keys + 2 * values > CONFIG_MAX_WIDTH)
		reader_refuse(r, EINVAL,
			      "a delta net of %u key and %u value heads is wider than the %d that "
			      "is supported",
			      n->key_heads, n->value_heads, CONFIG_MAX_WIDTH);
}

void reader_kimi(struct reader *r, struct reader_kimi_keys keys)
{
	struct delta_net *n = &r->config->delta_net;
	reader_u32(r, keys.dim, 1, 4096, &n->key_dim);
	reader_u32(r, keys.heads, 1, 4096, &n->key_heads);
	reader_u32(r, keys.width, 1, 64, &n->width);
	n->value_heads = n->key_heads;
	n->value_dim = n->key_dim;
	if (4 * (uint64_t)n->key_heads * n->key_dim > CONFIG_MAX_WIDTH)
		reader_refuse(r, EINVAL,
			      "delta attention of %u heads of %u is wider than the %d that is "
			      "supported",
			      n->key_heads, n->key_dim, CONFIG_MAX_WIDTH);
}

/* ---- feed-forwards ---- */

void reader_limited_units(struct reader *r)
{
	struct config *c = r->config;
	c->glu_limit = 10;
	c->glu = GLU_LIMITED;
	if (json_has(r->json, "swiglu_limit"))
		reader_factor(r, "swiglu_limit", &c->glu_limit);
}

void reader_dense(struct reader *r)
{
	reader_u32(r, "intermediate_size", 1, CONFIG_MAX_WIDTH, &r->config->intermediate_size);
}

static void reader_routed(struct reader *r, const char *size_key)
{
	struct config *c = r->config;
	static const char *const names[] = {"num_local_experts", "n_routed_experts", "num_experts"};
	enum { LAST = sizeof names / sizeof *names - 1 };
	static const char *const chosen[] = {"top_k_experts", "num_experts_per_token",
					     "num_experts_per_tok"};
	int name = 0, per_token = 0;
	while (per_token < 2 && !json_has(r->json, chosen[per_token]))
		per_token++;
	while (name < LAST && !json_has(r->json, names[name]))
		name++;
	reader_u32(r, names[name], 1, CONFIG_MAX_EXPERTS, &c->experts);
	reader_u32(r, chosen[per_token], 1, CONFIG_MAX_EXPERTS, &c->experts_per_token);
	reader_u32(r, size_key, 1, CONFIG_MAX_WIDTH, &c->expert_size);
	if (c->experts_per_token > c->experts)
		reader_refuse(r, EINVAL, "%u experts per token, but only %u experts",
			      c->experts_per_token, c->experts);
	for (uint32_t layer = 0; layer < c->layers + CONFIG_DRAFT_LAYERS; layer++)
		c->layer[layer].feed_forward = FEED_FORWARD_ROUTED;
}

void reader_experts(struct reader *r)
{
	reader_routed(r, "intermediate_size");
}

void reader_moe(struct reader *r)
{
	reader_routed(r, "moe_intermediate_size");
}

void reader_sparse_layers(struct reader *r)
{
	struct config *c = r->config;
	uint32_t step;
	reader_u32_or(r, "decoder_sparse_step", 1, CONFIG_MAX_LAYERS, 1, &step);
	const struct json *list = reader_list_or_null(r, "mlp_only_layers"), *v = NULL;
	while (!r->failed && (v = json_next(list, v))) {
		uint64_t layer = 0;
		r->failed = json_as_uint(v, "mlp_only_layers", r->name, 0, CONFIG_MAX_LAYERS - 1,
					 &layer, r->e);
		if (!r->failed && layer < c->layers)
			c->layer[layer].feed_forward = FEED_FORWARD_DENSE;
	}
	for (uint32_t layer = 0; layer < c->layers; layer++)
		if ((layer + 1) % step)
			c->layer[layer].feed_forward = FEED_FORWARD_DENSE;
}

void reader_normalisation(struct reader *r)
{
	reader_bool(r, "norm_topk_prob", &r->config->normalise_top_k);
}

void reader_first_dense(struct reader *r)
{
	reader_first_dense_by(r, "first_k_dense_replace");
}

void reader_first_dense_by(struct reader *r, const char *key)
{
	struct config *c = r->config;
	uint32_t first;
	reader_u32_or(r, key, 0, CONFIG_MAX_LAYERS, 0, &first);
	for (uint32_t layer = 0; layer < c->layers && layer < first; layer++)
		c->layer[layer].feed_forward = FEED_FORWARD_DENSE;
}

void reader_dense_or_sparse(struct reader *r)
{
	static const struct reader_kind kinds[] = {
		{"dense", FEED_FORWARD_DENSE}, {"sparse", FEED_FORWARD_ROUTED}, {0}};
	struct config *c = r->config;
	uint32_t kind[CONFIG_MAX_LAYERS];
	if (!reader_layer_kinds(r, "mlp_layer_types", kinds, kind))
		return;
	for (uint32_t layer = 0; layer < c->layers && !r->failed; layer++)
		c->layer[layer].feed_forward = (enum feed_forward)kind[layer];
}

/* ---- routers ---- */

void reader_sigmoid_router(struct reader *r)
{
	struct config *c = r->config;
	static const struct only keys[] = {
		{"scoring_func", "\"sigmoid\""},
		{"topk_method", "\"noaux_tc\""},
		{0},
	};
	c->router_order = SIGMOID_THEN_TOP_K;
	c->router_correction = c->normalise_top_k = true;
	reader_only(r, keys);
	reader_factor(r, "routed_scaling_factor", &c->routed_scaling);
	reader_normalisation(r);
	reader_expert_groups(r, "n_group", "topk_group");
}

void reader_expert_groups(struct reader *r, const char *groups, const char *chosen)
{
	struct config *c = r->config;
	reader_u32_or(r, groups, 1, c->experts, 1, &c->router_groups);
	reader_u32_or(r, chosen, 1, c->router_groups, c->router_groups, &c->router_top_groups);
	uint32_t size = c->experts / c->router_groups;
	if (c->router_groups > 1 && (c->experts % c->router_groups || size < 2 ||
				     size * c->router_top_groups < c->experts_per_token))
		reader_refuse(r, EINVAL,
			      "%u experts in %u groups (%s), of which %u are chosen (%s), do not "
			      "give %u experts per token",
			      c->experts, c->router_groups, groups, c->router_top_groups, chosen,
			      c->experts_per_token);
}

/* ---- beside the routed experts ---- */

static void reader_share(struct config *c)
{
	for (uint32_t layer = 0; layer < c->layers + CONFIG_DRAFT_LAYERS; layer++)
		c->layer[layer].shared = config_routed(c, layer);
}

void reader_shared(struct reader *r)
{
	reader_share(r->config);
	r->config->shared_gate = true;
	reader_u32(r, "shared_expert_intermediate_size", 1, CONFIG_MAX_WIDTH,
		   &r->config->shared_size);
}

void reader_shared_experts(struct reader *r)
{
	reader_shared_experts_by(r, "n_shared_experts");
}

void reader_shared_experts_by(struct reader *r, const char *key)
{
	struct config *c = r->config;
	uint32_t experts;
	reader_u32_or(r, key, 0, CONFIG_MAX_EXPERTS, 0, &experts);
	if (!experts)
		return;
	if ((uint64_t)experts * c->expert_size > CONFIG_MAX_WIDTH)
		reader_refuse(r, EINVAL,
			      "%u shared experts (%s) of %u are wider than the %d that is "
			      "supported",
			      experts, key, c->expert_size, CONFIG_MAX_WIDTH);
	reader_share(c);
	c->shared_size = experts * c->expert_size;
}

void reader_left_out(struct reader *r)
{
	reader_u32_or(r, "num_nextn_predict_layers", 0, CONFIG_MAX_LAYERS, 0,
		      &r->config->layers_left_out);
}

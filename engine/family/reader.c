/* The parts of a config.json that several families have. */
#include "engine/family/reader.h"

#include <errno.h>
#include <string.h>

int reader_factor(const struct reader *r, const char *key, float *to)
{
	double factor;
	int failed = json_get_double_or(r->json, key, r->name, 1e-6, 1e6, 1, &factor, r->e);
	if (!failed)
		*to = (float)factor;
	return failed;
}

/* ---- what is computed only in one way ---- */

int reader_unsupported(const struct reader *r, const char *key, const char *value,
		       const char *supported)
{
	return err_set(r->e, ENOTSUP, "%s: \"%s\" is %s, but only %s is supported", r->name, key,
		       value, supported);
}

int reader_only(const struct reader *r, const struct only *keys)
{
	char shown[80];
	for (; keys->key; keys++) {
		if (!json_has(r->json, keys->key))
			continue;
		json_show(json_find(r->json, keys->key), shown, sizeof shown);
		if (strcmp(shown, keys->value) != 0)
			return reader_unsupported(r, keys->key, shown, keys->value);
	}
	return 0;
}

int reader_only_full_attention(const struct reader *r)
{
	const struct json *types;
	int failed = json_get_list_or_null(r->json, "layer_types", r->name, &types, r->e);
	if (failed || !types)
		return failed;
	for (const struct json *v = NULL; (v = json_next(types, v));) {
		const char *type;
		failed = json_as_string(v, "layer_types", r->name, &type, r->e);
		if (failed)
			return failed;
		if (strcmp(type, "full_attention") != 0)
			return reader_unsupported(r, "layer_types", type, "full_attention");
	}
	return 0;
}

static int reader_window(const struct reader *r, const struct json *value, uint32_t window,
			 struct layer *to)
{
	const char *type;
	int failed = json_as_string(value, "layer_types", r->name, &type, r->e);
	if (failed)
		return failed;
	if (!strcmp(type, "sliding_attention") && !window)
		return json_wrong(NULL, "sliding_window", r->name,
				  "a number where layer_types has sliding_attention", r->e);
	if (!strcmp(type, "sliding_attention"))
		to->window = window;
	else if (strcmp(type, "full_attention") != 0)
		return reader_unsupported(r, "layer_types", type,
					  "sliding_attention or full_attention");
	return 0;
}

int reader_windows(const struct reader *r)
{
	struct config *c = r->config;
	const struct json *types;
	uint32_t window;
	int failed = reader_u32_or(r, "sliding_window", 1, CONFIG_MAX_POSITIONS, 0, &window);
	if (!failed)
		failed = json_get_list_or_null(r->json, "layer_types", r->name, &types, r->e);
	if (failed)
		return failed;
	for (uint32_t layer = 0; layer < c->layers && !types; layer++)
		c->layer[layer].window = window;
	if (types && json_count(types) != c->layers)
		return err_set(r->e, EINVAL, "%s: layer_types names %zu layers of %u", r->name,
			       json_count(types), c->layers);
	struct layer *to = c->layer;
	for (const struct json *v = NULL; !failed && types && (v = json_next(types, v)); to++)
		failed = reader_window(r, v, window, to);
	return failed;
}

/* ---- feed-forwards ---- */

int reader_dense(const struct reader *r)
{
	return reader_u32(r, "intermediate_size", 1, CONFIG_MAX_WIDTH,
			  &r->config->intermediate_size);
}

static int reader_routed(const struct reader *r, const char *size_key)
{
	struct config *c = r->config;
	static const char *const names[] = {"num_local_experts", "n_routed_experts", "num_experts"};
	enum { LAST = sizeof names / sizeof *names - 1 };
	const char *per_token =
		json_has(r->json, "top_k_experts") ? "top_k_experts" : "num_experts_per_tok";
	int name = 0;
	while (name < LAST && !json_has(r->json, names[name]))
		name++;
	int failed = reader_u32(r, names[name], 1, CONFIG_MAX_EXPERTS, &c->experts);
	if (!failed)
		failed = reader_u32(r, per_token, 1, CONFIG_MAX_EXPERTS, &c->experts_per_token);
	if (!failed)
		failed = reader_u32(r, size_key, 1, CONFIG_MAX_WIDTH, &c->expert_size);
	if (!failed && c->experts_per_token > c->experts)
		failed = err_set(r->e, EINVAL, "%s: %u experts per token, but only %u experts",
				 r->name, c->experts_per_token, c->experts);
	for (uint32_t layer = 0; layer < c->layers + CONFIG_DRAFT_LAYERS; layer++)
		c->layer[layer].feed_forward = FEED_FORWARD_ROUTED;
	return failed;
}

int reader_experts(const struct reader *r)
{
	return reader_routed(r, "intermediate_size");
}

int reader_moe(const struct reader *r)
{
	return reader_routed(r, "moe_intermediate_size");
}

static int reader_dense_layers(const struct reader *r)
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
		if (layer < r->config->layers)
			r->config->layer[layer].feed_forward = FEED_FORWARD_DENSE;
	}
	return 0;
}

int reader_sparse_layers(const struct reader *r)
{
	struct config *c = r->config;
	uint32_t step;
	int failed = reader_u32_or(r, "decoder_sparse_step", 1, CONFIG_MAX_LAYERS, 1, &step);
	if (!failed)
		failed = reader_dense_layers(r);
	for (uint32_t layer = 0; layer < c->layers && !failed; layer++)
		if ((layer + 1) % step)
			c->layer[layer].feed_forward = FEED_FORWARD_DENSE;
	return failed;
}

int reader_normalisation(const struct reader *r)
{
	bool *to = &r->config->normalise_top_k;
	return json_get_bool_or(r->json, "norm_topk_prob", r->name, *to, to, r->e);
}

int reader_first_dense(const struct reader *r)
{
	struct config *c = r->config;
	uint32_t first;
	int failed = reader_u32_or(r, "first_k_dense_replace", 0, CONFIG_MAX_LAYERS, 0, &first);
	for (uint32_t layer = 0; layer < c->layers && layer < first && !failed; layer++)
		c->layer[layer].feed_forward = FEED_FORWARD_DENSE;
	return failed;
}

/* ---- routers ---- */

static int reader_groups(const struct reader *r)
{
	struct config *c = r->config;
	int failed = reader_u32_or(r, "n_group", 1, c->experts, 1, &c->router_groups);
	if (!failed)
		failed = reader_u32_or(r, "topk_group", 1, c->router_groups, c->router_groups,
				       &c->router_top_groups);
	if (failed || c->router_groups == 1)
		return failed;
	uint32_t size = c->experts / c->router_groups;
	if (c->experts % c->router_groups || size < 2 ||
	    size * c->router_top_groups < c->experts_per_token)
		return err_set(r->e, EINVAL,
			       "%s: %u experts in %u groups (n_group), of which %u are chosen "
			       "(topk_group), do not give %u experts per token",
			       r->name, c->experts, c->router_groups, c->router_top_groups,
			       c->experts_per_token);
	return 0;
}

int reader_sigmoid_router(const struct reader *r)
{
	struct config *c = r->config;
	static const struct only keys[] = {
		{"scoring_func", "\"sigmoid\""},
		{"topk_method", "\"noaux_tc\""},
		{0},
	};
	c->router_order = SIGMOID_THEN_TOP_K;
	c->router_correction = c->normalise_top_k = true;
	int failed = reader_only(r, keys);
	if (!failed)
		failed = reader_factor(r, "routed_scaling_factor", &c->routed_scaling);
	if (!failed)
		failed = reader_normalisation(r);
	return failed ? failed : reader_groups(r);
}

/* ---- beside the routed experts ---- */

static void reader_share(struct config *c)
{
	for (uint32_t layer = 0; layer < c->layers + CONFIG_DRAFT_LAYERS; layer++)
		c->layer[layer].shared = config_routed(c, layer);
}

int reader_shared(const struct reader *r)
{
	reader_share(r->config);
	r->config->shared_gate = true;
	return reader_u32(r, "shared_expert_intermediate_size", 1, CONFIG_MAX_WIDTH,
			  &r->config->shared_size);
}

int reader_shared_experts(const struct reader *r)
{
	struct config *c = r->config;
	uint32_t experts;
	int failed = reader_u32_or(r, "n_shared_experts", 0, CONFIG_MAX_EXPERTS, 0, &experts);
	if (failed || !experts)
		return failed;
	if ((uint64_t)experts * c->expert_size > CONFIG_MAX_WIDTH)
		return err_set(r->e, EINVAL,
			       "%s: %u shared experts (n_shared_experts) of %u are wider than the "
			       "%d that is supported",
			       r->name, experts, c->expert_size, CONFIG_MAX_WIDTH);
	reader_share(c);
	c->shared_size = experts * c->expert_size;
	return 0;
}

int reader_left_out(const struct reader *r)
{
	return reader_u32_or(r, "num_nextn_predict_layers", 0, CONFIG_MAX_LAYERS, 0,
			     &r->config->layers_left_out);
}

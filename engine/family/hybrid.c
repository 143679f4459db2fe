/* What the hybrids of gated delta nets and gated attention have in common (reader.h). */
#include "engine/family/reader.h"

#include <errno.h>
#include <string.h>

static int read_delta_net(const struct reader *r)
{
	struct delta_net *n = &r->config->delta_net;
	const struct {
		const char *key;
		uint32_t *to, most;
	} numbers[] = {
		{"linear_num_key_heads", &n->key_heads, 4096},
		{"linear_num_value_heads", &n->value_heads, 4096},
		{"linear_key_head_dim", &n->key_dim, 4096},
		{"linear_value_head_dim", &n->value_dim, 4096},
		{"linear_conv_kernel_dim", &n->width, 64},
	};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		int failed = get_u32(r, numbers[i].key, 1, numbers[i].most, numbers[i].to);
		if (failed)
			return failed;
	}
	if (n->value_heads % n->key_heads)
		return err_set(r->e, EINVAL,
			       "%s: linear_num_value_heads (%u) is not a multiple of "
			       "linear_num_key_heads (%u)",
			       r->name, n->value_heads, n->key_heads);
	uint64_t values = (uint64_t)n->value_heads * n->value_dim,
		 keys = (uint64_t)n->key_heads * n->key_dim;
	if (2 * keys + 2 * values > CONFIG_MAX_WIDTH)
		return err_set(r->e, EINVAL,
			       "%s: a delta net of %u key and %u value heads is wider than the %d "
			       "that is supported",
			       r->name, n->key_heads, n->value_heads, CONFIG_MAX_WIDTH);
	return 0;
}

/* Every so many layers one of attention: the older form of layer_types. */
static int read_interval(const struct reader *r)
{
	struct config *c = r->config;
	uint32_t interval;
	int failed = get_u32_or(r, "full_attention_interval", 1, CONFIG_MAX_LAYERS, 4, &interval);
	for (uint32_t layer = 0; layer < c->layers && !failed; layer++)
		if ((layer + 1) % interval)
			c->layer[layer].mixer = MIXER_DELTA_NET;
	return failed;
}

static int read_mixer(const struct reader *r, const struct json *value, struct layer *to)
{
	const char *type;
	int failed = json_as_string(value, "layer_types", r->name, &type, r->e);
	if (failed)
		return failed;
	if (!strcmp(type, "linear_attention"))
		to->mixer = MIXER_DELTA_NET;
	else if (strcmp(type, "full_attention") != 0)
		return reader_unsupported(r, "layer_types", type,
					  "linear_attention or full_attention");
	return 0;
}

static int read_mixers(const struct reader *r)
{
	struct config *c = r->config;
	const struct json *types;
	int failed = json_get_list_or_null(r->json, "layer_types", r->name, &types, r->e);
	if (failed || !types)
		return failed ? failed : read_interval(r);
	if (json_count(types) != c->layers)
		return err_set(r->e, EINVAL, "%s: layer_types names %zu layers of %u", r->name,
			       json_count(types), c->layers);
	struct layer *to = c->layer;
	for (const struct json *v = NULL; !failed && (v = json_next(types, v)); to++)
		failed = read_mixer(r, v, to);
	return failed;
}

int reader_hybrid(const struct reader *r)
{
	struct config *c = r->config;
	const char *gate;
	c->head_norms = HEAD_NORMS_EACH;
	c->norm_offset = 1;
	c->draft = true;
	int failed =
		json_get_bool_or(r->json, "attn_output_gate", r->name, true, &c->query_gate, r->e);
	if (!failed)
		failed = json_get_string_or(r->json, "output_gate_type", r->name, "swish", &gate,
					    r->e);
	if (!failed && strcmp(gate, "swish") != 0)
		return reader_unsupported(r, "output_gate_type", gate, "swish");
	if (!failed)
		failed = read_mixers(r);
	return failed ? failed : read_delta_net(r);
}

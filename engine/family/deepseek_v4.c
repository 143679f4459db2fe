/* DeepSeek V4: compressed attention with a window in each layer and entries in most; several
 * residual streams with mixed hyper-connections; in the first layers a table that lists the experts
 * of each token, in the others a router with square roots of softplus; a shared expert; gated units
 * with a limit. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

#include <errno.h>

enum { DEEPSEEK_WINDOW, DEEPSEEK_HEAVY, DEEPSEEK_SPARSE };

/* ---- which layers have entries ---- */

/* Reads a list with a number for each layer, and perhaps for draft layers after them: 0, 4 or 128
 * positions. */
static void deepseek_ratios(struct reader *r, uint32_t kind[CONFIG_MAX_LAYERS])
{
	const struct config *c = r->config;
	const struct json *list = reader_list_or_null(r, "compress_ratios"), *v = NULL;
	if (!r->failed && json_count(list) < c->layers)
		reader_refuse(r, EINVAL, "compress_ratios names %zu layers of %u", json_count(list),
			      c->layers);
	for (uint32_t layer = 0; layer < c->layers && !r->failed; layer++) {
		uint64_t ratio = 0;
		v = json_next(list, v);
		r->failed = json_as_uint(v, "compress_ratios", r->name, 0, CONFIG_MAX_POSITIONS,
					 &ratio, r->e);
		kind[layer] = !ratio	   ? DEEPSEEK_WINDOW
			      : ratio == 4 ? DEEPSEEK_SPARSE
					   : DEEPSEEK_HEAVY;
		if (kind[layer] == DEEPSEEK_HEAVY && ratio != 128)
			reader_unsupported(r, "compress_ratios", "of another kind", "0, 4 or 128");
	}
}

/* Reads the positions per entry, from compress_rates or from a separate key. */
static uint32_t deepseek_rate(struct reader *r, const char *name, const char *own, uint32_t usual)
{
	const struct json *whole = r->json, *rates = reader_object_or_null(r, "compress_rates");
	uint32_t rate;
	reader_u32_or(r, own, 1, CONFIG_POOL_MOST, usual, &rate);
	r->json = rates ? rates : whole;
	if (rates && !json_has(whole, own))
		reader_u32_or(r, name, 1, CONFIG_POOL_MOST, usual, &rate);
	r->json = whole;
	return r->failed ? 1 : rate;
}

static void deepseek_layers(struct reader *r)
{
	static const struct reader_kind kinds[] = {
		{"sliding_attention", DEEPSEEK_WINDOW},
		{"heavily_compressed_attention", DEEPSEEK_HEAVY},
		{"compressed_sparse_attention", DEEPSEEK_SPARSE},
		{0}};
	struct config *c = r->config;
	uint32_t kind[CONFIG_MAX_LAYERS] = {0}, window = 1;
	if (!reader_layer_kinds(r, "layer_types", kinds, kind))
		deepseek_ratios(r, kind);
	uint32_t heavy = deepseek_rate(r, "heavily_compressed_attention", "compress_rate_hca", 128),
		 sparse = deepseek_rate(r, "compressed_sparse_attention", "compress_rate_csa", 4);
	if (64 % sparse || (64 % heavy && heavy % 64))
		reader_refuse(r, ENOTSUP,
			      "entries of %u and of %u positions (compress_rates) are not supported: "
			      "the first must divide 64, and the second divide it or be a multiple",
			      sparse, heavy);
	reader_u32_or(r, "sliding_window", 1, CONFIG_MAX_POSITIONS, 128, &window);
	for (uint32_t i = 0; i < c->layers && !r->failed; i++) {
		struct layer *l = &c->layer[i];
		l->mixer = MIXER_COMPRESSED;
		l->window = window < c->max_positions ? window : c->max_positions;
		l->rope = kind[i] != DEEPSEEK_WINDOW;
		l->pool = kind[i] == DEEPSEEK_SPARSE  ? sparse
			  : kind[i] == DEEPSEEK_HEAVY ? heavy
						      : 0;
		l->pool_parts = kind[i] == DEEPSEEK_SPARSE ? 2 : 1;
		l->index = kind[i] == DEEPSEEK_SPARSE ? INDEX_OWN : INDEX_UNUSED;
		if (l->index == INDEX_OWN)
			c->chooser.ratio = sparse;
	}
}

/* ---- sizes, rotations ---- */

static void deepseek_sizes(struct reader *r)
{
	struct config *c = r->config;
	struct latent *l = &c->latent;
	struct grouped *g = &c->grouped;
	const struct reader_number numbers[] = {
		{"q_lora_rank", &l->query_rank, CONFIG_MAX_WIDTH},
		{"o_groups", &g->groups, 4096},
		{"o_lora_rank", &g->low, CONFIG_MAX_WIDTH},
	};
	reader_numbers(r, numbers, sizeof numbers / sizeof *numbers);
	l->rank = l->nope = l->value = c->head_dim;
	c->sinks = c->rotates_last = true;
	if (r->failed)
		return;
	if (c->heads % g->groups || (uint64_t)g->groups * g->low > CONFIG_MAX_WIDTH)
		reader_refuse(r, EINVAL,
			      "%u groups (o_groups) of %u heads with outputs of %u (o_lora_rank) are "
			      "not supported",
			      g->groups, c->heads, g->low);
}

/* Reads how many numbers at the end of a head are rotated, in older configs. */
static void deepseek_rotated(struct reader *r)
{
	struct config *c = r->config;
	uint32_t own = c->head_dim / 8;
	reader_u32_or(r, "qk_rope_head_dim", 2, c->head_dim, own, &own);
	for (int i = 0; i < 2; i++)
		if (c->rope[i].dim == c->head_dim)
			c->rope[i].dim = own;
	uint32_t dim = c->rope[0].dim;
	if (dim != c->rope[1].dim || dim % 2 || !dim ||
	    (json_has(r->json, "qk_rope_head_dim") && dim != own))
		reader_refuse(r, EINVAL,
			      "%u and %u numbers of a head are rotated (qk_rope_head_dim), where an "
			      "even number is, and the same in all layers",
			      dim, c->rope[1].dim);
}

/* Reads two rotations: one for layers that have only a window, one for the others. Both are in
 * rope_parameters; older configs have two base frequencies and a scaling for the second. The
 * rotated numbers are not scaled. */
static void deepseek_ropes(struct reader *r)
{
	struct config *c = r->config;
	const struct json *ropes = reader_object_or_null(r, "rope_parameters"),
			  *older = reader_object_or_null(r, "rope_scaling"), *scaling = ropes;
	if (ropes && json_has(ropes, "main")) {
		rope_read_typed(r, ropes, "main", c->head_dim, &c->rope[0]);
		rope_read_typed(r, ropes, "compress", c->head_dim, &c->rope[1]);
		scaling = json_find(ropes, "compress");
	} else {
		scaling = ropes ? ropes : older;
		rope_read_based(r, "rope_theta", 10000, NULL, c->head_dim, &c->rope[0]);
		rope_read_based(r, "compress_rope_theta", 160000, scaling, c->head_dim,
				&c->rope[1]);
	}
	if (!scaling || !json_has(scaling, "attention_factor"))
		c->rope[1].amplitude = 1;
	if (c->rope[0].scaling != ROPE_DEFAULT)
		reader_unsupported(r, "rope_type", "yarn", "default");
	deepseek_rotated(r);
}

static void deepseek_index(struct reader *r)
{
	struct config *c = r->config;
	struct chooser *x = &c->chooser;
	const struct reader_number numbers[] = {
		{"index_n_heads", &x->heads, 4096},
		{"index_head_dim", &x->dim, 4096},
		{"index_topk", &x->most, CONFIG_MAX_POSITIONS},
	};
	if (!x->ratio) /* no layer has entries */
		return;
	x->entry = INDEX_POOLS;
	x->groups = 1;
	x->low = x->weighed = x->overlaps = true;
	reader_numbers(r, numbers, sizeof numbers / sizeof *numbers);
	uint32_t all = c->max_positions / x->ratio;
	x->most = x->most < all || !all ? x->most : all;
	reader_check_index(r);
}

/* ---- feed-forwards ---- */

static void deepseek_feed_forwards(struct reader *r)
{
	static const struct reader_kind kinds[] = {{"moe", false}, {"hash_moe", true}, {0}};
	struct config *c = r->config;
	uint32_t kind[CONFIG_MAX_LAYERS] = {0}, listed = 0;
	if (!reader_layer_kinds(r, "mlp_layer_types", kinds, kind))
		reader_u32_or(r, "num_hash_layers", 0, CONFIG_MAX_LAYERS, 3, &listed);
	for (uint32_t i = 0; i < c->layers; i++)
		c->layer[i].listed = kind[i] || i < listed;
	c->router_order = SOFTPLUS_THEN_TOP_K;
	c->router_correction = c->normalise_top_k = true;
	c->top_k_eps = 1e-20F;
	c->routed_scaling = 1.5F;
	if (json_has(r->json, "routed_scaling_factor"))
		reader_factor(r, "routed_scaling_factor", &c->routed_scaling);
	reader_limited_units(r);
}

static const struct only deepseek_only[] = {{"attention_bias", "false"},
					    {"mlp_bias", "false"},
					    {"num_key_value_heads", "1"},
					    {"n_shared_experts", "1"},
					    {"norm_topk_prob", "true"},
					    {"scoring_func", "\"sqrtsoftplus\""},
					    {"topk_method", "\"noaux_tc\""},
					    {0}};
static const struct family_default defaults[] = {{"n_shared_experts", 1},
						 {"num_key_value_heads", 1},
						 {NULL, 0}};

/* clang-format off: a row a line */
#define L "model.layers.%u."
#define A L "attn."
#define I A "indexer."
#define F L "ffn."
static const struct tensor_name names[] = {
	{TENSOR_EMBEDDING, "model.embed.weight", NULL},
	{TENSOR_HEAD, "model.head.weight", NULL},
	{TENSOR_MIXER_NORM, L "attn_norm.weight", NULL},
	{TENSOR_FEED_FORWARD_NORM, L "ffn_norm.weight", NULL},
	{TENSOR_SINKS, A "attn_sink", NULL},
	{TENSOR_LATENT_Q_LOW, A "wq_a.weight", NULL},
	{TENSOR_LATENT_Q_NORM, A "q_norm.weight", NULL},
	{TENSOR_LATENT_Q, A "wq_b.weight", NULL},
	{TENSOR_LATENT_KV, A "wkv.weight", NULL},
	{TENSOR_LATENT_KV_NORM, A "kv_norm.weight", NULL},
	{TENSOR_INDEX_Q, I "wq_b.weight", NULL},
	{TENSOR_INDEX_WEIGHTS, I "weights_proj.weight", NULL},
	{TENSOR_INDEX_K, I "compressor.wkv.weight", NULL},
	{TENSOR_INDEX_GATE, I "compressor.wgate.weight", NULL},
	{TENSOR_INDEX_POOL_BIAS, I "compressor.ape", NULL},
	{TENSOR_INDEX_K_NORM, I "compressor.norm.weight", NULL},
	{TENSOR_ROUTER, F "gate.weight", NULL},
	{TENSOR_ROUTER_CORRECTION, F "gate.bias", NULL},
	{TENSOR_SHARED_GATE, F "shared_experts.w1.weight", NULL},
	{TENSOR_SHARED_UP, F "shared_experts.w3.weight", NULL},
	{TENSOR_SHARED_DOWN, F "shared_experts.w2.weight", NULL},
	{TENSOR_EXPERT_GATE, F "experts.%u.w1.weight", NULL},
	{TENSOR_EXPERT_UP, F "experts.%u.w3.weight", NULL},
	{TENSOR_EXPERT_DOWN, F "experts.%u.w2.weight", NULL},
	{0},
};
/* clang-format on */

static const char *const types[] = {"deepseek_v4", NULL};
static const char *const skipped[] = {"mtp.", NULL};
const struct family family_deepseek_v4 = {
	.model_types = types,
	.bare = true,
	.partial_rotary = true,
	.own_positions = true,
	.ropes = 1U << ROPE_YARN,
	.only = deepseek_only,
	.defaults = defaults,
	.parts = {deepseek_sizes, deepseek_layers, deepseek_ropes, deepseek_index,
		  reader_mixed_streams, reader_moe, deepseek_feed_forwards, reader_shared_experts},
	.names = names,
	.gguf = &gguf_deepseek_v4,
	.skipped = skipped,
	.beside_list = L "ffn.gate.bias",
};

/* A model's config.json and generation_config.json as one struct.
 *
 * Reads both published forms, the older (rope_theta, num_experts, torch_dtype at the top) and the
 * newer (rope_parameters, num_local_experts, dtype), and the text part of a multimodal model.
 * Unsupported values (such as a rope scaling or an activation) are errors that name the key; they
 * are never ignored.
 */
#ifndef MOEFS_ENGINE_FAMILY_CONFIG_H
#define MOEFS_ENGINE_FAMILY_CONFIG_H

#include "cache/err.h"
#include "engine/family/embedding.h"
#include "engine/family/generation.h"
#include "engine/family/ngram_hash.h"
#include "engine/family/role.h"
#include "engine/family/rope.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CONFIG_MAX_LAYERS = 1024,
	CONFIG_MAX_EXPERTS = 4096,
	CONFIG_MAX_WIDTH = 1 << 20, /* of any matrix except embedding and head */
	CONFIG_MAX_VOCABULARY = 1 << 24,
	CONFIG_MAX_POSITIONS = 1 << 24,
	CONFIG_MAX_LATENT = 1 << 18, /* elements of all heads' latents */
	CONFIG_DRAFT_LAYERS = 1,     /* supported; after the model's own layers */
	CONFIG_ROPES = 3,	     /* different rotations in a model … */
	CONFIG_LONG_ROPE = 1,	     /* … the second may be for long texts … */
	CONFIG_NO_ROPE = 2,	     /* … the last rotates nothing */
	CONFIG_MAX_STREAMS = 16,     /* of the residual stream */
	CONFIG_POOL_MOST = 256,	     /* positions per index key or entry */
};

/* A layer has a mixer, a feed-forward, or both; the mixer comes first.
 */
enum layer_part { PART_MIXER, PART_FEED_FORWARD, LAYER_PARTS };
enum mixer {
	MIXER_ATTENTION,
	MIXER_LATENT,
	MIXER_COMPRESSED, /* keys are latents and also serve as values; nothing is absorbed */
	MIXER_DELTA_NET,
	MIXER_KIMI, /* Kimi's delta attention; sizes in struct delta_net */
	MIXER_MAMBA,
	MIXER_CONVOLUTION,
	MIXER_NONE,
	MIXERS
};
enum feed_forward { FEED_FORWARD_DENSE, FEED_FORWARD_ROUTED, FEED_FORWARD_NONE };

/* Which positions an attention layer reads. UNUSED: all. OWN: those that its own index chooses.
 * SHARED: those that the last layer with an index chose. */
enum index_use { INDEX_UNUSED, INDEX_OWN, INDEX_SHARED };

struct layer {
	enum mixer mixer;
	enum feed_forward feed_forward;
	bool shared;	/* a shared expert beside the routed ones */
	bool listed;	/* a table gives each token's experts; the router only weights them */
	uint32_t state; /* index among the layers with this mixer: the place of its state in a
			   context */
	/* For attention: */
	uint32_t head_dim, kv_heads;
	uint32_t window;     /* positions that a token attends to, its own included; 0: all */
	uint32_t rope;	     /* index in config.rope[]; CONFIG_NO_ROPE: no rotation */
	bool keys_as_values; /* values are the keys before their norm; there is no value projection
			      */
	/* Not 0: the layer has no keys and values, and reads those of layer number keys_of - 1. */
	uint32_t keys_of;
	bool double_wide; /* its dense feed-forward is twice as wide as intermediate_size */
	uint64_t kv_at;	  /* elements per position in earlier layers of this kv_kind */
	uint64_t codes_at[KV_TYPES]; /* the same for quantised types: bytes per block of 64
					positions */
	/* For attention to chosen positions: */
	enum index_use index;
	uint64_t index_at; /* elements per block of KV_INDEX in earlier layers */
	/* Compressed attention: positions per entry; entries replace the positions before the
	 * window. 0: no entries, only the window. */
	uint32_t pool;
	uint32_t pool_parts; /* 2: entries overlap, as index keys with chooser.overlaps */
	uint64_t entries_at; /* elements of a block of KV_INDEX before this layer's entries */
	/* Other data that layers keep for the last positions (context_past_row): elements per
	 * position in earlier layers with a window. */
	uint64_t past_at;
	uint32_t ngrams; /* 1 + index of the n-gram table whose rows are added before the mixer; 0:
			    none */
};

/* Three stores in a context. WHOLE: keys and values of layers that attend to the whole text.
 * WINDOWED: keys and values of layers with a window, and other data of the last positions. INDEX:
 * index keys, and entries made from several positions. */
enum kv_kind { KV_WHOLE, KV_WINDOWED, KV_INDEX, KV_KINDS };
static inline enum kv_kind config_kv_kind(const struct layer *l)
{
	return l->window ? KV_WINDOWED : KV_WHOLE;
}

/* How mixer and feed-forward read the residual streams and add to them. PLAIN: there is one stream.
 * GATED and MIXED: there are several, with two kinds of hyper-connections (Zhu et al. 2024;
 * residual.c). */
enum streams_kind { STREAMS_PLAIN, STREAMS_GATED, STREAMS_MIXED };

/* What an index scores. TOKENS: positions. BLOCKS: blocks of `ratio` positions; the score is that
 * of the best position. MEANS and POOLS: blocks with one key, which is the mean of their keys, or a
 * mean weighted by gates. */
enum index_entry { INDEX_NONE, INDEX_TOKENS, INDEX_BLOCKS, INDEX_MEANS, INDEX_POOLS };

enum router_order {
	SOFTMAX_THEN_TOP_K,
	TOP_K_THEN_SOFTMAX,
	SIGMOID_THEN_TOP_K,
	SOFTPLUS_THEN_TOP_K, /* the square root of log(1 + exp(logit)) */
};
/* Gated linear units (Shazeer 2020): how gate and up are combined. GLU_NONE: there is no gate; the
 * activation is relu(up)² (So et al. 2021). */
enum glu { GLU_SILU, GLU_GELU, GLU_CLAMPED, GLU_LIMITED, GLU_NONE, GLUS };
/* RMSNorm of queries and keys before the rotation: none, of each head, or of all heads together. */
enum head_norms { HEAD_NORMS_NONE, HEAD_NORMS_EACH, HEAD_NORMS_TOGETHER };

struct family;
struct config {
	const struct family *family;
	const char *model_type; /* as in config.json */
	bool gguf; /* from a GGUF file, whose tensors have other names and some changed values */
	uint32_t hidden_size, layers, vocabulary, max_positions;
	uint32_t heads, kv_heads, head_dim; /* of most layers; see layer[] */
	uint32_t intermediate_size;	    /* of a dense layer */
	/* Not 0: each layer gets an additional input of this width for each token, from a table of
	 * per_layer_vocabulary rows. */
	uint32_t per_layer, per_layer_vocabulary;
	uint32_t experts, experts_per_token, expert_size;
	uint32_t shared_size; /* of a shared expert */
	/* not 0: routed experts read and write a projection of this width */
	uint32_t expert_latent;
	/* Experts form router_groups groups of equal size. A token chooses from the
	 * router_top_groups groups with the highest sum of their two best scores. */
	uint32_t router_groups, router_top_groups;
	uint32_t layers_left_out;    /* draft layers that moefs does not compute */
	struct latent {		     /* latent attention; sizes per head, except the ranks */
		uint32_t query_rank; /* 0: queries have a single projection */
		uint32_t rank;
		/* sizes of the parts of queries and keys without and with rotation */
		uint32_t nope, rope;
		uint32_t value;
		bool interleaved; /* rotated pairs are neighbours */
		float eps;	  /* of the norms of both ranks; 0: rms_eps */
	} latent;
	struct grouped { /* compressed attention's output: each group of heads has its own product
			  */
		uint32_t groups;
		uint32_t low; /* rows of each product */
	} grouped;
	struct delta_net {
		uint32_t key_heads, value_heads, key_dim, value_dim;
		uint32_t width; /* of the convolution */
		/* Value head h belongs to key head h % key_heads (some GGUF files), not to h /
		 * (value_heads / key_heads). */
		bool tiled;
		bool sigmoid; /* the output gate is a sigmoid, not silu */
		float lower;  /* Kimi: not 0: lower bound of the logarithm of decays */
	} delta_net;

	struct streams { /* residual streams */
		enum streams_kind kind;
		uint32_t count;	     /* 1 if plain */
		uint32_t low;	     /* gated: width between the two products of the gates */
		uint32_t iterations; /* mixed: how often the mixture is normalised */
		float eps;	     /* mixed: added when normalising */
		bool mean;	     /* mixed: the head reads the mean of the streams */
	} streams;
	struct mamba { /* Mamba2 */
		uint32_t heads, head_dim;
		uint32_t groups; /* groups of heads that share keys and queries (B and C) */
		uint32_t state;	 /* size of keys and queries */
		uint32_t width;	 /* of the convolution */
		bool bias;	 /* of the convolution */
	} mamba;
	uint32_t convolution; /* width of short convolutions */

	struct chooser { /* the index of attention to chosen positions (chooser.c) */
		enum index_entry entry;
		uint32_t heads, dim; /* heads and size of its queries; there is one key head */
		uint32_t groups;     /* choices per token: 1, or one per key-value head */
		uint32_t ratio;	     /* positions of an entry */
		uint32_t most;	     /* most chosen entries, besides the last ones (chooser.c) */
		bool low;	     /* queries are computed from the low-rank latent */
		bool norms;	     /* RMSNorm of queries and keys … */
		bool layer_norm;     /* … or LayerNorm with a bias, only of keys */
		bool weighed;	     /* each head's scores are weighted by one more product */
		bool interleaved;    /* rotated pairs are neighbours */
		/* INDEX_POOLS: a key is made from two pools of positions. It takes the first half
		 * of the projections of the pool before. */
		bool overlaps;
	} chooser;
	struct ngrams {		      /* embeddings of n-grams (compute/ngrams.h) */
		uint32_t tables;      /* layers with a table; 0: none */
		uint32_t dim;	      /* numbers of all rows of a token together */
		uint32_t width, step; /* taps of the convolution, and distance between two taps */
		struct ngram_hash hash[NGRAM_TABLES];
	} ngrams;

	bool qkv_bias, output_bias;
	bool query_gate;  /* q has for each head its query, then its gate */
	bool value_norm;  /* RMSNorm of each head of values, without weights */
	bool post_norms;  /* also a norm of the output of mixer and feed-forward, before it is added
			   */
	bool layer_scale; /* at the end of a layer the stream is multiplied by a number */
	bool sinks;	  /* each attention head has one more score, without a value */
	enum head_norms head_norms;
	enum glu glu;
	float glu_alpha, glu_limit; /* CLAMPED: both; LIMITED: silu with a limit */
	bool expert_bias;	    /* on the experts' projections */
	bool router_bias;
	enum router_order router_order;
	bool router_correction; /* added to the scores to choose experts, but not for their weights
				 */
	/* Shared expert, routed experts and router each have their own norm. */
	bool feed_forwards_apart;
	bool expert_scale;    /* each expert has a factor for its weight */
	bool normalise_top_k; /* weights of the chosen experts sum to 1 … */
	float routed_scaling; /* … times this */
	float top_k_eps;      /* added to the sum when normalising */
	bool shared_gate;     /* the shared expert is weighted by the sigmoid of one more product */
	bool tied_head;
	bool draft; /* the checkpoint may have a draft layer: layer[layers] */
	float rms_eps;
	float norm_offset;     /* added to the weights of norms; 1 if they are zero-centred */
	float attention_scale; /* of the scores */
	bool rotates_last;     /* the last numbers of a head are rotated, in pairs of neighbours */
	float embedding_multiplier; /* of the embedding's rows */
	float residual_multiplier;  /* of the outputs of mixer and feed-forward */
	float logits_scaling;	    /* divisor of the logits */
	float logit_cap;	    /* not 0: logits are cap · tanh(logit / cap) */
	float router_multiplier;    /* of the router's logits */
	struct rope rope[CONFIG_ROPES];
	/* Not 0: a text with more positions is rotated by rope[CONFIG_LONG_ROPE] instead of
	 * rope[0], from its beginning (context_suit). */
	uint32_t rope_limit;

	struct layer layer[CONFIG_MAX_LAYERS + CONFIG_DRAFT_LAYERS];
	uint32_t mixers[MIXERS]; /* number of the model's own layers with each mixer */
	/* Elements per position in all these layers, by kind, with other data that layers keep.
	 * KV_INDEX: elements per block. */
	uint64_t kv_width[KV_KINDS];
	/* the same for quantised types: bytes per block */
	uint64_t codes_bytes[KV_KINDS][KV_TYPES];
	uint32_t window; /* largest window of these layers, also for other data; 0: none */

	struct generation generation;
	struct embedding embedding;
};

/* Reads config.json and generation_config.json (which may be missing) of a checkpoint, or the keys
 * of a GGUF file. */
int config_read(struct config *c, const char *path, struct err *e);
/* The same from texts in memory; `name` is for messages. */
int config_parse(struct config *c, const char *text, size_t length, const char *name,
		 struct err *e);
int config_parse_generation(struct config *c, const char *text, size_t length, const char *name,
			    struct err *e);

static inline bool config_has_part(const struct layer *l, enum layer_part part)
{
	return part == PART_MIXER ? l->mixer != MIXER_NONE : l->feed_forward != FEED_FORWARD_NONE;
}
/* True if the layer's feed-forward is routed experts. */
static inline bool config_routed(const struct config *c, uint32_t layer)
{
	return c->layer[layer].feed_forward == FEED_FORWARD_ROUTED;
}
/* Elements of keys and values per position in a layer; 0: its mixer has none. */
uint64_t config_kv_width(const struct config *c, uint32_t layer);
/* config_kv.c: -EINVAL: this model's keys and values cannot have this type. */
int config_check_kv(const struct config *c, enum kv_type type, struct err *e);
/* Sets layer.codes_at. Call it for all layers in ascending order. */
void config_place_codes(struct config *c, uint32_t layer);
/* Bytes per block of the draft layer's quantised keys and values, which have their own blocks. */
uint64_t config_draft_codes(const struct config *c, enum kv_type type);
/* False: feed-forwards have no gate. */
static inline bool config_gated(const struct config *c)
{
	return c->glu != GLU_NONE;
}
/* Inputs and outputs of routed experts. */
static inline uint32_t config_expert_width(const struct config *c)
{
	return c->expert_latent ? c->expert_latent : c->hidden_size;
}
/* The number of the model's own layers with a recurrent state. */
static inline uint32_t config_recurrent_layers(const struct config *c)
{
	return c->mixers[MIXER_DELTA_NET] + c->mixers[MIXER_KIMI] + c->mixers[MIXER_MAMBA] +
	       c->mixers[MIXER_CONVOLUTION];
}
/* Mamba2: the values of all heads; and the channels of its convolution, which also has keys and
 * queries. */
static inline uint32_t config_mamba_inner(const struct config *c)
{
	return c->mamba.heads * c->mamba.head_dim;
}
static inline uint32_t config_mamba_channels(const struct config *c)
{
	return config_mamba_inner(c) + 2 * c->mamba.groups * c->mamba.state;
}
/* Elements per block of index keys, and of entries, in a layer; 0: it has none. */
uint64_t config_index_width(const struct config *c, uint32_t layer);
uint64_t config_entries_width(const struct config *c, uint32_t layer);
/* Whether a layer keeps one latent per position for all heads, instead of keys and values. */
static inline bool config_keeps_latents(const struct layer *l)
{
	return l->mixer == MIXER_LATENT || l->mixer == MIXER_COMPRESSED;
}
/* Other data that a layer keeps per position: inputs of a convolution over n-grams, and what index
 * keys and entries are made from. config_past_part and config_past_width: elements of a part and of
 * all parts. config_past_window: for how many positions, the last one included. */
enum past_part { PAST_NGRAMS, PAST_INDEX, PAST_ENTRIES, PAST_PARTS };
uint64_t config_past_part(const struct config *c, const struct layer *l, enum past_part part);
uint64_t config_past_width(const struct config *c, uint32_t layer);
uint32_t config_past_window(const struct config *c, uint32_t layer);
/* Numbers per position from which index keys are made. */
static inline uint32_t config_index_parts(const struct config *c)
{
	return c->chooser.dim * (c->chooser.overlaps ? 2 : 1);
}
/* Whether index keys are made from the keys of several positions. */
static inline bool config_pools(const struct config *c)
{
	return c->chooser.entry == INDEX_MEANS || c->chooser.entry == INDEX_POOLS;
}
/* How many entries the last of `length` positions can choose from: the complete ones; for blocks,
 * those before its own block. */
static inline uint32_t config_index_candidates(const struct config *c, uint32_t length)
{
	const struct chooser *x = &c->chooser;
	return x->entry == INDEX_BLOCKS ? (length - 1) / x->ratio : length / x->ratio;
}
/* The channels of a delta net's convolution: queries, keys and values. */
static inline uint32_t config_delta_channels(const struct config *c)
{
	const struct delta_net *n = &c->delta_net;
	return 2 * n->key_heads * n->key_dim + n->value_heads * n->value_dim;
}
/* Numbers of all streams of a row. */
static inline uint32_t config_stream_width(const struct config *c)
{
	return c->streams.count * c->hidden_size;
}
/* The numbers that a mixed hyper-connection computes for a row: a weight for reading each stream,
 * one for adding to each stream, and one from each stream to each. */
static inline uint32_t config_stream_mix(const struct config *c)
{
	return (2 + c->streams.count) * c->streams.count;
}
/* Whether the layer has a tensor of this role. For roles that occur once, the layer is ignored. */
bool config_has_tensor(const struct config *c, enum tensor_role role, uint32_t layer);
/* Rows and columns of a tensor of the layer; cols 0: a vector. */
void config_tensor_shape(const struct config *c, enum tensor_role role, uint32_t layer,
			 uint32_t *rows, uint32_t *cols);

#endif

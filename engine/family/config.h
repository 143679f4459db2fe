/* A model's config.json and generation_config.json as one struct.
 *
 * Both published forms are read: the older (rope_theta, num_experts, torch_dtype at the top) and
 * the newer (rope_parameters, num_local_experts, dtype), and the text part of a model that also
 * sees. Values that this program does not compute (a rope scaling, an activation) are errors that
 * name the key; they are never ignored.
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
	CONFIG_MAX_WIDTH = 1 << 20, /* of any matrix but the vocabulary's */
	CONFIG_MAX_VOCABULARY = 1 << 24,
	CONFIG_MAX_POSITIONS = 1 << 24,
	CONFIG_MAX_LATENT = 1 << 18, /* elements of all heads' latents */
	CONFIG_DRAFT_LAYERS = 1,     /* after the model's own */
	CONFIG_ROPES = 3,	     /* rotations of a model's layers … */
	CONFIG_LONG_ROPE = 1,	 /* … of which the second may be the first of long texts … */
	CONFIG_NO_ROPE = 2,	 /* … and the last turns nothing */
	CONFIG_MAX_STREAMS = 16, /* of the residual stream */
	CONFIG_POOL_MOST = 256,	 /* positions that an index key or an entry is made of */
};

/* A layer is a list of parts, each a mixer or a feed-forward: at most one of each, the mixer first.
 */
enum layer_part { PART_MIXER, PART_FEED_FORWARD, LAYER_PARTS };
enum mixer {
	MIXER_ATTENTION,
	MIXER_LATENT,
	MIXER_COMPRESSED, /* keys are their values, too: latents of which nothing is absorbed */
	MIXER_DELTA_NET,
	MIXER_KIMI, /* Kimi's delta attention: a delta net as struct delta_net has it */
	MIXER_MAMBA,
	MIXER_CONVOLUTION,
	MIXER_NONE,
	MIXERS
};
enum feed_forward { FEED_FORWARD_DENSE, FEED_FORWARD_ROUTED, FEED_FORWARD_NONE };

/* Which positions a layer of attention looks at: all; those that its own index chooses; or those that
 * the last layer with an index has chosen. */
enum index_use { INDEX_UNUSED, INDEX_OWN, INDEX_SHARED };

struct layer {
	enum mixer mixer;
	enum feed_forward feed_forward;
	bool shared;	/* a shared expert beside the routed ones */
	bool listed;	/* a table lists each token's experts: the router only weighs them */
	uint32_t state; /* index among the layers with its mixer: where its state lies in a context
			 */
	/* Of attention: */
	uint32_t head_dim, kv_heads;
	uint32_t window; /* positions that a token sees, with its own; 0: all */
	uint32_t rope; /* index in the config's rope[]; CONFIG_NO_ROPE: positions do not turn it */
	bool keys_as_values; /* values are keys before their norm: there is no projection of values
			      */
	/* Not 0: the layer has no keys and values, and reads those of layer number keys_of - 1. */
	uint32_t keys_of;
	bool double_wide; /* its dense feed-forward is twice as wide as most */
	uint64_t kv_at; /* elements of a position's keys and values in earlier layers of its kind */
	uint64_t codes_at[KV_TYPES]; /* the same as codes: bytes of a block of 64 positions */
	/* Attention that looks at chosen positions: */
	enum index_use index;
	uint64_t index_at; /* elements of a block of KV_INDEX in earlier layers */
	/* Compressed attention: positions of an entry that takes their place before the window; 0: it
	 * has none, and sees the window alone. */
	uint32_t pool;
	uint32_t pool_parts; /* 2: entries overlap, as chooser.overlaps says of index keys */
	uint64_t entries_at; /* of a block of KV_INDEX before its entries */
	/* What layers keep of the last positions beside keys and values (context_past_row): elements
	 * of a position in earlier layers with a window. */
	uint64_t past_at;
	uint32_t ngrams; /* n-grams are added before the mixer: which of the tables, from 1; 0: none */
};

/* What is kept together: keys and values of layers that see the whole text, and of those that see a
 * window, where layers also keep what else they need of the last positions; and index keys, with other
 * entries that are made of several positions. */
enum kv_kind { KV_WHOLE, KV_WINDOWED, KV_INDEX, KV_KINDS };
static inline enum kv_kind config_kv_kind(const struct layer *l)
{
	return l->window ? KV_WINDOWED : KV_WHOLE;
}

/* How a layer's halves (mixer and feed-forward) read the residual streams and add to them: one
 * stream that they add to; or several, by hyper-connections (Zhu et al. 2024) of two kinds
 * (residual.c). */
enum streams_kind { STREAMS_PLAIN, STREAMS_GATED, STREAMS_MIXED };

/* What an index gives scores to: positions; blocks of `ratio` positions, each as good as its best
 * one; or blocks by one key for all, the mean of their keys, or a mean weighed by gates. */
enum index_entry { INDEX_NONE, INDEX_TOKENS, INDEX_BLOCKS, INDEX_MEANS, INDEX_POOLS };

enum router_order {
	SOFTMAX_THEN_TOP_K,
	TOP_K_THEN_SOFTMAX,
	SIGMOID_THEN_TOP_K,
	SOFTPLUS_THEN_TOP_K, /* the root of log(1 + exp(logit)) */
};
/* Gated linear units (Shazeer 2020): what becomes of gate and up. GLU_NONE: there is no gate, and up is
 * squared where it is above 0 (So et al. 2021). */
enum glu { GLU_SILU, GLU_GELU, GLU_CLAMPED, GLU_LIMITED, GLU_NONE, GLUS };
/* An RMSNorm of queries and keys before the rotation. */
enum head_norms { HEAD_NORMS_NONE, HEAD_NORMS_EACH, HEAD_NORMS_TOGETHER };

struct family;
struct config {
	const struct family *family;
	const char *model_type; /* as config.json says */
	bool gguf; /* of a GGUF file: its tensors have the names and the changes of such files */
	uint32_t hidden_size, layers, vocabulary, max_positions;
	uint32_t heads, kv_heads, head_dim; /* of most layers; layer[] has each one's */
	uint32_t intermediate_size;	    /* of a dense layer */
	/* Not 0: each layer has an input of its own from each token, so wide, read from a table of
	 * per_layer_vocabulary rows. */
	uint32_t per_layer, per_layer_vocabulary;
	uint32_t experts, experts_per_token, expert_size;
	uint32_t shared_size; /* of a shared expert */
	uint32_t expert_latent; /* not 0: the routed experts work on a projection of this width */
	/* Experts lie in router_groups groups of equal size. A token chooses from the
	 * router_top_groups groups whose two best experts have the highest scores. */
	uint32_t router_groups, router_top_groups;
	uint32_t layers_left_out;    /* draft layers after the model's own that are not computed */
	struct latent {		     /* latent attention; sizes of one head, except the ranks */
		uint32_t query_rank; /* 0: queries have one projection */
		uint32_t rank;
		uint32_t nope, rope; /* of queries and keys: not rotated, and rotated */
		uint32_t value;
		bool interleaved; /* rotated pairs are neighbours */
		float eps;	  /* of the norms of both ranks; 0: as of all others */
	} latent;
	struct grouped { /* compressed attention's output: groups of heads have products of their own */
		uint32_t groups;
		uint32_t low; /* rows of each of these products */
	} grouped;
	struct delta_net {
		uint32_t key_heads, value_heads, key_dim, value_dim;
		uint32_t width; /* of the convolution */
		/* Value head h belongs to key head h % key_heads, as in some GGUF files; else to
		 * h / (value_heads / key_heads). */
		bool tiled;
		bool sigmoid; /* the output is gated by the sigmoid, not by silu */
		float lower;  /* not 0: the logarithm of Kimi's decays is between this and 0 */
	} delta_net;

	struct streams { /* residual streams */
		enum streams_kind kind;
		uint32_t count;	     /* 1 where they are plain */
		uint32_t low;	     /* of gated ones: between the two products of the gates */
		uint32_t iterations; /* of mixed ones: how often the mixture is normalised */
		float eps;	     /* likewise: added to it */
		bool mean;	     /* likewise: at the end the head reads the streams' mean */
	} streams;
	struct mamba { /* Mamba2 */
		uint32_t heads, head_dim;
		uint32_t groups; /* of heads, which share keys and queries (B and C) */
		uint32_t state;	 /* size of these */
		uint32_t width;	 /* of the convolution */
		bool bias;	 /* of the convolution */
	} mamba;
	uint32_t convolution; /* inputs that a short convolution sees */

	struct chooser { /* the index of attention that looks at chosen positions (chooser.c) */
		enum index_entry entry;
		uint32_t heads, dim; /* of its queries; there is one key head */
		uint32_t groups;     /* choices of a token: 1, or one for each key-value head */
		uint32_t ratio;	     /* positions of an entry */
		uint32_t most;	     /* entries that are chosen, beside the last ones (chooser.c) */
		bool low;	     /* queries come from the latent between two projections */
		bool norms;	     /* of queries and keys, without an offset of means … */
		bool layer_norm;     /* … or only of keys, with one and a bias */
		bool weighed;	     /* each head's scores are weighed by one more product */
		bool interleaved;    /* rotated pairs are neighbours */
		/* A key of INDEX_POOLS is of twice as many positions: it also has those of the pool
		 * before, of whose projections it takes the first half. */
		bool overlaps;
	} chooser;
	struct ngrams {			 /* embeddings of n-grams (compute/ngrams.h) */
		uint32_t tables;	 /* layers that have one; 0: none */
		uint32_t dim;		 /* of all rows of a token together */
		uint32_t width, step;	 /* taps of the convolution, and positions between two */
		struct ngram_hash hash[NGRAM_TABLES];
	} ngrams;

	bool qkv_bias, output_bias;
	bool query_gate;  /* each head's rows of q are its query, then its gate */
	bool value_norm;  /* of each head of values, without weights */
	bool post_norms;  /* a norm also after each half of a layer, before its output is added */
	bool layer_scale; /* at a layer's end the stream is multiplied by a number of the layer */
	bool sinks;	  /* each head of attention has one more score, without a value */
	enum head_norms head_norms;
	enum glu glu;
	float glu_alpha, glu_limit; /* of the clamped one; the limited one has a limit, and is silu's */
	bool expert_bias;	    /* on the experts' projections */
	bool router_bias;
	enum router_order router_order;
	bool router_correction; /* added to the scores for the choice of experts, not for their
				   weights */
	/* The shared and the routed feed-forward and the router each have norms of their own. */
	bool feed_forwards_apart;
	bool expert_scale;    /* each expert's weight is multiplied by its own factor */
	bool normalise_top_k; /* the chosen experts' weights sum to 1 … */
	float routed_scaling; /* … times this */
	float top_k_eps;      /* added to the sum before */
	bool shared_gate;     /* the shared expert is weighed by the sigmoid of one more product */
	bool tied_head;
	bool draft; /* a checkpoint may have a draft layer: layer[layers] */
	float rms_eps;
	float norm_offset;     /* added to the weights of norms: 1 where they are zero-centred */
	float attention_scale; /* of the scores */
	bool rotates_last;     /* the last numbers of a head are rotated, pairs being neighbours */
	float embedding_multiplier; /* of the embedding's rows */
	float residual_multiplier;  /* of what each half of a layer adds */
	float logits_scaling;	    /* what logits are divided by */
	float logit_cap;	    /* not 0: logits are cap · tanh(logit / cap) */
	float router_multiplier;    /* of the router's logits */
	struct rope rope[CONFIG_ROPES];
	/* Not 0: a text of more positions turns by rope[CONFIG_LONG_ROPE] in place of rope[0], from
	 * its beginning (context_suit). */
	uint32_t rope_limit;

	struct layer layer[CONFIG_MAX_LAYERS + CONFIG_DRAFT_LAYERS];
	uint32_t mixers[MIXERS]; /* how many of the model's own layers have each mixer */
	/* Elements of a position's keys and values in all these layers of a kind, and what layers
	 * keep beside them; of KV_INDEX, of a block's index keys. */
	uint64_t kv_width[KV_KINDS];
	uint64_t codes_bytes[KV_KINDS][KV_TYPES]; /* the same as codes: bytes of a block */
	uint32_t window; /* the largest window of these layers, and of what they keep; 0: none */

	struct generation generation;
	struct embedding embedding;
};

/* Reads both files of a checkpoint's directory (the second may be missing), or the keys of a GGUF
 * file. */
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
/* Elements of a position's keys and values in a layer; 0 where its mixer has none. */
uint64_t config_kv_width(const struct config *c, uint32_t layer);
/* config_kv.c: -EINVAL in words: the model's keys and values cannot be kept in this type. */
int config_check_kv(const struct config *c, enum kv_type type, struct err *e);
/* Where a layer's keys and values lie as codes. Layers come in ascending order. */
void config_place_codes(struct config *c, uint32_t layer);
/* Bytes of a block of the draft layer's keys and values as codes; they are alone in it. */
uint64_t config_draft_codes(const struct config *c, enum kv_type type);
/* False where feed-forwards are up and down alone. */
static inline bool config_gated(const struct config *c)
{
	return c->glu != GLU_NONE;
}
/* Inputs and outputs of routed experts. */
static inline uint32_t config_expert_width(const struct config *c)
{
	return c->expert_latent ? c->expert_latent : c->hidden_size;
}
/* How many of the model's own layers have a state that moves on with the text. */
static inline uint32_t config_recurrent_layers(const struct config *c)
{
	return c->mixers[MIXER_DELTA_NET] + c->mixers[MIXER_KIMI] + c->mixers[MIXER_MAMBA] +
	       c->mixers[MIXER_CONVOLUTION];
}
/* Values of all heads of Mamba2; with keys and queries, the channels of its convolution. */
static inline uint32_t config_mamba_inner(const struct config *c)
{
	return c->mamba.heads * c->mamba.head_dim;
}
static inline uint32_t config_mamba_channels(const struct config *c)
{
	return config_mamba_inner(c) + 2 * c->mamba.groups * c->mamba.state;
}
/* Elements of a block of index keys in a layer, and of entries; 0 where it has none. */
uint64_t config_index_width(const struct config *c, uint32_t layer);
uint64_t config_entries_width(const struct config *c, uint32_t layer);
/* Whether a layer's keys are kept once, for all heads and as their values. */
static inline bool config_keeps_latents(const struct layer *l)
{
	return l->mixer == MIXER_LATENT || l->mixer == MIXER_COMPRESSED;
}
/* What a layer keeps of a position beside keys and values, in elements, part by part and in all, and
 * for how many positions, with the last one: inputs of a convolution over n-grams, and what index keys
 * and entries are made of. */
enum past_part { PAST_NGRAMS, PAST_INDEX, PAST_ENTRIES, PAST_PARTS };
uint64_t config_past_part(const struct config *c, const struct layer *l, enum past_part part);
uint64_t config_past_width(const struct config *c, uint32_t layer);
uint32_t config_past_window(const struct config *c, uint32_t layer);
/* Numbers of an index key before it is made of those of several positions. */
static inline uint32_t config_index_parts(const struct config *c)
{
	return c->chooser.dim * (c->chooser.overlaps ? 2 : 1);
}
/* Whether index keys are made of several positions' keys. */
static inline bool config_pools(const struct config *c)
{
	return c->chooser.entry == INDEX_MEANS || c->chooser.entry == INDEX_POOLS;
}
/* The entries from which a token at the end of `length` positions chooses: those that are complete, or
 * of blocks those before its own. */
static inline uint32_t config_index_candidates(const struct config *c, uint32_t length)
{
	const struct chooser *x = &c->chooser;
	return x->entry == INDEX_BLOCKS ? (length - 1) / x->ratio : length / x->ratio;
}
/* Queries, keys and values of a delta net: the channels of its convolution. */
static inline uint32_t config_delta_channels(const struct config *c)
{
	const struct delta_net *n = &c->delta_net;
	return 2 * n->key_heads * n->key_dim + n->value_heads * n->value_dim;
}
/* All streams of a row side by side. */
static inline uint32_t config_stream_width(const struct config *c)
{
	return c->streams.count * c->hidden_size;
}
/* What a mixed hyper-connection computes of a row: a weight for each stream that is read, one for
 * each that is added to, and from each stream to each. */
static inline uint32_t config_stream_mix(const struct config *c)
{
	return (2 + c->streams.count) * c->streams.count;
}
/* True if the layer has the role. For a role that occurs once the layer does not matter. */
bool config_has_tensor(const struct config *c, enum tensor_role role, uint32_t layer);
/* rows and cols of a tensor of that layer; cols is 0 for a vector. */
void config_tensor_shape(const struct config *c, enum tensor_role role, uint32_t layer,
			 uint32_t *rows, uint32_t *cols);

#endif

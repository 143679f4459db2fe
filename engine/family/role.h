/* Roles: all purposes that a tensor of a model can have.
 *
 * One row per role has all facts about it: where it occurs, under which condition, its shape, its
 * storage class, and its usual name in published checkpoints. config_has_tensor,
 * config_tensor_shape, recipe_format, plan and sources all read these rows, so a role must be
 * listed here. Shapes are [out, in] as published: y = W · x; cols NONE makes a vector. In names the
 * first number is the layer, the second the expert. L, A, I, P, D, M and F are name prefixes in a
 * layer, its attention, the attention's index, its n-grams, its delta net, its Mamba and its
 * feed-forward; HM, HF and HE in the hyper-connections of a mixer, of a feed-forward and at the end
 * (config_roles.c).
 */
#ifndef MOEFS_ENGINE_FAMILY_ROLE_H
#define MOEFS_ENGINE_FAMILY_ROLE_H

#include <stdbool.h>
#include <stdint.h>

/* X(role, place, presence, rows, cols, class, name): TENSOR_…, PLACE_…, PRESENT_… and so on. Within
 * a place, the order is that of the store and of a forward pass. */
#define TENSOR_ROLE_LIST(X)                                                                        \
	X(EMBEDDING, INPUT, ALWAYS, VOCABULARY, HIDDEN, EMBEDDING, "model.embed_tokens.weight")    \
	X(NGRAM_KEYS, LAYER, NGRAMS, STREAMS, NGRAM_DIM, STEER, P "key_proj.weight")               \
	X(NGRAM_VALUES, LAYER, NGRAMS, HIDDEN, NGRAM_DIM, STEER, P "value_proj.weight")            \
	X(NGRAM_KEY_NORM, LAYER, NGRAMS, STREAMS, NONE, NORM, P "norm_key.weight")                 \
	X(NGRAM_QUERY_NORM, LAYER, NGRAMS, STREAMS, NONE, NORM, P "norm_query.weight")             \
	X(NGRAM_CONV_NORM, LAYER, NGRAMS, STREAMS, NONE, NORM, P "norm_conv.weight")               \
	X(NGRAM_CONV, LAYER, NGRAMS, STREAMS, NGRAM_WIDTH, TAPS, P "conv1d.weight")                \
	X(GATED_MIXER_NORM, LAYER, GATED, STREAMS, NONE, NORM, HM "hc_norm.weight")                \
	X(GATED_MIXER_DOWN, LAYER, GATED, GATED_LOW, STREAMS, STEER,                               \
	  HM "input_mix_weight_down.weight")                                                       \
	X(GATED_MIXER_UP, LAYER, GATED, STREAMS, GATED_LOW, STEER,                                 \
	  HM "input_mix_weight_up.weight")                                                         \
	X(GATED_MIXER_INJECT, LAYER, GATED, STREAM_COUNT, STREAMS, STEER,                          \
	  HM "block_inject_weight.weight")                                                         \
	X(MIXED_MIXER, LAYER, MIXED, STREAM_MIX, STREAMS, FLOATS, L "hc_attn_fn")                  \
	X(MIXED_MIXER_BASE, LAYER, MIXED, STREAM_MIX, NONE, VECTOR, L "hc_attn_base")              \
	X(MIXED_MIXER_SCALE, LAYER, MIXED, THREE, NONE, VECTOR, L "hc_attn_scale")                 \
	X(PER_LAYER_TABLE, INPUT, PER_LAYER, PER_LAYER_VOCABULARY, PER_LAYER_ALL, EMBEDDING,       \
	  "model.embed_tokens_per_layer.weight")                                                   \
	X(PER_LAYER_INPUTS, INPUT, PER_LAYER, PER_LAYER_ALL, HIDDEN, SMALL,                        \
	  "model.per_layer_model_projection.weight")                                               \
	X(PER_LAYER_INPUTS_NORM, INPUT, PER_LAYER, PER_LAYER, NONE, NORM,                          \
	  "model.per_layer_projection_norm.weight")                                                \
	X(MIXER_NORM, LAYER, MIXES, HIDDEN, NONE, NORM, L "input_layernorm.weight")                \
	X(Q, LAYER, ATTENTION, QUERIES, HIDDEN, MIXER, A "q_proj.weight")                          \
	X(K, LAYER, KEYS, KEYS, HIDDEN, MIXER, A "k_proj.weight")                               \
	X(V, LAYER, VALUES, KEYS, HIDDEN, VALUES, A "v_proj.weight")                               \
	X(O, LAYER, ATTENTION, HIDDEN, ATTENDED, MIXER_OUT, A "o_proj.weight")                     \
	X(Q_BIAS, LAYER, QKV_BIAS, QUERIES, NONE, VECTOR, A "q_proj.bias")                         \
	X(K_BIAS, LAYER, QKV_BIAS, KEYS, NONE, VECTOR, A "k_proj.bias")                            \
	X(V_BIAS, LAYER, QKV_BIAS, KEYS, NONE, VECTOR, A "v_proj.bias")                            \
	X(SINKS, LAYER, SINKS, HEADS, NONE, VECTOR, A "sinks")                                     \
	X(O_BIAS, LAYER, OUTPUT_BIAS, HIDDEN, NONE, VECTOR, A "o_proj.bias")                       \
	X(Q_NORM, LAYER, HEAD_NORMS, Q_NORMED, NONE, NORM, A "q_norm.weight")                      \
	X(K_NORM, LAYER, KEY_NORMS, K_NORMED, NONE, NORM, A "k_norm.weight")                       \
	X(INDEX_Q, LAYER, INDEX, INDEX_QUERIES, INDEX_INPUT, STEER, I "wq_b.weight")               \
	X(INDEX_K, LAYER, INDEX, INDEX_PARTS, HIDDEN, STEER, I "wk.weight")                          \
	X(INDEX_Q_NORM, LAYER, INDEX_NORMS, INDEX_DIM, NONE, NORM, I "q_norm.weight")              \
	X(INDEX_K_NORM, LAYER, INDEX_K_NORM, INDEX_DIM, NONE, NORM, I "k_norm.weight")             \
	X(INDEX_K_BIAS, LAYER, INDEX_LAYER_NORM, INDEX_DIM, NONE, VECTOR, I "k_norm.bias")         \
	X(INDEX_WEIGHTS, LAYER, INDEX_WEIGHED, INDEX_HEADS, HIDDEN, STEER,                         \
	  I "weights_proj.weight")                                                                 \
	X(INDEX_GATE, LAYER, INDEX_POOLS, INDEX_PARTS, HIDDEN, STEER, I "index_kpool_compress_gate") \
	X(INDEX_POOL_BIAS, LAYER, INDEX_POOLS, INDEX_RATIO, INDEX_PARTS, VECTOR,                     \
	  I "index_kpool_compress_ape")                                                            \
	X(LATENT_Q_LOW, LAYER, LATENT_LOW, LATENT_LOW, HIDDEN, MIXER, A "q_a_proj.weight")         \
	X(LATENT_Q_NORM, LAYER, LATENT_LOW, LATENT_LOW, NONE, NORM, A "q_a_layernorm.weight")      \
	X(LATENT_Q, LAYER, LATENT, LATENT_QUERIES, LATENT_Q_INPUT, MIXER, A "q_b_proj.weight")     \
	X(LATENT_KV, LAYER, LATENT, LATENT_WIDTH, HIDDEN, VALUES, A "kv_a_proj_with_mqa.weight")   \
	X(LATENT_KV_NORM, LAYER, LATENT, LATENT_RANK, NONE, NORM, A "kv_a_layernorm.weight")       \
	X(ENTRY_KEYS, LAYER, ENTRIES, ENTRY_PARTS, HIDDEN, VALUES, L "attn.compressor.wkv.weight")      \
	X(ENTRY_GATE, LAYER, ENTRIES, ENTRY_PARTS, HIDDEN, STEER, L "attn.compressor.wgate.weight")     \
	X(ENTRY_BIAS, LAYER, ENTRIES, ENTRY_RATIO, ENTRY_PARTS, VECTOR, L "attn.compressor.ape")        \
	X(ENTRY_NORM, LAYER, ENTRIES, HEAD_DIM, NONE, NORM, L "attn.compressor.norm.weight")            \
	X(GROUPED_LOW, LAYER, COMPRESSED, GROUPED_LOW, GROUPED_INPUT, MIXER_OUT,                   \
	  L "attn.wo_a.weight")                                                                     \
	X(GROUPED_OUT, LAYER, COMPRESSED, HIDDEN, GROUPED_LOW, MIXER_OUT, L "attn.wo_b.weight")     \
	X(LATENT_KEYS, LAYER, ABSORBED, LATENT_HEADS, LATENT_NOPE, HEADS, A "k_b_proj.weight")       \
	X(LATENT_VALUES, LAYER, ABSORBED, LATENT_VALUES, LATENT_RANK, HEADS, A "v_b_proj.weight")    \
	X(LATENT_O, LAYER, ABSORBED, HIDDEN, LATENT_VALUES, MIXER_OUT, A "o_proj.weight")            \
	X(DELTA_QKV, LAYER, DELTA_NET, DELTA_CHANNELS, HIDDEN, DELTA, D "in_proj_qkv.weight")      \
	X(DELTA_Z, LAYER, DELTA_NET, DELTA_VALUES, HIDDEN, DELTA, D "in_proj_z.weight")            \
	X(DELTA_B, LAYER, DELTA_NET, DELTA_HEADS, HIDDEN, SMALL, D "in_proj_b.weight")             \
	X(DELTA_A, LAYER, DELTA_NET, DELTA_HEADS, HIDDEN, SMALL, D "in_proj_a.weight")             \
	X(DELTA_CONV, LAYER, DELTA_NET, DELTA_CHANNELS, DELTA_WIDTH, TAPS, D "conv1d.weight")      \
	X(DELTA_A_LOG, LAYER, DELTA_NET, DELTA_HEADS, NONE, VECTOR, D "A_log")                     \
	X(DELTA_DT_BIAS, LAYER, DELTA_NET, DELTA_HEADS, NONE, VECTOR, D "dt_bias")                 \
	X(DELTA_NORM, LAYER, DELTA_NET, DELTA_HEAD, NONE, VECTOR, D "norm.weight")                 \
	X(DELTA_OUT, LAYER, DELTA_NET, HIDDEN, DELTA_VALUES, DELTA_OUT, D "out_proj.weight")       \
	X(KIMI_Q, LAYER, KIMI, KIMI_WIDTH, HIDDEN, DELTA, A "q_proj.weight")                       \
	X(KIMI_K, LAYER, KIMI, KIMI_WIDTH, HIDDEN, DELTA, A "k_proj.weight")                       \
	X(KIMI_V, LAYER, KIMI, KIMI_WIDTH, HIDDEN, DELTA, A "v_proj.weight")                       \
	X(KIMI_Q_CONV, LAYER, KIMI, KIMI_WIDTH, DELTA_WIDTH, TAPS, A "q_conv1d.weight")            \
	X(KIMI_K_CONV, LAYER, KIMI, KIMI_WIDTH, DELTA_WIDTH, TAPS, A "k_conv1d.weight")            \
	X(KIMI_V_CONV, LAYER, KIMI, KIMI_WIDTH, DELTA_WIDTH, TAPS, A "v_conv1d.weight")            \
	X(KIMI_B, LAYER, KIMI, DELTA_HEADS, HIDDEN, SMALL, A "b_proj.weight")                      \
	X(KIMI_DECAY_LOW, LAYER, KIMI, DELTA_HEAD, HIDDEN, SMALL, A "f_a_proj.weight")             \
	X(KIMI_DECAY, LAYER, KIMI, KIMI_WIDTH, DELTA_HEAD, SMALL, A "f_b_proj.weight")             \
	X(KIMI_GATE_LOW, LAYER, KIMI, DELTA_HEAD, HIDDEN, SMALL, A "g_a_proj.weight")              \
	X(KIMI_GATE, LAYER, KIMI, KIMI_WIDTH, DELTA_HEAD, SMALL, A "g_b_proj.weight")              \
	X(KIMI_A_LOG, LAYER, KIMI, DELTA_HEADS, NONE, VECTOR, A "A_log")                           \
	X(KIMI_DT_BIAS, LAYER, KIMI, KIMI_WIDTH, NONE, VECTOR, A "dt_bias")                        \
	X(KIMI_NORM, LAYER, KIMI, DELTA_HEAD, NONE, VECTOR, A "o_norm.weight")                     \
	X(KIMI_OUT, LAYER, KIMI, HIDDEN, KIMI_WIDTH, DELTA_OUT, A "o_proj.weight")                 \
	X(MAMBA_Z, LAYER, MAMBA, MAMBA_INNER, HIDDEN, DELTA, M "in_proj_z.weight")                 \
	X(MAMBA_XBC, LAYER, MAMBA, MAMBA_CHANNELS, HIDDEN, DELTA, M "in_proj_xbc.weight")          \
	X(MAMBA_DT, LAYER, MAMBA, MAMBA_HEADS, HIDDEN, SMALL, M "in_proj_dt.weight")               \
	X(MAMBA_CONV, LAYER, MAMBA, MAMBA_CHANNELS, MAMBA_WIDTH, TAPS, M "conv1d.weight")          \
	X(MAMBA_CONV_BIAS, LAYER, MAMBA_BIAS, MAMBA_CHANNELS, NONE, VECTOR, M "conv1d.bias")       \
	X(MAMBA_A_LOG, LAYER, MAMBA, MAMBA_HEADS, NONE, VECTOR, M "A_log")                         \
	X(MAMBA_D, LAYER, MAMBA, MAMBA_HEADS, NONE, VECTOR, M "D")                                 \
	X(MAMBA_DT_BIAS, LAYER, MAMBA, MAMBA_HEADS, NONE, VECTOR, M "dt_bias")                     \
	X(MAMBA_NORM, LAYER, MAMBA, MAMBA_INNER, NONE, VECTOR, M "norm.weight")                    \
	X(MAMBA_OUT, LAYER, MAMBA, HIDDEN, MAMBA_INNER, DELTA_OUT, M "out_proj.weight")            \
	X(CONVOLUTION_IN, LAYER, CONVOLUTION, HIDDEN_THRICE, HIDDEN, DELTA,                        \
	  L "conv.in_proj.weight")                                                                 \
	X(CONVOLUTION_TAPS, LAYER, CONVOLUTION, HIDDEN, CONVOLUTION, TAPS, L "conv.conv.weight")   \
	X(CONVOLUTION_OUT, LAYER, CONVOLUTION, HIDDEN, HIDDEN, DELTA_OUT,                          \
	  L "conv.out_proj.weight")                                                                \
	X(MIXER_POST_NORM, LAYER, MIXES_THEN_NORM, HIDDEN, NONE, NORM,                             \
	  L "post_mixer_layernorm.weight")                                                         \
	X(GATED_FEED_NORM, LAYER, GATED, STREAMS, NONE, NORM, HF "hc_norm.weight")                 \
	X(GATED_FEED_DOWN, LAYER, GATED, GATED_LOW, STREAMS, STEER,                                \
	  HF "input_mix_weight_down.weight")                                                       \
	X(GATED_FEED_UP, LAYER, GATED, STREAMS, GATED_LOW, STEER, HF "input_mix_weight_up.weight") \
	X(GATED_FEED_INJECT, LAYER, GATED, STREAM_COUNT, STREAMS, STEER,                           \
	  HF "block_inject_weight.weight")                                                         \
	X(MIXED_FEED, LAYER, MIXED, STREAM_MIX, STREAMS, FLOATS, L "hc_ffn_fn")                    \
	X(MIXED_FEED_BASE, LAYER, MIXED, STREAM_MIX, NONE, VECTOR, L "hc_ffn_base")                \
	X(MIXED_FEED_SCALE, LAYER, MIXED, THREE, NONE, VECTOR, L "hc_ffn_scale")                   \
	X(FEED_FORWARD_NORM, LAYER, FEEDS, HIDDEN, NONE, NORM,                                     \
	  L "post_attention_layernorm.weight")                                                     \
	X(GATE, LAYER, DENSE_GATED, INTERMEDIATE, HIDDEN, FEED, F "gate_proj.weight")                    \
	X(UP, LAYER, DENSE, INTERMEDIATE, HIDDEN, FEED, F "up_proj.weight")                        \
	X(DOWN, LAYER, DENSE, HIDDEN, INTERMEDIATE, DOWN, F "down_proj.weight")                    \
	X(ROUTER_SCALE, LAYER, APART, HIDDEN, NONE, VECTOR, L "router.scale")                      \
	X(ROUTER, LAYER, ROUTED, EXPERTS, HIDDEN, SMALL, F "gate.weight")                          \
	X(ROUTER_BIAS, LAYER, ROUTER_BIAS, EXPERTS, NONE, VECTOR, F "router.bias")                 \
	X(ROUTER_CORRECTION, LAYER, ROUTER_CORRECTION, EXPERTS, NONE, VECTOR,                      \
	  F "gate.e_score_correction_bias")                                                        \
	X(ROUTER_LIST, LAYER, LISTED, VOCABULARY, EXPERTS_CHOSEN, VECTOR, L "ffn.gate.tid2eid")         \
	X(EXPERT_GATE_BIAS, LAYER, EXPERT_BIAS, EXPERTS, EXPERT, VECTOR,                           \
	  F "experts.gate_proj_bias")                                                              \
	X(EXPERT_UP_BIAS, LAYER, EXPERT_BIAS, EXPERTS, EXPERT, VECTOR, F "experts.up_proj_bias")   \
	X(EXPERT_DOWN_BIAS, LAYER, EXPERT_BIAS, EXPERTS, HIDDEN, VECTOR,                           \
	  F "experts.down_proj_bias")                                                              \
	X(EXPERT_SCALE, LAYER, EXPERT_SCALE, EXPERTS, NONE, VECTOR, L "router.per_expert_scale")   \
	X(SHARED_GATE, LAYER, SHARED_GATED, SHARED, HIDDEN, SHARED,                                \
	  F "shared_expert.gate_proj.weight")                                                      \
	X(SHARED_UP, LAYER, SHARED, SHARED, HIDDEN, SHARED, F "shared_expert.up_proj.weight")      \
	X(SHARED_DOWN, LAYER, SHARED, HIDDEN, SHARED, SHARED_DOWN,                                 \
	  F "shared_expert.down_proj.weight")                                                      \
	X(SHARED_SCALE, LAYER, SHARED_GATE, ONE, HIDDEN, SMALL, F "shared_expert_gate.weight")     \
	X(EXPERTS_IN, LAYER, EXPERT_LATENT, EXPERT_LATENT, HIDDEN, SHARED,                         \
	  F "fc1_latent_proj.weight")                                                              \
	X(EXPERTS_OUT, LAYER, EXPERT_LATENT, HIDDEN, EXPERT_LATENT, SHARED_DOWN,                   \
	  F "fc2_latent_proj.weight")                                                              \
	X(SHARED_POST_NORM, LAYER, APART, HIDDEN, NONE, NORM,                                      \
	  L "post_feedforward_layernorm_1.weight")                                                 \
	X(EXPERTS_NORM, LAYER, APART, HIDDEN, NONE, NORM, L "pre_feedforward_layernorm_2.weight")  \
	X(EXPERTS_POST_NORM, LAYER, APART, HIDDEN, NONE, NORM,                                     \
	  L "post_feedforward_layernorm_2.weight")                                                 \
	X(FEED_FORWARD_POST_NORM, LAYER, FEEDS_THEN_NORM, HIDDEN, NONE, NORM,                      \
	  L "post_feedforward_layernorm.weight")                                                   \
	X(PER_LAYER_GATE, LAYER, PER_LAYER, PER_LAYER, HIDDEN, SMALL,                              \
	  L "per_layer_input_gate.weight")                                                         \
	X(PER_LAYER_OUT, LAYER, PER_LAYER, HIDDEN, PER_LAYER, SMALL,                               \
	  L "per_layer_projection.weight")                                                         \
	X(PER_LAYER_POST_NORM, LAYER, PER_LAYER, HIDDEN, NONE, NORM,                               \
	  L "post_per_layer_input_norm.weight")                                                    \
	X(LAYER_SCALE, LAYER, LAYER_SCALE, ONE, NONE, VECTOR, L "layer_scalar")                    \
	X(EXPERT_GATE, EXPERT, ROUTED_GATED, EXPERT, EXPERT_WIDTH, EXPERT,                         \
	  F "experts.%u.gate_proj.weight")                                                         \
	X(EXPERT_UP, EXPERT, ROUTED, EXPERT, EXPERT_WIDTH, EXPERT, F "experts.%u.up_proj.weight")  \
	X(EXPERT_DOWN, EXPERT, ROUTED, EXPERT_WIDTH, EXPERT, EXPERT_DOWN,                          \
	  F "experts.%u.down_proj.weight")                                                         \
	X(GATED_END_NORM, OUTPUT, GATED, STREAMS, NONE, NORM, HE "hc_norm.weight")                 \
	X(GATED_END_DOWN, OUTPUT, GATED, GATED_LOW, STREAMS, STEER,                                \
	  HE "input_mix_weight_down.weight")                                                       \
	X(GATED_END_UP, OUTPUT, GATED, STREAMS, GATED_LOW, STEER, HE "input_mix_weight_up.weight") \
	X(MIXED_END, OUTPUT, MIXED_END, STREAM_COUNT, STREAMS, FLOATS, "model.hc_head_fn")         \
	X(MIXED_END_BASE, OUTPUT, MIXED_END, STREAM_COUNT, NONE, VECTOR, "model.hc_head_base")     \
	X(MIXED_END_SCALE, OUTPUT, MIXED_END, ONE, NONE, VECTOR, "model.hc_head_scale")            \
	X(FINAL_NORM, OUTPUT, NORMS, HIDDEN, NONE, NORM, "model.norm.weight")                      \
	X(HEAD, OUTPUT, ALWAYS, VOCABULARY, HIDDEN, HEAD, "lm_head.weight")                        \
	X(DRAFT_EMBEDDING_NORM, DRAFT, ALWAYS, HIDDEN, NONE, NORM,                                 \
	  "mtp.pre_fc_norm_embedding.weight")                                                      \
	X(DRAFT_HIDDEN_NORM, DRAFT, ALWAYS, HIDDEN, NONE, NORM, "mtp.pre_fc_norm_hidden.weight")   \
	X(DRAFT_PROJECTION, DRAFT, ALWAYS, HIDDEN, HIDDEN_TWICE, SMALL, "mtp.fc.weight")           \
	X(DRAFT_NORM, DRAFT, ALWAYS, HIDDEN, NONE, NORM, "mtp.norm.weight")

#define TENSOR_ROLE_ENUM(role, ...) TENSOR_##role,
enum tensor_role { TENSOR_ROLE_LIST(TENSOR_ROLE_ENUM) TENSOR_ROLES };
#undef TENSOR_ROLE_ENUM

enum tensor_place {
	PLACE_INPUT,  /* once, before the layers */
	PLACE_LAYER,  /* once in each layer that has it */
	PLACE_EXPERT, /* once per expert of a routed layer; not in the dense part */
	PLACE_OUTPUT, /* once, after the layers */
	PLACE_DRAFT,  /* once, if there is a draft layer, besides the tensors of that layer */
};

/* X(presence, condition): when a role is there, in a layer l of a config c. mixes, feeds: the layer
 * has a mixer, a feed-forward; attention, latent, dense and routed: it is that. */
#define TENSOR_PRESENCE_LIST(X)                                                              \
	X(ALWAYS, true)                                                                      \
	X(NORMS, c->streams.kind != STREAMS_GATED)                                           \
	X(GATED, c->streams.kind == STREAMS_GATED)                                           \
	X(MIXED, c->streams.kind == STREAMS_MIXED)                                           \
	X(MIXED_END, c->streams.kind == STREAMS_MIXED && !c->streams.mean)                   \
	X(MIXES, mixes && c->streams.kind != STREAMS_GATED)                                  \
	X(MIXES_THEN_NORM, mixes && c->post_norms)                                           \
	X(FEEDS, feeds && c->streams.kind != STREAMS_GATED)                                  \
	X(FEEDS_THEN_NORM, feeds && c->post_norms)                                           \
	X(LAYER_SCALE, c->layer_scale)                                                       \
	X(ATTENTION, attention)                                                              \
	X(KEYS, attention && !l->keys_of)                                                    \
	X(VALUES, attention && !l->keys_of && !l->keys_as_values)                            \
	X(KEY_NORMS, attention && !l->keys_of && c->head_norms != HEAD_NORMS_NONE)           \
	X(PER_LAYER, c->per_layer > 0) /* inputs of each layer's own */                      \
	X(QKV_BIAS, attention && c->qkv_bias)                                                \
	X(OUTPUT_BIAS, attention && c->output_bias)                                          \
	X(HEAD_NORMS, attention && c->head_norms != HEAD_NORMS_NONE)                         \
	X(SINKS, (attention || compressed) && c->sinks)                                      \
	X(NGRAMS, l->ngrams)                                                                 \
	X(INDEX, indexed)                                                                    \
	X(INDEX_NORMS, indexed && c->chooser.norms)                                          \
	X(INDEX_K_NORM, indexed && (c->chooser.norms || c->chooser.layer_norm ||             \
				    c->chooser.entry == INDEX_POOLS))                        \
	X(INDEX_LAYER_NORM, indexed && c->chooser.layer_norm)                                \
	X(INDEX_POOLS, indexed && c->chooser.entry == INDEX_POOLS)                           \
	X(INDEX_WEIGHED, indexed && c->chooser.weighed)                                      \
	X(LATENT, latent || compressed)                                                      \
	X(LATENT_LOW, (latent || compressed) && c->latent.query_rank > 0) /* two products */ \
	X(ABSORBED, latent) /* keys and values are projections of the latent */              \
	X(COMPRESSED, compressed)                                                            \
	X(ENTRIES, compressed && l->pool > 0)                                                \
	X(DELTA_NET, l->mixer == MIXER_DELTA_NET)                                            \
	X(KIMI, l->mixer == MIXER_KIMI)                                                      \
	X(MAMBA, l->mixer == MIXER_MAMBA)                                                    \
	X(MAMBA_BIAS, l->mixer == MIXER_MAMBA && c->mamba.bias)                              \
	X(CONVOLUTION, l->mixer == MIXER_CONVOLUTION)                                        \
	X(DENSE, dense)                                                                      \
	X(DENSE_GATED, dense && config_gated(c))                                             \
	X(ROUTED, routed)                                                                    \
	X(ROUTED_GATED, routed && config_gated(c))                                           \
	X(EXPERT_LATENT, routed && c->expert_latent > 0)                                     \
	X(ROUTER_BIAS, routed && c->router_bias)                                             \
	X(ROUTER_CORRECTION, routed && c->router_correction && !l->listed)                   \
	X(LISTED, routed && l->listed)                                                       \
	X(EXPERT_BIAS, routed && c->expert_bias)                                             \
	X(APART, routed && c->feed_forwards_apart) /* parts have norms of their own */       \
	X(EXPERT_SCALE, routed && c->expert_scale)                                           \
	X(SHARED, l->shared)                                                                 \
	X(SHARED_GATED, l->shared && config_gated(c))                                        \
	X(SHARED_GATE, l->shared && c->shared_gate)

#define TENSOR_PRESENCE_ENUM(presence, condition) PRESENT_##presence,
enum tensor_presence { TENSOR_PRESENCE_LIST(TENSOR_PRESENCE_ENUM) };
#undef TENSOR_PRESENCE_ENUM

/* X(dimension, size): a size in a layer l of a config c. NONE is the second dimension of a vector.
 */
#define TENSOR_DIMENSION_LIST(X)                                                                 \
	X(NONE, 0)                                                                               \
	X(ONE, 1)                                                                                \
	X(THREE, 3)                                                                              \
	X(VOCABULARY, c->vocabulary)                                                             \
	X(HIDDEN, c->hidden_size)                                                                \
	X(HIDDEN_TWICE, 2 * c->hidden_size)                                                      \
	X(STREAM_COUNT, c->streams.count)                                                        \
	X(STREAMS, config_stream_width(c))                                                       \
	X(STREAM_MIX, config_stream_mix(c))                                                      \
	X(GATED_LOW, c->streams.low)                                                             \
	X(HIDDEN_THRICE, 3 * c->hidden_size)                                                     \
	X(KIMI_WIDTH, n->key_heads * n->key_dim)                                                 \
	X(MAMBA_INNER, config_mamba_inner(c))                                                    \
	X(MAMBA_CHANNELS, config_mamba_channels(c))                                              \
	X(MAMBA_HEADS, c->mamba.heads)                                                           \
	X(MAMBA_WIDTH, c->mamba.width)                                                           \
	X(CONVOLUTION, c->convolution) /* inputs that it sees */                                 \
	X(QUERIES, c->heads * l->head_dim * (c->query_gate ? 2 : 1))                             \
	X(KEYS, l->kv_heads * l->head_dim)                                                       \
	X(ATTENDED, c->heads * l->head_dim)                                                      \
	/* What one norm of queries or keys covers: a head, or all heads. */                     \
	X(Q_NORMED, l->head_dim *(together ? c->heads : 1))                                      \
	X(K_NORMED, l->head_dim *(together ? l->kv_heads : 1))                                   \
	X(INDEX_DIM, c->chooser.dim)                                                             \
	X(INDEX_PARTS, config_index_parts(c))                                                    \
	X(INDEX_RATIO, c->chooser.ratio)                                                         \
	X(INDEX_HEADS, c->chooser.heads)                                                         \
	X(INDEX_QUERIES, c->chooser.heads * c->chooser.dim)                                      \
	X(INDEX_INPUT, c->chooser.low ? c->latent.query_rank : c->hidden_size)                   \
	X(NGRAM_DIM, c->ngrams.dim)                                                              \
	X(NGRAM_WIDTH, c->ngrams.width)                                                          \
	X(LATENT_LOW, c->latent.query_rank) /* between two projections of queries */             \
	X(LATENT_QUERIES, c->heads *(c->latent.nope + c->latent.rope))                           \
	X(LATENT_Q_INPUT, c->latent.query_rank ? c->latent.query_rank : c->hidden_size)          \
	X(LATENT_WIDTH, c->latent.rank + c->latent.rope) /* with the key that all heads share */ \
	X(HEAD_DIM, l->head_dim)                                                                 \
	X(ENTRY_PARTS, l->head_dim * l->pool_parts)                                              \
	X(ENTRY_RATIO, l->pool)                                                                  \
	X(GROUPED_LOW, c->grouped.groups * c->grouped.low)                                       \
	X(GROUPED_INPUT, c->heads * l->head_dim / (c->grouped.groups ? c->grouped.groups : 1))   \
	X(LATENT_RANK, c->latent.rank)                                                           \
	X(LATENT_NOPE, c->latent.nope)                                                           \
	X(LATENT_HEADS, c->heads * c->latent.rank)                                               \
	X(LATENT_VALUES, c->heads * c->latent.value)                                             \
	X(DELTA_CHANNELS, config_delta_channels(c))                                              \
	X(DELTA_VALUES, n->value_heads * n->value_dim)                                           \
	X(DELTA_HEADS, n->value_heads)                                                           \
	X(DELTA_HEAD, n->value_dim)                                                              \
	X(DELTA_WIDTH, n->width) /* inputs that the convolution sees */                          \
	X(INTERMEDIATE, c->intermediate_size * (l->double_wide ? 2 : 1))                         \
	X(PER_LAYER, c->per_layer)                                                               \
	X(PER_LAYER_ALL, c->per_layer * c->layers)                                               \
	X(PER_LAYER_VOCABULARY, c->per_layer_vocabulary)                                         \
	X(HEADS, c->heads)                                                                       \
	X(EXPERTS_CHOSEN, c->experts_per_token)                                                  \
	X(EXPERTS, c->experts)                                                                   \
	X(EXPERT, c->expert_size)                                                                \
	X(EXPERT_WIDTH, config_expert_width(c))                                                  \
	X(EXPERT_LATENT, c->expert_latent)                                                       \
	X(SHARED, c->shared_size)

#define TENSOR_DIMENSION_ENUM(dimension, size) DIMENSION_##dimension,
enum tensor_dimension { TENSOR_DIMENSION_LIST(TENSOR_DIMENSION_ENUM) };
#undef TENSOR_DIMENSION_ENUM

/* Storage classes of roles; recipe.h has the formats of each class. */
enum tensor_class {
	CLASS_EMBEDDING, /* read by the row; keeps its type */
	CLASS_HEADS,	 /* multiplied head by head in floats; keeps its type unless quantised */
	CLASS_FLOATS,	 /* few numbers that control the streams: F32 */
	CLASS_STEER, /* controls streams and choices: keeps its type, or 8 bits in quantised recipes
		      */
	CLASS_SMALL, /* small and sensitive: routers, gates */
	CLASS_MIXER, /* into attention … */
	CLASS_VALUES, /* … values, or the latent from which they are made: small and sensitive */
	CLASS_MIXER_OUT,   /* … and out of it */
	CLASS_DELTA,	   /* into a delta net or another recurrent mixer … */
	CLASS_DELTA_OUT,   /* … and out of it */
	CLASS_FEED,	   /* gate and up of a dense feed-forward … */
	CLASS_DOWN,	   /* … and its down */
	CLASS_SHARED,	   /* gate and up of a shared expert … */
	CLASS_SHARED_DOWN, /* … and its down */
	CLASS_EXPERT,	   /* gate and up … */
	CLASS_EXPERT_DOWN,
	CLASS_HEAD,
	CLASS_MATRICES, /* number of matrix classes */

	CLASS_VECTOR = CLASS_MATRICES, /* F32; also vectors of experts */
	CLASS_TAPS, /* F32, transposed at loading, so that SIMD lanes are channels */
	CLASS_NORM, /* F32; the family's norm_offset is added when it is loaded */
};

struct tensor_kind {
	enum tensor_place place;
	enum tensor_presence presence;
	enum tensor_dimension rows, cols;
	enum tensor_class class;
	const char *name;
};
/* [TENSOR_ROLES] */
extern const struct tensor_kind tensor_roles[];
/* Whether a role is a table that stays on disk, of which each token reads one row. */
static inline bool role_is_table(enum tensor_role role)
{
	return tensor_roles[role].class == CLASS_EMBEDDING;
}

/* One tensor of a model. */
struct tensor_id {
	enum tensor_role role;
	uint32_t layer, expert; /* the draft layer's number follows the model's own */
};

#endif

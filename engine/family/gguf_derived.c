/* What of a GGUF file's config follows from several keys, or from its tensors (gguf_writer.h). */
#include "engine/family/gguf_writer.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static int put_layers(const struct gguf_writer *w)
{
	uint64_t blocks, drafts;
	int failed = gguf_writer_uint(w, "block_count", &blocks);
	if (!failed)
		failed = gguf_writer_uint_or(w, "nextn_predict_layers", 0, &drafts);
	if (!failed && drafts > blocks)
		failed = err_set(w->e, EINVAL,
				 "%s: of %" PRIu64 " layers, %" PRIu64 " are for drafts", w->name,
				 blocks, drafts);
	if (!failed)
		gguf_put_uint(w, "num_hidden_layers", blocks - drafts);
	return failed;
}

/* The embedding has the rows; the key, which old files lack, agrees. */
static int put_vocabulary(const struct gguf_writer *w)
{
	const struct package_tensor *t = package_find(w->package, "token_embd.weight");
	uint64_t rows = t ? package_rows(t) : 0, says;
	int failed = gguf_writer_uint_or(w, "vocab_size", rows, &says);
	if (!failed && t && says != rows)
		failed = err_set(w->e, EINVAL,
				 "%s: token_embd.weight has %" PRIu64
				 " rows, but %s.vocab_size is %" PRIu64,
				 w->name, rows, w->architecture, says);
	if (!failed && !t)
		failed = err_set(w->e, ENOENT,
				 "%s has no tensor token_embd.weight: is it a model's file?",
				 w->name);
	if (!failed)
		gguf_put_uint(w, "vocab_size", rows);
	return failed;
}

/* Latent attention has other numbers of a head, below. */
static bool is_latent(const struct gguf_writer *w)
{
	return gguf_writer_has(w, "attention.kv_lora_rank");
}

static int put_heads(const struct gguf_writer *w)
{
	uint64_t key, value, inner, heads, rotated;
	if (is_latent(w))
		return 0;
	int failed = gguf_writer_uint_or(w, "attention.key_length", 0, &key);
	if (!failed)
		failed = gguf_writer_uint_or(w, "attention.value_length", key, &value);
	if (!failed && value != key)
		return err_set(w->e, ENOTSUP,
			       "%s: heads have keys of %" PRIu64 " and values of %" PRIu64
			       ", and only the same is supported",
			       w->name, key, value);
	if (!failed && !key && gguf_writer_has(w, "attention.head_count")) {
		failed = gguf_writer_uint(w, "embedding_length", &inner);
		if (!failed)
			failed = gguf_writer_uint(w, "attention.head_count", &heads);
		key = !failed && heads ? inner / heads : 0;
	}
	if (!failed)
		failed = gguf_writer_uint_or(w, "rope.dimension_count", key, &rotated);
	if (failed || rotated == key || !key)
		return failed;
	double factor = (double)rotated / (double)key;
	while ((uint64_t)((double)key * factor) < rotated) /* it is cut off, not rounded */
		factor = nextafter(factor, INFINITY);
	gguf_put_real(w, "partial_rotary_factor", factor);
	return 0;
}

/* What of a head is rotated and what is not. Files since 2025-04 have the sizes of what attention
 * over the latent sees under the usual keys, and those of a head as published under others. */
static int put_latent(const struct gguf_writer *w)
{
	uint64_t key, value, rotated;
	bool absorbed = gguf_writer_has(w, "attention.key_length_mla");
	if (!is_latent(w))
		return 0;
	int failed = gguf_writer_uint(
		w, absorbed ? "attention.key_length_mla" : "attention.key_length", &key);
	if (!failed)
		failed = gguf_writer_uint(
			w, absorbed ? "attention.value_length_mla" : "attention.value_length",
			&value);
	if (!failed)
		failed = gguf_writer_uint(w, "rope.dimension_count", &rotated);
	if (failed)
		return failed;
	if (rotated >= key)
		return err_set(w->e, EINVAL,
			       "%s: of heads of %" PRIu64 ", %" PRIu64
			       " elements are rotated (rope.dimension_count), which leaves none",
			       w->name, key, rotated);
	gguf_put_uint(w, "qk_nope_head_dim", key - rotated);
	gguf_put_uint(w, "qk_rope_head_dim", rotated);
	gguf_put_uint(w, "v_head_dim", value);
	return 0;
}

/* Which layers see a window, where the architecture says it and no key. */
static int put_windows(const struct gguf_writer *w)
{
	uint64_t layers, every = w->family->gguf->whole_every;
	if (!every)
		return 0;
	int failed = gguf_writer_uint(w, "block_count", &layers);
	if (!failed && layers > CONFIG_MAX_LAYERS)
		failed = err_set(w->e, EINVAL,
				 "%s: %" PRIu64 " layers are more than the %d supported", w->name,
				 layers, CONFIG_MAX_LAYERS);
	if (failed)
		return failed;
	(void)fprintf(w->out, ",\n  \"layer_types\": [");
	for (uint64_t i = 0; i < layers; i++)
		(void)fprintf(w->out, "%s\"%s_attention\"", i ? ", " : "",
			      (i + 1) % every ? "sliding" : "full");
	(void)fprintf(w->out, "]");
	return 0;
}

static int put_delta_net(const struct gguf_writer *w)
{
	uint64_t inner, heads;
	if (!gguf_writer_has(w, "ssm.inner_size"))
		return 0;
	int failed = gguf_writer_uint(w, "ssm.inner_size", &inner);
	if (!failed)
		failed = gguf_writer_uint(w, "ssm.time_step_rank", &heads);
	if (failed)
		return failed;
	if (!heads || inner % heads)
		return err_set(w->e, EINVAL,
			       "%s: %s.ssm.inner_size (%" PRIu64 ") is not a multiple of "
			       "ssm.time_step_rank (%" PRIu64 ")",
			       w->name, w->architecture, inner, heads);
	gguf_put_uint(w, "linear_value_head_dim", inner / heads);
	return 0;
}

/* Sizes of experts that files before 2024-04 do not say, from what has them. */
static int put_size_of(const struct gguf_writer *w, const char *suffix, const char *tensor)
{
	const struct gguf_key *k = gguf_key_find(w->family->gguf, suffix);
	if (!k || k->rule != GGUF_COPIED || gguf_writer_has(w, suffix))
		return 0;
	for (size_t i = 0; i < package_count(w->package); i++) {
		const struct package_tensor *t = package_tensor(w->package, i);
		size_t n = strlen(t->name), end = strlen(tensor);
		if (n > end && !strcmp(t->name + n - end, tensor) && t->dims > 1) {
			gguf_put_uint(w, k->name, t->shape[t->dims - 2]);
			return 0;
		}
	}
	return 0;
}

static int put_sizes(const struct gguf_writer *w)
{
	int failed = put_size_of(w, "expert_feed_forward_length", ".ffn_gate_exps.weight");
	return failed ? failed
		      : put_size_of(w, "expert_shared_feed_forward_length",
				    ".ffn_gate_shexp.weight");
}

static int put_end_tokens(const struct gguf_writer *w)
{
	static const char *const keys[] = {"tokenizer.ggml.eos_token_id",
					   "tokenizer.ggml.eot_token_id",
					   "tokenizer.ggml.eom_token_id"};
	uint64_t id;
	int count = 0;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		if (!gguf_has(w->g, keys[i]))
			continue;
		int failed = gguf_get_uint(w->g, keys[i], w->name, 0, UINT32_MAX, &id, w->e);
		if (failed)
			return failed;
		(void)fprintf(w->out, "%s%" PRIu64, count++ ? ", " : ",\n  \"eos_token_id\": [",
			      id);
	}
	if (count)
		(void)fprintf(w->out, "]");
	return 0;
}

/* What the presence of tensors says. */
static int put_presence(const struct gguf_writer *w)
{
	gguf_put_bool(w, "tie_word_embeddings", !package_find(w->package, "output.weight"));
	gguf_put_bool(w, "qkv_bias", package_find(w->package, "blk.0.attn_q.bias") != NULL);
	gguf_put_bool(w, "attention_bias",
		      package_find(w->package, "blk.0.attn_output.bias") != NULL);
	gguf_put_bool(w, "use_qk_norm",
		      package_find(w->package, "blk.0.attn_q_norm.weight") != NULL);
	return 0;
}

int gguf_put_derived(const struct gguf_writer *w)
{
	static int (*const parts[])(const struct gguf_writer *) = {
		put_layers,    put_vocabulary, put_heads, put_latent,	  put_windows,
		put_delta_net, gguf_put_rope,  put_sizes, put_end_tokens, put_presence,
	};
	int failed = 0;
	for (size_t i = 0; i < sizeof parts / sizeof *parts && !failed; i++)
		failed = parts[i](w);
	return failed;
}

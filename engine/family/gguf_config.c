/* Makes a config.json of a GGUF file's keys and of the names and shapes of its tensors
 * (gguf_family.h): key by key, then what follows from several keys or from tensors.
 *
 * A key that no table has (gguf_tables.c) is refused by its name, since it may change what is
 * computed. */
#include "engine/family/gguf_family.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gguf_writer {
	const struct gguf *g;
	const struct package *package;
	const struct family *family;
	const char *architecture, *name; /* of the file, for messages */
	FILE *out;
	struct err *e;
};

enum { GGUF_KEY_BYTES = 256 };

/* ---- keys in, members out ---- */

/* ARCHITECTURE.suffix; no architecture of ours makes it longer. */
static void gguf_full_key(const struct gguf_writer *w, const char *suffix, char key[GGUF_KEY_BYTES])
{
	(void)snprintf(key, GGUF_KEY_BYTES, "%s.%s", w->architecture, suffix);
}

static bool gguf_writer_has(const struct gguf_writer *w, const char *suffix)
{
	char key[GGUF_KEY_BYTES];
	gguf_full_key(w, suffix, key);
	return gguf_has(w->g, key);
}

static int gguf_writer_uint(const struct gguf_writer *w, const char *suffix, uint64_t *out)
{
	char key[GGUF_KEY_BYTES];
	gguf_full_key(w, suffix, key);
	return gguf_get_uint(w->g, key, w->name, 0, UINT32_MAX, out, w->e);
}

static int gguf_writer_uint_or(const struct gguf_writer *w, const char *suffix, uint64_t fallback,
			       uint64_t *out)
{
	*out = fallback;
	return gguf_writer_has(w, suffix) ? gguf_writer_uint(w, suffix, out) : 0;
}

static void gguf_put_uint(const struct gguf_writer *w, const char *name, uint64_t value)
{
	(void)fprintf(w->out, ",\n  \"%s\": %" PRIu64, name, value);
}

static void gguf_put_bool(const struct gguf_writer *w, const char *name, bool value)
{
	(void)fprintf(w->out, ",\n  \"%s\": %s", name, value ? "true" : "false");
}

static void gguf_put_real(const struct gguf_writer *w, const char *name, double value)
{
	(void)fprintf(w->out, ",\n  \"%s\": %.17g", name, value);
}

/* ---- rotary positions ---- */

/* The type is one of those that transformers names alike; a factor alone means a linear one. */
static int gguf_rope_type(const struct gguf_writer *w, const char **type)
{
	static const char *const types[] = {"none", "linear", "yarn", "longrope"};
	char key[GGUF_KEY_BYTES];
	const char *text;
	size_t length;
	gguf_full_key(w, "rope.scaling.type", key);
	*type = gguf_writer_has(w, "rope.scaling.factor") ? "linear" : "none";
	if (!gguf_has(w->g, key))
		return 0;
	int failed = gguf_get_string(w->g, key, w->name, &text, &length, w->e);
	for (size_t i = 0; i < sizeof types / sizeof *types && !failed; i++)
		if (length == strlen(types[i]) && !memcmp(text, types[i], length)) {
			*type = types[i];
			return 0;
		}
	return failed ? failed
		      : err_set(w->e, ENOTSUP, "%s: %s is %.*s, which is not known", w->name, key,
				(int)(length < 64 ? length : 64), text);
}

/* What the keys of attention are scaled by besides, as a tenth of what config.json says. The two
 * that it has are the same in all that is published, and the file has one. */
static int gguf_put_mscale(const struct gguf_writer *w)
{
	char key[GGUF_KEY_BYTES];
	double tenth;
	gguf_full_key(w, "rope.scaling.yarn_log_multiplier", key);
	if (!gguf_has(w->g, key))
		return 0;
	int failed = gguf_get_double(w->g, key, w->name, &tenth, w->e);
	if (!failed)
		(void)fprintf(w->out, ", \"mscale\": %.17g, \"mscale_all_dim\": %.17g", 10 * tenth,
			      10 * tenth);
	return failed;
}

/* What each pair's frequency is divided by: the converter's way to say what Llama 3.1's config.json
 * says in four numbers, as F32. */
static int gguf_put_factors(const struct gguf_writer *w)
{
	const struct package_tensor *t = package_find(w->package, GGUF_ROPE_FACTORS);
	float factor[ROPE_FACTORS_MOST];
	if (t->dims != 1 || t->shape[0] > ROPE_FACTORS_MOST || package_read_format(t) != FORMAT_F32)
		return err_set(w->e, EINVAL,
			       "%s: %s is no list of at most %d numbers in F32, which is what "
			       "rotations are slowed by",
			       w->name, t->name, ROPE_FACTORS_MOST);
	int failed = package_read(w->package, t, 0, 1, (uint32_t)t->shape[0], factor, w->e);
	if (failed)
		return failed;
	(void)fprintf(w->out, ",\n  \"rope_scaling\": {\"rope_type\": \"factors\", \"factors\": [");
	for (uint64_t i = 0; i < t->shape[0]; i++) {
		if (!isfinite(factor[i])) /* JSON has no word for it */
			return err_set(w->e, EINVAL, "%s: %s holds a NaN or an infinity", w->name,
				       t->name);
		(void)fprintf(w->out, "%s%.9g", i ? ", " : "", (double)factor[i]);
	}
	(void)fprintf(w->out, "]}");
	return 0;
}

static bool gguf_computes_factors(const struct gguf_writer *w)
{
	return w->family->ropes & 1U << ROPE_FACTORS;
}

static int gguf_two_scalings(const struct gguf_writer *w, const char *type)
{
	return err_set(w->e, ENOTSUP,
		       "%s: has %s and a rope.scaling.type of %s, of which only one is supported",
		       w->name, GGUF_ROPE_FACTORS, type);
}

static int gguf_put_rope(const struct gguf_writer *w)
{
	const char *type;
	int failed = gguf_rope_type(w, &type);
	bool none = !failed && !strcmp(type, "none");
	if (!failed && gguf_computes_factors(w) && package_find(w->package, GGUF_ROPE_FACTORS))
		return none ? gguf_put_factors(w) : gguf_two_scalings(w, type);
	if (failed || none)
		return failed;
	(void)fprintf(w->out, ",\n  \"rope_scaling\": {\"rope_type\": \"%s\"", type);
	for (const struct gguf_key *k = gguf_keys_common; k->suffix && !failed; k++) {
		char key[GGUF_KEY_BYTES];
		double value;
		gguf_full_key(w, k->suffix, key);
		if (k->rule != GGUF_ROPE || !gguf_has(w->g, key))
			continue;
		failed = gguf_get_double(w->g, key, w->name, &value, w->e);
		if (!failed)
			(void)fprintf(w->out, ", \"%s\": %.17g", k->name, value);
	}
	if (!failed)
		failed = gguf_put_mscale(w);
	if (w->family->gguf->rope_also)
		(void)fprintf(w->out, ", %s", w->family->gguf->rope_also);
	(void)fprintf(w->out, "}");
	return failed;
}

/* ---- what follows from several keys, or from tensors ---- */

static int gguf_put_layers(const struct gguf_writer *w)
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
static int gguf_put_vocabulary(const struct gguf_writer *w)
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
static bool gguf_is_latent(const struct gguf_writer *w)
{
	return gguf_writer_has(w, "attention.kv_lora_rank");
}

static int gguf_put_heads(const struct gguf_writer *w)
{
	uint64_t key, value, inner, heads, rotated;
	if (gguf_is_latent(w))
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
static int gguf_put_latent(const struct gguf_writer *w)
{
	uint64_t key, value, rotated;
	bool absorbed = gguf_writer_has(w, "attention.key_length_mla");
	if (!gguf_is_latent(w))
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
static int gguf_put_windows(const struct gguf_writer *w)
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

static int gguf_put_delta_net(const struct gguf_writer *w)
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
static int gguf_put_size_of(const struct gguf_writer *w, const char *suffix, const char *tensor)
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

static int gguf_put_sizes(const struct gguf_writer *w)
{
	int failed = gguf_put_size_of(w, "expert_feed_forward_length", ".ffn_gate_exps.weight");
	return failed ? failed
		      : gguf_put_size_of(w, "expert_shared_feed_forward_length",
					 ".ffn_gate_shexp.weight");
}

static int gguf_put_end_tokens(const struct gguf_writer *w)
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
static int gguf_put_presence(const struct gguf_writer *w)
{
	gguf_put_bool(w, "tie_word_embeddings", !package_find(w->package, "output.weight"));
	gguf_put_bool(w, "qkv_bias", package_find(w->package, "blk.0.attn_q.bias") != NULL);
	gguf_put_bool(w, "attention_bias",
		      package_find(w->package, "blk.0.attn_output.bias") != NULL);
	gguf_put_bool(w, "use_qk_norm",
		      package_find(w->package, "blk.0.attn_q_norm.weight") != NULL);
	return 0;
}

static int gguf_put_derived(const struct gguf_writer *w)
{
	static int (*const parts[])(const struct gguf_writer *) = {
		gguf_put_layers,     gguf_put_vocabulary, gguf_put_heads, gguf_put_latent,
		gguf_put_windows,    gguf_put_delta_net,  gguf_put_rope,  gguf_put_sizes,
		gguf_put_end_tokens, gguf_put_presence,
	};
	int failed = 0;
	for (size_t i = 0; i < sizeof parts / sizeof *parts && !failed; i++)
		failed = parts[i](w);
	return failed;
}

/* ---- one key ---- */

/* What all elements of an array are that are not 0; a layer without the part in question has a 0.
 */
static int gguf_equal_elements(const struct gguf_writer *w, const struct gguf_value *v,
			       uint64_t *out)
{
	uint64_t one;
	*out = 0;
	for (uint64_t i = 0; i < v->count; i++) {
		if (!gguf_uint(v, i, &one))
			return err_set(w->e, EINVAL, "%s: %s must be whole numbers", w->name,
				       v->key);
		if (one && *out && one != *out)
			return err_set(w->e, ENOTSUP,
				       "%s: %s differs between layers, which is not supported",
				       w->name, v->key);
		*out = one ? one : *out;
	}
	return 0;
}

static int gguf_check_neutral(const struct gguf_writer *w, const struct gguf_key *k,
			      const struct gguf_value *v)
{
	double is = 0;
	bool number = v->kind == GGUF_BOOL || (v->kind != GGUF_ARRAY && gguf_double(v, 0, &is));
	if (v->kind == GGUF_BOOL)
		is = *v->bytes;
	if (number && ((is == 0 && v->kind != GGUF_BOOL) || is == k->neutral))
		return 0;
	return err_set(w->e, ENOTSUP, "%s: %s is %s%.6g, but only %g is supported", w->name, v->key,
		       number ? "" : "not a number: ", is, k->neutral);
}

static int gguf_put_key(const struct gguf_writer *w, const struct gguf_key *k,
			const struct gguf_value *v)
{
	uint64_t number;
	double real;
	bool flag;
	int failed = 0;
	switch (k->rule) {
	case GGUF_COPIED:
		failed = v->kind == GGUF_ARRAY ? gguf_equal_elements(w, v, &number)
					       : gguf_get_uint(w->g, v->key, w->name, 0, UINT32_MAX,
							       &number, w->e);
		if (!failed)
			gguf_put_uint(w, k->name, number);
		return failed;
	case GGUF_REAL:
		failed = gguf_get_double(w->g, v->key, w->name, &real, w->e);
		if (!failed)
			gguf_put_real(w, k->name, real);
		return failed;
	case GGUF_FLAG:
		failed = gguf_get_bool(w->g, v->key, w->name, &flag, w->e);
		if (!failed)
			gguf_put_bool(w, k->name, flag);
		return failed;
	case GGUF_NEUTRAL:
		return gguf_check_neutral(w, k, v);
	case GGUF_ROPE: /* by gguf_put_rope */
	case GGUF_KNOWN:
		break;
	}
	return 0;
}

/* All keys of the architecture, in their order. */
static int gguf_put_keys(const struct gguf_writer *w)
{
	size_t n = strlen(w->architecture);
	int failed = 0;
	for (size_t i = 0; i < w->g->count && !failed; i++) {
		const struct gguf_value *v = &w->g->values[i];
		if (strncmp(v->key, w->architecture, n) != 0 || v->key[n] != '.')
			continue;
		const struct gguf_key *k = gguf_key_find(w->family->gguf, v->key + n + 1);
		failed = k ? gguf_put_key(w, k, v)
			   : err_set(w->e, ENOTSUP,
				     "%s: the key %.128s is not known, and may change what the "
				     "model computes",
				     w->name, v->key);
	}
	return failed;
}

/* ---- the text ---- */

static int gguf_put_all(const struct gguf_writer *w, const char *model_type)
{
	(void)fprintf(w->out, "{\n  \"model_type\": \"%s\"", model_type);
	int failed = gguf_put_keys(w);
	if (!failed)
		failed = gguf_put_derived(w);
	if (w->family->gguf->also)
		(void)fprintf(w->out, ",\n  %s", w->family->gguf->also);
	(void)fprintf(w->out, "\n}\n");
	return failed;
}

/* Whether there are routed experts; a wrong value is told when all keys are read. */
static bool gguf_is_routed(const struct gguf *g, const char *architecture)
{
	char key[GGUF_KEY_BYTES];
	uint64_t experts;
	(void)snprintf(key, sizeof key, "%s.expert_count", architecture);
	const struct gguf_value *v = gguf_find(g, key);
	return v && v->kind != GGUF_ARRAY && gguf_uint(v, 0, &experts) && experts > 0;
}

static int gguf_find_family(struct gguf_writer *w, char architecture[GGUF_KEY_BYTES / 2])
{
	const char *text;
	char known[256];
	size_t length;
	int failed = gguf_get_string(w->g, "general.architecture", w->name, &text, &length, w->e);
	if (failed == -ENOENT)
		return err_damaged(w->e,
				   "%s is damaged, or not a model: its header has no "
				   "general.architecture",
				   w->name);
	if (failed)
		return failed;
	(void)snprintf(architecture, GGUF_KEY_BYTES / 2, "%.*s", (int)(length < 64 ? length : 64),
		       text);
	w->architecture = architecture;
	w->family = family_of_gguf(architecture, gguf_is_routed(w->g, architecture));
	if (w->family)
		return 0;
	family_list_gguf(known, sizeof known);
	return err_set(
		w->e, ENOTSUP,
		"%s: models of architecture %s are not supported in GGUF files; these are: %s",
		w->name, architecture, known);
}

int gguf_config_text(const struct gguf *g, const struct package *p, const char *name, char **text,
		     size_t *length, struct err *e)
{
	struct gguf_writer w = {.g = g, .package = p, .name = name, .e = e};
	char architecture[GGUF_KEY_BYTES / 2];
	int failed = gguf_find_family(&w, architecture);
	if (failed)
		return failed;
	*text = NULL;
	w.out = open_memstream(text, length);
	if (!w.out)
		return err_set(e, ENOMEM, "%s: out of memory for its config", name);
	failed = gguf_put_all(&w, w.family->model_types[0]);
	if (fclose(w.out) && !failed)
		failed = err_set(e, ENOMEM, "%s: out of memory for its config", name);
	if (failed) {
		free(*text);
		*text = NULL;
	}
	return failed;
}

int gguf_config_of(const char *path, char **text, size_t *length, struct err *e)
{
	struct gguf *g = NULL;
	struct package *p = NULL;
	int failed = gguf_open(&g, path, 0, e);
	if (!failed)
		failed = package_open(&p, path, e);
	if (!failed)
		failed = gguf_config_text(g, p, path, text, length, e);
	gguf_close(g);
	package_close(p);
	return failed;
}

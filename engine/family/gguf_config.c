/* Makes a config.json from a GGUF file's keys and the names and shapes of its tensors
 * (gguf_family.h): first key by key, then members that follow from several keys or from tensors.
 *
 * A key that is in no table (gguf_tables.c) is an error that names it, since it might change what
 * is computed. */
#include "engine/family/gguf_writer.h"
#include "engine/source/source_file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rotary positions ---- */

/* The type of the scaling; GGUF and transformers use the same names. A factor without a type means
 * linear. */
static const char *gguf_rope_type(struct gguf_writer *w)
{
	static const char *const types[] = {"none", "linear", "yarn", "longrope"};
	char key[GGUF_KEY_BYTES];
	const char *text, *type = gguf_writer_has(w, "rope.scaling.factor") ? "linear" : "none";
	size_t length;
	if (w->failed || !gguf_has(w->g, gguf_full_key(w, "rope.scaling.type", key)))
		return type;
	w->failed = gguf_get_string(w->g, key, w->name, &text, &length, w->e);
	for (size_t i = 0; i < sizeof types / sizeof *types && !w->failed; i++)
		if (length == strlen(types[i]) && !memcmp(text, types[i], length))
			return types[i];
	if (!w->failed)
		gguf_writer_refuse(w, ENOTSUP, "%s is %.*s, which is not known", key,
				   (int)(length < 64 ? length : 64), text);
	return type;
}

/* Writes the divisors of frequencies from a tensor of F32. The converter writes this tensor for
 * Llama 3.1 (whose config.json has four numbers instead), and for models with such lists. */
static void gguf_put_factors(struct gguf_writer *w, const char *key, const struct package_tensor *t)
{
	float factor[ROPE_FACTORS_MOST];
	uint32_t count = gguf_read_factors(w, t, factor);
	(void)fprintf(w->out, ", \"%s\": [", key);
	for (uint32_t i = 0; i < count; i++)
		(void)fprintf(w->out, "%s%.9g", i ? ", " : "", (double)factor[i]);
	(void)fprintf(w->out, "]");
}

/* Writes the numbers of rope_scaling that have keys. */
static void gguf_put_rope_keys(struct gguf_writer *w)
{
	static const char mscale[] = "rope.scaling.yarn_log_multiplier";
	for (const struct gguf_key *k = gguf_keys_common; k->suffix; k++)
		if (k->rule == GGUF_ROPE && gguf_writer_has(w, k->suffix))
			(void)fprintf(w->out, ", \"%s\": %.17g", k->name,
				      gguf_writer_real(w, k->suffix));
	/* An additional scale of attention. config.json has two numbers for this, which are equal
	 * in all published models; the file has a tenth of them. */
	if (gguf_writer_has(w, mscale)) {
		double both = 10 * gguf_writer_real(w, mscale);
		(void)fprintf(w->out, ", \"mscale\": %.17g, \"mscale_all_dim\": %.17g", both, both);
	}
	if (w->family->gguf->rope_also)
		(void)fprintf(w->out, ", %s", w->family->gguf->rope_also);
}

static const struct package_tensor *gguf_find_factors(const struct gguf_writer *w,
						      enum rope_scaling scaling, const char *name)
{
	return w->family->ropes & 1U << scaling ? package_find(w->package, name) : NULL;
}

bool gguf_is_of_config(const struct config *c, const char *name)
{
	if (c->rope[0].scaling != ROPE_FACTORS && c->rope[0].scaling != ROPE_PROPORTIONAL)
		return false;
	return c->rope_limit ? !strcmp(name, GGUF_ROPE_SHORT) || !strcmp(name, GGUF_ROPE_LONG)
			     : !strcmp(name, GGUF_ROPE_FACTORS);
}

/* If there are lists of factors, they determine the type, whatever a key says about longrope. */
static void gguf_put_rope(struct gguf_writer *w)
{
	const char *type = gguf_rope_type(w);
	const struct package_tensor *factors = gguf_find_factors(w, ROPE_FACTORS,
								 GGUF_ROPE_FACTORS),
				    *brief = gguf_find_factors(w, ROPE_LONG, GGUF_ROPE_SHORT),
				    *wide = gguf_find_factors(w, ROPE_LONG, GGUF_ROPE_LONG);
	bool none = !strcmp(type, "none");
	if (brief && wide && none)
		type = "longrope";
	if (factors && !none)
		gguf_writer_refuse(
			w, ENOTSUP,
			"has %s and a rope.scaling.type of %s, of which only one is supported",
			GGUF_ROPE_FACTORS, type);
	else if (factors)
		type = "factors";
	if (w->failed || !strcmp(type, "none"))
		return;
	(void)fprintf(w->out, ",\n  \"rope_scaling\": {\"rope_type\": \"%s\"", type);
	if (factors)
		gguf_put_factors(w, "factors", factors);
	else
		gguf_put_rope_keys(w);
	if (brief && wide && !strcmp(type, "longrope")) {
		gguf_put_factors(w, "short_factor", brief);
		gguf_put_factors(w, "long_factor", wide);
	}
	(void)fprintf(w->out, "}");
}

/* ---- members that follow from several keys, or from tensors ---- */

static void gguf_put_layers(struct gguf_writer *w)
{
	gguf_put_uint(w, "num_hidden_layers", gguf_writer_layers(w));
}

/* The vocabulary is the number of rows of the embedding. Old files lack the key; if present, it
 * must agree. */
static void gguf_put_vocabulary(struct gguf_writer *w)
{
	const struct package_tensor *t = package_find(w->package, "token_embd.weight");
	uint64_t rows = t ? package_rows(t) : 0, says = gguf_writer_uint_or(w, "vocab_size", rows);
	if (t && says != rows)
		gguf_writer_refuse(w, EINVAL,
				   "token_embd.weight has %" PRIu64
				   " rows, but %s.vocab_size is %" PRIu64,
				   rows, w->architecture, says);
	if (!t && !w->failed)
		w->failed = err_set(w->e, ENOENT,
				    "%s has no tensor token_embd.weight: is it a model's file?",
				    w->name);
	gguf_put_uint(w, "vocab_size", rows);
}

/* Latent attention has other sizes per head, see gguf_put_latent. */
static bool gguf_is_latent(const struct gguf_writer *w)
{
	return gguf_writer_has(w, "attention.kv_lora_rank");
}

static void gguf_put_heads(struct gguf_writer *w)
{
	if (gguf_is_latent(w))
		return;
	uint64_t key = gguf_writer_uint_or(w, "attention.key_length", 0),
		 value = gguf_writer_uint_or(w, "attention.value_length", key);
	if (value != key)
		gguf_writer_refuse(w, ENOTSUP,
				   "heads have keys of %" PRIu64 " and values of %" PRIu64
				   ", and only the same is supported",
				   key, value);
	if (!key && gguf_writer_has(w, "attention.head_count")) {
		uint64_t inner = gguf_writer_uint(w, "embedding_length"),
			 heads = gguf_writer_uint(w, "attention.head_count");
		key = heads ? inner / heads : 0;
	}
	uint64_t rotated = gguf_writer_uint_or(w, "rope.dimension_count", key);
	if (w->failed || rotated == key || !key)
		return;
	double factor = (double)rotated / (double)key;
	while ((uint64_t)((double)key * factor) <
	       rotated) /* the reader truncates, it does not round */
		factor = nextafter(factor, INFINITY);
	gguf_put_real(w, "partial_rotary_factor", factor);
}

/* Sizes of a head's rotated and unrotated parts. Since 2025-04 files have the sizes of latent
 * attention under the usual keys, and those of a published head under keys that end in _mla. */
static void gguf_put_latent(struct gguf_writer *w)
{
	if (!gguf_is_latent(w))
		return;
	bool absorbed = gguf_writer_has(w, "attention.key_length_mla");
	uint64_t key =
		gguf_writer_uint(w, absorbed ? "attention.key_length_mla" : "attention.key_length");
	uint64_t value = gguf_writer_uint(w, absorbed ? "attention.value_length_mla"
						      : "attention.value_length");
	uint64_t rotated = gguf_writer_uint(w, "rope.dimension_count");
	if (rotated >= key)
		gguf_writer_refuse(
			w, EINVAL,
			"of heads of %" PRIu64 ", %" PRIu64
			" elements are rotated (rope.dimension_count), so none is left "
			"unrotated",
			key, rotated);
	gguf_put_uint(w, "qk_nope_head_dim", key - rotated);
	gguf_put_uint(w, "qk_rope_head_dim", rotated);
	gguf_put_uint(w, "v_head_dim", value);
}

/* attention.sliding_window_pattern: for each layer, whether it has a window. */
static void gguf_put_pattern(struct gguf_writer *w, const struct gguf_value *v, uint64_t layers)
{
	uint64_t one = 0;
	bool numbers = gguf_uint(v, 0, &one);
	if (v->kind != GGUF_ARRAY || v->count != layers || !(numbers || v->element == GGUF_BOOL)) {
		gguf_writer_refuse(w, EINVAL,
				   "%s is not a number, nor true or false for each of %" PRIu64
				   " layers",
				   v->key, layers);
		return;
	}
	for (uint64_t i = 0; i < layers; i++) {
		bool sliding = numbers ? gguf_uint(v, i, &one) && one : v->bytes[i];
		(void)fprintf(w->out, "%s\"%s_attention\"", i ? ", " : "",
			      sliding ? "sliding" : "full");
	}
}

/* Writes which layers have a window, for architectures where some layers have one. */
static void gguf_put_windows(struct gguf_writer *w)
{
	static const char suffix[] = "attention.sliding_window_pattern";
	char key[GGUF_KEY_BYTES];
	uint64_t every = w->family->gguf->whole_every;
	if (!every)
		return;
	uint64_t layers = gguf_writer_uint(w, "block_count");
	if (layers > CONFIG_MAX_LAYERS)
		gguf_writer_refuse(w, EINVAL, "%" PRIu64 " layers are more than the %d supported",
				   layers, CONFIG_MAX_LAYERS);
	const struct gguf_value *v = gguf_find(w->g, gguf_full_key(w, suffix, key));
	(void)fprintf(w->out, ",\n  \"layer_types\": [");
	if (v && !w->failed && (v->kind == GGUF_ARRAY || !gguf_uint(v, 0, &every))) {
		gguf_put_pattern(w, v, layers);
		layers = 0;
	}
	if (!gguf_writer_uint_or(w, "attention.sliding_window", 0))
		every = 1; /* no layer has a window */
	for (uint64_t i = 0; i < layers && !w->failed; i++)
		(void)fprintf(w->out, "%s\"%s_attention\"", i ? ", " : "",
			      every && (i + 1) % every == 0 ? "full" : "sliding");
	(void)fprintf(w->out, "]");
}

static void gguf_put_delta_net(struct gguf_writer *w)
{
	if (gguf_writer_has(w, "ssm.inner_size"))
		gguf_put_uint(w, "linear_value_head_dim", gguf_writer_inner_dim(w));
}

/* Writes the size of experts, which files before 2024-04 lack, from the first tensor with this
 * ending.
 */
static void gguf_put_size_of(const struct gguf_writer *w, const char *suffix, const char *tensor)
{
	const struct gguf_key *k = gguf_key_find(w->family->gguf, suffix);
	if (!k || k->rule != GGUF_COPIED || gguf_writer_has(w, suffix))
		return;
	for (size_t i = 0; i < package_count(w->package); i++) {
		const struct package_tensor *t = package_tensor(w->package, i);
		if (t->dims > 1 && source_stem(t->name, tensor)) {
			gguf_put_uint(w, k->name, t->shape[t->dims - 2]);
			return;
		}
	}
}

static void gguf_put_end_tokens(struct gguf_writer *w)
{
	static const char *const keys[] = {"tokenizer.ggml.eos_token_id",
					   "tokenizer.ggml.eot_token_id",
					   "tokenizer.ggml.eom_token_id"};
	int count = 0;
	for (size_t i = 0; i < sizeof keys / sizeof *keys && !w->failed; i++) {
		uint64_t id = 0;
		if (!gguf_has(w->g, keys[i]))
			continue;
		w->failed = gguf_get_uint(w->g, keys[i], w->name, 0, UINT32_MAX, &id, w->e);
		(void)fprintf(w->out, "%s%" PRIu64, count++ ? ", " : ",\n  \"eos_token_id\": [",
			      id);
	}
	if (count)
		(void)fprintf(w->out, "]");
}

static void gguf_put_derived(struct gguf_writer *w)
{
	gguf_put_layers(w);
	gguf_put_vocabulary(w);
	gguf_put_heads(w);
	gguf_put_latent(w);
	gguf_put_windows(w);
	gguf_put_delta_net(w);
	gguf_put_rope(w);
	gguf_put_size_of(w, "expert_feed_forward_length", ".ffn_gate_exps.weight");
	gguf_put_size_of(w, "expert_shared_feed_forward_length", ".ffn_gate_shexp.weight");
	gguf_put_end_tokens(w);
	if (w->family->gguf->put)
		w->family->gguf->put(w);
	/* Members that follow from the presence of tensors. */
	gguf_put_bool(w, "tie_word_embeddings", !package_find(w->package, "output.weight"));
	gguf_put_bool(w, "qkv_bias", package_find(w->package, "blk.0.attn_q.bias"));
	gguf_put_bool(w, "attention_bias", package_find(w->package, "blk.0.attn_output.bias"));
	gguf_put_bool(w, "use_qk_norm", package_find(w->package, "blk.0.attn_q_norm.weight"));
}

/* ---- one key ---- */

/* The common value of all nonzero elements of an array. Layers without this part have 0.
 */
static uint64_t gguf_equal_elements(struct gguf_writer *w, const struct gguf_value *v)
{
	uint64_t one, all = 0;
	for (uint64_t i = 0; i < v->count; i++) {
		if (!gguf_uint(v, i, &one)) {
			gguf_writer_refuse(w, EINVAL, "%s must be whole numbers", v->key);
			return 0;
		}
		if (one && all && one != all) {
			gguf_writer_refuse(w, ENOTSUP,
					   "%s differs between layers, which is not supported",
					   v->key);
			return 0;
		}
		all = one ? one : all;
	}
	return all;
}

static void gguf_check_neutral(struct gguf_writer *w, const struct gguf_key *k,
			       const struct gguf_value *v)
{
	double is = 0;
	bool number = v->kind == GGUF_BOOL || (v->kind != GGUF_ARRAY && gguf_double(v, 0, &is));
	if (v->kind == GGUF_BOOL)
		is = *v->bytes;
	if (!number || (is != k->neutral && (is != 0 || v->kind == GGUF_BOOL)))
		gguf_writer_refuse(w, ENOTSUP, "%s is %s%.6g, but only %g is supported", v->key,
				   number ? "" : "not a number: ", is, k->neutral);
}

static void gguf_put_key(struct gguf_writer *w, const struct gguf_key *k,
			 const struct gguf_value *v)
{
	bool flag = false;
	switch (k->rule) {
	case GGUF_COPIED:
		gguf_put_uint(w, k->name,
			      v->kind == GGUF_ARRAY ? gguf_equal_elements(w, v)
						    : gguf_writer_uint(w, k->suffix));
		break;
	case GGUF_REAL:
		gguf_put_real(w, k->name, gguf_writer_real(w, k->suffix));
		break;
	case GGUF_FLAG:
		w->failed = gguf_get_bool(w->g, v->key, w->name, &flag, w->e);
		gguf_put_bool(w, k->name, flag);
		break;
	case GGUF_NEUTRAL:
		gguf_check_neutral(w, k, v);
		break;
	case GGUF_ROPE: /* by gguf_put_rope */
	case GGUF_KNOWN:
		break;
	}
}

/* Writes all keys of the architecture, in order. */
static void gguf_put_keys(struct gguf_writer *w)
{
	size_t n = strlen(w->architecture);
	for (size_t i = 0; i < w->g->count && !w->failed; i++) {
		const struct gguf_value *v = &w->g->values[i];
		if (strncmp(v->key, w->architecture, n) != 0 || v->key[n] != '.')
			continue;
		const struct gguf_key *k = gguf_key_find(w->family->gguf, v->key + n + 1);
		if (k)
			gguf_put_key(w, k, v);
		else
			gguf_writer_refuse(
				w, ENOTSUP,
				"the key %.128s is not known, and may change what the model "
				"computes",
				v->key);
	}
}

/* ---- the text ---- */

/* Whether there are routed experts; a wrong value is reported when all keys are read. */
static bool gguf_is_routed(const struct gguf *g, const char *architecture)
{
	char key[GGUF_KEY_BYTES];
	uint64_t experts;
	(void)snprintf(key, sizeof key, "%s.expert_count", architecture);
	const struct gguf_value *v = gguf_find(g, key);
	return v && v->kind != GGUF_ARRAY && gguf_uint(v, 0, &experts) && experts > 0;
}

static void gguf_find_family(struct gguf_writer *w, char architecture[GGUF_KEY_BYTES / 2])
{
	const char *text;
	char known[1024];
	size_t length;
	w->failed = gguf_get_string(w->g, "general.architecture", w->name, &text, &length, w->e);
	if (w->failed == -ENOENT)
		w->failed = err_damaged(w->e,
					"%s is damaged, or not a model: its header has no "
					"general.architecture",
					w->name);
	if (w->failed)
		return;
	(void)snprintf(architecture, GGUF_KEY_BYTES / 2, "%.*s", (int)(length < 64 ? length : 64),
		       text);
	w->architecture = architecture;
	w->family = family_of_gguf(architecture, gguf_is_routed(w->g, architecture));
	family_list_gguf(known, sizeof known);
	if (!w->family)
		gguf_writer_refuse(
			w, ENOTSUP,
			"models of architecture %s are not supported in GGUF files; these are: "
			"%s",
			architecture, known);
}

int gguf_config_text(const struct gguf *g, const struct package *p, const char *name, char **text,
		     size_t *length, struct err *e)
{
	struct gguf_writer w = {.g = g, .package = p, .name = name, .e = e};
	char architecture[GGUF_KEY_BYTES / 2];
	gguf_find_family(&w, architecture);
	if (w.failed)
		return w.failed;
	*text = NULL;
	w.out = open_memstream(text, length);
	if (!w.out)
		return err_set(e, ENOMEM, "%s: out of memory for its config", name);
	(void)fprintf(w.out, "{\n  \"model_type\": \"%s\"", w.family->model_types[0]);
	gguf_put_keys(&w);
	if (!w.failed)
		gguf_put_derived(&w);
	if (w.family->gguf->also)
		(void)fprintf(w.out, ",\n  %s", w.family->gguf->also);
	(void)fprintf(w.out, "\n}\n");
	if (fclose(w.out))
		gguf_writer_refuse(&w, ENOMEM, "out of memory for its config");
	if (w.failed) {
		free(*text);
		*text = NULL;
	}
	return w.failed;
}

int gguf_config_of(const char *path, char **text, size_t *length, struct err *e)
{
	struct gguf *g = NULL;
	struct package *p = NULL;
	int failed = package_open_gguf(&p, &g, path, e);
	if (!failed)
		failed = gguf_config_text(g, p, path, text, length, e);
	gguf_close(g);
	package_close(p);
	return failed;
}

/* A GGUF file's keys as the config.json that they were made from (gguf_family.h).
 *
 * One that no table has (gguf_keys.c) is refused by its name, since it may change what is computed.
 */
#include "engine/family/gguf_family.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

struct writer {
	const struct gguf *g;
	const struct package *package;
	const struct family *family;
	const char *architecture, *name; /* of the file, for messages */
	FILE *out;
	struct err *e;
};

enum { KEY_BYTES = 256 };

/* ARCHITECTURE.suffix; no architecture of ours makes it longer. */
static void full_key(const struct writer *w, const char *suffix, char key[KEY_BYTES])
{
	(void)snprintf(key, KEY_BYTES, "%s.%s", w->architecture, suffix);
}

static bool has(const struct writer *w, const char *suffix)
{
	char key[KEY_BYTES];
	full_key(w, suffix, key);
	return gguf_has(w->g, key);
}

static int get_uint(const struct writer *w, const char *suffix, uint64_t *out)
{
	char key[KEY_BYTES];
	full_key(w, suffix, key);
	return gguf_get_uint(w->g, key, w->name, 0, UINT32_MAX, out, w->e);
}

static int get_uint_or(const struct writer *w, const char *suffix, uint64_t fallback, uint64_t *out)
{
	*out = fallback;
	return has(w, suffix) ? get_uint(w, suffix, out) : 0;
}

/* What all elements of an array are that are not 0; a layer without the part in question has a 0.
 */
static int get_equal(const struct writer *w, const struct gguf_value *v, uint64_t *out)
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

/* ---- writing ---- */

static void put_uint(const struct writer *w, const char *name, uint64_t value)
{
	(void)fprintf(w->out, ",\n  \"%s\": %" PRIu64, name, value);
}

static void put_bool(const struct writer *w, const char *name, bool value)
{
	(void)fprintf(w->out, ",\n  \"%s\": %s", name, value ? "true" : "false");
}

static void put_real(const struct writer *w, const char *name, double value)
{
	(void)fprintf(w->out, ",\n  \"%s\": %.17g", name, value);
}

static int check_neutral(const struct writer *w, const struct gguf_key *k,
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

static int put_key(const struct writer *w, const struct gguf_key *k, const struct gguf_value *v)
{
	uint64_t number;
	double real;
	bool flag;
	int failed = 0;
	switch (k->rule) {
	case GGUF_COPIED:
		failed = v->kind == GGUF_ARRAY ? get_equal(w, v, &number)
					       : gguf_get_uint(w->g, v->key, w->name, 0, UINT32_MAX,
							       &number, w->e);
		if (!failed)
			put_uint(w, k->name, number);
		return failed;
	case GGUF_REAL:
		failed = gguf_get_double(w->g, v->key, w->name, &real, w->e);
		if (!failed)
			put_real(w, k->name, real);
		return failed;
	case GGUF_FLAG:
		failed = gguf_get_bool(w->g, v->key, w->name, &flag, w->e);
		if (!failed)
			put_bool(w, k->name, flag);
		return failed;
	case GGUF_NEUTRAL:
		return check_neutral(w, k, v);
	case GGUF_ROPE: /* by put_rope */
	case GGUF_KNOWN:
		break;
	}
	return 0;
}

/* All keys of the architecture, in their order. */
static int put_keys(const struct writer *w)
{
	size_t n = strlen(w->architecture);
	int failed = 0;
	for (size_t i = 0; i < w->g->count && !failed; i++) {
		const struct gguf_value *v = &w->g->values[i];
		if (strncmp(v->key, w->architecture, n) != 0 || v->key[n] != '.')
			continue;
		const struct gguf_key *k = gguf_key_find(w->family->gguf, v->key + n + 1);
		failed = k ? put_key(w, k, v)
			   : err_set(w->e, ENOTSUP,
				     "%s: the key %.128s is not known, and may change what the "
				     "model computes",
				     w->name, v->key);
	}
	return failed;
}

/* ---- what takes more than one key ---- */

static int put_layers(const struct writer *w)
{
	uint64_t blocks, drafts;
	int failed = get_uint(w, "block_count", &blocks);
	if (!failed)
		failed = get_uint_or(w, "nextn_predict_layers", 0, &drafts);
	if (!failed && drafts > blocks)
		failed = err_set(w->e, EINVAL,
				 "%s: of %" PRIu64 " layers, %" PRIu64 " are for drafts", w->name,
				 blocks, drafts);
	if (!failed)
		put_uint(w, "num_hidden_layers", blocks - drafts);
	return failed;
}

/* The embedding has the rows; the key, which old files lack, agrees. */
static int put_vocabulary(const struct writer *w)
{
	const struct package_tensor *t = package_find(w->package, "token_embd.weight");
	uint64_t rows = t ? package_rows(t) : 0, says;
	int failed = get_uint_or(w, "vocab_size", rows, &says);
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
		put_uint(w, "vocab_size", rows);
	return failed;
}

static int put_heads(const struct writer *w)
{
	uint64_t key, value, inner, heads, rotated;
	int failed = get_uint_or(w, "attention.key_length", 0, &key);
	if (!failed)
		failed = get_uint_or(w, "attention.value_length", key, &value);
	if (!failed && value != key)
		return err_set(w->e, ENOTSUP,
			       "%s: heads have keys of %" PRIu64 " and values of %" PRIu64
			       ", and only the same is supported",
			       w->name, key, value);
	if (!failed && !key && has(w, "attention.head_count")) {
		failed = get_uint(w, "embedding_length", &inner);
		if (!failed)
			failed = get_uint(w, "attention.head_count", &heads);
		key = !failed && heads ? inner / heads : 0;
	}
	if (!failed)
		failed = get_uint_or(w, "rope.dimension_count", key, &rotated);
	if (failed || rotated == key || !key)
		return failed;
	double factor = (double)rotated / (double)key;
	while ((uint64_t)((double)key * factor) < rotated) /* it is cut off, not rounded */
		factor = nextafter(factor, INFINITY);
	put_real(w, "partial_rotary_factor", factor);
	return 0;
}

static int put_delta_net(const struct writer *w)
{
	uint64_t inner, heads;
	if (!has(w, "ssm.inner_size"))
		return 0;
	int failed = get_uint(w, "ssm.inner_size", &inner);
	if (!failed)
		failed = get_uint(w, "ssm.time_step_rank", &heads);
	if (failed)
		return failed;
	if (!heads || inner % heads)
		return err_set(w->e, EINVAL,
			       "%s: %s.ssm.inner_size (%" PRIu64 ") is not a multiple of "
			       "ssm.time_step_rank (%" PRIu64 ")",
			       w->name, w->architecture, inner, heads);
	put_uint(w, "linear_value_head_dim", inner / heads);
	return 0;
}

/* The type is one of those that transformers names alike; a factor alone means a linear one. */
static int rope_type(const struct writer *w, const char **type)
{
	static const char *const types[] = {"none", "linear", "yarn", "longrope"};
	char key[KEY_BYTES];
	const char *text;
	size_t length;
	full_key(w, "rope.scaling.type", key);
	*type = has(w, "rope.scaling.factor") ? "linear" : "none";
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

static int put_rope(const struct writer *w)
{
	const char *type;
	int failed = rope_type(w, &type);
	if (failed || !strcmp(type, "none"))
		return failed;
	(void)fprintf(w->out, ",\n  \"rope_scaling\": {\"rope_type\": \"%s\"", type);
	for (const struct gguf_key *k = gguf_keys_common; k->suffix && !failed; k++) {
		char key[KEY_BYTES];
		double value;
		full_key(w, k->suffix, key);
		if (k->rule != GGUF_ROPE || !gguf_has(w->g, key))
			continue;
		failed = gguf_get_double(w->g, key, w->name, &value, w->e);
		if (!failed)
			(void)fprintf(w->out, ", \"%s\": %.17g", k->name, value);
	}
	(void)fprintf(w->out, "}");
	return failed;
}

/* Sizes of experts that files before 2024-04 do not say, from what has them. */
static int put_size_of(const struct writer *w, const char *suffix, const char *tensor)
{
	const struct gguf_key *k = gguf_key_find(w->family->gguf, suffix);
	if (!k || k->rule != GGUF_COPIED || has(w, suffix))
		return 0;
	for (size_t i = 0; i < package_count(w->package); i++) {
		const struct package_tensor *t = package_tensor(w->package, i);
		size_t n = strlen(t->name), end = strlen(tensor);
		if (n > end && !strcmp(t->name + n - end, tensor) && t->dims > 1) {
			put_uint(w, k->name, t->shape[t->dims - 2]);
			return 0;
		}
	}
	return 0;
}

static int put_sizes(const struct writer *w)
{
	int failed = put_size_of(w, "expert_feed_forward_length", ".ffn_gate_exps.weight");
	return failed ? failed
		      : put_size_of(w, "expert_shared_feed_forward_length",
				    ".ffn_gate_shexp.weight");
}

static int put_end_tokens(const struct writer *w)
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
static int put_presence(const struct writer *w)
{
	put_bool(w, "tie_word_embeddings", !package_find(w->package, "output.weight"));
	put_bool(w, "qkv_bias", package_find(w->package, "blk.0.attn_q.bias") != NULL);
	put_bool(w, "attention_bias", package_find(w->package, "blk.0.attn_output.bias") != NULL);
	return 0;
}

/* ---- the text ---- */

static int put_all(const struct writer *w, const char *model_type)
{
	static int (*const parts[])(const struct writer *) = {
		put_layers, put_vocabulary, put_keys,	    put_heads,	  put_delta_net,
		put_rope,   put_sizes,	    put_end_tokens, put_presence,
	};
	int failed = 0;
	(void)fprintf(w->out, "{\n  \"model_type\": \"%s\"", model_type);
	for (size_t i = 0; i < sizeof parts / sizeof *parts && !failed; i++)
		failed = parts[i](w);
	if (w->family->gguf->also)
		(void)fprintf(w->out, ",\n  %s", w->family->gguf->also);
	(void)fprintf(w->out, "\n}\n");
	return failed;
}

/* Whether there are routed experts; a wrong value is told when all keys are read. */
static bool is_routed(const struct gguf *g, const char *architecture)
{
	char key[KEY_BYTES];
	uint64_t experts;
	(void)snprintf(key, sizeof key, "%s.expert_count", architecture);
	const struct gguf_value *v = gguf_find(g, key);
	return v && v->kind != GGUF_ARRAY && gguf_uint(v, 0, &experts) && experts > 0;
}

static int find_family(struct writer *w, char architecture[KEY_BYTES / 2])
{
	const char *text;
	size_t length;
	int failed = gguf_get_string(w->g, "general.architecture", w->name, &text, &length, w->e);
	if (failed)
		return failed;
	(void)snprintf(architecture, KEY_BYTES / 2, "%.*s", (int)(length < 64 ? length : 64), text);
	w->architecture = architecture;
	w->family = family_of_gguf(architecture, is_routed(w->g, architecture));
	return w->family ? 0
			 : err_set(w->e, ENOTSUP,
				   "%s: models of architecture %s are not supported in GGUF files",
				   w->name, architecture);
}

int gguf_config_text(const struct gguf *g, const struct package *p, const char *name, char **text,
		     size_t *length, struct err *e)
{
	struct writer w = {.g = g, .package = p, .name = name, .e = e};
	char architecture[KEY_BYTES / 2];
	int failed = find_family(&w, architecture);
	if (failed)
		return failed;
	*text = NULL;
	w.out = open_memstream(text, length);
	if (!w.out)
		return err_set(e, ENOMEM, "%s: out of memory for its config", name);
	failed = put_all(&w, w.family->model_types[0]);
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

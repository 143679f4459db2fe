#include "engine/family/gguf_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

void gguf_writer_refuse(struct gguf_writer *w, int code, const char *format, ...)
{
	char text[1024];
	va_list args;
	if (w->failed)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	w->failed = err_set(w->e, code, "%s: %s", w->name, text);
}

/* ---- keys in ---- */

const char *gguf_full_key(const struct gguf_writer *w, const char *suffix, char key[GGUF_KEY_BYTES])
{
	(void)snprintf(key, GGUF_KEY_BYTES, "%s.%s", w->architecture, suffix);
	return key;
}

bool gguf_writer_has(const struct gguf_writer *w, const char *suffix)
{
	char key[GGUF_KEY_BYTES];
	return gguf_has(w->g, gguf_full_key(w, suffix, key));
}

uint64_t gguf_writer_uint(struct gguf_writer *w, const char *suffix)
{
	char key[GGUF_KEY_BYTES];
	uint64_t value = 0;
	if (!w->failed)
		w->failed = gguf_get_uint(w->g, gguf_full_key(w, suffix, key), w->name, 0,
					  UINT32_MAX, &value, w->e);
	return value;
}

uint64_t gguf_writer_uint_or(struct gguf_writer *w, const char *suffix, uint64_t fallback)
{
	return gguf_writer_has(w, suffix) ? gguf_writer_uint(w, suffix) : fallback;
}

uint64_t gguf_writer_uint_of(struct gguf_writer *w, const char *suffix, uint64_t layer)
{
	char key[GGUF_KEY_BYTES];
	uint64_t value = 0;
	const struct gguf_value *v = gguf_find(w->g, gguf_full_key(w, suffix, key));
	if (!v || v->kind != GGUF_ARRAY)
		return gguf_writer_uint(w, suffix);
	if (!gguf_uint(v, layer, &value) || value > UINT32_MAX)
		gguf_writer_refuse(w, EINVAL, "%s has no whole number for layer %" PRIu64, key,
				   layer);
	return w->failed ? 0 : value;
}

bool gguf_writer_flag_of(struct gguf_writer *w, const char *suffix, uint64_t layer, bool fallback)
{
	char key[GGUF_KEY_BYTES];
	uint64_t value = 0;
	const struct gguf_value *v = gguf_find(w->g, gguf_full_key(w, suffix, key));
	if (!v)
		return fallback;
	uint64_t at = v->kind == GGUF_ARRAY ? layer : 0;
	bool flag = v->element == GGUF_BOOL;
	if (flag && at < v->count)
		return v->bytes[at];
	if (flag || !gguf_uint(v, at, &value))
		gguf_writer_refuse(w, EINVAL, "%s does not say true or false for layer %" PRIu64,
				   key, layer);
	return value;
}

const struct package_tensor *gguf_writer_tensor(const struct gguf_writer *w, uint64_t layer,
						const char *rest)
{
	char name[GGUF_KEY_BYTES];
	(void)snprintf(name, sizeof name, "blk.%" PRIu64 ".%s", layer, rest);
	return package_find(w->package, name);
}

uint64_t gguf_writer_layers(struct gguf_writer *w)
{
	uint64_t blocks = gguf_writer_uint(w, "block_count"),
		 drafts = gguf_writer_uint_or(w, "nextn_predict_layers", 0);
	if (drafts > blocks)
		gguf_writer_refuse(w, EINVAL, "of %" PRIu64 " layers, %" PRIu64 " are for drafts",
				   blocks, drafts);
	else if (blocks - drafts > CONFIG_MAX_LAYERS)
		gguf_writer_refuse(w, EINVAL, "%" PRIu64 " layers are more than the %d supported",
				   blocks - drafts, CONFIG_MAX_LAYERS);
	return w->failed ? 0 : blocks - drafts;
}

bool gguf_writer_any_tensor(struct gguf_writer *w, const char *rest)
{
	uint64_t layers = gguf_writer_layers(w);
	for (uint64_t i = 0; i < layers; i++)
		if (gguf_writer_tensor(w, i, rest))
			return true;
	return false;
}

uint64_t gguf_writer_inner_dim(struct gguf_writer *w)
{
	uint64_t inner = gguf_writer_uint(w, "ssm.inner_size"),
		 heads = gguf_writer_uint(w, "ssm.time_step_rank");
	if (!heads || inner % heads)
		gguf_writer_refuse(w, EINVAL,
				   "%s.ssm.inner_size (%" PRIu64 ") is not a multiple of "
				   "ssm.time_step_rank (%" PRIu64 ")",
				   w->architecture, inner, heads);
	return w->failed ? 0 : inner / heads;
}

double gguf_writer_real(struct gguf_writer *w, const char *suffix)
{
	char key[GGUF_KEY_BYTES];
	double value = 0;
	if (!w->failed)
		w->failed =
			gguf_get_double(w->g, gguf_full_key(w, suffix, key), w->name, &value, w->e);
	return value;
}

uint32_t gguf_read_factors(struct gguf_writer *w, const struct package_tensor *t,
			   float factor[ROPE_FACTORS_MOST])
{
	if (w->failed)
		return 0;
	if (t->dims != 1 || t->shape[0] > ROPE_FACTORS_MOST ||
	    package_read_format(t) != FORMAT_F32) {
		gguf_writer_refuse(
			w, EINVAL,
			"%s is not a list of at most %d numbers in F32, which rotations are "
			"slowed by",
			t->name, ROPE_FACTORS_MOST);
		return 0;
	}
	w->failed = package_read(w->package, t, 0, 1, (uint32_t)t->shape[0], factor, w->e);
	for (uint64_t i = 0; i < t->shape[0] && !w->failed; i++)
		if (!isfinite(factor[i])) /* JSON cannot represent it */
			gguf_writer_refuse(w, EINVAL, "%s holds a NaN or an infinity", t->name);
	return w->failed ? 0 : (uint32_t)t->shape[0];
}

/* ---- members out ---- */

void gguf_put_uint(const struct gguf_writer *w, const char *name, uint64_t value)
{
	(void)fprintf(w->out, ",\n  \"%s\": %" PRIu64, name, value);
}

void gguf_put_bool(const struct gguf_writer *w, const char *name, bool value)
{
	(void)fprintf(w->out, ",\n  \"%s\": %s", name, value ? "true" : "false");
}

void gguf_put_real(const struct gguf_writer *w, const char *name, double value)
{
	(void)fprintf(w->out, ",\n  \"%s\": %.17g", name, value);
}

void gguf_put_kinds(struct gguf_writer *w, const char *name,
		    const char *(*kind)(struct gguf_writer *w, uint64_t layer))
{
	uint64_t layers = gguf_writer_layers(w);
	(void)fprintf(w->out, ",\n  \"%s\": [", name);
	for (uint64_t i = 0; i < layers; i++)
		(void)fprintf(w->out, "%s\"%s\"", i ? ", " : "", kind(w, i));
	(void)fprintf(w->out, "]");
}

void gguf_put_limit(struct gguf_writer *w)
{
	static const char *const suffixes[] = {"swiglu_clamp_exp", "swiglu_clamp_shexp"};
	char key[GGUF_KEY_BYTES];
	double limit = 0, one = 0;
	for (int i = 0; i < 2; i++) {
		const struct gguf_value *v = gguf_find(w->g, gguf_full_key(w, suffixes[i], key));
		for (uint64_t k = 0; v && k < v->count; k++) {
			if (!gguf_double(v, k, &one) || !(one > 0) || (limit > 0 && one != limit)) {
				gguf_writer_refuse(w, ENOTSUP,
						   "%s is not one limit for all layers, which is "
						   "all that is supported",
						   key);
				return;
			}
			limit = one;
		}
	}
	if (limit > 0)
		gguf_put_real(w, "swiglu_limit", limit);
	else
		gguf_writer_refuse(w, ENOTSUP, "it has no limit of gated units (swiglu_clamp_exp), "
					       "and only models with one are supported");
}

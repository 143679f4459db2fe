/* What of a GGUF file's config is about rotary positions (gguf_writer.h). */
#include "engine/family/gguf_writer.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* ---- keys ---- */

/* The type is one of those that transformers names alike; a factor alone means a linear one. */
static int rope_type(const struct gguf_writer *w, const char **type)
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
static int put_mscale(const struct gguf_writer *w)
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

/* ---- factors ---- */

/* What each pair's frequency is divided by: the converter's way to say what Llama 3.1's config.json
 * says in four numbers, as F32. */
static int put_factors(const struct gguf_writer *w)
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

static bool computes_factors(const struct gguf_writer *w)
{
	return w->family->ropes & 1U << ROPE_FACTORS;
}

static int two_scalings(const struct gguf_writer *w, const char *type)
{
	return err_set(w->e, ENOTSUP,
		       "%s: has %s and a rope.scaling.type of %s, of which only one is supported",
		       w->name, GGUF_ROPE_FACTORS, type);
}

/* ---- the whole ---- */

int gguf_put_rope(const struct gguf_writer *w)
{
	const char *type;
	int failed = rope_type(w, &type);
	bool none = !failed && !strcmp(type, "none");
	if (!failed && computes_factors(w) && package_find(w->package, GGUF_ROPE_FACTORS))
		return none ? put_factors(w) : two_scalings(w, type);
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
		failed = put_mscale(w);
	if (w->family->gguf->rope_also)
		(void)fprintf(w->out, ", %s", w->family->gguf->rope_also);
	(void)fprintf(w->out, "}");
	return failed;
}

#include "engine/family/rope.h"
#include "engine/family/reader.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const char *const names[ROPE_SCALINGS] = {
	[ROPE_DEFAULT] = "default",
	[ROPE_LINEAR] = "linear",
	[ROPE_LLAMA3] = "llama3",
	[ROPE_YARN] = "yarn",
	[ROPE_PROPORTIONAL] = "proportional",
	[ROPE_FACTORS] = "factors",
};

/* The type has had two names. */
static int rope_read_scaling(const struct reader *r, const struct json *rope, enum rope_scaling *to)
{
	static const char *const keys[] = {"rope_type", "type"};
	*to = ROPE_DEFAULT;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const char *type;
		int found = ROPE_DEFAULT;
		int failed = json_get_string_or(rope, keys[i], r->name, names[*to], &type, r->e);
		if (failed)
			return failed;
		while (found < ROPE_SCALINGS && strcmp(type, names[found]) != 0)
			found++;
		if (found == ROPE_SCALINGS ||
		    (found != ROPE_DEFAULT && !(r->config->family->ropes & 1U << found)))
			return reader_unsupported(r, keys[i], type, "default");
		*to = (enum rope_scaling)found;
	}
	return 0;
}

static int rope_get_or(const struct reader *r, const struct json *from, const char *key,
		       double least, double most, double fallback, double *to)
{
	return json_get_double_or(from, key, r->name, least, most, fallback, to, r->e);
}

/* Only whole pairs are rotated, and only the first ones. */
static int rope_read_dim(const struct reader *r, const struct json *from, uint32_t head_dim,
			 struct rope *to)
{
	double factor;
	int failed = rope_get_or(r, from, "partial_rotary_factor", 0, 1, 1, &factor);
	if (failed || factor == 1)
		return failed;
	if (to->scaling == ROPE_PROPORTIONAL) {
		to->turning = (uint32_t)(head_dim * factor / 2);
		return 0;
	}
	if (!r->config->family->partial_rotary)
		return reader_unsupported(r, "partial_rotary_factor", "less than 1", "1");
	to->dim = (uint32_t)(head_dim * factor);
	if (to->dim % 2 || !to->dim)
		return err_set(r->e, EINVAL,
			       "%s: a partial_rotary_factor of %g leaves %u elements of a head, "
			       "which cannot be rotated in pairs",
			       r->name, factor, to->dim);
	return 0;
}

/* ---- what the scalings want ---- */

static int rope_read_factor(const struct reader *r, const struct json *rope, struct rope *to)
{
	return json_get_double(rope, "factor", r->name, 1, 1e6, &to->factor, r->e);
}

static int rope_read_original(const struct reader *r, const struct json *rope, struct rope *to)
{
	return rope_get_or(r, rope, "original_max_position_embeddings", 1, CONFIG_MAX_POSITIONS,
			   r->config->max_positions, &to->original);
}

static int rope_read_llama3(const struct reader *r, const struct json *rope, struct rope *to)
{
	int failed = rope_read_factor(r, rope, to);
	if (!failed)
		failed = rope_read_original(r, rope, to);
	if (!failed)
		failed = json_get_double(rope, "low_freq_factor", r->name, 1e-3, 1e6, &to->low,
					 r->e);
	if (!failed)
		failed = json_get_double(rope, "high_freq_factor", r->name, 1e-3, 1e6, &to->high,
					 r->e);
	if (!failed && !(to->high > to->low))
		return err_set(
			r->e, EINVAL,
			"%s: \"high_freq_factor\" (%g) is not above \"low_freq_factor\" (%g)",
			r->name, to->high, to->low);
	return failed;
}

/* What is rotated grows with the logarithm of the factor, so that attention stays as sharp. */
static double rope_mscale(double factor, double by)
{
	return factor <= 1 ? 1 : 0.1 * by * log(factor) + 1;
}

static int rope_read_amplitude(const struct reader *r, const struct json *rope, struct rope *to)
{
	double whole, all, amplitude;
	int failed = rope_get_or(r, rope, "mscale", 0, 1e3, 0, &whole);
	if (!failed)
		failed = rope_get_or(r, rope, "mscale_all_dim", 0, 1e3, 0, &all);
	if (failed)
		return failed;
	amplitude = whole > 0 && all > 0
			    ? rope_mscale(to->factor, whole) / rope_mscale(to->factor, all)
			    : rope_mscale(to->factor, 1);
	failed = rope_get_or(r, rope, "attention_factor", 1e-3, 1e3, amplitude, &amplitude);
	to->amplitude = (float)amplitude;
	to->score_scale =
		all > 0 ? (float)(rope_mscale(to->factor, all) * rope_mscale(to->factor, all)) : 1;
	return failed;
}

static int rope_read_yarn(const struct reader *r, const struct json *rope, struct rope *to)
{
	int failed = rope_read_factor(r, rope, to);
	if (!failed)
		failed = rope_read_original(r, rope, to);
	if (!failed)
		failed = rope_get_or(r, rope, "beta_slow", 1e-3, 1e6, 1, &to->low);
	if (!failed)
		failed = rope_get_or(r, rope, "beta_fast", 1e-3, 1e6, 32, &to->high);
	if (!failed)
		failed = json_get_bool_or(rope, "truncate", r->name, true, &to->truncate, r->e);
	return failed ? failed : rope_read_amplitude(r, rope, to);
}

static int rope_read_proportional(const struct reader *r, const struct json *rope, struct rope *to)
{
	return rope_get_or(r, rope, "factor", 1, 1e6, 1, &to->factor);
}

static int rope_read_factors(const struct reader *r, const struct json *rope, struct rope *to)
{
	const struct json *list;
	uint32_t n = 0;
	int failed = json_get_list(rope, "factors", r->name, &list, r->e);
	if (!failed && (json_count(list) != to->dim / 2 || to->dim / 2 > ROPE_FACTORS_MOST))
		return err_set(r->e, EINVAL,
			       "%s: %zu factors of rotations, but a head has %u pairs (at most %d)",
			       r->name, json_count(list), to->dim / 2, ROPE_FACTORS_MOST);
	for (const struct json *v = NULL; !failed && (v = json_next(list, v));) {
		double factor;
		failed = json_as_double(v, "factors", r->name, 1e-3, 1e6, &factor, r->e);
		if (!failed)
			to->factors[n++] = (float)factor;
	}
	return failed;
}

static int (*const parameters[ROPE_SCALINGS])(const struct reader *, const struct json *,
					      struct rope *) = {
	[ROPE_LINEAR] = rope_read_factor,   [ROPE_LLAMA3] = rope_read_llama3,
	[ROPE_YARN] = rope_read_yarn,	    [ROPE_PROPORTIONAL] = rope_read_proportional,
	[ROPE_FACTORS] = rope_read_factors,
};

int rope_read(const struct reader *r, const struct json *base, const struct json *scaling,
	      uint32_t head_dim, struct rope *to)
{
	*to = (struct rope){.dim = head_dim,
			    .turning = head_dim / 2,
			    .factor = 1,
			    .amplitude = 1,
			    .score_scale = 1};
	int failed = json_get_double(base, "rope_theta", r->name, 1, 1e15, &to->theta, r->e);
	if (!failed && scaling)
		failed = rope_read_scaling(r, scaling, &to->scaling);
	if (!failed)
		failed = rope_read_dim(r, r->json, head_dim, to);
	if (!failed && base != r->json)
		failed = rope_read_dim(r, base, head_dim, to);
	if (!failed && parameters[to->scaling])
		failed = parameters[to->scaling](r, scaling, to);
	return failed;
}

int rope_read_config(const struct reader *r, uint32_t head_dim, struct rope *to)
{
	const struct json *newer, *scaling;
	enum rope_scaling older = ROPE_DEFAULT;
	int failed = json_get_object_or_null(r->json, "rope_parameters", r->name, &newer, r->e);
	if (!failed)
		failed = json_get_object_or_null(r->json, "rope_scaling", r->name, &scaling, r->e);
	if (!failed)
		failed = rope_read(r, newer ? newer : r->json, newer ? newer : scaling, head_dim,
				   to);
	if (!failed && newer && scaling)
		failed = rope_read_scaling(r, scaling, &older);
	if (!failed && newer && scaling && older != to->scaling)
		failed = reader_unsupported(r, "rope_scaling", names[older], names[to->scaling]);
	return failed;
}

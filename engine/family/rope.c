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
	[ROPE_LONG] = "longrope",
};

/* The key of the type has had two names. */
static enum rope_scaling rope_read_scaling(struct reader *r)
{
	static const char *const keys[] = {"rope_type", "type"};
	int found = ROPE_DEFAULT;
	for (size_t i = 0; i < sizeof keys / sizeof *keys && !r->failed; i++) {
		const char *type = reader_string_or(r, keys[i], names[found]);
		if (!strcmp(type, "su")) /* its old name */
			type = names[ROPE_LONG];
		for (found = 0; found < ROPE_SCALINGS && strcmp(type, names[found]) != 0;)
			found++;
		if (found == ROPE_SCALINGS ||
		    (found != ROPE_DEFAULT && !(r->config->family->ropes & 1U << found)))
			reader_unsupported(r, keys[i], type, "default");
	}
	return r->failed ? ROPE_DEFAULT : (enum rope_scaling)found;
}

/* Only whole pairs are rotated, and only the first ones. */
static void rope_read_dim(struct reader *r, uint32_t head_dim, struct rope *to)
{
	double factor;
	reader_double_or(r, "partial_rotary_factor", 0, 1, 1, &factor);
	if (factor == 1)
		return;
	if (to->scaling == ROPE_PROPORTIONAL) {
		to->turning = (uint32_t)(head_dim * factor / 2);
		return;
	}
	if (!r->config->family->partial_rotary)
		reader_unsupported(r, "partial_rotary_factor", "less than 1", "1");
	to->dim = (uint32_t)(head_dim * factor);
	if (to->dim % 2 || !to->dim)
		reader_refuse(r, EINVAL,
			      "a partial_rotary_factor of %g leaves %u elements of a head, which "
			      "cannot be rotated in pairs",
			      factor, to->dim);
}

/* ---- the parameters of each scaling ---- */

static void rope_read_factor(struct reader *r, struct rope *to)
{
	reader_double(r, "factor", 1, 1e6, &to->factor);
}

static void rope_read_original(struct reader *r, struct rope *to)
{
	reader_double_or(r, "original_max_position_embeddings", 1, CONFIG_MAX_POSITIONS,
			 r->config->max_positions, &to->original);
}

static void rope_read_llama3(struct reader *r, struct rope *to)
{
	rope_read_factor(r, to);
	rope_read_original(r, to);
	reader_double(r, "low_freq_factor", 1e-3, 1e6, &to->low);
	reader_double(r, "high_freq_factor", 1e-3, 1e6, &to->high);
	if (!(to->high > to->low))
		reader_refuse(r, EINVAL,
			      "\"high_freq_factor\" (%g) is not above \"low_freq_factor\" (%g)",
			      to->high, to->low);
}

/* Rotated elements are scaled by the logarithm of the factor, so that attention stays sharp. */
static double rope_mscale(double factor, double by)
{
	return factor <= 1 ? 1 : 0.1 * by * log(factor) + 1;
}

static void rope_read_yarn(struct reader *r, struct rope *to)
{
	double whole, all, amplitude;
	rope_read_factor(r, to);
	rope_read_original(r, to);
	reader_double_or(r, "beta_slow", 1e-3, 1e6, 1, &to->low);
	reader_double_or(r, "beta_fast", 1e-3, 1e6, 32, &to->high);
	to->truncate = true;
	reader_bool(r, "truncate", &to->truncate);
	reader_double_or(r, "mscale", 0, 1e3, 0, &whole);
	reader_double_or(r, "mscale_all_dim", 0, 1e3, 0, &all);
	amplitude = whole > 0 && all > 0
			    ? rope_mscale(to->factor, whole) / rope_mscale(to->factor, all)
			    : rope_mscale(to->factor, 1);
	reader_double_or(r, "attention_factor", 1e-3, 1e3, amplitude, &amplitude);
	to->amplitude = (float)amplitude;
	to->score_scale =
		all > 0 ? (float)(rope_mscale(to->factor, all) * rope_mscale(to->factor, all)) : 1;
}

static void rope_read_proportional(struct reader *r, struct rope *to)
{
	reader_double_or(r, "factor", 1, 1e6, 1, &to->factor);
}

void rope_read_factors(struct reader *r, const char *key, struct rope *to)
{
	const struct json *list = NULL, *v = NULL;
	if (!r->failed)
		r->failed = json_get_list(r->json, key, r->name, &list, r->e);
	if (json_count(list) != to->dim / 2 || to->dim / 2 > ROPE_FACTORS_MOST)
		reader_refuse(r, EINVAL,
			      "\"%s\" has %zu factors of rotations, but a head has %u pairs (at "
			      "most %d)",
			      key, json_count(list), to->dim / 2, ROPE_FACTORS_MOST);
	for (uint32_t n = 0; !r->failed && (v = json_next(list, v)); n++) {
		double factor = 1;
		r->failed = json_as_double(v, key, r->name, 1e-3, 1e6, &factor, r->e);
		to->factors[n] = (float)factor;
	}
}

static void rope_read_published(struct reader *r, struct rope *to)
{
	rope_read_factors(r, "factors", to);
}

/* One set of factors for short texts, another for texts longer than the original training. Rotated
 * elements are scaled in both cases (Ding et al. 2024). */
static void rope_read_long(struct reader *r, struct rope *to)
{
	struct config *c = r->config;
	double amplitude = 1, factor;
	uint32_t original = c->rope_limit;
	reader_u32_or(r, "original_max_position_embeddings", 2, CONFIG_MAX_POSITIONS, original,
		      &original);
	if (original < 2)
		reader_refuse(r, EINVAL, "\"original_max_position_embeddings\" is missing");
	c->rope_limit = original;
	reader_double_or(r, "factor", 1e-6, 1e6, (double)c->max_positions / original, &factor);
	if (factor > 1)
		amplitude = sqrt(1 + log(factor) / log(original));
	reader_double_or(r, "attention_factor", 1e-3, 1e3, amplitude, &amplitude);
	to->scaling = ROPE_FACTORS;
	to->amplitude = (float)amplitude;
	c->rope[CONFIG_LONG_ROPE] = *to;
	rope_read_factors(r, "short_factor", to);
	rope_read_factors(r, "long_factor", &c->rope[CONFIG_LONG_ROPE]);
}

static void (*const parameters[ROPE_SCALINGS])(struct reader *, struct rope *) = {
	[ROPE_LINEAR] = rope_read_factor,   [ROPE_LLAMA3] = rope_read_llama3,
	[ROPE_YARN] = rope_read_yarn,	    [ROPE_PROPORTIONAL] = rope_read_proportional,
	[ROPE_FACTORS] = rope_read_published, [ROPE_LONG] = rope_read_long,
};

/* Reads everything but the base. */
static void rope_read_rest(struct reader *r, const struct json *base, const struct json *scaling,
			   uint32_t head_dim, struct rope *to)
{
	const struct json *whole = r->json;
	r->json = scaling;
	to->scaling = scaling ? rope_read_scaling(r) : ROPE_DEFAULT;
	r->json = whole;
	rope_read_dim(r, head_dim, to);
	r->json = base;
	if (base != whole)
		rope_read_dim(r, head_dim, to);
	r->json = scaling;
	if (!r->failed && parameters[to->scaling])
		parameters[to->scaling](r, to);
	r->json = whole;
}

static struct rope rope_of(uint32_t head_dim)
{
	return (struct rope){.dim = head_dim,
			     .turning = head_dim / 2,
			     .factor = 1,
			     .amplitude = 1,
			     .score_scale = 1};
}

enum { ROPE_THETA_LEAST = 1 };
static const double theta_most = 1e15;

void rope_read(struct reader *r, const struct json *base, const struct json *scaling,
	       uint32_t head_dim, struct rope *to)
{
	const struct json *whole = r->json;
	*to = rope_of(head_dim);
	r->json = base;
	reader_double(r, "rope_theta", ROPE_THETA_LEAST, theta_most, &to->theta);
	r->json = whole;
	rope_read_rest(r, base, scaling, head_dim, to);
}

void rope_read_typed(struct reader *r, const struct json *ropes, const char *type,
		     uint32_t head_dim, struct rope *to)
{
	const struct json *of = NULL;
	if (!r->failed)
		r->failed = json_get_object(ropes, type, r->name, &of, r->e);
	if (!r->failed)
		rope_read(r, of, of, head_dim, to);
}

void rope_read_based(struct reader *r, const char *key, double fallback,
		     const struct json *scaling, uint32_t head_dim, struct rope *to)
{
	*to = rope_of(head_dim);
	reader_double_or(r, key, ROPE_THETA_LEAST, theta_most, fallback, &to->theta);
	rope_read_rest(r, r->json, scaling, head_dim, to);
}

void rope_read_config(struct reader *r, uint32_t head_dim, struct rope *to)
{
	const struct json *whole = r->json, *newer = reader_object_or_null(r, "rope_parameters"),
			  *scaling = reader_object_or_null(r, "rope_scaling");
	rope_read(r, newer ? newer : whole, newer ? newer : scaling, head_dim, to);
	if (newer && scaling) {
		r->json = scaling;
		enum rope_scaling older = rope_read_scaling(r);
		r->json = whole;
		if (older != to->scaling)
			reader_unsupported(r, "rope_scaling", names[older], names[to->scaling]);
	}
}

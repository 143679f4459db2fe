/* The scalar table's attention: one token's look back over spans of 256 positions, and how spans
 * are joined.
 *
 * Online softmax: the running maximum m, sum of exponentials and weighted sum of values are
 * rescaled by exp(m_old - m_new) at each block of a span, and at each span that is joined, so no
 * list of all scores is needed. Blocks are those of the key-value memory, by absolute position,
 * whatever chunk of the prompt the token came in.
 */
#include "kernels/attention.h"
#include "kernels/kv_codes.h"
#include "kernels/scalar.h"

#include <math.h>

static void scalar_put_element(void *block, enum kv_type type, size_t at, float f)
{
	if (type == KV_F16)
		((uint16_t *)block)[at] = f16_from_f32(f);
	else
		((float *)block)[at] = f;
}

static float scalar_element(const void *block, enum kv_type type, size_t at)
{
	return type == KV_F16 ? f16_to_f32(((const uint16_t *)block)[at])
			      : ((const float *)block)[at];
}

void scalar_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		   uint32_t slot, const float *key, const float *value, uint32_t head_dim,
		   uint32_t latent_dim)
{
	if (kv_type_codes(type)) {
		kv_codes_put(block, type, key_offset, value_offset, slot, key, value, head_dim,
			     latent_dim);
		return;
	}
	for (size_t d = 0; d < head_dim; d++) {
		scalar_put_element(block, type, key_offset + d * KV_BLOCK + slot, key[d]);
		if (value)
			scalar_put_element(block, type, value_offset + (size_t)slot * head_dim + d,
					   value[d]);
	}
}

enum { SPAN_BLOCKS = ATTENTION_SPAN / KV_BLOCK };

/* What one query finds in a span. */
struct scalar_span {
	const void *const *blocks;
	float p[ATTENTION_SPAN];
	uint32_t from[SPAN_BLOCKS], to[SPAN_BLOCKS]; /* the slots of each block that it sees */
	float rescale[SPAN_BLOCKS];		     /* what lies before each block shrinks by */
	float max, sum;
	float value[KV_CODES_WIDEST]; /* of codes: the value sums */
};

/* ---- codes ---- */

/* The slots of a span that are seen: positions from … to - 1 of it. */
struct scalar_slots {
	size_t from, to;
};

/* One code of 8 bits, or what one of 4 means with its factor. */
static int32_t scalar_key_code(const uint8_t *keys, const struct kv_codes *c, size_t d, size_t slot)
{
	const size_t place = slot * KV_CODES_QUAD + d % KV_CODES_QUAD, row = d / KV_CODES_QUAD;

	if (!c->four)
		return keys[row * KV_CODES_ROW + place] - KV_CODES_OFFSET;
	const uint8_t both = keys[row / 2 * KV_CODES_ROW + place];
	const int32_t code = row % 2 ? both >> 4 : both & 15;
	return (2 * code - KV_CODES_FOUR_TOP) *
	       keys[kv_codes_factors(c) + d / kv_codes_fine(c) * KV_BLOCK + slot];
}

static int32_t scalar_value_code(const uint8_t *values, const struct kv_codes *c, size_t d,
				 size_t slot)
{
	const size_t columns = KV_CODES_PAD >> c->four;
	const uint8_t *row = values + d / KV_CODES_PAD * columns * KV_BLOCK +
			     slot / KV_CODES_QUAD * columns * KV_CODES_QUAD + slot % KV_CODES_QUAD;

	if (!c->four)
		return (int8_t)row[d % columns * KV_CODES_QUAD];
	const uint8_t both = row[d % columns * KV_CODES_QUAD];
	const int32_t code = d % KV_CODES_PAD < columns ? both & 15 : both >> 4;
	return (2 * code - KV_CODES_FOUR_TOP) *
	       values[kv_codes_factors(c) + d / kv_codes_fine(c) * KV_BLOCK + slot];
}

static float scalar_code_scale(const uint8_t *codes, const struct kv_codes *c, size_t part,
			       size_t slot)
{
	uint16_t half;

	memcpy(&half, codes + kv_codes_scales(c) + (part * KV_BLOCK + slot) * sizeof half,
	       sizeof half);
	return f16_to_f32(half);
}

static void scalar_codes_score(struct scalar_span *s, const float *q, const struct attention *a,
			       struct scalar_slots seen)
{
	const struct kv_codes c = kv_codes_of_keys(a->type, a->head_dim, a->latent_dim);
	int8_t code[KV_CODES_WIDEST];
	float scale[KV_CODES_PARTS];
	int32_t sums[KV_CODES_PARTS];

	kv_codes_ask(code, scale, sums, &c, q, a->scale);
	for (size_t j = seen.from; j < seen.to; j++) {
		const uint8_t *keys = (const uint8_t *)s->blocks[j / KV_BLOCK] + a->key_offset;
		s->p[j] = 0;
		for (size_t g = 0; g < c.parts; g++) {
			const struct kv_codes_part *p = &c.part[g];
			int32_t sum = 0;
			for (size_t d = p->column; d < p->column + p->columns; d++)
				sum += code[d] * scalar_key_code(keys, &c, d, j % KV_BLOCK);
			s->p[j] = fmaf((float)sum * scale[g],
				       scalar_code_scale(keys, &c, g, j % KV_BLOCK), s->p[j]);
		}
	}
}

/* Scores become exponentials, zeros where nothing is seen. */
static void scalar_codes_softmax(struct scalar_span *s, struct scalar_slots seen)
{
	float lane[SCALAR_DOT_LANES] = {0}, max = s->max;

	for (size_t j = seen.from; j < seen.to; j++)
		max = s->p[j] > max ? s->p[j] : max;
	for (size_t j = 0; j < ATTENTION_SPAN; j++) {
		const bool sees = j >= seen.from && j < seen.to;
		s->p[j] = sees ? scalar_exp(s->p[j] - max) : 0;
		lane[j % SCALAR_DOT_LANES] += s->p[j];
	}
	s->sum = fmaf(s->sum, scalar_exp(s->max - max), scalar_sum_lanes(lane));
	s->max = max;
}

static void scalar_codes_sum(struct scalar_span *s, const struct attention *a,
			     struct scalar_slots seen)
{
	const struct kv_codes keys = kv_codes_of_keys(a->type, a->head_dim, a->latent_dim);
	const struct kv_codes c = a->latent_dim ? kv_codes_of_latents(a->type, a->latent_dim)
						: kv_codes_of_values(a->type, a->head_dim);
	const size_t offset = a->latent_dim ? a->key_offset : a->value_offset;

	for (size_t g = 0; g < c.parts; g++) {
		const struct kv_codes_part *p = &c.part[g];
		uint8_t high[ATTENTION_SPAN], low[ATTENTION_SPAN];
		float scales[ATTENTION_SPAN] = {0};
		for (size_t j = seen.from; j < seen.to; j++)
			scales[j] =
				scalar_code_scale((const uint8_t *)s->blocks[j / KV_BLOCK] + offset,
						  a->latent_dim ? &keys : &c, g, j % KV_BLOCK);
		const float unit = kv_codes_weigh(high, low, s->p, scales);
		for (size_t i = 0; i < p->elements; i++) {
			const size_t d = p->column + i;
			int32_t sum = 0;
			for (size_t j = seen.from; j < seen.to; j++) {
				const uint8_t *b =
					(const uint8_t *)s->blocks[j / KV_BLOCK] + offset;
				const int32_t code =
					a->latent_dim ? scalar_key_code(b, &keys, d, j % KV_BLOCK)
						      : scalar_value_code(b, &c, d, j % KV_BLOCK);
				sum += ((high[j] << KV_DIGIT) + low[j]) * code;
			}
			s->value[p->from + i] = (float)sum * unit;
		}
	}
}

/* A span of which something is seen. */
static void scalar_codes_look(struct scalar_span *s, const float *q, const struct attention *a,
			      size_t first, size_t length, size_t span)
{
	const size_t start = span * ATTENTION_SPAN, left = length - start;
	const struct scalar_slots seen = {first > start ? first - start : 0,
					  left < ATTENTION_SPAN ? left : ATTENTION_SPAN};

	scalar_codes_score(s, q, a, seen);
	scalar_codes_softmax(s, seen);
	scalar_codes_sum(s, a, seen);
}

/* A head's output, once it is divided. */
static void scalar_codes_finish(float *out, const struct attention *a)
{
	if (!kv_type_codes(a->type) || !a->latent_dim)
		return;
	const struct kv_codes c = kv_codes_of_latents(a->type, a->latent_dim);
	kv_codes_restore(out, &c);
}

/* ---- spans ---- */

/* Takes what is seen of block b, at least one slot, into the maximum and the sum. */
static void scalar_span_block(struct scalar_span *s, const float *q, const struct attention *a,
			      uint32_t b)
{
	const uint32_t from = s->from[b], to = s->to[b];
	float *p = s->p + (size_t)b * KV_BLOCK, lane[SCALAR_DOT_LANES] = {0}, max = s->max;

	for (uint32_t j = from; j < to; j++) {
		p[j] = 0;
		for (size_t d = 0; d < a->head_dim; d++)
			p[j] = fmaf(q[d],
				    scalar_element(s->blocks[b], a->type,
						   a->key_offset + d * KV_BLOCK + j),
				    p[j]);
		p[j] *= a->scale;
		max = p[j] > max ? p[j] : max;
	}
	for (uint32_t j = from; j < to; j++) {
		p[j] = scalar_exp(p[j] - max);
		lane[j % SCALAR_DOT_LANES] += p[j];
	}
	s->rescale[b] = scalar_exp(s->max - max); /* 0 at the first block without a sink */
	s->max = max;
	s->sum = fmaf(s->sum, s->rescale[b], scalar_sum_lanes(lane));
}

/* A span of which head h of a token of that length sees something. */
static void scalar_span_look(struct scalar_span *s, const float *q, const struct attention *a,
			     uint32_t h, size_t length, size_t span)
{
	const size_t first = attention_from(a, length);
	const bool begins = span == attention_first_span(a, length);

	s->blocks = a->blocks + span * SPAN_BLOCKS;
	s->max = begins ? attention_first_max(a, h) : -INFINITY;
	s->sum = begins ? attention_first_sum(a) : 0;
	if (kv_type_codes(a->type)) {
		scalar_codes_look(s, q, a, first, length, span);
		return;
	}
	for (uint32_t b = 0; b < SPAN_BLOCKS; b++) {
		const size_t start = span * ATTENTION_SPAN + (size_t)b * KV_BLOCK;
		const size_t left = length > start ? length - start : 0;
		const size_t before = first > start ? first - start : 0;
		s->to[b] = (uint32_t)(left < KV_BLOCK ? left : KV_BLOCK);
		s->from[b] = (uint32_t)(before < s->to[b] ? before : s->to[b]);
		if (s->from[b] < s->to[b])
			scalar_span_block(s, q, a, b);
	}
}

/* Element d of the span's value sums. */
static float scalar_span_value(const struct scalar_span *s, const struct attention *a, size_t d)
{
	float v = 0;

	if (kv_type_codes(a->type))
		return s->value[d];
	for (uint32_t b = 0; b < SPAN_BLOCKS; b++) {
		if (s->from[b] == s->to[b])
			continue;
		v *= s->rescale[b];
		for (size_t j = s->from[b]; j < s->to[b]; j++) {
			const size_t at = a->latent_dim ? a->key_offset + d * KV_BLOCK + j
							: a->value_offset + j * a->head_dim + d;
			v = fmaf(s->p[(size_t)b * KV_BLOCK + j],
				 scalar_element(s->blocks[b], a->type, at), v);
		}
	}
	return v;
}

void scalar_attend_spans(float *parts, const float *q, size_t stride, const struct attention *a,
			 uint32_t n, uint32_t span0, uint32_t span1)
{
	const uint32_t dim = attention_value_dim(a);

	for (size_t span = span0; span < span1; span++) {
		for (size_t t = 0; t < n; t++) {
			const size_t length = a->length + t;
			for (uint32_t h = 0; h < a->heads; h++, parts += attention_part(dim)) {
				struct scalar_span s;
				if (span < attention_first_span(a, length) ||
				    span >= attention_end_span(length))
					continue;
				scalar_span_look(&s, q + t * stride + (size_t)h * a->head_dim, a, h,
						 length, span);
				for (size_t d = 0; d < dim; d++)
					parts[d] = scalar_span_value(&s, a, d);
				parts[dim] = s.max;
				parts[dim + 1] = s.sum;
			}
		}
	}
}

/* ---- joining ---- */

/* What the value sums of all spans before a span, and those of the span, are multiplied by. */
struct scalar_factors {
	float joined, span;
};

/* Joins the maximum and the sum of a span. */
static struct scalar_factors scalar_join(float *max, float *sum, float span_max, float span_sum)
{
	const float e = scalar_exp(-fabsf(span_max - *max));
	const bool larger = span_max > *max;
	const struct scalar_factors f = {larger ? e : 1, larger ? 1 : e};

	*max = larger ? span_max : *max;
	*sum = fmaf(*sum, f.joined, span_sum * f.span);
	return f;
}

void scalar_attend(float *out, const float *q, const struct attention *a)
{
	const uint32_t dim = attention_value_dim(a);

	for (uint32_t h = 0; h < a->heads; h++, out += dim, q += a->head_dim) {
		size_t span = attention_first_span(a, a->length);
		struct scalar_span s;
		scalar_span_look(&s, q, a, h, a->length, span);
		for (size_t d = 0; d < dim; d++)
			out[d] = scalar_span_value(&s, a, d);
		float max = s.max, sum = s.sum;
		while (++span < attention_end_span(a->length)) {
			scalar_span_look(&s, q, a, h, a->length, span);
			const struct scalar_factors f = scalar_join(&max, &sum, s.max, s.sum);
			for (size_t d = 0; d < dim; d++)
				out[d] = fmaf(out[d], f.joined,
					      scalar_span_value(&s, a, d) * f.span);
		}
		for (size_t d = 0; d < dim; d++)
			out[d] /= sum;
		scalar_codes_finish(out, a);
	}
}

void scalar_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			  uint32_t n)
{
	struct attention look = *a;

	for (size_t t = 0; t < n; t++, look.length++)
		scalar_attend(out + attention_out(a, t * stride), q + t * stride, &look);
}

void scalar_attend_join(float *out, size_t stride, float *joined, const float *parts,
			const struct attention *a, uint32_t n, uint32_t span0, uint32_t span1)
{
	const uint32_t dim = attention_value_dim(a);
	const size_t part = attention_part(dim);

	for (size_t i = 0; i < (size_t)n * a->heads; i++, joined += part) {
		const size_t t = i / a->heads, h = i % a->heads, length = a->length + t;
		const size_t end = attention_end_span(length);
		for (size_t span = span0; span < span1; span++) {
			const float *v = parts + ((span - span0) * n * a->heads + i) * part;
			if (span < attention_first_span(a, length) || span >= end)
				continue;
			if (span == attention_first_span(a, length)) {
				memcpy(joined, v, part * sizeof *v);
				continue;
			}
			const struct scalar_factors f =
				scalar_join(&joined[dim], &joined[dim + 1], v[dim], v[dim + 1]);
			for (size_t d = 0; d < dim; d++)
				joined[d] = fmaf(joined[d], f.joined, v[d] * f.span);
		}
		float *to = out + attention_out(a, t * stride) + h * dim;
		for (size_t d = 0; d < dim && end > span0 && end <= span1; d++)
			to[d] = joined[d] / joined[dim + 1];
		if (end > span0 && end <= span1)
			scalar_codes_finish(to, a);
	}
}

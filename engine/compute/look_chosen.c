/* Attention that looks at chosen positions. Their keys and values are copied, in ascending order,
 * into blocks of their own, at which the kernels look as they look at a context's. So the sums of a
 * row depend on what was chosen alone; where that is everything, they are those of attention that
 * looks at everything, and nothing is copied. See layers.h. */
#include "engine/compute/layers.h"
#include "kernels/watch.h"

#include <math.h>
#include <string.h>

/* Rows whose keys and values are copied at a time. */
enum { CHOSEN_ROWS = 4 };

/* Blocks for all that a row looks at. */
static size_t look_chosen_blocks(const struct config *c)
{
	const struct chooser *x = &c->chooser;
	return ((size_t)(x->most + 1) * x->ratio + KV_BLOCK - 1) / KV_BLOCK;
}

void look_chosen_take(struct chosen_scratch *s, struct arena *arena, const struct config *c,
		      size_t rows)
{
	uint64_t widest = 0;
	for (uint32_t layer = 0; layer < c->layers; layer++)
		if (c->layer[layer].index != INDEX_UNUSED &&
		    c->layer[layer].mixer != MIXER_COMPRESSED && config_kv_width(c, layer) > widest)
			widest = config_kv_width(c, layer);
	s->rows = (uint32_t)(rows < CHOSEN_ROWS ? rows : CHOSEN_ROWS);
	size_t blocks = s->rows * look_chosen_blocks(c);
	s->blocks = arena_take(arena, blocks, sizeof *s->blocks);
	s->memory = arena_take(arena, blocks * widest * KV_BLOCK, sizeof *s->memory);
}

struct chosen_task {
	struct chosen_scratch *scratch;
	const struct look *look;
	uint32_t first, rows; /* of the wave */
	uint32_t groups;      /* of heads that are computed together */
	size_t width;	      /* elements of a position */
};

/* ---- what a row looks at ---- */

struct chosen_list {
	const uint32_t *entries;
	uint32_t listed; /* positions of these */
	uint32_t tail;	 /* the first position after all candidates */
	uint32_t length; /* positions in all */
};

static uint32_t look_chosen_length(const struct look *look, size_t t)
{
	const struct step_span *span = step_span_of(look->step, t);
	return span->position + (uint32_t)(t - span->first) + 1;
}

static struct chosen_list look_chosen_list(const struct look *look, size_t t, uint32_t group)
{
	const struct config *c = look->step->env->config;
	const struct chosen_entries *x = look->step->chosen;
	size_t at = t * x->groups + group;
	uint32_t length = look_chosen_length(look, t),
		 tail = config_index_candidates(c, length) * c->chooser.ratio,
		 listed = x->count[at] * c->chooser.ratio;
	return (struct chosen_list){x->entries + at * x->most, listed, tail,
				    listed + length - tail};
}

/* The i-th position that is looked at. */
static uint32_t look_chosen_position(const struct chosen_list *l, uint32_t ratio, uint32_t i)
{
	return i < l->listed ? l->entries[i / ratio] * ratio + i % ratio : l->tail + i - l->listed;
}

static bool look_chosen_is_all(const struct look *look, size_t t)
{
	for (uint32_t g = 0; g < look->step->chosen->groups; g++)
		if (look_chosen_list(look, t, g).length != look_chosen_length(look, t))
			return false;
	return true;
}

/* ---- copying ---- */

/* A run of positions that follow each other, within one block of both sides. */
struct chosen_copy {
	void *to;
	const void *from;
	enum kv_type type;
	size_t element;
	uint32_t slot, source, n;
};

/* Rows of [rows][64]: keys, or latents. */
static void look_chosen_copy_columns(const struct chosen_copy *x, size_t offset, size_t source,
				     size_t rows)
{
	char *to = (char *)x->to + (offset + x->slot) * x->element;
	const char *from = (const char *)x->from + (source + x->source) * x->element;
	size_t bytes = x->n * x->element, stride = KV_BLOCK * x->element;
	for (size_t d = 0; d < rows; d++, to += stride, from += stride)
		memcpy(to, from, bytes);
}

/* Rows of [64][width]: values. */
static void look_chosen_copy_rows(const struct chosen_copy *x, size_t offset, size_t source,
				  size_t width)
{
	memcpy((char *)x->to + (offset + x->slot * width) * x->element,
	       (const char *)x->from + (source + x->source * width) * x->element,
	       x->n * width * x->element);
}

/* What one key-value head has of a run; of latents there is one head, without values. */
static void look_chosen_copy_head(const struct chosen_task *a, const struct chosen_copy *x,
				  uint32_t kv_head)
{
	const struct look *look = a->look;
	size_t dim = look->head_dim, at = (size_t)kv_head * 2 * dim * KV_BLOCK;
	size_t keys = context_key_offset(x->type, look->layer, kv_head);
	if (look->latent_dim) {
		look_chosen_copy_columns(x, 0, context_key_offset(x->type, look->layer, 0), dim);
		return;
	}
	look_chosen_copy_columns(x, at, keys, dim);
	look_chosen_copy_rows(x, at + dim * KV_BLOCK,
			      context_value_offset(x->type, look->layer, kv_head), dim);
}

static void *look_chosen_block(const struct chosen_task *a, uint32_t row, uint32_t block)
{
	size_t blocks = look_chosen_blocks(a->look->step->env->config);
	return a->scratch->memory + (row * blocks + block) * a->width * KV_BLOCK;
}

/* Items are (row of the wave, block). */
static void look_chosen_gather(void *ctx, uint32_t begin, uint32_t end)
{
	const struct chosen_task *a = ctx;
	const struct look *look = a->look;
	const struct config *c = look->step->env->config;
	uint32_t blocks = (uint32_t)look_chosen_blocks(c), ratio = c->chooser.ratio;
	uint32_t kv_heads = look->latent_dim ? 1 : look->layer->kv_heads;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t row = i / blocks, block = i % blocks;
		const struct context *x = step_span_of(look->step, a->first + row)->context;
		const void *const *from = context_blocks_of(x, look->layer);
		struct chosen_copy copy = {.to = look_chosen_block(a, row, block),
					   .type = x->type,
					   .element = kv_type_element(x->type)};
		a->scratch->blocks[(size_t)row * blocks + block] = copy.to;
		for (uint32_t h = 0; h < kv_heads; h++) {
			uint32_t group = h * look->step->chosen->groups / kv_heads;
			struct chosen_list l = look_chosen_list(look, a->first + row, group);
			uint32_t at = block * KV_BLOCK, last = at + KV_BLOCK;
			last = last < l.length ? last : l.length;
			for (; at < last; at += copy.n) {
				uint32_t p = look_chosen_position(&l, ratio, at);
				copy.n = 1;
				while (at + copy.n < last && (p + copy.n) % KV_BLOCK &&
				       look_chosen_position(&l, ratio, at + copy.n) == p + copy.n)
					copy.n++;
				copy.slot = at % KV_BLOCK;
				copy.source = p % KV_BLOCK;
				copy.from = from[p / KV_BLOCK];
				look_chosen_copy_head(a, &copy, h);
			}
		}
	}
}

/* ---- looking ---- */

/* Items are (row of the wave, group of heads). */
static void look_chosen_attend(void *ctx, uint32_t begin, uint32_t end)
{
	const struct chosen_task *a = ctx;
	const struct look *look = a->look;
	const struct environment *env = look->step->env;
	const struct config *c = env->config;
	size_t blocks = look_chosen_blocks(c),
	       value_dim = look->latent_dim ? look->latent_dim : look->head_dim;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t row = i / a->groups, group = i % a->groups, head = group * look->group;
		size_t t = a->first + row, at = t * c->heads + head;
		uint32_t kv_head = look->latent_dim ? 0 : group;
		uint32_t choice = look->latent_dim ? 0
						   : kv_head * look->step->chosen->groups /
							     look->layer->kv_heads;
		struct attention x = {
			.type = step_span_of(look->step, t)->context->type,
			.head_dim = look->head_dim,
			.latent_dim = look->latent_dim,
			.heads = c->heads - head < look->group ? c->heads - head : look->group,
			.length = look_chosen_list(look, t, choice).length,
			.scale = c->attention_scale,
			.blocks = a->scratch->blocks + row * blocks,
			.key_offset = (size_t)kv_head * 2 * look->head_dim * KV_BLOCK,
			.value_offset = ((size_t)kv_head * 2 + 1) * look->head_dim * KV_BLOCK,
			.sinks = look->sinks ? look->sinks + head : NULL,
		};
		if (!x.length) { /* every score is NaN, and so is the result */
			for (size_t k = 0; k < x.heads * value_dim; k++)
				look->out[at * value_dim + k] = NAN;
			continue;
		}
		watch_attend(env->kernels, look->out + at * value_dim,
			     look->q + at * look->head_dim, (size_t)c->heads * look->head_dim, &x,
			     1);
		if (look->gate)
			env->kernels->sigmoid_mul(look->out + at * value_dim,
						  look->gate + at * value_dim,
						  (size_t)x.heads * value_dim);
	}
}

void look_chosen_run(struct chosen_scratch *s, struct look_scratch *whole, const struct look *look)
{
	const struct environment *env = look->step->env;
	const struct config *c = env->config;
	struct chosen_task a = {.scratch = s, .look = look};
	bool all = true;
	for (size_t t = 0; t < look->step->n && all; t++)
		all = look_chosen_is_all(look, t);
	if (all) {
		look_back_run(whole, look);
		return;
	}
	a.groups = (c->heads + look->group - 1) / look->group;
	a.width = look->latent_dim ? look->head_dim
				   : (size_t)2 * look->layer->kv_heads * look->head_dim;
	for (; a.first < look->step->n; a.first += a.rows) {
		uint32_t left = look->step->n - a.first;
		a.rows = left < s->rows ? left : s->rows;
		threads_run(env->threads, a.rows * (uint32_t)look_chosen_blocks(c), 4,
			    look_chosen_gather, &a);
		threads_run(env->threads, a.rows * a.groups, 1, look_chosen_attend, &a);
	}
}

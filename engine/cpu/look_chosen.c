/* Attention that looks at chosen positions. The kernels look at lists of blocks, as they look at a
 * context's. Where whole blocks are chosen, those are the context's own; otherwise the chosen
 * positions' keys and values are copied, in ascending order, into blocks. So the sums of a row depend
 * on what was chosen alone; where that is everything, they are those of attention that looks at
 * everything, and nothing is copied. See layers.h. */
#include "engine/cpu/layers.h"
#include "kernels/watch.h"

#include <math.h>
#include <string.h>

/* Rows whose keys and values are copied at a time. */
enum { CHOSEN_ROWS = 4 };

/* Blocks for all that a row looks at with a choice. */
static size_t look_chosen_blocks(const struct config *c)
{
	const struct chooser *x = &c->chooser;
	return ((size_t)(x->most + 1) * x->ratio + KV_BLOCK - 1) / KV_BLOCK;
}

/* Whether entries are whole blocks, which need not be copied. */
static bool look_chosen_in_place(const struct config *c)
{
	return c->chooser.ratio % KV_BLOCK == 0;
}

/* Elements that a position takes in copied blocks: of latents the values lie there as rows, too. */
static size_t look_chosen_width(const struct config *c, uint32_t layer)
{
	const struct layer *l = &c->layer[layer];
	return config_kv_width(c, layer) + (l->mixer == MIXER_LATENT ? c->latent.rank : 0);
}

void look_chosen_take(struct chosen_scratch *s, struct arena *arena, const struct config *c,
		      size_t rows)
{
	size_t widest = 0;
	for (uint32_t layer = 0; layer < c->layers && !look_chosen_in_place(c); layer++)
		if (c->layer[layer].index != INDEX_UNUSED &&
		    c->layer[layer].mixer != MIXER_COMPRESSED && look_chosen_width(c, layer) > widest)
			widest = look_chosen_width(c, layer);
	s->rows = (uint32_t)(rows < CHOSEN_ROWS ? rows : CHOSEN_ROWS);
	size_t blocks = s->rows * look_chosen_blocks(c);
	s->blocks = arena_take(arena, blocks * c->chooser.groups, sizeof *s->blocks);
	s->memory = arena_take(arena, blocks * widest * KV_BLOCK, sizeof *s->memory);
}

struct chosen_task {
	struct chosen_scratch *scratch;
	const struct look *look;
	uint32_t first, rows; /* of the wave */
	uint32_t groups;      /* of heads that are computed together */
	size_t width;	      /* elements of a position in copied blocks */
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
	const struct chosen_entries *x = &look->step->stream->chosen;
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
	for (uint32_t g = 0; g < look->step->stream->chosen.groups; g++)
		if (look_chosen_list(look, t, g).length != look_chosen_length(look, t))
			return false;
	return true;
}

/* ---- blocks ---- */

/* Positions of one block of the context that are listed one after the other. */
struct chosen_copy {
	void *to;
	const void *from;
	enum kv_type type;
	uint32_t slot, n; /* in `to` */
	uint8_t source[KV_BLOCK];
};

/* Rows of [rows][64]: keys, or latents; to and from: the first of these. The first `latent` numbers of
 * a position also go to a row of [64][latent], behind all keys. Lines of later rows are asked for:
 * those that have something of the positions are too far apart for the hardware to foresee. */
/* NOLINTBEGIN(bugprone-macro-parentheses): `element` is a type */
#define LOOK_CHOSEN_COLUMNS(element, to, from)                                                    \
	for (size_t d = 0; d < rows; d++) {                                                       \
		const element *row = (const element *)(from) + d * KV_BLOCK;                      \
		const element *later = row + (d + AHEAD < rows ? AHEAD * KV_BLOCK : 0);           \
		element *keys = (element *)(to) + d * KV_BLOCK + x->slot;                         \
		element *turned = (element *)(to) + rows * KV_BLOCK + x->slot * latent + d;       \
		__builtin_prefetch(later + x->source[0]);                                         \
		__builtin_prefetch(later + x->source[x->n - 1]);                                  \
		for (uint32_t i = 0; i < x->n; i++)                                               \
			keys[i] = row[x->source[i]];                                              \
		for (uint32_t i = 0; i < x->n && d < latent; i++)                                 \
			turned[i * latent] = keys[i];                                             \
	}
/* NOLINTEND(bugprone-macro-parentheses) */

static void look_chosen_copy_columns(const struct chosen_copy *x, size_t offset, size_t source,
				     size_t rows, size_t latent)
{
	enum { AHEAD = 24 };
	if (x->type == KV_F32) {
		LOOK_CHOSEN_COLUMNS(float, (float *)x->to + offset, (const float *)x->from + source)
	} else {
		LOOK_CHOSEN_COLUMNS(uint16_t, (uint16_t *)x->to + offset,
				    (const uint16_t *)x->from + source)
	}
}

/* Rows of [64][width]: values. */
static void look_chosen_copy_rows(const struct chosen_copy *x, size_t offset, size_t source,
				  size_t width)
{
	size_t element = kv_type_element(x->type);
	for (uint32_t i = 0; i < x->n; i++)
		memcpy((char *)x->to + (offset + (x->slot + i) * width) * element,
		       (const char *)x->from + (source + x->source[i] * width) * element,
		       width * element);
}

/* What one key-value head has of these positions; of latents there is one head. */
static void look_chosen_copy_head(const struct chosen_task *a, const struct chosen_copy *x,
				  uint32_t kv_head)
{
	const struct look *look = a->look;
	size_t dim = look->head_dim, at = (size_t)kv_head * 2 * dim * KV_BLOCK;
	size_t keys = context_key_offset(x->type, look->layer, kv_head);
	look_chosen_copy_columns(x, at, keys, dim, look->latent_dim);
	if (!look->latent_dim)
		look_chosen_copy_rows(x, at + dim * KV_BLOCK,
				      context_value_offset(x->type, look->layer, kv_head), dim);
}

static const void **look_chosen_list_of(const struct chosen_task *a, uint32_t row, uint32_t group)
{
	const struct config *c = a->look->step->env->config;
	return a->scratch->blocks + ((size_t)row * c->chooser.groups + group) * look_chosen_blocks(c);
}

static void look_chosen_copy_block(const struct chosen_task *a, uint32_t row, uint32_t block)
{
	const struct look *look = a->look;
	const struct config *c = look->step->env->config;
	const struct context *x = step_span_of(look->step, a->first + row)->context;
	const void *const *from = context_blocks_of(x, look->layer);
	uint32_t ratio = c->chooser.ratio, groups = c->chooser.groups,
		 kv_heads = look->latent_dim ? 1 : look->layer->kv_heads;
	size_t place = row * look_chosen_blocks(c) + block;
	struct chosen_copy copy = {.to = a->scratch->memory + place * a->width * KV_BLOCK,
				   .type = x->type};
	for (uint32_t g = 0; g < groups; g++)
		look_chosen_list_of(a, row, g)[block] = copy.to;
	for (uint32_t h = 0; h < kv_heads; h++) {
		struct chosen_list l = look_chosen_list(look, a->first + row, h * groups / kv_heads);
		uint32_t at = block * KV_BLOCK, last = at + KV_BLOCK;
		last = last < l.length ? last : l.length;
		for (; at < last; at += copy.n) {
			uint32_t p = look_chosen_position(&l, ratio, at), in = p / KV_BLOCK;
			copy.slot = at % KV_BLOCK;
			copy.from = from[in];
			for (copy.n = 0; p / KV_BLOCK == in;) {
				copy.source[copy.n++] = (uint8_t)(p % KV_BLOCK);
				if (at + copy.n == last)
					break;
				p = look_chosen_position(&l, ratio, at + copy.n);
			}
			look_chosen_copy_head(a, &copy, h);
		}
	}
}

static void look_chosen_point(const struct chosen_task *a, uint32_t row, uint32_t block)
{
	const struct look *look = a->look;
	const struct config *c = look->step->env->config;
	const struct context *x = step_span_of(look->step, a->first + row)->context;
	for (uint32_t g = 0; g < c->chooser.groups; g++) {
		struct chosen_list l = look_chosen_list(look, a->first + row, g);
		uint32_t at = block * KV_BLOCK;
		if (at < l.length)
			look_chosen_list_of(a, row, g)[block] = context_blocks_of(x, look->layer)
				[look_chosen_position(&l, c->chooser.ratio, at) / KV_BLOCK];
	}
}

/* Items are (row of the wave, block). */
static void look_chosen_gather(void *ctx, uint32_t begin, uint32_t end)
{
	const struct chosen_task *a = ctx;
	const struct config *c = a->look->step->env->config;
	uint32_t blocks = (uint32_t)look_chosen_blocks(c);
	for (uint32_t i = begin; i < end; i++)
		if (look_chosen_in_place(c))
			look_chosen_point(a, i / blocks, i % blocks);
		else
			look_chosen_copy_block(a, i / blocks, i % blocks);
}

/* ---- looking ---- */

/* What the heads of a group see of what their row chose. */
static struct attention look_chosen_attention(const struct chosen_task *a, uint32_t row,
					      uint32_t group)
{
	const struct look *look = a->look;
	const struct config *c = look->step->env->config;
	const struct layer *l = look->layer;
	size_t t = a->first + row, dim = look->head_dim;
	uint32_t head = group * look->group, kv_head = look->latent_dim ? 0 : group;
	uint32_t choice = look->latent_dim ? 0 : kv_head * c->chooser.groups / l->kv_heads;
	enum kv_type type = step_span_of(look->step, t)->context->type;
	bool own = look_chosen_in_place(c);
	size_t key = (size_t)kv_head * 2 * dim * KV_BLOCK, value = key + dim * KV_BLOCK;
	return (struct attention){
		.type = type,
		.head_dim = look->head_dim,
		.latent_dim = look->latent_dim,
		.latent_rows = look->latent_dim && !own,
		.heads = c->heads - head < look->group ? c->heads - head : look->group,
		.length = look_chosen_list(look, t, choice).length,
		.scale = c->attention_scale,
		.blocks = look_chosen_list_of(a, row, choice),
		.key_offset = own ? context_key_offset(type, l, kv_head) : key,
		.value_offset = own ? context_value_offset(type, l, kv_head) : value,
		.sinks = look->sinks ? look->sinks + head : NULL,
	};
}

/* Items are (row of the wave, group of heads). */
static void look_chosen_attend(void *ctx, uint32_t begin, uint32_t end)
{
	const struct chosen_task *a = ctx;
	const struct look *look = a->look;
	const struct environment *env = look->step->env;
	size_t heads = env->config->heads,
	       value_dim = look->latent_dim ? look->latent_dim : look->head_dim;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t row = i / a->groups, group = i % a->groups;
		size_t at = (a->first + row) * heads + (size_t)group * look->group;
		struct attention x = look_chosen_attention(a, row, group);
		if (!x.length) { /* every score is NaN, and so is the result */
			for (size_t k = 0; k < x.heads * value_dim; k++)
				look->out[at * value_dim + k] = NAN;
			continue;
		}
		watch_attend(env->kernels, look->out + at * value_dim, look->q + at * look->head_dim,
			     heads * look->head_dim, &x, 1);
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
	a.width = look->latent_dim ? (size_t)look->head_dim + look->latent_dim
				   : (size_t)2 * look->layer->kv_heads * look->head_dim;
	for (; a.first < look->step->n; a.first += a.rows) {
		uint32_t left = look->step->n - a.first;
		a.rows = left < s->rows ? left : s->rows;
		threads_run(env->threads, a.rows * (uint32_t)look_chosen_blocks(c), 4,
			    look_chosen_gather, &a);
		threads_run(env->threads, a.rows * a.groups, 1, look_chosen_attend, &a);
	}
}

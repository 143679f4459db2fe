#include "engine/compute/product.h"
#include "engine/compute/observer.h"
#include "kernels/block.h"
#include "kernels/watch.h"

/* A block that is not whole is met by no format that wants blocks. */
static size_t blocks_of(uint32_t k)
{
	return ((size_t)k + BLOCK - 1) / BLOCK;
}

void activation_take(struct arena *a, struct activation *v, size_t tokens, uint32_t k)
{
	*v = (struct activation){.k = k};
	v->f = arena_take(a, tokens * k, sizeof *v->f);
	v->q = arena_take(a, tokens * tq_groups(k) * TQ_GROUP, sizeof *v->q);
	v->scale = arena_take(a, tokens * tq_groups(k), sizeof *v->scale);
	v->block.q = arena_take(a, tokens * blocks_of(k) * BLOCK, sizeof *v->block.q);
	v->block.scale = arena_take(a, tokens * blocks_of(k), sizeof *v->block.scale);
	v->block.sum = arena_take(a, tokens * blocks_of(k) * HALVES, sizeof *v->block.sum);
}

void activation_prepare_part(const struct environment *env, const struct activation *a,
			     size_t token, uint32_t begin, uint32_t count, enum format format)
{
	const float *f = a->f + token * a->k + begin;
	size_t group = token * tq_groups(a->k) + begin / TQ_GROUP,
	       block = token * blocks_of(a->k) + begin / BLOCK;
	switch (format_input(format)) {
	case INPUT_TQ:
		tq_prepare_watched(env->kernels, a->q + group * TQ_GROUP, a->scale + group, f,
				   count);
		break;
	case INPUT_BLOCKS:
		env->kernels->block_prepare(a->block.q + block * BLOCK, a->block.scale + block,
					    a->block.sum + block * HALVES, f, count);
		break;
	default:
		break;
	}
}

struct prepare {
	const struct environment *env;
	const struct activation *a;
	enum format format;
};

static void prepare_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct prepare *p = ctx;
	for (size_t t = begin; t < end; t++)
		activation_prepare_part(p->env, p->a, t, 0, p->a->k, p->format);
}

void activation_prepare(const struct environment *env, struct activation *a, uint32_t n,
			enum format format)
{
	uint32_t form = 1U << format_input(format);
	if (form == 1U << INPUT_FLOATS || a->forms & form)
		return;
	threads_run(env->threads, n, 1, prepare_tokens, &(struct prepare){env, a, format});
	a->forms |= form;
}

struct input activation_input(const struct activation *a, uint32_t first)
{
	size_t group = first * tq_groups(a->k), block = first * blocks_of(a->k);
	return (struct input){
		.k = a->k,
		.f = a->f + (size_t)first * a->k,
		.q = a->q + group * TQ_GROUP,
		.scale = a->scale + group,
		.block = {a->block.q + block * BLOCK, a->block.scale + block,
			  a->block.sum + block * HALVES},
	};
}

/* Products of one input with several matrices, as one parallel loop over the tiles of them all. */
struct products {
	const struct kernels *kernels;
	const struct product *product;
	struct input x;
	uint32_t n;
};

static uint32_t tiles_of(const struct matrix *w)
{
	return (w->shape.rows + TILE_ROWS - 1) / TILE_ROWS;
}

static void multiply_tiles(void *ctx, uint32_t begin, uint32_t end)
{
	const struct products *all = ctx;
	const struct product *p = all->product;
	for (; begin < end; p++) {
		uint32_t tiles = tiles_of(p->w), rows = p->w->shape.rows;
		if (begin < tiles) {
			uint32_t last = end < tiles ? end : tiles;
			uint32_t row1 = last * TILE_ROWS < rows ? last * TILE_ROWS : rows;
			multiply_watched(all->kernels, p->y, rows, p->w, begin * TILE_ROWS, row1,
					 &all->x, NULL, all->n);
			begin = last;
		}
		begin -= tiles;
		end -= tiles;
	}
}

void product_run(const struct environment *env, const struct product *products, uint32_t count,
		 struct activation *a, uint32_t n)
{
	uint32_t tiles = 0;
	if (env->observer && !a->guess)
		observe_products(env, products, count, a, n);
	for (uint32_t i = 0; i < count; i++) {
		tiles += tiles_of(products[i].w);
		activation_prepare(env, a, n, products[i].w->shape.format);
	}
	struct products all = {env->kernels, products, activation_input(a, 0), n};
	uint64_t work = (uint64_t)TILE_ROWS * a->k * n;
	threads_run(env->threads, tiles, product_grain(env, tiles, work), multiply_tiles, &all);
}

uint32_t product_grain(const struct environment *env, uint32_t items, uint64_t work)
{
	/* Some 3 µs: an idle thread that is awake needs about one to take a piece. */
	enum { LEAST_WORK = 1 << 17 };
	uint64_t shared = items / (8 * threads_count(env->threads)) + 1,
		 least = LEAST_WORK / (work + 1) + 1;
	uint64_t grain = shared > least ? shared : least;
	return grain < items ? (uint32_t)grain : items;
}

void product_add_bias(const struct environment *env, float *y, const float *bias, uint32_t n,
		      uint32_t width)
{
	for (uint32_t t = 0; bias && t < n; t++)
		env->kernels->add(y + (size_t)t * width, bias, width);
}

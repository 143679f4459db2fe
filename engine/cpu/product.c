/* Matrix products of a step's rows, divided among the threads by tiles of rows of the matrices: no
 * sum is ever split, so the number of threads cannot change a bit. See product.h.
 *
 * tests/bench/spent.c puts a clock around product_run (--wrap), which works only from other files:
 * its callers stay outside of this one. */
#include "engine/cpu/product.h"
#include "kernels/watch.h"

#include <string.h>

/* Products of one input with several matrices, as one parallel loop: its items are the tiles of them all for some of the
 * tokens, then the same tiles for the next ones. Kernels gather so many tokens for each call, whatever rows it multiplies, and
 * make a row's codes again for the next ones: pieces of more rows and fewer tokens gather less. */
struct product_task {
	const struct kernels *kernels;
	const struct product *product;
	const struct activation *input;
	uint32_t n, tokens, tiles; /* tokens: of an item, at most */
};

static uint32_t product_tiles(const struct matrix *w)
{
	return (w->shape.rows + TILE_ROWS - 1) / TILE_ROWS;
}

/* Tiles [begin, end) of all matrices by the tokens from `first` on. */
static void product_multiply_tiles(const struct product_task *all, uint32_t first, uint32_t begin,
				   uint32_t end)
{
	const struct input x = activation_input(all->input, first);
	uint32_t n = all->n - first < all->tokens ? all->n - first : all->tokens;
	for (const struct product *p = all->product; begin < end; p++) {
		uint32_t tiles = product_tiles(p->w), rows = p->w->shape.rows;
		if (begin < tiles) {
			uint32_t last = end < tiles ? end : tiles;
			uint32_t row1 = last * TILE_ROWS < rows ? last * TILE_ROWS : rows;
			watch_multiply(all->kernels, p->y + (size_t)first * rows, rows, p->w,
				       begin * TILE_ROWS, row1, &x, NULL, n);
			begin = last;
		}
		begin -= tiles;
		end -= tiles;
	}
}

static void product_multiply_items(void *ctx, uint32_t begin, uint32_t end)
{
	const struct product_task *all = ctx;
	for (uint32_t n; begin < end; begin += n) {
		uint32_t tile = begin % all->tiles, left = all->tiles - tile;
		n = end - begin < left ? end - begin : left;
		product_multiply_tiles(all, begin / all->tiles * all->tokens, tile, tile + n);
	}
}

/* Shows the input of each matrix to the observer, under the matrix's place in the model. */
static void product_observe(const struct environment *env, const struct product *products,
			    uint32_t count, const struct activation *a, uint32_t n)
{
	const struct weights *all = env->weights;
	for (uint32_t i = 0; i < count; i++) {
		const struct matrix *w = products[i].w;
		bool once = w >= all->once.m && w < all->once.m + TENSOR_ROLES;
		size_t at = once ? (size_t)(w - all->once.m) : (size_t)(w - all->layer->m);
		struct tensor_id id = {(enum tensor_role)(at % TENSOR_ROLES),
				       (uint32_t)(at / TENSOR_ROLES), 0};
		env->observer->saw(env->observer->ctx, id, a->f, a->k, NULL, n);
	}
}

/* A multiply-add with a weight of 16 or 32 bits reads as many bytes as four or more with one of a
 * quantised format, and there are a quarter as many in an instruction. */
enum { PRODUCT_FLOAT_WORK = 4 };

/* Tokens that all kernels gather together. */
enum { PRODUCT_TOKENS = 48 };

void product_run(const struct environment *env, const struct product *products, uint32_t count,
		 struct activation *a, uint32_t n)
{
	uint32_t weight = 1, parts = (n + PRODUCT_TOKENS - 1) / PRODUCT_TOKENS;
	if (!n)
		return;
	struct product_task all = {env->kernels, products, a, n, (n + parts - 1) / parts, 0};
	if (env->observer && !a->guess)
		product_observe(env, products, count, a, n);
	for (uint32_t i = 0; i < count; i++) {
		all.tiles += product_tiles(products[i].w);
		activation_prepare(env, a, n, products[i].w->shape.format);
		if (format_input(products[i].w->shape.format) == INPUT_FLOATS)
			weight = PRODUCT_FLOAT_WORK;
	}
	uint64_t work = (uint64_t)TILE_ROWS * a->k * all.tokens * weight;
	uint32_t items = all.tiles * parts;
	threads_run(env->threads, items, product_grain(env, items, work), product_multiply_items,
		    &all);
}

/* ---- blocks of rows for parts of the input ---- */

struct product_groups {
	const struct kernels *kernels;
	const struct product *product;
	struct input x;
	uint32_t n, tokens, groups; /* tokens: of an item, at most */
	uint32_t each;		    /* rows of w in a group */
	uint32_t most;		    /* tiles in which a group has rows, at most */
	const uint32_t *index;	    /* [groups][n]: tokens of the input */
};

/* Some tokens of a group by a tile. */
struct product_piece {
	uint32_t group, row0, row1, token, n;
};

/* A tile of which some rows belong to a neighbour group: all are multiplied, some tokens at a time, and
 * the group's own are taken. */
static void product_multiply_shared(const struct product_groups *z, const struct product_piece *piece)
{
	enum { TOKENS = 32 };
	const struct product *p = z->product;
	float some[TOKENS * TILE_ROWS];
	uint32_t first = piece->group * z->each, end = first + z->each, rows = p->w->shape.rows;
	first = first > piece->row0 ? first : piece->row0;
	end = end < piece->row1 ? end : piece->row1;
	for (uint32_t t = piece->token, n; t < piece->token + piece->n; t += n) {
		n = piece->token + piece->n - t < TOKENS ? piece->token + piece->n - t : TOKENS;
		watch_multiply(z->kernels, some - piece->row0, TILE_ROWS, p->w, piece->row0,
			       piece->row1, &z->x, z->index + (size_t)piece->group * z->n + t, n);
		for (uint32_t i = 0; i < n; i++)
			memcpy(p->y + (size_t)(t + i) * rows + first,
			       some + i * TILE_ROWS + first - piece->row0,
			       (end - first) * sizeof *some);
	}
}

/* Items are (some tokens, group, tile of those in which it has rows). */
static void product_multiply_groups(void *ctx, uint32_t begin, uint32_t end)
{
	const struct product_groups *z = ctx;
	const struct product *p = z->product;
	uint32_t rows = p->w->shape.rows;
	for (uint32_t i = begin; i < end; i++) {
		struct product_piece piece = {.group = i / z->most % z->groups,
					      .token = i / z->most / z->groups * z->tokens};
		uint32_t first = piece.group * z->each, last = first + z->each,
			 left = z->n - piece.token;
		piece.row0 = (first / TILE_ROWS + i % z->most) * TILE_ROWS;
		piece.row1 = piece.row0 + TILE_ROWS < rows ? piece.row0 + TILE_ROWS : rows;
		piece.n = left < z->tokens ? left : z->tokens;
		if (piece.row0 >= last)
			continue;
		if (piece.row0 < first || piece.row1 > last)
			product_multiply_shared(z, &piece);
		else
			watch_multiply(z->kernels, p->y + (size_t)piece.token * rows, rows, p->w,
				       piece.row0, piece.row1, &z->x,
				       z->index + (size_t)piece.group * z->n + piece.token, piece.n);
	}
}

void product_run_groups(const struct environment *env, const struct product *product,
			struct activation *a, uint32_t groups, uint32_t n, uint32_t *index)
{
	const struct shape *w = &product->w->shape;
	uint32_t parts = (n + PRODUCT_TOKENS - 1) / PRODUCT_TOKENS;
	if (!n)
		return;
	if (env->observer)
		product_observe(env, product, 1, a, n * groups);
	activation_prepare(env, a, n * groups, w->format);
	for (uint32_t g = 0; g < groups; g++)
		for (uint32_t t = 0; t < n; t++)
			index[(size_t)g * n + t] = t * groups + g;
	struct product_groups z = {.kernels = env->kernels,
				   .product = product,
				   .x = activation_input(a, 0),
				   .n = n,
				   .tokens = (n + parts - 1) / parts,
				   .groups = groups,
				   .each = w->rows / groups,
				   .index = index};
	z.most = z.each / TILE_ROWS + 2;
	uint32_t items = parts * groups * z.most;
	uint64_t work = (uint64_t)TILE_ROWS * a->k * z.tokens;
	work *= format_input(w->format) == INPUT_FLOATS ? PRODUCT_FLOAT_WORK : 1;
	threads_run(env->threads, items, product_grain(env, items, work), product_multiply_groups,
		    &z);
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

/* Products, norms and sums of rows: launches that several operations are made of. See cuda_model.h. */
#include "engine/cuda/cuda_model.h"
#include "kernels/block.h"

void cuda_norm(struct cuda_model *m, gpu_address y, gpu_address x, gpu_address weight, uint32_t n,
	       uint32_t width)
{
	const struct cuda_norms p = {
		cuda_at(x), cuda_at(weight), cuda_at(y), n, width, m->config->rms_eps};
	const struct cuda_grid g = cuda_norms_grid(&p);
	cuda_do(m, cuda_rmsnorm_number, &g, &p);
}

struct cuda_input cuda_input_from(const struct cuda_input *x, enum format format, uint32_t first)
{
	bool blocks = format_input(format) == INPUT_BLOCKS;
	size_t columns = blocks ? x->k : tq_groups(x->k) * TQ_GROUP;
	return (struct cuda_input){
		.k = x->k,
		.f = x->f + (size_t)first * x->k * sizeof(float),
		.q = x->q + first * columns,
		.scale = x->scale + first * columns / (blocks ? BLOCK : TQ_GROUP) * sizeof(float),
		.sum = x->sum + first * columns / HALF_BLOCK * sizeof(int16_t)};
}

void cuda_prepare_input(struct cuda_model *m, const struct cuda_input *x, uint32_t n,
			enum format format)
{
	bool blocks = format_input(format) == INPUT_BLOCKS;
	if (format_input(format) == INPUT_FLOATS)
		return;
	enum cuda_kernel k = blocks ? cuda_block_prepare_number : cuda_tq_prepare_number;
	struct cuda_prepare p = {.x = cuda_at(x->f),
				 .q = cuda_at(x->q),
				 .scale = cuda_at(x->scale),
				 .sum = blocks ? cuda_at(x->sum) : NULL,
				 .k = x->k,
				 .n = n};
	cuda_fill_signs(&p.signs);
	const struct cuda_grid g = cuda_prepare_grid(k, &p);
	cuda_do(m, k, &g, &p);
}

void cuda_describe(const struct cuda_model *m, struct cuda_product *p, const struct shape *s)
{
	p->rows = s->rows;
	p->groups = cuda_product_groups(s->format, s->cols);
	p->norm_bytes = (uint32_t)format_norm_type_bytes(s->norms);
	p->kind = cuda_block_kind_of(s);
	if (format_is_tq(s->format)) {
		cuda_fill_trellis(&p->trellis, s->format);
		p->trellis.pairs = cuda_at(m->pairs);
	}
}

uint32_t cuda_tokens_together(enum format format, uint32_t n)
{
	enum { FEW = 8, MANY = 32, WORTH_MANY = 12 };
	if (n <= 1)
		return 1;
	return n >= WORTH_MANY && cuda_product_kernel(format, MANY) != CUDA_KERNEL_COUNT ? MANY
											 : FEW;
}

static uint32_t cuda_items_of(uint32_t n, uint32_t most)
{
	return (n + most - 1) / most;
}

/* The kernel of a product of n rows without items. */
static enum cuda_kernel cuda_kernel_of(const struct shape *s, uint32_t n, uint32_t most,
				       const struct cuda_room *room)
{
	size_t tiles = (size_t)cuda_items_of(n, most) * ((s->rows + TILE_ROWS - 1) / TILE_ROWS);
	return cuda_kernel_for(s->format, most, tiles, room);
}

/* Whether its tiles are enough for all warps of the GPU. */
static bool cuda_fills_all(const struct shape *s, uint32_t n, uint32_t most, const struct cuda_room *room)
{
	return cuda_kernel_of(s, n, most, room) != cuda_product_kernel(s->format, most);
}

/* The same of a dense matrix. The kernel for many tokens of blocks gives each warp a whole tile, so it needs
 * many tokens where there are no experts: 64 fill a GPU with the tiles of a projection. The kernel for 16 is for
 * matrices with fewer tiles than the GPU has warps. */
static uint32_t cuda_rows_together(const struct cuda_model *m, const struct shape *s, uint32_t n)
{
	enum { FEW = 8, SOME = 16, FILLS = 64 };
	const struct cuda_room room = cuda_room_of(m);
	if (format_is_block(s->format) && n > FEW && n < FILLS)
		return FEW;
	const uint32_t most = cuda_tokens_together(s->format, n);
	return n > FEW && n <= SOME && cuda_product_kernel(s->format, SOME) != CUDA_KERNEL_COUNT &&
			       !cuda_fills_all(s, n, most, &room)
		       ? SOME
		       : most;
}

void cuda_product_takes(struct cuda_product *p, const struct cuda_input *x)
{
	p->x = cuda_at(x->f);
	p->q = cuda_at(x->q);
	p->scale = cuda_at(x->scale);
	p->sum = cuda_at(x->sum);
}

struct cuda_product cuda_product_of(const struct cuda_model *m, uint32_t layer, enum tensor_role role,
				    const struct cuda_input *x, uint32_t n, gpu_address y)
{
	const struct shape *s = &cuda_matrix(m, layer, role)->shape;
	struct cuda_product p = {
		.slots = cuda_at(m->layer[layer][role].cell),
		.divide = 1,
		.n = n,
		.most = cuda_rows_together(m, s, n),
		.parts = 1,
		.y = cuda_at(y),
		.ldy = s->rows,
	};
	cuda_describe(m, &p, s);
	cuda_product_takes(&p, x);
	return p;
}

void cuda_multiply(struct cuda_model *m, uint32_t layer, enum tensor_role role,
		   const struct cuda_input *x, uint32_t n, gpu_address y)
{
	const struct cuda_room room = cuda_room_of(m);
	struct cuda_product p = cuda_product_of(m, layer, role, x, n, y);
	const enum cuda_kernel k = cuda_kernel_of(&cuda_matrix(m, layer, role)->shape, n, p.most, &room);
	const struct cuda_grid g = cuda_product_grid(k, &p, cuda_items_of(n, p.most), &room);
	cuda_do(m, k, &g, &p);
}

bool cuda_multiply_at_once(struct cuda_model *m, struct cuda_products *all, const enum format *formats)
{
	const struct cuda_room room = cuda_room_of(m);
	const enum cuda_kernel k = cuda_products_kernel(formats, all->count, all->p[0].most);
	if (k == CUDA_KERNEL_COUNT)
		return false;
	const struct cuda_grid g = cuda_products_grid(k, all, &room);
	cuda_do(m, k, &g, all);
	return true;
}

uint32_t cuda_products_together(const struct cuda_model *m, uint32_t layer, const struct cuda_projection *products,
				uint32_t count, uint32_t n)
{
	const struct cuda_room room = cuda_room_of(m);
	enum format formats[CUDA_PRODUCTS_MOST];
	uint32_t some = 0;
	for (; some < count && some < CUDA_PRODUCTS_MOST; some++) {
		const struct shape *s = &cuda_matrix(m, layer, products[some].role)->shape;
		const uint32_t most = cuda_rows_together(m, s, n);
		formats[some] = s->format;
		if (cuda_fills_all(s, n, most, &room) ||
		    cuda_products_kernel(formats, some + 1, most) == CUDA_KERNEL_COUNT)
			break;
	}
	return some > 0 ? some : 1;
}

/* In one launch, as cuda_products_together has found possible. */
static void cuda_multiply_together(struct cuda_model *m, uint32_t layer, const struct cuda_projection *products,
				   uint32_t count, const struct cuda_input *x, uint32_t n)
{
	struct cuda_products all = {.count = count};
	enum format formats[CUDA_PRODUCTS_MOST];
	for (uint32_t i = 0; i < count; i++) {
		formats[i] = cuda_matrix(m, layer, products[i].role)->shape.format;
		all.p[i] = cuda_product_of(m, layer, products[i].role, x, n, products[i].to);
	}
	(void)cuda_multiply_at_once(m, &all, formats);
}

enum format cuda_multiply_all(struct cuda_model *m, uint32_t layer,
			      const struct cuda_projection *products, uint32_t count,
			      const struct cuda_input *x, uint32_t n, enum format now)
{
	for (uint32_t i = 0, some; i < count; i += some) {
		const enum format wanted = cuda_matrix(m, layer, products[i].role)->shape.format;
		if (!format_is_float(wanted) && format_input(wanted) != format_input(now))
			cuda_prepare_input(m, x, n, now = wanted);
		some = cuda_products_together(m, layer, products + i, count - i, n);
		if (some > 1)
			cuda_multiply_together(m, layer, products + i, some, x, n);
		else
			cuda_multiply(m, layer, products[i].role, x, n, products[i].to);
	}
	return now;
}

void cuda_multiply_from(struct cuda_model *m, uint32_t layer, enum tensor_role role,
			const struct cuda_input *x, uint32_t first, uint32_t n, gpu_address y)
{
	const struct cuda_input rest =
		cuda_input_from(x, cuda_matrix(m, layer, role)->shape.format, first);
	cuda_multiply(m, layer, role, &rest, n, y);
}

void cuda_add_rows(struct cuda_model *m, gpu_address y, gpu_address x, size_t count, float factor)
{
	const struct cuda_vectors p = {cuda_at(y), cuda_at(x), count};
	const struct cuda_scaled scaled = {cuda_at(y), cuda_at(x), count, factor};
	const struct cuda_grid g = cuda_items_grid(count);
	if (factor == 1)
		cuda_do(m, cuda_add_number, &g, &p);
	else
		cuda_do(m, cuda_add_scaled_number, &g, &scaled);
}

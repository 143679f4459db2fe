/* Memory for pieces of one size. See cuda_model.h. */
#include "engine/cuda/cuda_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Most bytes of a slab, unless a single piece is larger. */
enum { CUDA_SLAB = 64 << 20 };

/* Pieces of the next slab; 0: the budget has room for none. */
static uint32_t cuda_slab_pieces(struct cuda_model *m, const struct cuda_pool *p, uint64_t kept)
{
	uint64_t room = gpu_budget_room(m->budget), most = CUDA_SLAB / p->bytes;
	room = room > kept ? (room - kept) / p->bytes : 0;
	most = most < room / p->share ? most : room / p->share;
	most = most ? most : 1;
	return (uint32_t)(room < most ? room : most);
}

bool cuda_pool_grows(struct cuda_model *m, const struct cuda_pool *p, uint64_t kept)
{
	return cuda_slab_pieces(m, p, kept) > 0;
}

static int cuda_pool_grow(struct cuda_model *m, struct cuda_pool *p, uint64_t kept, struct err *e)
{
	uint32_t more = cuda_slab_pieces(m, p, kept);
	if (!more)
		return err_set(e, ENOMEM, "the GPU budget is used up");
	struct cuda_slab *slab = realloc(p->slab, (p->slabs + 1) * sizeof *slab);
	if (slab)
		p->slab = slab;
	gpu_address *piece = realloc(p->piece, (size_t)(p->pieces + more) * sizeof *piece);
	if (piece)
		p->piece = piece;
	if (!slab || !piece)
		return err_set(e, ENOMEM, "out of memory for a list of GPU memory");
	gpu_address at = cuda_take(m, p->use, more * p->bytes, e);
	if (!at)
		return -ENOMEM;
	p->slab[p->slabs++] = (struct cuda_slab){at, more * p->bytes};
	p->pieces += more;
	for (uint32_t i = 0; i < more; i++)
		p->piece[p->free++] = at + (more - 1 - i) * p->bytes;
	return 0;
}

gpu_address cuda_pool_take(struct cuda_model *m, struct cuda_pool *p, uint64_t kept,
			   struct err *e)
{
	if (!p->free && cuda_pool_grow(m, p, kept, e))
		return 0;
	return p->piece[--p->free];
}

void cuda_pool_give(struct cuda_pool *p, gpu_address piece)
{
	p->piece[p->free++] = piece;
}

void cuda_pool_give_slab(struct cuda_model *m, struct cuda_pool *p)
{
	const struct cuda_slab slab = p->slab[--p->slabs];
	uint32_t kept = 0;
	for (uint32_t i = 0; i < p->free; i++)
		if (p->piece[i] < slab.at || p->piece[i] >= slab.at + slab.bytes)
			p->piece[kept++] = p->piece[i];
	p->free = kept;
	p->pieces -= (uint32_t)(slab.bytes / p->bytes);
	cuda_give(m, p->use, slab.at, slab.bytes);
}

void cuda_pool_free(struct cuda_model *m, struct cuda_pool *p)
{
	while (p->slabs--)
		cuda_give(m, p->use, p->slab[p->slabs].at, p->slab[p->slabs].bytes);
	free(p->slab);
	free(p->piece);
	*p = (struct cuda_pool){0};
}

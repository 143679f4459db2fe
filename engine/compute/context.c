#include "engine/compute/context.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t whole_pages(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	return (bytes + page - 1) / page * page;
}

void context_init(struct context *x, struct context_budget *budget, const struct config *c,
		  enum kv_type type)
{
	size_t element = type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
	*x = (struct context){
		.budget = budget,
		.type = type,
		.kv_heads = c->kv_heads,
		.head_dim = c->head_dim,
		.block_bytes = whole_pages((size_t)c->mixers[MIXER_ATTENTION] * c->kv_heads * 2 *
					   c->head_dim * KV_BLOCK * element),
	};
}

/* ---- blocks ---- */

/* Each is a mapping of its own, so that the system has it back as soon as it is given up: what is
 * freed in the middle of a heap stays there. The kernel keeps neighbours as one area, which is why
 * small ones are not put together here. */
static void *map_block(size_t bytes)
{
	void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return block == MAP_FAILED ? NULL : block;
}

/* A process has its bound of areas, and a hole makes two of one: beyond it, the memory goes and the
 * addresses stay. */
static void unmap_block(const void *block, size_t bytes)
{
	if (munmap((void *)block, bytes))
		(void)madvise((void *)block, bytes, MADV_DONTNEED);
}

/* True if the bytes still fitted; they are counted then. */
static bool charge(struct context_budget *b, uint64_t bytes)
{
	if (atomic_fetch_add(&b->used, bytes) + bytes <= atomic_load(&b->limit))
		return true;
	atomic_fetch_sub(&b->used, bytes);
	return false;
}

static int add_block(struct context *x, struct err *e)
{
	if (x->block_count == x->block_room) {
		uint32_t room = x->block_room ? 2 * x->block_room : 8;
		const void **blocks = realloc(x->blocks, room * sizeof *blocks);
		if (!blocks)
			return err_set(e, ENOMEM, "out of memory for the context's table");
		x->blocks = blocks;
		x->block_room = room;
	}
	if (!charge(x->budget, x->block_bytes))
		return err_set(e, ENOSPC,
			       "the context budget is used up (%.1f of %.1f MB); raise "
			       "cache/context_budget, "
			       "or reset or remove a session",
			       (double)atomic_load(&x->budget->used) / 1e6,
			       (double)atomic_load(&x->budget->limit) / 1e6);
	void *block = map_block(x->block_bytes);
	if (!block) {
		atomic_fetch_sub(&x->budget->used, x->block_bytes);
		return err_set(e, ENOMEM,
			       "no memory for %zu bytes of context; lower the budget of the cache, "
			       "or reset or remove a session",
			       x->block_bytes);
	}
	x->blocks[x->block_count++] = block;
	return 0;
}

int context_reserve(struct context *x, uint32_t positions, struct err *e)
{
	uint32_t blocks = (positions + KV_BLOCK - 1) / KV_BLOCK;
	while (x->block_count < blocks) {
		int failed = add_block(x, e);
		if (failed)
			return failed;
	}
	return 0;
}

void context_rollback(struct context *x, size_t count)
{
	if (count < x->tokens.count)
		x->tokens.count = count;
	size_t keep = (x->tokens.count + KV_BLOCK - 1) / KV_BLOCK;
	while (x->block_count > keep) {
		unmap_block(x->blocks[--x->block_count], x->block_bytes);
		atomic_fetch_sub(&x->budget->used, x->block_bytes);
	}
}

void context_free(struct context *x)
{
	context_rollback(x, 0);
	free(x->blocks);
	token_list_free(&x->tokens);
	x->blocks = NULL;
}

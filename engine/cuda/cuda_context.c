/* Copies of contexts on the GPU. See cuda_model.h.
 *
 * Main memory has the keys and values of every context, always: after each step the rows' keys and
 * values are copied there (cuda_step.c). So saving, forking and going back know nothing of the GPU, and
 * when it fails, the CPU goes on from where the last step ended. A copy here is a cache: of contexts
 * that have not been used for long it is given up, and made again when a step needs it.
 */
#include "engine/cuda/cuda_model.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- finding ---- */

static struct cuda_context *cuda_context_of(struct cuda_model *m, uint64_t number)
{
	for (uint32_t i = 0; i < m->contexts; i++)
		if (m->context[i].number == number)
			return &m->context[i];
	return NULL;
}

static void cuda_context_drop(struct cuda_model *m, struct cuda_context *c)
{
	while (c->count)
		cuda_pool_give(&m->blocks, c->blocks[--c->count]);
	c->listed = 0;
	c->number = 0;
}

/* Gives up the copy that was used longest ago, not by this step or a pass that waits. False: there is
 * none. */
static bool cuda_context_give_up(struct cuda_model *m)
{
	struct cuda_context *oldest = NULL;
	for (uint32_t i = 0; i < m->contexts; i++) {
		struct cuda_context *c = &m->context[i];
		if (c->number && !c->pass && c->last < m->steps &&
		    (!oldest || c->last < oldest->last))
			oldest = c;
	}
	if (oldest)
		cuda_context_drop(m, oldest);
	return oldest != NULL;
}

/* The copy of a context that has none. Pointers to copies are valid until the next call. */
static struct cuda_context *cuda_context_add(struct cuda_model *m, struct context *x)
{
	enum { COPIES = 256 };
	struct cuda_context *c = cuda_context_of(m, 0);
	if (!c && m->contexts == COPIES && cuda_context_give_up(m))
		c = cuda_context_of(m, 0);
	if (!c) {
		struct cuda_context *more =
			realloc(m->context, (m->contexts + 1) * sizeof *m->context);
		if (!more)
			return NULL;
		m->context = more;
		c = &more[m->contexts++];
		*c = (struct cuda_context){0};
	}
	c->number = atomic_fetch_add(&m->counters->copies, 1) + 1;
	x->copy = (struct context_copy){.number = c->number};
	return c;
}

/* ---- memory ---- */

static gpu_address cuda_context_block(struct cuda_model *m, struct err *e)
{
	enum { TABLES = 1 << 20 }; /* bytes that blocks leave to tables */
	gpu_address block;
	do
		block = cuda_pool_take(m, &m->blocks, TABLES, e);
	while (!block && cuda_context_give_up(m));
	return block;
}

static int cuda_context_grow(struct cuda_model *m, struct cuda_context *c, uint32_t blocks,
			     struct err *e)
{
	if (blocks > c->room) {
		gpu_address *more = realloc(c->blocks, 2 * (size_t)blocks * sizeof *more);
		if (!more)
			return err_set(e, ENOMEM, "out of memory for a context's blocks");
		c->blocks = more;
		c->room = 2 * blocks;
	}
	while (c->count < blocks) {
		gpu_address block = cuda_context_block(m, e);
		if (!block)
			return -ENOMEM;
		c->blocks[c->count++] = block;
	}
	return 0;
}

/* Lists the blocks on the GPU. A table that is too short is replaced: work under way still reads the
 * old one, and is waited for. */
static int cuda_context_list(struct cuda_model *m, struct cuda_context *c, struct err *e)
{
	if (c->count > c->table_room) {
		uint32_t room = c->room > 64 ? c->room : 64;
		(void)cuda_wait(m);
		cuda_give(m, GPU_CONTEXTS, c->table, c->table_room * sizeof c->table);
		c->table = cuda_take(m, GPU_CONTEXTS, room * sizeof c->table, e);
		c->table_room = c->table ? room : 0;
		c->listed = 0;
		if (!c->table)
			return -ENOMEM;
	}
	cuda_copy_in(m, c->table + c->listed * sizeof c->table, c->blocks + c->listed,
		     (c->count - c->listed) * sizeof c->table);
	c->listed = c->count;
	return 0;
}

/* Copies whole blocks: beyond its last position a block holds nothing that is read. */
static void cuda_context_fill(struct cuda_model *m, const struct cuda_context *c,
			      const struct context *x, uint32_t position)
{
	const struct kv_table *t = &x->kv[KV_WHOLE];
	if (x->copy.valid >= position)
		return;
	for (size_t b = x->copy.valid / KV_BLOCK; b * KV_BLOCK < position; b++)
		cuda_copy_in(m, c->blocks[b], t->blocks[b], t->used);
}

const struct cuda_context *cuda_context_ready(struct cuda_model *m, struct context *x,
					      uint32_t position, uint32_t n, uint64_t pass)
{
	struct err e = {0};
	struct cuda_context *c = x->copy.number ? cuda_context_of(m, x->copy.number) : NULL;
	if (!c)
		c = cuda_context_add(m, x);
	int failed = c ? 0 : err_set(&e, ENOMEM, "out of memory for a list of contexts");
	if (!failed) {
		c->last = m->steps;
		c->pass = pass;
		failed = cuda_context_grow(m, c, kv_blocks(position + n), &e);
	}
	if (!failed)
		failed = cuda_context_list(m, c, &e);
	if (failed) {
		cuda_fail(m, &e);
		return NULL;
	}
	cuda_context_fill(m, c, x, position);
	x->copy.valid = position;
	return c;
}

void cuda_contexts_let_go(struct cuda_model *m, uint64_t pass)
{
	for (uint32_t i = 0; i < m->contexts; i++)
		if (m->context[i].pass == pass)
			m->context[i].pass = 0;
}

void cuda_contexts_free(struct cuda_model *m)
{
	for (uint32_t i = 0; i < m->contexts; i++) {
		struct cuda_context *c = &m->context[i];
		cuda_give(m, GPU_CONTEXTS, c->table, c->table_room * sizeof c->table);
		free(c->blocks);
	}
	free(m->context);
	cuda_pool_free(m, &m->blocks);
	m->context = NULL;
	m->contexts = 0;
}

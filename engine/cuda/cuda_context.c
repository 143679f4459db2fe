/* Copies of contexts on the GPU. See cuda_model.h.
 *
 * Layers with a window have blocks of their own, as in the context (kv_table.h): those before the window are
 * given back, and copied again when the text goes back.
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

static void cuda_blocks_drop(struct cuda_model *m, struct cuda_blocks *b, enum kv_kind kind)
{
	while (b->count)
		if (b->block[--b->count])
			cuda_pool_give(&m->blocks[kind], b->block[b->count]);
	b->listed = 0;
}

static void cuda_context_drop(struct cuda_model *m, struct cuda_context *c)
{
	for (int kind = 0; kind < CUDA_KV_KINDS; kind++)
		cuda_blocks_drop(m, &c->kv[kind], kind);
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

static gpu_address cuda_context_block(struct cuda_model *m, enum kv_kind kind, struct err *e)
{
	enum { TABLES = 1 << 20 }; /* bytes that blocks leave to tables */
	gpu_address block;
	do
		block = cuda_pool_take(m, &m->blocks[kind], TABLES, e);
	while (!block && cuda_context_give_up(m));
	return block;
}

/* Makes room for addresses of blocks. */
static int cuda_blocks_room(struct cuda_blocks *b, uint32_t blocks, struct err *e)
{
	if (blocks <= b->room)
		return 0;
	gpu_address *more = realloc(b->block, 2 * (size_t)blocks * sizeof *more);
	if (!more)
		return err_set(e, ENOMEM, "out of memory for a context's blocks");
	b->block = more;
	b->room = 2 * blocks;
	return 0;
}

/* The blocks [first, end) that a step needs. The copy lacks what the context has in blocks [lacking, filled). */
struct cuda_wanted {
	const struct kv_table *from;
	uint32_t first, end, lacking, filled;
};

/* Makes sure of them, and gives back what lies before. Whole blocks are copied: beyond its last position a
 * block holds nothing that is read. */
static int cuda_blocks_have(struct cuda_model *m, struct cuda_blocks *b, enum kv_kind kind,
			    const struct cuda_wanted *w, struct err *e)
{
	while (b->count < w->end)
		b->block[b->count++] = 0;
	for (uint32_t i = 0; i < w->first && i < b->count; i++) {
		if (b->block[i])
			cuda_pool_give(&m->blocks[kind], b->block[i]);
		b->block[i] = 0;
	}
	for (uint32_t i = w->first; i < w->end; i++) {
		bool lacks = i >= w->lacking || !b->block[i];
		if (!b->block[i]) {
			b->block[i] = cuda_context_block(m, kind, e);
			b->listed = b->listed < i ? b->listed : i;
		}
		if (!b->block[i])
			return -ENOMEM;
		if (lacks && i < w->filled)
			cuda_copy_in(m, b->block[i], w->from->blocks[i], w->from->used);
	}
	return 0;
}

/* Lists the blocks on the GPU. A table that is too short is replaced: work under way still reads the
 * old one, and is waited for. */
static int cuda_blocks_list(struct cuda_model *m, struct cuda_blocks *b, struct err *e)
{
	if (b->count > b->table_room) {
		uint32_t room = b->room > 64 ? b->room : 64;
		(void)cuda_wait(m);
		cuda_give(m, GPU_CONTEXTS, b->table, b->table_room * sizeof b->table);
		b->table = cuda_take(m, GPU_CONTEXTS, room * sizeof b->table, e);
		b->table_room = b->table ? room : 0;
		b->listed = 0;
		if (!b->table)
			return -ENOMEM;
	}
	cuda_copy_in(m, b->table + b->listed * sizeof b->table, b->block + b->listed,
		     (b->count - b->listed) * sizeof b->table);
	b->listed = b->count;
	return 0;
}

/* Of one kind, as cuda_context_ready. */
static int cuda_blocks_ready(struct cuda_model *m, struct cuda_blocks *b, enum kv_kind kind,
			     const struct context *x, uint32_t position, uint32_t n, struct err *e)
{
	const struct kv_table *t = &x->kv[kind];
	const struct cuda_wanted wanted = {.from = t,
					   .first = kv_seen_from(t->window, position),
					   .end = kv_blocks(position + n),
					   .lacking = x->copy.valid < position
							      ? (uint32_t)(x->copy.valid / KV_BLOCK)
							      : UINT32_MAX,
					   .filled = kv_blocks(position)};
	int failed = cuda_blocks_room(b, wanted.end, e);
	if (!failed)
		failed = cuda_blocks_have(m, b, kind, &wanted, e);
	return failed ? failed : cuda_blocks_list(m, b, e);
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
	}
	for (int kind = 0; kind < CUDA_KV_KINDS && !failed; kind++)
		if (m->blocks[kind].bytes)
			failed = cuda_blocks_ready(m, &c->kv[kind], kind, x, position, n, &e);
	if (failed) {
		cuda_fail(m, &e);
		return NULL;
	}
	x->copy.valid = position;
	return c;
}

void cuda_contexts_let_go(struct cuda_model *m, uint64_t pass)
{
	for (uint32_t i = 0; i < m->contexts; i++)
		if (m->context[i].pass == pass)
			m->context[i].pass = 0;
}

void cuda_contexts_begin(struct cuda_model *m)
{
	struct context measured;
	context_init(&measured, NULL, m->config, m->kv);
	for (uint32_t i = 0; i < m->left.keyed; i++) {
		enum kv_kind kind = config_kv_kind(&m->config->layer[m->keyed_layer[i]]);
		m->blocks[kind] = (struct cuda_pool){.bytes = measured.kv[kind].bytes,
						     .share = 1,
						     .use = GPU_CONTEXTS};
	}
	if (m->blocks[KV_WHOLE].bytes && m->blocks[KV_WINDOWED].bytes)
		m->blocks[KV_WHOLE].share = m->blocks[KV_WINDOWED].share = 4;
}

void cuda_contexts_free(struct cuda_model *m)
{
	for (uint32_t i = 0; i < m->contexts * CUDA_KV_KINDS; i++) {
		struct cuda_blocks *b = &m->context[i / CUDA_KV_KINDS].kv[i % CUDA_KV_KINDS];
		cuda_give(m, GPU_CONTEXTS, b->table, b->table_room * sizeof b->table);
		free(b->block);
	}
	free(m->context);
	for (int kind = 0; kind < CUDA_KV_KINDS; kind++)
		cuda_pool_free(m, &m->blocks[kind]);
	m->context = NULL;
	m->contexts = 0;
}

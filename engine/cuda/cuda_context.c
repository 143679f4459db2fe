/* Copies of contexts on the GPU. See cuda_model.h.
 *
 * Layers with a window have blocks of their own, as in the context (kv_table.h): those before the window are
 * given back, and copied again when the text goes back.
 *
 * Main memory has the keys and values of every context, always: after each step the rows' keys and
 * values are copied there (cuda_step.c). So saving, forking and going back know nothing of the GPU, and
 * when it fails, the CPU goes on from where the last step ended. A copy here is a cache: of contexts
 * that have not been used for long it is given up, and made again when a step needs it.
 *
 * Recurrent states are too large for that. After a step the GPU alone has the state (RECURRENT_AWAY),
 * until somebody needs it in main memory. A state that is given up here meanwhile is computed again
 * (forward_begin).
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

/* The copy of a context; NULL: it has none. */
static struct cuda_context *cuda_context_find(struct cuda_model *m, const struct context *x)
{
	return x->copy.number ? cuda_context_of(m, x->copy.number) : NULL;
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
	if (c->state)
		cuda_pool_give(&m->states, c->state);
	c->state = 0;
	c->away = false;
	c->number = 0;
}

/* Whether c is given up before the other one: states that are nowhere else come last. */
static bool cuda_context_goes_first(const struct cuda_context *c, const struct cuda_context *other)
{
	return c->away == other->away ? c->last < other->last : !c->away;
}

/* Gives up the copy that was used longest ago, not by this step or a pass that waits. False: there is
 * none. */
static bool cuda_context_give_up(struct cuda_model *m)
{
	struct cuda_context *oldest = NULL;
	for (uint32_t i = 0; i < m->contexts; i++) {
		struct cuda_context *c = &m->context[i];
		if (c->number && !c->pass && c->last < m->steps &&
		    (!oldest || cuda_context_goes_first(c, oldest)))
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

static gpu_address cuda_context_take(struct cuda_model *m, struct cuda_pool *p, struct err *e)
{
	enum { TABLES = 1 << 20 }; /* bytes that blocks and states leave to tables */
	gpu_address piece;
	do
		piece = cuda_pool_take(m, p, TABLES, e);
	while (!piece && cuda_context_give_up(m));
	return piece;
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

/* Takes and fills the wanted blocks that are missing, and gives back those before them. Whole blocks are
 * copied: beyond its last position a block holds nothing that is read. */
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
			b->block[i] = cuda_context_take(m, &m->blocks[kind], e);
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

/* ---- recurrent states ---- */

/* Where the floats of a layer lie in a context's state; floats 0: the GPU does not compute the layer, or it
 * is not recurrent. */
struct cuda_state_part {
	size_t at, floats;
};
static struct cuda_state_part cuda_state_part_of(const struct cuda_model *m, uint32_t layer)
{
	const struct config *c = m->config;
	const struct recurrent_shape s = recurrent_shape_of(c, c->layer[layer].mixer);
	if (!s.width || !m->parts[layer].run[PART_MIXER])
		return (struct cuda_state_part){0};
	return (struct cuda_state_part){recurrent_layer_at(c, layer), recurrent_layer_floats(&s)};
}

/* 0: the GPU computes no recurrent layer. */
static size_t cuda_state_bytes(const struct cuda_model *m)
{
	bool some = false;
	for (uint32_t layer = 0; layer < m->config->layers; layer++)
		some |= cuda_state_part_of(m, layer).floats > 0;
	const size_t bytes = recurrent_state_floats(m->config) * sizeof(float);
	return some ? cuda_round_up(bytes, CUDA_ALIGNMENT) : 0;
}

/* A state of the CPU's layers stays as it is. */
static void cuda_copy_state(struct cuda_model *m, const struct cuda_context *c, float *now, bool in)
{
	for (uint32_t layer = 0; layer < m->config->layers; layer++) {
		const struct cuda_state_part part = cuda_state_part_of(m, layer);
		gpu_address there = c->state + part.at * sizeof *now;
		if (in)
			cuda_copy_in(m, there, now + part.at, part.floats * sizeof *now);
		else
			cuda_copy_out(m, now + part.at, there, part.floats * sizeof *now);
	}
}

static int cuda_context_load_state(struct cuda_model *m, struct cuda_context *c, struct context *x,
				   struct err *e)
{
	struct recurrent *r = &x->recurrent;
	if (!m->states.bytes)
		return 0;
	if (!c->state && r->copy == RECURRENT_AWAY)
		return err_set(e, ENOMEM, "the GPU has no room for the states of a step's contexts");
	if (!c->state) {
		r->copy = RECURRENT_NOT_COPIED;
		c->state = cuda_context_take(m, &m->states, e);
	}
	if (!c->state)
		return -ENOMEM;
	if (r->copy != RECURRENT_NOT_COPIED)
		return 0;
	cuda_copy_state(m, c, r->now, true);
	r->copy = RECURRENT_COPIED;
	c->away = false;
	return 0;
}

void cuda_context_moved(struct cuda_model *m, struct context *x)
{
	struct cuda_context *c = cuda_context_find(m, x);
	if (!c || !c->state || x->recurrent.copy == RECURRENT_NOT_COPIED)
		return;
	c->away = true;
	x->recurrent.copy = RECURRENT_AWAY;
}

bool cuda_has_state(const struct environment *env, const struct context *x)
{
	struct cuda_model *m = env->on_card;
	const struct cuda_context *c = cuda_context_find(m, x);
	return c && c->state && !m->failure.code;
}

bool cuda_bring_state(const struct environment *env, struct context *x)
{
	struct cuda_model *m = env->on_card;
	if (!cuda_has_state(env, x))
		return false;
	struct cuda_context *c = cuda_context_find(m, x);
	cuda_enter(m);
	cuda_copy_state(m, c, x->recurrent.now, false);
	c->away = false;
	return cuda_wait(m);
}

/* ---- for a step ---- */

void cuda_context_keep(struct cuda_model *m, const struct context *x, uint64_t pass)
{
	struct cuda_context *c = cuda_context_find(m, x);
	if (!c)
		return;
	c->last = m->steps;
	c->pass = pass;
}

const struct cuda_context *cuda_context_ready(struct cuda_model *m, struct context *x,
					      uint32_t position, uint32_t n, uint64_t pass)
{
	struct err e = {0};
	struct cuda_context *c = cuda_context_find(m, x);
	if (!c)
		c = cuda_context_add(m, x);
	int failed = c ? 0 : err_set(&e, ENOMEM, "out of memory for a list of contexts");
	if (!failed) {
		c->last = m->steps;
		c->pass = pass;
		failed = cuda_context_load_state(m, c, x, &e);
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
	m->states = (struct cuda_pool){
		.bytes = cuda_state_bytes(m), .share = 1, .use = GPU_CONTEXTS};
	if (!!m->blocks[KV_WHOLE].bytes + !!m->blocks[KV_WINDOWED].bytes + !!m->states.bytes > 1)
		m->blocks[KV_WHOLE].share = m->blocks[KV_WINDOWED].share = m->states.share = 4;
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
	cuda_pool_free(m, &m->states);
	m->context = NULL;
	m->contexts = 0;
}

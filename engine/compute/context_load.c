/* A context from the bytes that it was saved as. See context_save.h. */
#include "engine/compute/context_save.h"
#include "engine/compute/delta_state.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

void context_load_begin(struct context_load *l, const struct context *like, const struct config *c,
			uint32_t most, uint64_t bytes)
{
	*l = (struct context_load){.config = c, .most = most, .bytes = bytes};
	context_init(&l->x, like->budget, c, like->type);
}

/* ---- what has come ---- */

static int damaged(struct err *e)
{
	return err_set(e, EINVAL, "the computed context in it is damaged: its counts contradict");
}

static int check_head(const struct context_load *l, struct err *e)
{
	const struct context_head *h = &l->head;
	const struct context *x = &l->x;
	if (h->kv_type != (x->type == KV_F32) || h->block_bytes != x->block_used ||
	    h->state_bytes != x->note_at * sizeof(float))
		return err_set(e, EINVAL,
			       "the computed context in it is laid out for another model: %" PRIu64
			       " bytes a block, not %zu",
			       h->block_bytes, x->block_used);
	if (h->positions > l->most)
		return err_set(e, EFBIG,
			       "its context holds %" PRIu64 " tokens, but a session here %" PRIu32
			       "; mount with a larger -o context=",
			       h->positions, l->most);
	bool states = h->positions && h->state_bytes;
	if (h->states > CONTEXT_STATES || (h->states != 0) != states ||
	    context_head_bytes(h) != l->bytes)
		return damaged(e);
	return 0;
}

/* All that the counts ask for; copies only where there is room, and the latest first. */
static int take_memory(struct context_load *l, struct err *e)
{
	const uint32_t positions = (uint32_t)l->head.positions;
	struct token_list *ids = &l->x.tokens;
	static const uint32_t zeros[KV_BLOCK];
	int failed = positions ? context_reserve(&l->x, positions, e) : 0;
	for (uint32_t n = 0, piece; n < positions && !failed; n += piece) {
		piece = positions - n < KV_BLOCK ? positions - n : KV_BLOCK;
		failed = token_list_append(ids, zeros, piece, e);
	}
	if (failed || !l->head.states)
		return failed;
	l->states[l->head.states - 1].memory = l->x.recurrent.now;
	for (uint32_t i = l->head.states - 1; i-- > 0;)
		if (!(l->states[i].memory = recurrent_take_copy(&l->x.recurrent)))
			break;
	return 0;
}

static int head_came(struct context_load *l, struct err *e)
{
	int failed = check_head(l, e);
	return failed ? failed : take_memory(l, e);
}

static int ids_came(const struct context_load *l, struct err *e)
{
	for (uint64_t i = 0; i < l->head.positions; i++)
		if (l->x.tokens.ids[i] >= l->config->vocabulary)
			return err_set(
				e, EINVAL,
				"the computed context in it is damaged: it has token %" PRIu32
				", but the vocabulary is %" PRIu32,
				l->x.tokens.ids[i], l->config->vocabulary);
	return 0;
}

/* Of the last block nothing is kept but what the text has. */
struct clearing {
	char *at;
	size_t element;
};

static void clear_rows(void *ctx, size_t rows, size_t elements, size_t held)
{
	struct clearing *c = ctx;
	for (; rows; rows--, c->at += elements * c->element)
		memset(c->at + held * c->element, 0, (elements - held) * c->element);
}

static void block_came(const struct context_load *l, uint32_t i)
{
	size_t held = l->head.positions % KV_BLOCK;
	struct clearing c = {(char *)l->x.blocks[i], l->head.kv_type ? sizeof(float) : 2};
	if (held && i + 1 == l->x.block_count)
		context_block_rows(l->config, held, clear_rows, &c);
}

static int state_head_came(const struct context_load *l, uint32_t i, struct err *e)
{
	const struct context_state_head *h = &l->states[i].head;
	bool last = i + 1 == l->head.states;
	uint64_t before = i ? l->states[i - 1].head.position : 0;
	if (h->position <= before || h->position > l->head.positions ||
	    (h->position == l->head.positions) != last || h->behind > DELTA_BEHIND ||
	    h->behind > h->position)
		return damaged(e);
	return 0;
}

/* ---- pieces ---- */

/* They come in this order: head, ids, blocks, and of each state its head and itself. */
enum { PIECE_HEAD, PIECE_IDS, PIECE_BLOCKS };

static uint32_t pieces(const struct context_load *l)
{
	return PIECE_BLOCKS + l->x.block_count + 2 * l->head.states;
}

/* Where the piece at hand goes (NULL: nowhere), and how many bytes it has. */
static char *place(struct context_load *l, size_t *bytes)
{
	if (l->piece == PIECE_HEAD) {
		*bytes = sizeof l->head;
		return (char *)&l->head;
	}
	if (l->piece == PIECE_IDS) {
		*bytes = l->x.tokens.count * sizeof *l->x.tokens.ids;
		return (char *)l->x.tokens.ids;
	}
	uint32_t i = l->piece - PIECE_BLOCKS;
	if (i < l->x.block_count) {
		*bytes = l->x.block_used;
		return (char *)l->x.blocks[i];
	}
	i -= l->x.block_count;
	struct loaded_state *state = &l->states[i / 2];
	*bytes = i % 2 ? (size_t)l->head.state_bytes : sizeof state->head;
	return i % 2 ? (char *)state->memory : (char *)&state->head;
}

static int came(struct context_load *l, struct err *e)
{
	uint32_t i = l->piece - PIECE_BLOCKS;
	if (l->piece == PIECE_HEAD)
		return head_came(l, e);
	if (l->piece == PIECE_IDS)
		return ids_came(l, e);
	if (i < l->x.block_count)
		block_came(l, i);
	else if ((i - l->x.block_count) % 2 == 0)
		return state_head_came(l, (i - l->x.block_count) / 2, e);
	return 0;
}

int context_load_feed(struct context_load *l, const void *bytes, size_t n, struct err *e)
{
	const char *from = bytes;
	for (;;) {
		size_t whole;
		if (context_load_done(l))
			return n ? damaged(e) : 0;
		char *to = place(l, &whole);
		size_t step = whole - l->filled < n ? whole - l->filled : n;
		if (to && step)
			memcpy(to + l->filled, from, step);
		from += step;
		n -= step;
		l->filled += step;
		if (l->filled < whole)
			return 0;
		int failed = came(l, e);
		if (failed)
			return failed;
		l->piece++;
		l->filled = 0;
	}
}

bool context_load_done(const struct context_load *l)
{
	return l->piece && l->piece == pieces(l);
}

void context_load_end(struct context_load *l)
{
	for (uint32_t i = 0; i < l->head.states; i++) {
		struct loaded_state *s = &l->states[i];
		if (i + 1 == l->head.states)
			l->x.recurrent.behind = (uint32_t)s->head.behind;
		else if (s->memory)
			recurrent_add_mark(&l->x.recurrent, s->head.position,
					   (uint32_t)s->head.behind, s->memory);
		s->memory = NULL;
	}
}

void context_load_free(struct context_load *l)
{
	for (uint32_t i = 0; i + 1 < l->head.states && i < CONTEXT_STATES; i++)
		context_give(l->x.budget, l->states[i].memory, l->x.recurrent.bytes);
	context_free(&l->x);
	*l = (struct context_load){0};
}

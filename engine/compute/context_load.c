/* A context from the bytes that it was saved as. See context_save.h. */
#include "engine/compute/context_save.h"
#include "engine/compute/recurrent.h"

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

static int laid_out_otherwise(uint64_t theirs, uint64_t here, struct err *e)
{
	return err_set(e, EINVAL,
		       "the computed context in it is laid out for another model: %" PRIu64
		       " bytes a block, not %" PRIu64,
		       theirs, here);
}

static int check_head(const struct context_load *l, struct err *e)
{
	const struct context_head *h = &l->counts.head;
	const struct context *x = &l->x;
	uint64_t block_bytes = x->kv[KV_WHOLE].used;
	if (h->kv_type != (x->type == KV_F32) || h->block_bytes != block_bytes ||
	    h->state_bytes != x->note_at * sizeof(float))
		return laid_out_otherwise(h->block_bytes, block_bytes, e);
	if (h->positions > l->most)
		return err_set(e, EFBIG,
			       "its context holds %" PRIu64 " tokens, but a session here %" PRIu32
			       "; mount with a larger -o context=",
			       h->positions, l->most);
	bool states = h->positions && h->state_bytes;
	if (h->states > CONTEXT_STATES || (h->states != 0) != states)
		return damaged(e);
	return 0;
}

static int check_windows(const struct context_load *l, struct err *e)
{
	const struct context_window_head *w = &l->counts.windows;
	const struct kv_table *t = &l->x.kv[KV_WINDOWED];
	if (w->block_bytes != t->used || w->window != t->window)
		return laid_out_otherwise(w->block_bytes, t->used, e);
	return w->marks > MARKS_MOST ? damaged(e) : 0;
}

static int check_marks(const struct context_counts *c, struct err *e)
{
	for (uint32_t m = 0; m < c->windows.marks; m++)
		if (c->marks[m] <= (m ? c->marks[m - 1] : 0) || c->marks[m] > c->head.positions)
			return damaged(e);
	return 0;
}

/* All that the counts ask for; what is only there to be gone back to where there is room, and the
 * latest first. */
static int take_memory(struct context_load *l, struct err *e)
{
	const struct context_counts *c = &l->counts;
	const uint32_t positions = (uint32_t)c->head.positions;
	struct token_list *ids = &l->x.tokens;
	static const uint32_t zeros[KV_BLOCK];
	int failed = positions ? recurrent_reserve(&l->x.recurrent, e) : 0;
	for (enum kv_kind kind = 0; kind < KV_KINDS && !failed; kind++)
		failed = kv_take(&l->x.kv[kind], positions, c->marks,
				 kind == KV_WINDOWED ? c->windows.marks : 0, e);
	for (uint32_t n = 0, piece; n < positions && !failed; n += piece) {
		piece = positions - n < KV_BLOCK ? positions - n : KV_BLOCK;
		failed = token_list_append(ids, zeros, piece, e);
	}
	uint32_t states = c->head.states;
	if (failed || !states)
		return failed;
	l->states[states - 1].memory = l->x.recurrent.now;
	for (uint32_t i = states - 1; i-- > 0;)
		if (!(l->states[i].memory = recurrent_take_copy(&l->x.recurrent)))
			break;
	return 0;
}

/* All counts are there: now their sum is known, and what they ask for. */
static int counts_came(struct context_load *l, struct err *e)
{
	int failed = check_marks(&l->counts, e);
	if (!failed && context_counts_bytes(&l->counts) != l->bytes)
		failed = damaged(e);
	return failed ? failed : take_memory(l, e);
}

static int ids_came(const struct context_load *l, struct err *e)
{
	for (uint64_t i = 0; i < l->counts.head.positions; i++)
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

static void block_came(const struct context_load *l, enum kv_kind kind, uint32_t i)
{
	const struct context_head *h = &l->counts.head;
	const void *block = context_has_block(&l->counts, kind, i) ? l->x.kv[kind].blocks[i] : NULL;
	size_t held = h->positions % KV_BLOCK;
	struct clearing c = {(char *)block, h->kv_type ? sizeof(float) : 2};
	if (block && held && i + 1 == kv_blocks((uint32_t)h->positions))
		context_block_rows(l->config, kind, held, clear_rows, &c);
}

static int state_head_came(const struct context_load *l, uint32_t i, struct err *e)
{
	const struct context_state_head *h = &l->states[i].head;
	bool last = i + 1 == l->counts.head.states;
	uint64_t before = i ? l->states[i - 1].head.position : 0;
	if (h->position <= before || h->position > l->counts.head.positions ||
	    (h->position == l->counts.head.positions) != last || h->behind > RECURRENT_BEHIND ||
	    h->behind > h->position)
		return damaged(e);
	return 0;
}

/* ---- pieces ---- */

/* They come in this order: counts, ids, blocks of each kind, and of each state its head and itself.
 * What there is none of has a piece of no bytes. */
enum { PIECE_HEAD, PIECE_WINDOWS, PIECE_MARKS, PIECE_IDS, PIECE_BLOCKS };

static uint32_t blocks_of_kind(const struct context_load *l)
{
	return kv_blocks((uint32_t)l->counts.head.positions);
}

static uint32_t pieces(const struct context_load *l)
{
	return PIECE_BLOCKS + KV_KINDS * blocks_of_kind(l) + 2 * l->counts.head.states;
}

static char *place_block(const struct context_load *l, enum kv_kind kind, uint32_t i, size_t *bytes)
{
	const struct context_counts *c = &l->counts;
	*bytes = context_has_block(c, kind, i) ? (size_t)context_block_bytes(c, kind) : 0;
	return *bytes ? (char *)l->x.kv[kind].blocks[i] : NULL;
}

static char *place_state(struct context_load *l, uint32_t i, size_t *bytes)
{
	struct loaded_state *state = &l->states[i / 2];
	*bytes = i % 2 ? (size_t)l->counts.head.state_bytes : sizeof state->head;
	return i % 2 ? (char *)state->memory : (char *)&state->head;
}

/* Where the piece at hand goes (NULL: nowhere), and how many bytes it has. */
static char *place(struct context_load *l, size_t *bytes)
{
	struct context_counts *c = &l->counts;
	uint32_t i = l->piece - PIECE_BLOCKS, blocks = blocks_of_kind(l);
	switch (l->piece) {
	case PIECE_HEAD:
		*bytes = sizeof c->head;
		return (char *)&c->head;
	case PIECE_WINDOWS:
		*bytes = l->x.kv[KV_WINDOWED].used ? sizeof c->windows : 0;
		return (char *)&c->windows;
	case PIECE_MARKS:
		*bytes = c->windows.marks * sizeof *c->marks;
		return (char *)c->marks;
	case PIECE_IDS:
		*bytes = l->x.tokens.count * sizeof *l->x.tokens.ids;
		return (char *)l->x.tokens.ids;
	default:
		return i < KV_KINDS * blocks ? place_block(l, i / blocks, i % blocks, bytes)
					     : place_state(l, i - KV_KINDS * blocks, bytes);
	}
}

static int came(struct context_load *l, struct err *e)
{
	uint32_t i = l->piece - PIECE_BLOCKS, blocks = blocks_of_kind(l);
	switch (l->piece) {
	case PIECE_HEAD:
		return check_head(l, e);
	case PIECE_WINDOWS:
		return check_windows(l, e);
	case PIECE_MARKS:
		return counts_came(l, e);
	case PIECE_IDS:
		return ids_came(l, e);
	default:
		break;
	}
	if (i < KV_KINDS * blocks)
		block_came(l, i / blocks, i % blocks);
	else if ((i - KV_KINDS * blocks) % 2 == 0)
		return state_head_came(l, (i - KV_KINDS * blocks) / 2, e);
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
	const struct context_counts *c = &l->counts;
	for (uint32_t i = 0; i < c->head.states; i++) {
		struct loaded_state *s = &l->states[i];
		if (i + 1 == c->head.states)
			l->x.recurrent.behind = (uint32_t)s->head.behind;
		else if (s->memory)
			recurrent_add_mark(&l->x.recurrent, s->head.position,
					   (uint32_t)s->head.behind, s->memory);
		s->memory = NULL;
	}
	kv_set_marks(&l->x.kv[KV_WINDOWED], c->marks, c->windows.marks);
}

void context_load_free(struct context_load *l)
{
	for (uint32_t i = 0; i + 1 < l->counts.head.states && i < CONTEXT_STATES; i++)
		context_give(l->x.budget, l->states[i].memory, l->x.recurrent.bytes);
	context_free(&l->x);
	*l = (struct context_load){0};
}

/* Contexts as bytes: saving and loading. See context_save.h. */
#include "engine/compute/context_save.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "contexts are saved as they lie there");
_Static_assert(sizeof(struct context_head) == 32 && sizeof(struct context_window_head) == 16 &&
		       sizeof(struct context_state_head) == 16,
	       "no padding is saved");

/* ---- the format ---- */

static uint64_t context_block_bytes(const struct context_counts *c, enum kv_kind kind)
{
	return kind == KV_WHOLE ? c->head.block_bytes : c->windows.block_bytes;
}

/* Whether a block of a kind is saved. */
static bool context_has_block(const struct context_counts *c, enum kv_kind kind, uint32_t block)
{
	if (kind == KV_WHOLE)
		return c->head.block_bytes;
	bool has = kv_sees(c->windows.window, c->head.positions, block);
	for (uint32_t i = 0; i < c->windows.checkpoints; i++)
		has = has || kv_sees(c->windows.window, c->checkpoints[i], block);
	return has && c->windows.block_bytes;
}

/* Bytes of the part about windows; 0 in a model without. */
static uint64_t context_windows_bytes(const struct context_counts *c)
{
	const struct context_window_head *w = &c->windows;
	return w->block_bytes ? sizeof *w + w->checkpoints * sizeof *c->checkpoints : 0;
}

/* Bytes in all, of counts that have been checked. */
static uint64_t context_counts_bytes(const struct context_counts *c)
{
	const struct context_head *h = &c->head;
	uint64_t bytes = sizeof *h + context_windows_bytes(c) + h->positions * sizeof(uint32_t);
	for (uint32_t i = 0; i < kv_blocks((uint32_t)h->positions); i++)
		for (enum kv_kind kind = 0; kind < KV_KINDS; kind++)
			if (context_has_block(c, kind, i))
				bytes += context_block_bytes(c, kind);
	return bytes + h->states * (sizeof(struct context_state_head) + h->state_bytes);
}

/* Calls `each` for the arrays of a block of which only the first `held` positions are computed:
 * `rows` adjacent rows of `elements`, of which the first `used` are computed. Keys lie
 * [head_dim][64], latents likewise, and values [64][head_dim]. */
typedef void context_rows_fn(void *ctx, size_t rows, size_t elements, size_t used);
static void context_block_rows(const struct config *c, enum kv_kind kind, size_t held,
			       context_rows_fn *each, void *ctx)
{
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		const struct layer *l = &c->layer[layer];
		if (config_kv_kind(l) != kind)
			continue;
		if (l->mixer == MIXER_LATENT)
			each(ctx, config_kv_width(c, layer), KV_BLOCK, held);
		for (uint32_t h = 0; l->mixer == MIXER_ATTENTION && h < l->kv_heads; h++) {
			each(ctx, l->head_dim, KV_BLOCK, held);
			each(ctx, 1, (size_t)KV_BLOCK * l->head_dim, held * l->head_dim);
		}
	}
}

/* ---- saving: taking hold ---- */

static int context_save_blocks(struct context_save *s, const struct context *x, enum kv_kind kind,
			       struct err *e)
{
	const struct kv_table *t = &x->kv[kind];
	struct saved_blocks *to = &s->kv[kind];
	s->block_count = kv_blocks((uint32_t)s->counts.head.positions);
	to->mapped = t->bytes;
	to->blocks = calloc(s->block_count + 1, sizeof *to->blocks);
	to->sharers = calloc(s->block_count + 1, sizeof *to->sharers);
	if (!to->blocks || !to->sharers)
		return err_set(e, ENOMEM, "out of memory for saving a context");
	for (uint32_t i = 0; i < s->block_count; i++) {
		if (!context_has_block(&s->counts, kind, i))
			continue;
		to->sharers[i] = sharing_join(&t->sharers[i], e);
		if (!to->sharers[i])
			return -e->code;
		to->blocks[i] = t->blocks[i];
	}
	return 0;
}

static int context_save_state(struct context_save *s, size_t position, uint32_t behind,
			      const float *state, sharers **have, struct err *e)
{
	struct saved_state *to = &s->states[s->counts.head.states];
	to->sharers = sharing_join(have, e);
	if (!to->sharers)
		return -e->code;
	to->head = (struct context_state_head){position, behind};
	to->memory = state;
	s->counts.head.states++;
	return 0;
}

/* Whether the state at the end is saved, and not only checkpoints. */
static bool context_saves_end(const struct context *x)
{
	return x->tokens.count && x->recurrent.now && !x->recurrent.spoiled;
}

/* How many checkpoints of the state are saved: those before the end. The budget's lock is held. */
static uint32_t context_saved_checkpoints(const struct context *x)
{
	const struct recurrent *r = &x->recurrent;
	uint32_t n = r->checkpoint_count;
	while (n && r->checkpoints[n - 1].position > x->tokens.count - context_saves_end(x))
		n--;
	return n;
}

static struct context_head context_head_of(const struct context *x)
{
	return (struct context_head){
		.kv_type = x->type == KV_F32,
		.positions = x->tokens.count,
		.block_bytes = x->kv[KV_WHOLE].used,
		.state_bytes = x->note_at * sizeof(float),
	};
}

/* The budget's lock is held. */
static void context_count_windows(struct context_counts *to, const struct context *x)
{
	const struct kv_table *t = &x->kv[KV_WINDOWED];
	if (!t->used)
		return;
	to->windows = (struct context_window_head){t->used, t->window, t->checkpoint_count};
	for (uint32_t i = 0; i < t->checkpoint_count; i++)
		to->checkpoints[i] = t->checkpoints[i];
}

uint64_t context_save_size(const struct context *x)
{
	struct context_counts c = {.head = context_head_of(x)};
	pthread_mutex_lock(&x->budget->lock);
	context_count_windows(&c, x);
	if (x->recurrent.bytes) {
		uint32_t n = context_saved_checkpoints(x);
		c.head.states = n + context_saves_end(x);
		if (!context_saves_end(x))
			c.head.positions = n ? x->recurrent.checkpoints[n - 1].position : 0;
	}
	pthread_mutex_unlock(&x->budget->lock);
	return context_counts_bytes(&c);
}

/* Takes hold of the checkpoints, and of the state at the end if it is there. The last of them says
 * how many positions are saved. Under the budget's lock, or checkpoints could give way. */
static int context_save_states(struct context_save *s, struct context *x, struct err *e)
{
	struct recurrent *r = &x->recurrent;
	int failed = 0;
	pthread_mutex_lock(&s->budget->lock);
	for (uint32_t i = 0, n = context_saved_checkpoints(x); i < n && !failed; i++) {
		struct recurrent_checkpoint *c = &r->checkpoints[i];
		failed = context_save_state(s, c->position, c->behind, c->state, &c->sharers, e);
	}
	pthread_mutex_unlock(&s->budget->lock);
	if (!failed && context_saves_end(x))
		failed = context_save_state(s, x->tokens.count, r->behind, r->now, &r->now_sharers,
					    e);
	struct context_head *h = &s->counts.head;
	h->positions = h->states ? s->states[h->states - 1].head.position : 0;
	return failed;
}

int context_save_open(struct context_save *s, struct context *x, const struct config *c,
		      struct err *e)
{
	int failed = 0;
	*s = (struct context_save){
		.budget = x->budget,
		.config = c,
		.counts.head = context_head_of(x),
		.state_mapped = x->recurrent.bytes,
	};
	if (x->recurrent.bytes)
		failed = context_save_states(s, x, e);
	if (!failed)
		failed = context_save_blocks(s, x, KV_WHOLE, e);
	if (!failed) { /* under the lock, or checkpoints could give way */
		pthread_mutex_lock(&s->budget->lock);
		context_count_windows(&s->counts, x);
		failed = context_save_blocks(s, x, KV_WINDOWED, e);
		pthread_mutex_unlock(&s->budget->lock);
	}
	size_t ids = s->counts.head.positions * sizeof *s->ids;
	if (!failed && !(s->ids = malloc(ids + 1)))
		failed = err_set(e, ENOMEM, "out of memory for saving a context");
	if (failed)
		context_save_close(s);
	else if (ids)
		memcpy(s->ids, x->tokens.ids, ids);
	return failed;
}

void context_save_close(struct context_save *s)
{
	for (int kind = 0; kind < KV_KINDS; kind++) {
		struct saved_blocks *b = &s->kv[kind];
		for (uint32_t i = 0; i < s->block_count && b->blocks && b->sharers; i++)
			sharing_leave(s->budget, b->blocks[i], b->mapped, b->sharers[i]);
		free(b->blocks);
		free(b->sharers);
	}
	for (uint32_t i = 0; i < s->counts.head.states; i++)
		sharing_leave(s->budget, s->states[i].memory, s->state_mapped,
			      s->states[i].sharers);
	free(s->ids);
	*s = (struct context_save){0};
}

/* ---- saving: reading ---- */

uint64_t context_save_bytes(const struct context_save *s)
{
	return context_counts_bytes(&s->counts);
}

/* A read that goes over one part after the other, and skips what is before its offset. */
struct context_reading {
	uint64_t skip;
	char *to;
	size_t left;
};

/* How many of a part's bytes are read, and in *from the first of them. */
static size_t context_read_range(struct context_reading *r, uint64_t bytes, uint64_t *from)
{
	if (r->skip >= bytes || !r->left) {
		r->skip -= r->skip < bytes ? r->skip : bytes;
		return 0;
	}
	*from = r->skip;
	r->skip = 0;
	return bytes - *from < r->left ? (size_t)(bytes - *from) : r->left;
}

static void context_read_part(struct context_reading *r, const void *part, uint64_t bytes)
{
	uint64_t from;
	size_t n = context_read_range(r, bytes, &from);
	if (!n)
		return;
	memcpy(r->to, (const char *)part + from, n);
	r->to += n;
	r->left -= n;
}

struct context_block_reading {
	struct context_reading *r;
	const char *at;
	size_t element;
};

/* Rows of the last block: positions behind the end, which may hold what was taken back, are read as
 * zeros. */
static void context_read_rows(void *ctx, size_t rows, size_t elements, size_t used)
{
	struct context_block_reading *b = ctx;
	uint64_t from;
	size_t row = elements * b->element, text = used * b->element;
	for (; rows; rows--, b->at += row) {
		context_read_part(b->r, b->at, text);
		size_t n = context_read_range(b->r, row - text, &from);
		memset(b->r->to, 0, n);
		b->r->to += n;
		b->r->left -= n;
	}
}

void context_save_read(const struct context_save *s, uint64_t offset, void *to, size_t n)
{
	struct context_reading r = {offset, to, n};
	const struct context_counts *c = &s->counts;
	uint64_t windows = context_windows_bytes(c);
	context_read_part(&r, &c->head, sizeof c->head);
	if (windows) {
		context_read_part(&r, &c->windows, sizeof c->windows);
		context_read_part(&r, c->checkpoints, windows - sizeof c->windows);
	}
	context_read_part(&r, s->ids, c->head.positions * sizeof *s->ids);
	size_t held = c->head.positions % KV_BLOCK, element = c->head.kv_type ? sizeof(float) : 2;
	for (enum kv_kind kind = 0; kind < KV_KINDS; kind++)
		for (uint32_t i = 0; i < s->block_count; i++) {
			const void *block = s->kv[kind].blocks[i];
			if (block && held && i + 1 == s->block_count)
				context_block_rows(
					s->config, kind, held, context_read_rows,
					&(struct context_block_reading){&r, block, element});
			else if (block)
				context_read_part(&r, block, context_block_bytes(c, kind));
		}
	for (uint32_t i = 0; i < c->head.states; i++) {
		context_read_part(&r, &s->states[i].head, sizeof s->states[i].head);
		context_read_part(&r, s->states[i].memory, c->head.state_bytes);
	}
}

/* ---- loading: checks ---- */

void context_load_begin(struct context_load *l, const struct context *like, const struct config *c,
			uint32_t most, uint64_t bytes)
{
	*l = (struct context_load){.config = c, .most = most, .bytes = bytes};
	context_init(&l->x, like->budget, c, like->type);
}

static int context_damaged(struct err *e)
{
	return err_set(e, EINVAL,
		       "the computed context in it is damaged: its counts contradict each other");
}

static int context_other_layout(uint64_t theirs, uint64_t here, struct err *e)
{
	return err_set(e, EINVAL,
		       "the computed context in it is laid out for another model: %" PRIu64
		       " bytes a block, not %" PRIu64,
		       theirs, here);
}

static int context_check_head(const struct context_load *l, struct err *e)
{
	const struct context_head *h = &l->counts.head;
	const struct context *x = &l->x;
	uint64_t block_bytes = x->kv[KV_WHOLE].used;
	if (h->kv_type != (x->type == KV_F32) || h->block_bytes != block_bytes ||
	    h->state_bytes != x->note_at * sizeof(float))
		return context_other_layout(h->block_bytes, block_bytes, e);
	if (h->positions > l->most)
		return err_set(e, EFBIG,
			       "its context holds %" PRIu64 " tokens, but a session here %" PRIu32
			       "; mount with a larger -o context=",
			       h->positions, l->most);
	bool states = h->positions && h->state_bytes;
	if (h->states > CONTEXT_STATES || (h->states != 0) != states)
		return context_damaged(e);
	return 0;
}

static int context_check_windows(const struct context_load *l, struct err *e)
{
	const struct context_window_head *w = &l->counts.windows;
	const struct kv_table *t = &l->x.kv[KV_WINDOWED];
	if (w->block_bytes != t->used || w->window != t->window)
		return context_other_layout(w->block_bytes, t->used, e);
	return w->checkpoints > KV_CHECKPOINTS ? context_damaged(e) : 0;
}

/* Takes the memory that the counts ask for; that of checkpoints where there is room, and the latest
 * first. */
static int context_load_take(struct context_load *l, struct err *e)
{
	const struct context_counts *c = &l->counts;
	const uint32_t positions = (uint32_t)c->head.positions;
	static const uint32_t zeros[KV_BLOCK];
	int failed = positions ? recurrent_reserve(&l->x.recurrent, e) : 0;
	for (enum kv_kind kind = 0; kind < KV_KINDS && !failed; kind++)
		failed = kv_take(&l->x.kv[kind], positions, c->checkpoints,
				 kind == KV_WINDOWED ? c->windows.checkpoints : 0, e);
	for (uint32_t n = 0, piece; n < positions && !failed; n += piece) {
		piece = positions - n < KV_BLOCK ? positions - n : KV_BLOCK;
		failed = token_list_append(&l->x.tokens, zeros, piece, e);
	}
	uint32_t states = c->head.states;
	if (failed || !states)
		return failed;
	l->states[states - 1].memory = l->x.recurrent.now;
	for (uint32_t i = states - 1; i-- > 0;)
		if (!(l->states[i].memory = recurrent_take_checkpoint(&l->x.recurrent)))
			break;
	return 0;
}

/* All counts have come: checks their sum, and takes the memory. */
static int context_check_counts(struct context_load *l, struct err *e)
{
	const struct context_counts *c = &l->counts;
	for (uint32_t i = 0; i < c->windows.checkpoints; i++)
		if (c->checkpoints[i] <= (i ? c->checkpoints[i - 1] : 0) ||
		    c->checkpoints[i] > c->head.positions)
			return context_damaged(e);
	if (context_counts_bytes(c) != l->bytes)
		return context_damaged(e);
	return context_load_take(l, e);
}

static int context_check_ids(const struct context_load *l, struct err *e)
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

static int context_check_state_head(const struct context_load *l, uint32_t i, struct err *e)
{
	const struct context_state_head *h = &l->states[i].head;
	bool last = i + 1 == l->counts.head.states;
	uint64_t before = i ? l->states[i - 1].head.position : 0;
	if (h->position <= before || h->position > l->counts.head.positions ||
	    (h->position == l->counts.head.positions) != last || h->behind > RECURRENT_BEHIND ||
	    h->behind > h->position)
		return context_damaged(e);
	return 0;
}

struct context_clearing {
	char *at;
	size_t element;
};

/* Clears the positions behind the end in the last block. */
static void context_clear_rows(void *ctx, size_t rows, size_t elements, size_t used)
{
	struct context_clearing *c = ctx;
	for (; rows; rows--, c->at += elements * c->element)
		memset(c->at + used * c->element, 0, (elements - used) * c->element);
}

/* ---- loading: pieces ---- */

/* Pieces come in this order: counts, ids, blocks of each kind, and of each state its head and
 * itself. A piece that the model does not have has no bytes. */
enum { PIECE_HEAD, PIECE_WINDOWS, PIECE_CHECKPOINTS, PIECE_IDS, PIECE_BLOCKS };

/* Which block or half of a state the piece at hand is. */
struct context_piece {
	bool block, state;
	enum kv_kind kind; /* of a block */
	uint32_t index;	   /* the block's, or twice the state's, plus one for the state itself */
};

static struct context_piece context_piece_of(const struct context_load *l)
{
	uint32_t blocks = kv_blocks((uint32_t)l->counts.head.positions);
	if (l->piece < PIECE_BLOCKS)
		return (struct context_piece){0};
	uint32_t i = l->piece - PIECE_BLOCKS;
	if (i < KV_KINDS * blocks)
		return (struct context_piece){
			.block = true, .kind = i / blocks, .index = i % blocks};
	return (struct context_piece){.state = true, .index = i - KV_KINDS * blocks};
}

/* Where the piece at hand goes (NULL: nowhere), and how many bytes it has. */
static char *context_piece_place(struct context_load *l, size_t *bytes)
{
	struct context_counts *c = &l->counts;
	struct context_piece p = context_piece_of(l);
	if (p.block) {
		bool has = context_has_block(c, p.kind, p.index);
		*bytes = has ? (size_t)context_block_bytes(c, p.kind) : 0;
		return has ? (char *)l->x.kv[p.kind].blocks[p.index] : NULL;
	}
	if (p.state) {
		struct loaded_state *state = &l->states[p.index / 2];
		*bytes = p.index % 2 ? (size_t)c->head.state_bytes : sizeof state->head;
		return p.index % 2 ? (char *)state->memory : (char *)&state->head;
	}
	switch (l->piece) {
	case PIECE_HEAD:
		*bytes = sizeof c->head;
		return (char *)&c->head;
	case PIECE_WINDOWS:
		*bytes = l->x.kv[KV_WINDOWED].used ? sizeof c->windows : 0;
		return (char *)&c->windows;
	case PIECE_CHECKPOINTS:
		*bytes = c->windows.checkpoints * sizeof *c->checkpoints;
		return (char *)c->checkpoints;
	default:
		*bytes = l->x.tokens.count * sizeof *l->x.tokens.ids;
		return (char *)l->x.tokens.ids;
	}
}

/* The piece at hand has come. */
static int context_check_piece(struct context_load *l, struct err *e)
{
	const struct context_head *h = &l->counts.head;
	struct context_piece p = context_piece_of(l);
	size_t held = h->positions % KV_BLOCK;
	if (p.block) {
		bool has = context_has_block(&l->counts, p.kind, p.index),
		     last = p.index + 1 == kv_blocks((uint32_t)h->positions);
		struct context_clearing c = {has ? (char *)l->x.kv[p.kind].blocks[p.index] : NULL,
					     h->kv_type ? sizeof(float) : 2};
		if (c.at && held && last)
			context_block_rows(l->config, p.kind, held, context_clear_rows, &c);
		return 0;
	}
	if (p.state)
		return p.index % 2 ? 0 : context_check_state_head(l, p.index / 2, e);
	switch (l->piece) {
	case PIECE_HEAD:
		return context_check_head(l, e);
	case PIECE_WINDOWS:
		return context_check_windows(l, e);
	case PIECE_CHECKPOINTS:
		return context_check_counts(l, e);
	default:
		return context_check_ids(l, e);
	}
}

int context_load_feed(struct context_load *l, const void *bytes, size_t n, struct err *e)
{
	const char *from = bytes;
	for (;;) {
		size_t whole;
		if (context_load_done(l))
			return n ? context_damaged(e) : 0;
		char *to = context_piece_place(l, &whole);
		size_t step = whole - l->filled < n ? whole - l->filled : n;
		if (to && step)
			memcpy(to + l->filled, from, step);
		from += step;
		n -= step;
		l->filled += step;
		if (l->filled < whole)
			return 0;
		int failed = context_check_piece(l, e);
		if (failed)
			return failed;
		l->piece++;
		l->filled = 0;
	}
}

bool context_load_done(const struct context_load *l)
{
	uint32_t blocks = KV_KINDS * kv_blocks((uint32_t)l->counts.head.positions);
	return l->piece && l->piece == PIECE_BLOCKS + blocks + 2 * l->counts.head.states;
}

void context_load_end(struct context_load *l)
{
	const struct context_counts *c = &l->counts;
	for (uint32_t i = 0; i < c->head.states; i++) {
		struct loaded_state *s = &l->states[i];
		if (i + 1 == c->head.states)
			l->x.recurrent.behind = (uint32_t)s->head.behind;
		else if (s->memory)
			recurrent_add_checkpoint(&l->x.recurrent, s->head.position,
						 (uint32_t)s->head.behind, s->memory);
		s->memory = NULL;
	}
	kv_set_checkpoints(&l->x.kv[KV_WINDOWED], c->checkpoints, c->windows.checkpoints);
}

void context_load_free(struct context_load *l)
{
	for (uint32_t i = 0; i + 1 < l->counts.head.states && i < CONTEXT_STATES; i++)
		context_give(l->x.budget, l->states[i].memory, l->x.recurrent.bytes);
	context_free(&l->x);
	*l = (struct context_load){0};
}

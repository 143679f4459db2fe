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

/* Whether a block of a kind is saved. */
static bool context_has_block(const struct context_counts *c, enum kv_kind kind, uint32_t block)
{
	if (kind == KV_WHOLE)
		return c->head.block_bytes;
	if (kind == KV_INDEX)
		return c->index_bytes;
	bool has = kv_sees(c->windows.window, c->head.positions, block);
	for (uint32_t i = 0; i < c->windows.checkpoints; i++)
		has = has || kv_sees(c->windows.window, c->checkpoints[i], block);
	return has && c->windows.block_bytes;
}

/* A saved context is a row of pieces. A piece that the model or the context does not have has no
 * bytes. */
enum context_part {
	PART_HEAD,
	PART_WINDOWS,
	PART_INDEX,
	PART_CHECKPOINTS,
	PART_IDS,
	PART_BLOCK,
	PART_STATE_HEAD,
	PART_STATE,
};

struct context_piece {
	enum context_part part;
	enum kv_kind kind; /* of a block */
	uint32_t index;	   /* of a state */
	bool ends;	   /* block in which the text ends */
	void *at;	   /* NULL: nowhere */
	uint64_t bytes;
};

/* Piece number i; false: there are only i pieces. Needs the counts that come before the piece. */
static bool context_piece(const struct context_parts *s, uint32_t i, struct context_piece *p)
{
	const struct context_counts *c = &s->counts;
	uint32_t blocks = kv_blocks((uint32_t)c->head.positions);
	*p = (struct context_piece){.part = i};
	switch (i) {
	case PART_HEAD:
		p->at = (void *)&c->head;
		p->bytes = sizeof c->head;
		return true;
	case PART_WINDOWS:
		p->at = (void *)&c->windows;
		p->bytes = c->windowed ? sizeof c->windows : 0;
		return true;
	case PART_INDEX:
		p->at = (void *)&c->index_bytes;
		p->bytes = c->indexed ? sizeof c->index_bytes : 0;
		return true;
	case PART_CHECKPOINTS:
		p->at = (void *)c->checkpoints;
		p->bytes = c->windows.checkpoints * sizeof *c->checkpoints;
		return true;
	case PART_IDS:
		p->at = s->ids;
		p->bytes = c->head.positions * sizeof *s->ids;
		return true;
	default:
		i -= PART_BLOCK;
		break;
	}
	if (i < KV_KINDS * blocks) {
		uint32_t block = i % blocks;
		p->part = PART_BLOCK;
		p->kind = i / blocks;
		if (!context_has_block(c, p->kind, block))
			return true;
		p->ends = block + 1 == blocks && c->head.positions % KV_BLOCK;
		p->at = s->blocks[p->kind] ? (void *)s->blocks[p->kind][block] : NULL;
		p->bytes = p->kind == KV_WHOLE	  ? c->head.block_bytes
			   : p->kind == KV_INDEX ? c->index_bytes
						 : c->windows.block_bytes;
		return true;
	}
	i -= KV_KINDS * blocks;
	p->index = i / 2;
	if (p->index >= c->head.states)
		return false;
	const struct context_state *state = &s->states[p->index];
	p->part = i % 2 ? PART_STATE : PART_STATE_HEAD;
	p->at = i % 2 ? (void *)state->memory : (void *)&state->head;
	p->bytes = i % 2 ? c->head.state_bytes : sizeof state->head;
	return true;
}

/* Bytes in all, of counts that have been checked. */
static uint64_t context_parts_bytes(const struct context_parts *s)
{
	struct context_piece p;
	uint64_t bytes = 0;
	for (uint32_t i = 0; context_piece(s, i, &p); i++)
		bytes += p.bytes;
	return bytes;
}

/* As they are numbered in what is saved. */
static const enum kv_type context_types[] = {KV_F16, KV_F32, KV_Q8, KV_Q4, KV_Q8Q4};
_Static_assert(sizeof context_types / sizeof *context_types == KV_TYPES, "each has a number");

static uint32_t context_type_number(enum kv_type type)
{
	uint32_t i = 0;
	while (context_types[i] != type)
		i++;
	return i;
}

static void context_index_rows(const struct config *c, uint32_t layer, size_t held,
			       kv_rows_fn *each, void *ctx)
{
	uint32_t ratio = config_pools(c) ? c->chooser.ratio : 1;
	if (config_index_width(c, layer))
		each(ctx, c->chooser.dim, KV_BLOCK / ratio, held / ratio);
	const struct layer *l = &c->layer[layer];
	if (l->pool)
		each(ctx, l->head_dim, context_entry_columns(l->pool), held / l->pool);
}

/* A layer keeps one row of each position for each of what it keeps; they lie as values do. */
static void context_past_rows(const struct config *c, uint32_t layer, size_t held, kv_rows_fn *each,
			      void *ctx)
{
	for (enum past_part part = 0; part < PAST_PARTS; part++) {
		uint64_t width = config_past_part(c, &c->layer[layer], part);
		if (width)
			each(ctx, 1, KV_BLOCK * width, held * width);
	}
}

/* Calls `each` for the arrays of a block of which only the first `held` positions are computed
 * (kv_key_rows). Index keys lie [dim][64], or fewer. */
static void context_block_rows(const struct config *c, enum kv_type type, enum kv_kind kind,
			       size_t held, kv_rows_fn *each, void *ctx)
{
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		const struct layer *l = &c->layer[layer];
		bool here = config_kv_kind(l) == kind && !l->keys_of;
		if (kind == KV_INDEX)
			context_index_rows(c, layer, held, each, ctx);
		if (here && config_keeps_latents(l))
			kv_key_rows(type, c->latent.rank + c->latent.rope, c->latent.rank, held,
				    each, ctx);
		for (uint32_t h = 0; here && l->mixer == MIXER_ATTENTION && h < l->kv_heads; h++) {
			kv_key_rows(type, l->head_dim, 0, held, each, ctx);
			kv_value_rows(type, l->head_dim, held, each, ctx);
		}
		if (kind == KV_WINDOWED)
			context_past_rows(c, layer, held, each, ctx);
	}
}

/* ---- saving: taking hold ---- */

static int context_save_blocks(struct context_save *s, const struct context *x, enum kv_kind kind,
			       struct err *e)
{
	const struct kv_table *t = &x->kv[kind];
	s->block_count = kv_blocks((uint32_t)s->parts.counts.head.positions);
	const void **blocks = calloc(s->block_count + 1, sizeof *blocks);
	s->parts.blocks[kind] = blocks;
	s->sharers[kind] = calloc(s->block_count + 1, sizeof *s->sharers[kind]);
	s->mapped[kind] = t->bytes;
	if (!blocks || !s->sharers[kind])
		return err_set(e, ENOMEM, "out of memory for saving a context");
	for (uint32_t i = 0; i < s->block_count; i++) {
		if (!context_has_block(&s->parts.counts, kind, i))
			continue;
		s->sharers[kind][i] = sharing_join(&t->sharers[i], e);
		if (!s->sharers[kind][i])
			return -e->code;
		blocks[i] = t->blocks[i];
	}
	return 0;
}

static int context_save_state(struct context_save *s, size_t position, uint32_t behind,
			      float *state, sharers **have, struct err *e)
{
	uint32_t i = s->parts.counts.head.states;
	s->state_sharers[i] = sharing_join(have, e);
	if (!s->state_sharers[i])
		return -e->code;
	s->parts.states[i] = (struct context_state){{position, behind}, state};
	s->parts.counts.head.states++;
	return 0;
}

/* Whether the state at the end is saved, and not only checkpoints. */
static bool context_saves_end(const struct context *x)
{
	return x->tokens.count && x->recurrent.now && !recurrent_stale(&x->recurrent);
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

/* Whether keys are turned as a long text's follows from the number of positions that are saved: so
 * the beginning of a long text is left out. */
static size_t context_saved_positions(const struct context *x)
{
	return x->long_text == context_is_long(x, x->tokens.count) ? x->tokens.count : 0;
}

static struct context_head context_head_of(const struct context *x)
{
	return (struct context_head){
		.kv_type = context_type_number(x->type),
		.positions = context_saved_positions(x),
		.block_bytes = x->kv[KV_WHOLE].used,
		.state_bytes = x->note_at * sizeof(float),
	};
}

/* The budget's lock is held. */
static void context_count_windows(struct context_counts *to, const struct context *x)
{
	const struct kv_table *t = &x->kv[KV_WINDOWED];
	to->windowed = t->used;
	if (!t->used)
		return;
	to->windows = (struct context_window_head){t->used, t->window, t->checkpoint_count};
	for (uint32_t i = 0; i < t->checkpoint_count; i++)
		to->checkpoints[i] = t->checkpoints[i];
}

/* Whether there are index keys, and how many bytes a block of them has. */
static void context_count_index(struct context_counts *to, const struct context *x)
{
	to->index_bytes = x->kv[KV_INDEX].used;
	to->indexed = to->index_bytes;
}

uint64_t context_save_size(const struct context *x)
{
	struct context_parts parts = {.counts.head = context_head_of(x)};
	struct context_head *h = &parts.counts.head;
	context_count_index(&parts.counts, x);
	pthread_mutex_lock(&x->budget->lock);
	context_count_windows(&parts.counts, x);
	if (x->recurrent.bytes) {
		uint32_t n = context_saved_checkpoints(x);
		h->states = n + context_saves_end(x);
		if (!context_saves_end(x))
			h->positions = n ? x->recurrent.checkpoints[n - 1].position : 0;
	}
	pthread_mutex_unlock(&x->budget->lock);
	return context_parts_bytes(&parts);
}

/* Takes hold of the checkpoints, and of the state at the end if it is there. The last of them says
 * how many positions are saved. Under the budget's lock, or checkpoints could give way. */
static int context_save_states(struct context_save *s, struct context *x, struct err *e)
{
	struct recurrent *r = &x->recurrent;
	struct context_head *h = &s->parts.counts.head;
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
	h->positions = h->states ? s->parts.states[h->states - 1].head.position : 0;
	return failed;
}

int context_save_open(struct context_save *s, struct context *x, const struct config *c,
		      struct err *e)
{
	int failed = 0;
	*s = (struct context_save){
		.budget = x->budget,
		.config = c,
		.parts.counts.head = context_head_of(x),
		.state_mapped = x->recurrent.bytes,
	};
	context_count_index(&s->parts.counts, x);
	if (x->recurrent.bytes)
		failed = context_save_states(s, x, e);
	if (!failed)
		failed = context_save_blocks(s, x, KV_WHOLE, e);
	if (!failed)
		failed = context_save_blocks(s, x, KV_INDEX, e);
	if (!failed) { /* under the lock, or checkpoints could give way */
		pthread_mutex_lock(&s->budget->lock);
		context_count_windows(&s->parts.counts, x);
		failed = context_save_blocks(s, x, KV_WINDOWED, e);
		pthread_mutex_unlock(&s->budget->lock);
	}
	size_t ids = s->parts.counts.head.positions * sizeof *s->parts.ids;
	if (!failed && !(s->parts.ids = malloc(ids + 1)))
		failed = err_set(e, ENOMEM, "out of memory for saving a context");
	if (failed)
		context_save_close(s);
	else if (ids)
		memcpy(s->parts.ids, x->tokens.ids, ids);
	return failed;
}

void context_save_close(struct context_save *s)
{
	for (int kind = 0; kind < KV_KINDS; kind++) {
		const void **blocks = s->parts.blocks[kind];
		for (uint32_t i = 0; i < s->block_count && blocks && s->sharers[kind]; i++)
			sharing_leave(s->budget, blocks[i], s->mapped[kind], s->sharers[kind][i]);
		free(blocks);
		free(s->sharers[kind]);
	}
	for (uint32_t i = 0; i < s->parts.counts.head.states; i++)
		sharing_leave(s->budget, s->parts.states[i].memory, s->state_mapped,
			      s->state_sharers[i]);
	free(s->parts.ids);
	*s = (struct context_save){0};
}

/* ---- saving: becoming a context ---- */

static void context_become_table(struct context_save *s, enum kv_kind kind, struct kv_table *t)
{
	const struct context_counts *c = &s->parts.counts;
	if (!t->used)
		return;
	t->blocks = s->parts.blocks[kind];
	t->sharers = s->sharers[kind];
	t->count = s->block_count;
	t->room = s->block_count + 1;
	t->from = kv_seen_from(t->window, c->head.positions);
	s->parts.blocks[kind] = NULL;
	s->sharers[kind] = NULL;
	if (t->window)
		kv_set_checkpoints(t, c->checkpoints, c->windows.checkpoints);
}

static void context_become_states(struct context_save *s, struct recurrent *r)
{
	uint32_t states = s->parts.counts.head.states;
	for (uint32_t i = 0; i < states; i++) {
		const struct context_state *state = &s->parts.states[i];
		uint32_t behind = (uint32_t)state->head.behind;
		if (i + 1 < states) {
			recurrent_add_checkpoint(r, state->head.position, behind, state->memory,
						 s->state_sharers[i]);
		} else {
			r->now = state->memory;
			r->now_sharers = s->state_sharers[i];
			r->behind = behind;
		}
	}
	s->parts.counts.head.states = 0;
}

void context_save_become(struct context_save *s, struct context *x)
{
	size_t positions = s->parts.counts.head.positions;
	for (enum kv_kind kind = 0; kind < KV_KINDS; kind++)
		context_become_table(s, kind, &x->kv[kind]);
	context_become_states(s, &x->recurrent);
	x->tokens = (struct token_list){s->parts.ids, positions, positions};
	x->long_text = context_is_long(x, positions);
	s->parts.ids = NULL;
}

/* ---- saving: reading ---- */

uint64_t context_save_bytes(const struct context_save *s)
{
	return context_parts_bytes(&s->parts);
}

uint64_t context_save_next(const struct context_save *s, uint32_t *part)
{
	struct context_piece p;
	uint64_t bytes = 0;
	while (context_piece(&s->parts, *part, &p)) {
		++*part;
		bytes += p.bytes;
		if (bytes && p.part >= PART_IDS)
			break;
	}
	return bytes;
}

/* A read from an offset: goes over the pieces one after the other, skipping the first `skip` bytes.
 */
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
	const struct context_head *h = &s->parts.counts.head;
	struct context_piece p;
	for (uint32_t i = 0; r.left && context_piece(&s->parts, i, &p); i++) {
		enum kv_type type = context_types[h->kv_type];
		struct context_block_reading block = {&r, p.at, kv_type_element(type)};
		if (p.ends)
			context_block_rows(s->config, type, p.kind, h->positions % KV_BLOCK,
					   context_read_rows, &block);
		else
			context_read_part(&r, p.at, p.bytes);
	}
}

/* ---- loading: checks ---- */

void context_load_begin(struct context_load *l, const struct context *like, const struct config *c,
			uint32_t most, uint64_t bytes)
{
	*l = (struct context_load){.config = c, .most = most, .bytes = bytes};
	context_init(&l->x, like->budget, c, like->type);
	l->parts.counts.windowed = l->x.kv[KV_WINDOWED].used;
	l->parts.counts.indexed = l->x.kv[KV_INDEX].used;
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
	const struct context_head *h = &l->parts.counts.head;
	const struct context *x = &l->x;
	uint64_t block_bytes = x->kv[KV_WHOLE].used;
	if (h->kv_type != context_type_number(x->type) || h->block_bytes != block_bytes ||
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
	const struct context_window_head *w = &l->parts.counts.windows;
	const struct kv_table *t = &l->x.kv[KV_WINDOWED];
	if (w->block_bytes != t->used || w->window != t->window)
		return context_other_layout(w->block_bytes, t->used, e);
	return w->checkpoints > KV_CHECKPOINTS ? context_damaged(e) : 0;
}

static int context_check_index(const struct context_load *l, struct err *e)
{
	uint64_t theirs = l->parts.counts.index_bytes, here = l->x.kv[KV_INDEX].used;
	return theirs == here ? 0 : context_other_layout(theirs, here, e);
}

/* Takes the memory that the counts ask for; for checkpoints only if there is room, for the latest
 * first. */
static int context_load_take(struct context_load *l, struct err *e)
{
	const struct context_counts *c = &l->parts.counts;
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
	l->parts.ids = l->x.tokens.ids;
	for (int kind = 0; kind < KV_KINDS; kind++)
		l->parts.blocks[kind] = l->x.kv[kind].blocks;
	uint32_t states = c->head.states;
	if (failed || !states)
		return failed;
	l->parts.states[states - 1].memory = l->x.recurrent.now;
	for (uint32_t i = states - 1; i-- > 0;)
		if (!(l->parts.states[i].memory = recurrent_take_checkpoint(&l->x.recurrent)))
			break;
	return 0;
}

/* All counts have come: checks their sum, and takes the memory. */
static int context_check_counts(struct context_load *l, struct err *e)
{
	const struct context_counts *c = &l->parts.counts;
	for (uint32_t i = 0; i < c->windows.checkpoints; i++)
		if (c->checkpoints[i] <= (i ? c->checkpoints[i - 1] : 0) ||
		    c->checkpoints[i] > c->head.positions)
			return context_damaged(e);
	if (context_parts_bytes(&l->parts) != l->bytes)
		return context_damaged(e);
	return context_load_take(l, e);
}

static int context_check_ids(const struct context_load *l, struct err *e)
{
	for (uint64_t i = 0; i < l->parts.counts.head.positions; i++)
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
	const struct context_state_head *h = &l->parts.states[i].head;
	bool last = i + 1 == l->parts.counts.head.states;
	uint64_t before = i ? l->parts.states[i - 1].head.position : 0;
	if (h->position <= before || h->position > l->parts.counts.head.positions ||
	    (h->position == l->parts.counts.head.positions) != last ||
	    h->behind > RECURRENT_BEHIND || h->behind > h->position)
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

/* Checks a piece that has come as a whole. */
static int context_check_piece(struct context_load *l, const struct context_piece *p, struct err *e)
{
	const struct context_head *h = &l->parts.counts.head;
	struct context_clearing block = {p->at, kv_type_element(l->x.type)};
	switch (p->part) {
	case PART_HEAD:
		return context_check_head(l, e);
	case PART_WINDOWS:
		return context_check_windows(l, e);
	case PART_INDEX:
		return context_check_index(l, e);
	case PART_CHECKPOINTS:
		return context_check_counts(l, e);
	case PART_IDS:
		return context_check_ids(l, e);
	case PART_STATE_HEAD:
		return context_check_state_head(l, p->index, e);
	default:
		if (p->ends)
			context_block_rows(l->config, l->x.type, p->kind, h->positions % KV_BLOCK,
					   context_clear_rows, &block);
		return 0;
	}
}

int context_load_feed(struct context_load *l, const void *bytes, size_t n, struct err *e)
{
	const char *from = bytes;
	struct context_piece p;
	while (context_piece(&l->parts, l->piece, &p)) {
		size_t left = (size_t)p.bytes - l->filled, step = left < n ? left : n;
		if (p.at && step)
			memcpy((char *)p.at + l->filled, from, step);
		from += step;
		n -= step;
		l->filled += step;
		if (step < left)
			return 0;
		int failed = context_check_piece(l, &p, e);
		if (failed)
			return failed;
		l->piece++;
		l->filled = 0;
	}
	return n ? context_damaged(e) : 0;
}

bool context_load_done(const struct context_load *l)
{
	struct context_piece p;
	return !context_piece(&l->parts, l->piece, &p);
}

void context_load_end(struct context_load *l)
{
	const struct context_counts *c = &l->parts.counts;
	for (uint32_t i = 0; i < c->head.states; i++) {
		struct context_state *s = &l->parts.states[i];
		if (i + 1 == c->head.states)
			l->x.recurrent.behind = (uint32_t)s->head.behind;
		else if (s->memory)
			recurrent_add_checkpoint(&l->x.recurrent, s->head.position,
						 (uint32_t)s->head.behind, s->memory, NULL);
		s->memory = NULL;
	}
	kv_set_checkpoints(&l->x.kv[KV_WINDOWED], c->checkpoints, c->windows.checkpoints);
	l->x.long_text = context_is_long(&l->x, l->x.tokens.count);
}

void context_load_free(struct context_load *l)
{
	for (uint32_t i = 0; i + 1 < l->parts.counts.head.states && i < CONTEXT_STATES; i++)
		context_give(l->x.budget, l->parts.states[i].memory, l->x.recurrent.bytes);
	context_free(&l->x);
	*l = (struct context_load){0};
}

#include "engine/compute/context_save.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "contexts are saved as they lie there");
_Static_assert(sizeof(struct context_head) == 32 && sizeof(struct context_window_head) == 16 &&
		       sizeof(struct context_state_head) == 16,
	       "no padding is saved");

/* ---- counts ---- */

uint64_t context_block_bytes(const struct context_counts *c, enum kv_kind kind)
{
	return kind == KV_WHOLE ? c->head.block_bytes : c->windows.block_bytes;
}

bool context_has_block(const struct context_counts *c, enum kv_kind kind, uint32_t block)
{
	if (kind == KV_WHOLE)
		return c->head.block_bytes;
	bool has = kv_sees(c->windows.window, c->head.positions, block);
	for (uint32_t m = 0; m < c->windows.marks; m++)
		has = has || kv_sees(c->windows.window, c->marks[m], block);
	return has && c->windows.block_bytes;
}

/* What is said of windows, in a model that has them. */
static uint64_t windows_bytes(const struct context_counts *c)
{
	const struct context_window_head *w = &c->windows;
	return w->block_bytes ? sizeof *w + w->marks * sizeof *c->marks : 0;
}

uint64_t context_counts_bytes(const struct context_counts *c)
{
	const struct context_head *h = &c->head;
	uint64_t bytes = sizeof *h + windows_bytes(c) + h->positions * sizeof(uint32_t);
	for (uint32_t i = 0; i < kv_blocks((uint32_t)h->positions); i++)
		for (enum kv_kind kind = 0; kind < KV_KINDS; kind++)
			if (context_has_block(c, kind, i))
				bytes += context_block_bytes(c, kind);
	return bytes + h->states * (sizeof(struct context_state_head) + h->state_bytes);
}

/* Keys lie [head_dim][64], latents likewise, and values [64][head_dim]. */
void context_block_rows(const struct config *c, enum kv_kind kind, size_t held,
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

/* ---- taking hold ---- */

static int hold_blocks(struct context_save *s, const struct context *x, enum kv_kind kind,
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

static int hold_state(struct context_save *s, size_t position, uint32_t behind, const float *state,
		      sharers **have, struct err *e)
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

/* Whether the state itself is among those that are saved, and not only copies of it. */
static bool whole(const struct context *x)
{
	return x->tokens.count && x->recurrent.now && !x->recurrent.spoiled;
}

/* How many copies are saved: those before the state itself. The budget's lock is held. */
static uint32_t copies(const struct context *x)
{
	const struct recurrent *r = &x->recurrent;
	uint32_t n = r->mark_count;
	while (n && r->marks[n - 1].position > x->tokens.count - whole(x))
		n--;
	return n;
}

static struct context_head head_of(const struct context *x)
{
	return (struct context_head){
		.kv_type = x->type == KV_F32,
		.positions = x->tokens.count,
		.block_bytes = x->kv[KV_WHOLE].used,
		.state_bytes = x->note_at * sizeof(float),
	};
}

/* The budget's lock is held. */
static void count_windows(struct context_counts *to, const struct context *x)
{
	const struct kv_table *t = &x->kv[KV_WINDOWED];
	if (!t->used)
		return;
	to->windows = (struct context_window_head){t->used, t->window, t->mark_count};
	for (uint32_t m = 0; m < t->mark_count; m++)
		to->marks[m] = t->marks[m];
}

uint64_t context_save_size(const struct context *x)
{
	struct context_counts c = {.head = head_of(x)};
	pthread_mutex_lock(&x->budget->lock);
	count_windows(&c, x);
	if (x->recurrent.bytes) {
		uint32_t n = copies(x);
		c.head.states = n + whole(x);
		if (!whole(x))
			c.head.positions = n ? x->recurrent.marks[n - 1].position : 0;
	}
	pthread_mutex_unlock(&x->budget->lock);
	return context_counts_bytes(&c);
}

/* The copies, and the state itself if it is whole; and so how many positions are saved. A copy may
 * give way at any moment but under the budget's lock. */
static int hold_states(struct context_save *s, struct context *x, struct err *e)
{
	struct recurrent *r = &x->recurrent;
	int failed = 0;
	pthread_mutex_lock(&s->budget->lock);
	for (uint32_t i = 0, n = copies(x); i < n && !failed; i++) {
		struct recurrent_mark *m = &r->marks[i];
		failed = hold_state(s, m->position, m->behind, m->state, &m->sharers, e);
	}
	pthread_mutex_unlock(&s->budget->lock);
	if (!failed && whole(x))
		failed = hold_state(s, x->tokens.count, r->behind, r->now, &r->now_sharers, e);
	struct context_head *h = &s->counts.head;
	h->positions = h->states ? s->states[h->states - 1].head.position : 0;
	return failed;
}

/* A mark may give way at any moment but under the budget's lock. */
static int hold_windows(struct context_save *s, const struct context *x, struct err *e)
{
	pthread_mutex_lock(&s->budget->lock);
	count_windows(&s->counts, x);
	int failed = hold_blocks(s, x, KV_WINDOWED, e);
	pthread_mutex_unlock(&s->budget->lock);
	return failed;
}

int context_save_open(struct context_save *s, struct context *x, const struct config *c,
		      struct err *e)
{
	int failed = 0;
	*s = (struct context_save){
		.budget = x->budget,
		.config = c,
		.counts.head = head_of(x),
		.state_mapped = x->recurrent.bytes,
	};
	if (x->recurrent.bytes)
		failed = hold_states(s, x, e);
	if (!failed)
		failed = hold_blocks(s, x, KV_WHOLE, e);
	if (!failed)
		failed = hold_windows(s, x, e);
	size_t ids = s->counts.head.positions * sizeof *s->ids;
	if (!failed && !(s->ids = malloc(ids + 1)))
		failed = err_set(e, ENOMEM, "out of memory for saving a context");
	if (failed)
		context_save_close(s);
	else if (ids)
		memcpy(s->ids, x->tokens.ids, ids);
	return failed;
}

static void leave_blocks(struct context_save *s, struct saved_blocks *b)
{
	for (uint32_t i = 0; i < s->block_count && b->blocks && b->sharers; i++)
		sharing_leave(s->budget, b->blocks[i], b->mapped, b->sharers[i]);
	free(b->blocks);
	free(b->sharers);
}

void context_save_close(struct context_save *s)
{
	for (int kind = 0; kind < KV_KINDS; kind++)
		leave_blocks(s, &s->kv[kind]);
	for (uint32_t i = 0; i < s->counts.head.states; i++)
		sharing_leave(s->budget, s->states[i].memory, s->state_mapped,
			      s->states[i].sharers);
	free(s->ids);
	*s = (struct context_save){0};
}

/* ---- giving ---- */

uint64_t context_save_bytes(const struct context_save *s)
{
	return context_counts_bytes(&s->counts);
}

/* A read that goes over one part after the other: what is before it is skipped. */
struct reading {
	uint64_t skip;
	char *to;
	size_t left;
};

/* How much of a part of so many bytes is read, and from where in it. */
static size_t part_of(struct reading *r, uint64_t bytes, uint64_t *from)
{
	if (r->skip >= bytes || !r->left) {
		r->skip -= r->skip < bytes ? r->skip : bytes;
		return 0;
	}
	*from = r->skip;
	r->skip = 0;
	return bytes - *from < r->left ? (size_t)(bytes - *from) : r->left;
}

static void give(struct reading *r, const void *part, uint64_t bytes)
{
	uint64_t from;
	size_t n = part_of(r, bytes, &from);
	if (!n)
		return;
	memcpy(r->to, (const char *)part + from, n);
	r->to += n;
	r->left -= n;
}

/* The last block: what was taken back is nobody's business. */
struct part_block {
	struct reading *r;
	const char *at;
	size_t element;
};

static void give_rows(void *ctx, size_t rows, size_t elements, size_t held)
{
	struct part_block *p = ctx;
	uint64_t from;
	size_t row = elements * p->element, text = held * p->element;
	for (; rows; rows--, p->at += row) {
		give(p->r, p->at, text);
		size_t n = part_of(p->r, row - text, &from);
		memset(p->r->to, 0, n);
		p->r->to += n;
		p->r->left -= n;
	}
}

static void give_blocks(struct reading *r, const struct context_save *s, enum kv_kind kind)
{
	const struct context_head *h = &s->counts.head;
	size_t held = h->positions % KV_BLOCK, element = h->kv_type ? sizeof(float) : 2;
	for (uint32_t i = 0; i < s->block_count; i++) {
		const void *block = s->kv[kind].blocks[i];
		if (block && held && i + 1 == s->block_count)
			context_block_rows(s->config, kind, held, give_rows,
					   &(struct part_block){r, block, element});
		else if (block)
			give(r, block, context_block_bytes(&s->counts, kind));
	}
}

void context_save_read(const struct context_save *s, uint64_t offset, void *to, size_t n)
{
	struct reading r = {offset, to, n};
	const struct context_counts *c = &s->counts;
	uint64_t windows = windows_bytes(c);
	give(&r, &c->head, sizeof c->head);
	if (windows) {
		give(&r, &c->windows, sizeof c->windows);
		give(&r, c->marks, windows - sizeof c->windows);
	}
	give(&r, s->ids, c->head.positions * sizeof *s->ids);
	for (enum kv_kind kind = 0; kind < KV_KINDS; kind++)
		give_blocks(&r, s, kind);
	for (uint32_t i = 0; i < c->head.states; i++) {
		give(&r, &s->states[i].head, sizeof s->states[i].head);
		give(&r, s->states[i].memory, c->head.state_bytes);
	}
}

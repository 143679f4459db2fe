#include "engine/compute/context_save.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "contexts are saved as they lie there");
_Static_assert(sizeof(struct context_head) == 32 && sizeof(struct context_state_head) == 16,
	       "no padding is saved");

uint64_t context_head_bytes(const struct context_head *h)
{
	uint64_t blocks = context_blocks((uint32_t)h->positions);
	return sizeof *h + h->positions * sizeof(uint32_t) + blocks * h->block_bytes +
	       h->states * (sizeof(struct context_state_head) + h->state_bytes);
}

/* Keys lie [head_dim][64], latents likewise, and values [64][head_dim]. */
void context_block_rows(const struct config *c, size_t held, context_rows_fn *each, void *ctx)
{
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		const struct layer *l = &c->layer[layer];
		if (l->mixer == MIXER_LATENT)
			each(ctx, config_kv_width(c, layer), KV_BLOCK, held);
		for (uint32_t h = 0; l->mixer == MIXER_ATTENTION && h < l->kv_heads; h++) {
			each(ctx, l->head_dim, KV_BLOCK, held);
			each(ctx, 1, (size_t)KV_BLOCK * l->head_dim, held * l->head_dim);
		}
	}
}

/* ---- taking hold ---- */

static int hold_blocks(struct context_save *s, const struct context *x, struct err *e)
{
	uint32_t n = x->block_bytes ? context_blocks((uint32_t)s->head.positions) : 0;
	s->blocks = calloc(n + 1, sizeof *s->blocks);
	s->block_sharers = calloc(n + 1, sizeof *s->block_sharers);
	if (!s->blocks || !s->block_sharers)
		return err_set(e, ENOMEM, "out of memory for saving a context");
	for (; s->block_count < n; s->block_count++) {
		uint32_t i = s->block_count;
		s->block_sharers[i] = sharing_join(&x->sharers[i], e);
		if (!s->block_sharers[i])
			return -e->code;
		s->blocks[i] = x->blocks[i];
	}
	return 0;
}

static int hold_state(struct context_save *s, size_t position, uint32_t behind, const float *state,
		      sharers **have, struct err *e)
{
	struct saved_state *to = &s->states[s->head.states];
	to->sharers = sharing_join(have, e);
	if (!to->sharers)
		return -e->code;
	to->head = (struct context_state_head){position, behind};
	to->memory = state;
	s->head.states++;
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
		.block_bytes = x->block_used,
		.state_bytes = x->note_at * sizeof(float),
	};
}

uint64_t context_save_size(const struct context *x)
{
	struct context_head h = head_of(x);
	if (x->recurrent.bytes) {
		pthread_mutex_lock(&x->budget->lock);
		uint32_t n = copies(x);
		h.states = n + whole(x);
		if (!whole(x))
			h.positions = n ? x->recurrent.marks[n - 1].position : 0;
		pthread_mutex_unlock(&x->budget->lock);
	}
	return context_head_bytes(&h);
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
	s->head.positions = s->head.states ? s->states[s->head.states - 1].head.position : 0;
	return failed;
}

int context_save_open(struct context_save *s, struct context *x, const struct config *c,
		      struct err *e)
{
	int failed = 0;
	*s = (struct context_save){
		.budget = x->budget,
		.config = c,
		.head = head_of(x),
		.block_mapped = x->block_bytes,
		.state_mapped = x->recurrent.bytes,
	};
	if (x->recurrent.bytes)
		failed = hold_states(s, x, e);
	if (!failed)
		failed = hold_blocks(s, x, e);
	size_t ids = s->head.positions * sizeof *s->ids;
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
	for (uint32_t i = 0; i < s->block_count; i++)
		sharing_leave(s->budget, s->blocks[i], s->block_mapped, s->block_sharers[i]);
	for (uint32_t i = 0; i < s->head.states; i++)
		sharing_leave(s->budget, s->states[i].memory, s->state_mapped,
			      s->states[i].sharers);
	free(s->blocks);
	free(s->block_sharers);
	free(s->ids);
	*s = (struct context_save){0};
}

/* ---- giving ---- */

uint64_t context_save_bytes(const struct context_save *s)
{
	return context_head_bytes(&s->head);
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

void context_save_read(const struct context_save *s, uint64_t offset, void *to, size_t n)
{
	struct reading r = {offset, to, n};
	const struct context_head *h = &s->head;
	size_t held = h->positions % KV_BLOCK, element = h->kv_type ? sizeof(float) : 2;
	give(&r, h, sizeof *h);
	give(&r, s->ids, h->positions * sizeof *s->ids);
	for (uint32_t i = 0; i < s->block_count; i++)
		if (held && i + 1 == s->block_count)
			context_block_rows(s->config, held, give_rows,
					   &(struct part_block){&r, s->blocks[i], element});
		else
			give(&r, s->blocks[i], h->block_bytes);
	for (uint32_t i = 0; i < h->states; i++) {
		give(&r, &s->states[i].head, sizeof s->states[i].head);
		give(&r, s->states[i].memory, h->state_bytes);
	}
}

/* Contexts: what a text takes in all tables and states, continuing and going back. See context.h.
 */
#include "engine/compute/context.h"

#include <errno.h>
#include <string.h>

/* width: elements of a position's keys and values, or of a block of index keys; codes: bytes of a block,
 * where it has codes. */
static void context_init_table(struct context *x, enum kv_kind kind, uint32_t window,
			       uint64_t width, uint64_t codes)
{
	uint64_t floats = width * (kind == KV_INDEX ? 1 : KV_BLOCK) * kv_type_element(x->type);
	kv_init(&x->kv[kind], x->budget, window, (size_t)(kv_type_codes(x->type) ? codes : floats));
}

void context_init(struct context *x, struct context_budget *budget, const struct config *c,
		  enum kv_type type)
{
	size_t state = recurrent_state_floats(c);
	uint32_t width = c->draft && state ? c->hidden_size : 0;
	*x = (struct context){.budget = budget,
			      .type = type,
			      .limit = c->rope_limit,
			      .note_at = state,
			      .note_width = width};
	recurrent_init(&x->recurrent, budget, state + (width ? width + 1 : 0));
	context_init_table(x, KV_WHOLE, 0, c->kv_width[KV_WHOLE], c->codes_bytes[KV_WHOLE][type]);
	context_init_table(x, KV_WINDOWED, c->window, c->kv_width[KV_WINDOWED],
			   c->codes_bytes[KV_WINDOWED][type]);
	x->whole_q8 = c->codes_bytes[KV_WHOLE][KV_Q8];
	context_init_table(x, KV_INDEX, 0, c->kv_width[KV_INDEX], 0);
}

/* All positions stay, whatever the layer sees: a drafter goes back as it likes. */
void context_init_draft(struct context *x, struct context_budget *budget, const struct config *c,
			enum kv_type type)
{
	enum kv_kind own = config_kv_kind(&c->layer[c->layers]);
	*x = (struct context){.budget = budget, .type = type, .copy.never = true};
	recurrent_init(&x->recurrent, budget, 0);
	for (enum kv_kind kind = 0; kind < KV_KINDS; kind++)
		context_init_table(x, kind, 0, kind == own ? config_kv_width(c, c->layers) : 0,
				   kind == own ? config_draft_codes(c, type) : 0);
}

uint64_t context_kv_bytes(const struct context *x, uint32_t positions, uint32_t step)
{
	uint64_t bytes = 0;
	for (int kind = 0; kind < KV_KINDS; kind++)
		bytes += kv_full_bytes(&x->kv[kind], positions, step);
	return bytes;
}

uint64_t context_full_bytes(const struct config *c, enum kv_type type, uint32_t positions,
			    uint32_t step)
{
	struct context x;
	context_init(&x, NULL, c, type);
	return context_kv_bytes(&x, positions, step) +
	       (uint64_t)(1 + RECURRENT_CHECKPOINTS) * x.recurrent.bytes;
}

void context_move(struct context *to, struct context *from)
{
	recurrent_move(&to->recurrent, &from->recurrent);
	for (int kind = 0; kind < KV_KINDS; kind++)
		kv_move(&to->kv[kind], &from->kv[kind]);
	to->tokens = from->tokens;
	to->long_text = from->long_text;
	to->copy = from->copy;
	from->tokens = (struct token_list){0};
	from->copy = (struct context_copy){0};
}

int context_fork(struct context *to, struct context *from, struct err *e)
{
	const struct token_list *tokens = &from->tokens;
	int failed = 0;
	to->long_text = from->long_text;
	for (int kind = 0; kind < KV_KINDS && !failed; kind++)
		failed = kv_share(&to->kv[kind], &from->kv[kind], tokens->count, e);
	if (!failed)
		failed = recurrent_share(&to->recurrent, &from->recurrent, tokens->count, e);
	if (!failed)
		failed = token_list_append(&to->tokens, tokens->ids, tokens->count, e);
	return failed;
}

uint64_t context_own_bytes(const struct context *x)
{
	uint64_t bytes = recurrent_own_bytes(&x->recurrent);
	for (int kind = 0; kind < KV_KINDS; kind++)
		bytes += kv_own_bytes(&x->kv[kind]);
	return bytes;
}

int context_reserve(struct context *x, uint32_t positions, struct err *e)
{
	int failed = recurrent_reserve(&x->recurrent, e);
	for (int kind = 0; kind < KV_KINDS && !failed; kind++)
		failed = kv_reserve(&x->kv[kind], x->tokens.count, positions, e);
	return failed;
}

/* A text that finds no room: what its keys and values would take as codes. */
static int context_name_q8(const struct context *x, uint32_t positions, struct err *e)
{
	uint64_t blocks = kv_blocks(positions);
	if (e->code != ENOSPC || kv_type_codes(x->type) || !x->whole_q8)
		return -e->code;
	return err_because(e, e, e->code,
			   "%s; keys and values of %u tokens take %.1f MB, with -o kv=q8 %.1f MB",
			   e->text, positions, (double)(blocks * x->kv[KV_WHOLE].used) / 1e6,
			   (double)(blocks * x->whole_q8) / 1e6);
}

int context_reserve_text(struct context *x, uint32_t positions, struct err *e)
{
	int failed = kv_reserve(&x->kv[KV_WHOLE], x->tokens.count, positions, e);
	if (!failed)
		failed = kv_reserve(&x->kv[KV_INDEX], x->tokens.count, positions, e);
	return failed ? context_name_q8(x, positions, e) : 0;
}

/* ---- where keys and values lie ---- */

size_t context_key_offset(enum kv_type type, const struct layer *l, uint32_t kv_head)
{
	if (!kv_type_codes(type))
		return ((size_t)l->kv_at + (size_t)kv_head * 2 * l->head_dim) * KV_BLOCK;
	size_t head =
		kv_head ? kv_key_bytes(type, l->head_dim, 0) + kv_value_bytes(type, l->head_dim)
			: 0; /* latents have one alone */
	return (size_t)l->codes_at[type] + kv_head * head;
}

size_t context_value_offset(enum kv_type type, const struct layer *l, uint32_t kv_head)
{
	size_t keys = context_key_offset(type, l, kv_head);
	if (l->mixer != MIXER_ATTENTION)
		return keys; /* there are no values */
	return keys + kv_key_bytes(type, l->head_dim, 0) / kv_type_element(type);
}

size_t context_rollback(struct context *x, size_t count)
{
	size_t held = x->tokens.count, to = count < held ? count : held;
	do {
		x->tokens.count = to = recurrent_rollback(&x->recurrent, held, to);
		held = to;
		for (int kind = 0; kind < KV_KINDS; kind++)
			to = kv_rollback(&x->kv[kind], to);
	} while (to < held);
	context_changed(x, to);
	return to;
}

void context_suit(struct context *x, size_t positions)
{
	bool is = context_is_long(x, positions);
	if (x->long_text != is)
		(void)context_rollback(x, 0);
	x->long_text = is;
}

void context_checkpoint(struct context *x, size_t position)
{
	size_t held = x->tokens.count;
	if (position == held)
		recurrent_checkpoint(&x->recurrent, held);
	for (int kind = 0; kind < KV_KINDS; kind++)
		kv_checkpoint(&x->kv[kind], held, position);
}

/* The note: the row, and then the position that it belongs to. */
static float *context_note_of(const struct context *x)
{
	return x->note_width && x->recurrent.now ? x->recurrent.now + x->note_at : NULL;
}

void context_note(struct context *x, const float *row)
{
	uint32_t position = (uint32_t)x->tokens.count;
	struct err ignored; /* without room there is no note, and a draft less */
	if (!context_note_of(x) || recurrent_reserve(&x->recurrent, &ignored))
		return;
	float *note = context_note_of(x);
	memcpy(note, row, x->note_width * sizeof *note);
	memcpy(note + x->note_width, &position, sizeof position);
}

const float *context_noted(const struct context *x)
{
	const float *note = context_note_of(x);
	uint32_t position = 0;
	if (note)
		memcpy(&position, note + x->note_width, sizeof position);
	return position && position == x->tokens.count ? note : NULL;
}

/* ---- what is kept of the last positions ---- */

static size_t context_past_offset(size_t at, size_t width, size_t position)
{
	return at * KV_BLOCK + position % KV_BLOCK * width;
}

void context_past_put(const struct context *x, size_t at, size_t width, size_t position,
		      const float *row)
{
	void *block = (void *)x->kv[KV_WINDOWED].blocks[position / KV_BLOCK];
	size_t to = context_past_offset(at, width, position);
	if (x->type == KV_F32)
		memcpy((float *)block + to, row, width * sizeof *row);
	else
		for (size_t i = 0; i < width; i++)
			((uint16_t *)block)[to + i] = f16_from_f32(row[i]);
}

void context_past_get(const struct context *x, size_t at, size_t width, size_t position,
		      size_t first, size_t n, float *to)
{
	const void *block = x->kv[KV_WINDOWED].blocks[position / KV_BLOCK];
	size_t from = context_past_offset(at, width, position) + first;
	if (x->type == KV_F32)
		memcpy(to, (const float *)block + from, n * sizeof *to);
	else
		for (size_t i = 0; i < n; i++)
			to[i] = f16_to_f32(((const uint16_t *)block)[from + i]);
}

void context_free(struct context *x)
{
	context_rollback(x, 0);
	for (int kind = 0; kind < KV_KINDS; kind++)
		kv_free(&x->kv[kind]);
	token_list_free(&x->tokens);
}

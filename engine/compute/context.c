#include "engine/compute/context.h"
#include "engine/compute/delta_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void init(struct context *x, struct context_budget *budget, enum kv_type type,
		 uint64_t kv_width, size_t recurrent_floats)
{
	size_t element = type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
	size_t used = (size_t)kv_width * KV_BLOCK * element;
	*x = (struct context){
		.budget = budget,
		.type = type,
		.block_bytes = context_pages(used),
		.block_used = used,
	};
	recurrent_init(&x->recurrent, budget, recurrent_floats);
}

void context_init(struct context *x, struct context_budget *budget, const struct config *c,
		  enum kv_type type)
{
	size_t state = delta_state_floats(c);
	uint32_t width = c->draft && state ? c->hidden_size : 0;
	init(x, budget, type, c->kv_width, state + (width ? width + 1 : 0));
	x->note_at = state;
	x->note_width = width;
}

void context_init_draft(struct context *x, struct context_budget *budget, const struct config *c,
			enum kv_type type)
{
	init(x, budget, type, config_kv_width(c, c->layers), 0);
}

uint64_t context_full_bytes(const struct config *c, enum kv_type type, uint32_t positions)
{
	struct context x;
	context_init(&x, NULL, c, type);
	return (uint64_t)context_blocks(positions) * x.block_bytes +
	       (uint64_t)(1 + RECURRENT_MARKS) * x.recurrent.bytes;
}

void context_move(struct context *to, struct context *from)
{
	recurrent_move(&to->recurrent, &from->recurrent);
	to->blocks = from->blocks;
	to->sharers = from->sharers;
	to->block_count = from->block_count;
	to->block_room = from->block_room;
	to->tokens = from->tokens;
	from->blocks = NULL;
	from->sharers = NULL;
	from->block_count = from->block_room = 0;
	from->tokens = (struct token_list){0};
}

/* ---- blocks ---- */

static int make_table_room(struct context *x, uint32_t blocks, struct err *e)
{
	if (blocks <= x->block_room)
		return 0;
	uint32_t room = x->block_room ? 2 * x->block_room : 8;
	room = room < blocks ? blocks : room;
	const void **table = realloc(x->blocks, room * sizeof *table);
	x->blocks = table ? table : x->blocks;
	sharers **counts = table ? realloc(x->sharers, room * sizeof *counts) : NULL;
	if (!counts)
		return err_set(e, ENOMEM, "out of memory for the context's table");
	x->sharers = counts;
	x->block_room = room;
	return 0;
}

static int add_block(struct context *x, struct err *e)
{
	int failed = make_table_room(x, x->block_count + 1, e);
	if (failed)
		return failed;
	void *block = context_take(x->budget, x->block_bytes, e);
	if (!block)
		return -e->code;
	x->sharers[x->block_count] = NULL;
	x->blocks[x->block_count++] = block;
	return 0;
}

static int share_block(struct context *to, const struct context *from, struct err *e)
{
	uint32_t i = to->block_count;
	to->sharers[i] = sharing_join(&from->sharers[i], e);
	if (!to->sharers[i])
		return -e->code;
	to->blocks[i] = from->blocks[i];
	to->block_count++;
	return 0;
}

int context_fork(struct context *to, const struct context *from, struct err *e)
{
	const struct token_list *tokens = &from->tokens;
	int failed = make_table_room(to, from->block_count, e);
	while (!failed && to->block_count < from->block_count)
		failed = share_block(to, from, e);
	if (!failed)
		failed = recurrent_copy(&to->recurrent, &from->recurrent, tokens->count, e);
	if (!failed)
		failed = token_list_append(&to->tokens, tokens->ids, tokens->count, e);
	if (failed)
		context_rollback(to, 0);
	return failed;
}

int context_reserve(struct context *x, uint32_t positions, struct err *e)
{
	uint32_t blocks = x->block_bytes ? context_blocks(positions) : 0;
	int failed = recurrent_reserve(&x->recurrent, e);
	for (uint32_t i = (uint32_t)x->tokens.count / KV_BLOCK; i < x->block_count && !failed; i++)
		failed = sharing_own(x->budget, &x->blocks[i], x->block_bytes, &x->sharers[i], e);
	while (x->block_count < blocks && !failed)
		failed = add_block(x, e);
	return failed;
}

size_t context_rollback(struct context *x, size_t count)
{
	size_t to = count < x->tokens.count ? count : x->tokens.count;
	x->tokens.count = recurrent_rollback(&x->recurrent, x->tokens.count, to);
	size_t keep = (x->tokens.count + KV_BLOCK - 1) / KV_BLOCK;
	while (x->block_count > keep) {
		x->block_count--;
		sharing_leave(x->budget, x->blocks[x->block_count], x->block_bytes,
			      x->sharers[x->block_count]);
	}
	return x->tokens.count;
}

/* The row, and then of which position it is. */
static float *note_of(const struct context *x)
{
	return x->note_width && x->recurrent.now ? x->recurrent.now + x->note_at : NULL;
}

void context_note(struct context *x, const float *row)
{
	float *note = note_of(x);
	uint32_t position = (uint32_t)x->tokens.count;
	if (!note || sharing_shared(&x->recurrent.now_sharers))
		return;
	memcpy(note, row, x->note_width * sizeof *note);
	memcpy(note + x->note_width, &position, sizeof position);
}

const float *context_noted(const struct context *x)
{
	const float *note = note_of(x);
	uint32_t position = 0;
	if (note)
		memcpy(&position, note + x->note_width, sizeof position);
	return position && position == x->tokens.count ? note : NULL;
}

void context_free(struct context *x)
{
	context_rollback(x, 0);
	free(x->blocks);
	free(x->sharers);
	token_list_free(&x->tokens);
	x->blocks = NULL;
	x->sharers = NULL;
}

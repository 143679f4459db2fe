#include "engine/compute/context.h"
#include "engine/compute/delta_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void init(struct context *x, struct context_budget *budget, enum kv_type type,
		 uint64_t kv_width, size_t recurrent_floats)
{
	size_t element = type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
	*x = (struct context){
		.budget = budget,
		.type = type,
		.block_bytes = context_pages((size_t)kv_width * KV_BLOCK * element),
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

static int add_block(struct context *x, struct err *e)
{
	if (x->block_count == x->block_room) {
		uint32_t room = x->block_room ? 2 * x->block_room : 8;
		const void **blocks = realloc(x->blocks, room * sizeof *blocks);
		if (!blocks)
			return err_set(e, ENOMEM, "out of memory for the context's table");
		x->blocks = blocks;
		x->block_room = room;
	}
	void *block = context_take(x->budget, x->block_bytes, e);
	if (!block)
		return -e->code;
	x->blocks[x->block_count++] = block;
	return 0;
}

int context_reserve(struct context *x, uint32_t positions, struct err *e)
{
	uint32_t blocks = x->block_bytes ? context_blocks(positions) : 0;
	int failed = recurrent_reserve(&x->recurrent, e);
	while (x->block_count < blocks && !failed)
		failed = add_block(x, e);
	return failed;
}

size_t context_rollback(struct context *x, size_t count)
{
	size_t to = count < x->tokens.count ? count : x->tokens.count;
	x->tokens.count = recurrent_rollback(&x->recurrent, x->tokens.count, to);
	size_t keep = (x->tokens.count + KV_BLOCK - 1) / KV_BLOCK;
	while (x->block_count > keep)
		context_give(x->budget, x->blocks[--x->block_count], x->block_bytes);
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
	if (!note)
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
	token_list_free(&x->tokens);
	x->blocks = NULL;
}

#include "engine/compute/kv_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- windows ---- */

/* The first block that the row at a position sees. */
static uint32_t seen_from(uint32_t window, size_t position)
{
	return window && position >= window ? (uint32_t)((position + 1 - window) / KV_BLOCK) : 0;
}

/* The first that is kept for rows from a position on. */
static uint32_t kept_from(const struct kv_table *t, size_t position)
{
	return seen_from(t->window, position > KV_BACK ? position - KV_BACK : 0);
}

bool kv_sees(uint32_t window, size_t position, uint32_t block)
{
	return block >= seen_from(window, position) && block < kv_blocks((uint32_t)position);
}

/* ---- blocks; those before t->from with the budget's lock held ---- */

static void give(struct kv_table *t, uint32_t i)
{
	sharing_leave(t->budget, t->blocks[i], t->bytes, t->sharers[i]);
	t->blocks[i] = NULL;
	t->sharers[i] = NULL;
}

static bool marked(const struct kv_table *t, uint32_t block)
{
	for (uint32_t m = 0; m < t->mark_count; m++)
		if (block >= kept_from(t, t->marks[m]) && block < kv_blocks((uint32_t)t->marks[m]))
			return true;
	return false;
}

/* Gives back what lies before t->from and is needed by no mark. */
static void sweep(struct kv_table *t)
{
	for (uint32_t i = 0; i < t->from; i++)
		if (t->blocks[i] && !marked(t, i))
			give(t, i);
}

static void drop_mark(struct kv_table *t, uint32_t i)
{
	t->mark_count--;
	memmove(&t->marks[i], &t->marks[i + 1], (t->mark_count - i) * sizeof *t->marks);
	if (!t->mark_count)
		context_spare_none(t->budget, &t->spare);
}

static void give_way(struct context_spare *spare)
{
	struct kv_table *t = (void *)((char *)spare - offsetof(struct kv_table, spare));
	size_t end = t->marks[t->mark_count - 1] + 1;
	drop_mark(t, marks_least_missed(t->marks, t->mark_count, end));
	sweep(t);
}

static int make_room(struct kv_table *t, uint32_t blocks, struct err *e)
{
	if (blocks <= t->room)
		return 0;
	uint32_t room = t->room ? 2 * t->room : 8;
	room = room < blocks ? blocks : room;
	pthread_mutex_lock(&t->budget->lock);
	const void **table = realloc(t->blocks, room * sizeof *table);
	t->blocks = table ? table : t->blocks;
	sharers **counts = table ? realloc(t->sharers, room * sizeof *counts) : NULL;
	t->sharers = counts ? counts : t->sharers;
	t->room = counts ? room : t->room;
	pthread_mutex_unlock(&t->budget->lock);
	return counts ? 0 : err_set(e, ENOMEM, "out of memory for the context's table");
}

static void append(struct kv_table *t, const void *block, sharers *others)
{
	t->sharers[t->count] = others;
	t->blocks[t->count++] = block;
}

static int add_block(struct kv_table *t, struct err *e)
{
	void *block = context_take(t->budget, t->bytes, e);
	if (!block)
		return -e->code;
	append(t, block, NULL);
	return 0;
}

/* Gives back what only rows before `held` positions have seen. The lock is held. */
static void leave_behind(struct kv_table *t, size_t held)
{
	uint32_t from = kept_from(t, held);
	t->from = from > t->from ? from : t->from;
	sweep(t);
}

static void release(struct kv_table *t, size_t held)
{
	if (kept_from(t, held) <= t->from)
		return;
	pthread_mutex_lock(&t->budget->lock);
	leave_behind(t, held);
	pthread_mutex_unlock(&t->budget->lock);
}

/* ---- life ---- */

void kv_init(struct kv_table *t, struct context_budget *budget, uint32_t window, size_t used)
{
	*t = (struct kv_table){
		.budget = budget,
		.bytes = context_pages(used),
		.used = used,
		.window = window,
		.spare.give_way = give_way,
	};
}

void kv_free(struct kv_table *t)
{
	kv_rollback(t, 0);
	free(t->blocks);
	free(t->sharers);
	t->blocks = NULL;
	t->sharers = NULL;
	t->room = 0;
}

void kv_move(struct kv_table *to, struct kv_table *from)
{
	pthread_mutex_lock(&from->budget->lock);
	context_spare_none(from->budget, &from->spare);
	*to = *from;
	kv_init(from, to->budget, to->window, to->used);
	if (to->mark_count)
		context_spare_last(to->budget, &to->spare);
	pthread_mutex_unlock(&to->budget->lock);
}

/* Blocks of so many positions that begin anywhere in one. */
static uint64_t blocks_over(uint64_t positions)
{
	return (positions + 2 * (KV_BLOCK - 1)) / KV_BLOCK;
}

uint64_t kv_full_bytes(const struct kv_table *t, uint32_t positions, uint32_t step)
{
	uint64_t all = kv_blocks(positions), window = (uint64_t)t->window - 1 + KV_BACK;
	uint64_t most = blocks_over(window + step) + MARKS_MOST * blocks_over(window);
	return (t->window && most < all ? most : all) * t->bytes;
}

/* ---- going on ---- */

int kv_reserve(struct kv_table *t, size_t held, uint32_t positions, struct err *e)
{
	uint32_t blocks = t->used ? kv_blocks(positions) : 0;
	int failed = 0;
	release(t, held);
	for (uint32_t i = (uint32_t)held / KV_BLOCK; i < t->count && !failed; i++)
		failed = sharing_own(t->budget, &t->blocks[i], t->bytes, &t->sharers[i], e);
	if (!failed)
		failed = make_room(t, blocks, e);
	while (t->count < blocks && !failed)
		failed = add_block(t, e);
	return failed;
}

int kv_share(struct kv_table *to, const struct kv_table *from, size_t held, struct err *e)
{
	uint32_t begin = kept_from(from, held);
	int failed = make_room(to, from->count, e);
	to->from = begin > from->from ? begin : from->from;
	while (!failed && to->count < from->count) {
		uint32_t i = to->count;
		sharers *s = i < to->from ? NULL : sharing_join(&from->sharers[i], e);
		if (s || i < to->from)
			append(to, s ? from->blocks[i] : NULL, s);
		else
			failed = -e->code;
	}
	return failed;
}

/* ---- going back ---- */

/* The most positions up to `to` the window before which is whole. The lock is held. */
static size_t reach(const struct kv_table *t, size_t to)
{
	uint32_t i = t->window ? kv_blocks((uint32_t)to) : 0;
	while (i > seen_from(t->window, to)) {
		i--;
		if (!t->blocks[i]) /* so it ends before this block */
			to = (size_t)i * KV_BLOCK;
	}
	return to;
}

size_t kv_rollback(struct kv_table *t, size_t to)
{
	if (!t->used)
		return to;
	pthread_mutex_lock(&t->budget->lock);
	to = reach(t, to);
	while (t->mark_count && t->marks[t->mark_count - 1] > to)
		drop_mark(t, t->mark_count - 1);
	for (uint32_t keep = kv_blocks((uint32_t)to); t->count > keep;)
		give(t, --t->count);
	uint32_t least = kept_from(t, to), from = seen_from(t->window, to);
	while (from > least && t->blocks[from - 1])
		from--;
	t->from = from;
	sweep(t);
	pthread_mutex_unlock(&t->budget->lock);
	return to;
}

/* Room for one more mark, which is to be the last. The lock is held. */
static void add_mark(struct kv_table *t, size_t position)
{
	if (t->mark_count == MARKS_MOST)
		drop_mark(t, marks_least_missed(t->marks, t->mark_count, position));
	t->marks[t->mark_count++] = position;
	context_spare_last(t->budget, &t->spare);
}

void kv_mark(struct kv_table *t, size_t held, size_t position)
{
	if (!t->used || !t->window)
		return;
	pthread_mutex_lock(&t->budget->lock);
	size_t last = t->mark_count ? t->marks[t->mark_count - 1] : 0;
	if (position > last && seen_from(t->window, position) >= t->from)
		add_mark(t, position);
	leave_behind(t, held);
	pthread_mutex_unlock(&t->budget->lock);
}

/* ---- saving and loading ---- */

/* The blocks of the window before a position that are not there. */
static int take_window(struct kv_table *t, size_t position, bool spare, struct err *e)
{
	int failed = 0;
	for (uint32_t i = kv_blocks((uint32_t)position);
	     i-- > seen_from(t->window, position) && !failed;) {
		if (t->blocks[i])
			continue;
		t->blocks[i] = spare ? context_take_spare(t->budget, t->bytes)
				     : context_take(t->budget, t->bytes, e);
		failed = t->blocks[i] ? 0 : spare ? -ENOSPC : -e->code;
	}
	return failed;
}

int kv_take(struct kv_table *t, size_t positions, const uint64_t *marks, uint32_t count,
	    struct err *e)
{
	uint32_t blocks = t->used ? kv_blocks((uint32_t)positions) : 0;
	int failed = make_room(t, blocks, e);
	while (!failed && t->count < blocks)
		append(t, NULL, NULL);
	t->from = blocks ? seen_from(t->window, positions) : 0;
	if (!failed && blocks)
		failed = take_window(t, positions, false, e);
	while (!failed && count && !take_window(t, marks[count - 1], true, e))
		count--;
	return failed;
}

static bool whole(const struct kv_table *t, size_t position)
{
	return reach(t, position) == position;
}

void kv_set_marks(struct kv_table *t, const uint64_t *marks, uint32_t count)
{
	pthread_mutex_lock(&t->budget->lock);
	for (uint32_t m = 0; m < count; m++)
		if (whole(t, marks[m]))
			add_mark(t, marks[m]);
	sweep(t);
	pthread_mutex_unlock(&t->budget->lock);
}

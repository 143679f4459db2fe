/* Blocks of keys and values. See kv_table.h. */
#include "engine/compute/kv_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- windows ---- */

uint32_t kv_seen_from(uint32_t window, size_t position)
{
	return window && position >= window ? (uint32_t)((position + 1 - window) / KV_BLOCK) : 0;
}

/* The first block that is kept for rows from a position on. */
static uint32_t kv_kept_from(const struct kv_table *t, size_t position)
{
	return kv_seen_from(t->window, position > KV_BACK ? position - KV_BACK : 0);
}

bool kv_sees(uint32_t window, size_t position, uint32_t block)
{
	return block >= kv_seen_from(window, position) && block < kv_blocks((uint32_t)position);
}

/* ---- blocks; of those before t->from the budget's lock is held ---- */

/* Gives a block back. */
static void kv_give(struct kv_table *t, uint32_t i)
{
	sharing_leave(t->budget, t->blocks[i], t->bytes, t->sharers[i]);
	t->blocks[i] = NULL;
	t->sharers[i] = NULL;
}

/* Whether a checkpoint needs a block before t->from. */
static bool kv_needed(const struct kv_table *t, uint32_t block)
{
	for (uint32_t m = 0; m < t->checkpoint_count; m++)
		if (block >= kv_kept_from(t, t->checkpoints[m]) &&
		    block < kv_blocks((uint32_t)t->checkpoints[m]))
			return true;
	return false;
}

/* Gives back blocks before t->from that no checkpoint needs. */
static void kv_sweep(struct kv_table *t)
{
	for (uint32_t i = 0; i < t->from; i++)
		if (t->blocks[i] && !kv_needed(t, i))
			kv_give(t, i);
}

/* ---- checkpoints; the budget's lock is held ---- */

uint32_t kv_least_missed(const size_t *positions, uint32_t count, size_t end)
{
	uint32_t least = 0;
	double least_gap = 0;
	for (uint32_t i = 0; i < count; i++) {
		size_t before = i ? positions[i - 1] : 0;
		size_t after = i + 1 < count ? positions[i + 1] : end;
		double gap = (double)(after - before) / (double)(end - positions[i]);
		if (i == 0 || gap < least_gap) {
			least = i;
			least_gap = gap;
		}
	}
	return least;
}

static void kv_drop_checkpoint(struct kv_table *t, uint32_t i)
{
	t->checkpoint_count--;
	memmove(&t->checkpoints[i], &t->checkpoints[i + 1],
		(t->checkpoint_count - i) * sizeof *t->checkpoints);
	if (!t->checkpoint_count)
		context_spare_none(t->budget, &t->spare);
}

/* context_spare's callback. */
static void kv_give_way(struct context_spare *spare)
{
	struct kv_table *t = (void *)((char *)spare - offsetof(struct kv_table, spare));
	size_t end = t->checkpoints[t->checkpoint_count - 1] + 1;
	kv_drop_checkpoint(t, kv_least_missed(t->checkpoints, t->checkpoint_count, end));
	kv_sweep(t);
}

/* ---- growing ---- */

/* Makes room for pointers to `blocks` blocks; -ENOMEM in words. The lock is held. */
static int kv_grow(struct kv_table *t, uint32_t blocks, struct err *e)
{
	if (blocks <= t->room)
		return 0;
	uint32_t room = t->room ? 2 * t->room : 8;
	room = room < blocks ? blocks : room;
	const void **table = realloc(t->blocks, room * sizeof *table);
	t->blocks = table ? table : t->blocks;
	sharers **counts = table ? realloc(t->sharers, room * sizeof *counts) : NULL;
	t->sharers = counts ? counts : t->sharers;
	t->room = counts ? room : t->room;
	return counts ? 0 : err_set(e, ENOMEM, "out of memory for the context's table");
}

static int kv_make_room(struct kv_table *t, uint32_t blocks, struct err *e)
{
	if (blocks <= t->room)
		return 0;
	pthread_mutex_lock(&t->budget->lock);
	int failed = kv_grow(t, blocks, e);
	pthread_mutex_unlock(&t->budget->lock);
	return failed;
}

static void kv_append(struct kv_table *t, const void *block, sharers *others)
{
	t->sharers[t->count] = others;
	t->blocks[t->count++] = block;
}

/* Gives back what only rows before `held` positions have seen. The lock is held. */
static void kv_leave_behind(struct kv_table *t, size_t held)
{
	uint32_t from = kv_kept_from(t, held);
	t->from = from > t->from ? from : t->from;
	kv_sweep(t);
}

/* ---- life ---- */

void kv_init(struct kv_table *t, struct context_budget *budget, uint32_t window, size_t used)
{
	*t = (struct kv_table){
		.budget = budget,
		.bytes = context_pages(used),
		.used = used,
		.window = window,
		.spare.give_way = kv_give_way,
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
	if (to->checkpoint_count)
		context_spare_last(to->budget, &to->spare);
	pthread_mutex_unlock(&to->budget->lock);
}

/* The most blocks that `positions` adjacent positions touch, wherever they begin. */
static uint64_t kv_blocks_over(uint64_t positions)
{
	return (positions + 2 * (KV_BLOCK - 1)) / KV_BLOCK;
}

uint64_t kv_full_bytes(const struct kv_table *t, uint32_t positions, uint32_t step)
{
	uint64_t all = kv_blocks(positions), window = (uint64_t)t->window - 1 + KV_BACK;
	uint64_t most = kv_blocks_over(window + step) + KV_CHECKPOINTS * kv_blocks_over(window);
	return (t->window && most < all ? most : all) * t->bytes;
}

/* ---- continuing ---- */

int kv_reserve(struct kv_table *t, size_t held, uint32_t positions, struct err *e)
{
	uint32_t blocks = t->used ? kv_blocks(positions) : 0;
	int failed = 0;
	if (kv_kept_from(t, held) > t->from) {
		pthread_mutex_lock(&t->budget->lock);
		kv_leave_behind(t, held);
		pthread_mutex_unlock(&t->budget->lock);
	}
	for (uint32_t i = (uint32_t)held / KV_BLOCK; i < t->count && !failed; i++)
		failed = sharing_own(t->budget, &t->blocks[i], t->bytes, &t->sharers[i], e);
	if (!failed)
		failed = kv_make_room(t, blocks, e);
	while (t->count < blocks && !failed) {
		void *block = context_take(t->budget, t->bytes, e);
		if (block)
			kv_append(t, block, NULL);
		else
			failed = -e->code;
	}
	return failed;
}

int kv_share(struct kv_table *to, const struct kv_table *from, size_t held, struct err *e)
{
	uint32_t begin = kv_kept_from(from, held), end = kv_blocks((uint32_t)held);
	end = end < from->count ? end : from->count; /* room for more may be reserved */
	int failed = kv_grow(to, end, e);
	to->from = begin > from->from ? begin : from->from;
	while (!failed && to->count < end) {
		uint32_t i = to->count;
		sharers *s = i < to->from ? NULL : sharing_join(&from->sharers[i], e);
		if (s || i < to->from)
			kv_append(to, s ? from->blocks[i] : NULL, s);
		else
			failed = -e->code;
	}
	return failed;
}

uint64_t kv_own_bytes(const struct kv_table *t)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < t->count; i++)
		if (t->blocks[i] && (!t->sharers[i] || atomic_load(t->sharers[i]) == 1))
			bytes += t->bytes;
	return bytes;
}

/* ---- going back ---- */

/* The largest position up to `to` before which the window is whole. The lock is held. */
static size_t kv_reach(const struct kv_table *t, size_t to)
{
	uint32_t i = t->window ? kv_blocks((uint32_t)to) : 0;
	while (i > kv_seen_from(t->window, to)) {
		i--;
		if (!t->blocks[i]) /* the text can only end before this block */
			to = (size_t)i * KV_BLOCK;
	}
	return to;
}

size_t kv_rollback(struct kv_table *t, size_t to)
{
	if (!t->used)
		return to;
	pthread_mutex_lock(&t->budget->lock);
	to = kv_reach(t, to);
	while (t->checkpoint_count && t->checkpoints[t->checkpoint_count - 1] > to)
		kv_drop_checkpoint(t, t->checkpoint_count - 1);
	for (uint32_t keep = kv_blocks((uint32_t)to); t->count > keep;)
		kv_give(t, --t->count);
	uint32_t least = kv_kept_from(t, to), from = kv_seen_from(t->window, to);
	while (from > least && t->blocks[from - 1])
		from--;
	t->from = from;
	kv_sweep(t);
	pthread_mutex_unlock(&t->budget->lock);
	return to;
}

/* Adds a last checkpoint; if there are KV_CHECKPOINTS already, one of them goes. The lock is held.
 */
static void kv_add_checkpoint(struct kv_table *t, size_t position)
{
	if (t->checkpoint_count == KV_CHECKPOINTS)
		kv_drop_checkpoint(t,
				   kv_least_missed(t->checkpoints, t->checkpoint_count, position));
	t->checkpoints[t->checkpoint_count++] = position;
	context_spare_last(t->budget, &t->spare);
}

void kv_checkpoint(struct kv_table *t, size_t held, size_t position)
{
	if (!t->used || !t->window)
		return;
	pthread_mutex_lock(&t->budget->lock);
	size_t last = t->checkpoint_count ? t->checkpoints[t->checkpoint_count - 1] : 0;
	if (position > last && kv_seen_from(t->window, position) >= t->from)
		kv_add_checkpoint(t, position);
	kv_leave_behind(t, held);
	pthread_mutex_unlock(&t->budget->lock);
}

/* ---- saving and loading ---- */

/* Takes the missing blocks of the window before a position, as spare memory or not. */
static int kv_take_window(struct kv_table *t, size_t position, bool spare, struct err *e)
{
	int failed = 0;
	for (uint32_t i = kv_blocks((uint32_t)position);
	     i-- > kv_seen_from(t->window, position) && !failed;) {
		if (t->blocks[i])
			continue;
		t->blocks[i] = spare ? context_take_spare(t->budget, t->bytes)
				     : context_take(t->budget, t->bytes, e);
		failed = t->blocks[i] ? 0 : spare ? -ENOSPC : -e->code;
	}
	return failed;
}

int kv_take(struct kv_table *t, size_t positions, const uint64_t *checkpoints, uint32_t count,
	    struct err *e)
{
	uint32_t blocks = t->used ? kv_blocks((uint32_t)positions) : 0;
	int failed = kv_make_room(t, blocks, e);
	while (!failed && t->count < blocks)
		kv_append(t, NULL, NULL);
	t->from = blocks ? kv_seen_from(t->window, positions) : 0;
	if (!failed && blocks)
		failed = kv_take_window(t, positions, false, e);
	while (!failed && count && !kv_take_window(t, checkpoints[count - 1], true, e))
		count--;
	return failed;
}

void kv_set_checkpoints(struct kv_table *t, const uint64_t *checkpoints, uint32_t count)
{
	pthread_mutex_lock(&t->budget->lock);
	for (uint32_t m = 0; m < count; m++)
		if (kv_reach(t, checkpoints[m]) == checkpoints[m])
			kv_add_checkpoint(t, checkpoints[m]);
	kv_sweep(t);
	pthread_mutex_unlock(&t->budget->lock);
}

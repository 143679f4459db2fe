#include "engine/compute/recurrent.h"

#include <stddef.h>
#include <string.h>

/* ---- layout ---- */

size_t recurrent_matrix_floats(const struct config *c)
{
	const struct delta_net *n = &c->delta_net;
	return (size_t)n->value_heads * n->key_dim * n->value_dim;
}

size_t recurrent_row_floats(const struct config *c)
{
	return 2 * ((size_t)config_delta_channels(c) + c->delta_net.value_heads);
}

/* Of a layer: its matrices and the convolution's inputs. */
static size_t recurrent_moved_layer_floats(const struct config *c)
{
	return recurrent_matrix_floats(c) +
	       (size_t)(c->delta_net.width - 1) * config_delta_channels(c);
}

size_t recurrent_layer_floats(const struct config *c)
{
	return recurrent_moved_layer_floats(c) + RECURRENT_BEHIND * recurrent_row_floats(c);
}

size_t recurrent_state_floats(const struct config *c)
{
	return c->mixers[MIXER_DELTA_NET] * recurrent_layer_floats(c);
}

size_t recurrent_moved_floats(const struct config *c)
{
	return c->mixers[MIXER_DELTA_NET] * recurrent_moved_layer_floats(c);
}

/* ---- copies; the budget's lock is held ---- */

/* Takes a mark out of the list; its memory is the caller's. */
static struct recurrent_mark take_out(struct recurrent *r, uint32_t i)
{
	struct recurrent_mark mark = r->marks[i];
	r->mark_count--;
	memmove(&r->marks[i], &r->marks[i + 1], (r->mark_count - i) * sizeof *r->marks);
	if (!r->mark_count)
		context_spare_none(r->budget, &r->spare);
	return mark;
}

static void drop(struct recurrent *r, uint32_t i)
{
	struct recurrent_mark mark = take_out(r, i);
	sharing_leave(r->budget, mark.state, r->bytes, mark.sharers);
}

static void give_up_marks(struct recurrent *r, size_t beyond)
{
	while (r->mark_count && r->marks[r->mark_count - 1].position > beyond)
		drop(r, r->mark_count - 1);
}

static uint32_t least_missed(const struct recurrent *r, size_t end)
{
	size_t positions[RECURRENT_MARKS];
	for (uint32_t i = 0; i < r->mark_count; i++)
		positions[i] = r->marks[i].position;
	return marks_least_missed(positions, r->mark_count, end);
}

static void give_way(struct context_spare *spare)
{
	struct recurrent *r = (void *)((char *)spare - offsetof(struct recurrent, spare));
	size_t end = r->marks[r->mark_count - 1].position + 1;
	drop(r, least_missed(r, end));
}

/* Memory for a copy at a position; NULL: it is there already, or there is no room. */
static float *make_room(struct recurrent *r, size_t position)
{
	give_up_marks(r, position);
	if (r->mark_count && r->marks[r->mark_count - 1].position == position)
		return NULL;
	float *state = NULL;
	if (r->mark_count < RECURRENT_MARKS)
		state = context_take_spare(r->budget, r->bytes);
	if (state || !r->mark_count)
		return state;
	struct recurrent_mark old = take_out(r, least_missed(r, position));
	if (!sharing_shared(&old.sharers))
		return old.state;
	sharing_leave(r->budget, old.state, r->bytes, old.sharers);
	return context_take_spare(r->budget, r->bytes);
}

/* ---- the state ---- */

void recurrent_init(struct recurrent *r, struct context_budget *budget, size_t floats)
{
	*r = (struct recurrent){.budget = budget,
				.bytes = context_pages(floats * sizeof(float)),
				.spare.give_way = give_way};
}

void recurrent_free(struct recurrent *r)
{
	recurrent_rollback(r, 1, 0);
}

void recurrent_move(struct recurrent *to, struct recurrent *from)
{
	if (!from->bytes)
		return;
	pthread_mutex_lock(&from->budget->lock);
	context_spare_none(from->budget, &from->spare);
	*to = *from;
	recurrent_init(from, to->budget, 0);
	from->bytes = to->bytes;
	if (to->mark_count)
		context_spare_last(to->budget, &to->spare);
	pthread_mutex_unlock(&to->budget->lock);
}

int recurrent_reserve(struct recurrent *r, struct err *e)
{
	const void *now = r->now;
	if (!r->bytes)
		return 0;
	int failed = now ? sharing_own(r->budget, &now, r->bytes, &r->now_sharers, e) : 0;
	if (!now)
		failed = (now = context_take(r->budget, r->bytes, e)) ? 0 : -e->code;
	r->now = (float *)now;
	return failed;
}

int recurrent_copy(struct recurrent *to, const struct recurrent *from, size_t position,
		   struct err *e)
{
	if (!from->now)
		return 0;
	int failed = recurrent_reserve(to, e);
	if (failed)
		return failed;
	memcpy(to->now, from->now, to->bytes);
	to->behind = from->behind;
	to->spoiled = from->spoiled;
	recurrent_mark(to, position);
	return 0;
}

void recurrent_mark(struct recurrent *r, size_t position)
{
	if (!r->now || r->spoiled || !position)
		return;
	pthread_mutex_lock(&r->budget->lock);
	float *state = make_room(r, position);
	pthread_mutex_unlock(&r->budget->lock);
	if (!state)
		return;
	memcpy(state, r->now, r->bytes);
	recurrent_add_mark(r, position, r->behind, state);
}

float *recurrent_take_copy(struct recurrent *r)
{
	return context_take_spare(r->budget, r->bytes);
}

void recurrent_add_mark(struct recurrent *r, size_t position, uint32_t behind, float *state)
{
	pthread_mutex_lock(&r->budget->lock);
	r->marks[r->mark_count++] = (struct recurrent_mark){position, behind, state, NULL};
	context_spare_last(r->budget, &r->spare);
	pthread_mutex_unlock(&r->budget->lock);
}

/* Goes back to the last copy that is left; false: there is none. A state that somebody else has,
 * too, is left to him, and the copy itself takes its place: that needs no memory. */
static bool restore(struct recurrent *r, size_t *position)
{
	if (!r->mark_count)
		return false;
	struct recurrent_mark last = r->marks[r->mark_count - 1];
	if (sharing_shared(&r->now_sharers)) {
		sharing_leave(r->budget, r->now, r->bytes, r->now_sharers);
		last = take_out(r, r->mark_count - 1);
		r->now = last.state;
		r->now_sharers = last.sharers;
	} else {
		memcpy(r->now, last.state, r->bytes);
	}
	r->behind = last.behind;
	*position = last.position;
	return true;
}

size_t recurrent_rollback(struct recurrent *r, size_t from, size_t to)
{
	if (!r->bytes)
		return to;
	size_t reached;
	bool stays = to && !r->spoiled && from - to <= r->behind;
	pthread_mutex_lock(&r->budget->lock);
	give_up_marks(r, to);
	bool restored = !stays && restore(r, &reached);
	pthread_mutex_unlock(&r->budget->lock);
	if (stays) {
		r->behind -= (uint32_t)(from - to);
		return to;
	}
	r->spoiled = false;
	if (restored)
		return reached;
	sharing_leave(r->budget, r->now, r->bytes, r->now_sharers);
	r->now = NULL;
	r->now_sharers = NULL;
	r->behind = 0;
	return 0;
}

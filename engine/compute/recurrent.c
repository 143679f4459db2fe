/* Recurrent states and their checkpoints. See recurrent.h. */
#include "engine/compute/recurrent.h"

#include <stddef.h>
#include <string.h>

/* ---- layout ---- */

static struct recurrent_shape recurrent_shape_of_delta_net(const struct config *c)
{
	const struct delta_net *n = &c->delta_net;
	uint32_t channels = config_delta_channels(c);
	return (struct recurrent_shape){
		.matrices = (size_t)n->value_heads * n->key_dim * n->value_dim,
		.width = n->width,
		.channels = channels,
		.row = {channels, channels, n->value_heads, n->value_heads},
	};
}

/* Each row of a matrix has a decay of its own. */
static struct recurrent_shape recurrent_shape_of_kimi(const struct config *c)
{
	struct recurrent_shape s = recurrent_shape_of_delta_net(c);
	s.row[RECURRENT_DECAY] = (size_t)c->delta_net.key_heads * c->delta_net.key_dim;
	return s;
}

static struct recurrent_shape recurrent_shape_of_mamba(const struct config *c)
{
	const struct mamba *m = &c->mamba;
	uint32_t channels = config_mamba_channels(c);
	return (struct recurrent_shape){
		.matrices = (size_t)config_mamba_inner(c) * m->state,
		.width = m->width,
		.channels = channels,
		.row = {channels, channels, m->heads, m->heads},
	};
}

struct recurrent_shape recurrent_shape_of(const struct config *c, enum mixer mixer)
{
	switch (mixer) {
	case MIXER_DELTA_NET:
		return recurrent_shape_of_delta_net(c);
	case MIXER_KIMI:
		return recurrent_shape_of_kimi(c);
	case MIXER_MAMBA:
		return recurrent_shape_of_mamba(c);
	case MIXER_CONVOLUTION:
		return (struct recurrent_shape){.width = c->convolution,
						.channels = c->hidden_size,
						.row = {c->hidden_size}};
	case MIXER_ATTENTION:
	case MIXER_LATENT:
	case MIXER_COMPRESSED:
	case MIXER_NONE:
	case MIXERS:
		break;
	}
	return (struct recurrent_shape){0};
}

size_t recurrent_row_floats(const struct recurrent_shape *s)
{
	size_t floats = 0;
	for (int i = 0; i < RECURRENT_PARTS; i++)
		floats += s->row[i];
	return floats;
}

/* Of a layer: its matrices and the convolution's inputs. */
static size_t recurrent_moved_layer_floats(const struct recurrent_shape *s)
{
	return s->width ? s->matrices + (size_t)(s->width - 1) * s->channels : 0;
}

size_t recurrent_layer_floats(const struct recurrent_shape *s)
{
	return recurrent_moved_layer_floats(s) + RECURRENT_BEHIND * recurrent_row_floats(s);
}

/* Of all layers with mixers before `end`. */
static size_t recurrent_floats_before(const struct config *c, enum mixer end)
{
	size_t floats = 0;
	for (enum mixer m = 0; m < end; m++) {
		const struct recurrent_shape s = recurrent_shape_of(c, m);
		floats += c->mixers[m] * recurrent_layer_floats(&s);
	}
	return floats;
}

size_t recurrent_layer_at(const struct config *c, uint32_t layer)
{
	const struct layer *l = &c->layer[layer];
	const struct recurrent_shape s = recurrent_shape_of(c, l->mixer);
	return recurrent_floats_before(c, l->mixer) + l->state * recurrent_layer_floats(&s);
}

size_t recurrent_state_floats(const struct config *c)
{
	return recurrent_floats_before(c, MIXERS);
}

size_t recurrent_moved_floats(const struct config *c)
{
	size_t floats = 0;
	for (enum mixer m = 0; m < MIXERS; m++) {
		const struct recurrent_shape s = recurrent_shape_of(c, m);
		floats += c->mixers[m] * recurrent_moved_layer_floats(&s);
	}
	return floats;
}

/* ---- checkpoints; the budget's lock is held ---- */

/* Takes a checkpoint out of the list; its memory becomes the caller's. */
static struct recurrent_checkpoint recurrent_take_out(struct recurrent *r, uint32_t i)
{
	struct recurrent_checkpoint c = r->checkpoints[i];
	r->checkpoint_count--;
	memmove(&r->checkpoints[i], &r->checkpoints[i + 1],
		(r->checkpoint_count - i) * sizeof *r->checkpoints);
	if (!r->checkpoint_count)
		context_spare_none(r->budget, &r->spare);
	return c;
}

static void recurrent_drop(struct recurrent *r, uint32_t i)
{
	struct recurrent_checkpoint c = recurrent_take_out(r, i);
	sharing_leave(r->budget, c.state, r->bytes, c.sharers);
}

static void recurrent_drop_beyond(struct recurrent *r, size_t position)
{
	while (r->checkpoint_count && r->checkpoints[r->checkpoint_count - 1].position > position)
		recurrent_drop(r, r->checkpoint_count - 1);
}

static uint32_t recurrent_least_missed(const struct recurrent *r, size_t end)
{
	size_t positions[RECURRENT_CHECKPOINTS];
	for (uint32_t i = 0; i < r->checkpoint_count; i++)
		positions[i] = r->checkpoints[i].position;
	return kv_least_missed(positions, r->checkpoint_count, end);
}

/* context_spare's callback. */
static void recurrent_give_way(struct context_spare *spare)
{
	struct recurrent *r = (void *)((char *)spare - offsetof(struct recurrent, spare));
	size_t end = r->checkpoints[r->checkpoint_count - 1].position + 1;
	recurrent_drop(r, recurrent_least_missed(r, end));
}

/* Memory for a checkpoint at a position; NULL: there is one already, or there is no room. */
static float *recurrent_make_room(struct recurrent *r, size_t position)
{
	recurrent_drop_beyond(r, position);
	uint32_t count = r->checkpoint_count;
	if (count && r->checkpoints[count - 1].position == position)
		return NULL;
	float *state = NULL;
	if (count < RECURRENT_CHECKPOINTS)
		state = context_take_spare(r->budget, r->bytes);
	if (state || !count)
		return state;
	struct recurrent_checkpoint old =
		recurrent_take_out(r, recurrent_least_missed(r, position));
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
				.spare.give_way = recurrent_give_way};
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
	if (to->checkpoint_count)
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

int recurrent_share(struct recurrent *to, struct recurrent *from, size_t position, struct err *e)
{
	if (!from->now)
		return 0;
	to->now_sharers = sharing_join(&from->now_sharers, e);
	if (!to->now_sharers)
		return -e->code;
	to->now = from->now;
	to->behind = from->behind;
	to->spoiled = recurrent_stale(from);
	sharers *again = to->spoiled ? NULL : sharing_join(&from->now_sharers, e);
	if (again) {
		to->checkpoints[to->checkpoint_count++] = (struct recurrent_checkpoint){
			position, from->behind, from->now, again};
		context_spare_last(to->budget, &to->spare);
	}
	return again || to->spoiled ? 0 : -e->code;
}

uint64_t recurrent_own_bytes(const struct recurrent *r)
{
	uint32_t own = 1; /* holders: the state, and checkpoints that share its memory */
	for (uint32_t i = 0; i < r->checkpoint_count; i++)
		own += r->checkpoints[i].state == r->now;
	bool alone = !r->now_sharers || atomic_load(r->now_sharers) <= own;
	return r->now && alone ? r->bytes : 0;
}

void recurrent_checkpoint(struct recurrent *r, size_t position)
{
	if (!r->now || recurrent_stale(r) || !position)
		return;
	pthread_mutex_lock(&r->budget->lock);
	float *state = recurrent_make_room(r, position);
	pthread_mutex_unlock(&r->budget->lock);
	if (!state)
		return;
	memcpy(state, r->now, r->bytes);
	recurrent_add_checkpoint(r, position, r->behind, state, NULL);
}

float *recurrent_take_checkpoint(struct recurrent *r)
{
	return context_take_spare(r->budget, r->bytes);
}

void recurrent_add_checkpoint(struct recurrent *r, size_t position, uint32_t behind, float *state,
			      sharers *others)
{
	pthread_mutex_lock(&r->budget->lock);
	r->checkpoints[r->checkpoint_count++] =
		(struct recurrent_checkpoint){position, behind, state, others};
	context_spare_last(r->budget, &r->spare);
	pthread_mutex_unlock(&r->budget->lock);
}

/* Goes back to the last checkpoint; false: there is none. The budget's lock is held. If others hold
 * the state, too, it is left to them, and the checkpoint itself becomes the state: that needs no
 * memory. */
static bool recurrent_restore(struct recurrent *r, size_t *position)
{
	if (!r->checkpoint_count)
		return false;
	struct recurrent_checkpoint last = r->checkpoints[r->checkpoint_count - 1];
	if (sharing_shared(&r->now_sharers)) {
		sharing_leave(r->budget, r->now, r->bytes, r->now_sharers);
		last = recurrent_take_out(r, r->checkpoint_count - 1);
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
	recurrent_drop_beyond(r, to);
	bool restored = !stays && recurrent_restore(r, &reached);
	pthread_mutex_unlock(&r->budget->lock);
	if (stays) {
		r->behind -= (uint32_t)(from - to);
		return to;
	}
	r->spoiled = false;
	r->copy = RECURRENT_NOT_COPIED;
	if (restored)
		return reached;
	sharing_leave(r->budget, r->now, r->bytes, r->now_sharers);
	r->now = NULL;
	r->now_sharers = NULL;
	r->behind = 0;
	return 0;
}

/* Predictions: the experts that the next batches of a source will probably want. See pager.h;
 * ahead.h decides which of them are read. A shielded expert is evicted last. A prefetch begins when
 * no batch waits for the device, in a slot of an expert that no batch wants. */
#include "cache/pager_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD_LISTS = AHEAD_LAYERS * (AHEAD_LAYERS + 1) / 2 }; /* lists of guesses */

int ahead_open(struct pager_source *s)
{
	ahead_init(&s->ahead);
	s->predicted = calloc((size_t)AHEAD_LAYERS * s->experts + 1, sizeof(struct pager_entry *));
	s->guesses = calloc((size_t)AHEAD_LISTS * s->experts + 1, sizeof *s->guesses);
	return s->predicted && s->guesses ? 0 : -ENOMEM;
}

void ahead_close(struct pager_source *s)
{
	free(s->predicted);
	free(s->guesses);
}

/* ---- measuring forecasts ---- */

/* Forgets the guesses for a layer that were made at this distance. */
static void ahead_forget(struct pager_source *s, uint32_t layer, uint32_t distance)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < s->guess_count; i++) {
		const struct pager_guess *g = &s->guesses[i];
		if (pager_entry_layer(g->entry) != layer || g->distance != distance)
			s->guesses[kept++] = *g;
	}
	s->guess_count = kept;
}

static void ahead_note(struct pager_source *s, struct pager_entry *x, uint32_t distance,
		       uint32_t rank)
{
	if (s->guess_count < AHEAD_LISTS * s->experts)
		s->guesses[s->guess_count++] = (struct pager_guess){x, distance, ahead_rank(rank)};
}

static void ahead_learn_guess(struct pager_source *s, const struct pager_guess *g)
{
	struct pager_ahead *count = &s->pager->forecasts[g->distance][g->rank];
	bool used = g->entry->wanted > 0;
	ahead_learn(&s->ahead, g->distance, g->rank, used);
	count->forecast++;
	count->came_true += used;
}

/* Whether the batch wants an absent expert that no read is under way for. */
static bool ahead_demands(const struct pager_source *s, const struct pager_batch *b)
{
	bool demands = false;
	for (uint32_t i = 0; i < b->count; i++)
		demands |= s->entries[(size_t)b->layer * s->experts + b->experts[i]].state ==
			   ENTRY_ABSENT;
	return demands;
}

void ahead_compare(struct pager_source *s, const struct pager_batch *b)
{
	uint32_t kept = 0, before = s->guess_count;
	for (uint32_t i = 0; i < before; i++)
		if (pager_entry_layer(s->guesses[i].entry) == b->layer)
			ahead_learn_guess(s, &s->guesses[i]);
		else
			s->guesses[kept++] = s->guesses[i];
	s->guess_count = kept;
	if (kept < before)
		ahead_count(&s->ahead, ahead_demands(s, b));
}

/* ---- predictions ---- */

static void ahead_end_layer(struct pager_source *s, uint32_t layer)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < s->predicted_count; i++) {
		struct pager_entry *x = s->predicted[i];
		if (pager_entry_layer(x) == layer)
			x->shielded = false;
		else
			s->predicted[kept++] = x;
	}
	s->predicted_count = kept;
	queue_forget_layer(s->pager, s, layer);
}

static void ahead_end_all(struct pager_source *s)
{
	for (uint32_t i = 0; i < s->predicted_count; i++)
		s->predicted[i]->shielded = false;
	s->predicted_count = 0;
	queue_forget_source(s->pager, s);
}

void ahead_end(struct pager_source *s, uint32_t layer)
{
	ahead_end_all(s);
	if (layer <= s->layer) /* a new pass through the layers: another token */
		s->guess_count = 0;
}

/* Queues an absent expert, unless its rank is not worth a read. Returns the number queued. */
static uint32_t ahead_read(struct pager_source *s, struct pager_entry *x, uint32_t distance,
			   const uint32_t *rank)
{
	if (rank && distance < AHEAD_LAYERS) {
		uint32_t r = ahead_rank(*rank);
		ahead_note(s, x, distance, r);
		if (!ahead_is_worth(&s->ahead, distance, r))
			return 0;
		s->pager->forecasts[distance][r].read++;
	}
	queue_prefetch(s->pager, x);
	return 1;
}

void pager_predict(struct pager_source *s, uint32_t layer, const uint32_t *experts,
		   const uint32_t *rank, uint32_t n)
{
	struct pager *p = s->pager;
	uint32_t prefetches = 0;
	if (layer >= s->layers || n > s->experts)
		return;
	pthread_mutex_lock(&p->lock);
	uint32_t distance = layer - s->layer - 1; /* an earlier layer wraps: more than any
						     distance */
	ahead_end_layer(s, layer);
	ahead_forget(s, layer, distance);
	if (n > AHEAD_LAYERS * s->experts - s->predicted_count)
		ahead_end_all(s);
	for (uint32_t i = 0; i < n && experts[i] < s->experts; i++) {
		struct pager_entry *x = &s->entries[(size_t)layer * s->experts + experts[i]];
		x->shielded = p->shield;
		s->predicted[s->predicted_count++] = x;
		if (p->prefetch && x->state == ENTRY_ABSENT && !x->queued)
			prefetches += ahead_read(s, x, distance, rank ? &rank[i] : NULL);
	}
	queue_wake(p, prefetches);
	pthread_mutex_unlock(&p->lock);
}

bool pager_predicts(const struct pager_source *s)
{
	const struct pager *p = s->pager;
	uint64_t all = (uint64_t)s->layers * s->experts;
	return (p->shield || p->prefetch) && s->own.resident + s->elsewhere < all;
}

void pager_set_elsewhere(struct pager_source *s, uint64_t experts)
{
	s->elsewhere = experts;
}

bool pager_decides(const struct pager_source *s)
{
	return s->elsewhere < (uint64_t)s->layers * s->experts;
}

void pager_ahead_stats(struct pager *p, struct pager_ahead out[AHEAD_LAYERS][AHEAD_RANKS])
{
	pthread_mutex_lock(&p->lock);
	memcpy(out, p->forecasts, sizeof p->forecasts);
	pthread_mutex_unlock(&p->lock);
}

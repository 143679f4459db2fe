/* Predictions: what a layer's next batch will probably want.
 *
 * They cost nothing where they are wrong: a shielded expert is only the last to go, and a read for
 * a prediction is begun when no batch waits for the device, into a slot that nobody wants.
 */
#include "cache/pool.h"
#include "cache/requests.h"

static void forget_layer(struct pager_source *s, uint32_t layer)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < s->predicted_count; i++) {
		struct entry *x = s->predicted[i];
		if (entry_index(x) / s->experts == layer)
			x->shielded = false;
		else
			s->predicted[kept++] = x;
	}
	s->predicted_count = kept;
	request_forget_layer(s->pager, s, layer);
}

void prediction_end(struct pager_source *s)
{
	for (uint32_t i = 0; i < s->predicted_count; i++)
		s->predicted[i]->shielded = false;
	s->predicted_count = 0;
	request_forget_source(s->pager, s);
}

void pager_predict(struct pager_source *s, uint32_t layer, const uint32_t *experts, uint32_t n)
{
	struct pager *p = s->pager;
	uint32_t foreseen = 0;
	if (layer >= s->layers || n > s->experts)
		return;
	pthread_mutex_lock(&p->lock);
	forget_layer(s, layer);
	if (n > PAGER_LOOK_AHEAD * s->experts - s->predicted_count)
		prediction_end(s);
	for (uint32_t i = 0; i < n && experts[i] < s->experts; i++) {
		struct entry *x = &s->entries[(size_t)layer * s->experts + experts[i]];
		x->shielded = p->shield;
		s->predicted[s->predicted_count++] = x;
		if (p->prefetch && x->state == ENTRY_ABSENT && !x->queued) {
			request_foresee(p, x);
			foreseen++;
		}
	}
	request_wake(p, foreseen);
	pthread_mutex_unlock(&p->lock);
}

bool pager_predicts(const struct pager_source *s)
{
	const struct pager *p = s->pager;
	uint64_t all = (uint64_t)s->layers * s->experts;
	return (p->shield || p->prefetch) && s->own.resident < all;
}

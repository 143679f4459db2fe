/* Predictions: what a layer's next batch will probably want.
 *
 * They cost nothing where they are wrong: a shielded expert is only the last to go, and a read for
 * a prediction is begun when no batch waits for the device, into a slot that nobody wants.
 */
#include "cache/pool.h"

#include <string.h>

void prediction_end(struct pager_source *s)
{
	size_t first = (size_t)s->predicted_layer * s->experts;
	for (uint32_t i = 0; i < s->predicted_count; i++)
		s->entries[first + s->predicted[i]].shielded = false;
	s->predicted_count = 0;
}

void pager_predict(struct pager_source *s, uint32_t layer, const uint32_t *experts, uint32_t n)
{
	struct pager *p = s->pager;
	uint32_t foreseen = 0;
	if (layer >= s->layers || n > s->experts)
		return;
	pthread_mutex_lock(&p->lock);
	prediction_end(s);
	loader_forget_source(p, s);
	for (uint32_t i = 0; i < n && experts[i] < s->experts; i++) {
		struct entry *x = &s->entries[(size_t)layer * s->experts + experts[i]];
		x->shielded = p->shield;
		s->predicted[s->predicted_count++] = experts[i];
		if (p->prefetch && x->state == ENTRY_ABSENT && !x->queued) {
			loader_foresee(p, x);
			foreseen++;
		}
	}
	s->predicted_layer = layer;
	loader_wake(p, foreseen);
	pthread_mutex_unlock(&p->lock);
}

bool pager_predicts(const struct pager_source *s)
{
	const struct pager *p = s->pager;
	uint64_t all = (uint64_t)s->layers * s->experts;
	return (p->shield || p->prefetch) && s->own.resident < all;
}

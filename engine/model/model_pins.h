/* What users want of a model's experts. It is the model's own, since the pager's source goes
 * whenever the model is unloaded, and a pin that was set before holds from the next load on. */
#ifndef MOEFS_ENGINE_MODEL_MODEL_PINS_H
#define MOEFS_ENGINE_MODEL_MODEL_PINS_H

#include "cache/pager.h"
#include "engine/family/plan.h"

#include <pthread.h>
#include <stdatomic.h>

enum pin_wish {
	PIN_SET = 1 << 0,
	PIN_LOAD = 1 << 1, /* once, by the next load */
};

struct model_pins {
	pthread_mutex_t lock; /* who writes, be it to the pager's source */
	uint32_t layers, experts;
	_Atomic uint8_t *of; /* [layers * experts] enum pin_wish; NULL: a dense model */
	size_t *slot_bytes;  /* [layers] that an expert takes of the budget; 0: a dense layer */
};

/* None. After a failure it may be freed as well. */
int model_pins_init(struct model_pins *w, const struct config *c, const struct plan *p,
		    struct err *e);
void model_pins_free(struct model_pins *w);

static inline _Atomic uint8_t *model_pin_at(const struct model_pins *w, uint32_t layer,
					    uint32_t expert)
{
	return &w->of[(size_t)layer * w->experts + expert];
}
/* By any thread, without the lock. */
bool model_pins_pinned(const struct model_pins *w, uint32_t layer, uint32_t expert);
bool model_pins_any_pinned(const struct model_pins *w);

/* The rest with the lock held. Sets or clears a wish of n experts. */
void model_pins_set(struct model_pins *w, const struct pager_id *ids, size_t n, enum pin_wish wish,
		    bool on);
void model_pins_clear(struct model_pins *w, enum pin_wish wish); /* of all */
/* How many of them have it. */
size_t model_pins_count(const struct model_pins *w, const struct pager_id *ids, size_t n,
			enum pin_wish wish);
/* While no source is there to ask: -ENOSPC if n experts, each named once, with all that is pinned
 * and token_bytes for others, take more than the budget. */
int model_pins_check_room(const struct model_pins *w, const struct pager_id *ids, size_t n,
			  uint64_t token_bytes, uint64_t budget, struct err *e);
/* Those with a wish, by their layers of the plan, [layers * experts] at most; returns how many. */
size_t model_pins_list(const struct model_pins *w, const struct plan *p, enum pin_wish wish,
		       struct pager_id *out);
/* The same as marks for pager_supply.pinned. */
void model_pins_mark(const struct model_pins *w, const struct plan *p, bool *pinned);

#endif

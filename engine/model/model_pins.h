/* Which experts users want pinned or loaded. This is kept outside the pager, because the pager
 * forgets a model when it is unloaded, while pins stay. */
#ifndef MOEFS_ENGINE_MODEL_MODEL_PINS_H
#define MOEFS_ENGINE_MODEL_MODEL_PINS_H

#include "cache/pager.h"
#include "engine/family/plan.h"

#include <pthread.h>
#include <stdatomic.h>

enum pin_wish {
	PIN_SET = 1 << 0,
	PIN_LOAD = 1 << 1, /* load it once, at the next load of the model */
	PIN_GPU = 1 << 2,  /* keep it on the GPU */
};

struct model_pins {
	pthread_mutex_t lock; /* held by writers, also while they change the pager's pins */
	uint32_t layers, experts;
	_Atomic uint8_t *of; /* [layers * experts] set of enum pin_wish; NULL: a dense model */
	size_t *slot_bytes;  /* [layers] budget bytes per expert; 0: a dense layer */
};

/* No wishes. May be freed also after an error. */
int model_pins_init(struct model_pins *w, const struct config *c, const struct plan *p,
		    struct err *e);
void model_pins_free(struct model_pins *w);

static inline _Atomic uint8_t *model_pin_at(const struct model_pins *w, uint32_t layer,
					    uint32_t expert)
{
	return &w->of[(size_t)layer * w->experts + expert];
}
/* Any thread, without the lock. */
bool model_pins_pinned(const struct model_pins *w, uint32_t layer, uint32_t expert,
		       enum pin_wish wish);
bool model_pins_any_pinned(const struct model_pins *w);

/* The functions from here on need the lock. Sets or clears a wish for n experts. */
void model_pins_set(struct model_pins *w, const struct pager_id *ids, size_t n, enum pin_wish wish,
		    bool on);
void model_pins_clear(struct model_pins *w, enum pin_wish wish); /* for all experts */
/* How many of n experts have a wish. */
size_t model_pins_count(const struct model_pins *w, const struct pager_id *ids, size_t n,
			enum pin_wish wish);
/* For an unloaded model: -ENOSPC if n distinct experts, all pinned experts, and token_bytes for the
 * other experts of a token exceed the budget. */
int model_pins_check_room(const struct model_pins *w, const struct pager_id *ids, size_t n,
			  uint64_t token_bytes, uint64_t budget, struct err *e);
/* Lists the experts with a wish, with layer numbers of the plan, at most [layers * experts].
 * Returns how many. */
size_t model_pins_list(const struct model_pins *w, const struct plan *p, enum pin_wish wish,
		       struct pager_id *out);
/* Sets pager_supply.pinned from the pins. */
void model_pins_mark(const struct model_pins *w, const struct plan *p, bool *pinned);

#endif

/* What users want of a model's experts. It is the model's own, since the pager's source goes
 * whenever the model is unloaded, and a pin that was set before holds from the next load on. */
#ifndef MOEFS_ENGINE_SERVE_WISHES_H
#define MOEFS_ENGINE_SERVE_WISHES_H

#include "cache/pager.h"
#include "engine/family/plan.h"

#include <pthread.h>
#include <stdatomic.h>

enum wish {
	WISH_PINNED = 1 << 0,
	WISH_LOADED = 1 << 1, /* once, by the next load */
};

struct wishes {
	pthread_mutex_t lock; /* who writes, be it to the pager's source */
	uint32_t layers, experts;
	_Atomic uint8_t *of; /* [layers * experts] enum wish; NULL: a dense model */
	size_t *slot_bytes;  /* [layers] that an expert takes of the budget; 0: a dense layer */
};

/* None. After a failure it may be freed as well. */
int wishes_init(struct wishes *w, const struct config *c, const struct plan *p, struct err *e);
void wishes_free(struct wishes *w);

static inline _Atomic uint8_t *wish_of(const struct wishes *w, uint32_t layer, uint32_t expert)
{
	return &w->of[(size_t)layer * w->experts + expert];
}
/* By any thread, without the lock. */
bool wishes_pinned(const struct wishes *w, uint32_t layer, uint32_t expert);
bool wishes_any_pinned(const struct wishes *w);

/* The rest with the lock held. Sets or clears a wish of n experts. */
void wishes_set(struct wishes *w, const struct pager_id *ids, size_t n, enum wish wish, bool on);
void wishes_clear(struct wishes *w, enum wish wish); /* of all */
/* How many of them have it. */
size_t wishes_count(const struct wishes *w, const struct pager_id *ids, size_t n, enum wish wish);
/* While no source is there to ask: -ENOSPC if n experts, each named once, with all that is pinned
 * and token_bytes for others, take more than the budget. */
int wishes_check_room(const struct wishes *w, const struct pager_id *ids, size_t n,
		      uint64_t token_bytes, uint64_t budget, struct err *e);
/* Those with a wish, by their layers of the plan, [layers * experts] at most; returns how many. */
size_t wishes_list(const struct wishes *w, const struct plan *p, enum wish wish,
		   struct pager_id *out);
/* The same as marks for pager_supply.pinned. */
void wishes_mark(const struct wishes *w, const struct plan *p, bool *pinned);

#endif

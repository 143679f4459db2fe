#include "engine/model/model_pins.h"

#include <errno.h>
#include <stdlib.h>

int model_pins_init(struct model_pins *w, const struct config *c, const struct plan *p,
		    struct err *e)
{
	if (!p->routed_layers)
		return 0;
	w->layers = c->layers;
	w->experts = c->experts;
	w->of = calloc((size_t)w->layers * w->experts, sizeof *w->of);
	w->slot_bytes = calloc(w->layers, sizeof *w->slot_bytes);
	if (!w->of || !w->slot_bytes)
		return err_set(e, ENOMEM, "out of memory for a model");
	for (uint32_t i = 0; i < w->layers; i++) {
		uint32_t routed = p->routed_of[i];
		if (routed != UINT32_MAX)
			w->slot_bytes[i] = pager_slot_bytes(
				p->layer_slot_bytes ? p->layer_slot_bytes[routed] : p->slot_bytes);
	}
	return 0;
}

void model_pins_free(struct model_pins *w)
{
	free(w->of);
	free(w->slot_bytes);
	w->of = NULL;
	w->slot_bytes = NULL;
}

static bool model_pins_has(const struct model_pins *w, uint32_t layer, uint32_t expert,
			   enum pin_wish wish)
{
	return atomic_load_explicit(model_pin_at(w, layer, expert), memory_order_relaxed) & wish;
}

bool model_pins_pinned(const struct model_pins *w, uint32_t layer, uint32_t expert,
		       enum pin_wish wish)
{
	return w->of && model_pins_has(w, layer, expert, wish);
}

bool model_pins_any_pinned(const struct model_pins *w)
{
	for (size_t i = 0; w->of && i < (size_t)w->layers * w->experts; i++)
		if (atomic_load(&w->of[i]) & PIN_SET)
			return true;
	return false;
}

void model_pins_set(struct model_pins *w, const struct pager_id *ids, size_t n, enum pin_wish wish,
		    bool on)
{
	for (size_t i = 0; i < n; i++) {
		_Atomic uint8_t *x = model_pin_at(w, ids[i].layer, ids[i].expert);
		*x = (uint8_t)(on ? *x | wish : *x & ~(unsigned)wish);
	}
}

void model_pins_clear(struct model_pins *w, enum pin_wish wish)
{
	for (size_t i = 0; w->of && i < (size_t)w->layers * w->experts; i++)
		w->of[i] &= (uint8_t) ~(unsigned)wish;
}

size_t model_pins_count(const struct model_pins *w, const struct pager_id *ids, size_t n,
			enum pin_wish wish)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++)
		count += model_pins_has(w, ids[i].layer, ids[i].expert, wish);
	return count;
}

int model_pins_check_room(const struct model_pins *w, const struct pager_id *ids, size_t n,
			  uint64_t token_bytes, uint64_t budget, struct err *e)
{
	uint64_t all = 0, taken = 0;
	for (uint32_t l = 0; l < w->layers; l++)
		for (uint32_t i = 0; i < w->experts; i++) {
			all += w->slot_bytes[l];
			taken += model_pins_has(w, l, i, PIN_SET) ? w->slot_bytes[l] : 0;
		}
	for (size_t i = 0; i < n; i++)
		if (!model_pins_has(w, ids[i].layer, ids[i].expert, PIN_SET))
			taken += w->slot_bytes[ids[i].layer];
	uint64_t beside = token_bytes < all - taken ? token_bytes : all - taken;
	if (taken + beside <= budget)
		return 0;
	return err_set(e, ENOSPC,
		       "these experts and the pinned ones would take %llu bytes, and %llu must "
		       "stay free for the others, but other models' pins leave %llu of the budget; "
		       "unpin some, or raise cache/budget",
		       (unsigned long long)taken, (unsigned long long)beside,
		       (unsigned long long)budget);
}

size_t model_pins_list(const struct model_pins *w, const struct plan *p, enum pin_wish wish,
		       struct pager_id *out)
{
	size_t n = 0;
	for (uint32_t l = 0; l < w->layers; l++)
		for (uint32_t i = 0; i < w->experts && w->slot_bytes[l]; i++)
			if (model_pins_has(w, l, i, wish))
				out[n++] = (struct pager_id){p->routed_of[l], i};
	return n;
}

void model_pins_mark(const struct model_pins *w, const struct plan *p, bool *pinned)
{
	for (uint32_t l = 0; l < w->layers; l++)
		for (uint32_t i = 0; i < w->experts && w->slot_bytes[l]; i++)
			pinned[(size_t)p->routed_of[l] * w->experts + i] =
				model_pins_has(w, l, i, PIN_SET);
}

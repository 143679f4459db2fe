#include "engine/compute/loop_order.h"

#include <stddef.h>

void loop_order_add(struct loop_order *o, struct loop_user *u)
{
	u->next = o->first;
	o->first = u;
}

void loop_order_remove(struct loop_order *o, struct loop_user *u)
{
	struct loop_user **at = &o->first;
	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	if (o->last == u)
		o->last = NULL;
}

static bool loop_order_active(const struct loop_user *u, uint64_t now)
{
	return u->waits || now - u->left_ns < LOOP_GRACE_NS;
}

void loop_order_ask(struct loop_order *o, struct loop_user *u, uint64_t now)
{
	uint64_t least = UINT64_MAX;
	for (const struct loop_user *v = o->first; v; v = v->next)
		if (v != u && loop_order_active(v, now) && v->used < least)
			least = v->used;
	if (!loop_order_active(u, now) && least != UINT64_MAX && u->used < least)
		u->used = least;
	u->waits++;
}

/* Whether v comes before u. */
static bool loop_order_before(const struct loop_order *o, const struct loop_user *v,
			      const struct loop_user *u)
{
	uint64_t of_v = v->used, of_u = u->used;
	if (o->last == v)
		of_u += LOOP_QUANTUM_NS;
	if (o->last == u)
		of_v += LOOP_QUANTUM_NS;
	return of_v < of_u;
}

uint64_t loop_order_wait(const struct loop_order *o, const struct loop_user *u, uint64_t now)
{
	uint64_t until = 0;
	if (o->busy)
		return UINT64_MAX;
	for (const struct loop_user *v = o->first; v; v = v->next) {
		if (v == u || !loop_order_active(v, now) || !loop_order_before(o, v, u))
			continue;
		if (v->waits)
			return UINT64_MAX;
		if (v->left_ns + LOOP_GRACE_NS > until)
			until = v->left_ns + LOOP_GRACE_NS;
	}
	return until;
}

void loop_order_begin(struct loop_order *o, struct loop_user *u)
{
	u->waits--;
	o->busy = true;
	o->last = u;
}

void loop_order_end(struct loop_order *o, struct loop_user *u, uint64_t began, uint64_t now)
{
	u->used += (now - began) * u->weight;
	u->left_ns = now;
	o->busy = false;
}

/* The inside of plan.c, which makes a plan, and plan_digest.c. */
#ifndef MOEFS_ENGINE_FAMILY_PLAN_INSIDE_H
#define MOEFS_ENGINE_FAMILY_PLAN_INSIDE_H

#include "engine/family/plan.h"

/* Fills in p->digest once all else is there. */
int plan_digest(struct plan *p, const struct config *c, struct err *e);

#endif

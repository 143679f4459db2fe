#include "engine/compute/repetition.h"

#include <errno.h>
#include <stdlib.h>

int repetition_init(struct repetition *r, float penalty, uint32_t vocabulary)
{
	*r = (struct repetition){.penalty = penalty};
	if (penalty == 1)
		return 0;
	r->seen = calloc(((size_t)vocabulary + 63) / 64, sizeof *r->seen);
	return r->seen ? 0 : -ENOMEM;
}

void repetition_free(struct repetition *r)
{
	free(r->seen);
	free(r->ids);
	*r = (struct repetition){0};
}

static int append(struct repetition *r, uint32_t id)
{
	if (r->count == r->room) {
		size_t room = 2 * r->room + 256;
		uint32_t *ids = reallocarray(r->ids, room, sizeof *ids);
		if (!ids)
			return -ENOMEM;
		r->ids = ids;
		r->room = room;
	}
	r->ids[r->count++] = id;
	return 0;
}

int repetition_add(struct repetition *r, const uint32_t *ids, size_t n)
{
	for (size_t i = 0; r->seen && i < n; i++) {
		uint64_t *word = &r->seen[ids[i] / 64], bit = UINT64_C(1) << ids[i] % 64;
		if (*word & bit)
			continue;
		if (append(r, ids[i]))
			return -ENOMEM;
		*word |= bit;
	}
	return 0;
}

void repetition_apply(const struct repetition *r, float *logits)
{
	for (size_t i = 0; i < r->count; i++) {
		float *logit = &logits[r->ids[i]];
		*logit = *logit > 0 ? *logit / r->penalty : *logit * r->penalty;
	}
}

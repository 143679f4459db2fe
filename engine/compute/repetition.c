#include "engine/compute/repetition.h"

#include <errno.h>
#include <stdlib.h>

int repetition_init(struct repetition *r, struct penalties by, uint32_t vocabulary)
{
	*r = (struct repetition){.by = by};
	if (by.repetition != 1) {
		r->seen = calloc(((size_t)vocabulary + 63) / 64, sizeof *r->seen);
		if (!r->seen)
			return -ENOMEM;
	}
	if (by.frequency == 0 && by.presence == 0)
		return 0;
	r->said = calloc(vocabulary, sizeof *r->said);
	return r->said ? 0 : -ENOMEM;
}

void repetition_free(struct repetition *r)
{
	free(r->seen);
	free(r->said);
	free(r->stand.ids);
	free(r->answer.ids);
	*r = (struct repetition){0};
}

static int append(struct id_list *l, uint32_t id)
{
	if (l->count == l->room) {
		size_t room = 2 * l->room + 256;
		uint32_t *ids = reallocarray(l->ids, room, sizeof *ids);
		if (!ids)
			return -ENOMEM;
		l->ids = ids;
		l->room = room;
	}
	l->ids[l->count++] = id;
	return 0;
}

int repetition_add(struct repetition *r, const uint32_t *ids, size_t n)
{
	for (size_t i = 0; r->seen && i < n; i++) {
		uint64_t *word = &r->seen[ids[i] / 64], bit = UINT64_C(1) << ids[i] % 64;
		if (*word & bit)
			continue;
		if (append(&r->stand, ids[i]))
			return -ENOMEM;
		*word |= bit;
	}
	return 0;
}

int repetition_say(struct repetition *r, uint32_t id)
{
	if (repetition_add(r, &id, 1) || (r->said && !r->said[id] && append(&r->answer, id)))
		return -ENOMEM;
	if (r->said)
		r->said[id]++;
	return 0;
}

void repetition_apply(const struct repetition *r, float *logits)
{
	for (size_t i = 0; i < r->stand.count; i++) {
		float *logit = &logits[r->stand.ids[i]];
		*logit = *logit > 0 ? *logit / r->by.repetition : *logit * r->by.repetition;
	}
	for (size_t i = 0; i < r->answer.count; i++) {
		uint32_t id = r->answer.ids[i];
		logits[id] -= (float)r->said[id] * r->by.frequency;
		logits[id] -= r->by.presence;
	}
}

/* From a tensor's rows to those of the roles that lie in it (view.h). */
#include "engine/family/view.h"

void view_rows_between(const struct view *v, uint32_t cols, uint64_t *first, uint64_t *end)
{
	uint64_t each = v->upright ? v->upright : 1;
	*first = UINT64_MAX;
	*end = 0;
	for (uint32_t i = 0; i < v->count; i++) {
		const struct view_part *p = &v->part[i];
		uint64_t last = (p->rows - 1) % p->block;
		if (v->way == VIEW_ACROSS)
			last = cols - 1;
		else if (p->rows > p->block)
			last = p->block - 1;
		last += p->first + (p->rows - 1) / p->block * p->stride;
		*first = p->first * each < *first ? p->first * each : *first;
		*end = (last + 1) * each > *end ? (last + 1) * each : *end;
	}
}

/* The same of rows that are no pairs. */
static bool find_row(const struct view *v, uint64_t at, uint64_t *row)
{
	uint64_t before = 0;
	for (uint32_t i = 0; i < v->count; before += v->part[i++].rows) {
		const struct view_part *p = &v->part[i];
		uint64_t from = at - p->first, in_block = from % p->stride;
		uint64_t of_part = from / p->stride * p->block + in_block;
		*row = before + of_part;
		if (at >= p->first && in_block < p->block && of_part < p->rows)
			return true;
	}
	return false;
}

bool view_find_row(const struct view *v, uint64_t at, uint64_t *row)
{
	if (!find_row(v, at, row))
		return false;
	if (v->paired) {
		uint64_t in_pair = *row % v->paired;
		*row += in_pair % 2 * (v->paired / 2) + in_pair / 2 - in_pair;
	}
	return true;
}

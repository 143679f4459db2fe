/* Rounding to a codebook's levels. */
#include "engine/convert/rounding_codes.h"
#include "kernels/tq.h"

#include <string.h>

static uint8_t nearest_level(const struct tq_codebook *book, float y)
{
	uint32_t index = 0;
	for (uint32_t i = 0; i + 1 < book->levels; i++)
		index += book->boundary[i] < y;
	return (uint8_t)index;
}

void rounding_tq_choose(const struct group *g, float norm, struct coded *c)
{
	const struct tq_codebook *book = tq_codebook(g->bits);
	float aimed[TQ_GROUP], divisor = norm > 0 ? norm : 1;
	for (size_t i = 0; i < TQ_GROUP; i++)
		aimed[i] = g->weight[i] + g->brought[i];
	for (size_t i = 0; i < TQ_GROUP; i++) {
		c->symbol[i] = nearest_level(book, aimed[i] / divisor);
		c->level[i] = book->level[c->symbol[i]];
		g->kernels->add_scaled(aimed + i + 1, g->weight[i] - norm * c->level[i],
				       g->upper + i * g->stride + i + 1, TQ_GROUP - 1 - i);
	}
}

bool rounding_tq_sweep(const struct group *g, struct coded *c)
{
	const struct tq_codebook *book = tq_codebook(g->bits);
	float pull[TQ_GROUP] = {0};
	bool changed = false;
	for (size_t i = 0; i < TQ_GROUP; i++)
		g->kernels->add_scaled(pull, g->target[i] - c->norm * c->level[i],
				       g->pairs + i * TQ_GROUP, TQ_GROUP);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		const float *row = g->pairs + i * TQ_GROUP;
		uint8_t symbol = nearest_level(book, c->level[i] + pull[i] / (row[i] * c->norm));
		if (symbol == c->symbol[i])
			continue;
		g->kernels->add_scaled(pull, c->norm * (c->level[i] - book->level[symbol]), row,
				       TQ_GROUP);
		c->symbol[i] = symbol;
		c->level[i] = book->level[symbol];
		changed = true;
	}
	return changed;
}

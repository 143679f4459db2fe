#include "engine/turn/periods.h"

void periods_begin(struct periods *p, size_t first)
{
	*p = (struct periods){.first = first};
}

/* How many comparisons must succeed for this period. The tokens of the first period are not
 * compared with anything. */
static uint32_t periods_enough(uint32_t period)
{
	uint32_t tokens = PERIODS_TIMES * period;
	return (tokens > PERIODS_LEAST ? tokens : PERIODS_LEAST) - period;
}

void periods_take(struct periods *p, const uint32_t *ids, size_t count)
{
	size_t before = count - 1 - p->first;
	uint32_t most = before < PERIODS_MOST ? (uint32_t)before : PERIODS_MOST;
	const uint32_t *last = ids + count - 1;
	p->repeats = false;
	for (uint32_t period = 1; period <= most; period++) {
		p->run[period] = *last == *(last - period) ? p->run[period] + 1 : 0;
		p->repeats |= p->run[period] >= periods_enough(period);
	}
}

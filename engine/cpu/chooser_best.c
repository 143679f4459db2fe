/* The best of many scores: one selection for all that choose where attention looks. See layers.h. */
#include "engine/cpu/layers.h"

#include <math.h>
#include <string.h>

enum { DIGIT = 11, DIGITS = 1 << DIGIT, PASSES = 3 };

/* A number that is larger for a larger score, the same for equal ones, and 0 for NaN alone. */
static uint32_t chooser_rank(float score)
{
	uint32_t bits;
	if (isnan(score))
		return 0;
	score += 0.0F; /* -0 is 0 */
	memcpy(&bits, &score, sizeof bits);
	return bits & 0x80000000U ? ~bits : bits | 0x80000000U;
}

/* The `most`-th largest rank, which is at least 1; *more: how many of the chosen have that rank. n is
 * larger than most. Digit by digit from the highest. */
static uint32_t chooser_threshold(const float *scores, uint32_t n, uint32_t most, uint32_t *more)
{
	uint32_t prefix = 0, known = 0; /* the digits found, and a mask of their bits */
	for (int pass = 0; pass < PASSES; pass++) {
		uint32_t count[DIGITS] = {0};
		int shift = 32 - DIGIT * (pass + 1);
		uint32_t digits = shift < 0 ? DIGITS >> -shift : DIGITS;
		shift = shift < 0 ? 0 : shift;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t rank = chooser_rank(scores[i]);
			if ((rank & known) == prefix)
				count[rank >> shift & (digits - 1)]++;
		}
		uint32_t digit = digits - 1;
		for (; digit && count[digit] < most; digit--)
			most -= count[digit];
		prefix |= digit << shift;
		known |= (digits - 1) << shift;
	}
	*more = most;
	return prefix;
}

uint32_t chooser_best(const float *scores, uint32_t n, uint32_t most, uint32_t *chosen)
{
	uint32_t threshold = 1, more = n, count = 0;
	if (!most)
		return 0;
	if (n > most)
		threshold = chooser_threshold(scores, n, most, &more);
	for (uint32_t i = 0; i < n && count < most; i++) {
		uint32_t rank = chooser_rank(scores[i]);
		if (!rank || rank < threshold || (rank == threshold && !more))
			continue;
		more -= rank == threshold;
		chosen[count++] = i;
	}
	return count;
}

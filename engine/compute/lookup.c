#include "engine/compute/lookup.h"

/* How many tokens before `end` agree with those before `count`. */
static uint32_t agreement(const uint32_t *tokens, size_t end, size_t count)
{
	uint32_t n = 0;
	while (n < LOOKUP_MOST && n < end && tokens[end - 1 - n] == tokens[count - 1 - n])
		n++;
	return n;
}

uint32_t lookup_draft(const uint32_t *tokens, size_t count, uint32_t *draft, uint32_t most,
		      uint32_t *matched)
{
	size_t place = 0;
	*matched = 0;
	for (size_t end = count ? count - 1 : 0; end >= LOOKUP_LEAST && *matched < LOOKUP_MOST;
	     end--) {
		uint32_t n = agreement(tokens, end, count);
		if (n >= LOOKUP_LEAST && n > *matched) {
			*matched = n;
			place = end;
		}
	}
	if (!*matched)
		return 0;
	for (uint32_t i = 0; i < most; i++)
		draft[i] = place + i < count ? tokens[place + i] : draft[place + i - count];
	return most;
}

#include "engine/compute/marks.h"

uint32_t marks_least_missed(const size_t *positions, uint32_t count, size_t end)
{
	uint32_t least = 0;
	double least_gap = 0;
	for (uint32_t i = 0; i < count; i++) {
		size_t before = i ? positions[i - 1] : 0;
		size_t after = i + 1 < count ? positions[i + 1] : end;
		double gap = (double)(after - before) / (double)(end - positions[i]);
		if (i == 0 || gap < least_gap) {
			least = i;
			least_gap = gap;
		}
	}
	return least;
}

/* Comparing results to the bit, and inputs that are hard to get right (compare.h). */
#include "tests/cuda/compare.h"

#include <stdio.h>
#include <string.h>

enum { TOLD = 3 };

bool compare_floats(const char *what, const float *got, const float *expected, size_t n)
{
	size_t wrong = 0;

	for (size_t i = 0; i < n; i++) {
		if ((isnan(got[i]) && isnan(expected[i])) ||
		    memcmp(&got[i], &expected[i], sizeof *got) == 0)
			continue;
		if (wrong++ < TOLD)
			printf("# %s: element %zu is %a, not %a\n", what, i, (double)got[i],
			       (double)expected[i]);
	}
	if (wrong)
		printf("# %s: %zu of %zu differ\n", what, wrong, n);
	return wrong == 0;
}

bool compare_bytes(const char *what, const void *got, const void *expected, size_t element,
		   size_t n)
{
	const uint8_t *a = got, *b = expected;
	size_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		if (memcmp(a + i * element, b + i * element, element) != 0 && wrong++ < TOLD)
			printf("# %s: element %zu is %02x…, not %02x…\n", what, i, a[i * element],
			       b[i * element]);
	if (wrong)
		printf("# %s: %zu of %zu differ\n", what, wrong, n);
	return wrong == 0;
}

void compare_fill_rows(struct random *r, float *x, size_t rows, size_t n)
{
	static const float factors[] = {1, 0, 0x1p-140F, 0x1p127F};
	static const float hostile[] = {NAN, INFINITY, -INFINITY, -0.0F, 0x1p-149F};

	random_normal(r, x, rows * n);
	for (size_t row = 1; row < rows; row++) {
		const float factor = factors[row % 4];
		for (size_t i = 0; i < n; i++)
			x[row * n + i] *= factor;
		if (row % 2 == 0) /* half of a row stays as it is */
			x[row * n + random_u32(r) % (n - n / 2)] = hostile[row / 2 % 5];
	}
}

/* libFuzzer on the file with the heat of experts: any bytes are refused with a sentence, or give
 * one possible number for each expert.
 *
 * An input is a byte and the file. If the byte is odd, the file's checksum is corrected, else
 * almost no input would pass it; if it is 2 or more, its head as well. */
#include "cache/pager_heat.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LAYERS = 3, EXPERTS = 5, ALL = LAYERS * EXPERTS };
static const struct heat_identity of = {"scales", LAYERS, EXPERTS};

static void make_right(uint8_t *file, size_t size, bool head)
{
	static const char begin[] = "MOEHEAT1scales\0\0\0\0\0\0\0\0\0";
	const uint32_t counts[2] = {LAYERS, EXPERTS};
	if (size < HEAT_HEAD + ALL * sizeof(float))
		return;
	uint64_t sum = XXH3_64bits(file + HEAT_HEAD, ALL * sizeof(float));
	memcpy(file + 32, &sum, sizeof sum);
	if (head) {
		memcpy(file, begin, 24);
		memcpy(file + 24, counts, sizeof counts);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	/* Of the exact sizes, so that nothing beyond is touched unseen. */
	uint8_t *file = malloc(size);
	float *heat = malloc(ALL * sizeof *heat);
	struct err e = {0};
	if (!file || !heat)
		abort();
	memmove(file, data + 1, size - 1);
	if (data[0] & 1)
		make_right(file, size - 1, data[0] >= 2);
	uint8_t *exact = realloc(file, size - 1 + !(size - 1));
	if (!exact)
		abort();
	int failed = heat_decode(heat, &of, exact, size - 1, "fuzz", &e);
	if (failed && (e.code != -failed || !e.text[0]))
		abort();
	for (int i = 0; i < ALL && !failed; i++)
		if (!(heat[i] >= 0 && heat[i] <= HEAT_MOST))
			abort();
	free(heat);
	free(exact);
	return 0;
}

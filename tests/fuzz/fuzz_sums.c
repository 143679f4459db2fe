/* libFuzzer on the file of checksums of a source in place: any bytes are refused in words, or give
 * as many sums as there are units.
 *
 * An input is a byte and the file. If the byte is odd the file's sum is made right, else nearly
 * none would get by it; if it is 2 or more, its head as well. */
#include "cache/store_in_place.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { UNITS = 5 };
static const struct store_sums_identity of = {{1, 2}, {3, 4}, UNITS};

static void make_right(uint8_t *file, size_t size, int head)
{
	const uint64_t numbers[5] = {1, 2, 3, 4, UNITS};
	if (size < SUMS_HEAD + 8)
		return;
	if (head) {
		memcpy(file, "MOESUMS2", 8);
		memcpy(file + 8, numbers, sizeof numbers);
	}
	uint64_t sum = XXH3_64bits(file, size - 8);
	memcpy(file + size - 8, &sum, sizeof sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	/* Of the exact sizes, so that nothing beyond is touched unseen. */
	size_t bytes = size - 1;
	uint8_t *file = malloc(bytes + !bytes);
	uint64_t *sums = malloc(UNITS * sizeof *sums);
	struct err e = {0};
	if (!file || !sums)
		abort();
	memcpy(file, data + 1, bytes);
	if (data[0] & 1)
		make_right(file, bytes, data[0] >= 2);
	int failed = store_sums_decode(sums, &of, file, bytes, "fuzz", &e);
	if (failed && (e.code != -failed || !e.text[0]))
		abort();
	if (!failed && bytes != SUMS_HEAD + 8 * (UNITS + 1))
		abort();
	free(sums);
	free(file);
	return 0;
}

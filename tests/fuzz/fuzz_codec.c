/* libFuzzer on the codec of records: any bytes are decoded to their record or refused, and nothing
 * beyond the record is touched.
 *
 * An input is two bytes, the record's size, then: for an even size the stored bytes as they stand;
 * for an odd one changes of two bytes (a place, and what is xored there) up to one that changes
 * nothing, and the record, which is coded, changed, and decoded again. Sums keep most of the first
 * kind from being right; the second gets deep into zstd's frames.
 */
#include "cache/codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void *allocate(size_t bytes)
{
	void *memory = malloc(bytes + !bytes);
	if (!memory)
		abort();
	return memory;
}

/* Decodes from and into memory of the exact sizes. expected may be NULL. */
static void decode(const uint8_t *stored, size_t stored_bytes, size_t record_bytes,
		   const uint8_t *expected)
{
	uint8_t *in = allocate(stored_bytes), *out = allocate(record_bytes);
	uint8_t *temp = allocate(CODEC_TEMP);
	if (stored_bytes)
		memcpy(in, stored, stored_bytes);
	int rc = codec_decode(out, record_bytes, in, stored_bytes, temp);
	if (rc && rc != -EIO)
		abort();
	if (!rc && expected && record_bytes && memcmp(out, expected, record_bytes) != 0)
		abort();
	free(temp);
	free(out);
	free(in);
}

static void decode_changed(const uint8_t *data, size_t size, size_t record_bytes)
{
	uint8_t *record = allocate(record_bytes);
	const uint8_t *changes = data, *end = data + size;
	while (end - data >= 2 && data[1])
		data += 2;
	if (end - data >= 2)
		data += 2;
	size_t rest = (size_t)(end - data), n = rest < record_bytes ? rest : record_bytes;
	memset(record, 0, record_bytes);
	if (n)
		memcpy(record, data, n);
	uint8_t *stored = allocate(codec_most(record_bytes));
	size_t stored_bytes;
	if (codec_encode(stored, &stored_bytes, record, record_bytes))
		abort();
	for (; changes < data; changes += 2)
		stored[changes[0] % stored_bytes] ^= changes[1];
	decode(stored, stored_bytes, record_bytes, record);
	free(stored);
	free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	size_t record_bytes = data[0] | (size_t)data[1] << 8;
	if (record_bytes % 2)
		decode_changed(data + 2, size - 2, record_bytes / 2);
	else
		decode(data + 2, size - 2, record_bytes / 2, NULL);
	return 0;
}

/* libFuzzer on the records of a store's identity: any bytes are files and ranges in them, or
 * nothing, and the gaps between the ranges can be listed. An input is records of 48 bytes, which
 * get their checksums here, since others would be ignored. */
#include "engine/source/identity.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_ranges(const struct identity *id)
{
	for (size_t i = 0; i < id->range_count; i++) {
		const struct identity_range *r = &id->ranges[i];
		if (r->file >= id->file_count || !r->bytes ||
		    r->offset > id->files[r->file].stamp.size ||
		    r->bytes > id->files[r->file].stamp.size - r->offset)
			abort();
	}
}

/* In ascending order, and beside the ranges. */
static void check_gaps(const struct identity *id)
{
	struct identity_gaps at = {0};
	struct identity_range gap, before = {0};
	while (identity_next_gap(id, &at, &gap)) {
		if (!gap.bytes || gap.file >= id->file_count ||
		    gap.bytes > id->files[gap.file].stamp.size - gap.offset)
			abort();
		if (gap.file < before.file ||
		    (gap.file == before.file && gap.offset < before.offset + before.bytes))
			abort();
		before = gap;
	}
}

/* Written and read again, a record says the same. */
static void check_again(const struct identity *id)
{
	uint8_t record[IDENTITY_RECORD];
	struct err e;
	struct identity again = {.name = {id->name[0], id->name[1]}};
	for (uint32_t i = 0; i < id->file_count; i++) {
		identity_encode_file(record, id, i);
		if (identity_decode(&again, record, &e))
			abort();
	}
	for (size_t i = 0; i < id->range_count; i++) {
		identity_encode_range(record, id, &id->ranges[i]);
		if (identity_decode(&again, record, &e))
			abort();
	}
	if (again.file_count != id->file_count || again.range_count != id->range_count)
		abort();
	identity_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { CONTENT = IDENTITY_RECORD - 8 };
	uint8_t record[IDENTITY_RECORD];
	struct identity id = {.name = {1, 2}};
	struct err e;
	if (size >= IDENTITY_RECORD)
		(void)identity_decode_head(&(struct identity){0}, data);
	for (; size >= CONTENT; data += CONTENT, size -= CONTENT) {
		memcpy(record, data, CONTENT);
		uint64_t sum = identity_record_sum(record, &id);
		for (int i = 0; i < 8; i++)
			record[CONTENT + i] = (uint8_t)(sum >> 8 * i);
		if (identity_decode(&id, record, &e))
			abort();
	}
	check_ranges(&id);
	check_again(&id);
	if (!identity_sort(&id, &e))
		check_gaps(&id);
	identity_free(&id);
	return 0;
}

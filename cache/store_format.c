/* Encoding and decoding of the index and the journal; the layouts are in the header. */
#include "cache/store_format.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char index_magic[8] = {'M', 'O', 'E', 'F', 'S', 'I', 'D', 'X'};
static const char journal_magic[8] = {'M', 'O', 'E', 'F', 'S', 'J', 'N', 'L'};

static uint8_t *put32(uint8_t *out, uint32_t v)
{
	v = htole32(v);
	memcpy(out, &v, sizeof v);
	return out + sizeof v;
}

static uint8_t *put64(uint8_t *out, uint64_t v)
{
	v = htole64(v);
	memcpy(out, &v, sizeof v);
	return out + sizeof v;
}

static uint32_t get32(const uint8_t **in)
{
	uint32_t v;
	memcpy(&v, *in, sizeof v);
	*in += sizeof v;
	return le32toh(v);
}

static uint64_t get64(const uint8_t **in)
{
	uint64_t v;
	memcpy(&v, *in, sizeof v);
	*in += sizeof v;
	return le64toh(v);
}

/* ---- the numbers ---- */

int store_info_check(const struct store_info *info, const char *what, struct err *e)
{
	uint64_t records = (uint64_t)info->layers * info->experts, end;
	uint64_t units = records + info->dense_units;

	if (units > STORE_MAX_UNITS)
		return err_set(e, EINVAL, "%s: %llu units are more than the %d of a store", what,
			       (unsigned long long)units, STORE_MAX_UNITS);
	if ((records == 0) != (info->record_bytes == 0))
		return err_set(e, EINVAL, "%s: %llu experts of %llu bytes make no sense", what,
			       (unsigned long long)records, (unsigned long long)info->record_bytes);
	if (info->experts_base % STORE_ALIGN)
		return err_set(e, EINVAL,
			       "%s: the experts begin at byte %llu, which is no multiple of %d",
			       what, (unsigned long long)info->experts_base, STORE_ALIGN);
	if (__builtin_mul_overflow(records, info->record_bytes, &end) ||
	    __builtin_add_overflow(end, info->experts_base, &end) || end > INT64_MAX)
		return err_set(e, EINVAL, "%s: the experts' size overflows", what);
	if (__builtin_add_overflow(info->dense_base, info->dense_bytes, &end) || end > INT64_MAX)
		return err_set(e, EINVAL, "%s: the dense data's size overflows", what);
	if (info->key.recipe[sizeof info->key.recipe - 1])
		return err_set(e, EINVAL, "%s: the recipe's name is too long", what);
	return 0;
}

uint64_t store_experts_size(const struct store_info *info)
{
	return info->experts_base + store_records(info) * info->record_bytes;
}

uint64_t store_dense_size(const struct store_info *info)
{
	return info->dense_base + info->dense_bytes;
}

bool store_key_equal(const struct store_key *a, const struct store_key *b)
{
	return a->fingerprint[0] == b->fingerprint[0] && a->fingerprint[1] == b->fingerprint[1] &&
	       memcmp(a->recipe, b->recipe, sizeof a->recipe) == 0;
}

/* ---- the index ---- */

size_t index_bytes(const struct store_info *info)
{
	return INDEX_HEAD + 8 * ((size_t)info->dense_units + store_units(info) + 1);
}

void index_encode(uint8_t *out, const struct store_index *index)
{
	const struct store_info *info = &index->info;
	uint8_t *o = out;

	memcpy(o, index_magic, sizeof index_magic);
	o = put32(o + sizeof index_magic, STORE_VERSION);
	o = put32(o, info->layers);
	o = put32(o, info->experts);
	o = put32(o, info->dense_units);
	o = put64(o, info->key.fingerprint[0]);
	o = put64(o, info->key.fingerprint[1]);
	memcpy(o, info->key.recipe, sizeof info->key.recipe);
	o = put64(o + sizeof info->key.recipe, info->experts_base);
	o = put64(o, info->record_bytes);
	o = put64(o, info->dense_base);
	o = put64(o, info->dense_bytes);
	for (uint32_t i = 0; i < info->dense_units; i++)
		o = put64(o, index->dense_offsets[i + 1] - index->dense_offsets[i]);
	for (uint32_t i = 0; i < store_units(info); i++)
		o = put64(o, index->checksums[i]);
	put64(o, XXH3_64bits(out, (size_t)(o - out)));
}

static void index_decode_head(struct store_info *info, const uint8_t *in)
{
	in += sizeof index_magic + sizeof(uint32_t);
	info->layers = get32(&in);
	info->experts = get32(&in);
	info->dense_units = get32(&in);
	info->key.fingerprint[0] = get64(&in);
	info->key.fingerprint[1] = get64(&in);
	memcpy(info->key.recipe, in, sizeof info->key.recipe);
	in += sizeof info->key.recipe;
	info->experts_base = get64(&in);
	info->record_bytes = get64(&in);
	info->dense_base = get64(&in);
	info->dense_bytes = get64(&in);
}

static int index_decode_tables(struct store_index *out, const uint8_t *in, const char *path,
			       struct err *e)
{
	uint32_t units = store_units(&out->info);
	uint64_t end = 0;

	out->dense_offsets =
		malloc(((size_t)out->info.dense_units + 1) * sizeof *out->dense_offsets);
	out->checksums = malloc(((size_t)units + 1) * sizeof *out->checksums);
	if (!out->dense_offsets || !out->checksums)
		return err_sys(e, ENOMEM, "%s", path);
	out->dense_offsets[0] = 0;
	for (uint32_t i = 0; i < out->info.dense_units; i++) {
		if (__builtin_add_overflow(end, get64(&in), &end))
			return err_set(e, EINVAL, "%s: the size of dense unit %u overflows", path,
				       i);
		out->dense_offsets[i + 1] = end;
	}
	if (end != out->info.dense_bytes)
		return err_set(e, EINVAL, "%s: the dense units do not add up to the dense data",
			       path);
	for (uint32_t i = 0; i < units; i++)
		out->checksums[i] = get64(&in);
	return 0;
}

int index_decode(struct store_index *out, const uint8_t *in, size_t bytes, const char *path,
		 struct err *e)
{
	*out = (struct store_index){0};
	if (bytes < INDEX_HEAD + 8)
		return err_set(e, EIO, "%s: is cut short; remove its folder to convert again",
			       path);
	if (memcmp(in, index_magic, sizeof index_magic) != 0)
		return err_set(
			e, EINVAL,
			"%s: is not the index of a store; remove its folder to convert again",
			path);
	const uint8_t *at = in + sizeof index_magic;
	uint32_t version = get32(&at);
	if (version != STORE_VERSION)
		return err_set(e, ESTALE,
			       "%s: is of version %u, and this program writes version %d", path,
			       version, STORE_VERSION);
	const uint8_t *sum = in + bytes - 8;
	if (XXH3_64bits(in, bytes - 8) != get64(&sum))
		return err_set(e, EIO,
			       "%s: is damaged (its checksum does not match); remove its folder "
			       "to convert again",
			       path);
	index_decode_head(&out->info, in);
	int rc = store_info_check(&out->info, path, e);
	if (rc)
		return rc;
	if (bytes != index_bytes(&out->info))
		return err_set(e, EINVAL,
			       "%s: is %zu bytes for %u units; remove its folder to convert again",
			       path, bytes, store_units(&out->info));
	rc = index_decode_tables(out, in + INDEX_HEAD, path, e);
	if (rc)
		index_free(out);
	return rc;
}

void index_free(struct store_index *index)
{
	free(index->dense_offsets);
	free(index->checksums);
	*index = (struct store_index){0};
}

/* ---- the journal ---- */

struct plan_digest plan_digest(const struct store_plan *plan)
{
	uint8_t head[128], *o = head;
	o = put32(o, STORE_VERSION);
	o = put32(o, plan->layers);
	o = put32(o, plan->experts);
	o = put32(o, plan->dense_units);
	o = put64(o, plan->key.fingerprint[0]);
	o = put64(o, plan->key.fingerprint[1]);
	memcpy(o, plan->key.recipe, sizeof plan->key.recipe);
	o = put64(o + sizeof plan->key.recipe, plan->record_bytes);
	o = put64(o, XXH3_64bits(plan->experts_header, plan->experts_header_bytes));
	o = put64(o, XXH3_64bits(plan->dense_header, plan->dense_header_bytes));

	/* The heads' and the table's sums stand for them, so that all fits one call. */
	uint64_t table = 0;
	for (uint32_t i = 0; i < plan->dense_units; i++) {
		uint8_t row[16];
		put64(put64(row, plan->dense[i].offset), plan->dense[i].bytes);
		table = XXH3_64bits_withSeed(row, sizeof row, table);
	}
	o = put64(o, table);
	XXH128_hash_t h = XXH3_128bits(head, (size_t)(o - head));
	return (struct plan_digest){{h.low64, h.high64}};
}

void journal_encode_head(uint8_t out[JOURNAL_HEAD], struct plan_digest digest)
{
	uint8_t *o = out;
	memcpy(o, journal_magic, sizeof journal_magic);
	o = put32(o + sizeof journal_magic, STORE_VERSION);
	o = put32(o, 0);
	o = put64(o, digest.word[0]);
	o = put64(o, digest.word[1]);
	put64(o, XXH3_64bits(out, (size_t)(o - out)));
}

bool journal_head_matches(const uint8_t in[JOURNAL_HEAD], struct plan_digest digest)
{
	uint8_t expected[JOURNAL_HEAD];
	journal_encode_head(expected, digest);
	return memcmp(in, expected, JOURNAL_HEAD) == 0;
}

void journal_encode_entry(uint8_t out[JOURNAL_ENTRY], struct plan_digest digest, uint32_t unit,
			  uint64_t checksum)
{
	put64(put32(put32(out, unit), 0), checksum);
	put64(out + 16, XXH3_64bits_withSeed(out, 16, digest.word[0] ^ digest.word[1]));
}

bool journal_decode_entry(const uint8_t in[JOURNAL_ENTRY], struct plan_digest digest,
			  uint32_t *unit, uint64_t *checksum)
{
	uint8_t expected[JOURNAL_ENTRY];
	*unit = get32(&in);
	in += sizeof(uint32_t);
	*checksum = get64(&in);
	journal_encode_entry(expected, digest, *unit, *checksum);
	return memcmp(in - 16, expected, JOURNAL_ENTRY) == 0;
}

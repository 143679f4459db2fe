/* Encoding and decoding of the index and the journal; the layouts are in the header. */
#include "cache/store_format.h"

#include "cache/codec.h"
#include "cache/io.h"
#include "cache/store_files.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static const char index_magic[8] = {'M', 'O', 'E', 'F', 'S', 'I', 'D', 'X'};
static const char journal_magic[8] = {'M', 'O', 'E', 'F', 'S', 'J', 'N', 'L'};

static uint8_t *format_put32(uint8_t *out, uint32_t v)
{
	v = htole32(v);
	memcpy(out, &v, sizeof v);
	return out + sizeof v;
}

static uint8_t *format_put64(uint8_t *out, uint64_t v)
{
	v = htole64(v);
	memcpy(out, &v, sizeof v);
	return out + sizeof v;
}

static uint32_t format_get32(const uint8_t **in)
{
	uint32_t v;
	memcpy(&v, *in, sizeof v);
	*in += sizeof v;
	return le32toh(v);
}

static uint64_t format_get64(const uint8_t **in)
{
	uint64_t v;
	memcpy(&v, *in, sizeof v);
	*in += sizeof v;
	return le64toh(v);
}

static uint8_t *format_put_key(uint8_t *out, const struct store_key *key)
{
	out = format_put64(out, key->fingerprint[0]);
	out = format_put64(out, key->fingerprint[1]);
	memcpy(out, key->recipe, sizeof key->recipe);
	return out + sizeof key->recipe;
}

static const uint8_t *format_get_key(struct store_key *key, const uint8_t *in)
{
	key->fingerprint[0] = format_get64(&in);
	key->fingerprint[1] = format_get64(&in);
	memcpy(key->recipe, in, sizeof key->recipe);
	return in + sizeof key->recipe;
}

/* ---- checking the numbers ---- */

int store_info_check(const struct store_info *info, const char *what, struct err *e)
{
	uint64_t records = (uint64_t)info->layers * info->experts, end;
	uint64_t units = records + info->dense_units;

	if (units > STORE_MAX_UNITS)
		return err_set(e, EINVAL, "%s: %llu units are more than the %d of a store", what,
			       (unsigned long long)units, STORE_MAX_UNITS);
	if ((info->layers && !info->experts) || (records == 0) != (info->record_bytes == 0))
		return err_set(e, EINVAL, "%s: %llu experts of %llu bytes make no sense", what,
			       (unsigned long long)records, (unsigned long long)info->record_bytes);
	if (info->experts_base % STORE_ALIGN)
		return err_set(e, EINVAL,
			       "%s: the experts begin at byte %llu, which is not a multiple of %d",
			       what, (unsigned long long)info->experts_base, STORE_ALIGN);
	if (__builtin_mul_overflow(records, info->record_bytes, &end) ||
	    __builtin_add_overflow(end, info->experts_base, &end) || end > INT64_MAX)
		return err_set(e, EINVAL, "%s: the experts' size overflows", what);
	if (info->codec == STORE_CODED && info->record_bytes > CODEC_RECORD_MOST)
		return err_set(e, EINVAL, "%s: experts of %llu bytes cannot be coded", what,
			       (unsigned long long)info->record_bytes);
	if (__builtin_add_overflow(info->dense_base, info->dense_bytes, &end) || end > INT64_MAX)
		return err_set(e, EINVAL, "%s: the dense data's size overflows", what);
	if (info->key.recipe[sizeof info->key.recipe - 1])
		return err_set(e, EINVAL, "%s: the recipe's name is too long", what);
	return 0;
}

int store_index_set_layers(struct store_index *index, const uint64_t *bytes, const char *what,
			   struct err *e)
{
	const struct store_info *info = &index->info;
	uint64_t end = 0, largest = 0, least = UINT64_MAX;
	for (uint32_t i = 0; i < info->layers && largest <= info->record_bytes; i++) {
		uint64_t own = bytes ? bytes[i] : info->record_bytes;
		largest = own > largest ? own : largest;
		least = own < least ? own : least;
		index->layers[i] = (struct store_layer){end, own};
		end += own * info->experts; /* no overflow: the largest size was checked */
	}
	bool right = !bytes || (least > 0 && least < largest && largest == info->record_bytes);
	return right ? 0
		     : err_set(e, EINVAL, "%s: experts of %llu to %llu bytes make no sense", what,
			       (unsigned long long)least, (unsigned long long)largest);
}

struct store_range store_index_plain_range(const struct store_index *index, uint32_t record)
{
	const struct store_layer *layer = &index->layers[record / index->info.experts];
	uint64_t before = record % index->info.experts * layer->bytes;
	return (struct store_range){index->info.experts_base + layer->offset + before,
				    layer->bytes};
}

bool store_range_valid(const struct store_index *index, uint32_t record, struct store_range r)
{
	const struct store_info *info = &index->info;
	uint64_t end, bytes = store_index_record_bytes(index, record);
	return r.offset >= info->experts_base && r.offset % STORE_ALIGN == 0 &&
	       r.bytes >= codec_least(bytes) && r.bytes <= codec_most(bytes) &&
	       !__builtin_add_overflow(r.offset, r.bytes, &end) && end <= INT64_MAX;
}

uint64_t store_experts_size(const struct store_index *index)
{
	const struct store_info *info = &index->info;
	uint64_t size = info->experts_base;
	if (!index->stored && store_records(info)) {
		struct store_range last = store_index_plain_range(index, store_records(info) - 1);
		return last.offset + last.bytes;
	}
	for (uint32_t i = 0; index->stored && i < store_records(info); i++) {
		uint64_t end = index->stored[i].offset + index->stored[i].bytes;
		size = end > size ? end : size;
	}
	return size;
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

/* Bytes of the tables, with the checksum at the end. */
static size_t store_index_tables_bytes(const struct store_info *info)
{
	size_t numbers = (size_t)info->dense_units + store_units(info) + 1;
	if (info->codec == STORE_CODED)
		numbers += 2 * (size_t)store_records(info);
	if (info->mixed)
		numbers += info->layers;
	return 8 * numbers;
}

size_t store_index_bytes(const struct store_info *info)
{
	return INDEX_HEAD + store_index_tables_bytes(info);
}

void store_index_encode(uint8_t *out, const struct store_index *index)
{
	const struct store_info *info = &index->info;
	uint8_t *o = out;

	memcpy(o, index_magic, sizeof index_magic);
	o = format_put32(o + sizeof index_magic, info->mixed ? INDEX_VERSION_MIXED : INDEX_VERSION);
	o = format_put32(o, info->layers);
	o = format_put32(o, info->experts);
	o = format_put32(o, info->dense_units);
	o = format_put_key(o, &info->key);
	o = format_put64(o, info->experts_base);
	o = format_put64(o, info->record_bytes);
	o = format_put64(o, info->dense_base);
	o = format_put64(o, info->dense_bytes);
	o = format_put64(o, info->codec);
	o = format_put64(o, info->digest.word[0]);
	o = format_put64(o, info->digest.word[1]);
	for (uint32_t i = 0; info->mixed && i < info->layers; i++)
		o = format_put64(o, index->layers[i].bytes);
	for (uint32_t i = 0; i < info->dense_units; i++)
		o = format_put64(o, index->dense_offsets[i + 1] - index->dense_offsets[i]);
	for (uint32_t i = 0; index->stored && i < store_records(info); i++)
		o = format_put64(format_put64(o, index->stored[i].offset), index->stored[i].bytes);
	for (uint32_t i = 0; i < store_units(info); i++)
		o = format_put64(o, index->checksums[i]);
	format_put64(o, XXH3_64bits(out, (size_t)(o - out)));
}

/* Returns where the tables begin. NULL: unknown codec. `in` has INDEX_HEAD bytes. */
static const uint8_t *store_index_decode_head(struct store_info *info, const uint8_t *in)
{
	in += sizeof index_magic;
	info->mixed = format_get32(&in) == INDEX_VERSION_MIXED;
	info->layers = format_get32(&in);
	info->experts = format_get32(&in);
	info->dense_units = format_get32(&in);
	in = format_get_key(&info->key, in);
	info->experts_base = format_get64(&in);
	info->record_bytes = format_get64(&in);
	info->dense_base = format_get64(&in);
	info->dense_bytes = format_get64(&in);
	uint64_t codec = format_get64(&in);
	info->codec = codec ? STORE_CODED : STORE_PLAIN;
	info->digest.word[0] = format_get64(&in);
	info->digest.word[1] = format_get64(&in);
	return codec <= 1 ? in : NULL;
}

int store_index_allocate(struct store_index *index)
{
	const struct store_info *info = &index->info;
	index->layers = calloc((size_t)info->layers + 1, sizeof *index->layers);
	index->dense_offsets = calloc((size_t)info->dense_units + 1, sizeof *index->dense_offsets);
	index->checksums = calloc((size_t)store_units(info) + 1, sizeof *index->checksums);
	if (info->codec == STORE_CODED)
		index->stored = calloc((size_t)store_records(info) + 1, sizeof *index->stored);
	bool whole = index->layers && index->dense_offsets && index->checksums &&
		     (index->stored || info->codec != STORE_CODED);
	return whole ? 0 : -ENOMEM;
}

static int store_index_decode_layers(struct store_index *out, const uint8_t **in, const char *path,
				     struct err *e)
{
	const struct store_info *info = &out->info;
	uint64_t *bytes = NULL;
	if (info->mixed && !(bytes = calloc((size_t)info->layers + 1, sizeof *bytes)))
		return err_sys(e, ENOMEM, "%s", path);
	for (uint32_t i = 0; bytes && i < info->layers; i++)
		bytes[i] = format_get64(in);
	int rc = store_index_set_layers(out, bytes, path, e);
	free(bytes);
	return rc;
}

static int store_index_decode_tables(struct store_index *out, const uint8_t *in, const char *path,
				     struct err *e)
{
	uint64_t end = 0;
	if (store_index_allocate(out))
		return err_sys(e, ENOMEM, "%s", path);
	int rc = store_index_decode_layers(out, &in, path, e);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < out->info.dense_units; i++) {
		if (__builtin_add_overflow(end, format_get64(&in), &end))
			return err_set(e, EINVAL, "%s: the size of dense unit %u overflows", path,
				       i);
		out->dense_offsets[i + 1] = end;
	}
	if (end != out->info.dense_bytes)
		return err_set(e, EINVAL, "%s: the dense units do not add up to the dense data",
			       path);
	for (uint32_t i = 0; out->stored && i < store_records(&out->info); i++) {
		out->stored[i].offset = format_get64(&in);
		out->stored[i].bytes = format_get64(&in);
		if (!store_range_valid(out, i, out->stored[i]))
			return err_set(e, EINVAL, "%s: record %u cannot be %llu bytes at %llu",
				       path, i, (unsigned long long)out->stored[i].bytes,
				       (unsigned long long)out->stored[i].offset);
	}
	for (uint32_t i = 0; i < store_units(&out->info); i++)
		out->checksums[i] = format_get64(&in);
	return 0;
}

/* Checks that the file is a whole, undamaged index of a version that this program reads. */
static int store_index_check_file(const uint8_t *in, size_t bytes, const char *path, struct err *e)
{
	if (bytes < INDEX_HEAD + 8)
		return err_damaged(e, "%s: is cut short; remove its folder to convert again", path);
	if (memcmp(in, index_magic, sizeof index_magic) != 0)
		return err_set(
			e, EINVAL,
			"%s: is not the index of a store; remove its folder to convert again",
			path);
	const uint8_t *at = in + sizeof index_magic, *sum = in + bytes - 8;
	uint32_t version = format_get32(&at);
	if (version != INDEX_VERSION && version != INDEX_VERSION_MIXED)
		return err_set(e, ESTALE,
			       "%s: is of version %u, and this program reads versions %d and %d",
			       path, version, INDEX_VERSION, INDEX_VERSION_MIXED);
	if (XXH3_64bits(in, bytes - 8) != format_get64(&sum))
		return err_damaged(e,
				   "%s: is damaged (its checksum does not match); remove its "
				   "folder "
				   "to convert again",
				   path);
	return 0;
}

int store_index_decode(struct store_index *out, const uint8_t *in, size_t bytes, const char *path,
		       struct err *e)
{
	*out = (struct store_index){0};
	int rc = store_index_check_file(in, bytes, path, e);
	if (rc)
		return rc;
	const uint8_t *tables = store_index_decode_head(&out->info, in);
	if (!tables)
		return err_set(e, EINVAL, "%s: has an unknown codec", path);
	rc = store_info_check(&out->info, path, e);
	if (rc)
		return rc;
	if (bytes != (size_t)(tables - in) + store_index_tables_bytes(&out->info))
		return err_set(e, EINVAL,
			       "%s: is %zu bytes for %u units; remove its folder to convert again",
			       path, bytes, store_units(&out->info));
	rc = store_index_decode_tables(out, tables, path, e);
	if (rc)
		store_index_free(out);
	return rc;
}

void store_index_free(struct store_index *index)
{
	free(index->layers);
	free(index->dense_offsets);
	free(index->stored);
	free(index->checksums);
	*index = (struct store_index){0};
}

enum { HEAD_PIECE = 1 << 16 }; /* of a head that is compared */

/* ---- the index as a file ---- */

int store_index_read(struct store_index *out, int dir, const char *folder, struct err *e)
{
	char path[512];
	int fd = store_file_open(dir, folder, STORE_INDEX, O_RDONLY, e);
	if (fd < 0)
		return fd;
	(void)snprintf(path, sizeof path, "%s/" STORE_INDEX, folder);

	int64_t size = store_file_size(fd, folder, STORE_INDEX, e);
	int rc = size < 0 ? (int)size : 0;
	if (!rc && size > INDEX_MOST)
		rc = err_set(e, EINVAL,
			     "%s: is too large for an index; remove its folder to convert again",
			     path);
	uint8_t *bytes = rc ? NULL : malloc((size_t)size + 1);
	if (!rc && !bytes)
		rc = err_sys(e, ENOMEM, "%s", path);
	if (!rc)
		rc = store_file_read(fd, bytes, (size_t)size, 0, folder, STORE_INDEX, e);
	if (!rc)
		rc = store_index_decode(out, bytes, (size_t)size, path, e);
	free(bytes);
	close(fd);
	return rc;
}

int store_index_write(int dir, const char *folder, const struct store_index *index, struct err *e)
{
	static const char name[] = STORE_INDEX STORE_PARTIAL;
	size_t bytes = store_index_bytes(&index->info);
	uint8_t *encoded = malloc(bytes);
	if (!encoded)
		return err_sys(e, ENOMEM, "%s/%s", folder, name);
	store_index_encode(encoded, index);
	(void)io_remove(dir, name); /* from an earlier attempt; if this fails, O_EXCL reports it */
	int fd = store_file_open(dir, folder, name, O_RDWR | O_CREAT | O_EXCL, e);
	int rc = fd < 0 ? fd : store_file_write(fd, encoded, bytes, 0, folder, name, e);
	if (!rc)
		rc = store_file_sync(fd, folder, name, e);
	io_close(fd);
	free(encoded);
	return rc;
}

/* ---- whether a store has a layout ---- */

int store_index_check(const struct store_index *index, const struct store_layout *layout,
		      const char *folder, struct err *e)
{
	const struct store_info *info = &index->info;
	const uint64_t *offset = index->dense_offsets;
	bool same = info->codec == layout->codec && info->layers == layout->layers &&
		    info->experts == layout->experts &&
		    info->record_bytes == layout->record_bytes &&
		    info->mixed == (layout->layer_bytes != NULL) &&
		    info->dense_units == layout->dense_units &&
		    store_digest_equal(info->digest, layout->digest);
	for (uint32_t i = 0; same && info->mixed && i < layout->layers; i++)
		same = index->layers[i].bytes == layout->layer_bytes[i];
	for (uint32_t i = 0; same && i < layout->dense_units; i++)
		same = offset[i] == layout->dense[i].offset &&
		       offset[i + 1] - offset[i] == layout->dense[i].bytes;
	return same ? 0
		    : err_set(e, ESTALE, "%s: the store has another layout; it is converted again",
			      folder);
}

struct store_digest store_plan_digest(const struct store_plan *plan)
{
	const struct store_layout *l = &plan->layout;
	uint8_t head[128], *o = head;
	o = format_put64(o, l->digest.word[0]);
	o = format_put64(o, l->digest.word[1]);
	o = format_put32(o, (uint32_t)l->codec);
	o = format_put32(o, l->layers);
	o = format_put32(o, l->experts);
	o = format_put32(o, l->dense_units);
	o = format_put_key(o, &plan->key);
	o = format_put64(o, l->record_bytes);
	o = format_put64(o, XXH3_64bits(plan->experts_header, plan->experts_header_bytes));
	o = format_put64(o, XXH3_64bits(plan->dense_header, plan->dense_header_bytes));

	/* The headers and the table are represented by their checksums, so that everything fits
	 * into one call. */
	uint64_t table = 0;
	for (uint32_t i = 0; i < l->dense_units; i++) {
		uint8_t row[16];
		format_put64(format_put64(row, l->dense[i].offset), l->dense[i].bytes);
		table = XXH3_64bits_withSeed(row, sizeof row, table);
	}
	/* If all layers have the same size, the digest is the one from before there was this table.
	 * So older conversions are resumed. */
	for (uint32_t i = 0; l->layer_bytes && i < l->layers; i++) {
		uint8_t row[8];
		format_put64(row, l->layer_bytes[i]);
		table = XXH3_64bits_withSeed(row, sizeof row, table);
	}
	o = format_put64(o, table);
	XXH128_hash_t h = XXH3_128bits(head, (size_t)(o - head));
	return (struct store_digest){{h.low64, h.high64}};
}

/* ---- the journal ---- */

void store_journal_encode_head(uint8_t out[JOURNAL_HEAD], const struct store_journal_head *head)
{
	uint8_t *o = out;
	memcpy(o, journal_magic, sizeof journal_magic);
	o = format_put32(o + sizeof journal_magic, JOURNAL_VERSION);
	o = format_put32(o, 0);
	o = format_put64(o, head->digest.word[0]);
	o = format_put64(o, head->digest.word[1]);
	o = format_put_key(o, &head->key);
	format_put64(o, XXH3_64bits(out, (size_t)(o - out)));
}

bool store_journal_decode_head(struct store_journal_head *out, const uint8_t in[JOURNAL_HEAD])
{
	uint8_t expected[JOURNAL_HEAD];
	const uint8_t *at = in + sizeof journal_magic + 2 * sizeof(uint32_t);
	out->digest.word[0] = format_get64(&at);
	out->digest.word[1] = format_get64(&at);
	format_get_key(&out->key, at);
	store_journal_encode_head(expected, out);
	return memcmp(in, expected, JOURNAL_HEAD) == 0;
}

void store_journal_encode_entry(uint8_t out[JOURNAL_ENTRY], struct store_digest digest,
				const struct store_journal_entry *entry)
{
	uint8_t *o = format_put32(format_put32(out, entry->unit), 0);
	o = format_put64(format_put64(o, entry->place.offset), entry->place.bytes);
	o = format_put64(o, entry->checksum);
	format_put64(o,
		     XXH3_64bits_withSeed(out, (size_t)(o - out), digest.word[0] ^ digest.word[1]));
}

bool store_journal_decode_entry(struct store_journal_entry *out, const uint8_t in[JOURNAL_ENTRY],
				struct store_digest digest)
{
	uint8_t expected[JOURNAL_ENTRY];
	const uint8_t *at = in;
	out->unit = format_get32(&at);
	at += sizeof(uint32_t);
	out->place.offset = format_get64(&at);
	out->place.bytes = format_get64(&at);
	out->checksum = format_get64(&at);
	store_journal_encode_entry(expected, digest, out);
	return memcmp(in, expected, JOURNAL_ENTRY) == 0;
}

/* Records of an identity, and what follows from them; it opens no file. */
#include "engine/source/identity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char magic[8] = "MOEFSSRC";
enum { VERSION = 1, SUM_AT = IDENTITY_RECORD - 8, HEAD_SUM_AT = 48 };
enum record_kind { KIND_FILE = 1, KIND_RANGE, KIND_COMPLETE, KIND_CLOSED };

void identity_free(struct identity *id)
{
	free(id->files);
	free(id->ranges);
	*id = (struct identity){0};
}

/* ---- bytes ---- */

static uint64_t get(const uint8_t *in, unsigned bytes)
{
	uint64_t v = 0;
	while (bytes-- > 0)
		v = v << 8 | in[bytes];
	return v;
}

static void put(uint8_t *out, uint64_t v, unsigned bytes)
{
	for (; bytes-- > 0; v >>= 8)
		*out++ = (uint8_t)v;
}

uint64_t identity_record_sum(const uint8_t record[IDENTITY_RECORD], const struct identity *id)
{
	return XXH3_64bits_withSeed(record, SUM_AT, id->name[0] ^ id->name[1]);
}

static void begin(uint8_t out[IDENTITY_RECORD], enum record_kind kind, uint32_t file)
{
	memset(out, 0, IDENTITY_RECORD);
	put(out, kind, 4);
	put(out + 4, file, 4);
}

static void seal(uint8_t out[IDENTITY_RECORD], const struct identity *id)
{
	put(out + SUM_AT, identity_record_sum(out, id), 8);
}

void identity_encode_head(uint8_t out[IDENTITY_RECORD], const struct identity *id)
{
	memset(out, 0, IDENTITY_RECORD);
	memcpy(out, magic, sizeof magic);
	put(out + 8, VERSION, 4);
	for (size_t i = 0; i < 2; i++) {
		put(out + 16 + 8 * i, id->name[i], 8);
		put(out + 32 + 8 * i, id->sampled[i], 8);
	}
	put(out + HEAD_SUM_AT, XXH3_64bits(out, HEAD_SUM_AT), 8);
}

bool identity_decode_head(struct identity *id, const uint8_t in[IDENTITY_RECORD])
{
	if (memcmp(in, magic, sizeof magic) != 0 || get(in + 8, 4) != VERSION ||
	    get(in + HEAD_SUM_AT, 8) != XXH3_64bits(in, HEAD_SUM_AT))
		return false;
	for (size_t i = 0; i < 2; i++) {
		id->name[i] = get(in + 16 + 8 * i, 8);
		id->sampled[i] = get(in + 32 + 8 * i, 8);
	}
	return true;
}

void identity_encode_file(uint8_t out[IDENTITY_RECORD], const struct identity *id, uint32_t file)
{
	const struct identity_file *f = &id->files[file];
	begin(out, KIND_FILE, file);
	put(out + 8, f->name_hash, 8);
	put(out + 16, f->stamp.size, 8);
	put(out + 24, (uint64_t)f->stamp.modified.tv_sec, 8);
	put(out + 32, (uint64_t)f->stamp.changed.tv_sec, 8);
	put(out + 40, (uint64_t)f->stamp.modified.tv_nsec, 4);
	put(out + 44, (uint64_t)f->stamp.changed.tv_nsec, 4);
	seal(out, id);
}

void identity_encode_range(uint8_t out[IDENTITY_RECORD], const struct identity *id,
			   const struct identity_range *r)
{
	begin(out, KIND_RANGE, r->file);
	put(out + 8, r->offset, 8);
	put(out + 16, r->bytes, 8);
	put(out + 24, r->hash, 8);
	seal(out, id);
}

void identity_encode_end(uint8_t out[IDENTITY_RECORD], const struct identity *id,
			 enum identity_end end)
{
	begin(out, end == IDENTITY_COMPLETE ? KIND_COMPLETE : KIND_CLOSED, 0);
	put(out + 8, id->kept, 8);
	seal(out, id);
}

static struct identity_file file_of(const uint8_t in[IDENTITY_RECORD])
{
	return (struct identity_file){
		.name_hash = get(in + 8, 8),
		.stamp = {.size = get(in + 16, 8),
			  .modified = {(time_t)get(in + 24, 8), (long)get(in + 40, 4)},
			  .changed = {(time_t)get(in + 32, 8), (long)get(in + 44, 4)}},
	};
}

/* A file that is new, or one that is known with a newer stamp. */
static int take_file(struct identity *id, uint32_t file, const struct identity_file *f,
		     struct err *e)
{
	if (f->stamp.size > INT64_MAX)
		return 0;
	if (file == id->file_count)
		return identity_add_file(id, f, e);
	struct identity_file *known = file < id->file_count ? &id->files[file] : NULL;
	if (known && known->name_hash == f->name_hash && known->stamp.size == f->stamp.size)
		known->stamp = f->stamp;
	return 0;
}

static bool range_fits(const struct identity *id, const struct identity_range *r)
{
	return r->file < id->file_count && r->bytes > 0 &&
	       r->offset <= id->files[r->file].stamp.size &&
	       r->bytes <= id->files[r->file].stamp.size - r->offset;
}

int identity_decode(struct identity *id, const uint8_t in[IDENTITY_RECORD], struct err *e)
{
	if (get(in + SUM_AT, 8) != identity_record_sum(in, id))
		return 0;
	uint64_t kind = get(in, 4), count = get(in + 8, 8);
	const struct identity_file file = file_of(in);
	const struct identity_range range = {(uint32_t)get(in + 4, 4), get(in + 8, 8),
					     get(in + 16, 8), get(in + 24, 8)};
	id->closed = kind == KIND_CLOSED && count == id->kept;
	switch (kind) {
	case KIND_FILE:
		return take_file(id, range.file, &file, e);
	case KIND_RANGE:
		id->complete = false;
		if (!range_fits(id, &range))
			return 0;
		id->kept++;
		return identity_add_range(id, &range, e);
	case KIND_COMPLETE:
		id->complete = count == id->kept && id->file_count > 0;
		return 0;
	default:
		return 0;
	}
}

/* ---- lists ---- */

/* Room for one more; NULL without memory, or beyond the most. */
static void *grow(void *list, size_t count, size_t *room, size_t most, size_t size)
{
	if (count < *room)
		return list;
	if (count >= most)
		return NULL;
	size_t more = *room ? 2 * *room : 64;
	void *grown = realloc(list, more * size);
	if (grown)
		*room = more;
	return grown;
}

int identity_add_file(struct identity *id, const struct identity_file *f, struct err *e)
{
	size_t room = id->file_room;
	void *files = grow(id->files, id->file_count, &room, IDENTITY_MOST_FILES, sizeof *f);
	if (!files)
		return err_set(e, ENOMEM, "no memory for the list of a checkpoint's files");
	id->files = files;
	id->file_room = (uint32_t)room;
	id->files[id->file_count++] = *f;
	return 0;
}

int identity_add_range(struct identity *id, const struct identity_range *r, struct err *e)
{
	void *ranges =
		grow(id->ranges, id->range_count, &id->range_room, IDENTITY_MOST_RANGES, sizeof *r);
	if (!ranges)
		return err_set(e, ENOMEM, "no memory for the sums of a checkpoint's tensors");
	id->ranges = ranges;
	id->ranges[id->range_count++] = *r;
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct identity_range *x = a, *y = b;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

int identity_sort(struct identity *id, struct err *e)
{
	struct identity_range *r = id->ranges;
	size_t kept = 0;
	if (id->range_count)
		qsort(r, id->range_count, sizeof *r, by_place);
	for (size_t i = 0; i < id->range_count; i++) {
		bool again = kept && !by_place(&r[kept - 1], &r[i]);
		if (again && r[kept - 1].hash != r[i].hash)
			return err_set(e, ESTALE,
				       "the checkpoint was changed while it was read; ask again, "
				       "and it is read as it is then");
		if (!again)
			r[kept++] = r[i];
	}
	id->range_count = kept;
	return 0;
}

bool identity_next_gap(const struct identity *id, struct identity_gaps *at,
		       struct identity_range *gap)
{
	if (!at->begun)
		*at = (struct identity_gaps){.count = id->range_count, .begun = true};
	while (at->file < id->file_count) {
		uint64_t from = at->offset, to = id->files[at->file].stamp.size;
		const struct identity_range *r =
			at->next < at->count ? &id->ranges[at->next] : NULL;
		bool last = !r || r->file != at->file;
		*gap = (struct identity_range){.file = at->file, .offset = from};
		if (last) {
			at->file++;
			at->offset = 0;
		} else {
			uint64_t end = r->offset + r->bytes;
			to = r->offset;
			at->offset = end > from ? end : from;
			at->next++;
		}
		if (to > from) {
			gap->bytes = to - from;
			return true;
		}
	}
	return false;
}

/* ---- against a source ---- */

enum identity_says identity_compare(const struct identity *id, const struct source_state *now)
{
	enum identity_says says = IDENTITY_SAME;
	if (memcmp(id->sampled, now->sampled, sizeof id->sampled) != 0)
		return IDENTITY_OTHER;
	for (uint32_t i = 0; i < id->file_count; i++) {
		const struct identity_file *f = &id->files[i];
		const struct source_file *is = source_find(now, f->name_hash);
		if (!is || is->stamp.size != f->stamp.size)
			return IDENTITY_OTHER;
		if (!source_stamps_equal(&is->stamp, &f->stamp))
			says = IDENTITY_MAYBE;
	}
	return says;
}

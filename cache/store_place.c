/* Opening a checkpoint in the place of a store, and keeping what was read of it; see the header. */
#include "cache/store_place.h"

#include "cache/placed.h"
#include "cache/store_files.h"
#include "cache/store_inside.h"
#include "cache/sums.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int open_files(struct placed *p, struct err *e)
{
	for (uint32_t i = 0; i < p->of.file_count; i++)
		p->file[i] = (struct placed_file){.direct = -1, .align = 1};
	for (uint32_t i = 0; i < p->of.file_count; i++) {
		const struct store_place_file *f = &p->of.files[i];
		if (fstat(f->fd, &p->file[i].was))
			return err_sys(e, errno, "%s: cannot be looked at", f->path);
		p->file[i].direct =
			store_file_open_direct(AT_FDCWD, f->path, 0, f->fd, &p->file[i].align);
	}
	return 0;
}

/* ---- opening ---- */

static int check_record(const struct store *s, uint32_t record, struct err *e)
{
	const struct placed *p = s->place;
	uint32_t first = p->of.first[record], end = p->of.first[record + 1];
	uint64_t sum = 0, rest = 0;
	bool right = end > first && end - first <= STORE_PIECES;
	for (uint32_t i = first; i < end && right; i++) {
		const struct store_place_piece *x = &p->of.pieces[i];
		rest = x->file < p->of.file_count ? (uint64_t)p->file[x->file].was.st_size : 0;
		right = x->bytes > 0 && x->offset <= rest && x->bytes <= rest - x->offset;
		sum += x->bytes; /* files end below 2^63, and there are few */
	}
	if (right && sum == index_record_bytes(&s->index, record))
		return 0;
	return err_set(e, EINVAL, "%s: expert record %u is not where it should be", p->of.name,
		       record);
}

static int set_up(struct store *s, struct err *e)
{
	struct placed *p = s->place;
	const struct store_layout *l = &p->of.layout;
	int failed = store_info_check(&s->index.info, p->of.name, e);
	if (failed)
		return failed;
	uint32_t units = store_units(&s->index.info);
	p->sums = calloc((size_t)units + 1, sizeof *p->sums);
	if (!p->sums || index_allocate(&s->index))
		return err_sys(e, ENOMEM, "%s", p->of.name);
	failed = index_set_layers(&s->index, l->layer_bytes, p->of.name, e);
	for (uint32_t i = 0; i < l->dense_units; i++)
		s->index.dense_offsets[i + 1] = l->dense[i].offset + l->dense[i].bytes;
	if (!failed)
		failed = open_files(p, e);
	for (uint32_t i = 0; i < store_records(&s->index.info) && !failed; i++)
		failed = check_record(s, i, e);
	return failed;
}

static struct store_info info_of(const struct store_place *of)
{
	const struct store_layout *l = &of->layout;
	const struct store_range none = {0},
				 *last = l->dense_units ? l->dense + l->dense_units - 1 : &none;
	return (struct store_info){
		.key = of->key,
		.digest = l->digest,
		.codec = STORE_PLAIN,
		.layers = l->layers,
		.experts = l->experts,
		.record_bytes = l->record_bytes,
		.mixed = l->layer_bytes != NULL,
		.dense_bytes = last->offset + last->bytes,
		.dense_units = l->dense_units,
	};
}

static struct placed *placed_new(const struct store_place *of)
{
	struct placed *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	*p = (struct placed){.of = *of,
			     .file = calloc((size_t)of->file_count + 1, sizeof *p->file)};
	if (p->file)
		return p;
	free(p);
	return NULL;
}

int store_place_open(struct store **out, const struct store_place *of, struct err *e)
{
	*out = NULL;
	struct store *s = store_new(of->name, e);
	if (!s)
		return -ENOMEM;
	s->place = placed_new(of);
	s->index.info = info_of(of);
	int failed = s->place ? set_up(s, e) : err_sys(e, ENOMEM, "%s", of->name);
	if (failed) {
		if (s->place)
			s->place->of.close = NULL;
		store_close(s);
		return failed;
	}
	*out = s;
	return 0;
}

/* ---- keeping ---- */

static struct sums_of sums_of(const struct store *s)
{
	const struct store_info *i = &s->index.info;
	return (struct sums_of){
		.source = {i->key.fingerprint[0], i->key.fingerprint[1]},
		.plan = {i->digest.word[0], i->digest.word[1]},
		.units = store_units(i),
	};
}

int store_place_keep_in(struct store *s, const char *folder, struct err *e)
{
	struct err none; /* a first mount, or a file that says nothing: all is remembered anew */
	const struct sums_of of = sums_of(s);
	char *copy = strdup(folder);
	uint64_t *kept = calloc((size_t)of.units + 1, sizeof *kept);
	if (!copy || !kept) {
		free(copy);
		free(kept);
		return err_sys(e, ENOMEM, "%s", folder);
	}
	free(s->folder);
	s->folder = copy;
	if (!sums_read(kept, &of, folder, &none))
		for (uint32_t i = 0; i < of.units; i++)
			atomic_store(&s->place->sums[i], kept[i]);
	free(kept);
	return 0;
}

int store_place_keep(const struct store *s, struct err *e)
{
	struct placed *p = s->place;
	const struct sums_of of = sums_of(s);
	uint64_t fresh = atomic_load(&p->fresh), *kept;
	if (!fresh)
		return 0;
	kept = calloc((size_t)of.units + 1, sizeof *kept);
	if (!kept)
		return err_sys(e, ENOMEM, "%s: its checksums", s->folder);
	for (uint32_t i = 0; i < of.units; i++)
		kept[i] = atomic_load(&p->sums[i]);
	int failed = sums_write(kept, &of, s->folder, e);
	free(kept);
	if (!failed)
		atomic_fetch_sub(&p->fresh, fresh);
	return failed;
}

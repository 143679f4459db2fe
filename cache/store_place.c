/* A checkpoint in the place of a store; see the header. */
#include "cache/store_place.h"

#include "cache/store_files.h"
#include "cache/store_inside.h"
#include "cache/sums.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

struct placed_file {
	int direct; /* or -1 */
	uint32_t align;
	struct stat was;
};

struct placed {
	struct store_place of;
	struct placed_file *file; /* [of.file_count] */
	/* [units]; 0: nobody has read it yet. Each is set once. */
	_Atomic uint64_t *sums;
	_Atomic uint64_t fresh; /* how many were set since they were last kept */
};

static const struct store_place_piece *placed_pieces(const struct placed *p, uint32_t record)
{
	return p->of.pieces + p->of.first[record];
}

/* ---- the files ---- */

/* What no program can set without changing ctime. */
static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static int changed(const char *path, struct err *e)
{
	return err_set(e, ESTALE,
		       "%s: was changed while it is used in place; unmount, and mount it anew",
		       path);
}

static int check_file(const struct placed *p, uint32_t i, struct err *e)
{
	struct stat now;
	const char *path = p->of.files[i].path;
	if (fstat(p->of.files[i].fd, &now))
		return err_sys(e, errno, "%s: cannot be looked at", path);
	return same_file(&now, &p->file[i].was) ? 0 : changed(path, e);
}

int store_place_unchanged(const struct store *s, struct err *e)
{
	int failed = 0;
	for (uint32_t i = 0; i < s->place->of.file_count && !failed; i++)
		failed = check_file(s->place, i, e);
	return failed;
}

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
		.identified = true,
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

bool store_in_place(const struct store *s)
{
	return s->place != NULL;
}

void placed_free(struct placed *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < p->of.file_count; i++)
		if (p->file[i].direct >= 0)
			close(p->file[i].direct);
	if (p->of.close)
		p->of.close(p->of.ctx);
	free(p->file);
	free((void *)p->sums);
	free(p);
}

/* ---- verifying ---- */

/* What all read first is what there was when the files were opened: seen after the reading. */
static int remember(const struct store *s, uint32_t unit, uint64_t sum, struct err *e)
{
	struct placed *p = s->place;
	uint64_t none = 0;
	int failed = store_place_unchanged(s, e);
	if (!failed && atomic_compare_exchange_strong(&p->sums[unit], &none, sum))
		atomic_fetch_add(&p->fresh, 1);
	return failed;
}

static int check_sum(const struct store *s, uint32_t unit, uint64_t sum, struct err *e)
{
	uint64_t known = atomic_load(&s->place->sums[unit]);
	sum += !sum; /* 0 is none */
	if (known == sum)
		return 0;
	if (!known)
		return remember(s, unit, sum, e);
	if (unit < store_records(&s->index.info))
		return changed(s->place->of.files[placed_pieces(s->place, unit)->file].path, e);
	return changed(s->place->of.name, e);
}

int placed_verify(const struct store *s, uint32_t record, const struct store_pieces *stored,
		  struct err *e)
{
	XXH3_state_t *state = XXH3_createState();
	if (!state)
		return err_sys(e, ENOMEM, "%s: the checksum of an expert", s->place->of.name);
	(void)XXH3_64bits_reset(state);
	for (uint32_t i = 0; i < stored->count; i++)
		(void)XXH3_64bits_update(state, stored->piece[i].data, stored->piece[i].bytes);
	uint64_t sum = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	return check_sum(s, record, sum, e);
}

/* ---- reading ---- */

void placed_extents(const struct store *s, uint32_t record, struct store_extents *out)
{
	const struct placed *p = s->place;
	const struct store_place_piece *piece = placed_pieces(p, record);
	out->count = p->of.first[record + 1] - p->of.first[record];
	for (uint32_t i = 0; i < out->count; i++, piece++)
		out->extent[i] = (struct store_extent){
			.fd = p->of.files[piece->file].fd,
			.direct_fd = p->file[piece->file].direct,
			.offset = piece->offset,
			.bytes = piece->bytes,
			.align = p->file[piece->file].align,
		};
}

int placed_read_record(const struct store *s, uint32_t record, uint64_t offset, void *buffer,
		       size_t bytes, struct err *e)
{
	struct store_extents x;
	uint8_t *to = buffer;
	int failed = 0;
	placed_extents(s, record, &x);
	for (uint32_t i = 0; i < x.count && bytes > 0 && !failed; i++) {
		uint64_t from = offset < x.extent[i].bytes ? offset : x.extent[i].bytes;
		uint64_t rest = x.extent[i].bytes - from, n = rest < bytes ? rest : bytes;
		offset -= from;
		failed = store_file_read(x.extent[i].fd, to, n, x.extent[i].offset + from,
					 s->place->of.name, "weights", e);
		to += n;
		bytes -= n;
	}
	return failed;
}

int placed_read_dense(const struct store *s, uint32_t unit, void *buffer, size_t bytes,
		      struct err *e)
{
	const struct placed *p = s->place;
	uint32_t number = store_records(&s->index.info) + unit;
	bool known = atomic_load(&p->sums[number]) != 0;
	int failed = p->of.read_dense(p->of.ctx, unit, known, buffer, bytes, e);
	return failed ? failed : check_sum(s, number, XXH3_64bits(buffer, bytes), e);
}

int placed_read_failed(const struct store *s, uint32_t record, int code, struct err *e)
{
	const struct placed *p = s->place;
	const char *path = p->of.files[placed_pieces(p, record)->file].path;
	uint32_t layer = record / s->index.info.experts, expert = record % s->index.info.experts;
	if (code == ENODATA)
		return err_set(e, EIO,
			       "%s: ends before layer %u expert %u does; it was cut short, or the "
			       "file after it: unmount, and mount it anew",
			       path, layer, expert);
	return err_sys(e, code, "%s: cannot read layer %u expert %u", path, layer, expert);
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

/* Reading a checkpoint in the place of a store, and noticing that it was changed (store_place.h).
 */
#include "cache/placed.h"

#include "cache/checksum.h"
#include "cache/store_files.h"
#include "cache/store_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

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
		checksum_add(state, stored->piece[i].data, stored->piece[i].bytes);
	uint64_t sum = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	const struct placed *p = s->place;
	bool known = atomic_load(&p->sums[record]) != 0;
	int failed = known || !p->of.check ? 0 : p->of.check(p->of.ctx, record, stored, e);
	return failed ? failed : check_sum(s, record, sum, e);
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
	return failed ? failed : check_sum(s, number, checksum_of(buffer, bytes), e);
}

int placed_read_failed(const struct store *s, uint32_t record, int code, struct err *e)
{
	const struct placed *p = s->place;
	const char *path = p->of.files[placed_pieces(p, record)->file].path;
	uint32_t layer = record / s->index.info.experts, expert = record % s->index.info.experts;
	if (code == ENODATA)
		return err_damaged(e,
				   "%s: ends before layer %u expert %u does; it was cut short, or "
				   "the "
				   "file after it: unmount, and mount it anew",
				   path, layer, expert);
	return err_sys(e, code, "%s: cannot read layer %u expert %u", path, layer, expert);
}

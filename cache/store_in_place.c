/* Opening a checkpoint in place of a store, and saving the checksums of its reads; see the header.
 */
#include "cache/store_in_place.h"
#include "cache/io.h"

#include "cache/checksum.h"
#include "cache/store_files.h"
#include "cache/store_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

struct in_place_opened {
	int direct; /* for O_DIRECT, or -1 */
	uint32_t align;
	struct stat was;
};

struct in_place_state {
	struct in_place_source of;
	struct in_place_opened *file; /* [of.file_count] */
	/* [units]; 0: the unit was never read. Each is set once. */
	_Atomic uint64_t *sums;
	_Atomic uint64_t fresh; /* how many were set since they were last saved */
};

/* ---- opening ---- */

static int in_place_check_record(const struct store *s, uint32_t record, struct err *e)
{
	const struct in_place_state *p = s->place;
	uint32_t first = p->of.first[record], end = p->of.first[record + 1];
	uint64_t sum = 0, rest = 0;
	bool right = end > first && end - first <= STORE_PIECES;
	for (uint32_t i = first; i < end && right; i++) {
		const struct in_place_piece *x = &p->of.pieces[i];
		rest = x->file < p->of.file_count ? (uint64_t)p->file[x->file].was.st_size : 0;
		right = x->bytes > 0 && x->offset <= rest && x->bytes <= rest - x->offset;
		sum += x->bytes; /* no overflow: files end below 2^63, and pieces are few */
	}
	if (right && sum == store_index_record_bytes(&s->index, record))
		return 0;
	return err_set(e, EINVAL, "%s: expert record %u does not lie within the files", p->of.name,
		       record);
}

static int in_place_set_up(struct store *s, struct err *e)
{
	struct in_place_state *p = s->place;
	const struct store_layout *l = &p->of.layout;
	int failed = store_info_check(&s->index.info, p->of.name, e);
	if (failed)
		return failed;
	uint32_t units = store_units(&s->index.info);
	p->sums = calloc((size_t)units + 1, sizeof *p->sums);
	if (!p->sums || store_index_allocate(&s->index))
		return err_sys(e, ENOMEM, "%s", p->of.name);
	failed = store_index_set_layers(&s->index, l->layer_bytes, p->of.name, e);
	for (uint32_t i = 0; i < l->dense_units; i++)
		s->index.dense_offsets[i + 1] = l->dense[i].offset + l->dense[i].bytes;
	for (uint32_t i = 0; i < p->of.file_count && !failed; i++) {
		const struct in_place_file *f = &p->of.files[i];
		if (fstat(f->fd, &p->file[i].was))
			failed = err_sys(e, errno, "%s: cannot be looked at", f->path);
		else
			p->file[i].direct = store_file_open_direct(AT_FDCWD, f->path, 0, f->fd,
								   &p->file[i].align);
	}
	for (uint32_t i = 0; i < store_records(&s->index.info) && !failed; i++)
		failed = in_place_check_record(s, i, e);
	return failed;
}

int store_in_place_attach(struct store *s, const struct in_place_source *of, struct err *e)
{
	const struct store_layout *l = &of->layout;
	struct in_place_state *p = calloc(1, sizeof *p);
	struct in_place_opened *files = calloc((size_t)of->file_count + 1, sizeof *files);
	if (!p || !files) {
		free(p);
		free(files);
		return err_sys(e, ENOMEM, "%s", of->name);
	}
	for (uint32_t i = 0; i < of->file_count; i++)
		files[i] = (struct in_place_opened){.direct = -1, .align = 1};
	*p = (struct in_place_state){.of = *of, .file = files};
	s->place = p;
	s->index.info = (struct store_info){
		.key = of->key,
		.digest = l->digest,
		.codec = STORE_PLAIN,
		.layers = l->layers,
		.experts = l->experts,
		.record_bytes = l->record_bytes,
		.mixed = l->layer_bytes != NULL,
		.dense_units = l->dense_units,
	};
	if (l->dense_units) {
		const struct store_range *last = &l->dense[l->dense_units - 1];
		s->index.info.dense_bytes = last->offset + last->bytes;
	}
	int failed = in_place_set_up(s, e);
	if (failed)
		p->of.close = NULL; /* after a failure the caller still owns the source */
	return failed;
}

static const struct in_place_piece *in_place_pieces(const struct in_place_state *p, uint32_t record)
{
	return p->of.pieces + p->of.first[record];
}

/* ---- the files ---- */

/* No program can change a file without changing its ctime. */
static bool in_place_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static int in_place_changed(const char *path, struct err *e)
{
	return err_set(e, ESTALE,
		       "%s: was changed while mounted; unmount the model and mount it again", path);
}

int store_in_place_unchanged(const struct store *s, struct err *e)
{
	const struct in_place_state *p = s->place;
	for (uint32_t i = 0; i < p->of.file_count; i++) {
		struct stat now;
		if (fstat(p->of.files[i].fd, &now))
			return err_sys(e, errno, "%s: cannot be looked at", p->of.files[i].path);
		if (!in_place_same_file(&now, &p->file[i].was))
			return in_place_changed(p->of.files[i].path, e);
	}
	return 0;
}

bool store_is_in_place(const struct store *s)
{
	return s->place != NULL;
}

void store_in_place_free(struct in_place_state *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < p->of.file_count; i++)
		io_close(p->file[i].direct);
	if (p->of.close)
		p->of.close(p->of.ctx);
	free(p->file);
	free((void *)p->sums);
	free(p);
}

/* ---- verifying ---- */

/* The first read of a unit counts only if the files are still as they were when opened. So check
 * the files after the read. */
static int in_place_remember_sum(const struct store *s, uint32_t unit, uint64_t sum, struct err *e)
{
	struct in_place_state *p = s->place;
	uint64_t none = 0;
	int failed = store_in_place_unchanged(s, e);
	if (!failed && atomic_compare_exchange_strong(&p->sums[unit], &none, sum))
		atomic_fetch_add(&p->fresh, 1);
	return failed;
}

static int in_place_check_sum(const struct store *s, uint32_t unit, uint64_t sum, struct err *e)
{
	uint64_t known = atomic_load(&s->place->sums[unit]);
	sum += !sum; /* 0 means: not known yet */
	if (known == sum)
		return 0;
	if (!known)
		return in_place_remember_sum(s, unit, sum, e);
	if (unit < store_records(&s->index.info))
		return in_place_changed(
			s->place->of.files[in_place_pieces(s->place, unit)->file].path, e);
	return in_place_changed(s->place->of.name, e);
}

int store_in_place_verify(const struct store *s, uint32_t record, const struct store_pieces *stored,
			  struct err *e)
{
	XXH3_state_t *state = XXH3_createState();
	if (!state)
		return err_sys(e, ENOMEM, "%s: the checksum of an expert", s->place->of.name);
	(void)XXH3_64bits_reset(state);
	for (uint32_t i = 0; i < stored->count; i++)
		checksum_update(state, stored->piece[i].data, stored->piece[i].bytes);
	uint64_t sum = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	const struct in_place_state *p = s->place;
	bool known = atomic_load(&p->sums[record]) != 0;
	int failed = known || !p->of.check ? 0 : p->of.check(p->of.ctx, record, stored, e);
	return failed ? failed : in_place_check_sum(s, record, sum, e);
}

/* ---- reading ---- */

void store_in_place_extents(const struct store *s, uint32_t record, struct store_extents *out)
{
	const struct in_place_state *p = s->place;
	const struct in_place_piece *piece = in_place_pieces(p, record);
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

int store_in_place_read_record(const struct store *s, uint32_t record, uint64_t offset,
			       void *buffer, size_t bytes, struct err *e)
{
	struct store_extents x;
	uint8_t *to = buffer;
	int failed = 0;
	store_in_place_extents(s, record, &x);
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

int store_in_place_read_dense(const struct store *s, uint32_t unit, void *buffer, size_t bytes,
			      struct err *e)
{
	const struct in_place_state *p = s->place;
	uint32_t number = store_records(&s->index.info) + unit;
	bool known = atomic_load(&p->sums[number]) != 0;
	int failed = p->of.read_dense(p->of.ctx, unit, known, buffer, bytes, e);
	return failed ? failed : in_place_check_sum(s, number, checksum_of(buffer, bytes), e);
}

int store_in_place_read_failed(const struct store *s, uint32_t record, int code, struct err *e)
{
	const struct in_place_state *p = s->place;
	const char *path = p->of.files[in_place_pieces(p, record)->file].path;
	uint32_t layer = record / s->index.info.experts, expert = record % s->index.info.experts;
	if (code == ENODATA)
		return err_damaged(e,
				   "%s: ends before layer %u expert %u does; this file or a later "
				   "one was cut short; unmount the model and mount it again",
				   path, layer, expert);
	return err_sys(e, code, "%s: cannot read layer %u expert %u", path, layer, expert);
}

/* ---- the file of checksums ---- */

#define SUMS SUMS_FILE
#define SUMS_NEW SUMS STORE_PARTIAL

struct store_sums_head {
	char magic[8];
	uint64_t source[2], plan[2];
	uint32_t units, zero;
};
_Static_assert(sizeof(struct store_sums_head) == SUMS_HEAD, "it is the head as it is in the file");

static const char magic[] = "MOESUMS2";

static size_t store_sums_bytes(const struct store_sums_identity *of)
{
	return SUMS_HEAD + ((size_t)of->units + 1) * sizeof(uint64_t);
}

static struct store_sums_head store_sums_head_of(const struct store_sums_identity *of)
{
	struct store_sums_head h = {.units = of->units};
	memcpy(h.magic, magic, sizeof h.magic);
	memcpy(h.source, of->source, sizeof h.source);
	memcpy(h.plan, of->plan, sizeof h.plan);
	return h;
}

bool store_sums_decode_head(struct store_sums_identity *out, const uint8_t in[SUMS_HEAD])
{
	struct store_sums_head h;
	memcpy(&h, in, sizeof h);
	if (memcmp(h.magic, magic, sizeof h.magic) != 0)
		return false;
	*out = (struct store_sums_identity){
		{h.source[0], h.source[1]}, {h.plan[0], h.plan[1]}, h.units};
	return true;
}

int store_sums_decode(uint64_t *sums, const struct store_sums_identity *of, const uint8_t *in,
		      size_t bytes, const char *folder, struct err *e)
{
	const struct store_sums_head right = store_sums_head_of(of);
	size_t all = store_sums_bytes(of);
	uint64_t sum;
	if (bytes < SUMS_HEAD)
		return err_damaged(e, "%s/" SUMS ": is cut short", folder);
	if (memcmp(in, &right, SUMS_HEAD) != 0)
		return err_set(e, ENOENT, "%s/" SUMS ": of another source", folder);
	if (bytes != all)
		return err_damaged(e, "%s/" SUMS ": is %zu bytes and should be %zu", folder, bytes,
				   all);
	memcpy(&sum, in + all - sizeof sum, sizeof sum);
	if (sum != XXH3_64bits(in, all - sizeof sum))
		return err_damaged(e, "%s/" SUMS ": is damaged", folder);
	memcpy(sums, in + SUMS_HEAD, of->units * sizeof *sums);
	return 0;
}

int store_sums_read(uint64_t *sums, const struct store_sums_identity *of, const char *folder,
		    struct err *e)
{
	uint8_t *in;
	size_t bytes; /* ask for one more than the file's size, to detect a longer file */
	int failed = store_small_file_read(&in, &bytes, store_sums_bytes(of) + 1, folder, SUMS, e);
	if (!failed)
		failed = store_sums_decode(sums, of, in, bytes, folder, e);
	free(in);
	return failed;
}

int store_sums_write(const uint64_t *sums, const struct store_sums_identity *of, const char *folder,
		     struct err *e)
{
	const struct store_sums_head head = store_sums_head_of(of);
	size_t all = store_sums_bytes(of), end = all - sizeof(uint64_t);
	uint8_t *out = malloc(all);
	if (!out)
		return err_sys(e, ENOMEM, "%s/" SUMS, folder);
	memcpy(out, &head, SUMS_HEAD);
	memcpy(out + SUMS_HEAD, sums, of->units * sizeof *sums);
	uint64_t sum = XXH3_64bits(out, end);
	memcpy(out + end, &sum, sizeof sum);
	int failed = store_small_file_write(out, all, folder, SUMS, SUMS_NEW, e);
	free(out);
	return failed;
}

/* ---- saving ---- */

static struct store_sums_identity store_sums_identity_of(const struct store *s)
{
	const struct store_info *i = &s->index.info;
	return (struct store_sums_identity){
		.source = {i->key.fingerprint[0], i->key.fingerprint[1]},
		.plan = {i->digest.word[0], i->digest.word[1]},
		.units = store_units(i),
	};
}

int store_in_place_use_folder(struct store *s, const char *folder, struct err *e)
{
	struct err none; /* a first mount, or an unusable file: start without checksums */
	const struct store_sums_identity of = store_sums_identity_of(s);
	char *copy = strdup(folder);
	uint64_t *kept = calloc((size_t)of.units + 1, sizeof *kept);
	if (!copy || !kept) {
		free(copy);
		free(kept);
		return err_sys(e, ENOMEM, "%s", folder);
	}
	free(s->folder);
	s->folder = copy;
	if (!store_sums_read(kept, &of, folder, &none))
		for (uint32_t i = 0; i < of.units; i++)
			atomic_store(&s->place->sums[i], kept[i]);
	free(kept);
	return 0;
}

int store_in_place_save_sums(const struct store *s, struct err *e)
{
	struct in_place_state *p = s->place;
	const struct store_sums_identity of = store_sums_identity_of(s);
	uint64_t fresh = atomic_load(&p->fresh), *kept;
	if (!fresh)
		return 0;
	kept = calloc((size_t)of.units + 1, sizeof *kept);
	if (!kept)
		return err_sys(e, ENOMEM, "%s: its checksums", s->folder);
	for (uint32_t i = 0; i < of.units; i++)
		kept[i] = atomic_load(&p->sums[i]);
	int failed = store_sums_write(kept, &of, s->folder, e);
	free(kept);
	if (!failed)
		atomic_fetch_sub(&p->fresh, fresh);
	return failed;
}

/* Reads a whole source to find out whether it has changed; see identity.h. A single thread reads in
 * file order, since the disk is the bottleneck. */
#include "engine/source/identity.h"
#include "cache/io.h"

#include "cache/checksum.h"
#include "engine/source/source_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20 };

int identity_hash(struct identity_range *r, int fd, const char *path, identity_went_fn *went,
		  void *ctx, struct err *e)
{
	uint8_t *piece = malloc(PIECE_BYTES);
	XXH3_state_t *hash = XXH3_createState();
	int failed = piece && hash ? 0 : err_set(e, ENOMEM, "out of memory for reading %s", path);
	if (!failed)
		XXH3_64bits_reset(hash);
	for (uint64_t done = 0; done < r->bytes && !failed;) {
		uint64_t rest = r->bytes - done;
		size_t n = rest < PIECE_BYTES ? (size_t)rest : PIECE_BYTES;
		failed = source_file_read(fd, piece, n, r->offset + done, path, e);
		if (failed)
			break;
		checksum_update(hash, piece, n);
		done += n;
		if (went && !went(ctx, n))
			failed = err_set(e, ECANCELED, "checking the checkpoint was stopped");
	}
	if (!failed)
		r->hash = XXH3_64bits_digest(hash);
	XXH3_freeState(hash);
	free(piece);
	return failed;
}

uint64_t identity_bytes(const struct identity *id)
{
	/* The sum may overflow, since sizes are up to 2^63 and there are up to 2^22 ranges. It is
	 * only displayed. */
	uint64_t sum = 0;
	for (size_t i = 0; i < id->range_count; i++)
		sum += id->ranges[i].bytes;
	return sum;
}

struct identity_reading { /* a source that is read file by file */
	const struct source_state *source;
	const struct source_file *file;
	char *path;
	int fd;
};

static void identity_close_file(struct identity_reading *r)
{
	io_close(r->fd);
	free(r->path);
	r->path = NULL;
	r->fd = -1;
}

static int identity_stale(const struct source_state *s, const struct source_file *f, struct err *e)
{
	return err_set(e, ESTALE, "%s/%s: is not the file that the store was made from",
		       s->directory, f->name);
}

static int identity_open_file(struct identity_reading *r, uint64_t name_hash, struct err *e)
{
	uint64_t size;
	struct stat st;
	identity_close_file(r);
	r->file = source_find(r->source, name_hash);
	if (!r->file)
		return err_set(e, ESTALE, "%s: a file is gone", r->source->directory);
	r->path = source_file_path(r->source->directory, r->file->name, e);
	if (!r->path)
		return -ENOMEM;
	r->fd = source_file_open(r->path, &size, e);
	if (r->fd < 0)
		return r->fd;
	if (fstat(r->fd, &st))
		return err_sys(e, errno, "%s: cannot be looked at", r->path);
	const struct source_stamp now = source_stamp_of(&st);
	(void)posix_fadvise(r->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* only a hint */
	return source_stamps_equal(&now, &r->file->stamp) ? 0
							  : identity_stale(r->source, r->file, e);
}

/* Checks that the files have not changed during reading, and takes over their stamps. */
static int identity_take_stamps(struct identity *id, const struct source_state *now, struct err *e)
{
	for (uint32_t i = 0; i < id->file_count; i++) {
		const struct source_file *f = source_find(now, id->files[i].name_hash);
		int failed = f ? source_compare(now, f, e)
			       : err_set(e, ESTALE, "%s: a file is gone", now->directory);
		if (failed)
			return failed == -ENOENT ? -ESTALE : failed;
		id->files[i].stamp = f->stamp;
	}
	return 0;
}

int identity_verify(struct identity *id, const struct source_state *now, identity_went_fn *went,
		    void *ctx, struct err *e)
{
	struct identity_reading r = {.source = now, .fd = -1};
	int failed = identity_sort(id, e);
	for (size_t i = 0; i < id->range_count && !failed; i++) {
		struct identity_range is = id->ranges[i];
		uint64_t name_hash = id->files[is.file].name_hash;
		if (!r.file || r.fd < 0 || r.file->name_hash != name_hash)
			failed = identity_open_file(&r, name_hash, e);
		if (!failed)
			failed = identity_hash(&is, r.fd, r.path, went, ctx, e);
		if (!failed && is.hash != id->ranges[i].hash)
			failed = identity_stale(now, r.file, e);
	}
	identity_close_file(&r);
	return failed ? failed : identity_take_stamps(id, now, e);
}

int identity_of_source(struct identity *out, const struct source_state *now, identity_went_fn *went,
		       void *ctx, struct err *e)
{
	struct identity_reading r = {.source = now, .fd = -1};
	int failed = 0;
	*out = (struct identity){
		.name = {now->sampled[0], now->sampled[1]},
		.sampled = {now->sampled[0], now->sampled[1]},
	};
	for (uint32_t i = 0; i < now->count && !failed; i++) {
		const struct source_file *f = &now->files[i];
		const struct identity_file file = {f->name_hash, f->stamp};
		struct identity_range range = {.file = i, .bytes = f->stamp.size};
		failed = identity_add_file(out, &file, e);
		if (!failed)
			failed = identity_open_file(&r, f->name_hash, e);
		if (!failed)
			failed = identity_hash(&range, r.fd, r.path, went, ctx, e);
		if (!failed && range.bytes)
			failed = identity_add_range(out, &range, e);
	}
	identity_close_file(&r);
	if (!failed)
		failed = identity_take_stamps(out, now, e);
	out->kept = out->range_count;
	out->complete = !failed;
	if (failed)
		identity_free(out);
	return failed;
}

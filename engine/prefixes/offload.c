/* Contexts on disk. See offload.h. */
#include "engine/prefixes/offload.h"
#include "cache/store_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#define OFFLOAD_FILE "offloaded contexts"

struct offload_piece {
	struct offload_piece *next; /* in its bucket */
	XXH128_hash_t sum;
	uint64_t offset, bytes;
	uint32_t refs; /* number of texts with this piece */
};

struct offload_space {
	struct offload_space *next;
	uint64_t offset, bytes;
};

void offload_init(struct offload *o, struct offload_room *room, char *const *folders,
		  uint32_t count)
{
	*o = (struct offload){.room = room, .folders = folders, .folder_count = count, .fd = -1};
	pthread_mutex_init(&o->lock, NULL);
}

/* ---- the file ---- */

/* Opens the file in the first folder that has room for one. */
static int offload_open(struct offload *o)
{
	for (uint32_t i = 0; i < o->folder_count && o->fd < 0; i++) {
		struct err ignored;
		int folder = o->folders[i] ? store_folder_open(o->folders[i], &ignored) : -1;
		if (folder < 0)
			continue;
		o->folder = o->folders[i];
		o->fd = openat(folder, ".", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
		close(folder);
	}
	return o->fd < 0 ? -EIO : 0;
}

/* Sets the calling thread's I/O priority; returns the old one. */
static int offload_set_priority(int priority)
{
	enum { THIS_THREAD = 1 }; /* IOPRIO_WHO_PROCESS of <linux/ioprio.h>, with a 0 */
	int before = (int)syscall(SYS_ioprio_get, THIS_THREAD, 0);
	if (before >= 0)
		(void)syscall(SYS_ioprio_set, THIS_THREAD, 0, priority);
	return before;
}

/* Sets the lowest "best effort" priority. */
static int offload_go_last(void)
{
	enum { BEST_EFFORT = 2 << 13, LAST = 7 };
	return offload_set_priority(BEST_EFFORT | LAST);
}

/* ---- space in the file; the lock is held ---- */

/* Finds a place for a piece: free space, or the end of the file. */
static uint64_t offload_place(struct offload *o, uint64_t bytes)
{
	for (struct offload_space **at = &o->spaces; *at; at = &(*at)->next) {
		struct offload_space *s = *at;
		if (s->bytes != bytes)
			continue;
		uint64_t offset = s->offset;
		*at = s->next;
		free(s);
		return offset;
	}
	o->end += bytes;
	return o->end - bytes;
}

static struct offload_piece **offload_bucket(struct offload *o, XXH128_hash_t sum)
{
	return &o->pieces[sum.low64 % OFFLOAD_BUCKETS];
}

/* Drops a text's reference to a piece. The space of an unreferenced piece is freed on disk and
 * reused. If memory runs out for noting the space, it is not reused. */
static void offload_leave_piece(struct offload *o, struct offload_piece *p)
{
	struct offload_piece **at = offload_bucket(o, p->sum);
	struct offload_space *s;
	if (--p->refs)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	atomic_fetch_sub(&o->room->used, p->bytes);
	(void)fallocate(o->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)p->offset,
			(off_t)p->bytes);
	if ((s = malloc(sizeof *s))) {
		*s = (struct offload_space){o->spaces, p->offset, p->bytes};
		o->spaces = s;
	}
	free(p);
}

static void offload_empty_text(struct offload *o, struct offload_text *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		offload_leave_piece(o, t->pieces[i]);
	free(t->pieces);
	t->pieces = NULL;
	t->count = 0;
}

/* Drops the oldest text. */
static bool offload_give_way(struct offload *o)
{
	struct offload_text *oldest = NULL;
	for (struct offload_text *t = o->texts; t; t = t->next)
		if (t->count && !t->writing)
			oldest = t;
	if (oldest)
		offload_empty_text(o, oldest);
	return oldest;
}

/* Counts bytes as used; false: no room. */
static bool offload_take_room(struct offload *o, uint64_t bytes)
{
	do {
		if (atomic_fetch_add(&o->room->used, bytes) + bytes <= o->room->most)
			return true;
		atomic_fetch_sub(&o->room->used, bytes);
	} while (offload_give_way(o));
	return false;
}

static void offload_free_text(struct offload *o, struct offload_text *t)
{
	struct offload_text **at = &o->texts;
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	offload_empty_text(o, t);
	free(t);
}

/* ---- pieces ---- */

/* Whether the file has exactly these bytes there, since equal checksums are not enough. */
static bool offload_has(const struct offload *o, const struct offload_piece *p, const void *bytes)
{
	struct err ignored;
	void *there = malloc(p->bytes);
	bool same = there &&
		    !store_file_read(o->fd, there, p->bytes, p->offset, o->folder, OFFLOAD_FILE,
				     &ignored) &&
		    !memcmp(there, bytes, p->bytes);
	free(there);
	return same;
}

/* Finds a piece with the same bytes and adds a reference; NULL: none. */
static struct offload_piece *offload_find(struct offload *o, XXH128_hash_t sum, const void *bytes,
					  uint64_t n)
{
	pthread_mutex_lock(&o->lock);
	struct offload_piece *p = *offload_bucket(o, sum);
	while (p && (p->bytes != n || !XXH128_isEqual(p->sum, sum)))
		p = p->next;
	if (p)
		p->refs++;
	pthread_mutex_unlock(&o->lock);
	if (!p || offload_has(o, p, bytes))
		return p;
	pthread_mutex_lock(&o->lock);
	offload_leave_piece(o, p);
	pthread_mutex_unlock(&o->lock);
	return NULL;
}

static int offload_put(struct offload *o, XXH128_hash_t sum, const void *bytes, uint64_t n,
		       struct offload_piece **out)
{
	struct err ignored;
	struct offload_piece *p = malloc(sizeof *p);
	if (!p)
		return -ENOMEM;
	pthread_mutex_lock(&o->lock);
	bool room = offload_take_room(o, n);
	if (room) {
		struct offload_piece **bucket = offload_bucket(o, sum);
		*p = (struct offload_piece){*bucket, sum, offload_place(o, n), n, 1};
		*bucket = p;
	}
	pthread_mutex_unlock(&o->lock);
	if (!room) {
		free(p);
		return -ENOSPC;
	}
	int failed = store_file_write(o->fd, bytes, n, p->offset, o->folder, OFFLOAD_FILE,
				      &ignored);
	if (failed) {
		pthread_mutex_lock(&o->lock);
		offload_leave_piece(o, p);
		pthread_mutex_unlock(&o->lock);
		return failed == -ENOSPC ? -ENOSPC : -EIO;
	}
	*out = p;
	return 0;
}

/* ---- writing ---- */

struct offload_text *offload_begin(struct offload *o, size_t positions)
{
	struct offload_text *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->owner = o;
	t->positions = positions;
	t->writing = true;
	pthread_mutex_lock(&o->lock);
	t->next = o->texts;
	o->texts = t;
	pthread_mutex_unlock(&o->lock);
	return t;
}

static int offload_write_piece(struct offload *o, struct offload_text *t, const void *bytes,
			       uint64_t n)
{
	struct offload_piece **grown = reallocarray(t->pieces, t->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	t->pieces = grown;
	XXH128_hash_t sum = XXH3_128bits(bytes, n);
	struct offload_piece *p = offload_find(o, sum, bytes, n);
	int failed = p ? 0 : offload_put(o, sum, bytes, n, &p);
	if (!failed)
		t->pieces[t->count++] = p;
	return failed;
}

static int offload_write_pieces(struct offload *o, struct offload_text *t,
				const struct context_save *s)
{
	int failed = o->fd < 0 ? offload_open(o) : 0;
	uint64_t bytes = 0;
	uint32_t part = 0;
	uint8_t *buffer = NULL;
	t->bytes = context_save_bytes(s);
	for (uint64_t at = 0, n; at < t->bytes && !failed; at += n) {
		n = context_save_next(s, &part);
		uint8_t *room = n > bytes ? realloc(buffer, n) : buffer;
		if (!room) {
			failed = -ENOMEM;
			break;
		}
		buffer = room;
		bytes = n > bytes ? n : bytes;
		context_save_read(s, at, buffer, n);
		failed = offload_write_piece(o, t, buffer, n);
	}
	free(buffer);
	return failed;
}

void offload_write(struct offload *o, struct offload_text *t, const struct context_save *s)
{
	int before = offload_go_last(), failed = offload_write_pieces(o, t, s);
	if (before >= 0)
		(void)offload_set_priority(before);
	pthread_mutex_lock(&o->lock);
	t->writing = false;
	t->failed = -failed;
	if (failed)
		offload_empty_text(o, t);
	if (t->forsaken)
		offload_free_text(o, t);
	pthread_mutex_unlock(&o->lock);
}

/* ---- reading ---- */

static int offload_read_piece(const struct offload *o, const struct offload_piece *p,
			      struct context_load *l, struct err *e)
{
	uint8_t *bytes = malloc(p->bytes);
	if (!bytes)
		return err_set(e, ENOMEM, "out of memory for a part of a context");
	int failed = store_file_read(o->fd, bytes, p->bytes, p->offset, o->folder, OFFLOAD_FILE, e);
	if (failed)
		failed = -EIO;
	else if (!XXH128_isEqual(XXH3_128bits(bytes, p->bytes), p->sum))
		failed = err_set(e, EIO, "%s: %s has changed", o->folder, OFFLOAD_FILE);
	if (!failed)
		failed = context_load_feed(l, bytes, p->bytes, e);
	free(bytes);
	return failed;
}

int offload_read(struct offload *o, const struct offload_text *t, struct context *x,
		 const struct config *c, struct err *e)
{
	struct context_load l;
	if (!t->count)
		return err_set(e, ENOENT, "the context is not on disk");
	int before = offload_go_last(), failed = 0;
	context_load_begin(&l, x, c, (uint32_t)t->positions, t->bytes);
	for (uint32_t i = 0; i < t->count && !failed; i++)
		failed = offload_read_piece(o, t->pieces[i], &l, e);
	if (before >= 0)
		(void)offload_set_priority(before);
	if (failed) {
		context_load_free(&l);
		return failed;
	}
	context_load_end(&l);
	context_free(x);
	context_move(x, &l.x);
	context_load_free(&l);
	return 0;
}

/* ---- the end ---- */

void offload_drop(struct offload_text *t)
{
	struct offload *o = t ? t->owner : NULL;
	if (!t)
		return;
	pthread_mutex_lock(&o->lock);
	if (t->writing)
		t->forsaken = true;
	else
		offload_free_text(o, t);
	pthread_mutex_unlock(&o->lock);
}

void offload_free(struct offload *o)
{
	struct offload_space *s;
	while (o->texts)
		offload_free_text(o, o->texts);
	while ((s = o->spaces)) {
		o->spaces = s->next;
		free(s);
	}
	if (o->fd >= 0)
		close(o->fd);
	pthread_mutex_destroy(&o->lock);
}

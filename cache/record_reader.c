/* Record reads through io_uring or pread; see the header. */
#include "cache/record_reader.h"

#include "cache/io.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>

enum { RECORD_ALIGN = 64 }; /* alignment of buffers, if O_DIRECT needs less */
/* Buffers for records of at least LEAST_HUGE are whole huge pages; less than half of a buffer is
 * wasted. */
enum { HUGE_PAGE = 2 << 20, LEAST_HUGE = HUGE_PAGE / 2 };

/* One piece of a record that is being read. */
struct read_piece {
	int fd, plain_fd;  /* fd: for O_DIRECT, until that fails or reads too little */
	uint64_t begin;	   /* offset of memory[at] in the file, aligned */
	size_t at;	   /* offset in the buffer's memory, aligned */
	size_t skip;	   /* the piece begins at memory + at + skip */
	size_t want, need; /* bytes of the enclosing range; bytes up to the piece's end */
	size_t done;
	bool over;
};

struct read_buffer {
	void *memory; /* grows to the largest read so far */
	size_t bytes, align;
	bool busy;

	uint32_t count, left; /* pieces; unfinished pieces */
	int failed;	      /* the first piece's error, or 0 */
	struct read_piece piece[STORE_PIECES];
	void *tag;
};

struct record_reader {
	struct read_buffer buffer[READER_MOST];
	pthread_mutex_t lock; /* guards `busy` and `memory` of the buffers */
	unsigned capacity;
	int wake;
	struct io_uring ring;
	bool has_ring;
	unsigned unsubmitted, flying; /* entries in the ring, the poll included */
	bool polling;		      /* the ring has, or will have, a poll of `wake` */
	unsigned after_poll;	      /* entries after the poll; the kernel takes them in order */
};

int reader_create(struct record_reader **out, unsigned capacity, bool ring, int wake, struct err *e)
{
	struct record_reader *r = calloc(1, sizeof *r);
	*out = r;
	if (!r)
		return err_sys(e, ENOMEM, "a reader of experts");
	pthread_mutex_init(&r->lock, NULL);
	r->capacity = capacity;
	r->wake = wake;
	/* EPERM in containers, ENOSYS in old kernels, ENOMEM under tight limits: then use pread. */
	r->has_ring = ring && io_uring_queue_init(READER_MOST * STORE_PIECES + 1, &r->ring, 0) == 0;
	return 0;
}

void reader_destroy(struct record_reader *r)
{
	if (!r)
		return;
	if (r->has_ring)
		io_uring_queue_exit(&r->ring);
	reader_rest(r);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

void reader_rest(struct record_reader *r)
{
	pthread_mutex_lock(&r->lock);
	for (struct read_buffer *b = r->buffer; b < r->buffer + READER_MOST; b++)
		if (!b->busy) {
			free(b->memory);
			b->memory = NULL;
		}
	pthread_mutex_unlock(&r->lock);
}

bool reader_has_ring(const struct record_reader *r)
{
	return r->has_ring;
}

unsigned reader_room(const struct record_reader *r)
{
	unsigned busy = 0;
	for (unsigned i = 0; i < READER_MOST; i++)
		busy += r->buffer[i].busy;
	unsigned most = r->has_ring ? r->capacity : 1;
	return busy < most ? most - busy : 0;
}

/* ---- one read ---- */

/* Makes room for `bytes`. A large record in scattered small pages is hundreds of pieces for the
 * kernel to pin and the device to fill: that takes up to twice the time. */
static int reader_grow_buffer(struct read_buffer *b, size_t bytes, size_t align, struct err *e)
{
	if (b->memory && b->bytes >= bytes && b->align >= align)
		return 0;
	bool huge = bytes >= LEAST_HUGE;
	free(b->memory);
	b->memory = NULL;
	b->align = huge && align < HUGE_PAGE ? HUGE_PAGE : align;
	b->bytes = huge ? (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE : bytes;
	if (posix_memalign(&b->memory, b->align, b->bytes))
		return err_set(
			e, ENOMEM,
			"out of memory for a buffer of %zu bytes that experts are read into; "
			"lower the budget",
			b->bytes);
	if (huge) /* a hint */
		(void)madvise(b->memory, b->bytes, MADV_HUGEPAGE);
	return 0;
}

static uint64_t reader_round_up(uint64_t n, uint64_t align)
{
	return (n + align - 1) & ~(align - 1);
}

static uint64_t reader_align_of(const struct store_extent *x)
{
	return x->direct_fd >= 0 ? x->align : 1;
}

static struct read_piece reader_set_range(const struct store_extent *x, size_t at)
{
	uint64_t align = reader_align_of(x), begin = x->offset & ~(align - 1);
	return (struct read_piece){
		.fd = x->direct_fd >= 0 ? x->direct_fd : x->fd,
		.plain_fd = x->fd,
		.begin = begin,
		.at = at,
		.skip = x->offset - begin,
		.want = reader_round_up(x->offset + x->bytes, align) - begin,
		.need = x->offset - begin + x->bytes,
	};
}

/* Places the pieces' ranges one after the other in the buffer, each aligned for direct reads of its
 * file. */
static int reader_set_ranges(struct read_buffer *b, const struct store_extents *record,
			     struct err *e)
{
	size_t align = RECORD_ALIGN, bytes = 0;
	for (uint32_t k = 0; k < record->count; k++)
		if (reader_align_of(&record->extent[k]) > align)
			align = reader_align_of(&record->extent[k]);
	b->count = b->left = record->count;
	b->failed = 0;
	for (uint32_t k = 0; k < record->count; k++) {
		b->piece[k] = reader_set_range(&record->extent[k], bytes);
		bytes = reader_round_up(bytes + b->piece[k].want, align);
	}
	return reader_grow_buffer(b, bytes, align, e);
}

static char *reader_piece_memory(const struct read_buffer *b, const struct read_piece *p)
{
	return (char *)b->memory + p->at + p->done;
}

/* Bytes to read next. O_DIRECT has to read the whole enclosing range. */
static size_t reader_piece_length(const struct read_piece *p)
{
	size_t rest = (p->fd == p->plain_fd ? p->need : p->want) - p->done;
	return rest < (1U << 30) ? rest : (1U << 30);
}

/* Handles the result of one attempt. Returns 1: the piece is complete; 0: continue; or a negative
 * errno. */
static int reader_advance_piece(struct read_piece *p, int64_t result)
{
	if (result == -EINTR || result == -EAGAIN)
		return 0;
	if (result == -EINVAL && p->fd != p->plain_fd) {
		p->fd = p->plain_fd;
		return 0;
	}
	if (result < 0)
		return (int)result;
	p->done += (size_t)result;
	if (p->done >= p->need)
		return 1;
	p->fd = p->plain_fd; /* the rest may begin at an unaligned offset */
	return result == 0 ? -ENODATA : 0;
}

/* Handles a result for piece k. True: the piece is over, read or failed. */
static bool reader_take_result(struct read_buffer *b, unsigned k, int64_t result)
{
	int step = reader_advance_piece(&b->piece[k], result);
	if (!step)
		return false;
	b->piece[k].over = true;
	b->left--;
	if (step < 0 && !b->failed)
		b->failed = step;
	return true;
}

/* ---- the ring ---- */

static struct io_uring_sqe *reader_new_entry(struct record_reader *r, unsigned tag)
{
	/* The ring has an entry for each piece and for the poll, and each is queued at most
	 * once. */
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);
	assert(sqe);
	io_uring_sqe_set_data64(sqe, tag);
	r->unsubmitted++;
	r->after_poll++;
	return sqe;
}

static void reader_ring_queue(struct record_reader *r, unsigned i, unsigned k)
{
	const struct read_buffer *b = &r->buffer[i];
	const struct read_piece *p = &b->piece[k];
	unsigned tag = i * STORE_PIECES + k;
	struct io_uring_sqe *sqe = reader_new_entry(r, tag);
	io_uring_prep_read(sqe, p->fd, reader_piece_memory(b, p), (unsigned)reader_piece_length(p),
			   p->begin + p->done);
	io_uring_sqe_set_data64(sqe, tag); /* io_uring_prep_read clears it */
}

static void reader_ring_poll(struct record_reader *r)
{
	struct io_uring_sqe *sqe = reader_new_entry(r, IO_RING_POLL);
	io_uring_prep_poll_add(sqe, r->wake, POLLIN);
	io_uring_sqe_set_data64(sqe, IO_RING_POLL);
	r->polling = true;
	r->after_poll = 0;
}

/* True if the kernel has one of our reads, not only the poll. */
static bool reader_has_flying(const struct record_reader *r)
{
	bool poll_flies = r->polling && r->unsubmitted <= r->after_poll;
	return r->flying > poll_flies;
}

void reader_submit(struct record_reader *r)
{
	while (r->has_ring && r->unsubmitted > 0) {
		int n = io_ring_submit(&r->ring);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return; /* no memory, or the queue is full: reader_wait tries again */
		r->unsubmitted -= (unsigned)n;
		r->flying += (unsigned)n;
	}
}

/* Waits for one attempt or the poll to end. False: the kernel accepts no read although none is in
 * flight. Then the ring is closed, and unfinished reads continue with pread. */
static bool reader_ring_next(struct record_reader *r, unsigned *which, int64_t *result)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	uint64_t tag;
	if (!r->polling)
		reader_ring_poll(r);
	reader_submit(r);
	if (r->unsubmitted > 0 && !reader_has_flying(r)) { /* only the poll would end the wait */
		io_uring_queue_exit(&r->ring);
		r->has_ring = false;
		r->unsubmitted = 0;
		return false;
	}
	/* A failed wait (EINTR, or the kernel is short of memory) does not end the reads: the
	 * kernel may write to their buffers until their results arrive. */
	while (io_ring_next(&r->ring, &tag, result))
		(void)nanosleep(&moment, NULL);
	r->flying--;
	*which = (unsigned)tag;
	return true;
}

/* ---- without a ring ---- */

/* The first buffer with a read; READER_MOST: none. */
static unsigned reader_first_busy(const struct record_reader *r)
{
	unsigned i = 0;
	while (i < READER_MOST && !r->buffer[i].busy)
		i++;
	return i;
}

/* Makes one attempt for the first piece that is not over. A failure ends the read, since no other
 * piece is in flight. */
static void reader_read_on(struct read_buffer *b)
{
	unsigned k = 0;
	while (b->piece[k].over)
		k++;
	const struct read_piece *p = &b->piece[k];
	(void)reader_take_result(b, k,
				 io_pread(p->fd, reader_piece_memory(b, p), reader_piece_length(p),
					  p->begin + p->done));
	if (b->failed)
		b->left = 0;
}

/* Another reader's thread may have taken the count. That is harmless: that thread looks for new
 * work, too. */
static void reader_take_wake(const struct record_reader *r)
{
	eventfd_t count;
	(void)eventfd_read(r->wake, &count);
}

static void reader_wait_for_wake(const struct record_reader *r)
{
	struct pollfd p = {.fd = r->wake, .events = POLLIN};
	(void)poll(&p, 1, -1); /* after EINTR the caller looks for work once too often */
	reader_take_wake(r);
}

/* ---- reading ---- */

int reader_queue(struct record_reader *r, const struct store_extents *record, void *tag,
		 struct err *e)
{
	unsigned i = 0;
	while (i < READER_MOST - 1 && r->buffer[i].busy)
		i++;
	struct read_buffer *b = &r->buffer[i];
	assert(!b->busy && record->count > 0 && record->count <= STORE_PIECES);
	pthread_mutex_lock(&r->lock);
	int rc = reader_set_ranges(b, record, e);
	b->busy = !rc;
	pthread_mutex_unlock(&r->lock);
	if (rc)
		return rc;
	b->tag = tag;
	for (unsigned k = 0; r->has_ring && k < b->count; k++)
		reader_ring_queue(r, i, k);
	return 0;
}

static void reader_report(const struct record_reader *r, unsigned i, struct read_done *out)
{
	const struct read_buffer *b = &r->buffer[i];
	*out = (struct read_done){.tag = b->tag, .result = b->failed, .buffer = i};
	for (uint32_t k = 0; k < b->count; k++) {
		const struct read_piece *p = &b->piece[k];
		out->bytes += p->done;
		if (!b->failed)
			out->record.piece[out->record.count++] = (struct store_span){
				(const char *)b->memory + p->at + p->skip, p->need - p->skip};
	}
}

/* Makes one attempt; *i becomes its read, or READER_MOST: try again. False: `wake` was
 * signalled. */
static bool reader_next_attempt(struct record_reader *r, unsigned *i)
{
	unsigned which;
	int64_t result;
	if (!r->has_ring) {
		*i = reader_first_busy(r);
		if (*i == READER_MOST)
			reader_wait_for_wake(r);
		else
			reader_read_on(&r->buffer[*i]);
		return *i != READER_MOST;
	}
	*i = READER_MOST;
	if (!reader_ring_next(r, &which, &result))
		return true; /* the ring was closed */
	if (which == IO_RING_POLL) {
		r->polling = false;
		reader_take_wake(r);
		return false;
	}
	*i = which / STORE_PIECES;
	if (!reader_take_result(&r->buffer[*i], which % STORE_PIECES, result))
		reader_ring_queue(r, *i, which % STORE_PIECES);
	return true;
}

bool reader_wait(struct record_reader *r, struct read_done *out)
{
	unsigned i;
	do {
		if (!reader_next_attempt(r, &i))
			return false;
	} while (i == READER_MOST || r->buffer[i].left > 0);
	reader_report(r, i, out);
	return true;
}

void reader_release(struct record_reader *r, const struct read_done *done)
{
	pthread_mutex_lock(&r->lock);
	r->buffer[done->buffer].busy = false;
	pthread_mutex_unlock(&r->lock);
}

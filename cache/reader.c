/* Record reads through io_uring or pread; see the header. */
#include "cache/reader.h"

#include "cache/io.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>

enum { RECORD_ALIGN = 64 }; /* of buffers, where O_DIRECT asks for less */
/* Buffers for records from LEAST_HUGE on are whole huge pages, less than half of them in vain. */
enum { HUGE_PAGE = 2 << 20, LEAST_HUGE = HUGE_PAGE / 2 };

struct read_buffer {
	void *memory; /* as large as the largest read that it was used for */
	size_t bytes, align;
	bool busy;

	int fd, plain_fd;  /* fd is the O_DIRECT one until that fails to deliver */
	uint64_t begin;	   /* offset of memory[0] in the file, aligned */
	size_t skip;	   /* the record begins at memory + skip */
	size_t want, need; /* the enclosing range, and how much of it covers the record */
	size_t done;
	void *tag;
};

struct reader {
	struct read_buffer buffer[READER_MOST];
	unsigned capacity;
	int wake;
	struct io_uring ring;
	bool has_ring;
	unsigned unsubmitted, flying; /* in the ring, the poll included */
	bool polling;		      /* the ring watches `wake`, or is about to: */
	unsigned after_poll;	      /* entries since then; the kernel takes them in order */
};

int reader_create(struct reader **out, unsigned capacity, bool ring, int wake, struct err *e)
{
	struct reader *r = calloc(1, sizeof *r);
	*out = r;
	if (!r)
		return err_sys(e, ENOMEM, "a reader of experts");
	r->capacity = capacity;
	r->wake = wake;
	/* EPERM in containers, ENOSYS in old kernels, ENOMEM under tight limits: pread does it too.
	 */
	r->has_ring = ring && io_uring_queue_init(READER_MOST + 1, &r->ring, 0) == 0;
	return 0;
}

void reader_destroy(struct reader *r)
{
	if (!r)
		return;
	if (r->has_ring)
		io_uring_queue_exit(&r->ring);
	for (unsigned i = 0; i < READER_MOST; i++)
		free(r->buffer[i].memory);
	free(r);
}

bool reader_has_ring(const struct reader *r)
{
	return r->has_ring;
}

unsigned reader_room(const struct reader *r)
{
	unsigned busy = 0;
	for (unsigned i = 0; i < READER_MOST; i++)
		busy += r->buffer[i].busy;
	unsigned most = r->has_ring ? r->capacity : 1;
	return busy < most ? most - busy : 0;
}

/* ---- one read ---- */

/* Memory for b->want bytes. A large record in small pages that lie anywhere makes hundreds of
 * pieces for the kernel to pin and the device to fill: it takes up to twice the time. */
static int grow_buffer(struct read_buffer *b, size_t align, struct err *e)
{
	if (b->memory && b->bytes >= b->want && b->align >= align)
		return 0;
	bool huge = b->want >= LEAST_HUGE;
	free(b->memory);
	b->memory = NULL;
	b->align = huge && align < HUGE_PAGE ? HUGE_PAGE : align;
	b->bytes = huge ? (b->want + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE : b->want;
	if (posix_memalign(&b->memory, b->align, b->bytes))
		return err_set(e, ENOMEM,
			       "no memory for a buffer of %zu bytes that experts are read into; "
			       "lower the budget",
			       b->bytes);
	if (huge) /* a hint */
		(void)madvise(b->memory, b->bytes, MADV_HUGEPAGE);
	return 0;
}

static int set_range(struct read_buffer *b, const struct store_extent *x, struct err *e)
{
	uint64_t align = x->direct_fd >= 0 ? x->align : 1;
	uint64_t end = (x->offset + x->bytes + align - 1) & ~(align - 1);
	b->fd = x->direct_fd >= 0 ? x->direct_fd : x->fd;
	b->plain_fd = x->fd;
	b->begin = x->offset & ~(align - 1);
	b->skip = x->offset - b->begin;
	b->want = end - b->begin;
	b->need = b->skip + x->bytes;
	b->done = 0;

	return grow_buffer(b, align > RECORD_ALIGN ? align : RECORD_ALIGN, e);
}

/* What is to be read next. Beyond the record nothing is needed, but O_DIRECT takes no less. */
static size_t read_length(const struct read_buffer *b)
{
	size_t rest = (b->fd == b->plain_fd ? b->need : b->want) - b->done;
	return rest < (1U << 30) ? rest : (1U << 30);
}

/* Takes the result of an attempt: 1 the record is there, 0 go on, or a negative errno. */
static int advance(struct read_buffer *b, int64_t result)
{
	if (result == -EINTR || result == -EAGAIN)
		return 0;
	if (result == -EINVAL && b->fd != b->plain_fd) {
		b->fd = b->plain_fd;
		return 0;
	}
	if (result < 0)
		return (int)result;
	b->done += (size_t)result;
	if (b->done >= b->need)
		return 1;
	b->fd = b->plain_fd; /* the rest begins at an offset that need not be aligned */
	return result == 0 ? -ENODATA : 0;
}

/* ---- the ring ---- */

static struct io_uring_sqe *new_entry(struct reader *r, unsigned tag)
{
	/* The ring has an entry for each buffer and the poll, and each is in it at most once. */
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);
	assert(sqe);
	io_uring_sqe_set_data64(sqe, tag);
	r->unsubmitted++;
	r->after_poll++;
	return sqe;
}

static void ring_queue(struct reader *r, unsigned i)
{
	const struct read_buffer *b = &r->buffer[i];
	struct io_uring_sqe *sqe = new_entry(r, i);
	io_uring_prep_read(sqe, b->fd, (char *)b->memory + b->done, (unsigned)read_length(b),
			   b->begin + b->done);
	io_uring_sqe_set_data64(sqe, i); /* preparing clears it */
}

static void ring_poll(struct reader *r)
{
	struct io_uring_sqe *sqe = new_entry(r, IO_RING_POLL);
	io_uring_prep_poll_add(sqe, r->wake, POLLIN);
	io_uring_sqe_set_data64(sqe, IO_RING_POLL);
	r->polling = true;
	r->after_poll = 0;
}

/* True if the kernel has a read of ours, and not the poll alone. */
static bool read_flies(const struct reader *r)
{
	bool poll_flies = r->polling && r->unsubmitted <= r->after_poll;
	return r->flying > poll_flies;
}

void reader_submit(struct reader *r)
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

/* Waits for one attempt, or the poll. False: the kernel takes nothing although it has no read, so
 * there is no ring any more, and what is in work goes on by pread. */
static bool ring_next(struct reader *r, unsigned *i, int64_t *result)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	uint64_t tag;
	if (!r->polling)
		ring_poll(r);
	reader_submit(r);
	if (r->unsubmitted > 0 && !read_flies(r)) { /* the poll would be waited for alone */
		io_uring_queue_exit(&r->ring);
		r->has_ring = false;
		r->unsubmitted = 0;
		return false;
	}
	/* A failed wait (EINTR, or the kernel is short of memory) does not end the reads: their
	 * results come into shared memory, and their buffers are not ours until they do. */
	while (io_ring_next(&r->ring, &tag, result))
		(void)nanosleep(&moment, NULL);
	r->flying--;
	*i = (unsigned)tag;
	return true;
}

/* ---- without a ring ---- */

/* READER_MOST: none is. */
static unsigned first_busy(const struct reader *r)
{
	unsigned i = 0;
	while (i < READER_MOST && !r->buffer[i].busy)
		i++;
	return i;
}

static int read_on(struct read_buffer *b)
{
	return advance(b, io_pread(b->fd, (char *)b->memory + b->done, read_length(b),
				   b->begin + b->done));
}

/* The count may be gone: another reader's thread took it. That is no harm, since it looks for work,
 * too. */
static void take_wake(const struct reader *r)
{
	eventfd_t count;
	(void)eventfd_read(r->wake, &count);
}

static void wait_for_wake(const struct reader *r)
{
	struct pollfd p = {.fd = r->wake, .events = POLLIN};
	(void)poll(&p, 1, -1); /* EINTR: the caller looks for work once more than it had to */
	take_wake(r);
}

/* ---- reading ---- */

int reader_queue(struct reader *r, const struct store_extent *record, void *tag, struct err *e)
{
	unsigned i = 0;
	while (i < READER_MOST - 1 && r->buffer[i].busy)
		i++;
	struct read_buffer *b = &r->buffer[i];
	assert(!b->busy);
	int rc = set_range(b, record, e);
	if (rc)
		return rc;
	b->busy = true;
	b->tag = tag;
	if (r->has_ring)
		ring_queue(r, i);
	return 0;
}

static void report(const struct reader *r, unsigned i, int step, struct read_done *out)
{
	const struct read_buffer *b = &r->buffer[i];
	*out = (struct read_done){
		.tag = b->tag,
		.result = step < 0 ? step : 0,
		.record = step < 0 ? NULL : (const char *)b->memory + b->skip,
		.bytes = b->done,
		.buffer = i,
	};
}

bool reader_wait(struct reader *r, struct read_done *out)
{
	unsigned i = READER_MOST;
	int step = 0;
	while (step == 0) {
		int64_t result;
		if (!r->has_ring) {
			i = first_busy(r);
			if (i == READER_MOST) {
				wait_for_wake(r);
				return false;
			}
			step = read_on(&r->buffer[i]);
		} else if (ring_next(r, &i, &result)) {
			if (i == IO_RING_POLL) {
				r->polling = false;
				take_wake(r);
				return false;
			}
			step = advance(&r->buffer[i], result);
			if (step == 0)
				ring_queue(r, i);
		}
	}
	report(r, i, step, out);
	return true;
}

void reader_release(struct reader *r, const struct read_done *done)
{
	r->buffer[done->buffer].busy = false;
}

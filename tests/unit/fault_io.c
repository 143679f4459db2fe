#include "fault_io.h"

struct faults faults;
static bool begun;

void faults_begin(void)
{
	begun = true;
}

/* ---- undoing writes, as a power cut does ---- */

struct undo {
	struct undo *next; /* the one before */
	int fd;		   /* of the file written, or of the folder */
	uint64_t offset, size;
	uint8_t *old;
	char from[64], to[64], saved[32]; /* a rename; only saved and to: a removal */
};
static struct undo *undos;
static pthread_mutex_t undo_lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */

static void undo_one(const struct undo *u)
{
	if (u->old) {
		if (pwrite(u->fd, u->old, u->size, (off_t)u->offset) < 0)
			abort();
		return;
	}
	if (u->from[0])
		(void)renameat(u->fd, u->to, u->fd, u->from);
	if (u->saved[0])
		(void)renameat(u->fd, u->saved, u->fd, u->to);
}

static void cut_power(void)
{
	unsigned seed = (unsigned)faults.kill_at;
	bool skip_folder = false;
	pthread_mutex_lock(&undo_lock); /* never freed: the process is about to die */
	for (struct undo *u = undos; u; u = u->next) {
		bool lose = faults.cut == CUT_ALL || (rand_r(&seed) & 64);
		/* Folder operations are lost from the last one backwards, never from the middle. */
		if (!u->old && !lose)
			skip_folder = true;
		if (lose && (u->old || !skip_folder))
			undo_one(u);
		else if (u->saved[0])
			(void)unlinkat(u->fd, u->saved, 0);
	}
}

static struct undo *undo_new(int fd)
{
	struct undo *u = calloc(1, sizeof *u);
	u->fd = fd;
	return u;
}

static void remember(struct undo *u)
{
	pthread_mutex_lock(&undo_lock);
	u->next = undos;
	undos = u;
	pthread_mutex_unlock(&undo_lock);
}

static void settle(int fd)
{
	pthread_mutex_lock(&undo_lock);
	for (struct undo **link = &undos; *link;) {
		struct undo *u = *link;
		if (u->fd != fd) {
			link = &u->next;
			continue;
		}
		*link = u->next;
		if (u->saved[0])
			(void)unlinkat(u->fd, u->saved, 0);
		free(u->old);
		free(u);
	}
	pthread_mutex_unlock(&undo_lock);
}

static void save_name(struct undo *u, const char *name)
{
	static unsigned n;
	(void)snprintf(u->to, sizeof u->to, "%s", name);
	(void)snprintf(u->saved, sizeof u->saved, "saved-%u", n++);
	if (linkat(u->fd, name, u->fd, u->saved, 0))
		u->saved[0] = 0;
}

/* ---- the gate that every operation passes ---- */

static int gate(enum fault_op op, int fd)
{
	if (faults.tracing && faults.traced < 64) {
		faults.trace[faults.traced].op = op;
		faults.trace[faults.traced++].fd = fd;
	}
	if (++faults.operations == faults.kill_at) {
		if (faults.cut != CUT_NOTHING)
			cut_power();
		(void)kill(getpid(), SIGKILL);
	}
	if (faults.stutter && op != OP_FOLDER && op != OP_SUBMIT && faults.operations % 3 == 0)
		return -EINTR;
	if (faults.fail_on & op) {
		long n = ++faults.failable;
		if (faults.fail_at == 0 || n == faults.fail_at)
			return faults.fail_code ? -faults.fail_code : 1;
	}
	return 0;
}

static size_t cut_short(size_t bytes)
{
	return faults.stutter && bytes > 700 ? 700 : bytes;
}

/* ---- a read that hangs ---- */

/* True for the read that must hang. */
static bool hangs(void)
{
	bool it = ++faults.reads == faults.hold_at;
	if (it)
		faults.held = true;
	return it;
}

static void hang(void)
{
	while (faults.hold_at)
		(void)nanosleep(&fault_moment, NULL);
	faults.held = false;
}

static void hang_with_file(int fd)
{
	struct stat st;
	if (!faults.hang_file || fstat(fd, &st) || st.st_ino != faults.hang_file)
		return;
	faults.hanging++;
	while (faults.hang_file)
		(void)nanosleep(&fault_moment, NULL);
	faults.hanging--;
}

static void hang_sync(int fd)
{
	char link[32], path[512];
	const char *name = faults.hold_sync;
	if (!name)
		return;
	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	path[n < 0 ? 0 : n] = 0;
	if (!strstr(path, name))
		return;
	faults.syncs_held++;
	while (faults.hold_sync)
		(void)nanosleep(&fault_moment, NULL);
	faults.syncs_held--;
}

/* The completion that is held back, and its ring. Other completions of the ring pass it. */
static struct {
	struct io_uring *_Atomic ring;
	uint64_t tag;
	int64_t result;
} held_back;

/* ---- io.h: each wrapped function, and the original ---- */

int64_t __real_io_pread(int fd, void *buffer, size_t bytes, uint64_t offset);
int64_t __wrap_io_pread(int fd, void *buffer, size_t bytes, uint64_t offset);
int64_t __real_io_pwrite(int fd, const void *buffer, size_t bytes, uint64_t offset);
int64_t __wrap_io_pwrite(int fd, const void *buffer, size_t bytes, uint64_t offset);
int __real_io_sync(int fd);
int __wrap_io_sync(int fd);
int __real_io_sync_folder(int fd);
int __wrap_io_sync_folder(int fd);
int __real_io_reserve(int fd, uint64_t bytes);
int __wrap_io_reserve(int fd, uint64_t bytes);
int __real_io_free_space(int folder, uint64_t *bytes);
int __wrap_io_free_space(int folder, uint64_t *bytes);
int __real_io_rename(int folder, const char *from, const char *to);
int __wrap_io_rename(int folder, const char *from, const char *to);
int __real_io_remove(int folder, const char *name);
int __wrap_io_remove(int folder, const char *name);
int __real_io_ring_submit(struct io_uring *ring);
int __wrap_io_ring_submit(struct io_uring *ring);
int __real_io_ring_next(struct io_uring *ring, uint64_t *tag, int64_t *result);
int __wrap_io_ring_next(struct io_uring *ring, uint64_t *tag, int64_t *result);

int64_t __wrap_io_pread(int fd, void *buffer, size_t bytes, uint64_t offset)
{
	if (!begun)
		return __real_io_pread(fd, buffer, bytes, offset);
	if (hangs())
		hang();
	hang_with_file(fd);
	int rc = gate(OP_READ, fd);
	if (rc)
		return rc < 0 ? rc : 0;
	/* O_DIRECT takes no odd length: read it all and say less. */
	int64_t n = pread(fd, buffer, bytes, (off_t)offset);
	return n < 0 ? -errno : (int64_t)cut_short((size_t)n);
}

int64_t __wrap_io_pwrite(int fd, const void *buffer, size_t bytes, uint64_t offset)
{
	if (!begun)
		return __real_io_pwrite(fd, buffer, bytes, offset);
	int rc = gate(OP_WRITE, fd);
	if (rc)
		return rc;
	bytes = cut_short(bytes);
	if (faults.cut != CUT_NOTHING) {
		struct undo *u = undo_new(fd);
		u->offset = offset;
		u->old = malloc(bytes);
		memset(u->old, 0xee, bytes); /* beyond the end a torn write may leave anything */
		u->size = bytes;
		if (pread(fd, u->old, bytes, (off_t)offset) < 0)
			abort();
		remember(u);
	}
	int64_t n = pwrite(fd, buffer, bytes, (off_t)offset);
	return n < 0 ? -errno : n;
}

int __wrap_io_sync(int fd)
{
	if (!begun)
		return __real_io_sync(fd);
	hang_sync(fd);
	int rc = gate(OP_SYNC, fd);
	if (!rc)
		settle(fd);
	return rc;
}

int __wrap_io_sync_folder(int fd)
{
	if (!begun)
		return __real_io_sync_folder(fd);
	int rc = gate(OP_FOLDER, fd);
	if (!rc)
		settle(fd);
	return rc;
}

int __wrap_io_reserve(int fd, uint64_t bytes)
{
	if (!begun)
		return __real_io_reserve(fd, bytes);
	int rc = gate(OP_RESERVE, fd);
	return rc ? rc : ftruncate(fd, (off_t)bytes);
}

int __wrap_io_free_space(int folder, uint64_t *bytes)
{
	if (!begun)
		return __real_io_free_space(folder, bytes);
	(void)folder;
	*bytes = faults.free_bytes ? faults.free_bytes : UINT64_MAX;
	return 0;
}

int __wrap_io_rename(int folder, const char *from, const char *to)
{
	if (!begun)
		return __real_io_rename(folder, from, to);
	int rc = gate(OP_FOLDER, folder);
	if (rc)
		return rc;
	if (faults.cut != CUT_NOTHING) {
		struct undo *u = undo_new(folder);
		save_name(u, to);
		(void)snprintf(u->from, sizeof u->from, "%s", from);
		remember(u);
	}
	return renameat(folder, from, folder, to) ? -errno : 0;
}

int __wrap_io_remove(int folder, const char *name)
{
	if (!begun)
		return __real_io_remove(folder, name);
	int rc = gate(OP_FOLDER, folder);
	if (rc)
		return rc;
	if (faults.cut != CUT_NOTHING) {
		struct undo *u = undo_new(folder);
		save_name(u, name);
		remember(u);
	}
	return unlinkat(folder, name, 0) ? -errno : 0;
}

int __wrap_io_ring_submit(struct io_uring *ring)
{
	if (!begun)
		return __real_io_ring_submit(ring);
	int rc = gate(OP_SUBMIT, -1);
	return rc ? rc : io_uring_submit(ring);
}

/* The next completion, or the held-back one after its release. */
static int next_completion(struct io_uring *ring, uint64_t *tag, int64_t *result)
{
	struct __kernel_timespec moment = {.tv_nsec = 1000000};
	for (;;) {
		struct io_uring_cqe *cqe;
		bool holding = held_back.ring == ring;
		if (holding && !faults.hold_at) {
			*tag = held_back.tag;
			*result = held_back.result;
			held_back.ring = NULL;
			faults.held = false;
			return 0;
		}
		int rc = holding ? io_uring_wait_cqe_timeout(ring, &cqe, &moment)
				 : io_uring_wait_cqe(ring, &cqe);
		if (holding && rc == -ETIME)
			continue;
		if (rc < 0)
			return rc;
		*tag = io_uring_cqe_get_data64(cqe);
		*result = cqe->res;
		io_uring_cqe_seen(ring, cqe);
		if (*tag == IO_RING_POLL || !hangs())
			return 0;
		held_back.tag = *tag;
		held_back.result = *result;
		held_back.ring = ring;
	}
}

int __wrap_io_ring_next(struct io_uring *ring, uint64_t *tag, int64_t *result)
{
	if (!begun)
		return __real_io_ring_next(ring, tag, result);
	int rc = next_completion(ring, tag, result);
	if (rc < 0)
		return rc;
	if (*tag == IO_RING_POLL)
		return 0;
	rc = gate(OP_READ, -1);
	if (rc)
		*result = rc < 0 ? rc : 0;
	else if (*result > 0)
		*result = (int64_t)cut_short((size_t)*result);
	return 0;
}

/* Reads 1 MiB at a time with four threads, scattered over the file like experts. */
#include "cache/device.h"

#include "cache/io.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { READERS = 4, READ_BYTES = 1 << 20, MEMORY_ALIGN = 4096 };
static const double measured_seconds = .1;

struct device_file {
	int fd;
	uint64_t pieces, step; /* pieces of READ_BYTES in the file; step and pieces are coprime */
	_Atomic uint64_t next;
};

struct device_reading {
	struct device_file *file;
	double begun, ended; /* its first and last read, on the clock of device_seconds() */
	uint64_t pieces;     /* pieces read; 0: it failed, or no piece was left */
	bool failed;
	pthread_t thread;
};

static double device_seconds(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The time starts with the thread's own first read, since on a busy machine a thread may begin
 * late. */
static void *device_read_pieces(void *ctx)
{
	struct device_reading *r = ctx;
	struct device_file *f = r->file;
	void *memory;
	uint64_t i;
	if (posix_memalign(&memory, MEMORY_ALIGN, READ_BYTES)) {
		r->failed = true;
		return NULL;
	}
	r->begun = r->ended = device_seconds();
	while (!r->failed && r->ended - r->begun < measured_seconds &&
	       (i = f->next++) < f->pieces) {
		uint64_t piece = i * f->step % f->pieces;
		int64_t n = io_pread(f->fd, memory, READ_BYTES, piece * READ_BYTES);
		r->ended = device_seconds();
		r->pieces += n == READ_BYTES;
		r->failed = n != READ_BYTES && n != -EINTR;
	}
	free(memory);
	return NULL;
}

static uint64_t device_common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

static double device_measure(int fd, uint64_t bytes)
{
	struct device_reading r[READERS];
	unsigned started = 0;
	struct device_file f = {.fd = fd, .pieces = bytes / READ_BYTES};
	/* Near the golden section of the file, so that consecutive reads are far apart. */
	for (f.step = f.pieces * 5 / 8 + 1; device_common_divisor(f.step, f.pieces) != 1; f.step++)
		;
	for (; started < READERS; started++) {
		r[started] = (struct device_reading){.file = &f};
		if (pthread_create(&r[started].thread, NULL, device_read_pieces, &r[started]))
			break;
	}
	double begun = INFINITY, ended = 0;
	uint64_t pieces = 0;
	bool failed = false;
	for (unsigned i = 0; i < started; i++) {
		pthread_join(r[i].thread, NULL);
		failed |= r[i].failed;
		pieces += r[i].pieces;
		if (r[i].pieces) { /* ignore a thread that came too late for any piece */
			begun = r[i].begun < begun ? r[i].begun : begun;
			ended = r[i].ended > ended ? r[i].ended : ended;
		}
	}
	return failed || ended <= begun ? 0 : (double)pieces * READ_BYTES / (ended - begun);
}

double device_read_speed(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return 0;
	bool measurable = !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= READ_BYTES;
	double speed = measurable ? device_measure(fd, (uint64_t)st.st_size) : 0;
	close(fd);
	return speed;
}

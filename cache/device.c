/* Reads of 1 MiB by four threads, scattered over the file as experts are. */
#include "cache/device.h"

#include "cache/io.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { READERS = 4, READ_BYTES = 1 << 20, MEMORY_ALIGN = 4096 };
static const double measured_seconds = .1;

struct reading {
	int fd;
	uint64_t pieces, step; /* of READ_BYTES in the file; without a common divisor */
	double end;	       /* on the clock of now() */
	_Atomic uint64_t next, done;
	_Atomic bool failed;
};

static double now(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *read_pieces(void *ctx)
{
	struct reading *r = ctx;
	void *memory;
	if (posix_memalign(&memory, MEMORY_ALIGN, READ_BYTES)) {
		r->failed = true;
		return NULL;
	}
	uint64_t i;
	while (!r->failed && now() < r->end && (i = r->next++) < r->pieces) {
		uint64_t piece = i * r->step % r->pieces;
		int64_t n = io_pread(r->fd, memory, READ_BYTES, piece * READ_BYTES);
		if (n == READ_BYTES)
			r->done++;
		else if (n != -EINTR)
			r->failed = true;
	}
	free(memory);
	return NULL;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

static double measure(int fd, uint64_t bytes)
{
	pthread_t thread[READERS];
	unsigned started = 0;
	struct reading r = {.fd = fd, .pieces = bytes / READ_BYTES};
	/* About the golden section of the file: neighbours in time are far apart. */
	for (r.step = r.pieces * 5 / 8 + 1; common_divisor(r.step, r.pieces) != 1; r.step++)
		;
	double begin = now();
	r.end = begin + measured_seconds;
	while (started < READERS && !pthread_create(&thread[started], NULL, read_pieces, &r))
		started++;
	for (unsigned i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	double seconds = now() - begin;
	return r.failed || seconds <= 0 ? 0 : (double)r.done * READ_BYTES / seconds;
}

double device_read_speed(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return 0;
	bool measurable = !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= READ_BYTES;
	double speed = measurable ? measure(fd, (uint64_t)st.st_size) : 0;
	close(fd);
	return speed;
}

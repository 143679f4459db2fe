/* GGUF files: as much of each is read as its header takes. */
#include "engine/source/file.h"
#include "engine/source/gguf.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { FIRST_READ = 1 << 20 };

/* Reads the first n bytes and takes them for the header. */
static int read_header(struct gguf *g, int fd, size_t n, uint64_t size, const char *path,
		       uint32_t file, struct err *e)
{
	gguf_clear(g);
	g->header = malloc(n);
	g->header_bytes = n;
	if (!g->header)
		return err_set(e, ENOMEM, "%s: out of memory for its header", path);
	int failed = source_file_read(fd, g->header, n, 0, path, e);
	return failed ? failed : gguf_parse(g, g->header, n, size, file, path, e);
}

/* A header does not say how long it is: a larger piece is read until it fits. */
int gguf_read(struct gguf **out, int fd, uint64_t size, const char *path, uint32_t file,
	      struct err *e)
{
	struct gguf *g = calloc(1, sizeof *g);
	int failed = g ? -EAGAIN : err_set(e, ENOMEM, "%s: out of memory", path);
	for (size_t n = FIRST_READ; failed == -EAGAIN; n *= 4) {
		if (n > GGUF_MAX_HEADER)
			failed = err_set(e, EFBIG, "%s: its header has more than %d MiB", path,
					 GGUF_MAX_HEADER >> 20);
		else
			failed = read_header(g, fd, n < size ? n : (size_t)size, size, path, file,
					     e);
	}
	if (failed)
		gguf_close(g);
	else
		*out = g;
	return failed;
}

int gguf_open(struct gguf **out, const char *path, uint32_t file, struct err *e)
{
	uint64_t size = 0;
	int fd = source_file_open(path, &size, e);
	if (fd < 0)
		return fd;
	int failed = gguf_read(out, fd, size, path, file, e);
	close(fd);
	return failed;
}

void gguf_close(struct gguf *g)
{
	if (g)
		gguf_clear(g);
	free(g);
}

bool gguf_is(const char *path)
{
	return source_begins_with(path, "GGUF", 4);
}

/* pack: stores a file of weights or other numbers in less room (packed.h), and restores it.
 *
 *     pack FILE FILE.packed
 *     pack -d FILE.packed FILE
 *
 * The repository holds the demonstration model and the fixtures in this form; `make` and the tests restore them. A file
 * is written beside its place and then renamed, so several builds may restore the same one. */
#include "examples/models/packed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The whole of a regular file, to be freed; NULL with a message. */
static uint8_t *pack_read(const char *path, size_t *bytes)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = NULL;
	if (f && fseek(f, 0, SEEK_END) == 0) {
		const long end = ftell(f);
		if (end > 0 && fseek(f, 0, SEEK_SET) == 0 && (data = malloc((size_t)end)) &&
		    fread(data, 1, (size_t)end, f) != (size_t)end) {
			free(data);
			data = NULL;
		}
		*bytes = end > 0 ? (size_t)end : 0;
	}
	if (!data)
		(void)fprintf(stderr, "pack: cannot read %s\n", path);
	if (f)
		(void)fclose(f);
	return data;
}

static int pack_write(const char *path, const uint8_t *data, size_t bytes)
{
	char beside[4096];
	const int n = snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
	FILE *f = n > 0 && (size_t)n < sizeof beside ? fopen(beside, "wb") : NULL;
	int wrong = !f || fwrite(data, 1, bytes, f) != bytes;
	if (f && fclose(f))
		wrong = 1;
	if (wrong || rename(beside, path)) {
		(void)fprintf(stderr, "pack: cannot write %s: %s\n", path, strerror(errno));
		if (f)
			(void)unlink(beside);
		return 1;
	}
	return 0;
}

/* One of packed.h's, from a file to a file. */
typedef uint8_t *pack_fn(const uint8_t *data, size_t bytes, size_t *out_bytes);

static int pack_file(const char *from, const char *to, pack_fn *make, const char *failure)
{
	size_t bytes = 0, out_bytes = 0;
	uint8_t *data = pack_read(from, &bytes), *out = data ? make(data, bytes, &out_bytes) : NULL;
	if (data && !out)
		(void)fprintf(stderr, "pack: %s %s\n", from, failure);
	const int wrong = !out || pack_write(to, out, out_bytes);
	free(out);
	free(data);
	return wrong;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "-d"))
		return pack_file(argv[2], argv[3], packed_decode, "is not a packed file, or it is damaged");
	if (argc == 3)
		return pack_file(argv[1], argv[2], packed_encode, "is too large to be packed");
	(void)fputs("pack FILE FILE.packed\npack -d FILE.packed FILE\n", stderr);
	return 2;
}

/* pack: stores a file of 16-bit weights in two thirds of its size, and restores it.
 *
 *     pack FILE FILE.packed
 *     pack -d FILE.packed FILE
 *
 * The repository holds the demonstration model and the fixtures in this form; `make` and the tests restore them. A
 * packed file is the size of the file (u64, little-endian) and the file as one record of cache/codec.h, which verifies
 * what it restores. A file is written beside its place and then renamed, so several builds may restore the same one. */
#include "cache/codec.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PACK_SIZE_BYTES = 8 };

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

static int pack_encode(const char *from, const char *to)
{
	size_t bytes, stored = 0;
	uint8_t *data = pack_read(from, &bytes);
	uint8_t *out = data ? malloc(PACK_SIZE_BYTES + codec_most(bytes)) : NULL;
	int wrong = !out || codec_encode(out + PACK_SIZE_BYTES, &stored, data, bytes);
	if (!wrong) {
		for (int i = 0; i < PACK_SIZE_BYTES; i++)
			out[i] = (uint8_t)((uint64_t)bytes >> (8 * i));
		wrong = pack_write(to, out, PACK_SIZE_BYTES + stored);
	}
	free(out);
	free(data);
	return wrong;
}

static int pack_decode(const char *from, const char *to)
{
	size_t stored;
	uint64_t bytes = 0;
	uint8_t *data = pack_read(from, &stored), *out = NULL, *temp = NULL;
	if (data && stored > PACK_SIZE_BYTES)
		for (int i = 0; i < PACK_SIZE_BYTES; i++)
			bytes |= (uint64_t)data[i] << (8 * i);
	const bool whole = bytes > 0 && bytes <= CODEC_RECORD_MOST && (out = malloc(bytes)) && (temp = malloc(CODEC_TEMP)) &&
			   !codec_decode(out, bytes, data + PACK_SIZE_BYTES, stored - PACK_SIZE_BYTES, temp);
	if (data && !whole)
		(void)fprintf(stderr, "pack: %s is no packed file, or it is damaged\n", from);
	const int wrong = !whole || pack_write(to, out, bytes);
	free(temp);
	free(out);
	free(data);
	return wrong;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "-d"))
		return pack_decode(argv[2], argv[3]);
	if (argc == 3)
		return pack_encode(argv[1], argv[2]);
	(void)fputs("pack FILE FILE.packed\npack -d FILE.packed FILE\n", stderr);
	return 2;
}

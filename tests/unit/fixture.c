/* Fixtures that lie compressed in the repository; see golden.h. */
#include "golden.h"
#include "checkpoint_help.h"
#include "examples/models/packed.h"
#include "store_help.h"

#include <dirent.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

static char unpacked[32]; /* a folder with a folder per fixture; empty: none yet */

static void remove_unpacked(void)
{
	test_folder_remove(unpacked);
}

static bool ends_with(const char *name, const char *ending)
{
	size_t n = strlen(name), k = strlen(ending);
	return n > k && !strcmp(name + n - k, ending);
}

/* The form that build/pack makes. */
static uint8_t *decode_packed(const uint8_t *packed, size_t packed_bytes, size_t *bytes)
{
	uint8_t *whole = packed_decode(packed, packed_bytes, bytes);
	assert_non_null(whole);
	return whole;
}

static uint8_t *decode_zst(const uint8_t *packed, size_t packed_bytes, size_t *bytes)
{
	unsigned long long n = ZSTD_getFrameContentSize(packed, packed_bytes);
	assert_in_range(n, 1, 64 << 20);
	uint8_t *whole = malloc(n);
	assert_non_null(whole);
	assert_int_equal(ZSTD_decompress(whole, n, packed, packed_bytes), n);
	*bytes = n;
	return whole;
}

static const struct {
	const char *ending;
	uint8_t *(*decode)(const uint8_t *packed, size_t packed_bytes, size_t *bytes);
} packings[] = {{".zst", decode_zst}, {".packed", decode_packed}};

/* Writes `to` without the ending of a packing, decoded, or a copy of a file that has none. */
static void unpack_file(const char *from, char *to)
{
	size_t bytes;
	uint8_t *data = test_file_read(from, &bytes);
	for (size_t i = 0; i < sizeof packings / sizeof *packings; i++)
		if (ends_with(from, packings[i].ending)) {
			uint8_t *packed = data;
			data = packings[i].decode(packed, bytes, &bytes);
			free(packed);
			to[strlen(to) - strlen(packings[i].ending)] = 0;
			break;
		}
	test_file_write(to, data, bytes);
	free(data);
}

static void print_path(char path[PATH_MAX], const char *folder, const char *name)
{
	assert_in_range(snprintf(path, PATH_MAX, "%s/%s", folder, name), 1, PATH_MAX - 1);
}

static void unpack(const char *from, const char *to)
{
	DIR *d = opendir(from);
	assert_non_null(d);
	assert_int_equal(mkdir(to, 0700), 0);
	for (const struct dirent *entry; (entry = readdir(d));) {
		char source[PATH_MAX], path[PATH_MAX];
		if (entry->d_name[0] == '.')
			continue;
		print_path(source, from, entry->d_name);
		print_path(path, to, entry->d_name);
		unpack_file(source, path);
	}
	(void)closedir(d);
}

static const char *unpacked_folder(const char *from, const char *name)
{
	static char path[PATH_MAX];
	if (!unpacked[0]) {
		test_folder_make(unpacked);
		assert_int_equal(atexit(remove_unpacked), 0);
	}
	print_path(path, unpacked, name);
	if (access(path, F_OK))
		unpack(from, path);
	return path;
}

const char *test_fixture(const char *name)
{
	char file[128], folder[PATH_MAX];
	(void)snprintf(file, sizeof file, "fixtures/%s/model.safetensors", name);
	bool plain = !access(test_data(file), F_OK);
	(void)snprintf(file, sizeof file, "fixtures/%s", name);
	const char *here = test_data(file);
	if (plain)
		return here;
	if (!access(here, F_OK)) {
		(void)snprintf(folder, sizeof folder, "%s", here);
		return unpacked_folder(folder, name);
	}
	return shared_data(file);
}

/* Reference data for tests (golden.h). */
#include "tests/unit/golden.h"

#include <json-c/json.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

struct golden {
	struct json_object *header;
	uint8_t *data; /* aligned for any element */
	size_t bytes;
};

/* root, folder and name after each other, good until the next call. */
static const char *join(const char *root, const char *folder, const char *name)
{
	static char path[PATH_MAX];
	const int length = snprintf(path, sizeof path, "%s%s%s", root, folder, name);

	assert_in_range(length, 1, sizeof path - 1);
	return path;
}

const char *test_data(const char *name)
{
	return join(MOEFS_SOURCE_ROOT, "/tests/data/", name);
}

const char *shared_data(const char *name)
{
	const char *root = getenv("MOEFS_TESTDATA");
	const char *path =
		root ? join(root, "/", name) : join(MOEFS_SOURCE_ROOT, "/../shared/", name);

	if (access(path, R_OK) == 0)
		return path;
	print_message("%s is missing; set MOEFS_TESTDATA to the folder with the reference data\n",
		      path);
	return NULL;
}

const char *test_memory_folder(void)
{
	struct statvfs free_here;

	if (access("/dev/shm", W_OK | X_OK) != 0 || statvfs("/dev/shm", &free_here) != 0)
		return "/tmp";
	return free_here.f_bavail >= ((uint64_t)256 << 20) / free_here.f_frsize ? "/dev/shm" : "/tmp";
}

bool test_full(void)
{
	const char *check = getenv("CHECK");

	return check && strcmp(check, "full") == 0;
}

static void read_exactly(FILE *f, void *buffer, size_t bytes, const char *file)
{
	if (fread(buffer, 1, bytes, f) != bytes)
		fail_msg("%s: cannot read %zu bytes", file, bytes);
}

struct golden *golden_open(const char *file)
{
	struct golden *g = calloc(1, sizeof *g);
	FILE *f = fopen(file, "rb");
	uint64_t header_bytes;

	if (!f || !g)
		fail_msg("%s: cannot open", file);
	read_exactly(f, &header_bytes, sizeof header_bytes, file);
	assert_in_range(header_bytes, 2, 64 << 20);

	char *text = calloc(1, header_bytes + 1);
	assert_non_null(text);
	read_exactly(f, text, header_bytes, file);
	g->header = json_tokener_parse(text);
	free(text);
	if (!g->header)
		fail_msg("%s: the header is not JSON", file);

	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	const long end = ftell(f);
	assert_true(end >= 0);
	g->bytes = (size_t)end - sizeof header_bytes - header_bytes;
	g->data = malloc(g->bytes);
	assert_non_null(g->data);
	assert_int_equal(fseek(f, (long)(sizeof header_bytes + header_bytes), SEEK_SET), 0);
	read_exactly(f, g->data, g->bytes, file);
	assert_int_equal(fclose(f), 0);
	return g;
}

void golden_close(struct golden *g)
{
	json_object_put(g->header);
	free(g->data);
	free(g);
}

bool golden_find(const struct golden *g, const char *name, struct golden_tensor *out)
{
	struct json_object *entry, *dtype, *shape, *offsets;

	if (!json_object_object_get_ex(g->header, name, &entry))
		return false;
	assert_true(json_object_object_get_ex(entry, "dtype", &dtype));
	assert_true(json_object_object_get_ex(entry, "shape", &shape));
	assert_true(json_object_object_get_ex(entry, "data_offsets", &offsets));

	*out = (struct golden_tensor){.dims = json_object_array_length(shape), .count = 1};
	assert_in_range(out->dims, 0, GOLDEN_DIMS);
	out->dtype = json_object_get_string(dtype);
	for (size_t i = 0; i < out->dims; i++) {
		out->shape[i] = json_object_get_uint64(json_object_array_get_idx(shape, i));
		out->count *= out->shape[i];
	}
	const size_t begin = json_object_get_uint64(json_object_array_get_idx(offsets, 0));
	const size_t end = json_object_get_uint64(json_object_array_get_idx(offsets, 1));
	assert_true(begin <= end && end <= g->bytes);
	out->data = g->data + begin;
	out->bytes = end - begin;
	return true;
}

struct golden_tensor golden_get(const struct golden *g, const char *name, const char *dtype)
{
	struct golden_tensor t = {0};

	if (!golden_find(g, name, &t))
		fail_msg("no tensor %s", name);
	assert_string_equal(t.dtype, dtype);
	return t;
}

/* Makes checkpoints for tests; see the header. */
#include "checkpoint_help.h"
#include "engine/source/checkpoint.h"
#include "golden.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATH_BYTES = 512 };

/* ---- tensors in memory ---- */

static void read_tensor(struct test_tensor *to, const struct checkpoint *from, size_t i)
{
	const struct checkpoint_tensor *t = checkpoint_tensor(from, i);
	struct err e;
	*to = (struct test_tensor){.name = strdup(t->name),
				   .dims = t->dims,
				   .data = malloc(t->bytes + 1),
				   .bytes = t->bytes};
	(void)snprintf(to->type, sizeof to->type, "%.7s", t->type);
	memcpy(to->shape, t->shape, sizeof to->shape);
	if (checkpoint_read(from, t, 0, to->data, to->bytes, &e))
		fail_msg("%s", e.text);
}

void test_checkpoint_read(struct test_checkpoint *c, const char *fixture)
{
	struct checkpoint *from;
	struct err e;
	if (checkpoint_open(&from, test_fixture(fixture), &e))
		fail_msg("%s", e.text);
	c->count = checkpoint_count(from);
	c->tensors = calloc(c->count, sizeof *c->tensors);
	assert_non_null(c->tensors);
	for (size_t i = 0; i < c->count; i++)
		read_tensor(&c->tensors[i], from, i);
	checkpoint_close(from);
}

void test_checkpoint_free(struct test_checkpoint *c)
{
	for (size_t i = 0; i < c->count; i++) {
		free(c->tensors[i].name);
		free(c->tensors[i].data);
	}
	free(c->tensors);
	*c = (struct test_checkpoint){0};
}

struct test_tensor *test_tensor_find(const struct test_checkpoint *c, const char *name)
{
	for (size_t i = 0; i < c->count; i++)
		if (!strcmp(c->tensors[i].name, name))
			return &c->tensors[i];
	fail_msg("no tensor %s", name);
	return NULL;
}

void test_tensor_copy(struct test_checkpoint *c, const char *name, const char *as)
{
	c->tensors = realloc(c->tensors, (c->count + 1) * sizeof *c->tensors);
	assert_non_null(c->tensors);
	const struct test_tensor *from = test_tensor_find(c, name);
	struct test_tensor *to = &c->tensors[c->count++];
	*to = *from;
	to->name = strdup(as);
	to->data = malloc(from->bytes + 1);
	assert_non_null(to->data);
	memcpy(to->data, from->data, from->bytes);
}

void test_tensor_remove(struct test_checkpoint *c, const char *name)
{
	struct test_tensor *t = test_tensor_find(c, name);
	free(t->name);
	free(t->data);
	memmove(t, t + 1, (size_t)(c->tensors + --c->count - t) * sizeof *t);
}

/* ---- elements ---- */

static size_t width(const struct test_tensor *t)
{
	return !strcmp(t->type, "I64") ? 8 : strcmp(t->type, "F32") ? 2 : 4;
}

size_t test_tensor_elements(const struct test_tensor *t)
{
	return t->bytes / width(t);
}

float test_tensor_get(const struct test_tensor *t, size_t i)
{
	float value;
	uint16_t half;
	int64_t whole;
	if (width(t) == 8) {
		memcpy(&whole, t->data + 8 * i, sizeof whole);
		return (float)whole;
	}
	if (width(t) == 4) {
		memcpy(&value, t->data + 4 * i, sizeof value);
		return value;
	}
	memcpy(&half, t->data + 2 * i, sizeof half);
	return strcmp(t->type, "F16") ? bf16_to_f32(half) : f16_to_f32(half);
}

void test_tensor_set(struct test_tensor *t, size_t i, float value)
{
	uint16_t half = strcmp(t->type, "F16") ? bf16_from_f32(value) : f16_from_f32(value);
	if (width(t) == 4)
		memcpy(t->data + 4 * i, &value, sizeof value);
	else
		memcpy(t->data + 2 * i, &half, sizeof half);
}

void test_tensor_retype(struct test_tensor *t, const char *type)
{
	struct test_tensor to = *t;
	size_t n = test_tensor_elements(t);
	(void)snprintf(to.type, sizeof to.type, "%s", type);
	to.bytes = n * width(&to);
	to.data = malloc(to.bytes + 1);
	assert_non_null(to.data);
	for (size_t i = 0; i < n; i++)
		test_tensor_set(&to, i, test_tensor_get(t, i));
	free(t->data);
	*t = to;
}

/* ---- files ---- */

void test_file_write(const char *path, const void *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");
	if (!f || fwrite(bytes, 1, n, f) != n || fclose(f))
		fail_msg("%s: cannot be written", path);
}

uint8_t *test_file_read(const char *path, size_t *n)
{
	struct stat st;
	FILE *f = fopen(path, "rb");
	if (!f || stat(path, &st))
		fail_msg("%s: cannot be read", path);
	uint8_t *bytes = malloc((size_t)st.st_size + 1);
	assert_non_null(bytes);
	*n = fread(bytes, 1, (size_t)st.st_size, f);
	assert_int_equal(*n, st.st_size);
	(void)fclose(f);
	return bytes;
}

static void write_entry(FILE *f, const struct test_tensor *t, uint64_t offset)
{
	(void)fprintf(f, "\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, t->type);
	for (size_t d = 0; d < t->dims; d++)
		(void)fprintf(f, "%s%" PRIu64, d ? "," : "", t->shape[d]);
	(void)fprintf(f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", offset,
		      offset + t->bytes);
}

void test_checkpoint_write(const struct test_checkpoint *c, size_t first, size_t count,
			   const char *path)
{
	char *header;
	size_t length;
	uint64_t offset = 0, header_bytes;
	FILE *text = open_memstream(&header, &length), *f = fopen(path, "wb");
	if (!text || !f)
		fail_msg("%s: cannot be written", path);
	for (size_t i = first; i < first + count; offset += c->tensors[i++].bytes) {
		(void)fputc(i == first ? '{' : ',', text);
		write_entry(text, &c->tensors[i], offset);
	}
	(void)fputc('}', text);
	(void)fclose(text);
	header_bytes = length;
	(void)fwrite(&header_bytes, sizeof header_bytes, 1, f);
	(void)fwrite(header, 1, length, f);
	free(header);
	for (size_t i = first; i < first + count; i++)
		(void)fwrite(c->tensors[i].data, 1, c->tensors[i].bytes, f);
	assert_int_equal(fclose(f), 0);
}

void test_checkpoint_files(const char *fixture, const char *folder)
{
	static const char *const names[] = {"config.json", "generation_config.json",
					    "tokenizer.json", "tokenizer_config.json"};
	char from[PATH_BYTES], to[PATH_BYTES];
	(void)mkdir(folder, 0700);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		size_t n;
		(void)snprintf(from, sizeof from, "%s/%s", test_fixture(fixture), names[i]);
		(void)snprintf(to, sizeof to, "%s/%s", folder, names[i]);
		uint8_t *bytes = test_file_read(from, &n);
		test_file_write(to, bytes, n);
		free(bytes);
	}
}

void test_checkpoint_make(const struct test_checkpoint *c, const char *fixture, const char *folder)
{
	char path[PATH_BYTES];
	test_checkpoint_files(fixture, folder);
	(void)snprintf(path, sizeof path, "%s/model.safetensors", folder);
	test_checkpoint_write(c, 0, c->count, path);
}

#include "gguf_help.h"
#include "checkpoint_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- bytes ---- */

void test_bytes_add(struct test_bytes *b, const void *bytes, size_t n)
{
	while (b->count + n > b->room) {
		b->room = b->room ? 2 * b->room : 4096;
		b->bytes = realloc(b->bytes, b->room);
		assert_non_null(b->bytes);
	}
	if (n)
		memcpy(b->bytes + b->count, bytes, n);
	b->count += n;
}

void test_bytes_number(struct test_bytes *b, uint64_t n, size_t width)
{
	for (size_t i = 0; i < width; i++) {
		uint8_t byte = (uint8_t)(n >> 8 * i);
		test_bytes_add(b, &byte, 1);
	}
}

void test_bytes_string(struct test_bytes *b, const char *text)
{
	test_bytes_number(b, strlen(text), 8);
	test_bytes_add(b, text, strlen(text));
}

void test_bytes_free(struct test_bytes *b)
{
	free(b->bytes);
	*b = (struct test_bytes){0};
}

static uint64_t alignment_of(const struct test_gguf *g)
{
	return g->alignment ? g->alignment : 32;
}

static void pad(struct test_bytes *b, uint64_t alignment)
{
	while (b->count % alignment)
		test_bytes_add(b, "", 1);
}

/* ---- keys ---- */

static void begin_key(struct test_gguf *g, const char *key, enum gguf_kind kind)
{
	g->keys++;
	test_bytes_string(&g->key_bytes, key);
	test_bytes_number(&g->key_bytes, kind, 4);
}

void test_gguf_u32(struct test_gguf *g, const char *key, uint32_t value)
{
	begin_key(g, key, GGUF_U32);
	test_bytes_number(&g->key_bytes, value, 4);
}

void test_gguf_u16(struct test_gguf *g, const char *key, uint16_t value)
{
	begin_key(g, key, GGUF_U16);
	test_bytes_number(&g->key_bytes, value, 2);
}

void test_gguf_f32(struct test_gguf *g, const char *key, float value)
{
	begin_key(g, key, GGUF_F32);
	test_bytes_add(&g->key_bytes, &value, sizeof value);
}

void test_gguf_bool(struct test_gguf *g, const char *key, bool value)
{
	begin_key(g, key, GGUF_BOOL);
	test_bytes_number(&g->key_bytes, value, 1);
}

void test_gguf_string(struct test_gguf *g, const char *key, const char *value)
{
	begin_key(g, key, GGUF_STRING);
	test_bytes_string(&g->key_bytes, value);
}

void test_gguf_array(struct test_gguf *g, const char *key, enum gguf_kind element, uint64_t count,
		     const void *elements, size_t n)
{
	begin_key(g, key, GGUF_ARRAY);
	test_bytes_number(&g->key_bytes, element, 4);
	test_bytes_number(&g->key_bytes, count, 8);
	test_bytes_add(&g->key_bytes, elements, n);
}

void test_gguf_strings(struct test_gguf *g, const char *key, const char *const *values, size_t n)
{
	struct test_bytes all = {0};
	for (size_t i = 0; i < n; i++)
		test_bytes_string(&all, values[i]);
	test_gguf_array(g, key, GGUF_STRING, n, all.bytes, all.count);
	test_bytes_free(&all);
}

/* ---- tensors ---- */

void test_gguf_tensor(struct test_gguf *g, const char *name, uint32_t type, const uint64_t *shape,
		      size_t dims, const void *data, size_t n)
{
	pad(&g->data, alignment_of(g));
	g->tensors++;
	test_bytes_string(&g->tensor_bytes, name);
	test_bytes_number(&g->tensor_bytes, dims, 4);
	for (size_t i = dims; i-- > 0;)
		test_bytes_number(&g->tensor_bytes, shape[i], 8);
	test_bytes_number(&g->tensor_bytes, type, 4);
	test_bytes_number(&g->tensor_bytes, g->data.count, 8);
	test_bytes_add(&g->data, data, n);
}

/* ---- the file ---- */

void test_gguf_bytes(const struct test_gguf *g, struct test_bytes *out)
{
	*out = (struct test_bytes){0};
	test_bytes_add(out, "GGUF", 4);
	test_bytes_number(out, g->version ? g->version : 3, 4);
	test_bytes_number(out, g->tensors, 8);
	test_bytes_number(out, g->keys, 8);
	test_bytes_add(out, g->key_bytes.bytes, g->key_bytes.count);
	test_bytes_add(out, g->tensor_bytes.bytes, g->tensor_bytes.count);
	pad(out, alignment_of(g));
	test_bytes_add(out, g->data.bytes, g->data.count);
}

void test_gguf_write(const struct test_gguf *g, const char *path)
{
	struct test_bytes all;
	test_gguf_bytes(g, &all);
	test_file_write(path, all.bytes, all.count);
	test_bytes_free(&all);
}

void test_gguf_free(struct test_gguf *g)
{
	test_bytes_free(&g->key_bytes);
	test_bytes_free(&g->tensor_bytes);
	test_bytes_free(&g->data);
	*g = (struct test_gguf){0};
}

/* Makes valid and invalid GGUF files: keys and tensors are added in any order and then written
 * out. All functions fail the test on any error. */
#ifndef MOEFS_TESTS_UNIT_GGUF_HELP_H
#define MOEFS_TESTS_UNIT_GGUF_HELP_H

#include "engine/source/gguf.h"

struct test_bytes {
	uint8_t *bytes; /* owned */
	size_t count, room;
};
void test_bytes_add(struct test_bytes *b, const void *bytes, size_t n);
void test_bytes_number(struct test_bytes *b, uint64_t n, size_t width); /* little-endian */
void test_bytes_string(struct test_bytes *b, const char *text);		/* length and bytes */
void test_bytes_free(struct test_bytes *b);

struct test_gguf { /* zero-initialise; version 0 means 3, alignment 0 means 32 */
	uint32_t version;
	uint64_t alignment;
	uint64_t keys, tensors;
	struct test_bytes key_bytes, tensor_bytes, data;
};
void test_gguf_free(struct test_gguf *g);

void test_gguf_u32(struct test_gguf *g, const char *key, uint32_t value);
void test_gguf_u16(struct test_gguf *g, const char *key, uint16_t value);
void test_gguf_f32(struct test_gguf *g, const char *key, float value);
void test_gguf_bool(struct test_gguf *g, const char *key, bool value);
void test_gguf_string(struct test_gguf *g, const char *key, const char *value);
void test_gguf_strings(struct test_gguf *g, const char *key, const char *const *values, size_t n);
/* Elements, n bytes in total. */
void test_gguf_array(struct test_gguf *g, const char *key, enum gguf_kind element, uint64_t count,
		     const void *elements, size_t n);

/* Dimensions are given rows first, as everywhere else, and reversed for the file. */
void test_gguf_tensor(struct test_gguf *g, const char *name, uint32_t type, const uint64_t *shape,
		      size_t dims, const void *data, size_t n);

/* The bytes of the file; the caller frees *out. */
void test_gguf_bytes(const struct test_gguf *g, struct test_bytes *out);
void test_gguf_write(const struct test_gguf *g, const char *path);

#endif

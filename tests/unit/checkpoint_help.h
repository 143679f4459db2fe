/* Makes checkpoints for tests: reads a fixture into memory, changes it, and writes it to a folder,
 * in one file or in shards. All functions fail the test on any error. */
#ifndef MOEFS_TESTS_UNIT_CHECKPOINT_HELP_H
#define MOEFS_TESTS_UNIT_CHECKPOINT_HELP_H

#include <stddef.h>
#include <stdint.h>

struct test_tensor {
	char *name;   /* owned */
	char type[8]; /* "BF16", "F16", "F32", or another type, which is only copied */
	size_t dims;
	uint64_t shape[8];
	uint8_t *data; /* owned */
	size_t bytes;
};
struct test_checkpoint {
	struct test_tensor *tensors;
	size_t count;
};

/* The tensors of the fixture NAME (golden.h), in the order of their names. */
void test_checkpoint_read(struct test_checkpoint *c, const char *fixture);
void test_checkpoint_free(struct test_checkpoint *c);
struct test_tensor *test_tensor_find(const struct test_checkpoint *c, const char *name);
/* A copy of a tensor under another name, at the end. */
void test_tensor_copy(struct test_checkpoint *c, const char *name, const char *as);
void test_tensor_remove(struct test_checkpoint *c, const char *name);

/* Element i of a tensor of BF16, F16 or F32. */
float test_tensor_get(const struct test_tensor *t, size_t i);
void test_tensor_set(struct test_tensor *t, size_t i, float value);
size_t test_tensor_elements(const struct test_tensor *t);
/* Converts to another of the three types, rounding if necessary. */
void test_tensor_retype(struct test_tensor *t, const char *type);

/* Tensors [first, first + count) as one .safetensors file. */
void test_checkpoint_write(const struct test_checkpoint *c, size_t first, size_t count,
			   const char *path);
/* Copies the fixture's other files (config, tokenizer) into a folder, which is made if it is
 * missing. */
void test_checkpoint_files(const char *fixture, const char *folder);
/* Both: the folder is then a checkpoint of one file. */
void test_checkpoint_make(const struct test_checkpoint *c, const char *fixture, const char *folder);

void test_file_write(const char *path, const void *bytes, size_t n);
/* malloc'ed. */
uint8_t *test_file_read(const char *path, size_t *n);

#endif

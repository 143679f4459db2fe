/* Reference data for tests: where it is, and a reader of .safetensors files that keeps a whole
 * file in memory. It trusts its input, unlike the engine's reader. */
#ifndef MOEFS_TESTS_UNIT_GOLDEN_H
#define MOEFS_TESTS_UNIT_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Path of a file that belongs to the project, under tests/data. Valid until the next call. */
const char *test_data(const char *name);
/* Path of foreign reference data: under $MOEFS_TESTDATA if that is set, else ../shared beside the
 * source tree. NULL, after printing a sentence, if it is missing: the test then calls skip().
 * Valid until the next call. */
const char *shared_data(const char *name);

/* The folder of a fixture: tests/data/fixtures/NAME, unpacked into a temporary folder, which is
 * removed when the program ends, if its large files are compressed (.zst, .packed); else the folder in the
 * foreign reference data, or NULL as above. Valid until the next call. */
const char *test_fixture(const char *name);

/* The place for temporary folders of tests that do not depend on a disk: /dev/shm, where syncs
 * cost nothing; /tmp if /dev/shm has less than 256 MB free. */
const char *test_memory_folder(void);
/* Whether to run all cases of tests that otherwise sample them: CHECK=full, as `make check-full`
 * sets it. */
bool test_full(void);

struct golden;

enum { GOLDEN_DIMS = 8 };
struct golden_tensor {
	const char *dtype; /* "F32", "BF16", "U8", "I64" …; the golden's */
	size_t dims, shape[GOLDEN_DIMS];
	size_t count, bytes; /* elements; size in memory */
	const void *data;    /* the golden's; as aligned as the tensor's offset in the file */
};

/* Fails the test if the file cannot be read. */
struct golden *golden_open(const char *path);
void golden_close(struct golden *g);
/* False if there is no such tensor. */
bool golden_find(const struct golden *g, const char *name, struct golden_tensor *out);
/* The same, failing the test. The dtype is checked. */
struct golden_tensor golden_get(const struct golden *g, const char *name, const char *dtype);

#endif

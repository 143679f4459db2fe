/* Reference data for tests: where it is, and a reader of .safetensors files that keeps a whole file
 * in memory. It trusts its input; the engine's own reader is the one that must not.
 */
#ifndef MOEFS_TESTS_GOLDEN_H
#define MOEFS_TESTS_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Path of a file that belongs to the project, under tests/data. The text is good until the next
 * call. */
const char *test_data(const char *name);
/* Path of foreign reference data: under $MOEFS_TESTDATA if that is set, else ../shared beside the
 * source tree. NULL, after printing a sentence, where it is missing: then skip(). Good until the
 * next call. */
const char *shared_data(const char *name);

/* The folder of a fixture: tests/data/fixtures/NAME, unpacked into a temporary folder, which goes
 * when the program ends, if its large files lie there compressed (.zst); else that of the foreign
 * reference data, or NULL as above. The text is good until the next call. */
const char *test_fixture(const char *name);

/* Where a test whose claims do not depend on a disk puts its temporary folder: syncs cost nothing in
 * /dev/shm, and its stores are small. /tmp where that has less than 256 MB free. */
const char *test_memory_folder(void);
/* Whether all cases of what is otherwise sampled are to be run: CHECK=full, as `make check-full` has it. */
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

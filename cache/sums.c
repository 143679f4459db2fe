#include "cache/sums.h"

#include "cache/small_file.h"
#include "cache/store_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define SUMS SUMS_FILE
#define SUMS_NEW SUMS STORE_PARTIAL

struct sums_head {
	char magic[8];
	uint64_t source[2], plan[2];
	uint32_t units, zero;
};
_Static_assert(sizeof(struct sums_head) == SUMS_HEAD, "it is the head as it is in the file");

static const char magic[] = "MOESUMS2";

static size_t file_bytes(const struct sums_of *of)
{
	return SUMS_HEAD + ((size_t)of->units + 1) * sizeof(uint64_t);
}

static struct sums_head head_of(const struct sums_of *of)
{
	struct sums_head h = {.units = of->units};
	memcpy(h.magic, magic, sizeof h.magic);
	memcpy(h.source, of->source, sizeof h.source);
	memcpy(h.plan, of->plan, sizeof h.plan);
	return h;
}

bool sums_decode_head(struct sums_of *out, const uint8_t in[SUMS_HEAD])
{
	struct sums_head h;
	memcpy(&h, in, sizeof h);
	if (memcmp(h.magic, magic, sizeof h.magic) != 0)
		return false;
	*out = (struct sums_of){{h.source[0], h.source[1]}, {h.plan[0], h.plan[1]}, h.units};
	return true;
}

int sums_decode(uint64_t *sums, const struct sums_of *of, const uint8_t *in, size_t bytes,
		const char *folder, struct err *e)
{
	const struct sums_head right = head_of(of);
	size_t all = file_bytes(of);
	uint64_t sum;
	if (bytes < SUMS_HEAD)
		return err_damaged(e, "%s/" SUMS ": is cut short", folder);
	if (memcmp(in, &right, SUMS_HEAD) != 0)
		return err_set(e, ENOENT, "%s/" SUMS ": of another source", folder);
	if (bytes != all)
		return err_damaged(e, "%s/" SUMS ": is %zu bytes and should be %zu", folder, bytes,
				   all);
	memcpy(&sum, in + all - sizeof sum, sizeof sum);
	if (sum != XXH3_64bits(in, all - sizeof sum))
		return err_damaged(e, "%s/" SUMS ": is damaged", folder);
	memcpy(sums, in + SUMS_HEAD, of->units * sizeof *sums);
	return 0;
}

int sums_read(uint64_t *sums, const struct sums_of *of, const char *folder, struct err *e)
{
	uint8_t *in;
	size_t bytes; /* one more is asked for, to see a file that is too long */
	int failed = small_file_read(&in, &bytes, file_bytes(of) + 1, folder, SUMS, e);
	if (!failed)
		failed = sums_decode(sums, of, in, bytes, folder, e);
	free(in);
	return failed;
}

int sums_write(const uint64_t *sums, const struct sums_of *of, const char *folder, struct err *e)
{
	const struct sums_head head = head_of(of);
	size_t all = file_bytes(of), end = all - sizeof(uint64_t);
	uint8_t *out = malloc(all);
	if (!out)
		return err_sys(e, ENOMEM, "%s/" SUMS, folder);
	memcpy(out, &head, SUMS_HEAD);
	memcpy(out + SUMS_HEAD, sums, of->units * sizeof *sums);
	uint64_t sum = XXH3_64bits(out, end);
	memcpy(out + end, &sum, sizeof sum);
	int failed = small_file_write(out, all, folder, SUMS, SUMS_NEW, e);
	free(out);
	return failed;
}

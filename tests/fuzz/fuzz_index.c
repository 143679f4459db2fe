/* libFuzzer on a store's index: whatever it contains, a store is refused with a sentence, or fits
 * the plan and is read into memory of the plan's sizes.
 *
 * An input is a byte and changes (small_store.h) of the index of a right store: the byte says of
 * which, plain or coded, and whether the sum is made right
 * afterwards; or it says that the rest is the index itself. */
#include "tests/fuzz/small_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CODED = 1, UNSEALED = 4, WHOLE = 8 };

static struct small_file right[2]; /* by codec */

/* Makes both stores. */
static void prepare(void)
{
	struct err e = {0};
	char path[192];
	for (int codec = 0; codec < 2; codec++) {
		struct store_writer *w;
		const char *folder = small_folder(path, codec ? "coded" : "plain");
		small_must(store_writer_open(&w, folder, small_plan((enum store_codec)codec), &e),
			   &e);
		for (uint32_t i = 0; i < SMALL_UNITS; i++)
			small_put(w, i);
		small_must(store_writer_finish(w, &e), &e);
		small_read_file(&right[codec], folder, STORE_INDEX);
	}
}

static void seal(struct small_file *f)
{
	if (f->size < 8)
		return;
	uint64_t sum = htole64(XXH3_64bits(f->bytes, f->size - 8));
	memcpy(f->bytes + f->size - 8, &sum, sizeof sum);
}

/* What a mount does. */
static void mount_store(const char *folder, const struct store_plan *plan)
{
	struct store *s;
	struct err e = {0};
	int failed = store_open(&s, folder, NULL, &e);
	if (failed && (e.code != -failed || !e.text[0]))
		abort();
	if (failed)
		return;
	failed = store_check(s, &plan->layout, &e);
	if (failed && (failed != -ESTALE || e.code != ESTALE || !e.text[0]))
		abort();
	if (!failed)
		small_read_units(s);
	store_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct small_file f;
	char path[192];
	if (!right[0].size)
		prepare();
	if (!size || size > SMALL_FILE_MOST / 2)
		return 0;
	bool coded = data[0] & CODED;
	f = right[coded];
	if (data[0] & WHOLE) {
		memcpy(f.bytes, data + 1, size - 1);
		f.size = size - 1;
	} else {
		small_change(&f, data + 1, size - 1);
	}
	if (!(data[0] & UNSEALED))
		seal(&f);
	const char *folder = small_folder(path, coded ? "coded" : "plain");
	file_write(folder, STORE_INDEX, f.bytes, f.size);
	mount_store(folder, small_plan(coded ? STORE_CODED : STORE_PLAIN));
	return 0;
}

/* libFuzzer on the files of an interrupted conversion: whatever they contain, the next conversion
 * keeps complete units, makes the others again, and ends with a store.
 *
 * An input is a byte and changes (small_store.h) of a journal. The byte says whether it is a plain
 * or a coded store's, whether the sums of entries are made right afterwards, and whether the file
 * of experts is cut short. */
#include "tests/fuzz/small_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CODED = 1, UNSEALED = 2, CUT = 4 };

/* By codec: what was left when half of the units were in. */
static struct {
	struct small_file journal, experts, dense;
} left[2];

static const char *folder_of(char path[192], bool coded)
{
	return small_folder(path, coded ? "coded" : "plain");
}

static void prepare(void)
{
	struct err e = {0};
	char path[192];
	for (int codec = 0; codec < 2; codec++) {
		struct store_writer *w;
		const char *folder = folder_of(path, codec);
		small_must(store_writer_open(&w, folder, small_plan((enum store_codec)codec), &e),
			   &e);
		for (uint32_t i = 0; i < SMALL_UNITS; i += 2)
			small_put(w, i);
		store_writer_close(w, true);
		small_read_file(&left[codec].journal, folder, STORE_JOURNAL);
		small_read_file(&left[codec].experts, folder, STORE_EXPERTS STORE_PARTIAL);
		small_read_file(&left[codec].dense, folder, STORE_DENSE STORE_PARTIAL);
	}
}

/* Makes the sums of all entries right, so that what they say is looked at. */
static void seal(struct small_file *f, const struct store_plan *plan)
{
	for (size_t at = JOURNAL_HEAD; at + JOURNAL_ENTRY <= f->size; at += JOURNAL_ENTRY) {
		struct store_journal_entry entry;
		(void)store_journal_decode_entry(&entry, f->bytes + at, store_plan_digest(plan));
		store_journal_encode_entry(f->bytes + at, store_plan_digest(plan), &entry);
	}
}

static void go_on(const char *folder, const struct store_plan *plan)
{
	struct err e = {0};
	struct store_writer *w;
	struct store *view, *s;
	small_must(store_writer_open(&w, folder, plan, &e), &e);
	small_must(store_writer_view(w, &view, &e), &e);
	for (uint32_t i = 0; i < SMALL_UNITS; i++)
		if (!store_writer_has(w, i))
			small_put(w, i);
	small_read_units(view);
	small_must(store_writer_finish(w, &e), &e);
	store_close(view);
	small_must(store_open(&s, folder, &plan->key, &e), &e);
	small_must(store_check(s, &plan->layout, &e), &e);
	small_read_units(s);
	store_close(s);
	static const char *const names[] = {STORE_INDEX, STORE_EXPERTS, STORE_DENSE};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char path[256];
		(void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		if (unlink(path))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct small_file journal;
	char path[192];
	if (!left[0].journal.size)
		prepare();
	if (!size || size > SMALL_FILE_MOST / 2)
		return 0;
	bool coded = data[0] & CODED;
	const struct store_plan *plan = small_plan(coded ? STORE_CODED : STORE_PLAIN);
	const struct small_file *experts = &left[coded].experts;
	journal = left[coded].journal;
	small_change(&journal, data + 1, size - 1);
	if (!(data[0] & UNSEALED))
		seal(&journal, plan);
	size_t cut = data[0] & CUT ? (size_t)(data[0] >> 3) * 160 : 0;
	const char *folder = folder_of(path, coded);
	file_write(folder, STORE_JOURNAL, journal.bytes, journal.size);
	file_write(folder, STORE_EXPERTS STORE_PARTIAL, experts->bytes,
		   cut < experts->size ? experts->size - cut : 0);
	file_write(folder, STORE_DENSE STORE_PARTIAL, left[coded].dense.bytes,
		   left[coded].dense.size);
	go_on(folder, plan);
	return 0;
}

/* The store: written data is read back; a damaged, foreign or incomplete store is refused with a
 * sentence; an interrupted one is continued. Faults of the disk itself are in test_store_faults.c.
 */
#include "store_help.h"

#include "cache/store_files.h"
#include "cache/store_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

struct fixture {
	char parent[32];
	struct test_store t;
	struct err e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	test_folder_make(f->parent);
	test_store_init(&f->t, f->parent, "store");
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	test_folder_remove(f->parent);
	free(f);
	return 0;
}

/* ---- helpers ---- */

static char *path_of(const struct fixture *f, const char *name)
{
	static char path[384];
	(void)snprintf(path, sizeof path, "%s/%s", f->t.folder, name);
	return path;
}

static bool exists(const struct fixture *f, const char *name)
{
	struct stat st;
	return lstat(path_of(f, name), &st) == 0;
}

static uint8_t *slurp(const struct fixture *f, const char *name, size_t *size)
{
	struct stat st;
	int fd = open(path_of(f, name), O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	uint8_t *bytes = malloc((size_t)st.st_size + 1);
	assert_int_equal(read(fd, bytes, (size_t)st.st_size), st.st_size);
	close(fd);
	*size = (size_t)st.st_size;
	return bytes;
}

static void spit(const struct fixture *f, const char *name, const uint8_t *bytes, size_t size)
{
	int fd = open(path_of(f, name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
}

static void flip(const struct fixture *f, const char *name, uint64_t offset)
{
	uint8_t byte;
	int fd = open(path_of(f, name), O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
	close(fd);
}

static int open_code(struct fixture *f)
{
	struct store *s;
	f->e = (struct err){0};
	int rc = store_open(&s, f->t.folder, &f->t.key, &f->e);
	store_close(s);
	return rc;
}

static struct store_writer *writer(struct fixture *f)
{
	struct store_writer *w;
	int rc = store_writer_open(&w, f->t.folder, &f->t.plan, &f->e);
	if (rc)
		fail_msg("%s", f->e.text);
	return w;
}

static void put(struct fixture *f, struct store_writer *w, uint32_t unit)
{
	if (test_put(&f->t, w, unit, &f->e))
		fail_msg("%s", f->e.text);
}

static void assert_words(const struct fixture *f, int rc, int code, const char *words)
{
	assert_int_equal(rc, -code);
	assert_int_equal(f->e.code, code);
	if (!strstr(f->e.text, words))
		fail_msg("\"%s\" does not say \"%s\"", f->e.text, words);
}

static void assert_complete(struct fixture *f)
{
	struct store *s;
	if (store_open(&s, f->t.folder, &f->t.key, &f->e))
		fail_msg("%s", f->e.text);
	assert_true(test_store_right(&f->t, s));
	store_close(s);
}

/* ---- the round trip ---- */

struct crew {
	struct fixture *f;
	struct store_writer *w;
	uint32_t order[64];
	_Atomic uint32_t next;
	_Atomic int failures;
};

static void *write_units(void *ctx)
{
	struct crew *c = ctx;
	uint32_t i;
	while ((i = c->next++) < test_units(&c->f->t))
		if (test_put(&c->f->t, c->w, c->order[i], NULL))
			c->failures++;
	return NULL;
}

static void units_written_by_several_threads_in_any_order_are_read_back(void **state)
{
	struct fixture *f = *state;
	struct crew c = {.f = f, .w = writer(f)};
	pthread_t thread[4];
	uint32_t n = test_units(&f->t);
	assert_int_equal(store_writer_units(c.w), n);
	for (uint32_t i = 0; i < n; i++)
		c.order[i] = (i * 7 + 3) % n; /* 17 units: a permutation */
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, write_units, &c), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(c.failures, 0);
	assert_int_equal(store_writer_finish(c.w, &f->e), 0);
	assert_complete(f);
}

static void the_index_says_what_the_plan_said(void **state)
{
	struct fixture *f = *state;
	struct store *s;
	test_store_write(&f->t);
	assert_int_equal(store_open(&s, f->t.folder, NULL, &f->e), 0);
	const struct store_info *i = store_info(s);
	assert_memory_equal(&i->key, &f->t.key, sizeof i->key);
	assert_int_equal(i->layers, 3);
	assert_int_equal(i->experts, 4);
	assert_int_equal(i->experts_base, STORE_ALIGN);
	assert_int_equal(i->record_bytes, 5000);
	assert_int_equal(i->dense_base, sizeof f->t.dense_head);
	assert_int_equal(i->dense_bytes, 1 + 4096 + 777 + 20000 + 64);
	assert_int_equal(store_dense_unit(s, 3).offset, 1 + 4096 + 777);
	assert_int_equal(store_dense_unit(s, 3).bytes, 20000);
	struct store_extent x = store_expert(s, 2, 1);
	assert_int_equal(x.offset, STORE_ALIGN + 9 * 5000);
	assert_true(x.align >= 1 && (x.align & (x.align - 1)) == 0);
	assert_true((x.direct_fd < 0) == (x.align == 1));
	store_close(s);
}

static void heads_are_written_before_the_data(void **state)
{
	struct fixture *f = *state;
	size_t size;
	test_store_write(&f->t);
	uint8_t *bytes = slurp(f, STORE_EXPERTS, &size);
	assert_int_equal(size, STORE_ALIGN + 12 * 5000);
	assert_memory_equal(bytes, f->t.head, sizeof f->t.head);
	free(bytes);
	bytes = slurp(f, STORE_DENSE, &size);
	assert_memory_equal(bytes, f->t.dense_head, sizeof f->t.dense_head);
	free(bytes);
}

static void any_dense_bytes_can_be_read_but_none_beyond(void **state)
{
	struct fixture *f = *state;
	struct store *s;
	uint8_t got[1000], unit[4096];
	test_store_write(&f->t);
	assert_int_equal(store_open(&s, f->t.folder, NULL, &f->e), 0);
	test_unit_fill(&f->t, 13, unit);
	assert_int_equal(store_read_dense_bytes(s, 1 + 100, got, sizeof got, &f->e), 0);
	assert_memory_equal(got, unit + 100, sizeof got);
	uint64_t end = store_info(s)->dense_bytes;
	assert_int_equal(store_read_dense_bytes(s, end, got, 0, &f->e), 0);
	assert_words(f, store_read_dense_bytes(s, end - 9, got, 10, &f->e), EINVAL, "10 bytes");
	assert_words(f, store_read_dense_bytes(s, UINT64_MAX, got, 10, &f->e), EINVAL, "10 bytes");
	store_close(s);
}

static void a_model_without_experts_has_a_store_too(void **state)
{
	struct fixture *f = *state;
	f->t.layers = f->t.experts = 0;
	f->t.record_bytes = 0;
	test_store_plan(&f->t);
	test_store_write(&f->t);
	assert_complete(f);
}

static void a_finished_store_is_three_private_files(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	int n = 0;
	test_store_write(&f->t);
	assert_int_equal(stat(f->t.folder, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	DIR *d = opendir(f->t.folder);
	for (struct dirent *x; (x = readdir(d));)
		if (x->d_name[0] != '.') {
			n++;
			assert_int_equal(stat(path_of(f, x->d_name), &st), 0);
			assert_int_equal(st.st_mode & 0777, 0600);
		}
	closedir(d);
	assert_int_equal(n, 3);
}

/* ---- missing, foreign, damaged ---- */

static void a_folder_without_an_index_is_no_store(void **state)
{
	struct fixture *f = *state;
	assert_words(f, open_code(f), ENOENT, f->t.folder);
	assert_int_equal(mkdir(f->t.folder, 0700), 0);
	assert_words(f, open_code(f), ENOENT, "index");
}

static void a_conversion_under_way_is_no_store(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w = writer(f);
	for (uint32_t i = 0; i < test_units(&f->t); i++) {
		assert_int_equal(open_code(f), -ENOENT);
		put(f, w, i);
	}
	assert_int_equal(open_code(f), -ENOENT);
	assert_int_equal(store_writer_finish(w, &f->e), 0);
	assert_complete(f);
}

static void a_store_of_another_key_is_stale(void **state)
{
	struct fixture *f = *state;
	test_store_write(&f->t);
	f->t.key.fingerprint[1]++;
	assert_words(f, open_code(f), ESTALE, "another checkpoint");
	f->t.key.fingerprint[1]--;
	f->t.key.recipe[2] = '4';
	assert_words(f, open_code(f), ESTALE, "tq4");
}

static void a_stale_store_is_replaced_and_its_readers_keep_the_old_one(void **state)
{
	struct fixture *f = *state;
	struct store *old;
	test_store_write(&f->t);
	struct test_store before = f->t;
	assert_int_equal(store_open(&old, f->t.folder, &f->t.key, &f->e), 0);

	f->t.key.fingerprint[0]++;
	f->t.seed = 2;
	test_store_plan(&f->t);
	struct store_writer *w = writer(f);
	put(f, w, 0);
	struct store *again; /* the old one is still published while the new one is made */
	assert_int_equal(store_open(&again, f->t.folder, &before.key, &f->e), 0);
	store_close(again);
	assert_int_equal(test_write_rest(&f->t, w, false, &f->e), 0);
	assert_true(test_store_right(&before, old));
	store_close(old);
	assert_complete(f);
}

static void a_finished_store_is_not_converted_again(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w;
	test_store_write(&f->t);
	assert_words(f, store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), EEXIST, f->t.folder);
	assert_complete(f);
}

static void an_index_cut_short_anywhere_is_refused(void **state)
{
	struct fixture *f = *state;
	size_t size;
	test_store_write(&f->t);
	uint8_t *bytes = slurp(f, STORE_INDEX, &size);
	for (size_t n = 0; n < size; n++) {
		spit(f, STORE_INDEX, bytes, n);
		int rc = open_code(f);
		assert_true(rc == -EIO || rc == -EINVAL);
		assert_non_null(strstr(f->e.text, "index"));
	}
	spit(f, STORE_INDEX, bytes, size);
	assert_complete(f);
	free(bytes);
}

static void an_index_with_any_bit_changed_is_refused(void **state)
{
	struct fixture *f = *state;
	size_t size;
	test_store_write(&f->t);
	uint8_t *bytes = slurp(f, STORE_INDEX, &size);
	for (size_t n = 0; n < size; n++) {
		bytes[n] ^= (uint8_t)(1 << n % 8);
		spit(f, STORE_INDEX, bytes, size);
		int rc = open_code(f);
		assert_true(rc == -EIO || rc == -EINVAL || rc == -ESTALE);
		assert_true(f->e.text[0]);
		bytes[n] ^= (uint8_t)(1 << n % 8);
	}
	free(bytes);
}

static void an_index_of_another_version_is_stale(void **state)
{
	struct fixture *f = *state;
	test_store_write(&f->t);
	flip(f, STORE_INDEX, 8);
	assert_words(f, open_code(f), ESTALE, "version 19");
}

/* An index whose checksum is right but whose numbers are hostile. */
static void hostile_numbers_in_an_index_are_refused_before_they_are_used(void **state)
{
	struct fixture *f = *state;
	static uint64_t offsets[2], sums[8];
	const struct store_info good = {.layers = 1,
					.experts = 1,
					.experts_base = STORE_ALIGN,
					.record_bytes = 8,
					.dense_base = 8,
					.dense_bytes = 0};
	struct store_info bad[8];
	for (int i = 0; i < 8; i++)
		bad[i] = good;
	bad[0].layers = bad[0].experts = UINT32_MAX;
	bad[1].record_bytes = UINT64_MAX;
	bad[2].record_bytes = 0;
	bad[3].experts_base = 5;
	bad[4].dense_base = UINT64_MAX - 7, bad[4].dense_bytes = 16;
	bad[5].dense_units = UINT32_MAX;
	bad[6].dense_bytes = 1;				   /* units do not add up to it */
	bad[7].layers = 1 << 12, bad[7].experts = 1 << 10; /* more checksums than bytes */
	for (int i = 0; i < 8; i++) {
		struct store_index out,
			index = {.info = good, .dense_offsets = offsets, .checksums = sums};
		uint8_t bytes[256];
		size_t n = store_index_bytes(&good);
		store_index_encode(bytes, &index);
		assert_int_equal(store_index_decode(&out, bytes, n, "x", &f->e), 0);
		store_index_free(&out);

		/* The head of a bad one, with the checksum of the whole made right. */
		uint8_t head[256];
		index.info = bad[i];
		index.info.layers = index.info.experts = index.info.dense_units = 0;
		store_index_encode(head, &index);
		memcpy(bytes + 24, head + 24, INDEX_HEAD - 24);
		const uint32_t counts[] = {bad[i].layers, bad[i].experts, bad[i].dense_units};
		for (int c = 0; c < 3; c++)
			for (int b = 0; b < 4; b++)
				bytes[12 + 4 * c + b] = (uint8_t)(counts[c] >> (8 * b));
		uint64_t sum = htole64(XXH3_64bits(bytes, n - 8));
		memcpy(bytes + n - 8, &sum, sizeof sum);
		assert_int_equal(store_index_decode(&out, bytes, n, "x", &f->e), -EINVAL);
	}
}

static void data_files_of_another_size_are_refused(void **state)
{
	struct fixture *f = *state;
	static const char *const names[] = {STORE_EXPERTS, STORE_DENSE};
	test_store_write(&f->t);
	for (int i = 0; i < 2; i++) {
		struct stat st;
		assert_int_equal(stat(path_of(f, names[i]), &st), 0);
		assert_int_equal(truncate(path_of(f, names[i]), st.st_size - 1), 0);
		assert_words(f, open_code(f), EIO, names[i]);
		assert_int_equal(truncate(path_of(f, names[i]), st.st_size), 0);
		assert_int_equal(open_code(f), 0);
	}
	assert_int_equal(unlink(path_of(f, STORE_DENSE)), 0);
	assert_words(f, open_code(f), EIO, "missing");
}

static void a_damaged_record_is_an_error_that_names_it(void **state)
{
	struct fixture *f = *state;
	struct store *s;
	uint8_t record[5000], dense[20000];
	test_store_write(&f->t);
	flip(f, STORE_EXPERTS, STORE_ALIGN + 6 * 5000 + 4999);
	flip(f, STORE_DENSE, sizeof f->t.dense_head + 1 + 4096 + 777);
	assert_int_equal(store_open(&s, f->t.folder, NULL, &f->e), 0);
	struct store_extent x = store_expert(s, 1, 2);
	assert_int_equal(pread(x.fd, record, sizeof record, (off_t)x.offset), sizeof record);
	assert_words(f, store_verify_expert(s, 1, 2, record, &f->e), EIO, "layer 1 expert 2");
	assert_words(f, store_read_dense(s, 3, dense, 20000, &f->e), EIO, "unit 3");
	assert_int_equal(store_read_dense(s, 2, dense, 777, &f->e), 0);
	store_close(s);
}

/* ---- hostile surroundings ---- */

static void a_symbolic_link_is_never_followed(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w;
	char target[64];
	struct stat st;
	(void)snprintf(target, sizeof target, "%s/target", f->parent);
	test_store_write(&f->t);
	assert_int_equal(rename(path_of(f, STORE_INDEX), target), 0);
	assert_int_equal(symlink(target, path_of(f, STORE_INDEX)), 0);
	assert_words(f, open_code(f), ELOOP, "symbolic link");

	assert_int_equal(symlink(target, path_of(f, STORE_LOCK)), 0);
	assert_words(f, store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), ELOOP, STORE_LOCK);
	assert_int_equal(unlink(path_of(f, STORE_LOCK)), 0);

	/* Where the writer makes files, the link is removed and its target stays as it was. */
	assert_int_equal(truncate(target, 7), 0);
	assert_int_equal(symlink(target, path_of(f, STORE_JOURNAL)), 0);
	assert_int_equal(symlink(target, path_of(f, STORE_EXPERTS STORE_PARTIAL)), 0);
	test_store_write(&f->t);
	assert_complete(f);
	assert_int_equal(stat(target, &st), 0);
	assert_int_equal(st.st_size, 7);
}

static void a_link_or_a_pipe_in_place_of_folder_or_file_is_refused(void **state)
{
	struct fixture *f = *state;
	char folder[64];
	test_store_write(&f->t);
	(void)snprintf(folder, sizeof folder, "%s/link", f->parent);
	assert_int_equal(symlink(f->t.folder, folder), 0);
	struct store *s;
	assert_words(f, store_open(&s, folder, NULL, &f->e), ENOTDIR, "symbolic link");
	assert_int_equal(unlink(path_of(f, STORE_INDEX)), 0);
	assert_int_equal(mkfifo(path_of(f, STORE_INDEX), 0600), 0);
	assert_words(f, open_code(f), EINVAL, "regular file");
}

static void what_belongs_to_another_user_is_refused(void **state)
{
	struct fixture *f = *state;
	if (geteuid() != 0) {
		print_message("giving a file away needs root: not tried\n");
		skip();
	}
	test_store_write(&f->t);
	assert_int_equal(chown(path_of(f, STORE_DENSE), 65534, (gid_t)-1), 0);
	assert_words(f, open_code(f), EPERM, "65534");
	assert_int_equal(chown(f->t.folder, 65534, (gid_t)-1), 0);
	assert_words(f, open_code(f), EPERM, f->t.folder);
}

static void a_folder_that_cannot_be_made_is_an_error_with_a_remedy(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w;
	(void)snprintf(f->t.folder, sizeof f->t.folder, "%s/none/store", f->parent);
	assert_words(f, store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), ENOENT, "-o store=");
	(void)snprintf(f->t.folder, sizeof f->t.folder, "%s/file", f->parent);
	close(open(f->t.folder, O_CREAT | O_WRONLY, 0600));
	assert_words(f, store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), ENOTDIR,
		     "not a folder");
}

static void a_folder_without_write_permission_is_an_error_in_words(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w;
	if (geteuid() == 0) {
		print_message("root may write everywhere: not tried\n");
		skip();
	}
	assert_int_equal(mkdir(f->t.folder, 0500), 0);
	assert_words(f, store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), EACCES, STORE_LOCK);
}

static void a_second_writer_is_refused(void **state)
{
	struct fixture *f = *state;
	struct store_writer *second, *w = writer(f);
	assert_words(f, store_writer_open(&second, f->t.folder, &f->t.plan, &f->e), EBUSY,
		     "another process");
	assert_int_equal(test_write_rest(&f->t, w, false, &f->e), 0);
	assert_complete(f);
}

static void a_limit_on_file_sizes_ends_a_conversion_and_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	struct rlimit old, low;
	struct store_writer *w;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	low = old;
	low.rlim_cur = 30000;
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	int rc = store_writer_open(&w, f->t.folder, &f->t.plan, &f->e);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	(void)signal(SIGXFSZ, handler);
	assert_words(f, rc, EFBIG, STORE_EXPERTS STORE_PARTIAL);
	assert_int_equal(access(f->t.folder, F_OK), -1);
}

/* ---- units ---- */

static void a_unit_must_have_its_planned_size(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w = writer(f);
	struct store_put *p;
	uint8_t bytes[5001] = {0};
	assert_int_equal(store_put_begin(w, 0, &p, &f->e), 0);
	assert_words(f, store_put_bytes(p, bytes, 5001, &f->e), EINVAL, "unit 0 is longer");
	assert_words(f, store_put_commit(p, &f->e), EINVAL, "unit 0");
	assert_int_equal(store_put_begin(w, 0, &p, &f->e), 0);
	assert_int_equal(store_put_bytes(p, bytes, 4999, &f->e), 0);
	assert_words(f, store_put_commit(p, &f->e), EINVAL, "last 1 bytes");
	assert_false(store_writer_has(w, 0));
	put(f, w, 0);
	assert_true(store_writer_has(w, 0));
	store_writer_close(w, false);
}

static void a_unit_is_written_once(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w = writer(f);
	struct store_put *p, *q;
	assert_int_equal(store_put_begin(w, 4, &p, &f->e), 0);
	assert_words(f, store_put_begin(w, 4, &q, &f->e), EEXIST, "unit 4");
	store_put_abandon(p);
	put(f, w, 4);
	assert_words(f, store_put_begin(w, 4, &q, &f->e), EEXIST, "unit 4");
	assert_words(f, store_put_begin(w, 17, &q, &f->e), EINVAL, "unit 17");
	store_writer_close(w, false);
}

static void a_plan_that_does_not_add_up_is_refused(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w;
	f->t.dense[2].offset++;
	assert_words(f, store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), EINVAL, "unit 2");
	f->t.dense[2].offset--;
	f->t.plan.experts_header_bytes--;
	assert_words(f, store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), EINVAL, "4095");
	assert_int_equal(access(f->t.folder, F_OK), -1);
}

/* ---- interruption ---- */

static void a_store_with_units_missing_is_not_published(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w = writer(f);
	put(f, w, 3);
	assert_words(f, store_writer_finish(w, &f->e), EINVAL, "16 of 17");
	assert_int_equal(open_code(f), -ENOENT);
}

static void an_interrupted_conversion_goes_on_where_it_was(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w = writer(f);
	struct store_put *open_put;
	put(f, w, 3);
	put(f, w, 16);
	assert_int_equal(store_put_begin(w, 5, &open_put, &f->e), 0);
	store_put_abandon(open_put);
	store_writer_close(w, true);
	assert_int_equal(open_code(f), -ENOENT);

	w = writer(f);
	for (uint32_t i = 0; i < test_units(&f->t); i++)
		assert_int_equal(store_writer_has(w, i), i == 3 || i == 16);
	assert_int_equal(test_write_rest(&f->t, w, false, &f->e), 0);
	assert_complete(f);
}

static void a_crash_between_the_renames_costs_nothing(void **state)
{
	struct fixture *f = *state;
	char partial[384];
	struct store_writer *w = writer(f);
	for (uint32_t i = 0; i < test_units(&f->t); i++)
		put(f, w, i);
	store_writer_close(w, true);
	(void)snprintf(partial, sizeof partial, "%s", path_of(f, STORE_EXPERTS STORE_PARTIAL));
	assert_int_equal(rename(partial, path_of(f, STORE_EXPERTS)), 0);
	w = writer(f);
	for (uint32_t i = 0; i < test_units(&f->t); i++)
		assert_true(store_writer_has(w, i));
	assert_int_equal(store_writer_finish(w, &f->e), 0);
	assert_complete(f);
}

static void a_conversion_given_up_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w = writer(f);
	put(f, w, 3);
	store_writer_close(w, false);
	assert_int_equal(access(f->t.folder, F_OK), -1);
}

static void a_folder_that_was_there_before_stays(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(mkdir(f->t.folder, 0700), 0);
	struct store_writer *w = writer(f);
	store_writer_close(w, false);
	assert_int_equal(access(f->t.folder, F_OK), 0);
	assert_false(exists(f, STORE_LOCK));
}

static void a_conversion_by_another_plan_begins_anew(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w = writer(f);
	put(f, w, 3);
	store_writer_close(w, true);
	f->t.dense_head[7]++; /* the same sizes, another head */
	w = writer(f);
	assert_false(store_writer_has(w, 3));
	assert_int_equal(test_write_rest(&f->t, w, false, &f->e), 0);
	assert_complete(f);
}

/* Interrupts a conversion of all units but two, and saves its journal. */
static uint8_t *interrupted(struct fixture *f, size_t *size)
{
	struct store_writer *w = writer(f);
	for (uint32_t i = 2; i < test_units(&f->t); i++)
		put(f, w, i);
	store_writer_close(w, true);
	return slurp(f, STORE_JOURNAL, size);
}

static uint32_t resumed_units(struct fixture *f)
{
	uint32_t n = 0;
	struct store_writer *w = writer(f);
	for (uint32_t i = 0; i < test_units(&f->t); i++)
		n += store_writer_has(w, i);
	store_writer_close(w, true);
	return n;
}

static void a_torn_journal_costs_only_what_was_torn_off(void **state)
{
	struct fixture *f = *state;
	size_t size;
	uint8_t *journal = interrupted(f, &size);
	assert_int_equal(size, JOURNAL_HEAD + 15 * JOURNAL_ENTRY);
	/* Downwards from the end; below the head everything begins again, so that comes last. */
	for (size_t n = size; n >= JOURNAL_HEAD; n -= 5) {
		spit(f, STORE_JOURNAL, journal, n);
		assert_int_equal(resumed_units(f), (n - JOURNAL_HEAD) / JOURNAL_ENTRY);
	}
	/* New entries after a torn one are found by the next resume. */
	spit(f, STORE_JOURNAL, journal, size - 1);
	struct store_writer *w = writer(f);
	put(f, w, 0);
	put(f, w, 1);
	store_writer_close(w, true);
	assert_int_equal(resumed_units(f), 16);
	assert_int_equal(test_write_rest(&f->t, writer(f), false, &f->e), 0);
	assert_complete(f);
	free(journal);
}

static void a_journal_without_a_whole_head_begins_anew(void **state)
{
	struct fixture *f = *state;
	size_t size;
	uint8_t *journal = interrupted(f, &size);
	spit(f, STORE_JOURNAL, journal, JOURNAL_HEAD - 1);
	assert_int_equal(resumed_units(f), 0);
	test_store_write(&f->t);
	assert_complete(f);
	free(journal);
}

static void a_changed_bit_in_the_journal_is_never_trusted(void **state)
{
	struct fixture *f = *state;
	size_t size;
	uint8_t *journal = interrupted(f, &size);
	for (size_t n = JOURNAL_HEAD; n < size; n += 3) {
		journal[n] ^= (uint8_t)(1 << n % 8);
		spit(f, STORE_JOURNAL, journal, size);
		assert_int_equal(resumed_units(f), 14);
		journal[n] ^= (uint8_t)(1 << n % 8);
	}
	journal[20] ^= 1; /* the plan's digest */
	spit(f, STORE_JOURNAL, journal, size);
	assert_int_equal(resumed_units(f), 0);
	test_store_write(&f->t);
	assert_complete(f);
	free(journal);
}

static void a_unit_whose_data_changed_since_is_written_again(void **state)
{
	struct fixture *f = *state;
	size_t size;
	free(interrupted(f, &size));
	flip(f, STORE_EXPERTS STORE_PARTIAL, STORE_ALIGN + 7 * 5000);
	struct store_writer *w = writer(f);
	assert_false(store_writer_has(w, 7));
	assert_true(store_writer_has(w, 8));
	assert_int_equal(test_write_rest(&f->t, w, false, &f->e), 0);
	assert_complete(f);
}

static void a_damaged_head_is_made_good_when_resuming(void **state)
{
	struct fixture *f = *state;
	size_t size;
	free(interrupted(f, &size));
	flip(f, STORE_DENSE STORE_PARTIAL, 3);
	assert_int_equal(test_write_rest(&f->t, writer(f), false, &f->e), 0);
	uint8_t *bytes = slurp(f, STORE_DENSE, &size);
	assert_memory_equal(bytes, f->t.dense_head, sizeof f->t.dense_head);
	free(bytes);
}

static void a_partial_file_that_is_gone_or_cut_begins_anew(void **state)
{
	struct fixture *f = *state;
	size_t size;
	free(interrupted(f, &size));
	assert_int_equal(unlink(path_of(f, STORE_DENSE STORE_PARTIAL)), 0);
	assert_int_equal(resumed_units(f), 0);
	free(interrupted(f, &size));
	assert_int_equal(truncate(path_of(f, STORE_EXPERTS STORE_PARTIAL), 9999), 0);
	assert_int_equal(resumed_units(f), 0);
	test_store_write(&f->t);
	assert_complete(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(units_written_by_several_threads_in_any_order_are_read_back),
		TEST(the_index_says_what_the_plan_said),
		TEST(heads_are_written_before_the_data),
		TEST(any_dense_bytes_can_be_read_but_none_beyond),
		TEST(a_model_without_experts_has_a_store_too),
		TEST(a_finished_store_is_three_private_files),
		TEST(a_folder_without_an_index_is_no_store),
		TEST(a_conversion_under_way_is_no_store),
		TEST(a_store_of_another_key_is_stale),
		TEST(a_stale_store_is_replaced_and_its_readers_keep_the_old_one),
		TEST(a_finished_store_is_not_converted_again),
		TEST(an_index_cut_short_anywhere_is_refused),
		TEST(an_index_with_any_bit_changed_is_refused),
		TEST(an_index_of_another_version_is_stale),
		TEST(hostile_numbers_in_an_index_are_refused_before_they_are_used),
		TEST(data_files_of_another_size_are_refused),
		TEST(a_damaged_record_is_an_error_that_names_it),
		TEST(a_symbolic_link_is_never_followed),
		TEST(a_link_or_a_pipe_in_place_of_folder_or_file_is_refused),
		TEST(what_belongs_to_another_user_is_refused),
		TEST(a_folder_that_cannot_be_made_is_an_error_with_a_remedy),
		TEST(a_folder_without_write_permission_is_an_error_in_words),
		TEST(a_second_writer_is_refused),
		TEST(a_limit_on_file_sizes_ends_a_conversion_and_leaves_nothing),
		TEST(a_unit_must_have_its_planned_size),
		TEST(a_unit_is_written_once),
		TEST(a_plan_that_does_not_add_up_is_refused),
		TEST(a_store_with_units_missing_is_not_published),
		TEST(an_interrupted_conversion_goes_on_where_it_was),
		TEST(a_crash_between_the_renames_costs_nothing),
		TEST(a_conversion_given_up_leaves_nothing),
		TEST(a_folder_that_was_there_before_stays),
		TEST(a_conversion_by_another_plan_begins_anew),
		TEST(a_torn_journal_costs_only_what_was_torn_off),
		TEST(a_journal_without_a_whole_head_begins_anew),
		TEST(a_changed_bit_in_the_journal_is_never_trusted),
		TEST(a_unit_whose_data_changed_since_is_written_again),
		TEST(a_damaged_head_is_made_good_when_resuming),
		TEST(a_partial_file_that_is_gone_or_cut_begins_anew),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

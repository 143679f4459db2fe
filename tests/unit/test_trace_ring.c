/* The ring that experts/trace reads from: every reader sees all its lines, and a slow reader is
 * told how many it lost. */
#include "engine/run/trace_ring.h"

#include "engine/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 4 * TRACE_ADD_BYTES };

static _Atomic unsigned bells;

static void told(void *ctx)
{
	(void)ctx;
	bells++;
}

static struct trace_reader *reader(struct trace_ring *r, const uint32_t *owner)
{
	struct trace_reader *t;
	struct err e = {0};
	if (trace_reader_open(&t, r, owner, told, NULL, &e))
		fail_msg("%s", e.text);
	return t;
}

static void add(struct trace_ring *r, uint32_t owner, const char *text)
{
	uint64_t lines = 0;
	for (const char *c = text; *c; c++)
		lines += *c == '\n';
	trace_ring_add(r, owner, text, strlen(text), lines);
}

static char *take(struct trace_reader *t)
{
	static char buffer[TRACE_READ_BYTES + 1];
	buffer[trace_reader_read(t, buffer, TRACE_READ_BYTES)] = 0;
	return buffer;
}

static void a_reader_sees_what_follows_its_open(void **state)
{
	(void)state;
	struct trace_ring r;
	trace_ring_init(&r, SIZE);
	assert_false(trace_ring_is_read(&r));
	struct trace_reader *one = reader(&r, NULL);
	assert_true(trace_ring_is_read(&r));
	assert_string_equal(take(one), "");
	assert_false(trace_reader_has_lines(one));
	add(&r, 5, "a\nb\n");
	struct trace_reader *two = reader(&r, NULL);
	add(&r, 6, "c\n");
	assert_true(trace_reader_has_lines(one));
	assert_string_equal(take(one), "a\nb\nc\n");
	assert_string_equal(take(one), "");
	assert_string_equal(take(two), "c\n");
	trace_reader_close(one);
	trace_reader_close(two);
	assert_false(trace_ring_is_read(&r));
	trace_ring_free(&r);
}

static void an_owner_sees_his_lines_alone(void **state)
{
	(void)state;
	struct trace_ring r;
	trace_ring_init(&r, SIZE);
	struct trace_reader *his = reader(&r, &(uint32_t){7});
	add(&r, 8, "other\n");
	assert_false(trace_reader_has_lines(his));
	assert_string_equal(take(his), "");
	add(&r, 7, "own\n");
	add(&r, 8, "other\n");
	assert_true(trace_reader_has_lines(his));
	assert_string_equal(take(his), "own\n");
	trace_reader_close(his);
	his = reader(&r, &(uint32_t){7}); /* earlier lines are not counted */
	assert_false(trace_reader_has_lines(his));
	assert_string_equal(take(his), "");
	trace_reader_close(his);
	trace_ring_free(&r);
}

/* Adds numbered lines of an owner, each `NUMBER\n`, until a number of bytes was added. */
static uint64_t fill(struct trace_ring *r, uint32_t owner, size_t bytes)
{
	char line[64];
	uint64_t count = 0;
	for (size_t added = 0; added < bytes; count++) {
		(void)snprintf(line, sizeof line, "%060llu\n", (unsigned long long)count);
		add(r, owner, line);
		added += strlen(line);
	}
	return count;
}

/* Reads everything: returns lines plus lost lines, and checks that no line is missing. */
static uint64_t drain(struct trace_reader *t, uint64_t *lost)
{
	uint64_t next = 0;
	*lost = 0;
	for (char *text = take(t); *text; text = take(t))
		for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
			unsigned long long n;
			if (sscanf(line, "lost %llu", &n) == 1) {
				*lost += n;
				next += n;
			} else {
				assert_int_equal(strtoull(line, NULL, 10), next);
				next++;
			}
		}
	assert_false(trace_reader_has_lines(t));
	return next;
}

static void a_slow_reader_is_told_what_it_lost(void **state)
{
	(void)state;
	struct trace_ring r;
	uint64_t lost;
	trace_ring_init(&r, SIZE);
	struct trace_reader *slow = reader(&r, NULL);
	uint64_t count = fill(&r, 1, 3 * SIZE);
	assert_int_equal(drain(slow, &lost), count);
	assert_true(lost > count / 2 && lost < count);
	add(&r, 1, "more\n"); /* and then continues as before */
	assert_string_equal(take(slow), "more\n");
	trace_reader_close(slow);
	trace_ring_free(&r);
}

static void what_others_lost_is_not_counted(void **state)
{
	(void)state;
	struct trace_ring r;
	uint64_t lost;
	trace_ring_init(&r, SIZE);
	struct trace_reader *his = reader(&r, &(uint32_t){7});
	fill(&r, 8, 3 * SIZE);
	assert_string_equal(take(his), "");
	add(&r, 7, "a\nb\nc\n");
	fill(&r, 8, 3 * SIZE);
	assert_true(trace_reader_has_lines(his));
	assert_string_equal(take(his), "lost 3\n");
	assert_false(trace_reader_has_lines(his));
	uint64_t count = fill(&r, 7, SIZE / 2);
	fill(&r, 8, SIZE / 4);
	assert_int_equal(drain(his, &lost), count);
	assert_true(lost > 0 && lost < count);
	trace_reader_close(his);
	trace_ring_free(&r);
}

static void what_could_not_be_written_is_lost(void **state)
{
	(void)state;
	struct trace_ring r;
	trace_ring_init(&r, SIZE);
	struct trace_reader *t = reader(&r, NULL);
	add(&r, 1, "a\n");
	trace_ring_add(&r, 1, NULL, 0, 5);
	add(&r, 1, "b\n");
	assert_string_equal(take(t), "a\nlost 5\nb\n");
	trace_ring_add(&r, 1, NULL, 0, 2);
	assert_string_equal(take(t), "lost 2\n");
	trace_reader_close(t);
	trace_ring_free(&r);
}

static void news_is_told_while_somebody_reads(void **state)
{
	(void)state;
	struct trace_ring r;
	trace_ring_init(&r, SIZE);
	bells = 0;
	add(&r, 1, "a\n");
	trace_ring_tell(&r);
	assert_int_equal(bells, 0);
	struct trace_reader *t = reader(&r, NULL);
	add(&r, 1, "b\n");
	assert_int_equal(bells, 1);
	trace_ring_tell(&r);
	assert_int_equal(bells, 2);
	trace_reader_close(t);
	add(&r, 1, "c\n");
	trace_ring_tell(&r);
	assert_int_equal(bells, 2);
	trace_ring_free(&r);
}

/* ---- many at once ---- */

enum { READERS = 4, ROUNDS = 20000 };

struct follower {
	pthread_t thread;
	struct trace_reader *reader;
	_Atomic bool *over;
	uint64_t seen, lost;
};

static void *follow(void *arg)
{
	struct follower *f = arg;
	char *buffer = malloc(TRACE_READ_BYTES + 1);
	for (bool last = false; buffer;) {
		size_t n = trace_reader_read(f->reader, buffer, TRACE_READ_BYTES);
		unsigned long long lost;
		buffer[n] = 0;
		for (char *at, *line = strtok_r(buffer, "\n", &at); line;
		     line = strtok_r(NULL, "\n", &at)) {
			f->seen++;
			if (sscanf(line, "lost %llu", &lost) == 1) {
				f->seen += lost - 1;
				f->lost += lost;
			}
		}
		if (!n && last)
			break;
		last = !n && atomic_load(f->over);
	}
	free(buffer);
	return NULL;
}

static void threads_read_while_one_adds(void **state)
{
	(void)state;
	static const uint32_t owners[2] = {1, 2};
	struct trace_ring r;
	struct follower f[READERS];
	_Atomic bool over = false;
	trace_ring_init(&r, SIZE);
	for (int i = 0; i < READERS; i++) {
		f[i] = (struct follower){.reader = reader(&r, i < 2 ? NULL : &owners[i % 2]),
					 .over = &over};
		assert_int_equal(pthread_create(&f[i].thread, NULL, follow, &f[i]), 0);
	}
	for (int i = 0; i < ROUNDS; i++) {
		add(&r, owners[i % 2], "session 12 answer 03 001 002 003 004\n");
		if (i % 100 == 0) /* others come and go */
			trace_reader_close(reader(&r, &(uint32_t){3}));
	}
	atomic_store(&over, true);
	for (int i = 0; i < READERS; i++) {
		pthread_join(f[i].thread, NULL);
		assert_int_equal(f[i].seen, i < 2 ? ROUNDS : ROUNDS / 2);
		trace_reader_close(f[i].reader);
	}
	trace_ring_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reader_sees_what_follows_its_open),
		cmocka_unit_test(an_owner_sees_his_lines_alone),
		cmocka_unit_test(a_slow_reader_is_told_what_it_lost),
		cmocka_unit_test(what_others_lost_is_not_counted),
		cmocka_unit_test(what_could_not_be_written_is_lost),
		cmocka_unit_test(news_is_told_while_somebody_reads),
		cmocka_unit_test(threads_read_while_one_adds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

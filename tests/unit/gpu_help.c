/* See gpu_help.h. */
#include "gpu_help.h"

#include "engine/compute/context_save.h"
#include "engine/model/model_state.h"
#include "forward_help.h"
#include "golden.h"
#include "kernels/cuda/cuda_images.h"
#include "store_help.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the driver ---- */

static struct {
	void *library; /* NULL: a real one */
	void (*be)(const char *word);
	long (*taken)(void), (*played)(void);
} driver;

static void driver_function(const char *name, void *to)
{
	void *found = dlsym(driver.library, name);
	assert_non_null(found);
	memcpy(to, &found, sizeof found);
}

bool test_driver_is_real(void)
{
	const char *which = getenv("MOEFS_GPU");
	return which && !strcmp(which, "real");
}

void test_driver_load(void)
{
	char path[4096] = {0}, *end;
	if (driver.library || test_driver_is_real())
		return;
	assert_true(readlink("/proc/self/exe", path, sizeof path - 64) > 0);
	end = strrchr(path, '/');
	assert_non_null(end);
	(void)strcpy(end, "/fake-driver/libcuda.so.1");
	driver.library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	assert_non_null(driver.library);
	driver_function("fake_cuda_be", &driver.be);
	driver_function("fake_cuda_taken", &driver.taken);
	driver_function("fake_cuda_played", &driver.played);
}

void test_driver_be(const char *word)
{
	if (driver.be)
		driver.be(word);
}

long test_driver_taken(void)
{
	return driver.taken ? driver.taken() : 0;
}

long test_driver_played(void)
{
	return driver.played ? driver.played() : 0;
}

/* ---- models ---- */

struct test_gpu test_cpu;
static struct {
	char path[512];
	const char *quant;
} model;
static uint64_t dense_bytes, expert_bytes; /* on the GPU: all but experts and contexts; an expert */
static uint32_t experts;		   /* that the GPU may have */

struct err test_gpu_no_card(const struct test_gpu *g)
{
	pthread_rwlock_rdlock(&g->m.model->loaded.looking);
	const struct err why = g->m.model->loaded.no_card;
	pthread_rwlock_unlock(&g->m.model->loaded.looking);
	return why;
}

/* Brings all experts to main memory, whether the GPU holds them or not. */
static void bring_all(const struct test_gpu *g)
{
	struct err e;
	for (uint32_t layer = 0; layer < g->v.plan->routed_layers; layer++)
		for (uint32_t expert = 0; expert < g->v.plan->experts; expert++)
			if (pager_load(g->v.experts, &(struct pager_id){layer, expert}, 1, &e))
				fail_msg("%s", e.text);
}

static void open_by(struct test_gpu *g, int gpu, uint64_t budget)
{
	test_model_open(&g->m, model.path,
			&(struct engine_options){.quant = model.quant,
						 .store = test_folder,
						 .gpu = gpu,
						 .gpu_budget = budget});
	test_model_load_calm(&g->m);
	observe_model(g->m.model, &g->v);
	bring_all(g);
}

static void measure(void)
{
	struct cuda_experts_state now;
	struct engine_gpu_stats stats;
	struct test_gpu g;
	open_by(&g, GPU_NUMBER, 0);
	test_gpu_wait(&g, &now);
	engine_gpu_stats(g.m.engine, &stats);
	dense_bytes = stats.dense;
	experts = now.all;
	expert_bytes = experts ? now.bytes / experts : 0;
	test_gpu_close(&g);
}

void test_gpu_model_be(const char *path, const char *quant)
{
	if (test_cpu.m.engine)
		test_model_close(&test_cpu.m);
	(void)snprintf(model.path, sizeof model.path, "%s", path);
	model.quant = quant;
	open_by(&test_cpu, GPU_OFF, 0);
	test_wait_converted(test_cpu.m.model);
	observe_model(test_cpu.m.model, &test_cpu.v);
	bring_all(&test_cpu);
	if (cuda_images->name)
		measure();
}

int test_gpu_setup(void **state)
{
	return test_gpu_setup_of(state, "qwen3_moe");
}

int test_gpu_setup_of(void **state, const char *fixture)
{
	int failed = test_folder_setup_fast(state);
	if (!failed && test_fixture(fixture))
		test_gpu_model_be(test_fixture(fixture), "3bit");
	return failed;
}

int test_gpu_teardown(void **state)
{
	if (test_cpu.m.engine)
		test_model_close(&test_cpu.m);
	return test_folder_teardown(state);
}

void test_gpu_begin(struct test_gpu *g, uint64_t budget)
{
	if (test_cpu.m.engine && !cuda_images->name)
		print_message("the program has no GPU kernels: neither nvcc nor clang was found\n");
	if (!test_cpu.m.engine || !cuda_images->name)
		skip();
	open_by(g, GPU_NUMBER, budget);
}

/* How many experts "some" are; the pieces that are left free for changes are 8. */
enum { SPARE = 8, SOME = 25 };
static uint32_t some_experts(void)
{
	if (experts > SOME + SPARE)
		return SOME;
	return experts > SPARE ? (experts - SPARE) / 2 : 0;
}

/* An eighth of the budget is for contexts. */
void test_gpu_open(struct test_gpu *g, enum test_held held)
{
	const uint32_t some = some_experts();
	const uint64_t pieces = held == HELD_SOME ? SPARE + some : 0;
	const uint64_t tight = (dense_bytes + pieces * expert_bytes) * 8 / 7 + expert_bytes / 2;
	struct cuda_experts_state now;
	test_gpu_begin(g, held == HELD_ALL ? 0 : tight);
	test_gpu_wait(g, &now);
	assert_int_equal(now.copied, held == HELD_ALL	 ? now.all
				     : held == HELD_SOME ? some
							 : 0);
}

void test_gpu_close(struct test_gpu *g)
{
	test_model_close(&g->m);
}

void test_gpu_wait(const struct test_gpu *g, struct cuda_experts_state *now)
{
	const struct timespec moment = {0, 1000000};
	const struct cuda_model *on_card = g->v.forward->env.on_card;
	if (!on_card)
		fail_msg("%s", test_gpu_no_card(g).text);
	for (cuda_experts_look(on_card, now); now->filling; cuda_experts_look(on_card, now))
		nanosleep(&moment, NULL);
}

bool test_gpu_computes(const struct test_gpu *g)
{
	return g->v.forward->env.backend == &cuda_backend;
}

/* ---- records ---- */

void test_record_free(struct test_record *r)
{
	free(r->logits);
	free(r->picks);
	*r = (struct test_record){0};
}

void test_record_floats(struct test_record *r, const float *x, size_t n)
{
	r->logits = realloc(r->logits, (r->floats + n) * sizeof *x);
	assert_non_null(r->logits);
	memcpy(r->logits + r->floats, x, n * sizeof *x);
	r->floats += n;
}

static uint64_t add_number(uint64_t sum, uint32_t number)
{
	return (sum ^ number) * 0x100000001b3; /* as FNV does */
}

static void record_picks(void *ctx, const struct picks *p)
{
	struct test_record *r = ctx;
	uint64_t sum = add_number(add_number(1, p->layer), p->span->position);
	for (uint32_t t = 0; t < p->span->n; t++)
		for (uint32_t i = 0; i < p->kept[t]; i++) {
			const uint32_t expert = p->chosen[(size_t)t * p->stride + i];
			sum = add_number(sum, expert);
		}
	r->picks = realloc(r->picks, (r->pick_count + 1) * sizeof *r->picks);
	assert_non_null(r->picks);
	r->picks[r->pick_count++] = sum;
}

void test_record_same_logits(const struct test_record *got, const struct test_record *want)
{
	assert_int_equal(got->floats, want->floats);
	for (size_t i = 0; i < got->floats; i++)
		if (memcmp(&got->logits[i], &want->logits[i], sizeof *got->logits))
			fail_msg("logit %zu of %zu is %a, not %a", i, got->floats,
				 (double)got->logits[i], (double)want->logits[i]);
}

static int compare_sums(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

void test_record_same(const struct test_record *got, const struct test_record *want)
{
	test_record_same_logits(got, want);
	assert_int_equal(got->hits + got->misses, want->hits + want->misses);
	assert_int_equal(got->dropped, want->dropped);
	assert_int_equal(got->substituted, want->substituted);
	assert_int_equal(got->pick_count, want->pick_count);
	if (!got->pick_count) /* a model without experts */
		return;
	qsort(got->picks, got->pick_count, sizeof *got->picks, compare_sums);
	qsort(want->picks, want->pick_count, sizeof *want->picks, compare_sums);
	assert_memory_equal(got->picks, want->picks, got->pick_count * sizeof *got->picks);
}

/* ---- steps ---- */

void test_context_of(const struct test_gpu *g, struct context *x)
{
	context_init(x, g->v.context_budget, g->v.config, g->v.kv);
}

static void add_rows(struct test_step *s, const struct test_rows *rows)
{
	struct err e;
	uint32_t tokens[512], at = (uint32_t)rows->x->tokens.count, from = s->batch.count;
	struct step_account *account = &s->account[s->spans++];
	for (uint32_t t = 0; t < rows->n; t++)
		tokens[t] = ((at + t) * (at + t) * 7 + (at + t) * 37 + 5 * rows->seed) %
			    s->g->v.config->vocabulary;
	if (test_add(&s->batch, rows->x, tokens, rows->n,
		     rows->kind == ROW_PROMPT ? ROW_PROMPT : ROW_ANSWER, true, &e))
		fail_msg("%s", e.text);
	account->stop = rows->stop;
	account->picked = record_picks;
	account->picked_ctx = s->record;
	for (uint32_t t = from; t < s->batch.count; t++) {
		s->batch.rows[t].account = account;
		s->batch.rows[t].losses = rows->losses;
	}
}

void test_step_begin(struct test_step *s, struct test_gpu *g, struct test_record *r,
		     const struct test_rows *rows, uint32_t count)
{
	*s = (struct test_step){.g = g, .record = r};
	assert_in_range(count, 1, TEST_SPANS);
	for (uint32_t i = 0; i < count; i++)
		add_rows(s, &rows[i]);
	s->logits = calloc((size_t)s->batch.count * g->v.config->vocabulary, sizeof *s->logits);
	assert_non_null(s->logits);
}

void test_step_end(struct test_step *s)
{
	const size_t width = s->g->v.config->vocabulary;
	for (uint32_t t = 0; t < s->batch.count; t++) {
		const struct step_row *row = &s->batch.rows[t];
		if (row->account->end == SPAN_DONE)
			test_record_floats(s->record, s->logits + t * width, width);
	}
	for (uint32_t i = 0; i < s->spans; i++) {
		const struct step_account *a = &s->account[i];
		s->record->hits += a->hits;
		s->record->misses += a->misses;
		s->record->dropped += a->dropped;
		s->record->substituted += a->substituted;
	}
	step_batch_free(&s->batch);
	free(s->logits);
}

void test_step_of(struct test_gpu *g, struct test_record *r, const struct test_rows *rows,
		  uint32_t count)
{
	struct test_step s;
	struct err e;
	test_step_begin(&s, g, r, rows, count);
	if (forward_run(g->v.forward, &s.batch, s.logits, &e))
		fail_msg("%s", e.text);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(s.account[i].end, SPAN_DONE);
	test_step_end(&s);
}

void test_rows_of(struct test_gpu *g, struct test_record *r, struct context *x, uint32_t seed,
		  uint32_t n, enum row_kind kind)
{
	const struct test_rows rows = {.x = x, .seed = seed, .n = n, .kind = kind};
	test_step_of(g, r, &rows, 1);
}

struct draw_reader {
	struct test_record *record;
	uint32_t vocabulary, alone;
};

static int draw_read(void *ctx, const uint32_t *rows, uint32_t n, const struct step_logits *logits,
		     struct err *e)
{
	struct draw_reader *d = ctx;
	(void)rows, (void)e;
	for (uint32_t i = 0; i < n; i++) {
		const struct step_logits row = step_logits_of_row(logits, i, d->vocabulary);
		const uint32_t id = row.all ? sampler_greedy(row.all, d->vocabulary) : row.largest->id;
		test_record_floats(d->record, (float[]){row.all ? row.all[id] : row.largest->p, (float)id}, 2);
		d->alone += !row.all;
	}
	return 0;
}

uint32_t test_draw(struct test_gpu *g, struct test_record *r, uint32_t rows, uint32_t whole)
{
	struct draw_reader reader = {r, g->v.config->vocabulary, 0};
	struct test_record none = {0};
	struct context x;
	struct test_step s;
	struct err e;
	test_context_of(g, &x);
	test_step_begin(&s, g, &none, &(struct test_rows){.x = &x, .seed = 3, .n = rows}, 1);
	for (uint32_t i = 0; i < rows; i++)
		s.batch.rows[i].only_largest = i != whole;
	s.batch.read = draw_read;
	s.batch.ctx = &reader;
	if (forward_run(g->v.forward, &s.batch, NULL, &e))
		fail_msg("%s", e.text);
	s.account[0].end = SPAN_FAILED; /* all is recorded */
	test_step_end(&s);
	test_record_free(&none);
	context_free(&x);
	return reader.alone;
}

void test_tap(void *ctx, enum tap_point point, uint32_t layer, uint32_t position, uint32_t tokens,
	      uint32_t width, const float *rows)
{
	(void)point, (void)layer, (void)position;
	test_record_floats(ctx, rows, (size_t)tokens * width);
}

/* ---- contexts ---- */

void test_fork(struct context *to, struct context *from)
{
	struct err e;
	pthread_mutex_lock(&to->budget->lock);
	int failed = context_fork(to, from, &e);
	pthread_mutex_unlock(&to->budget->lock);
	if (failed)
		fail_msg("%s", e.text);
}

void test_copy_saved(const struct test_gpu *g, struct context *to, struct context *from)
{
	struct context_save s;
	struct context_load l;
	struct err e;
	assert_int_equal(context_save_open(&s, from, g->v.config, &e), 0);
	size_t n = context_save_bytes(&s);
	char *bytes = malloc(n);
	assert_non_null(bytes);
	context_save_read(&s, 0, bytes, n);
	context_save_close(&s);
	context_load_begin(&l, to, g->v.config, 512, n);
	assert_int_equal(context_load_feed(&l, bytes, n, &e), 0);
	context_load_end(&l);
	context_move(to, &l.x);
	context_load_free(&l);
	free(bytes);
}

/* Refined stores: the gathered moments are those of the inputs; the refined store answers and is
 * the same however it was made; turns come first. */
#include "engine/admin/refine_gather.h"
#include "engine/admin/refine_turn.h"
#include "engine/convert/moments.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/admin/observe.h"
#include "engine/convert/encoder.h"
#include "engine/family/sources.h"
#include "checkpoint_help.h"
#include "golden.h"
#include "memory_help.h"
#include "random.h"
#include "session_help.h"
#include "store_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char TEXT[] = "Once upon a time there was a fox who lived in the wood near the mill. "
			   "The miller had a cat, "
			   "and the cat did not like the fox. One day they met at the river and "
			   "talked until it was dark.";
static const char question[] = "What is the capital of France?";
static const struct model_refining ASKED = {
	.text = TEXT, .length = sizeof TEXT - 1, .tokens = 4096};

/* ---- help ---- */

/* What is refined: a tenth of the demonstration model's weights, since all of them are rounded each
 * time, and these tests claim what they do of any model. Good until the next call. */
static const char *small(void)
{
	return test_fixture("qwen3_moe");
}

/* The demonstration model; a sanitizer takes the small one: for it the two differ in time alone. */
static const char *whole(void)
{
	return SANITIZED ? small() : test_fable();
}

static void open_model(struct test_model *m, const char *model, const char *stores,
		       uint32_t threads)
{
	test_model_ready(
		m, model,
		&(struct engine_options){.quant = "tq3", .store = stores, .threads = threads});
	test_wait_converted(m->model);
}

static void open_in(struct test_model *m, const char *stores, uint32_t threads)
{
	open_model(m, small(), stores, threads);
}

/* A session whose answers are short, whatever the model says. */
static struct session *asking(struct test_model *m)
{
	struct session *s = test_greedy_session(m);
	test_set(s, "max_tokens", "12");
	return s;
}

static void refine(struct test_model *m, const struct model_refining *r)
{
	struct err e;
	if (model_refine(m->model, r, &e))
		fail_msg("%s", e.text);
}

static uint64_t weights_of(const struct test_model *m)
{
	return m->model->loaded.weights_sum;
}

/* Stores of a model that was refined with ASKED by four undisturbed threads, for comparison.
 * Rounding all weights takes long, so the first test that refines makes it. */
static const char *undisturbed(void)
{
	static char stores[64];
	if (!*stores)
		(void)snprintf(stores, sizeof stores, "%s/undisturbed", test_stores());
	return stores;
}

static char *path_in(const struct test_model *m, const char *file)
{
	char *path;
	const struct model_store *s = &m->model->stored;
	assert_true(asprintf(&path, "%s/%s", s->folders[STORE_PLACES], file) > 0);
	return path;
}

static uint8_t *bytes_of(const struct test_model *m, const char *file, size_t *n)
{
	struct err e;
	char *path = path_in(m, file), *text;
	if (json_read_file(&text, n, path, 64 << 20, &e))
		fail_msg("%s", e.text);
	free(path);
	return (uint8_t *)text;
}

static void expect_same_store(const struct test_model *one, const struct test_model *other)
{
	static const char *const files[] = {"experts.safetensors", "dense.safetensors", "index"};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		size_t a, b;
		uint8_t *first = bytes_of(one, files[i], &a),
			*second = bytes_of(other, files[i], &b);
		assert_int_equal(a, b);
		assert_memory_equal(first, second, a);
		free(first);
		free(second);
	}
}

static void expect_recipe(const struct test_model *m, const char *want)
{
	char text[128];
	assert_int_equal(model_fact(m->model, FACT_RECIPE, text, sizeof text), 0);
	assert_string_equal(text, want);
}

/* ---- what is known ---- */

enum { LAYER = 2 }; /* whose attention's input is looked at */

struct seen {
	const float *norm; /* [hidden], and eps: of the layer's RMSNorm */
	double eps;
	double *sum; /* [hidden][hidden] */
	uint32_t hidden, tokens;
};

static void tap(void *ctx, enum tap_point point, uint32_t layer, uint32_t position, uint32_t tokens,
		uint32_t width, const float *rows)
{
	struct seen *s = ctx;
	(void)position;
	if (point != TAP_STATE || layer != LAYER)
		return;
	s->hidden = width;
	s->tokens += tokens;
	if (!s->sum)
		s->sum = calloc((size_t)width * width, sizeof *s->sum);
	for (size_t t = 0; t < tokens; t++, rows += width) {
		double square = 0;
		for (size_t i = 0; i < width; i++)
			square += (double)rows[i] * rows[i];
		double scale = 1 / (square / width + s->eps); /* of a product of two */
		for (size_t i = 0; i < width; i++)
			for (size_t j = 0; j < width; j++)
				s->sum[i * width + j] +=
					scale * rows[i] * s->norm[i] * rows[j] * s->norm[j];
	}
}

/* What `asked` names, as windows in a folder of its own; with what an earlier one left there. */
static void make_text(struct refine_text *t, struct test_model *m,
		      const struct model_refining *asked, const char *folder)
{
	struct err e;
	const uint64_t key[2] = {1, 2};
	*t = (struct refine_text){0};
	if (refine_text_make(t, m->model, asked, key, folder, &e))
		fail_msg("%s", e.text);
}

/* Gathers all layers' moments; returns the tokens that were read. */
static uint64_t gather_into(struct test_model *m, const struct model_refining *asked,
			    struct moments **moments)
{
	char folder[32];
	struct model_view v;
	struct refine_text text;
	struct err e;
	uint64_t tokens;
	test_folder_make(folder);
	observe_model(m->model, &v);
	make_text(&text, m, asked, folder);
	assert_int_equal(moments_create(moments, v.plan, 0, 1 << 30, &e), 0);
	assert_int_equal(moments_end(*moments), v.plan->layers + 1);
	if (refine_gather(m->model, &text, false, weights_of(m), *moments, NULL, &tokens, &e))
		fail_msg("%s", e.text);
	refine_text_free(&text);
	test_folder_remove(folder);
	return tokens;
}

static uint64_t gather(struct test_model *m, const struct model_refining *asked)
{
	struct moments *moments;
	uint64_t tokens = gather_into(m, asked, &moments);
	moments_free(moments);
	return tokens;
}

static void moments_are_those_of_the_inputs(void **state)
{
	struct test_model m;
	struct model_view v;
	struct moments *moments;
	struct seen seen = {0};
	const struct tensor_id v_of_layer = {TENSOR_V, LAYER, 0}; /* which has what q has */
	(void)state;
	open_in(&m, test_stores(), 2);
	observe_model(m.model, &v);
	seen.norm = weights_vector(&v.weights->layer[LAYER], TENSOR_MIXER_NORM);
	seen.eps = v.config->rms_eps;
	v.forward->env.tap = tap;
	v.forward->env.tap_ctx = &seen;
	uint64_t tokens = gather_into(&m, &ASKED, &moments);
	assert_int_equal(tokens, seen.tokens);
	assert_int_equal(moments_tokens(moments, moments_find(moments, v_of_layer)), seen.tokens);
	float *h = malloc((size_t)seen.hidden * seen.hidden * sizeof *h);
	assert_true(moments_weigh(moments, v_of_layer, 0, seen.hidden, h));
	double off = 0, all = 0;
	for (size_t i = 0; i < (size_t)seen.hidden * seen.hidden; i++) {
		double want = seen.sum[i] / seen.tokens;
		off += (h[i] - want) * (h[i] - want);
		all += want * want;
	}
	assert_true(off < 1e-10 * all);

	/* All experts' tokens together are the layer's, as often as each has experts. */
	uint64_t met = 0;
	struct tensor_id down = {TENSOR_EXPERT_DOWN, LAYER, MOMENTS_ALL};
	uint64_t layer = moments_tokens(moments, moments_find(moments, down));
	for (down.expert = 0; down.expert < v.plan->experts; down.expert++)
		met += moments_tokens(moments, moments_find(moments, down));
	assert_int_equal(met, layer);
	assert_int_equal(met, seen.tokens * v.config->experts_per_token);
	free(h);
	free(seen.sum);
	moments_free(moments);
	test_model_close(&m);
}

/* With little room fewer pairs are known, and fewer layers at a time. */
static void sums_fit_into_the_memory_allowed(void **state)
{
	struct test_model m;
	struct model_view v;
	struct moments *all, *some;
	struct err e;
	(void)state;
	open_in(&m, test_stores(), 2);
	observe_model(m.model, &v);
	assert_int_equal(moments_create(&all, v.plan, 0, 1 << 30, &e), 0);
	uint64_t most = moments_bytes(all) / 2;
	uint32_t turns = 0;
	for (uint32_t first = 0; first <= v.plan->layers; turns++) {
		assert_int_equal(moments_create(&some, v.plan, first, most, &e), 0);
		assert_true(moments_bytes(some) <= most);
		assert_true(moments_end(some) > first);
		const struct tensor_id before = {TENSOR_V, first - 1, 0}, own = {TENSOR_V, first, 0};
		if (first)
			assert_int_equal(moments_find(some, before), -1);
		if (first < v.plan->layers)
			assert_true(moments_find(some, own) >= 0);
		first = moments_end(some);
		moments_free(some);
	}
	assert_true(turns > 1);
	assert_int_equal(moments_create(&some, v.plan, 0, 256, &e), -ENOMEM);
	moments_free(all);
	test_model_close(&m);
}

/* A text of the model's own is kept round by round; what is damaged is written again. */
static void what_it_writes_is_kept(void **state)
{
	const struct model_refining less = {.tokens = 100}, more = {.tokens = 5000};
	char folder[32], path[64];
	struct test_model m;
	struct refine_text first, again, whole;
	struct err e;
	(void)state;
	test_folder_make(folder);
	(void)snprintf(path, sizeof path, "%s/text", folder);
	open_in(&m, test_stores(), 2);
	make_text(&first, &m, &less, folder);
	assert_true(first.tokens >= 100);
	make_text(&again, &m, &less, folder);
	assert_int_equal(refine_text_sum(&first), refine_text_sum(&again));
	refine_text_free(&again);
	const uint64_t other[2] = {1, 3};
	again = (struct refine_text){0};
	assert_int_equal(refine_text_make(&again, m.model, &less, other, folder, &e), 0);
	assert_int_equal(refine_text_sum(&first), refine_text_sum(&again));
	refine_text_free(&again);

	make_text(&whole, &m, &more, folder); /* goes on, with conversations among the windows */
	assert_true(whole.tokens >= 5000 && whole.count > first.count);
	assert_memory_equal(whole.bytes, first.bytes, first.size);
	FILE *f = fopen(path, "r+b");
	assert_non_null(f);
	assert_int_equal(fseek(f, 200, SEEK_SET), 0);
	assert_int_not_equal(fputc(1, f), EOF);
	assert_int_equal(fclose(f), 0);
	make_text(&again, &m, &more, folder);
	assert_int_equal(refine_text_sum(&again), refine_text_sum(&whole));
	refine_text_free(&again);
	refine_text_free(&first);
	refine_text_free(&whole);
	refine_text_forget(folder);
	assert_int_equal(access(path, F_OK), -1);
	test_model_close(&m);
	test_folder_remove(folder);
}

/* Look-ahead runs a later layer's router on this layer's state whenever experts are missing from
 * memory. Those rows are not inputs of that router: each router has as many inputs as its layer's
 * attention, however few experts fit. 3bit rounds routers, too (tq3 does not). */
static void routers_learn_from_their_own_inputs(void **state)
{
	static const uint64_t budgets[] = {64 << 10, 64 << 20};
	const struct model_refining own = {.tokens = 40};
	enum { COLS = 64 };
	static float h[2][COLS * COLS];
	char stores[32];
	(void)state;
	test_folder_make(stores);
	for (uint32_t i = 0; i < 2; i++) {
		struct test_model m;
		struct moments *moments;
		test_model_ready(&m, whole(),
				 &(struct engine_options){.quant = "3bit",
							  .store = stores,
							  .threads = 2,
							  .budget = budgets[i]});
		test_wait_converted(m.model);
		assert_true(gather_into(&m, &own, &moments) > 0);
		for (uint32_t layer = 0; layer < m.model->id.config.layers; layer++) {
			struct tensor_id router = {TENSOR_ROUTER, layer, 0},
					 v = {TENSOR_V, layer, 0};
			assert_true(moments_find(moments, router) >= 0);
			assert_int_equal(moments_tokens(moments, moments_find(moments, router)),
					 moments_tokens(moments, moments_find(moments, v)));
		}
		assert_true(moments_weigh(moments, (struct tensor_id){TENSOR_ROUTER, 1, 0}, 0, COLS,
					  h[i]));
		moments_free(moments);
		test_model_close(&m);
	}
	assert_memory_equal(h[0], h[1], sizeof h[0]);
	test_folder_remove(stores);
}

/* With a context of any size. */
static void any_text_is_read_to_its_end(void **state)
{
	enum { WINDOW = 2048 };
	struct test_model m;
	char lines[WINDOW + 1];
	(void)state;
	test_model_ready(
		&m, small(),
		&(struct engine_options){.quant = "tq3", .store = test_stores(), .context = 16});
	test_wait_converted(m.model);
	assert_true(gather(&m, &ASKED) > 40);

	for (size_t i = 0; i < WINDOW; i++)
		lines[i] = "a fox "[i % 6];
	lines[WINDOW] = '\n'; /* the second window has nothing else */
	assert_true(gather(&m, &(struct model_refining){.text = lines, .length = sizeof lines, .tokens = 1 << 20}) >
		    WINDOW / 6);
	test_model_close(&m);
}

/* No first token of the model's own texts makes a prompt that is refused. */
static void its_own_writing_begins_with_something(void **state)
{
	struct test_model m;
	struct model_view v;
	(void)state;
	open_in(&m, test_stores(), 2);
	observe_model(m.model, &v);
	uint64_t all = v.config->vocabulary, zero = all;
	for (uint32_t id = 0; id < all; id++) {
		size_t n;
		const char *bytes = tokenizer_bytes(m.model->loaded.tokenizer, id, false, &n);
		if (n && !*bytes)
			zero = id;
	}
	assert_true(zero < all);
	uint64_t window = 0; /* which would begin with that */
	while ((window * 2654435761U + 12345) % all != zero)
		window++;
	struct err e;
	struct session *s;
	assert_int_equal(session_create(&s, m.model, NULL, NULL, &e), 0);
	assert_int_equal(refine_text_begin(m.model, s, window, &e), 0);
	assert_int_equal(refine_finish_turn(m.model, s, true, &e), -EAGAIN);
	session_end(s);
	test_model_close(&m);
}

static void expect_no_text(const char *text, size_t length, int code, const char *words)
{
	struct err e = {0};
	assert_int_equal(model_refining_check(&(struct model_refining){.text = text, .length = length, .tokens = 1}, &e),
			 code);
	assert_non_null(strstr(e.text, words));
}

static void what_is_no_text_is_said(void **state)
{
	(void)state;
	expect_no_text("", 0, -EINVAL, "the file contains no text");
	expect_no_text("\n", 1, -EINVAL, "the file contains no text");
	expect_no_text("one \xff", 5, -EILSEQ, "not valid UTF-8 at byte 4");
	expect_no_text(" ", 1, 0, "");
}

/* ---- the store ---- */

static void the_next_load_takes_it_and_this_one_does_not(void **state)
{
	char stores[32];
	struct test_model m;
	(void)state;
	test_folder_make(stores);
	open_model(&m, whole(), stores, 4); /* nobody has refined there */
	struct session *s = asking(&m);
	char *before = test_ask(s, question);
	refine(&m, &ASKED);
	expect_recipe(&m, "tq3");
	struct session *again = asking(&m);
	test_same_text(before, test_ask(again, question));
	session_end(s);
	session_end(again);
	test_model_close(&m);

	open_model(&m, whole(), stores, 2);
	char want[64];
	(void)snprintf(want, sizeof want, "tq3, refined with %u tokens",
		       m.model->stored.plan.recipe.refined);
	assert_true(m.model->stored.plan.recipe.refined > 40);
	expect_recipe(&m, want);
	s = asking(&m);
	free(test_ask(s, question));
	session_end(s);
	refine(&m, &ASKED); /* it is there: nothing to do */
	test_model_close(&m);
	test_folder_remove(stores);
}

static void threads_change_no_byte(void **state)
{
	char stores[32];
	struct test_model one, four;
	(void)state;
	test_folder_make(stores);
	open_in(&one, stores, 1);
	open_in(&four, undisturbed(), 4);
	refine(&one, &ASKED);
	refine(&four, &ASKED);
	expect_same_store(&one, &four);
	test_model_close(&one);
	test_model_close(&four);
	test_folder_remove(stores);
}

/* A turn during refining ends it in any phase; the work done is continued later. */
struct refining_thread {
	struct test_model *m;
	int failed;
};

static void *refine_idly(void *ctx)
{
	struct refining_thread *t = ctx;
	struct model_refining r = ASKED;
	struct err e;
	r.idle = true;
	do
		t->failed = model_refine(t->m->model, &r, &e);
	while (t->failed == -ECANCELED);
	return NULL;
}

static void turns_come_first(void **state)
{
	char stores[32];
	struct test_model calm, m;
	pthread_t thread;
	(void)state;
	test_folder_make(stores);
	open_in(&calm, undisturbed(), 4);
	open_in(&m, stores, 2);
	refine(&calm, &ASKED);
	struct refining_thread t = {&m, 0};
	assert_int_equal(pthread_create(&thread, NULL, refine_idly, &t), 0);
	struct session *s = asking(&m);
	for (int i = 0; i < 10; i++)
		free(test_ask(s, question));
	pthread_join(thread, NULL);
	assert_int_equal(t.failed, 0);
	expect_same_store(&calm, &m);
	session_end(s);
	test_model_close(&calm);
	test_model_close(&m);
	test_folder_remove(stores);
}

/* The working session is not visible, so nobody must end it first; refining continues when the
 * model is loaded again. */
static void an_unload_ends_it(void **state)
{
	char stores[32];
	struct test_model m;
	struct err e;
	pthread_t thread;
	size_t n;
	(void)state;
	test_folder_make(stores);
	open_in(&m, stores, 2);
	struct refining_thread t = {&m, 0};
	assert_int_equal(pthread_create(&thread, NULL, refine_idly, &t), 0);
	for (int i = 0; i < 10; i++)
		if (model_unload(m.model, &e))
			fail_msg("%s", e.text);
	pthread_join(thread, NULL);
	assert_int_equal(t.failed, 0);
	free(bytes_of(&m, "index", &n));
	test_model_close(&m);
	test_folder_remove(stores);
}

/* Under a sanitizer once: the comparison is numeric. */
static void its_own_writing_is_the_same_each_time(void **state)
{
	enum { TIMES = SANITIZED ? 1 : 2 };
	char stores[2][32];
	struct test_model m[2];
	const struct model_refining own = {.tokens = 300};
	(void)state;
	for (uint32_t i = 0; i < TIMES; i++) {
		test_folder_make(stores[i]);
		open_in(&m[i], stores[i], 2 - i);
		refine(&m[i], &own);
	}
	expect_same_store(&m[0], &m[TIMES - 1]);
	for (uint32_t i = 0; i < TIMES; i++) {
		test_model_close(&m[i]);
		test_folder_remove(stores[i]);
	}
}

/* ---- a checkpoint that changes ---- */

/* A small one of the test's own, and two folders of stores. */
struct changing {
	char checkpoint[64], parent[32], stores[2][64];
};

static void changing_make(struct changing *c)
{
	struct test_checkpoint qwen;
	test_folder_make(c->parent);
	(void)snprintf(c->checkpoint, sizeof c->checkpoint, "%s/qwen", c->parent);
	for (size_t i = 0; i < 2; i++)
		(void)snprintf(c->stores[i], sizeof c->stores[i], "%s/stores%zu", c->parent, i);
	test_checkpoint_read(&qwen, "qwen3_moe");
	test_checkpoint_make(&qwen, "qwen3_moe", c->checkpoint);
	test_checkpoint_free(&qwen);
}

static void changing_open(struct test_model *m, const struct changing *c, size_t stores)
{
	test_model_ready(
		m, c->checkpoint,
		&(struct engine_options){.quant = "tq3", .store = c->stores[stores], .threads = 2});
	test_wait_converted(m->model);
}

/* Flips the lowest bit of one weight in the middle, in place. */
static void changing_edit(const struct changing *c)
{
	char path[96];
	struct stat st;
	(void)snprintf(path, sizeof path, "%s/model.safetensors", c->checkpoint);
	int fd = open(path, O_RDWR);
	uint8_t byte;
	assert_int_equal(fstat(fd, &st), 0);
	off_t middle = st.st_size / 2 & ~(off_t)1;
	assert_int_equal(pread(fd, &byte, 1, middle), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, middle), 1);
	assert_int_equal(close(fd), 0);
}

/* Other times, the same bytes. */
static void changing_touch(const struct changing *c)
{
	char path[96];
	const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
	(void)snprintf(path, sizeof path, "%s/model.safetensors", c->checkpoint);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void expect_refused(struct test_model *m, bool idle, const char *words)
{
	struct model_refining r = ASKED;
	struct err e = {0};
	r.idle = idle;
	assert_int_equal(model_refine(m->model, &r, &e), -ESTALE);
	assert_non_null(strstr(e.text, words));
	char *index = path_in(m, "index");
	assert_int_equal(access(index, F_OK), -1);
	free(index);
}

/* Nothing is mounted, so the reason is not one for a mount. */
static void a_config_that_changes_meanwhile_is_refused(void **state)
{
	struct changing c;
	struct test_model m;
	char path[96];
	(void)state;
	changing_make(&c);
	changing_open(&m, &c, 0);
	(void)snprintf(path, sizeof path, "%s/config.json", c.checkpoint);
	FILE *config = fopen(path, "a");
	assert_non_null(config);
	assert_true(fputc('\n', config) == '\n' && fclose(config) == 0);
	expect_refused(&m, false, "was changed during refining; refine it again");
	test_model_close(&m);
	test_folder_remove(c.parent);
}

/* Its store is that of the old checkpoint: nothing is made from a mixture. */
static void a_checkpoint_that_changes_meanwhile_is_refused(void **state)
{
	struct changing c;
	struct test_model m, fresh;
	(void)state;
	changing_make(&c);
	changing_open(&m, &c, 0);
	changing_edit(&c);
	expect_refused(&m, false, "was changed during refining; refine it again");
	expect_refused(&m, true, "was changed since it was loaded");
	test_model_close(&m);

	changing_open(&m, &c, 0); /* from which the store is made again */
	changing_open(&fresh, &c, 1);
	refine(&m, &ASKED);
	refine(&fresh, &ASKED);
	expect_same_store(&m, &fresh);
	test_model_close(&m);
	test_model_close(&fresh);
	test_folder_remove(c.parent);
}

/* As when the change comes after a refining that was killed. */
static void what_was_rounded_of_it_before_is_not_taken(void **state)
{
	struct changing c;
	struct test_model m, fresh;
	(void)state;
	changing_make(&c);
	changing_open(&m, &c, 0);
	refine(&m, &ASKED);
	char *index = path_in(&m, "index");
	assert_int_equal(unlink(index), 0); /* as if it had been killed while it rounded */
	changing_edit(&c);
	expect_refused(&m, false, "was changed");
	test_model_close(&m);

	changing_open(&m, &c, 0);
	changing_open(&fresh, &c, 1);
	refine(&m, &ASKED);
	refine(&fresh, &ASKED);
	expect_same_store(&m, &fresh);
	free(index);
	test_model_close(&m);
	test_model_close(&fresh);
	test_folder_remove(c.parent);
}

/* A refined store has the same source name as its model's store, so that a refined store is
 * recognised. */
static void other_times_alone_make_no_other_store(void **state)
{
	struct changing c;
	struct test_model m, calm;
	struct stat before, after;
	size_t n;
	(void)state;
	changing_make(&c);
	changing_open(&calm, &c, 1);
	changing_open(&m, &c, 0);
	test_model_close(&m);
	changing_touch(&c); /* before it is refined … */
	changing_open(&m, &c, 0);
	refine(&calm, &ASKED);
	refine(&m, &ASKED);
	expect_same_store(&calm, &m);
	test_model_close(&calm);
	test_model_close(&m);

	for (int i = 0; i < 2; i++) { /* … and after */
		changing_touch(&c);
		changing_open(&m, &c, 0);
		char *experts = path_in(&m, "experts.safetensors");
		assert_int_equal(stat(experts, &before), 0);
		refine(&m, &ASKED);
		assert_int_equal(stat(experts, &after), 0);
		assert_int_equal(before.st_ino, after.st_ino);
		free(experts);
		free(bytes_of(&m, "index", &n));
		test_model_close(&m);
	}
	test_folder_remove(c.parent);
}

/* A model that is unloaded meanwhile may be loaded with the changed checkpoint. */
static void what_other_weights_say_is_not_counted(void **state)
{
	char folder[32];
	struct test_model m;
	struct model_view v;
	struct moments *moments;
	struct refine_text text;
	struct err e;
	uint64_t tokens;
	(void)state;
	test_folder_make(folder);
	open_in(&m, test_stores(), 2);
	observe_model(m.model, &v);
	make_text(&text, &m, &ASKED, folder);
	assert_int_equal(moments_create(&moments, v.plan, 0, 1 << 30, &e), 0);
	assert_int_equal(refine_gather(m.model, &text, false, weights_of(&m) + 1, moments, NULL,
				       &tokens, &e),
			 -ECANCELED);
	assert_int_equal(tokens, 0);
	refine_text_free(&text);
	moments_free(moments);
	test_model_close(&m);
	test_folder_remove(folder);
}

static void a_model_that_cannot_be_refined_is_refused(void **state)
{
	struct test_model m;
	struct err e;
	(void)state;
	test_model_ready(&m, small(), &(struct engine_options){.quant = "bf16"});
	assert_int_equal(model_refine(m.model, &ASKED, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "quant=bf16 rounds no weights"));
	test_model_close(&m);
	open_in(&m, test_stores(), 2);
	assert_int_equal(
		model_refine(m.model, &(struct model_refining){.text = "\xff\xfe x", .length = 4, .tokens = 100}, &e),
		-EILSEQ);
	test_model_close(&m);
}

/* From 8 bits, but not from fewer. */
static void a_published_model_of_8_bits_is_refined_if_asked(void **state)
{
	static const struct {
		const char *fixture, *quant, *words;
	} cases[] = {
		{"deepseek_v3_fp8", "3bit", NULL},
		{"qwen3_moe_mlx4", "3bit", "needs the original weights of 8, 16 or 32 bits"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char stores[32];
		struct test_model m;
		struct err e = {0};
		test_folder_make(stores);
		test_model_ready(&m, test_fixture(cases[i].fixture),
				 &(struct engine_options){
					 .quant = cases[i].quant, .store = stores, .threads = 2});
		test_wait_converted(m.model);
		int failed = model_refine(m.model, &ASKED, &e);
		if (cases[i].words) {
			assert_int_equal(failed, -ENOTSUP);
			assert_non_null(strstr(e.text, cases[i].words));
		} else if (failed) {
			fail_msg("%s", e.text);
		}
		test_model_close(&m);
		test_folder_remove(stores);
	}
}

/* Inputs of layer 0's attention that are large in every fourth column from `first` on. */
static void add_inputs(struct moments *m, uint32_t hidden, uint32_t first)
{
	enum { INPUTS = 200 };
	const struct tensor_id q = {TENSOR_Q, 0, 0};
	struct random r = {first + 7};
	float *x = malloc((size_t)INPUTS * hidden * sizeof *x);
	assert_non_null(x);
	random_normal(&r, x, (size_t)INPUTS * hidden);
	for (size_t i = 0; i < (size_t)INPUTS * hidden; i++)
		x[i] *= i % hidden % 4 == first ? 1 : 1e-3F;
	moments_add(m, kernels_best(), moments_find(m, q), x, INPUTS, 0, hidden);
	free(x);
}

/* Weights that are rounded by one text are judged by another: whether they are better there. */
static void rows_are_judged_by_what_was_held_back(void **state)
{
	struct test_model m;
	struct model_view v;
	struct sources sources;
	const _Atomic bool stop = false;
	struct err e;
	(void)state;
	open_in(&m, test_stores(), 2);
	observe_model(m.model, &v);
	assert_int_equal(sources_open(&sources, small(), v.config, &e), 0);
	uint8_t *chunk = malloc(encoder_chunk_bytes(v.plan));
	for (uint32_t other = 0; other < 2; other++) {
		struct moments *known, *held;
		struct encoder *x;
		struct encoder_verdict verdict = {0};
		assert_int_equal(moments_create(&known, v.plan, 0, 1 << 30, &e), 0);
		assert_int_equal(moments_create(&held, v.plan, 0, 1 << 30, &e), 0);
		add_inputs(known, v.config->hidden_size, 0);
		add_inputs(held, v.config->hidden_size, other);
		assert_int_equal(encoder_create(&x, v.plan, &sources, kernels_best(), &e), 0);
		encoder_know(x, known, held, &stop);
		for (uint32_t i = 0; i < v.plan->dense_count; i++)
			if (v.plan->dense[i].id.role == TENSOR_Q && !v.plan->dense[i].id.layer)
				assert_int_equal(
					encoder_chunk(x, &v.plan->dense[i], 0, chunk, &e), 0);
		encoder_judge(x, &verdict);
		assert_true(verdict.rows > 0);
		assert_true(other ? verdict.sum > 0 : verdict.sum < 0);
		encoder_free(x);
		moments_free(known);
		moments_free(held);
	}
	free(chunk);
	sources_close(&sources);
	test_model_close(&m);
}

/* ---- while idle ---- */

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(moments_are_those_of_the_inputs),
		cmocka_unit_test(sums_fit_into_the_memory_allowed),
		cmocka_unit_test(what_it_writes_is_kept),
		cmocka_unit_test(any_text_is_read_to_its_end),
		cmocka_unit_test(its_own_writing_begins_with_something),
		cmocka_unit_test(what_is_no_text_is_said),
		cmocka_unit_test(routers_learn_from_their_own_inputs),
		cmocka_unit_test(the_next_load_takes_it_and_this_one_does_not),
		cmocka_unit_test(turns_come_first),
		cmocka_unit_test(an_unload_ends_it),
		cmocka_unit_test(its_own_writing_is_the_same_each_time),
		cmocka_unit_test(a_checkpoint_that_changes_meanwhile_is_refused),
		cmocka_unit_test(a_config_that_changes_meanwhile_is_refused),
		cmocka_unit_test(what_was_rounded_of_it_before_is_not_taken),
		cmocka_unit_test(other_times_alone_make_no_other_store),
		cmocka_unit_test(what_other_weights_say_is_not_counted),
		cmocka_unit_test(a_model_that_cannot_be_refined_is_refused),
		cmocka_unit_test(a_published_model_of_8_bits_is_refined_if_asked),
		cmocka_unit_test(rows_are_judged_by_what_was_held_back),
	};
	/* Compares bytes with a store made by one thread: a sanitizer would find nothing new. */
	const struct CMUnitTest bytes[] = {
		cmocka_unit_test(threads_change_no_byte),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (!SANITIZED)
		failed += cmocka_run_group_tests(bytes, NULL, NULL);
	test_stores_remove();
	return failed;
}

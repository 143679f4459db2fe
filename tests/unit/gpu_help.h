/* Models on the GPU, for tests: opened with a budget that holds all, some or none of their experts; what
 * steps give, recorded and compared; the driver without a card. */
#ifndef MOEFS_TESTS_UNIT_GPU_HELP_H
#define MOEFS_TESTS_UNIT_GPU_HELP_H

#include "engine/admin/observe.h"
#include "engine/cuda/cuda.h"
#include "session_help.h"

/* ---- the driver ---- */

/* Loads the driver without a card (tests/cuda/fake_driver.c), unless MOEFS_GPU=real. */
void test_driver_load(void);
bool test_driver_is_real(void);
/* What the driver without a card does from now on, a word of fake_driver.c; "" as it should. */
void test_driver_be(const char *word);
/* How much memory and how many handles it has given. */
long test_driver_taken(void);
/* How often it has started a recorded sequence of launches. */
long test_driver_played(void);

/* ---- models ---- */

enum test_held { HELD_ALL, HELD_SOME, HELD_NONE };
struct test_gpu {
	struct test_model m;
	struct model_view v;
};
/* A group's setup, with the fixture qwen3_moe in 3 bits. Teardown. */
int test_gpu_setup(void **state);
/* The same of another fixture. */
int test_gpu_setup_of(void **state, const char *fixture);
int test_gpu_teardown(void **state);
/* The model from now on: makes its store, opens it for the CPU, and measures what it takes on the GPU. quant:
 * the recipe, or NULL. */
void test_gpu_model_be(const char *path, const char *quant);
/* The same model on the CPU. */
extern struct test_gpu test_cpu;
/* Opens it on the GPU with a budget that holds so many experts, and waits for these. */
void test_gpu_open(struct test_gpu *g, enum test_held held);
/* Opens it with any budget, and does not wait. */
void test_gpu_begin(struct test_gpu *g, uint64_t budget);
void test_gpu_close(struct test_gpu *g);
/* Waits until as many experts are there as will be without another step. */
void test_gpu_wait(const struct test_gpu *g, struct cuda_experts_state *now);
/* Whether the GPU computes. */
bool test_gpu_computes(const struct test_gpu *g);
/* Why the model is not on a GPU; code 0: it is. */
struct err test_gpu_no_card(const struct test_gpu *g);

/* ---- steps ---- */

/* What steps gave, in the order in which they ended. */
struct test_record {
	float *logits;
	size_t floats;
	uint64_t *picks; /* a sum of the layer, position and experts of each span */
	size_t pick_count;
	uint64_t hits, misses, dropped, substituted;
};
void test_record_free(struct test_record *r);
/* Numbers that are to be the same, too. */
void test_record_floats(struct test_record *r, const float *x, size_t n);
/* Fails the test if logits differ. */
void test_record_same_logits(const struct test_record *got, const struct test_record *want);
/* The same for all; picks in any order. Hits and misses together: an expert that gave its place on the GPU
 * to another one has to be read. */
void test_record_same(const struct test_record *got, const struct test_record *want);

/* A context's next rows in a step; its tokens follow from `seed` and their positions. */
struct test_rows {
	struct context *x;
	uint32_t seed, n;
	enum row_kind kind; /* ROW_DRAFT: an answer's row and n - 1 drafts */
	struct losses losses;
	const _Atomic bool *stop;
};
enum { TEST_SPANS = 40 };
struct test_step {
	struct test_gpu *g;
	struct step_batch batch;
	struct step_account account[TEST_SPANS];
	uint32_t spans;
	float *logits; /* [batch.count][vocabulary] */
	struct test_record *record;
};
void test_step_begin(struct test_step *s, struct test_gpu *g, struct test_record *r,
		     const struct test_rows *rows, uint32_t count);
/* Records what the rows that stand gave. */
void test_step_end(struct test_step *s);
/* A whole step. */
void test_step_of(struct test_gpu *g, struct test_record *r, const struct test_rows *rows,
		  uint32_t count);
/* A whole step of one context. */
void test_rows_of(struct test_gpu *g, struct test_record *r, struct context *x, uint32_t seed,
		  uint32_t n, enum row_kind kind);
/* A step of a prompt of that many rows, from which tokens are drawn greedily; but of row `whole` a reader needs all
 * logits. Records each row's largest logit and its token. Returns of how many rows the reader was given nothing else. */
uint32_t test_draw(struct test_gpu *g, struct test_record *r, uint32_t rows, uint32_t whole);
/* A tap (step.h) that records the rows. ctx: struct test_record. */
void test_tap(void *ctx, enum tap_point point, uint32_t layer, uint32_t position, uint32_t tokens,
	      uint32_t width, const float *rows);

/* ---- contexts ---- */

void test_context_of(const struct test_gpu *g, struct context *x);
/* Forks under the budget's lock. */
void test_fork(struct context *to, struct context *from);
/* Saves a context as bytes, and loads these. */
void test_copy_saved(const struct test_gpu *g, struct context *to, struct context *from);

#endif

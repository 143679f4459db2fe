/* The demonstration model with sessions, and helpers that wait for turns. */
#ifndef MOEFS_TESTS_UNIT_SESSION_HELP_H
#define MOEFS_TESTS_UNIT_SESSION_HELP_H

#include "engine/model.h"
#include "engine/session.h"

struct test_model {
	struct engine *engine;
	struct model *model;
};

/* The path of examples/models/fable-moe-15m; valid until the next call of test_data. */
const char *test_fable(void);
/* The recipe of tests that name none (NULL): 3bit, but tq3 under a sanitizer. */
const char *test_recipe(const char *quant);

/* Opens a model's directory with these options, the callback and (if it has none) the store's
 * folder filled in. Does not load it. */
void test_model_open(struct test_model *m, const char *directory, const struct engine_options *o);
/* The same, and waits until the model is loaded. */
void test_model_ready(struct test_model *m, const char *directory, const struct engine_options *o);
/* Loads the model; from then on experts are read only when a batch asks for them. */
void test_model_load_calm(struct test_model *m);
void test_model_close(struct test_model *m);
/* Loads a model and waits for its complete store. While a store is being made, experts may be made
 * instead of read, and the model may have to be loaded again during the test. */
void test_wait_converted(struct model *m);
/* The folder of stores that all tests share: made by the first call, removed at the end. */
const char *test_stores(void);
void test_stores_remove(void);

/* The same as a group's teardown. */
int stores_remove(void **state);

/* The demonstration model that the tests of a program share. Setup of a group: loads it in the
 * default recipe; teardown: closes it and removes the stores. */
extern struct test_model fable;
int fable_load(void **state);
int fable_close(void **state);

/* It shares nothing with others: its params/share_with is a word of its own. */
struct session *test_session(struct test_model *m);
/* Waits until no turn works and what ended has given its memory back. */
void test_come_to_rest(const struct test_model *m);
/* Bytes of the engine's contexts, once no prefix is kept any more. */
uint64_t test_context_used(struct test_model *m);
struct session *test_greedy_session(struct test_model *m);
void test_set(struct session *s, const char *param, const char *value);

/* Submits; fails the test if the prompt is not taken. The reference is the caller's. */
struct answer *test_submit(struct session *s, const char *prompt);

/* Holds the session's next turn once its answer has `bytes`, before the next step, until it is
 * released: so a test can make claims about a running turn on a machine of any speed. No lock is
 * held meanwhile. All turns of the model are held, since one thread computes them; only one
 * session can be held at a time. */
void test_hold(struct session *s, uint64_t bytes);
/* Waits until the turn is held, and until the turns that were asked are prepared, so that the order
 * of the steps that follow does not depend on time; fails the test if the turn ends before. */
void test_wait_held(void);
/* Waits until the turns that were asked are prepared, as many as are prepared in advance. */
void test_wait_prepared(struct model *m);
/* Holds, submits, and waits until the turn is held. The caller owns the reference. */
struct answer *test_submit_held(struct session *s, const char *prompt, uint64_t bytes);
/* The most sessions that have had a step together since the last call. */
uint32_t test_most_together(void);
/* Steps that answers have had between two layers of a prompt since the last call. */
uint32_t test_between_layers(void);
/* Calls f(ctx, p) on the thread that computes, before each session's part of a step. No lock is
 * held, so f may call what any thread may. NULL: nobody. Set it while no turn runs, or while one is
 * held.
 */
struct run_place;
void test_watch(void (*f)(void *ctx, const struct run_place *p), void *ctx);
/* Places that sessions have had in steps since test_record_places, in their order; no more than an
 * array has room for. */
struct test_place {
	const struct session *session;
	uint32_t first, together; /* index of the step's first place; places of the step */
	bool begins;		  /* the place is the beginning of a turn */
};
void test_record_places(void);
const struct test_place *test_places(size_t *count);
/* Functions that wait for an answer or close a model also release it: a failed test leaves nothing
 * held. */
void test_let_go(void);
/* A teardown: nobody watches steps any more, and nothing is held. */
int test_end_watch(void **state);

/* Wait until the answer has `bytes` or is complete; until it is complete. */
void test_wait_bytes(struct answer *a, uint64_t bytes);
void test_wait(struct answer *a);
/* Waits, releases the reference, and returns the malloc'ed text and the code that reading ended
 * with. */
char *test_read(struct answer *a, int *code);
/* One turn that must succeed: submit, wait, read. malloc'ed. */
char *test_ask(struct session *s, const char *prompt);
/* The same; the text must be this one. */
void test_answer(struct session *s, const char *prompt, const char *want);
/* One turn that must fail with EIO; its sentence contains `words`. */
void test_ask_refused(struct session *s, const char *prompt, const char *words);

/* Both texts are freed. */
void test_same_text(char *one, char *other);
/* Reads one of a session's texts (malloc'ed); checks it; writes it. */
char *test_text(const struct session *s, enum session_text what);
void test_expect_text(const struct session *s, enum session_text what, const char *want);
void test_write_text(struct session *s, enum session_text what, const char *text);
struct session_stats test_stats(const struct session *s);

/* A block of the demonstration model's context in F16: 64 positions of keys and values, 8 layers, 2
 * heads of 32. */
enum { TEST_BLOCK_BYTES = 64 * 2 * 8 * 2 * 32 * 2 };

#endif

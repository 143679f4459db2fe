/* The demonstration model behind sessions, and turns that are waited for. */
#ifndef MOEFS_TESTS_SESSION_HELP_H
#define MOEFS_TESTS_SESSION_HELP_H

#include "engine/model.h"
#include "engine/session.h"

struct test_model {
	struct engine *engine;
	struct model *model;
};

/* The path of examples/models/fable-moe-15m; good until the next call of test_data. */
const char *test_fable(void);
/* The recipe that tests have it in where they name none (NULL): the default, but under a sanitizer.
 */
const char *test_recipe(const char *quant);

/* Opens a model's directory with these options, the callback and (if it has none) the store's
 * folder filled in. Does not load it. */
void test_model_open(struct test_model *m, const char *directory, const struct engine_options *o);
/* The same, and waits until it is loaded. */
void test_model_ready(struct test_model *m, const char *directory, const struct engine_options *o);
/* Loads it, and from then on an expert is read when a batch asks for it and at no other time. */
void test_model_load_calm(struct test_model *m);
void test_model_close(struct test_model *m);
/* Loads a model and waits for its store: while one is made, an expert may be made instead of read,
 * and the model may have to begin anew under the test's hands. */
void test_wait_converted(struct model *m);
/* The folder of stores that all share: made by the first call, and removed at the end. */
const char *test_stores(void);
void test_stores_remove(void);

/* The same as a group's teardown. */
int stores_remove(void **state);

/* The demonstration model that the tests of a program share. Setup of a group: loads it in the
 * default recipe; teardown: closes it and removes the stores. */
extern struct test_model fable;
int fable_load(void **state);
int fable_close(void **state);

struct session *test_session(struct test_model *m);
struct session *test_greedy_session(struct test_model *m);
void test_set(struct session *s, const char *param, const char *value);

/* Submits; fails the test if the prompt is not taken. The reference is the caller's. */
struct answer *test_submit(struct session *s, const char *prompt);

/* The session's next turn stands still once its answer has `bytes`, before anything more of it is
 * computed, until it is let go: what a test says of a turn that goes on, it says of a held one,
 * however slow the machine is. No lock is held meanwhile. All turns of the model stand, since one
 * thread computes them; one session is held at a time. */
void test_hold(struct session *s, uint64_t bytes);
/* Waits until the turn stands; fails the test if it ends before. */
void test_wait_held(void);
/* All of it: holds, submits, waits until the turn stands. The reference is the caller's. */
struct answer *test_submit_held(struct session *s, const char *prompt, uint64_t bytes);
/* Whoever waits for an answer lets go as well, and so does who closes a model: a test that failed
 * leaves nothing that stands. */
void test_let_go(void);

/* Wait until the answer has `bytes` or is complete; until it is complete. */
void test_wait_bytes(struct answer *a, uint64_t bytes);
void test_wait(struct answer *a);
/* Waits and gives up the reference: malloc'ed text, and the code that reading ends with. */
char *test_read(struct answer *a, int *code);
/* One turn that must succeed: submit, wait, read. malloc'ed. */
char *test_ask(struct session *s, const char *prompt);
/* The same, and the text is this one. */
void test_answer(struct session *s, const char *prompt, const char *want);
/* One turn that must fail with EIO; its sentence contains `words`. */
void test_ask_refused(struct session *s, const char *prompt, const char *words);

/* Both texts are freed. */
void test_same_text(char *one, char *other);
/* What one of a session's texts is, malloc'ed; that it is this one; writes it. */
char *test_text(const struct session *s, enum session_text what);
void test_expect_text(const struct session *s, enum session_text what, const char *want);
void test_write_text(struct session *s, enum session_text what, const char *text);
struct session_stats test_stats(const struct session *s);

/* A block of the demonstration model's context in F16: 64 positions of keys and values, 8 layers, 2
 * heads of 32. */
enum { TEST_BLOCK_BYTES = 64 * 2 * 8 * 2 * 32 * 2 };

#endif

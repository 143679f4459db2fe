/* The turns of one step take their logits side by side, on different threads, and each has the text
 * that it has alone. */
#include "session_help.h"

#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* In the first step that they share, `waits` takes its logits only once `other` has, and `other` only while
 * `waits` waits: else one thread that comes early could take both, one after the other. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	const struct session *waits, *other; /* NULL: nobody waits */
	bool waiting, taken;
	pthread_t thread[2]; /* that took them */
} meeting = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void __real_turn_take(struct turn_state *t, uint32_t row, const struct step_logits *logits,
		      const struct turn_scratch *x, struct turn_event *ev);
void __wrap_turn_take(struct turn_state *t, uint32_t row, const struct step_logits *logits,
		      const struct turn_scratch *x, struct turn_event *ev);

void __wrap_turn_take(struct turn_state *t, uint32_t row, const struct step_logits *logits,
		      const struct turn_scratch *x, struct turn_event *ev)
{
	const struct session *s = t->session;
	bool together = s->model->run->parties[0].count > 1;
	pthread_mutex_lock(&meeting.lock);
	if (together && s == meeting.waits && !meeting.taken) {
		meeting.thread[0] = pthread_self();
		meeting.waiting = true;
		pthread_cond_broadcast(&meeting.changed);
	}
	while (together && !meeting.taken &&
	       (s == meeting.waits || (s == meeting.other && !meeting.waiting)))
		pthread_cond_wait(&meeting.changed, &meeting.lock);
	pthread_mutex_unlock(&meeting.lock);
	__real_turn_take(t, row, logits, x, ev);
	pthread_mutex_lock(&meeting.lock);
	if (together && s == meeting.other && !meeting.taken) {
		meeting.thread[1] = pthread_self();
		meeting.taken = true;
		pthread_cond_broadcast(&meeting.changed);
	}
	pthread_mutex_unlock(&meeting.lock);
}

static void meeting_of(const struct session *waits, const struct session *other)
{
	pthread_mutex_lock(&meeting.lock);
	meeting.waits = waits;
	meeting.other = other;
	meeting.waiting = meeting.taken = false;
	pthread_cond_broadcast(&meeting.changed);
	pthread_mutex_unlock(&meeting.lock);
}

static const char FOX[] = "Once upon a time there was a fox";
static const char KING[] = "Once upon a time there was a king";

static struct session *storyteller(void)
{
	struct session *s = test_greedy_session(&fable);
	test_set(s, "chat", "off");
	test_set(s, "draft", "off");
	test_set(s, "max_tokens", "30");
	test_set(s, "logprobs", "2");
	return s;
}

/* Whichever of two turns waits, the other one goes on: so no thread takes the logits of both. */
static void a_turn_takes_its_logits_while_another_one_does(void **state)
{
	(void)state;
	int code;
	struct session *one = storyteller(), *two = storyteller();
	char *fox = test_ask(one, FOX), *king = test_ask(two, KING);
	session_end(one);
	session_end(two);
	for (int turn = 0; turn < 2; turn++) {
		one = storyteller();
		two = storyteller();
		meeting_of(turn ? one : two, turn ? two : one);
		test_hold(one, 0);
		struct answer *a = test_submit(one, FOX), *b = test_submit(two, KING);
		test_wait_held();
		test_let_go();
		test_same_text(test_read(a, &code), strdup(fox));
		test_same_text(test_read(b, &code), strdup(king));
		assert_true(meeting.taken);
		assert_false(pthread_equal(meeting.thread[0], meeting.thread[1]));
		session_end(one);
		session_end(two);
	}
	free(fox);
	free(king);
}

static int meeting_over(void **state)
{
	(void)state;
	meeting_of(NULL, NULL);
	test_let_go();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_turn_takes_its_logits_while_another_one_does,
					  meeting_over),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}

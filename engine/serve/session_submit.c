/* How turns of a session start: with a prompt, with what tools gave, or from the messages as they
 * stand (session.h). */
#include "cache/clock.h"
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* What a turn starts from. */
struct request {
	enum { ASK, RESULTS, ANSWER, RETRY, CONTINUE } kind;
	const char *text; /* of ASK */
	size_t length;
};

/* ---- the messages ---- */

/* Whether its prompt is a message, as far as can be known before the model is loaded. */
static bool chats(const struct session *s)
{
	const struct model *m = s->model;
	return s->params.chat == CHAT_ON ||
	       (s->params.chat == CHAT_UNSET &&
		(!atomic_load(&m->run.speaks) || model_run_chats(&m->run)));
}

static void log_results(struct session *s, const struct messages *results)
{
	for (size_t i = 0; i < results->count; i++) {
		size_t n;
		char *text = message_text(&results->items[i], &n);
		if (text)
			session_log_quoted(s, text, n);
		free(text);
	}
}

/* What tools gave goes along; a prompt that is no message fails its turn. */
static int add_prompt(struct session *s, const struct request *r, struct err *e)
{
	struct conversation *c = &s->conversation;
	struct turn *t = &s->turn;
	int failed = session_add_mark(s, e);
	if (failed)
		return failed;
	if (chats(s)) {
		log_results(s, &c->results);
		failed = messages_move(&c->messages, &c->results, 0, e);
		if (!failed && r->kind == ASK &&
		    messages_add(&c->messages, "user", r->text, r->length, &t->refused) == -ENOMEM)
			failed = err_set(e, ENOMEM, "%s", t->refused.text);
	}
	if (failed) {
		messages_cut(&c->messages, t->messages_before);
		s->undo_count--;
		return failed;
	}
	if (r->kind == ASK)
		session_log_quoted(s, r->text, r->length);
	s->undo[s->undo_count - 1].answer_log = s->log_size;
	return 0;
}

/* The last answer is taken out, of the log, too, if it is the last turn's. */
static int take_answer(struct session *s, struct err *e)
{
	struct messages *m = &s->conversation.messages;
	struct turn *t = &s->turn;
	int failed = messages_move(&t->taken, m, m->count - 1, e);
	if (failed)
		return failed;
	t->messages_before = m->count;
	messages_free(&s->conversation.results);
	const struct undo_mark *last = s->undo_count ? &s->undo[s->undo_count - 1] : NULL;
	if (last && last->messages <= m->count) /* else that turn was none of the conversation */
		s->log_size = last->answer_log;
	return 0;
}

static int change_messages(struct session *s, const struct request *r, struct err *e)
{
	s->turn.messages_before = s->conversation.messages.count;
	if (r->kind < RETRY)
		return add_prompt(s, r, e);
	struct messages *m = &s->conversation.messages;
	bool given = r->kind == CONTINUE && !s->tail.count;
	int failed = given ? turn_read_given(&s->turn, &m->items[m->count - 1], e) : 0;
	if (!failed)
		failed = take_answer(s, e);
	if (!failed && r->kind == CONTINUE && !given) {
		s->turn.earlier = s->tail;
		s->tail = (struct token_list){0};
	}
	return failed;
}

/* ---- the turn ---- */

static uint64_t random_seed(void)
{
	uint64_t seed;
	if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
		seed = clock_ns();
	return seed;
}

static int prepare_params(struct session *s, struct err *e)
{
	struct turn *t = &s->turn;
	int failed = params_copy(&t->params, &s->params, e);
	if (failed)
		return failed;
	t->sampling = (struct sampling){
		.temperature = (float)t->params.temperature,
		.top_k = (uint32_t)t->params.top_k,
		.top_p = (float)t->params.top_p,
		.min_p = (float)t->params.min_p,
		.seed = t->params.seed_random ? random_seed() : t->params.seed,
	};
	t->losses = params_losses(&t->params);
	return 0;
}

/* The session's own copy of the prompt, and the turn's. */
static int copy_prompt(struct session *s, const struct request *r, char **copy, struct err *e)
{
	struct turn *t = &s->turn;
	*copy = NULL;
	if (r->kind != ASK)
		return 0;
	t->prompt = malloc(r->length + 1);
	*copy = malloc(r->length + 1);
	if (!t->prompt || !*copy)
		return err_set(e, ENOMEM, "out of memory for a prompt of %zu bytes", r->length);
	t->prompt_length = r->length;
	memcpy(t->prompt, r->text, r->length);
	memcpy(*copy, r->text, r->length);
	return 0;
}

static int prepare_turn(struct session *s, const struct request *r, struct err *e)
{
	struct turn *t = &s->turn;
	char *copy = NULL;
	*t = (struct turn){.submitted_ns = clock_ns()};
	int failed = prepare_params(s, e);
	if (failed)
		return failed;
	struct answer *answer = answer_create(t->params.stream);
	if (!answer)
		failed = err_set(e, ENOMEM, "out of memory for an answer");
	if (!failed)
		failed = copy_prompt(s, r, &copy, e);
	if (!failed)
		failed = change_messages(s, r, e);
	if (failed) {
		free(copy);
		answer_unref(answer);
		turn_free(t);
		return failed;
	}
	if (copy) {
		free(s->prompt);
		s->prompt = copy;
		s->prompt_length = r->length;
	}
	answer_unref(s->answer);
	s->answer = answer;
	return 0;
}

static void fix_clock(struct conversation *c)
{
	time_t now = time(NULL);
	c->clock_set |= localtime_r(&now, &c->clock) != NULL;
}

static int submit_locked(struct session *s, const struct request *r, struct err *e)
{
	int failed = prepare_turn(s, r, e);
	if (failed)
		return failed;
	if (!s->conversation.clock_set)
		fix_clock(&s->conversation);
	session_start_turn(s);
	return 0;
}

/* ---- what can be asked for ---- */

/* Why there is nothing to answer, to make anew or to go on with; NULL: there is. */
static const char *nothing_to(const struct session *s, const struct request *r)
{
	const struct messages *m = &s->conversation.messages;
	const struct message *last = m->count ? &m->items[m->count - 1] : NULL;
	bool answered = last && message_is(last, "assistant");
	if (r->kind == RESULTS && !s->conversation.results.count)
		return "tool_result: there is no result to submit";
	if (r->kind == ANSWER && (!last || answered))
		return last ? "answer: the last message is an answer; echo retry > ctl replaces it"
			    : "answer: there are no messages to answer";
	if (r->kind == RETRY && !answered)
		return last ? "retry: the conversation does not end with an answer; echo answer > "
			      "ctl makes one"
			    : "retry: there are no messages yet";
	if (r->kind == CONTINUE && !answered)
		return "continue: the last message is not an answer; echo answer > ctl makes one";
	if (r->kind == CONTINUE && !s->tail.count && !s->written)
		return "continue: the last answer was not cut short; echo retry > ctl replaces it";
	return NULL;
}

static int check(const struct session *s, const struct request *r, struct err *e)
{
	if (s->working)
		return err_set(e, EBUSY,
			       "the session is still working on the last prompt; read output, or "
			       "echo stop > ctl");
	if (r->kind == ASK)
		return 0;
	if (!chats(s))
		return err_set(e, ENODATA, "this needs a conversation; echo on > params/chat");
	const char *why = nothing_to(s, r);
	return why ? err_set(e, ENODATA, "%s", why) : 0;
}

static int submit(struct session *s, const struct request *r, struct answer **answer, struct err *e)
{
	pthread_mutex_lock(&s->model->schedule.lock);
	int failed = check(s, r, e);
	if (!failed)
		failed = submit_locked(s, r, e);
	if (!failed && answer)
		*answer = answer_ref(s->answer);
	pthread_mutex_unlock(&s->model->schedule.lock);
	return failed;
}

int session_too_many_bytes(const char *what, size_t bytes, uint64_t most, struct err *e)
{
	err_set(e, EFBIG, "%s has %zu bytes; at most %llu are allowed (info/max_prompt_bytes)",
		what, bytes, (unsigned long long)most);
	err_number(e, "bytes", bytes);
	err_number(e, "maximum_bytes", most);
	return err_name(e, "prompt_too_long");
}

int session_submit(struct session *s, const char *text, size_t length, struct answer **answer,
		   struct err *e)
{
	if (length && text[length - 1] == '\n')
		length--;
	if (!length)
		return err_set(e, EINVAL, "the prompt is empty");
	if (length > model_max_prompt_bytes(s->model))
		return session_too_many_bytes("the prompt", length,
					      model_max_prompt_bytes(s->model), e);
	return submit(s, &(struct request){ASK, text, length}, answer, e);
}

static const struct request again_requests[] = {
	[SESSION_AGAIN_ANSWER] = {.kind = ANSWER},
	[SESSION_AGAIN_RETRY] = {.kind = RETRY},
	[SESSION_AGAIN_CONTINUE] = {.kind = CONTINUE},
};

int session_again_locked(struct session *s, enum session_again how, struct err *e)
{
	int failed = check(s, &again_requests[how], e);
	return failed ? failed : submit_locked(s, &again_requests[how], e);
}

int session_again(struct session *s, enum session_again how, struct answer **answer, struct err *e)
{
	return submit(s, &again_requests[how], answer, e);
}

int session_tool_results_submit(struct session *s, struct answer **answer, struct err *e)
{
	return submit(s, &(struct request){.kind = RESULTS}, answer, e);
}

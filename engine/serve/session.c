/* A conversation's public face (session.h): submitting, stopping, looking. */
#include "cache/clock.h"
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char *const status_words[] = {
	[SESSION_IDLE] = "idle",
	[SESSION_LOADING] = "loading",
	[SESSION_QUEUED] = "queued",
	[SESSION_PROMPTING] = "prompting",
	[SESSION_GENERATING] = "generating",
	[SESSION_DONE] = "done",
	[SESSION_STOPPED] = "stopped",
	[SESSION_ERROR] = "error",
};

static void lock(const struct session *s)
{
	pthread_mutex_lock(&s->model->schedule.lock);
}

static void unlock(const struct session *s)
{
	pthread_mutex_unlock(&s->model->schedule.lock);
}

/* ---- life ---- */

int session_create(struct session **out, struct model *m, const struct session *params_from,
		   void *user, struct err *e)
{
	struct session *s = calloc(1, sizeof *s);
	if (!s)
		return err_set(e, ENOMEM, "out of memory for a session");
	s->model = m;
	s->user = user;
	s->stats.finish = "";
	enum kv_type type = m->id.recipe.exact ? KV_F32 : KV_F16;
	context_init(&s->context, &m->engine->context_budget, &m->id.config, type);
	drafter_init(&s->drafter, &m->engine->context_budget, &m->id.config, type);
	pthread_mutex_lock(&m->schedule.lock);
	int failed = params_from ? params_copy(&s->params, &params_from->params, e)
				 : params_default(&s->params, &m->id.config, e);
	s->params.model_drafts = atomic_load(&m->id.drafts);
	if (!failed)
		m->schedule.sessions++;
	pthread_mutex_unlock(&m->schedule.lock);
	if (failed)
		free(s);
	else
		*out = s;
	return failed;
}

void session_free(struct session *s)
{
	s->model->schedule.sessions--;
	turn_free(&s->turn);
	context_free(&s->context);
	drafter_free(&s->drafter);
	token_list_free(&s->history);
	params_free(&s->params);
	answer_unref(s->answer);
	free(s->prompt);
	free(s->log);
	free(s->undo);
	free(s);
}

/* A step that waits for an expert does not wait on. Lock held. */
static void stop_step(struct session *s)
{
	atomic_store(&s->stop, true);
	pager_wake(s->model->engine->pager);
}

void session_end(struct session *s)
{
	struct model *m = s->model;
	pthread_mutex_lock(&m->schedule.notify);
	s->user = NULL;
	pthread_mutex_unlock(&m->schedule.notify);
	pthread_mutex_lock(&m->schedule.lock);
	if (s->queued)
		session_unqueue(s);
	if (s->answer)
		answer_finish(s->answer, -EIO); /* counts only if it was not complete */
	s->working = false;
	s->ended = true;
	stop_step(s);
	if (!s->stepping)
		session_free(s);
	pthread_mutex_unlock(&m->schedule.lock);
}

/* ---- turns ---- */

/* "> " before each line of the prompt: the log reads like a letter that quotes its question. */
static void log_prompt(struct session *s, const char *text, size_t n)
{
	const char *end = text + n;
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t line = newline ? (size_t)(newline - text) : (size_t)(end - text);
		session_log_append(s, "> ", 2);
		session_log_append(s, text, line);
		session_log_append(s, "\n", 1);
		text += line + 1;
	}
}

static int add_undo_mark(struct session *s, struct err *e)
{
	if (s->undo_count == s->undo_room) {
		size_t room = s->undo_room ? 2 * s->undo_room : 16;
		struct undo_mark *undo = realloc(s->undo, room * sizeof *undo);
		if (!undo)
			return err_set(e, ENOMEM, "out of memory for another turn");
		s->undo = undo;
		s->undo_room = room;
	}
	s->undo[s->undo_count++] = (struct undo_mark){s->history.count, s->log_size};
	return 0;
}

static uint64_t random_seed(void)
{
	uint64_t seed;
	if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
		seed = now_ns();
	return seed;
}

static int prepare_turn(struct session *s, const char *text, size_t length, struct err *e)
{
	struct turn *t = &s->turn;
	*t = (struct turn){.prompt_length = length, .submitted_ns = now_ns()};
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
	t->prompt = malloc(length + 1);
	char *copy = malloc(length + 1);
	struct answer *answer = answer_create(t->params.stream);
	if (!t->prompt || !copy || !answer)
		failed = err_set(e, ENOMEM, "out of memory for a prompt of %zu bytes", length);
	if (!failed)
		failed = add_undo_mark(s, e);
	if (failed) {
		free(copy);
		answer_unref(answer);
		turn_free(t);
		return failed;
	}
	memcpy(t->prompt, text, length);
	memcpy(copy, text, length);
	free(s->prompt);
	s->prompt = copy;
	s->prompt_length = length;
	answer_unref(s->answer);
	s->answer = answer;
	return 0;
}

static int submit_locked(struct session *s, const char *text, size_t length, struct err *e)
{
	if (s->working)
		return err_set(e, EBUSY,
			       "the session is still working on the last prompt; read output, or "
			       "echo stop > ctl");
	int failed = prepare_turn(s, text, length, e);
	if (failed)
		return failed;
	log_prompt(s, text, length);
	turn_start(s);
	return 0;
}

int session_submit(struct session *s, const char *text, size_t length, struct answer **answer,
		   struct err *e)
{
	if (length && text[length - 1] == '\n')
		length--;
	if (!length)
		return err_set(e, EINVAL, "the prompt is empty");
	if (length > model_max_prompt_bytes(s->model))
		return err_set(
			e, EFBIG,
			"the prompt has %zu bytes; at most %llu are taken (info/max_prompt_bytes)",
			length, (unsigned long long)model_max_prompt_bytes(s->model));
	lock(s);
	int failed = submit_locked(s, text, length, e);
	if (!failed && answer)
		*answer = answer_ref(s->answer);
	unlock(s);
	return failed;
}

void session_stop(struct session *s)
{
	lock(s);
	bool ended = s->working && s->queued;
	if (ended) {
		session_unqueue(s);
		turn_end(s, "stopped", 0, NULL);
	} else if (s->working) {
		stop_step(s);
	}
	unlock(s);
	if (ended)
		session_notify(s);
}

static int refuse_while_working(const char *verb, struct err *e)
{
	return err_set(e, EBUSY, "%s: the session is still working; echo stop > ctl first", verb);
}

int session_reset(struct session *s, struct err *e)
{
	lock(s);
	int failed = s->working ? refuse_while_working("reset", e) : 0;
	if (!failed) {
		context_rollback(&s->context, 0);
		drafter_drop(&s->drafter);
		s->history.count = s->undo_count = s->log_size = s->prompt_length = 0;
		answer_unref(s->answer);
		s->answer = NULL;
		s->stats = (struct session_stats){.finish = ""};
		s->error = (struct err){0};
		s->status = SESSION_IDLE;
	}
	unlock(s);
	if (!failed)
		session_notify(s);
	return failed;
}

int session_undo(struct session *s, struct err *e)
{
	lock(s);
	int failed = s->working ? refuse_while_working("undo", e) : 0;
	if (!failed && !s->undo_count)
		failed = err_set(e, ENODATA, "undo: the conversation has no turn to take back");
	if (!failed) {
		const struct undo_mark *mark = &s->undo[--s->undo_count];
		s->history.count = mark->history;
		s->log_size = mark->log;
	}
	unlock(s);
	if (!failed)
		session_notify(s);
	return failed;
}

/* ---- looking ---- */

enum session_status session_status(const struct session *s)
{
	lock(s);
	enum session_status status = s->status;
	unlock(s);
	return status;
}

const char *session_status_word(enum session_status status)
{
	return status_words[status];
}

bool session_working(const struct session *s)
{
	lock(s);
	bool working = s->working;
	unlock(s);
	return working;
}

void session_error(const struct session *s, char *text, size_t size)
{
	lock(s);
	(void)snprintf(text, size, "%s", s->error.text);
	unlock(s);
}

struct answer *session_answer(struct session *s)
{
	lock(s);
	struct answer *a = s->answer ? answer_ref(s->answer) : NULL;
	unlock(s);
	return a;
}

struct answer *session_thoughts(struct session *s)
{
	struct answer *a = session_answer(s);
	struct answer *thoughts = a ? answer_thoughts(a) : NULL;
	answer_unref(a);
	return thoughts;
}

struct answer *session_logprobs(struct session *s)
{
	struct answer *a = session_answer(s);
	struct answer *logprobs = a ? answer_logprobs(a) : NULL;
	answer_unref(a);
	return logprobs;
}

char *session_prompt(const struct session *s, size_t *length)
{
	lock(s);
	char *copy = malloc(s->prompt_length + 1);
	if (copy) {
		if (s->prompt_length)
			memcpy(copy, s->prompt, s->prompt_length);
		copy[s->prompt_length] = 0;
		*length = s->prompt_length;
	}
	unlock(s);
	return copy;
}

uint64_t session_log_size(const struct session *s)
{
	lock(s);
	uint64_t size = s->log_size;
	unlock(s);
	return size;
}

size_t session_log_read(const struct session *s, uint64_t offset, char *buffer, size_t bytes)
{
	lock(s);
	size_t n = 0;
	if (offset < s->log_size) {
		n = s->log_size - (size_t)offset < bytes ? s->log_size - (size_t)offset : bytes;
		memcpy(buffer, s->log + offset, n);
	}
	unlock(s);
	return n;
}

void session_stats(const struct session *s, struct session_stats *out)
{
	lock(s);
	*out = s->stats;
	unlock(s);
}

/* ---- params ---- */

int session_param_set(struct session *s, size_t i, const char *value, size_t length, struct err *e)
{
	lock(s);
	int failed = params_is_auto(i, value, length)
			     ? params_reset(&s->params, i, &s->model->id.config, e)
			     : params_set(&s->params, i, value, length, e);
	unlock(s);
	return failed;
}

char *session_param_get(const struct session *s, size_t i)
{
	const struct model *m = s->model;
	lock(s);
	/* Until the tokenizer is there, nothing speaks against a conversation. */
	bool has_chat = atomic_load(&m->schedule.state) != MODEL_READY || m->run.chat;
	char *text = params_get(&s->params, i, has_chat);
	unlock(s);
	return text;
}

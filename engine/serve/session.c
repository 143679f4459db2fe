/* A conversation's public face (session.h): stopping, taking back, looking; submitting is
 * session_submit.c's. */
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

struct session *session_alone(struct model *m, struct err *e)
{
	struct session *s = calloc(1, sizeof *s);
	enum kv_type type = m->id.recipe.exact ? KV_F32 : KV_F16;
	if (!s) {
		err_set(e, ENOMEM, "out of memory for a session");
		return NULL;
	}
	s->model = m;
	s->stats.finish = "";
	context_init(&s->context, &m->engine->context_budget, &m->id.config, type);
	drafter_init(&s->drafter, &m->engine->context_budget, &m->id.config, type);
	return s;
}

int session_create(struct session **out, struct model *m, const struct session *params_from,
		   void *user, struct err *e)
{
	struct session *s = session_alone(m, e);
	if (!s)
		return -e->code;
	s->user = user;
	pthread_mutex_lock(&m->schedule.lock);
	int failed = params_from ? params_copy(&s->params, &params_from->params, e)
				 : params_default(&s->params, &m->id.config, e);
	s->params.model_drafts = atomic_load(&m->id.drafts);
	if (!failed) {
		session_sync_system(s);
		m->schedule.sessions++;
	}
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
	conversation_free(&s->conversation);
	token_list_free(&s->tail);
	params_free(&s->params);
	answer_unref(s->answer);
	free(s->name);
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
		messages_free(&s->conversation.messages);
		messages_free(&s->conversation.results);
		s->conversation.clock_set = false;
		session_forget_turns(s);
		session_sync_system(s);
		free(s->log);
		s->log = NULL;
		s->log_size = s->log_room = s->prompt_length = 0;
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
	if (!failed && !session_take_back(s))
		failed = err_set(e, ENODATA, "undo: the conversation has no turn to take back");
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

void session_failure(const struct session *s, struct err *e)
{
	lock(s);
	*e = s->error;
	unlock(s);
}

void session_error(const struct session *s, char *text, size_t size)
{
	struct err e;
	session_failure(s, &e);
	(void)snprintf(text, size, "%s", e.text);
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

/* Where the template is known, what it does not read is refused at once. */
static int check_param(const struct session *s, const struct params *changed, struct err *e)
{
	const struct model *m = s->model;
	if (!atomic_load(&m->run.speaks) || !m->run.chat || changed->thinking == s->params.thinking)
		return 0;
	return conversation_check_thinking(m->run.chat, changed->thinking, e);
}

int session_param_set_locked(struct session *s, size_t i, const char *value, size_t length,
			     struct err *e)
{
	struct params changed;
	int failed = params_copy(&changed, &s->params, e);
	if (failed)
		return failed;
	failed = params_is_auto(i, value, length)
			 ? params_reset(&changed, i, &s->model->id.config, e)
			 : params_set(&changed, i, value, length, e);
	if (!failed)
		failed = check_param(s, &changed, e);
	if (failed) {
		params_free(&changed);
		return failed;
	}
	params_free(&s->params);
	s->params = changed;
	if (!s->working) /* else at the turn's end */
		session_sync_system(s);
	return 0;
}

/* The lock is held before and afterwards, but not while a grammar is compiled; so the format may be
 * another one by then. */
static int check_unlocked(struct session *s, size_t i, const char *value, size_t length,
			  struct err *e)
{
	enum format_mode format;
	int failed;
	do {
		format = s->params.format;
		unlock(s);
		failed = params_check(format, i, value, length, e);
		lock(s);
	} while (format != s->params.format);
	return failed;
}

/* Whether the grammar that was there before is a source for a new format. */
static void warn_of_grammar(struct session *s, struct err *e)
{
	lock(s);
	enum format_mode format = s->params.format;
	char *grammar = format < FORMAT_SCHEMA ? NULL : strdup(s->params.grammar);
	unlock(s);
	if (grammar)
		(void)params_check(format, params_find("grammar"), grammar, strlen(grammar), e);
	free(grammar);
}

int session_param_set(struct session *s, size_t i, const char *value, size_t length, struct err *e)
{
	bool checked = params_takes_long(i);
	struct err none;
	e = e ? e : &none;
	*e = (struct err){0};
	lock(s);
	int failed = checked ? check_unlocked(s, i, value, length, e) : 0;
	if (!failed)
		failed = session_param_set_locked(s, i, value, length, e);
	unlock(s);
	if (!failed && checked)
		warn_of_grammar(s, e);
	return failed;
}

char *session_param_get(const struct session *s, size_t i)
{
	const struct model *m = s->model;
	lock(s);
	/* Until the tokenizer is there, nothing speaks against a conversation. */
	bool has_chat = !atomic_load(&m->run.speaks) || model_run_chats(&m->run);
	char *text = params_get(&s->params, i, has_chat);
	unlock(s);
	return text;
}

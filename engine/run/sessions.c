/* The functions of session.h that any thread may call, which take the run's lock: creating and
 * ending sessions, turns, inspecting. The changes themselves are in engine/session. */
#include "cache/clock.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/change.h"
#include "engine/session/ending.h"
#include "engine/session/results.h"
#include "engine/session/session_state.h"
#include "engine/json/text_out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void session_lock(const struct session *s)
{
	pthread_mutex_lock(&s->model->run->lock);
}

static void session_unlock(const struct session *s)
{
	pthread_mutex_unlock(&s->model->run->lock);
}

/* ---- life ---- */

/* Lock held. */
static void session_enlist(struct session *s)
{
	struct run *r = s->model->run;
	s->all_next = r->all;
	if (s->all_next)
		s->all_next->all_previous = s;
	r->all = s;
	r->sessions++;
}

/* Lock held. */
static void session_strike_off(struct session *s)
{
	struct run *r = s->model->run;
	*(s->all_previous ? &s->all_previous->all_next : &r->all) = s->all_next;
	if (s->all_next)
		s->all_next->all_previous = s->all_previous;
	r->sessions--;
}

int session_create(struct session **out, struct model *m, const struct session *params_from,
		   void *user, struct err *e)
{
	struct session *s = session_alone(m, e);
	if (!s)
		return -e->code;
	s->user = user;
	pthread_mutex_lock(&m->run->lock);
	int failed = params_from ? params_copy(&s->params, &params_from->params, e)
				 : params_default(&s->params, &m->id.config, e);
	s->params.model_drafts = atomic_load(&m->id.drafts);
	if (!failed) {
		history_sync_system(s);
		session_enlist(s);
	}
	pthread_mutex_unlock(&m->run->lock);
	if (failed)
		free(s);
	else
		*out = s;
	return failed;
}

void session_drop(struct session *s)
{
	struct turn_state *t = s->turn;
	struct run *r = s->model->run;
	session_strike_off(s);
	session_free(s);
	turn_free(t);
	run_end_wait(r);
}

void session_end_turn(struct session *s, const char *finish, int failed, const struct err *e)
{
	struct run *r = s->model->run;
	s->stepping = true; /* keeps the session alive while the lock is released */
	turn_end(s, finish, failed, e);
	run_end_wait(r);
	pthread_mutex_unlock(&r->lock);
	run_notify(s);
	pthread_mutex_lock(&r->lock);
	s->stepping = false;
	if (s->ended)
		session_drop(s);
}

/* Makes a step that waits for an expert end. Lock held. */
static void session_stop_step(struct session *s)
{
	atomic_store(&s->stop, true);
	pager_wake(s->model->engine->pager);
}

void session_end(struct session *s)
{
	struct model *m = s->model;
	pthread_mutex_lock(&m->run->notify);
	s->user = NULL;
	pthread_mutex_unlock(&m->run->notify);
	pthread_mutex_lock(&m->run->lock);
	if (s->queued)
		run_unqueue(s);
	if (s->answer)
		answer_finish(s->answer, -EIO); /* no effect if the answer is complete */
	s->working = false;
	s->ended = true;
	session_stop_step(s);
	if (!s->stepping)
		session_drop(s);
	pthread_mutex_unlock(&m->run->lock);
}

/* Escapes spaces and backslashes as in /proc/mounts, so that a name is one column. */
static char *session_escape_name(const char *name)
{
	struct text_out o = {0};
	for (; *name; name++)
		if (*name == ' ' || *name == '\\')
			text_out_string(&o, *name == ' ' ? "\\040" : "\\134");
		else
			text_out_add(&o, name, 1);
	if (!o.failed)
		return o.bytes;
	text_out_free(&o);
	return NULL;
}

void session_name(struct session *s, uint32_t owner, const char *name)
{
	char *text = session_escape_name(name), *before;
	pthread_mutex_lock(&s->model->run->lock);
	before = s->name;
	s->name = text;
	s->owner = owner;
	pthread_mutex_unlock(&s->model->run->lock);
	free(before);
}

bool session_shares(const struct session *s)
{
	session_lock(s);
	bool shares = !s->context_private;
	session_unlock(s);
	return shares;
}

void session_share_like(struct session *fork, const struct session *original, bool shares)
{
	session_lock(fork);
	memcpy(fork->params.share_with, original->params.share_with,
	       sizeof fork->params.share_with);
	fork->context_private = !shares;
	fork->context_given_up = original->context_given_up && !fork->context.tokens.count;
	session_unlock(fork);
}

/* ---- turns ---- */

/* Lock held. *answer (answer may be NULL) receives a reference to the answer to come. */
static int session_begin(struct session *s, const struct asking *a, struct answer **answer,
			 struct err *e)
{
	int failed = asked_check(s, a, e);
	if (failed)
		return failed;
	struct turn_state *t = turn_new(s, &s->model->run->env);
	failed = t ? asked_take(s, a, e) : err_set(e, ENOMEM, "out of memory for a turn");
	if (failed) {
		turn_free(t);
		return failed;
	}
	run_start_turn(s, t);
	if (answer)
		*answer = answer_ref(s->answer);
	return 0;
}

static int session_ask(struct session *s, const struct asking *a, struct answer **answer,
		       struct err *e)
{
	session_lock(s);
	int failed = session_begin(s, a, answer, e);
	session_unlock(s);
	return failed;
}

static size_t session_without_newline(const char *text, size_t length)
{
	return length && text[length - 1] == '\n' ? length - 1 : length;
}

int session_submit(struct session *s, const char *text, size_t length, struct answer **answer,
		   struct err *e)
{
	length = session_without_newline(text, length);
	return session_ask(s, &(struct asking){ASK_PROMPT, text, length}, answer, e);
}

int session_score(struct session *s, const char *text, size_t length, struct answer **answer,
		  struct err *e)
{
	length = session_without_newline(text, length);
	return session_ask(s, &(struct asking){ASK_SCORE, text, length}, answer, e);
}

int session_embed(struct session *s, const char *text, size_t length, bool array,
		  struct answer **answer, struct err *e)
{
	length = session_without_newline(text, length);
	return session_ask(
		s, &(struct asking){array ? ASK_EMBED_ALL : ASK_EMBED, text, length}, answer, e);
}

int session_again(struct session *s, enum session_again how, struct answer **answer, struct err *e)
{
	const struct asking a = asked_again(how);
	return session_ask(s, &a, answer, e);
}

int session_tool_results_submit(struct session *s, struct answer **answer, struct err *e)
{
	return session_ask(s, &(struct asking){.kind = ASK_RESULTS}, answer, e);
}

/* Lock held, released while grammars are compiled; the format may change meanwhile. */
static int session_check_changes(struct session *s, const struct session_change *changes,
				 size_t count, struct err *e)
{
	enum format_mode format;
	int failed;
	do {
		format = s->params.format;
		session_unlock(s);
		failed = change_check_params(s, format, changes, count, e);
		session_lock(s);
	} while (format != s->params.format);
	return failed;
}

/* Lock held. */
static int session_change_and_begin(struct session *s, struct change *c, enum session_again how,
				    const struct session_change *changes, size_t count,
				    struct err *e)
{
	const struct asking again = asked_again(how);
	if (s->working)
		return asked_check(s, &again, e);
	struct turn_state *t = turn_new(s, &s->model->run->env);
	int failed = t ? change_apply(s, c, changes, count, how, e)
		       : err_set(e, ENOMEM, "out of memory for a turn");
	if (failed)
		turn_free(t);
	else
		run_start_turn(s, t);
	return failed;
}

int session_again_changed(struct session *s, enum session_again how,
			  const struct session_change *changes, size_t count, struct err *e)
{
	struct change c = {0};
	int failed = change_read(&c, changes, count, e);
	if (!failed) {
		session_lock(s);
		failed = session_check_changes(s, changes, count, e);
		if (!failed)
			failed = session_change_and_begin(s, &c, how, changes, count, e);
		session_unlock(s);
	}
	change_free(&c);
	return failed;
}

int session_tool_results_add(struct session *s, const struct session_result *results, size_t count,
			     bool *complete, struct err *e)
{
	struct json *parsed[SESSION_RESULTS_MOST];
	size_t n = 0;
	int failed = count <= SESSION_RESULTS_MOST
			     ? 0
			     : err_set(e, EFBIG, "tool_result: more than %d results at once",
				       SESSION_RESULTS_MOST);
	*complete = false;
	for (; n < count && !failed; n++)
		failed = results_read(s, &results[n], &parsed[n], e);
	if (!failed) {
		session_lock(s);
		failed = results_add(s, parsed, results, count, complete, e);
		session_unlock(s);
	}
	while (n)
		json_free(parsed[--n]);
	*complete &= !failed;
	return failed;
}

int session_tool_result_add(struct session *s, const char *text, size_t length, bool *complete,
			    struct err *e)
{
	return session_tool_results_add(s, &(struct session_result){text, length}, 1, complete, e);
}

void session_stop(struct session *s)
{
	session_lock(s);
	bool ended = s->working && s->queued;
	if (ended) {
		run_unqueue(s);
		turn_end(s, "stopped", 0, NULL);
		run_end_wait(s->model->run);
	} else if (s->working) {
		session_stop_step(s);
	}
	session_unlock(s);
	if (ended)
		run_notify(s);
}

static int session_refuse_while_working(const char *verb, struct err *e)
{
	return err_set(e, EBUSY, "%s: the session is still working; echo stop > ctl first", verb);
}

int session_reset(struct session *s, struct err *e)
{
	session_lock(s);
	int failed = s->working ? session_refuse_while_working("reset", e) : 0;
	if (!failed)
		session_forget(s);
	session_unlock(s);
	if (!failed)
		run_notify(s);
	return failed;
}

int session_undo(struct session *s, struct err *e)
{
	session_lock(s);
	int failed = s->working ? session_refuse_while_working("undo", e) : 0;
	if (!failed && !history_take_back(s))
		failed = err_set(e, ENODATA, "undo: the conversation has no turn to take back");
	session_unlock(s);
	if (!failed)
		run_notify(s);
	return failed;
}

/* ---- looking ---- */

enum session_status session_status(const struct session *s)
{
	session_lock(s);
	enum session_status status = s->status;
	session_unlock(s);
	return status;
}

typedef void session_each_fn(void *ctx, const struct session_waiting *w);

/* Lock held. Calls `each` for each waiting session from s on. */
static void session_show_waiting(const struct session *s, session_each_fn *each, void *ctx)
{
	for (; s; s = s->next) {
		const struct session_waiting w = {
			.session = s->name ? s->name : "-",
			.owner = s->owner,
			.priority = s->asked.params.priority,
			.waits = session_waits(s),
			.seconds = clock_seconds_since(s->asked.submitted_ns),
		};
		if (w.waits && !s->background)
			each(ctx, &w);
	}
}

void session_each_waiting(struct model *m, session_each_fn *each, void *ctx)
{
	struct run *r = m->run;
	pthread_mutex_lock(&r->lock);
	session_show_waiting(r->runnable.first, each, ctx);
	session_show_waiting(r->preparing, each, ctx); /* it is in no list */
	session_show_waiting(r->unprepared.first, each, ctx);
	pthread_mutex_unlock(&r->lock);
}

bool session_working(const struct session *s)
{
	session_lock(s);
	bool working = s->working;
	session_unlock(s);
	return working;
}

void session_failure(const struct session *s, struct err *e)
{
	session_lock(s);
	*e = s->error;
	session_unlock(s);
}

void session_error(const struct session *s, char *text, size_t size)
{
	struct err e;
	session_failure(s, &e);
	(void)snprintf(text, size, "%s", e.text);
}

struct answer *session_answer(struct session *s)
{
	session_lock(s);
	struct answer *a = s->answer ? answer_ref(s->answer) : NULL;
	session_unlock(s);
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
	session_lock(s);
	char *copy = malloc(s->prompt_length + 1);
	if (copy) {
		if (s->prompt_length)
			memcpy(copy, s->prompt, s->prompt_length);
		copy[s->prompt_length] = 0;
		*length = s->prompt_length;
	}
	session_unlock(s);
	return copy;
}

uint64_t session_log_size(const struct session *s)
{
	session_lock(s);
	uint64_t size = s->log_size;
	session_unlock(s);
	return size;
}

size_t session_log_read(const struct session *s, uint64_t offset, char *buffer, size_t bytes)
{
	session_lock(s);
	size_t n = 0;
	if (offset < s->log_size) {
		n = s->log_size - (size_t)offset < bytes ? s->log_size - (size_t)offset : bytes;
		memcpy(buffer, s->log + offset, n);
	}
	session_unlock(s);
	return n;
}

void session_stats(const struct session *s, struct session_stats *out)
{
	session_lock(s);
	*out = s->stats;
	out->waits = session_waits(s);
	out->on_disk_tokens =
		s->offloaded && !s->offloaded->failed ? s->offloaded->positions : 0;
	if (out->waits == SESSION_WAITS_MODEL || out->waits == SESSION_WAITS_TURN)
		out->queued_seconds = clock_seconds_since(s->asked.submitted_ns);
	session_unlock(s);
}

/* ---- params ---- */

/* Lock held, released while a grammar is compiled; the format may change meanwhile. */
static int session_check_unlocked(struct session *s, size_t i, const char *value, size_t length,
				  struct err *e)
{
	enum format_mode format;
	int failed;
	do {
		format = s->params.format;
		session_unlock(s);
		failed = params_check(format, i, value, length, e);
		session_lock(s);
	} while (format != s->params.format);
	return failed;
}

/* Warns if the existing grammar is not valid in the new format. */
static void session_warn_of_grammar(struct session *s, struct err *e)
{
	session_lock(s);
	enum format_mode format = s->params.format;
	char *grammar = format < FORMAT_SCHEMA ? NULL : strdup(s->params.grammar);
	session_unlock(s);
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
	session_lock(s);
	int failed = checked ? session_check_unlocked(s, i, value, length, e) : 0;
	if (!failed)
		failed = session_set_param(s, i, value, length, e);
	session_unlock(s);
	if (!failed && checked)
		session_warn_of_grammar(s, e);
	return failed;
}

/* Whether prompts are conversations by default. True until the tokenizer is loaded. */
static bool session_has_chat(const struct model *m)
{
	return !atomic_load(&m->loaded.speaks) || model_loaded_chats(&m->loaded);
}

char *session_param_get(const struct session *s, size_t i)
{
	session_lock(s);
	char *text = params_get(&s->params, i, session_has_chat(s->model));
	session_unlock(s);
	return text;
}

char *session_params_json(const struct model *m)
{
	struct params defaults;
	if (params_default(&defaults, &m->id.config, NULL))
		return NULL;
	char *text = params_json(&defaults, session_has_chat(m));
	params_free(&defaults);
	return text;
}

/* Creating and freeing sessions, and their params. */
#include "engine/session/session_state.h"

#include "engine/model/model_state.h"

#include <errno.h>
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

const char *const session_wait_words[] = {[SESSION_WAITS_NOT] = "-",
					  [SESSION_WAITS_MODEL] = "model",
					  [SESSION_WAITS_TURN] = "turn",
					  [SESSION_WAITS_ROOM] = "room"};

const char *session_status_word(enum session_status status)
{
	return status_words[status];
}

/* ---- life ---- */

struct session *session_alone(struct model *m, struct err *e)
{
	struct session *s = calloc(1, sizeof *s);
	enum kv_type type = model_kv_type(&m->id);
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

enum session_wait session_waits(const struct session *s)
{
	if (!s->working)
		return SESSION_WAITS_NOT;
	if (s->waits_for_room)
		return SESSION_WAITS_ROOM;
	return s->status == SESSION_LOADING  ? SESSION_WAITS_MODEL
	       : s->status == SESSION_QUEUED ? SESSION_WAITS_TURN
					     : SESSION_WAITS_NOT;
}

void session_free(struct session *s)
{
	asked_free(&s->asked);
	answering_free(&s->answering);
	text_out_free(&s->called);
	context_free(&s->context);
	offload_drop(s->offloaded);
	drafter_free(&s->drafter);
	dialogue_free(&s->dialogue);
	token_list_free(&s->tail);
	params_free(&s->params);
	answer_unref(s->answer);
	free(s->name);
	free(s->prompt);
	free(s->log);
	free(s->why);
	free(s->chosen);
	free(s->undo);
	free(s);
}

void session_forget(struct session *s)
{
	context_rollback(&s->context, 0);
	offload_drop(s->offloaded);
	s->offloaded = NULL;
	drafter_drop(&s->drafter);
	messages_free(&s->dialogue.messages);
	messages_free(&s->dialogue.results);
	s->dialogue.clock_set = false;
	history_forget_turns(s);
	history_sync_system(s);
	free(s->log);
	free(s->why);
	free(s->chosen);
	s->log = s->why = s->chosen = NULL;
	atomic_store(&s->prefix, 0);
	s->log_size = s->log_room = s->prompt_length = 0;
	answer_unref(s->answer);
	s->answer = NULL;
	s->stats = (struct session_stats){.finish = ""};
	s->error = (struct err){0};
	s->status = SESSION_IDLE;
}

/* ---- params ---- */

/* Refuses a value of params/thinking at once if the template is known and does not support it. */
static int session_check_param(const struct session *s, const struct params *changed, struct err *e)
{
	const struct model *m = s->model;
	if (!atomic_load(&m->loaded.speaks) || !m->loaded.chat ||
	    changed->thinking == s->params.thinking)
		return 0;
	return dialogue_check_thinking(m->loaded.chat, changed->thinking, e);
}

int session_set_param(struct session *s, size_t i, const char *value, size_t length, struct err *e)
{
	struct params changed;
	int failed = params_copy(&changed, &s->params, e);
	if (failed)
		return failed;
	failed = params_is_auto(i, value, length)
			 ? params_reset(&changed, i, &s->model->id.config, e)
			 : params_set(&changed, i, value, length, e);
	if (!failed)
		failed = session_check_param(s, &changed, e);
	if (failed) {
		params_free(&changed);
		return failed;
	}
	params_free(&s->params);
	s->params = changed;
	if (!s->working) /* else at the turn's end */
		history_sync_system(s);
	return 0;
}

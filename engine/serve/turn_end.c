/* The end of a turn: its answer becomes a message, or the turn was never there. */
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void turn_free(struct turn *t)
{
	free(t->prompt);
	messages_free(&t->taken);
	token_list_free(&t->earlier);
	text_out_free(&t->given);
	text_out_free(&t->given_thoughts);
	params_free(&t->params);
	token_list_free(&t->ids);
	sampler_repetition_free(&t->repetition);
	logprobs_free(&t->logprobs);
	answering_free(&t->answering);
	constrain_end(&t->constraint);
	*t = (struct turn){0};
}

/* The conversation goes on from what the model saw and said. */
static int keep_answer(struct session *s)
{
	struct err ignored;
	return answering_message(s, &s->conversation.messages, &ignored);
}

/* As if it had not been; the memory for what it took is still there. */
static void forget_turn(struct session *s)
{
	struct turn *t = &s->turn;
	struct err ignored;
	messages_cut(&s->conversation.messages, t->messages_before);
	(void)messages_move(&s->conversation.messages, &t->taken, 0, &ignored);
	if (!t->earlier.count)
		return;
	token_list_free(&s->tail);
	s->tail = t->earlier;
	t->earlier = (struct token_list){0};
}

/* An answer that was cut short can be gone on with from its own ids. */
static void keep_tail(struct session *s, const char *finish)
{
	const struct turn *t = &s->turn;
	struct err ignored;
	s->tail.count = 0;
	s->written = false;
	if (!strcmp(finish, "length") || !strcmp(finish, "stopped"))
		(void)token_list_append(&s->tail, t->ids.ids + t->rendered_ids,
					t->ids.count - t->rendered_ids, &ignored);
}

/* What was still held may be a stop text, or the end of a call. */
static const char *flush(struct session *s, const char *finish)
{
	const struct answering *a = &s->turn.answering;
	struct err ignored; /* without memory for what is held, the rest stands */
	(void)answering_end(s, strcmp(finish, "end") != 0, &ignored);
	if (a->stops.stopped && strcmp(finish, "stopped") != 0)
		return "stop";
	return a->calls && !strcmp(finish, "end") ? "tool_calls" : finish;
}

static const char *end_answer(struct session *s, const char *finish, bool failed)
{
	const struct turn *t = &s->turn;
	if (t->begun && !failed)
		finish = flush(s, finish);
	else if (t->begun)
		(void)flush(s, finish);
	if (!failed && t->begun && t->chat && !keep_answer(s))
		keep_tail(s, finish);
	else
		forget_turn(s);
	session_sync_system(s);
	return finish;
}

void turn_end(struct session *s, const char *finish, int failed, const struct err *e)
{
	struct turn *t = &s->turn;
	bool scored = t->score.read != NULL; /* that is no part of the conversation */
	if (!scored)
		finish = end_answer(s, finish, failed != 0);
	s->status = failed			? SESSION_ERROR
		    : strcmp(finish, "stopped") ? SESSION_DONE
						: SESSION_STOPPED;
	s->stats.finish = finish;
	s->stats.stop = strcmp(finish, "stop") ? 0 : (uint32_t)t->answering.stops.met + 1;
	s->error = (struct err){0};
	if (failed)
		s->error = *e;
	s->working = false;
	/* Last, since whoever sees the answer complete may submit the next prompt. */
	answer_finish(s->answer, failed ? -EIO : 0);
	if (!scored) {
		answering_log(s);
		session_log_append(s, "\n", 1);
	}
	turn_free(t);
}

bool turn_over(struct session *s, const char *finish, int failed, const struct err *e)
{
	if (failed == -ECANCELED) {
		finish = "stopped";
		failed = 0;
	}
	pthread_mutex_lock(&s->model->schedule.lock);
	s->model->stored.doubted |= failed != 0;
	if (s->working) /* not ended by session_end meanwhile */
		turn_end(s, finish, failed, e);
	pthread_mutex_unlock(&s->model->schedule.lock);
	return false;
}

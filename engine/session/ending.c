#include "engine/session/ending.h"

#include "engine/session/session_state.h"

#include <errno.h>
#include <string.h>

/* Adds the answer to the conversation. */
static int ending_keep_answer(struct session *s)
{
	struct err ignored;
	return answering_message(&s->answering, &s->dialogue.messages, &ignored);
}

/* Keeps the ids of an answer that was cut short, so that it can be continued. */
static void ending_keep_tail(struct session *s, const struct ending *x, const char *finish)
{
	struct err ignored;
	s->tail.count = 0;
	s->written = false;
	if (!strcmp(finish, "length") || !strcmp(finish, "repetition") ||
	    !strcmp(finish, "stopped"))
		(void)token_list_append(&s->tail, x->ids, x->count, &ignored);
}

/* Takes the text that was held back because it could have become a stop text or the end of a call.
 */
static const char *ending_flush(struct session *s, const char *finish)
{
	const struct answering *a = &s->answering;
	struct err ignored; /* if memory runs out, only the held-back text is lost */
	struct answering_piece rest = {0};
	(void)answering_end(&s->answering, &s->dialogue.messages, strcmp(finish, "end") != 0, &rest,
			    &ignored);
	(void)answering_publish(s, &rest, &ignored);
	answering_free_piece(&rest);
	if (a->stops.stopped && strcmp(finish, "stopped") != 0)
		return "stop";
	return a->calls && !strcmp(finish, "end") ? "tool_calls" : finish;
}

static const char *ending_answer(struct session *s, const struct ending *x)
{
	const char *finish = x->finish;
	if (x->begun && !x->failed)
		finish = ending_flush(s, finish);
	else if (x->begun)
		(void)ending_flush(s, finish);
	if (!x->failed && x->begun && x->chat && !ending_keep_answer(s))
		ending_keep_tail(s, x, finish);
	else
		asked_undo(s);
	history_sync_system(s);
	return finish;
}

void ending_apply(struct session *s, const struct ending *x)
{
	bool scored = s->asked.scores; /* not part of the conversation */
	const char *finish = scored ? x->finish : ending_answer(s, x);
	s->status = x->failed			? SESSION_ERROR
		    : strcmp(finish, "stopped") ? SESSION_DONE
						: SESSION_STOPPED;
	s->stats.finish = finish;
	s->stats.stop = strcmp(finish, "stop") ? 0 : (uint32_t)s->answering.stops.met + 1;
	s->error = (struct err){0};
	if (x->failed)
		s->error = *x->e;
	s->working = false;
	answer_finish(s->answer, x->failed ? -EIO : 0);
	if (!scored) {
		answering_log(s);
		history_log(s, "\n", 1);
	}
	answering_free(&s->answering);
	text_out_free(&s->called);
	asked_free(&s->asked);
}

/* Changes to a session and the turn that they are for, all or nothing (session.h).
 *
 * What takes long is read before, without the lock. Under it the old messages, tools and params are
 * moved aside and not copied, and moved back if anything is refused. */
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>
#include <stdlib.h>

struct change {
	/* What was read, and after the exchange what was there. */
	struct messages messages;
	struct document tools;
	bool has_messages, has_tools;
	char *system; /* of the messages that were read */
	/* What goes with the old messages and params. */
	struct messages results;
	struct undo_mark *undo;
	size_t undo_count, undo_room;
	struct token_list tail;
	struct params params;
};

static int read_text(struct change *c, const struct session_change *of, struct err *e)
{
	struct conversation read = {0};
	if (of->which == SESSION_MESSAGES && !c->has_messages) {
		int failed = session_read_messages(&c->messages, &c->system, of->value, of->length,
						   e);
		c->has_messages = !failed;
		return failed;
	}
	if (of->which != SESSION_TOOLS || c->has_tools)
		return err_set(e, EINVAL, "messages and tools can be given once each");
	int failed = conversation_set_tools(&read, of->value, of->length, e);
	c->tools = read.tools;
	c->has_tools = !failed;
	return failed;
}

#define SWAP(a, b)                     \
	do {                           \
		__typeof__(a) was = a; \
		(a) = b;               \
		(b) = was;             \
	} while (0)

/* Does it, and done again undoes it. Lock held. */
static void exchange(struct session *s, struct change *c)
{
	if (c->has_messages) {
		SWAP(s->conversation.messages, c->messages);
		SWAP(s->conversation.results, c->results);
		SWAP(s->undo, c->undo);
		SWAP(s->undo_count, c->undo_count);
		SWAP(s->undo_room, c->undo_room);
		SWAP(s->tail, c->tail);
	}
	if (c->has_tools)
		SWAP(s->conversation.tools, c->tools);
}

/* Lock held; no turn runs, and the old params are in c. */
static int apply(struct session *s, struct change *c, const struct session_change *changes,
		 size_t count, enum session_again how, struct err *e)
{
	int failed = 0;
	exchange(s, c);
	if (c->has_messages) {
		free(s->params.system);
		s->params.system = c->system;
		c->system = NULL;
	}
	for (size_t i = 0; i < count && !failed; i++)
		if (changes[i].kind == SESSION_CHANGE_PARAM)
			failed = session_param_set_locked(s, changes[i].which, changes[i].value,
							  changes[i].length, e);
	if (!failed)
		failed = session_again_locked(s, how, e);
	if (failed) {
		SWAP(s->params, c->params);
		exchange(s, c);
		session_sync_system(s);
	}
	return failed;
}

static void change_free(struct change *c)
{
	messages_free(&c->messages);
	messages_free(&c->results);
	conversation_free(&(struct conversation){.tools = c->tools});
	token_list_free(&c->tail);
	params_free(&c->params);
	free(c->undo);
	free(c->system);
}

static int check_param(struct session *s, struct params *p, const struct session_change *of,
		       struct err *e)
{
	int failed = params_check(p->format, of->which, of->value, of->length, e);
	if (failed || !params_takes_long(of->which))
		return failed;
	return params_is_auto(of->which, of->value, of->length)
		       ? params_reset(p, of->which, &s->model->id.config, e)
		       : params_set(p, of->which, of->value, of->length, e);
}

/* A grammar is checked against the format that it is for: the session's, or one that stands before
 * it. Without the lock, as compiling takes long. */
static int check_params(struct session *s, enum format_mode format,
			const struct session_change *changes, size_t count, struct err *e)
{
	struct params p;
	int failed = params_default(&p, &s->model->id.config, e);
	if (failed)
		return failed;
	p.format = format;
	for (size_t i = 0; i < count && !failed; i++)
		if (changes[i].kind == SESSION_CHANGE_PARAM)
			failed = check_param(s, &p, &changes[i], e);
	params_free(&p);
	return failed;
}

/* Lock held before and afterwards. */
static int check_unlocked(struct session *s, const struct session_change *changes, size_t count,
			  struct err *e)
{
	enum format_mode format;
	int failed;
	do {
		format = s->params.format;
		pthread_mutex_unlock(&s->model->schedule.lock);
		failed = check_params(s, format, changes, count, e);
		pthread_mutex_lock(&s->model->schedule.lock);
	} while (format != s->params.format);
	return failed;
}

int session_again_changed(struct session *s, enum session_again how,
			  const struct session_change *changes, size_t count, struct err *e)
{
	struct change c = {0};
	int failed = 0;
	for (size_t i = 0; i < count && !failed; i++)
		if (changes[i].kind == SESSION_CHANGE_TEXT)
			failed = read_text(&c, &changes[i], e);
	if (!failed) {
		pthread_mutex_lock(&s->model->schedule.lock);
		failed = check_unlocked(s, changes, count, e);
		if (!failed)
			failed = s->working ? session_again_locked(s, how, e)
					    : params_copy(&c.params, &s->params, e);
		if (!failed)
			failed = apply(s, &c, changes, count, how, e);
		pthread_mutex_unlock(&s->model->schedule.lock);
	}
	change_free(&c);
	return failed;
}

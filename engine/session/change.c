/* Changes to a session together with the turn that uses them, all or nothing (session.h).
 *
 * Slow work is done before, without the lock. With the lock held, the old messages, tools and
 * params are moved aside without copying, and moved back after an error. */
#include "engine/model/model_state.h"
#include "engine/session/change.h"
#include "engine/session/session_state.h"
#include "engine/session/texts.h"

#include <errno.h>
#include <stdlib.h>

static int change_read_text(struct change *c, const struct session_change *of, struct err *e)
{
	struct dialogue read = {0};
	if (of->which == SESSION_MESSAGES && !c->has_messages) {
		int failed =
			texts_read_messages(&c->messages, &c->system, of->value, of->length, e);
		c->has_messages = c->written = !failed;
		return failed;
	}
	if (of->which != SESSION_TOOLS || c->has_tools)
		return err_set(e, EINVAL, "messages and tools can be given once each");
	int failed = dialogue_set_tools(&read, of->value, of->length, e);
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

/* Swaps old and new values; a second call undoes the first. Lock held. */
static void change_exchange(struct session *s, struct change *c)
{
	if (c->has_messages) {
		SWAP(s->dialogue.messages, c->messages);
		SWAP(s->dialogue.results, c->results);
		SWAP(s->undo, c->undo);
		SWAP(s->undo_count, c->undo_count);
		SWAP(s->undo_room, c->undo_room);
		SWAP(s->tail, c->tail);
		SWAP(s->written, c->written);
	}
	if (c->has_tools)
		SWAP(s->dialogue.tools, c->tools);
}

int change_apply(struct session *s, struct change *c, const struct session_change *changes,
		 size_t count, enum session_again how, struct err *e)
{
	int failed = params_copy(&c->params, &s->params, e);
	if (failed)
		return failed;
	change_exchange(s, c);
	if (c->has_messages) {
		free(s->params.system);
		s->params.system = c->system;
		c->system = NULL;
	}
	for (size_t i = 0; i < count && !failed; i++)
		if (changes[i].kind == SESSION_CHANGE_PARAM)
			failed = session_set_param(s, changes[i].which, changes[i].value,
						   changes[i].length, e);
	const struct asking again = asked_again(how);
	if (!failed)
		failed = asked_check(s, &again, e);
	if (!failed)
		failed = asked_take(s, &again, e);
	if (failed) {
		SWAP(s->params, c->params);
		change_exchange(s, c);
		history_sync_system(s);
	}
	return failed;
}

void change_free(struct change *c)
{
	messages_free(&c->messages);
	messages_free(&c->results);
	dialogue_free(&(struct dialogue){.tools = c->tools});
	token_list_free(&c->tail);
	params_free(&c->params);
	free(c->undo);
	free(c->system);
}

static int change_check_param(const struct session *s, struct params *p,
			      const struct session_change *of, struct err *e)
{
	int failed = params_check(p->format, of->which, of->value, of->length, e);
	if (failed || !params_takes_long(of->which))
		return failed;
	return params_is_auto(of->which, of->value, of->length)
		       ? params_reset(p, of->which, &s->model->id.config, e)
		       : params_set(p, of->which, of->value, of->length, e);
}

int change_check_params(const struct session *s, enum format_mode format,
			const struct session_change *changes, size_t count, struct err *e)
{
	struct params p;
	int failed = params_default(&p, &s->model->id.config, e);
	if (failed)
		return failed;
	p.format = format;
	for (size_t i = 0; i < count && !failed; i++)
		if (changes[i].kind == SESSION_CHANGE_PARAM)
			failed = change_check_param(s, &p, &changes[i], e);
	params_free(&p);
	return failed;
}

int change_read(struct change *c, const struct session_change *changes, size_t count, struct err *e)
{
	int failed = 0;
	for (size_t i = 0; i < count && !failed; i++)
		if (changes[i].kind == SESSION_CHANGE_TEXT)
			failed = change_read_text(c, &changes[i], e);
	return failed;
}

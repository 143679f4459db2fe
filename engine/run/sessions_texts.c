/* The texts of a session, and its state as a file (session.h), under the run's lock. */
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"
#include "engine/session/state.h"
#include "engine/session/texts.h"

#include <errno.h>
#include <stdlib.h>

static void session_lock(const struct session *s)
{
	pthread_mutex_lock(&s->model->run->lock);
}

static void session_unlock(const struct session *s)
{
	pthread_mutex_unlock(&s->model->run->lock);
}

/* ---- reading ---- */

/* Copied under the lock, rendered without. */
static int session_render(const struct session *s, bool count, struct text_out *out, struct err *e)
{
	struct texts_copy c;
	session_lock(s);
	int failed = texts_copy(s, &c, e);
	session_unlock(s);
	if (failed)
		return failed;
	failed = texts_render(s->model, &c, count, out, e);
	texts_copy_free(&c);
	return failed;
}

char *session_text_get(const struct session *s, enum session_text what, size_t *length,
		       struct err *e)
{
	struct text_out out = {0};
	int failed = 0;
	if (what == SESSION_RENDERED || what == SESSION_RENDERED_TOKENS) {
		failed = session_render(s, what == SESSION_RENDERED_TOKENS, &out, e);
	} else {
		session_lock(s);
		texts_write(s, what, &out);
		session_unlock(s);
	}
	text_out_add(&out, "", 0); /* adds a NUL, also to an empty text */
	if (!failed && out.failed)
		failed = err_set(e, ENOMEM, "out of memory for a session's texts");
	if (failed)
		text_out_free(&out);
	*length = out.n;
	return out.bytes;
}

uint64_t session_text_bytes(const struct session *s, enum session_text what)
{
	struct text_out out = {.counts = true};
	session_lock(s);
	texts_write(s, what, &out);
	session_unlock(s);
	return out.n;
}

/* ---- writing ---- */

static int session_refuse_while_working(const struct session *s, struct err *e)
{
	return s->working ? err_set(e, EBUSY, "the session is still working; echo stop > ctl first")
			  : 0;
}

/* Parses before it takes the lock, since a step should not wait for parsing. */
static int session_set_messages(struct session *s, const char *text, size_t length, struct err *e)
{
	struct messages read = {0};
	char *system;
	int failed = texts_read_messages(&read, &system, text, length, e);
	if (failed)
		return failed;
	session_lock(s);
	failed = session_refuse_while_working(s, e);
	if (!failed)
		texts_take_messages(s, &read, system);
	session_unlock(s);
	if (failed) {
		messages_free(&read);
		free(system);
	}
	return failed;
}

static int session_set_document(struct session *s, enum session_text what, const char *text,
				size_t length, struct err *e)
{
	struct dialogue read = {0};
	int failed = what == SESSION_TOOLS     ? dialogue_set_tools(&read, text, length, e)
		     : what == SESSION_CHOICES ? choices_set(&read.choices, text, length, e)
					       : dialogue_set_variables(&read, text, length, e);
	if (failed)
		return failed;
	session_lock(s);
	failed = session_refuse_while_working(s, e);
	if (!failed)
		texts_swap(s, what, &read);
	session_unlock(s);
	dialogue_free(&read);
	return failed;
}

int session_text_set(struct session *s, enum session_text what, const char *text, size_t length,
		     struct err *e)
{
	int failed;
	if (what == SESSION_MESSAGES) {
		failed = session_set_messages(s, text, length, e);
	} else if (what == SESSION_TOOLS || what == SESSION_VARIABLES ||
		   what == SESSION_CHOICES) {
		failed = session_set_document(s, what, text, length, e);
	} else {
		failed = err_set(e, EACCES, "this text is only read");
	}
	if (!failed)
		run_notify(s);
	return failed;
}

/* ---- the state ---- */

int session_save(struct session *s, struct saved **out, struct err *e)
{
	struct saved *v;
	int failed = saved_new(&v, e);
	if (failed)
		return failed;
	session_lock(s);
	failed = saved_take(v, s, e);
	session_unlock(s);
	if (failed)
		saved_close(v);
	else
		*out = v;
	return failed;
}

uint64_t session_state_bytes(const struct session *s)
{
	session_lock(s);
	uint64_t bytes = saved_bytes_of(s);
	session_unlock(s);
	return bytes;
}

int session_restore(struct session *s, struct restored *r, struct err *e)
{
	int failed = restored_hold(r, e);
	if (!failed) {
		session_lock(s);
		failed = restored_give(r, s, e);
		session_unlock(s);
	}
	restored_release(r);
	if (!failed)
		run_notify(s);
	return failed;
}

/* The texts of a conversation that are read and written whole (session.h). */
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void lock(const struct session *s)
{
	pthread_mutex_lock(&s->model->schedule.lock);
}

static void unlock(const struct session *s)
{
	pthread_mutex_unlock(&s->model->schedule.lock);
}

/* ---- what the model would read next ---- */

static int copy_to_render(const struct session *s, struct conversation *c, struct params *p,
			  struct err *e)
{
	const struct model *m = s->model;
	lock(s);
	int failed = 0;
	if (!atomic_load(&m->run.speaks))
		failed = err_set(e, EAGAIN, "%s is not loaded yet, so its template is not known",
				 m->id.name);
	else if (!m->run.chat)
		failed = err_set(e, ENOTSUP, "%s: %s", m->id.name, m->run.no_chat.text);
	if (!failed)
		failed = params_copy(p, s->working ? &s->turn.params : &s->params, e);
	if (!failed && (failed = conversation_copy(c, &s->conversation, e)))
		params_free(p);
	unlock(s);
	return failed;
}

static int render(const struct session *s, struct template_text *text, struct err *e)
{
	struct conversation c;
	struct params p;
	int failed = copy_to_render(s, &c, &p, e);
	if (failed)
		return failed;
	failed = conversation_parse(&c, e);
	if (!failed)
		failed = conversation_render(&c, s->model->run.chat, &p, NULL, text, e);
	conversation_free(&c);
	params_free(&p);
	return failed;
}

/* ---- reading ---- */

static void write_rendered(const struct session *s, struct text_out *out, int *failed,
			   struct err *e)
{
	struct template_text text = {0};
	*failed = render(s, &text, e);
	if (!*failed)
		text_out_add(out, text.bytes, text.length);
	template_text_free(&text);
}

static void write_rendered_tokens(const struct session *s, struct text_out *out, int *failed,
				  struct err *e)
{
	struct template_text text = {0};
	struct token_list ids = {0};
	char number[24];
	*failed = render(s, &text, e);
	if (!*failed)
		*failed = chat_encode_text(s->model->run.chat, &text, NULL, &ids, e);
	(void)snprintf(number, sizeof number, "%zu\n", ids.count);
	if (!*failed)
		text_out_string(out, number);
	token_list_free(&ids);
	template_text_free(&text);
}

/* Lock held. */
static void write_kept(const struct session *s, enum session_text what, struct text_out *out)
{
	const struct conversation *c = &s->conversation;
	if (what == SESSION_MESSAGES)
		messages_write(&c->messages, out);
	else if (what == SESSION_TOOL_RESULTS)
		messages_write(&c->results, out);
	else if (what == SESSION_TOOLS)
		text_out_string(out, c->tools.text ? c->tools.text : "[]\n");
	else if (what == SESSION_VARIABLES)
		text_out_string(out, c->variables.text ? c->variables.text : "{}\n");
	else
		session_write_calls(s, out);
}

char *session_text_get(const struct session *s, enum session_text what, size_t *length,
		       struct err *e)
{
	struct text_out out = {0};
	int failed = 0;
	if (what == SESSION_RENDERED) {
		write_rendered(s, &out, &failed, e);
	} else if (what == SESSION_RENDERED_TOKENS) {
		write_rendered_tokens(s, &out, &failed, e);
	} else {
		lock(s);
		write_kept(s, what, &out);
		unlock(s);
	}
	text_out_add(&out, "", 0); /* a NUL, also where there is nothing */
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
	lock(s);
	write_kept(s, what, &out);
	unlock(s);
	return out.n;
}

/* ---- writing ---- */

static bool is_blank(const char *text, size_t n)
{
	while (n && strchr(" \t\r\n", text[n - 1]) && text[n - 1])
		n--;
	return n == 0;
}

int session_read_messages(struct messages *read, char **system, const char *text, size_t length,
			  struct err *e)
{
	int failed = is_blank(text, length) ? 0 : messages_read(read, text, length, e);
	if (!failed)
		failed = conversation_system(read, system, e);
	if (failed)
		messages_free(read);
	return failed;
}

/* Lock held: what was read takes the place of what was there. */
static void take_messages(struct session *s, struct messages *read, char *system)
{
	struct conversation *c = &s->conversation;
	messages_free(&c->messages);
	messages_free(&c->results);
	c->messages = *read;
	free(s->params.system);
	s->params.system = system;
	session_forget_turns(s);
}

static int refuse_while_working(const struct session *s, struct err *e)
{
	return s->working ? err_set(e, EBUSY, "the session is still working; echo stop > ctl first")
			  : 0;
}

/* Reading takes longer than a step may wait for the lock, so it comes before. */
static int set_messages(struct session *s, const char *text, size_t length, struct err *e)
{
	struct messages read = {0};
	char *system;
	int failed = session_read_messages(&read, &system, text, length, e);
	if (failed)
		return failed;
	lock(s);
	failed = refuse_while_working(s, e);
	if (!failed)
		take_messages(s, &read, system);
	unlock(s);
	if (failed) {
		messages_free(&read);
		free(system);
	}
	return failed;
}

static int set_document(struct session *s, enum session_text what, const char *text, size_t length,
			struct err *e)
{
	struct conversation *c = &s->conversation, read = {0};
	bool tools = what == SESSION_TOOLS;
	int failed = tools ? conversation_set_tools(&read, text, length, e)
			   : conversation_set_variables(&read, text, length, e);
	if (failed)
		return failed;
	struct document *is = tools ? &c->tools : &c->variables;
	struct document *to_be = tools ? &read.tools : &read.variables;
	lock(s);
	failed = refuse_while_working(s, e);
	if (!failed) {
		struct document was = *is;
		*is = *to_be;
		*to_be = was;
	}
	unlock(s);
	conversation_free(&read);
	return failed;
}

int session_text_set(struct session *s, enum session_text what, const char *text, size_t length,
		     struct err *e)
{
	int failed;
	if (what == SESSION_MESSAGES) {
		failed = set_messages(s, text, length, e);
	} else if (what == SESSION_TOOLS || what == SESSION_VARIABLES) {
		failed = set_document(s, what, text, length, e);
	} else {
		failed = err_set(e, EACCES, "this text is only read");
	}
	if (!failed)
		session_notify(s);
	return failed;
}

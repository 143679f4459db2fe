/* The texts of a session that are read or written as a whole (session.h). */
#include "engine/session/texts.h"

#include "engine/model/model_state.h"
#include "engine/session/results.h"
#include "engine/session/session_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the model would read next ---- */

int texts_copy(const struct session *s, struct texts_copy *c, struct err *e)
{
	const struct model *m = s->model;
	int failed = 0;
	if (!atomic_load(&m->loaded.speaks))
		failed = err_set(e, EAGAIN, "%s is not loaded yet, so its template is not known",
				 m->id.name);
	else if (!m->loaded.chat)
		failed = err_set(e, ENOTSUP, "%s: %s", m->id.name, m->loaded.no_chat.text);
	if (!failed)
		failed = params_copy(&c->params, s->working ? &s->asked.params : &s->params, e);
	if (!failed && (failed = dialogue_copy(&c->dialogue, &s->dialogue, e)))
		params_free(&c->params);
	return failed;
}

void texts_copy_free(struct texts_copy *c)
{
	dialogue_free(&c->dialogue);
	params_free(&c->params);
}

static int texts_count_tokens(const struct model *m, const struct template_text *text,
			      struct text_out *out, struct err *e)
{
	struct token_list ids = {0};
	char number[24];
	int failed = chat_encode_text(m->loaded.chat, text, NULL, &ids, e);
	(void)snprintf(number, sizeof number, "%zu\n", ids.count);
	if (!failed)
		text_out_string(out, number);
	token_list_free(&ids);
	return failed;
}

int texts_render(const struct model *m, struct texts_copy *c, bool count, struct text_out *out,
		 struct err *e)
{
	struct template_text text = {0};
	int failed = dialogue_parse(&c->dialogue, e);
	if (!failed)
		failed = dialogue_render(&c->dialogue, m->loaded.chat, &c->params, NULL, &text, e);
	if (!failed && count)
		failed = texts_count_tokens(m, &text, out, e);
	else if (!failed)
		text_out_add(out, text.bytes, text.length);
	template_text_free(&text);
	return failed;
}

/* ---- what is kept ---- */

void texts_write(const struct session *s, enum session_text what, struct text_out *out)
{
	const struct dialogue *c = &s->dialogue;
	if (what == SESSION_MESSAGES)
		messages_write(&c->messages, out);
	else if (what == SESSION_TOOL_RESULTS)
		messages_write(&c->results, out);
	else if (what == SESSION_TOOLS)
		text_out_string(out, c->tools.text ? c->tools.text : "[]\n");
	else if (what == SESSION_VARIABLES)
		text_out_string(out, c->variables.text ? c->variables.text : "{}\n");
	else if (what == SESSION_CHOICES)
		text_out_add(out, c->choices.text, c->choices.n);
	else if (what == SESSION_CHOSEN)
		text_out_string(out, s->chosen ? s->chosen : "");
	else if (what == SESSION_WHY)
		text_out_string(out, s->why ? s->why : "");
	else
		results_write_calls(s, out);
}

static bool texts_are_blank(const char *text, size_t n)
{
	while (n && strchr(" \t\r\n", text[n - 1]) && text[n - 1])
		n--;
	return n == 0;
}

int texts_read_messages(struct messages *read, char **system, const char *text, size_t length,
			struct err *e)
{
	int failed = texts_are_blank(text, length) ? 0 : messages_read(read, text, length, e);
	if (!failed)
		failed = dialogue_system(read, system, e);
	if (failed)
		messages_free(read);
	return failed;
}

void texts_take_messages(struct session *s, struct messages *read, char *system)
{
	struct dialogue *c = &s->dialogue;
	messages_free(&c->messages);
	messages_free(&c->results);
	c->messages = *read;
	free(s->params.system);
	s->params.system = system;
	history_forget_turns(s);
}

void texts_swap(struct session *s, enum session_text what, struct dialogue *with)
{
	struct dialogue *c = &s->dialogue;
	bool tools = what == SESSION_TOOLS;
	if (what == SESSION_CHOICES) {
		struct choices were = c->choices;
		c->choices = with->choices;
		with->choices = were;
		return;
	}
	struct document *is = tools ? &c->tools : &c->variables;
	struct document *to_be = tools ? &with->tools : &with->variables;
	struct document was = *is;
	*is = *to_be;
	*to_be = was;
}

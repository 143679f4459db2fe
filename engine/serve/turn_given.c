/* An answer whose beginning somebody else wrote: the last message is an assistant's, and the turn
 * goes on with its text. Servers call it prefill. The ids of that text stand behind the rendered
 * conversation, as those of an answer that was cut short do. */
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"
#include "engine/answer/split_forms.h"

#include <errno.h>
#include <string.h>

/* ---- from the message ---- */

int turn_read_given(struct turn *t, const struct message *last, struct err *e)
{
	struct json *message;
	int failed = json_parse_text(&message, last->json, last->n, "the last message", e);
	if (failed)
		return failed;
	const struct json *thoughts = json_find(message, "thinking");
	size_t n;
	if (!thoughts)
		thoughts = json_find(message, "reasoning_content");
	const char *text = json_bytes(thoughts, &n);
	if (json_kind(thoughts) == JSON_TEXT)
		text_out_add(&t->given_thoughts, text, n);
	message_join(json_find(message, "content"), &t->given);
	bool calls = json_count(json_find(message, "tool_calls")) > 0;
	json_free(message);
	/* A word is a token with the blank before it, so that none would follow a blank. */
	while (t->given.n && scan_is_space(t->given.bytes[t->given.n - 1]))
		t->given.n--;
	if (t->given.failed || t->given_thoughts.failed)
		return err_set(e, ENOMEM, "out of memory for the beginning of an answer");
	return calls ? err_set(e, ENODATA,
			       "continue: the last message calls tools; write the results to "
			       "tool_result, or append them to messages.json")
		     : 0;
}

/* ---- to ids ---- */

struct marked { /* a text, and what each of its bytes may spell (enum token_right) */
	struct text_out bytes, rights;
};

static void marked_add(struct marked *m, const char *text, size_t n, enum token_right right)
{
	char rights[256];
	memset(rights, right, sizeof rights);
	text_out_add(&m->bytes, text, n);
	for (size_t step; n > 0; n -= step) {
		step = n < sizeof rights ? n : sizeof rights;
		text_out_add(&m->rights, rights, step);
	}
}

static void marked_add_mark(struct marked *m, const char *mark)
{
	marked_add(m, mark, strlen(mark), MAY_ALL);
}

/* Thoughts that the message has, or that the template has begun, end before the text begins. */
static void write_given(struct marked *m, const struct turn *t, const struct split_form *form)
{
	bool open = t->answering.thinking == THINKING_OPEN, thinks = open || t->given_thoughts.n;
	const char *line = form->channels ? "" : "\n";
	if (thinks && !open) {
		marked_add_mark(m, form->think_begin);
		marked_add_mark(m, line);
	}
	marked_add(m, t->given_thoughts.bytes, t->given_thoughts.n, MAY_MARKS);
	if (!t->given.n)
		return;
	if (thinks) {
		marked_add_mark(m, line);
		marked_add_mark(m, form->think_end);
		marked_add_mark(m, form->channels ? CHANNEL_START "assistant" : "\n\n");
	}
	if (form->channels)
		marked_add_mark(m, CHANNEL_NAME "final" CHANNEL_MESSAGE);
	marked_add(m, t->given.bytes, t->given.n, MAY_MARKS);
}

int turn_encode_given(struct session *s, struct err *e)
{
	struct turn *t = &s->turn;
	const struct model_run *r = &s->model->run;
	struct marked m = {0};
	if (!turn_has_given(t) || t->earlier.count)
		return 0;
	write_given(&m, t, chat_template_form(r->chat, s->conversation.tools.json != NULL));
	int failed = m.bytes.failed || m.rights.failed
			     ? err_set(e, ENOMEM, "out of memory for the beginning of an answer")
			     : tokenizer_encode_rights(r->tokenizer, m.bytes.bytes,
						       (const uint8_t *)m.rights.bytes, m.bytes.n,
						       &s->stop, &t->earlier, e);
	text_out_free(&m.bytes);
	text_out_free(&m.rights);
	return failed;
}

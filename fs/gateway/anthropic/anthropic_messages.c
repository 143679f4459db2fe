/* Reads `system` and `messages` of /v1/messages, block by block. See anthropic.h. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/anthropic/anthropic.h"
#include "fs/gateway/body/dialog.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Where a block is. */
struct anthropic_place {
	struct dialog *dialog;
	const char *role; /* of the message */
	json_object *referenced;
	char where[96]; /* for error messages, such as messages.0.content.1 */
};

static int anthropic_wrong(const struct anthropic_place *p, const char *what, struct err *e)
{
	return err_set(e, EINVAL, "%s: %s", p->where, what);
}

/* Returns a member that must be a string; NULL: it is not, and *e says so. */
static json_object *anthropic_member(const struct anthropic_place *p, const json_object *block,
				     const char *key, struct err *e)
{
	json_object *v = json_at(block, key);
	if (json_object_is_type(v, json_type_string))
		return v;
	err_set(e, EINVAL, "%s.%s: must be a text", p->where, key);
	return NULL;
}

static void anthropic_say(struct anthropic_place *p, const char *text, size_t n)
{
	/* The answer was one text, whatever blocks it is divided into. */
	bool answer = strcmp(p->role, "assistant") == 0;
	dialog_say(p->dialog, p->role, text, n, answer ? "" : "\n");
}

/* ---- blocks that may also be in a tool's result: added to a text ---- */

static int anthropic_add_member(const struct anthropic_place *p, const json_object *block,
				const char *key, struct text *out, struct err *e)
{
	json_object *text = anthropic_member(p, block, key, e);
	if (text)
		json_add_string(out, text);
	return text ? 0 : -e->code;
}

static int anthropic_add_blocks(struct anthropic_place *p, json_object *content, struct text *out,
				struct err *e);

static int anthropic_add_document(struct anthropic_place *p, const json_object *block,
				  struct text *out, struct err *e)
{
	json_object *source = json_at(block, "source");
	const char *title = json_text(block, "title");
	if (title)
		text_format(out, "%s\n", title);
	if (json_is(source, "type", "content"))
		return anthropic_add_blocks(p, json_at(source, "content"), out, e);
	if (json_is(source, "type", "text"))
		return anthropic_add_member(p, source, "data", out, e);
	return err_set(e, ENOTSUP,
		       "%s: only text documents are supported: send the text in a source of type "
		       "text",
		       p->where);
}

static int anthropic_add_block(struct anthropic_place *p, const json_object *block,
			       struct text *out, struct err *e)
{
	const char *type = json_text(block, "type"), *name = json_text(block, "tool_name");
	const char *title = json_text(block, "title"), *source = json_text(block, "source");
	if (json_is(block, "type", "text"))
		return anthropic_add_member(p, block, "text", out, e);
	if (json_is(block, "type", "search_result")) {
		text_format(out, "%s\n%s\n", title ? title : "", source ? source : "");
		return anthropic_add_blocks(p, json_at(block, "content"), out, e);
	}
	if (json_is(block, "type", "document"))
		return anthropic_add_document(p, block, out, e);
	if (json_is(block, "type", "tool_reference")) {
		if (!name)
			return anthropic_wrong(p, "a tool_reference has a tool_name", e);
		json_object_object_add(p->referenced, name, json_object_new_boolean(true));
		text_format(out, "The tool %s is on offer.", name);
		return 0;
	}
	if (json_is(block, "type", "image"))
		return err_set(e, ENOTSUP,
			       "%s: images are not supported, only text: leave the image out",
			       p->where);
	return err_set(e, type ? ENOTSUP : EINVAL,
		       "%s: blocks of type \"%.60s\" are not supported; use text, tool_use, "
		       "tool_result, thinking and text documents",
		       p->where, type ? type : "");
}

/* Adds a text, or a list of blocks separated by newlines. */
static int anthropic_add_blocks(struct anthropic_place *p, json_object *content, struct text *out,
				struct err *e)
{
	int rc = 0;
	if (json_object_is_type(content, json_type_string)) {
		json_add_string(out, content);
		return 0;
	}
	if (content && !json_object_is_type(content, json_type_array))
		return anthropic_wrong(p, "its content must be a text or a list of blocks", e);
	size_t count = content ? json_object_array_length(content) : 0;
	for (size_t i = 0; i < count && rc == 0; i++) {
		if (i)
			text_string(out, "\n");
		rc = anthropic_add_block(p, json_object_array_get_idx(content, i), out, e);
	}
	return rc;
}

/* ---- blocks of a message ---- */

static int anthropic_take_call(struct anthropic_place *p, const json_object *block, struct err *e)
{
	const char *id = json_text(block, "id"), *name = json_text(block, "name");
	json_object *input = json_at(block, "input");
	if (!id || !name || (input && !json_object_is_type(input, json_type_object)))
		return anthropic_wrong(
			p, "a tool_use has an id, a name and an input, which is an object", e);
	dialog_call(p->dialog, id, name, input);
	return 0;
}

static int anthropic_take_result(struct anthropic_place *p, const json_object *block, struct err *e)
{
	const char *id = json_text(block, "tool_use_id");
	if (!id)
		return anthropic_wrong(p, "a tool_result has a tool_use_id", e);
	struct text text = {0};
	if (json_true(block, "is_error"))
		text_string(&text, "Error: ");
	int rc = anthropic_add_blocks(p, json_at(block, "content"), &text, e);
	if (rc == 0)
		dialog_result(p->dialog, id, text.data, text.length);
	p->dialog->failed |= text.failed;
	text_free(&text);
	return rc;
}

static int anthropic_take_thought(struct anthropic_place *p, const json_object *block,
				  struct err *e)
{
	json_object *text = anthropic_member(p, block, "thinking", e);
	if (text)
		dialog_think(p->dialog, json_object_get_string(text),
			     (size_t)json_object_get_string_len(text));
	return text ? 0 : -e->code;
}

static int anthropic_take_block(struct anthropic_place *p, const json_object *block, struct err *e)
{
	static const struct {
		const char *role, *type;
		int (*take)(struct anthropic_place *p, const json_object *block, struct err *e);
	} kinds[] = {
		{"assistant", "tool_use", anthropic_take_call},
		{"assistant", "thinking", anthropic_take_thought},
		/* Encrypted thoughts of Anthropic's service, which no model here can read. */
		{"assistant", "redacted_thinking", NULL},
		{"user", "tool_result", anthropic_take_result},
	};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (!json_is(block, "type", kinds[i].type))
			continue;
		if (strcmp(p->role, kinds[i].role) != 0)
			return err_set(e, EINVAL, "%s: a %s belongs into a message of the role %s",
				       p->where, kinds[i].type, kinds[i].role);
		return kinds[i].take ? kinds[i].take(p, block, e) : 0;
	}
	struct text text = {0};
	int rc = anthropic_add_block(p, block, &text, e);
	if (rc == 0)
		anthropic_say(p, text.data, text.length);
	p->dialog->failed |= text.failed;
	text_free(&text);
	return rc;
}

static int anthropic_take_message(struct anthropic_place *p, json_object *message, size_t i,
				  struct err *e)
{
	static const char *const ROLES[] = {"user", "assistant", "system"};
	p->role = NULL;
	for (size_t k = 0; k < sizeof ROLES / sizeof *ROLES; k++)
		if (json_is(message, "role", ROLES[k]))
			p->role = ROLES[k];
	if (!p->role)
		return err_set(e, EINVAL, "messages.%zu.role: must be user or assistant", i);
	json_object *content = json_at(message, "content");
	if (json_object_is_type(content, json_type_string)) {
		anthropic_say(p, json_object_get_string(content),
			      (size_t)json_object_get_string_len(content));
		return 0;
	}
	if (!json_object_is_type(content, json_type_array))
		return err_set(e, EINVAL,
			       "messages.%zu.content: must be a text or a list of blocks", i);
	int rc = 0;
	for (size_t k = 0; k < json_object_array_length(content) && rc == 0; k++) {
		(void)snprintf(p->where, sizeof p->where, "messages.%zu.content.%zu", i, k);
		rc = anthropic_take_block(p, json_object_array_get_idx(content, k), e);
	}
	return rc;
}

int anthropic_messages(struct dialog *t, const json_object *body, json_object *referenced,
		       struct err *e)
{
	struct anthropic_place p = {.dialog = t, .referenced = referenced, .where = "system"};
	json_object *messages = json_at(body, "messages");
	if (!json_object_is_type(messages, json_type_array) || !json_object_array_length(messages))
		return err_set(e, EINVAL, "messages: must be a list with at least one message");
	struct text system = {0};
	int rc = anthropic_add_blocks(&p, json_at(body, "system"), &system, e);
	if (rc == 0 && system.length)
		dialog_say(t, "system", system.data, system.length, "\n");
	t->failed |= system.failed;
	text_free(&system);
	for (size_t i = 0; i < json_object_array_length(messages) && rc == 0; i++)
		rc = anthropic_take_message(&p, json_object_array_get_idx(messages, i), i, e);
	return rc == 0 && t->failed ? err_set(e, ENOMEM, "no memory for a request's messages") : rc;
}

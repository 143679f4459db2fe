/* Reads the items of /v1/responses, and shows them again. See responses.h.
 *
 * Items are pieces of messages: successive reasoning, message and calls are one answer. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/responses/responses.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct responses_place {
	struct dialog *dialog;
	const struct responses_past *past;
	bool referenced; /* the item is a kept one, which must not refer to another */
	char where[64];	 /* for error messages, such as input[0] */
};

static int responses_wrong(const struct responses_place *p, const char *what, struct err *e)
{
	return err_set(e, EINVAL, "%s: %s", p->where, what);
}

/* ---- texts ---- */

static int responses_add_part(struct responses_place *p, const json_object *part, struct text *out,
			      struct err *e)
{
	static const struct {
		const char *type, *key;
	} kinds[] = {
		{"input_text", "text"},	  {"output_text", "text"},    {"text", "text"},
		{"summary_text", "text"}, {"reasoning_text", "text"}, {"refusal", "refusal"},
	};
	const char *type = json_text(part, "type");
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		json_object *text = json_at(part, kinds[i].key);
		if (!json_is(part, "type", kinds[i].type))
			continue;
		if (!json_object_is_type(text, json_type_string))
			return err_set(e, EINVAL, "%s: a part of type %s has a %s, a text",
				       p->where, type, kinds[i].key);
		json_add_string(out, text);
		return 0;
	}
	return err_set(
		e, type ? ENOTSUP : EINVAL,
		"%s: parts of type \"%.60s\" are not supported, only text: leave the part out",
		p->where, type ? type : "");
}

/* Adds a text, or a list of parts. */
static int responses_add_content(struct responses_place *p, json_object *content,
				 const char *between, struct text *out, struct err *e)
{
	if (json_object_is_type(content, json_type_string)) {
		json_add_string(out, content);
		return 0;
	}
	if (!json_object_is_type(content, json_type_array))
		return responses_wrong(p, "must have a text or a list of parts", e);
	int rc = 0;
	for (size_t i = 0; i < json_object_array_length(content) && rc == 0; i++) {
		if (i)
			text_string(out, between);
		rc = responses_add_part(p, json_object_array_get_idx(content, i), out, e);
	}
	return rc;
}

/* ---- items ---- */

static int responses_take_message(struct responses_place *p, const json_object *item, struct err *e)
{
	static const struct {
		const char *role, *as, *between;
	} roles[] = {
		{"user", "user", "\n"},
		{"assistant", "assistant", ""},
		{"system", "system", "\n\n"},
		{"developer", "system", "\n\n"},
	};
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
		if (!json_is(item, "role", roles[i].role))
			continue;
		struct text text = {0};
		int rc = responses_add_content(p, json_at(item, "content"), roles[i].between, &text,
					       e);
		if (rc == 0)
			dialog_say(p->dialog, roles[i].as, text.data, text.length,
				   roles[i].between);
		p->dialog->failed |= text.failed;
		text_free(&text);
		return rc;
	}
	return responses_wrong(p, "its role must be user, assistant, system or developer", e);
}

/* Reads the plain reasoning; its summary only if there is nothing else. */
static int responses_take_reasoning(struct responses_place *p, const json_object *item,
				    struct err *e)
{
	json_object *content = json_at(item, "content");
	if (!content || (json_object_is_type(content, json_type_array) && !json_length(content)))
		content = json_at(item, "summary");
	if (!content)
		return 0;
	struct text text = {0};
	int rc = responses_add_content(p, content, "\n", &text, e);
	if (rc == 0 && text.length)
		dialog_think(p->dialog, text.data, text.length);
	p->dialog->failed |= text.failed;
	text_free(&text);
	return rc;
}

/* Reads a function_call, or a custom_tool_call, whose input becomes the function's one argument. */
static int responses_take_call(struct responses_place *p, const json_object *item, struct err *e)
{
	char whole[128];
	bool custom = json_is(item, "type", "custom_tool_call");
	const char *id = json_text(item, "call_id"), *name = json_text(item, "name");
	json_object *given = json_at(item, custom ? "input" : "arguments");
	if (!id || !name || !json_object_is_type(given, json_type_string))
		return responses_wrong(
			p,
			custom ? "a custom_tool_call has a call_id, a name and an input, a text"
			       : "a function_call has a call_id, a name and arguments, a text",
			e);
	if (!responses_tool_name(whole, sizeof whole, json_text(item, "namespace"), name))
		return responses_wrong(p, "its name is too long", e);
	json_object *arguments = NULL;
	if (custom)
		arguments = json_new("input=%p", json_object_get(given));
	else if (json_object_get_string_len(given)) /* many clients send "" for no arguments */
		arguments = json_object_get(given);
	dialog_call(p->dialog, id, whole, arguments);
	json_object_put(arguments);
	return 0;
}

static int responses_take_output(struct responses_place *p, const json_object *item, struct err *e)
{
	const char *id = json_text(item, "call_id");
	if (!id)
		return responses_wrong(p, "an output has the call_id of its call", e);
	struct text text = {0};
	int rc = responses_add_content(p, json_at(item, "output"), "\n", &text, e);
	if (rc == 0)
		dialog_result(p->dialog, id, text.data, text.length);
	p->dialog->failed |= text.failed;
	text_free(&text);
	return rc;
}

static int responses_take_item(struct responses_place *p, const json_object *item, struct err *e);

static int responses_take_reference(struct responses_place *p, const json_object *item,
				    struct err *e)
{
	const char *id = json_text(item, "id");
	json_object *kept = id && !p->referenced ? p->past->item(p->past->ctx, id) : NULL;
	if (!kept)
		return err_set(
			e, ENOENT,
			"%s: no item \"%.80s\" is kept here (any more): send the item itself",
			p->where, id ? id : "");
	p->referenced = true;
	int rc = responses_take_item(p, kept, e);
	p->referenced = false;
	json_object_put(kept);
	return rc;
}

/* The type of a message may be missing. */
static int responses_take_item(struct responses_place *p, const json_object *item, struct err *e)
{
	static const struct {
		const char *type;
		int (*take)(struct responses_place *p, const json_object *item, struct err *e);
	} kinds[] = {
		{"message", responses_take_message},
		{"reasoning", responses_take_reasoning},
		{"function_call", responses_take_call},
		{"function_call_output", responses_take_output},
		{"custom_tool_call", responses_take_call},
		{"custom_tool_call_output", responses_take_output},
		{"item_reference", responses_take_reference},
	};
	const char *type = json_text(item, "type");
	if (!type && json_text(item, "role"))
		type = "message";
	for (size_t i = 0; type && i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(type, kinds[i].type) == 0)
			return kinds[i].take(p, item, e);
	return err_set(e, type ? ENOTSUP : EINVAL,
		       "%s: items of type \"%.60s\" are not supported; use message, reasoning, "
		       "function_call, custom_tool_call and their outputs",
		       p->where, type ? type : "");
}

int responses_items(struct dialog *t, json_object *items, const struct responses_past *past,
		    struct err *e)
{
	struct responses_place p = {.dialog = t, .past = past};
	int rc = 0;
	for (size_t i = 0; i < json_object_array_length(items) && rc == 0; i++) {
		(void)snprintf(p.where, sizeof p.where, "input[%zu]", i);
		rc = responses_take_item(&p, json_object_array_get_idx(items, i), e);
	}
	return rc == 0 && t->failed ? err_set(e, ENOMEM, "no memory for a request's items") : rc;
}

/* ---- items in the form for GET ---- */

/* Replaces a string by the part that it abbreviates. */
static void responses_type_content(json_object *message)
{
	json_object *content = json_at(message, "content");
	bool answer = json_is(message, "role", "assistant");
	if (json_object_is_type(content, json_type_string)) {
		json_object *list = json_object_new_array();
		json_object_array_add(list, json_new("type=%s text=%p",
						     answer ? "output_text" : "input_text",
						     json_object_get(content)));
		json_object_object_add(message, "content", list);
		content = list;
	}
	for (size_t i = 0; answer && i < json_object_array_length(content); i++) {
		json_object *part = json_object_array_get_idx(content, i);
		if (!json_at(part, "annotations"))
			json_object_object_add(part, "annotations", json_object_new_array());
	}
}

static void responses_type_item(json_object *item, const char *id, size_t place)
{
	static const char *const marks[][2] = {
		{"message", "msg"},	     {"reasoning", "rs"},
		{"function_call", "fc"},     {"function_call_output", "fco"},
		{"custom_tool_call", "ctc"}, {"custom_tool_call_output", "ctco"},
	};
	char own[96];
	if (!json_at(item, "type"))
		json_put(item, "type", "message");
	const char *type = json_text(item, "type"), *mark = "item";
	for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
		if (strcmp(type, marks[i][0]) == 0)
			mark = marks[i][1];
	(void)snprintf(own, sizeof own, "%s_%s_in%zu", mark, id, place);
	if (!json_at(item, "id"))
		json_put(item, "id", own);
	if (!json_at(item, "status"))
		json_put(item, "status", "completed");
	if (strcmp(type, "reasoning") == 0 && !json_at(item, "summary"))
		json_object_object_add(item, "summary", json_object_new_array());
	if (strcmp(type, "message") == 0)
		responses_type_content(item);
}

json_object *responses_items_shown(json_object *items, const char *id,
				   const struct responses_past *past)
{
	json_object *list = json_object_new_array();
	for (size_t i = 0; list && i < json_object_array_length(items); i++) {
		json_object *item = json_object_array_get_idx(items, i), *copy = NULL;
		const char *of = json_text(item, "id");
		if (of && json_is(item, "type", "item_reference"))
			copy = past->item(past->ctx, of); /* NULL: it is no longer kept */
		else if (json_object_deep_copy(item, &copy, NULL) < 0) {
			json_object_put(list);
			return NULL;
		}
		if (!copy)
			continue;
		responses_type_item(copy, id, i);
		json_object_array_add(list, copy);
	}
	return list;
}

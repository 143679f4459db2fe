/* The tools of a chat completion and which of them is to be called. See chat.h. */
#include "fs/gateway/answering.h"
#include "fs/gateway/openai/chat.h"
#include "fs/gateway/body/fields.h"
#include "fs/gateway/body/offered.h"

#include <string.h>

static int wrong_choice(struct problem *p, const char *what, const char *name)
{
	return problem_set(p, PROBLEM_INVALID, "tool_choice", "'tool_choice' %s%.80s", what, name);
}

static int put_choice(struct wish *w, const char *choice, struct problem *p)
{
	return wish_param(w, "tool_choice", "tool_choice", "%s", choice)
		       ? 0
		       : problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
}

static int choose_word(struct wish *w, const char *word, struct problem *p)
{
	static const char *const WORDS[] = {"auto", "none", "required"};
	if (!w->tools && !strcmp(word, "required"))
		return wrong_choice(p, "needs 'tools'", "");
	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
		if (!strcmp(word, WORDS[i]))
			return w->tools ? put_choice(w, word, p) : 0;
	return wrong_choice(p,
			    "must be none, auto, required, or an object of type function or "
			    "allowed_tools",
			    "");
}

static int choose_tool(struct wish *w, const char *name, struct problem *p)
{
	if (!w->tools)
		return wrong_choice(p, "needs 'tools'", "");
	if (!offered_has(w->tools, name))
		return wrong_choice(p, "names no tool on offer: ", name);
	return put_choice(w, name, p);
}

static const char *name_of(struct json_object *tool)
{
	struct json_object *name = field_get(field_get(tool, "function"), "name");
	return json_object_is_type(name, json_type_string) ? json_object_get_string(name) : NULL;
}

/* Of the tools on offer only those are left. */
static int choose_allowed(struct wish *w, struct json_object *choice, struct problem *p)
{
	struct json_object *of = field_get(choice, "allowed_tools"), *allowed = NULL;
	const char *mode = "auto";
	int there = field_list(of, "tools", &allowed, p);
	if (there == 0)
		return wrong_choice(p, "of type allowed_tools has allowed_tools.tools, a list", "");
	if (there < 0 || field_text(of, "mode", &mode, p) < 0)
		return -1;
	for (size_t i = 0; i < json_object_array_length(allowed); i++) {
		const char *name = name_of(json_object_array_get_idx(allowed, i));
		if (!name || !offered_has(w->tools, name))
			return wrong_choice(p, "allows a tool that is not on offer: ",
					    name ? name : "");
	}
	size_t n = w->tools ? json_object_array_length(w->tools) : 0;
	for (size_t i = n; i-- > 0;)
		if (!offered_has(allowed, name_of(json_object_array_get_idx(w->tools, i))))
			json_object_array_del_idx(w->tools, i, 1);
	return choose_word(w, mode, p);
}

/* A word, or an object that names a function or those that are allowed. */
static int take_choice(struct json_object *body, struct wish *w, struct problem *p)
{
	struct json_object *choice = field_get(body, "tool_choice");
	struct json_object *type = field_get(choice, "type");
	const char *name = name_of(choice);
	if (!choice)
		return 0;
	if (json_object_is_type(choice, json_type_string))
		return choose_word(w, json_object_get_string(choice), p);
	if (type && !strcmp(json_object_get_string(type), "allowed_tools"))
		return choose_allowed(w, choice, p);
	return name ? choose_tool(w, name, p) : choose_word(w, "", p);
}

/* ---- the tools ---- */

static int check_tool(struct json_object *tool, size_t i, struct problem *p)
{
	struct json_object *function = field_get(tool, "function");
	struct json_object *schema = field_get(function, "parameters");
	const char *name = name_of(tool), *type = json_object_get_string(field_get(tool, "type"));
	struct err e;
	if (!name || !*name)
		return problem_set(p, PROBLEM_INVALID, "tools",
				   "tools[%zu] is of type '%.40s'; only functions, with a name, "
				   "can be offered",
				   i, type ? type : "");
	if (offered_name(name, NAME_OPENAI, &e) || (schema && offered_schema(name, schema, &e)))
		return problem_of(p, &e);
	return 0;
}

static int take_list(struct json_object *list, struct wish *w, struct problem *p)
{
	if (!json_object_array_length(list))
		return 0;
	w->tools = json_object_new_array();
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *tool = json_object_array_get_idx(list, i), *new;
		if (check_tool(tool, i, p))
			return -1;
		new = json_object_new_object();
		json_object_object_add(new, "type", json_object_new_string("function"));
		json_object_object_add(new, "function",
				       json_object_get(field_get(tool, "function")));
		json_object_array_add(w->tools, new);
	}
	return 0;
}

int chat_tools(struct json_object *body, struct wish *w, struct problem *p)
{
	struct json_object *list = NULL;
	int there = field_list(body, "tools", &list, p);
	return there < 0 || (there && take_list(list, w, p)) || take_choice(body, w, p) ? -1 : 0;
}

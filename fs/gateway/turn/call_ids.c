/* Ids of tool calls. See call_ids.h. */
#include "fs/gateway/turn/call_ids.h"
#include "fs/gateway/body/fields.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TREE_ID = 9 };

static const char *const prefixes[] = {
	[PROTOCOL_OPENAI] = "call_", [PROTOCOL_ANTHROPIC] = "toolu_"};

void call_mark(char mark[CALL_MARK], const char *request, const char *session)
{
	uint64_t h = 14695981039346656037u;
	const char *const parts[] = {request, session};
	for (int i = 0; i < 2; i++)
		for (const char *at = parts[i]; *at; at++)
			h = (h ^ (unsigned char)*at) * 1099511628211u;
	(void)snprintf(mark, CALL_MARK, "%015" PRIx64, h >> 4);
}

/* Whether it begins as the tree's ids are: made there, or by a model whose template wants such. */
static bool is_tree_id(const char *id)
{
	int n = 0;
	while (n < TREE_ID && isalnum((unsigned char)id[n]))
		n++;
	return n == TREE_ID;
}

void call_id_for_client(struct json_object *call, enum protocol protocol, const char *mark)
{
	char id[64];
	struct json_object *is = field_get(call, "id");
	const char *text =
		json_object_is_type(is, json_type_string) ? json_object_get_string(is) : "";
	if (strlen(text) != TREE_ID || !is_tree_id(text))
		return;
	(void)snprintf(id, sizeof id, "%s%s%s", prefixes[protocol], text, mark);
	json_object_object_add(call, "id", json_object_new_string(id));
}

/* The tree's id within one that a client was given; NULL: this is none. Both forms are known
 * everywhere, since a conversation may go on in the other protocol. */
static const char *tree_id_in(struct json_object *id)
{
	const char *text =
		json_object_is_type(id, json_type_string) ? json_object_get_string(id) : "";
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
		size_t n = strlen(prefixes[i]);
		if (strncmp(text, prefixes[i], n) != 0 ||
		    strlen(text + n) != TREE_ID + CALL_MARK - 1)
			continue;
		if (is_tree_id(text + n) &&
		    strspn(text + n + TREE_ID, "0123456789abcdef") == CALL_MARK - 1)
			return text + n;
	}
	return NULL;
}

/* With change: replaces the id. Whether there was one to replace. */
static bool visit_id(struct json_object *of, const char *key, bool change)
{
	const char *id = tree_id_in(field_get(of, key));
	if (id && change)
		json_object_object_add(of, key, json_object_new_string_len(id, TREE_ID));
	return id;
}

static bool visit_message(struct json_object *message, bool change)
{
	struct json_object *calls = field_get(message, "tool_calls");
	size_t n =
		json_object_is_type(calls, json_type_array) ? json_object_array_length(calls) : 0;
	bool any = visit_id(message, "tool_call_id", change);
	for (size_t i = 0; i < n; i++)
		any |= visit_id(json_object_array_get_idx(calls, i), "id", change);
	return any;
}

struct json_object *call_ids_for_tree(struct json_object *messages)
{
	size_t n = messages ? json_object_array_length(messages) : 0, i = 0;
	while (i < n && !visit_message(json_object_array_get_idx(messages, i), false))
		i++;
	if (i == n)
		return json_object_get(messages);
	struct json_object *all = json_object_new_array();
	for (i = 0; all && i < n; i++) {
		struct json_object *from = json_object_array_get_idx(messages, i), *new = NULL;
		/* Others may hold the messages, such as responses that are kept. */
		bool changes = visit_message(from, false);
		if (changes && json_object_deep_copy(from, &new, NULL)) {
			json_object_put(all);
			return NULL;
		}
		if (changes)
			visit_message(new, true);
		json_object_array_add(all, changes ? new : json_object_get(from));
	}
	return all;
}

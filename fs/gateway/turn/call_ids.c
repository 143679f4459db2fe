/* Ids of tool calls: the tree's, and those for clients. See turn.h.
 *
 * The tree's ids are nine letters and digits, since templates accept no others. They depend only on
 * the conversation: a template may write them into the prompt, and the same conversation must give
 * the same prompt. So the first call of every first answer is c00001000 in the tree. Clients expect
 * ids that differ between conversations, in their protocol's form: a prefix, the tree's id, and a
 * mark of the turn. The tree's id can be cut out of such an id, so nothing has to be remembered:
 * any gateway that receives a client's id writes the tree's id. An id that a model made in another
 * form is not changed. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/turn/turn.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TREE_ID = 9 };

static const char *const prefixes[] = {
	[PROTOCOL_OPENAI] = "call_", [PROTOCOL_ANTHROPIC] = "toolu_"};

void call_mark(char mark[CALL_MARK], const char *request, const char *session)
{
	uint64_t h = text_hash(TEXT_HASH, request, strlen(request));
	h = text_hash(h, session, strlen(session));
	(void)snprintf(mark, CALL_MARK, "%015" PRIx64, h >> 4);
}

/* Whether `id` begins with an id in the tree's form, made by the tree or by the model. */
static bool call_is_tree_id(const char *id)
{
	int n = 0;
	while (n < TREE_ID && isalnum((unsigned char)id[n]))
		n++;
	return n == TREE_ID;
}

void call_id_for_client(json_object *call, enum protocol protocol, const char *mark)
{
	char id[64];
	json_object *is = json_at(call, "id");
	const char *text =
		json_object_is_type(is, json_type_string) ? json_object_get_string(is) : "";
	if (strlen(text) != TREE_ID || !call_is_tree_id(text))
		return;
	(void)snprintf(id, sizeof id, "%s%s%s", prefixes[protocol], text, mark);
	json_object_object_add(call, "id", json_object_new_string(id));
}

/* The tree's id within a client's; NULL: it is not a client's id. Both protocols' prefixes are
 * accepted everywhere, since a conversation may continue in the other protocol. */
static const char *call_tree_id_in(json_object *id)
{
	const char *text =
		json_object_is_type(id, json_type_string) ? json_object_get_string(id) : "";
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
		size_t n = strlen(prefixes[i]);
		if (strncmp(text, prefixes[i], n) != 0 ||
		    strlen(text + n) != TREE_ID + CALL_MARK - 1)
			continue;
		if (call_is_tree_id(text + n) &&
		    strspn(text + n + TREE_ID, "0123456789abcdef") == CALL_MARK - 1)
			return text + n;
	}
	return NULL;
}

/* Whether a member is a client's id. change: replaces it with the tree's id. */
static bool call_visit_id(json_object *of, const char *key, bool change)
{
	const char *id = call_tree_id_in(json_at(of, key));
	if (id && change)
		json_object_object_add(of, key, json_object_new_string_len(id, TREE_ID));
	return id;
}

static bool call_visit_message(json_object *message, bool change)
{
	json_object *calls = json_at(message, "tool_calls");
	bool any = call_visit_id(message, "tool_call_id", change);
	for (size_t i = 0; i < json_length(calls); i++)
		any |= call_visit_id(json_object_array_get_idx(calls, i), "id", change);
	return any;
}

json_object *call_ids_for_tree(json_object *messages)
{
	size_t n = messages ? json_object_array_length(messages) : 0, i = 0;
	while (i < n && !call_visit_message(json_object_array_get_idx(messages, i), false))
		i++;
	if (i == n)
		return json_object_get(messages);
	json_object *all = json_object_new_array();
	for (i = 0; all && i < n; i++) {
		json_object *from = json_object_array_get_idx(messages, i), *new = NULL;
		/* Copy first: kept responses and others may also hold these messages. */
		bool changes = call_visit_message(from, false);
		if (changes && json_object_deep_copy(from, &new, NULL)) {
			json_object_put(all);
			return NULL;
		}
		if (changes)
			call_visit_message(new, true);
		json_object_array_add(all, changes ? new : json_object_get(from));
	}
	return all;
}

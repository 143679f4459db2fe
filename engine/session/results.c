/* Tool results for the calls of the last answer (session.h). */
#include "engine/model/model_state.h"
#include "engine/session/results.h"
#include "engine/session/session_state.h"

#include <errno.h>
#include <string.h>

/* ---- which calls wait ---- */

static bool results_same_text(const struct json *one, const struct json *other)
{
	size_t n, m;
	const char *a = json_bytes(one, &n), *b = json_bytes(other, &m);
	return n == m && !memcmp(a, b, n);
}

static struct json *results_parse(const struct message *m, struct err *e)
{
	struct json *parsed;
	return json_parse_text(&parsed, m->json, m->n, "message", e) ? NULL : parsed;
}

/* The i-th result: first the tool messages after the answer, then results that are not submitted
 * yet. */
static const struct message *results_at(const struct dialogue *c, size_t behind, size_t i)
{
	const struct messages *m = &c->messages;
	size_t there = m->count - behind;
	if (i < there)
		return &m->items[behind + i];
	return i - there < c->results.count ? &c->results.items[i - there] : NULL;
}

/* Finds the calls that have their results. Calls beyond MESSAGE_CALLS_MAX cannot have results. */
static int results_find_answered(const struct dialogue *c, size_t behind, const struct json *calls,
				 bool answered[MESSAGE_CALLS_MAX], struct err *e)
{
	const struct message *result;
	if (c->messages.count - behind + c->results.count > MESSAGE_CALLS_MAX)
		return err_set(e, EINVAL,
			       "tool_result: the last answer has more than %d results already",
			       MESSAGE_CALLS_MAX);
	for (size_t i = 0; (result = results_at(c, behind, i)); i++) {
		struct json *parsed = results_parse(result, e);
		size_t k = 0;
		if (!parsed)
			return -e->code;
		for (const struct json *v = NULL;
		     k < MESSAGE_CALLS_MAX && (v = json_next(calls, v)); k++)
			answered[k] |= results_same_text(json_find(parsed, "tool_call_id"),
							 json_find(v, "id"));
		json_free(parsed);
	}
	return 0;
}

/* Finds and parses the answer whose calls may wait for results; *behind: the index of the message
 * after it. NULL: an error. */
static struct json *results_calling(const struct dialogue *c, size_t *behind, struct err *e)
{
	const struct messages *m = &c->messages;
	size_t i = m->count;
	while (i && message_is(&m->items[i - 1], "tool"))
		i--;
	*behind = i;
	struct json *answer = i ? results_parse(&m->items[i - 1], e) : NULL;
	if (i && !answer)
		return NULL;
	if (json_count(json_find(answer, "tool_calls")))
		return answer;
	json_free(answer);
	err_set(e, ENODATA, "tool_result: the last answer called no tool");
	return NULL;
}

void results_write_calls(const struct session *s, struct text_out *out)
{
	struct err none = {0};
	size_t behind;
	const struct text_out *called = &s->called;
	struct json *answer = s->working ? NULL : results_calling(&s->dialogue, &behind, &none);
	if (called->n)
		text_out_add(out, called->bytes, called->n);
	else if (!answer)
		text_out_string(out, "[]\n");
	else {
		text_out_json(out, json_find(answer, "tool_calls"));
		text_out_string(out, "\n");
	}
	out->failed |= none.code == ENOMEM;
	json_free(answer);
}

/* ---- a result ---- */

static int results_check_result(const struct json *r, struct err *e)
{
	static const char *const known[] = {"tool_call_id", "content", "name", "role"};
	if (json_kind(r) != JSON_OBJECT)
		return err_set(e, EINVAL,
			       "tool_result: must be an object {\"tool_call_id\", \"content\"}");
	for (const struct json *v = NULL; (v = json_next(r, v));) {
		bool good = false;
		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			good |= !strcmp(json_key(v), known[i]);
		if (!good)
			return err_set(e, EINVAL, "tool_result: a result has no \"%.40s\"",
				       json_key(v));
		if (strcmp(json_key(v), "content") != 0 && json_kind(v) != JSON_TEXT)
			return json_wrong(v, json_key(v), "tool_result", "a text", e);
	}
	return 0;
}

/* Whether a result is for a call: it has the call's id or name, or there is only one call. */
static bool results_is_meant(const struct json *result, const struct json *call)
{
	const struct json *id = json_find(result, "tool_call_id"),
			  *name = json_find(result, "name");
	if (id)
		return results_same_text(id, json_find(call, "id"));
	return !name || results_same_text(name, json_find(json_find(call, "function"), "name"));
}

/* Content that is not a text is passed on as JSON. */
static int results_add_result(struct messages *to, const struct json *call,
			      const struct json *content, struct err *e)
{
	struct text_out text = {0};
	size_t id_n;
	const char *id = json_bytes(json_find(call, "id"), &id_n);
	if (json_kind(content) == JSON_TEXT)
		message_join(content, &text);
	else if (content && json_kind(content) != JSON_NULL)
		text_out_json(&text, content);
	text_out_add(&text, "", 0);
	int failed = text.failed ? err_set(e, ENOMEM, "out of memory for a tool's result")
				 : messages_add_result(to, id, id_n, text.bytes, text.n, e);
	text_out_free(&text);
	return failed;
}

static int results_refuse(const struct json *result, bool repeated, size_t meant, struct err *e)
{
	char id[64];
	json_show(json_find(result, "tool_call_id"), id, sizeof id);
	if (meant > 1)
		return err_set(
			e, EINVAL,
			"tool_result: %zu calls wait for a result; name one with \"tool_call_id\"",
			meant);
	if (repeated)
		return err_set(e, EINVAL, "tool_result: call %s has its result already", id);
	return err_set(e, EINVAL,
		       "tool_result: no call of the last answer has the id %s (tool_calls.json)",
		       id);
}

/* Moves the last message to index `at`. Results are kept in the order of their calls, since many
 * templates write results without ids. */
static void results_put_last_at(struct messages *m, size_t at)
{
	struct message last = m->items[m->count - 1];
	memmove(&m->items[at + 1], &m->items[at], (m->count - 1 - at) * sizeof last);
	m->items[at] = last;
}

/* Finds the call of a result. behind: results that are messages already. */
static int results_match(struct dialogue *c, const struct json *result, const struct json *calls,
			 const bool answered[MESSAGE_CALLS_MAX], size_t behind, bool *complete,
			 struct err *e)
{
	const struct json *found = NULL;
	size_t k = 0, waiting = 0, meant = 0, before = 0, known = 0;
	bool repeated = false;
	for (const struct json *v = NULL; k < MESSAGE_CALLS_MAX && (v = json_next(calls, v)); k++) {
		bool is = results_is_meant(result, v);
		repeated |= is && answered[k];
		waiting += !answered[k];
		meant += is && !answered[k];
		found = is && !answered[k] ? v : found;
		before = found == v ? known : before;
		known += answered[k];
	}
	if (meant != 1)
		return results_refuse(result, repeated, meant, e);
	*complete = waiting == 1;
	int failed = results_add_result(&c->results, found, json_find(result, "content"), e);
	before = before > behind ? before - behind : 0;
	if (!failed && before < c->results.count)
		results_put_last_at(&c->results, before);
	return failed;
}

/* Limits the size of all results together to that of a prompt, since they are part of one prompt.
 */
static int results_check_room(const struct session *s, const struct messages *results,
			      size_t length, struct err *e)
{
	uint64_t most = model_max_prompt_bytes(s->model);
	for (size_t i = 0; i < results->count; i++)
		length += results->items[i].n;
	if (length <= most)
		return 0;
	return asked_too_many_bytes("tool_result: all results together", length, most, e);
}

static int results_add_one(struct session *s, const struct json *result, size_t length,
			   bool *complete, struct err *e)
{
	struct dialogue *c = &s->dialogue;
	bool answered[MESSAGE_CALLS_MAX] = {0};
	size_t behind;
	if (s->working)
		return err_set(e, EBUSY,
			       "the session is still working; its calls are not all known yet");
	int failed = results_check_room(s, &c->results, length, e);
	struct json *answer = failed ? NULL : results_calling(c, &behind, e);
	if (!answer)
		return -e->code;
	const struct json *calls = json_find(answer, "tool_calls");
	failed = results_find_answered(c, behind, calls, answered, e);
	if (!failed)
		failed = results_match(c, result, calls, answered, c->messages.count - behind,
				       complete, e);
	json_free(answer);
	*complete &= !failed;
	return failed;
}

int results_add(struct session *s, struct json *const *parsed, const struct session_result *results,
		size_t count, bool *complete, struct err *e)
{
	struct messages *now = &s->dialogue.results, before = {0};
	int failed = count > 1 ? messages_copy(&before, now, e) : 0;
	for (size_t i = 0; i < count && !failed; i++)
		failed = results_add_one(s, parsed[i], results[i].length, complete, e);
	if (failed && count > 1) {
		struct messages partly = *now;
		*now = before;
		before = partly;
	}
	messages_free(&before);
	return failed;
}

int results_read(const struct session *s, const struct session_result *r, struct json **parsed,
		 struct err *e)
{
	int failed = results_check_room(s, &(struct messages){0}, r->length,
					e); /* before it is parsed */
	*parsed = NULL;
	if (!failed)
		failed = json_parse_text(parsed, r->text, r->length, "tool_result", e);
	return failed ? failed : results_check_result(*parsed, e);
}

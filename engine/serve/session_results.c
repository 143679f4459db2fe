/* What tools gave for the calls of the last answer (session.h). */
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>
#include <string.h>

/* ---- which calls wait ---- */

static bool same_text(const struct json *one, const struct json *other)
{
	size_t n, m;
	const char *a = json_bytes(one, &n), *b = json_bytes(other, &m);
	return n == m && !memcmp(a, b, n);
}

static struct json *parse(const struct message *m, struct err *e)
{
	struct json *parsed;
	return json_parse_text(&parsed, m->json, m->n, "message", e) ? NULL : parsed;
}

/* The messages of tools behind the answer, and those not yet submitted. */
static const struct message *result_at(const struct conversation *c, size_t behind, size_t i)
{
	const struct messages *m = &c->messages;
	size_t there = m->count - behind;
	if (i < there)
		return &m->items[behind + i];
	return i - there < c->results.count ? &c->results.items[i - there] : NULL;
}

/* Which of the calls have their results. Beyond MESSAGE_CALLS_MAX no call gets any. */
static int find_answered(const struct conversation *c, size_t behind, const struct json *calls,
			 bool answered[MESSAGE_CALLS_MAX], struct err *e)
{
	const struct message *result;
	if (c->messages.count - behind + c->results.count > MESSAGE_CALLS_MAX)
		return err_set(e, EINVAL,
			       "tool_result: the last answer has more than %d results already",
			       MESSAGE_CALLS_MAX);
	for (size_t i = 0; (result = result_at(c, behind, i)); i++) {
		struct json *parsed = parse(result, e);
		size_t k = 0;
		if (!parsed)
			return -e->code;
		for (const struct json *v = NULL;
		     k < MESSAGE_CALLS_MAX && (v = json_next(calls, v)); k++)
			answered[k] |=
				same_text(json_find(parsed, "tool_call_id"), json_find(v, "id"));
		json_free(parsed);
	}
	return 0;
}

/* The answer whose calls may wait, parsed; *behind: the index of the message after it. NULL: e says
 * why. */
static struct json *calling(const struct conversation *c, size_t *behind, struct err *e)
{
	const struct messages *m = &c->messages;
	size_t i = m->count;
	while (i && message_is(&m->items[i - 1], "tool"))
		i--;
	*behind = i;
	struct json *answer = i ? parse(&m->items[i - 1], e) : NULL;
	if (i && !answer)
		return NULL;
	if (json_count(json_find(answer, "tool_calls")))
		return answer;
	json_free(answer);
	err_set(e, ENODATA, "tool_result: the last answer called no tool");
	return NULL;
}

void session_write_calls(const struct session *s, struct text_out *out)
{
	struct err none = {0};
	size_t behind;
	const struct text_out *called = &s->turn.answering.called;
	struct json *answer = s->working ? NULL : calling(&s->conversation, &behind, &none);
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

static int check_result(const struct json *r, struct err *e)
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

/* By its id, or by its name, or as the only one: whether a result is meant for a call. */
static bool is_meant(const struct json *result, const struct json *call)
{
	const struct json *id = json_find(result, "tool_call_id"),
			  *name = json_find(result, "name");
	if (id)
		return same_text(id, json_find(call, "id"));
	return !name || same_text(name, json_find(json_find(call, "function"), "name"));
}

/* What is no text is given as JSON. */
static int add_result(struct messages *to, const struct json *call, const struct json *content,
		      struct err *e)
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

static int refuse(const struct json *result, bool repeated, size_t meant, struct err *e)
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

/* Many templates write results without ids: so they stand in the order of their calls, whenever
 * they came. */
static void put_last_at(struct messages *m, size_t at)
{
	struct message last = m->items[m->count - 1];
	memmove(&m->items[at + 1], &m->items[at], (m->count - 1 - at) * sizeof last);
	m->items[at] = last;
}

/* To the call that it is meant for; `behind` are results that are messages already. */
static int match(struct conversation *c, const struct json *result, const struct json *calls,
		 const bool answered[MESSAGE_CALLS_MAX], size_t behind, bool *complete,
		 struct err *e)
{
	const struct json *found = NULL;
	size_t k = 0, waiting = 0, meant = 0, before = 0, known = 0;
	bool repeated = false;
	for (const struct json *v = NULL; k < MESSAGE_CALLS_MAX && (v = json_next(calls, v)); k++) {
		bool is = is_meant(result, v);
		repeated |= is && answered[k];
		waiting += !answered[k];
		meant += is && !answered[k];
		found = is && !answered[k] ? v : found;
		before = found == v ? known : before;
		known += answered[k];
	}
	if (meant != 1)
		return refuse(result, repeated, meant, e);
	*complete = waiting == 1;
	int failed = add_result(&c->results, found, json_find(result, "content"), e);
	before = before > behind ? before - behind : 0;
	if (!failed && before < c->results.count)
		put_last_at(&c->results, before);
	return failed;
}

/* Together they are part of one prompt. */
static int check_room(const struct session *s, const struct messages *results, size_t length,
		      struct err *e)
{
	uint64_t most = model_max_prompt_bytes(s->model);
	for (size_t i = 0; i < results->count; i++)
		length += results->items[i].n;
	if (length <= most)
		return 0;
	return session_too_many_bytes("tool_result: all results together", length, most, e);
}

/* Lock held. */
static int add_locked(struct session *s, const struct json *result, size_t length, bool *complete,
		      struct err *e)
{
	struct conversation *c = &s->conversation;
	bool answered[MESSAGE_CALLS_MAX] = {0};
	size_t behind;
	if (s->working)
		return err_set(e, EBUSY,
			       "the session is still working; its calls are not all known yet");
	int failed = check_room(s, &c->results, length, e);
	struct json *answer = failed ? NULL : calling(c, &behind, e);
	if (!answer)
		return -e->code;
	const struct json *calls = json_find(answer, "tool_calls");
	failed = find_answered(c, behind, calls, answered, e);
	if (!failed)
		failed = match(c, result, calls, answered, c->messages.count - behind, complete, e);
	json_free(answer);
	*complete &= !failed;
	return failed;
}

/* Lock held. Those that were there stay where one is refused. */
static int add_all_locked(struct session *s, struct json *const *parsed,
			  const struct session_result *results, size_t count, bool *complete,
			  struct err *e)
{
	struct messages *now = &s->conversation.results, before = {0};
	int failed = count > 1 ? messages_copy(&before, now, e) : 0;
	for (size_t i = 0; i < count && !failed; i++)
		failed = add_locked(s, parsed[i], results[i].length, complete, e);
	if (failed && count > 1) {
		struct messages partly = *now;
		*now = before;
		before = partly;
	}
	messages_free(&before);
	return failed;
}

int session_tool_results_add(struct session *s, const struct session_result *results, size_t count,
			     bool *complete, struct err *e)
{
	struct json *parsed[SESSION_RESULTS_MOST];
	size_t n = 0;
	int failed = count <= SESSION_RESULTS_MOST
			     ? 0
			     : err_set(e, EFBIG, "tool_result: more than %d results at once",
				       SESSION_RESULTS_MOST);
	*complete = false;
	while (n < count && !failed) {
		const struct session_result *r = &results[n];
		/* before it is read */
		failed = check_room(s, &(struct messages){0}, r->length, e);
		if (!failed)
			failed = json_parse_text(&parsed[n], r->text, r->length, "tool_result", e);
		if (!failed)
			failed = check_result(parsed[n++], e);
	}
	if (!failed) {
		pthread_mutex_lock(&s->model->schedule.lock);
		failed = add_all_locked(s, parsed, results, count, complete, e);
		pthread_mutex_unlock(&s->model->schedule.lock);
	}
	while (n)
		json_free(parsed[--n]);
	*complete &= !failed;
	return failed;
}

int session_tool_result_add(struct session *s, const char *text, size_t length, bool *complete,
			    struct err *e)
{
	return session_tool_results_add(s, &(struct session_result){text, length}, 1, complete, e);
}

/* The body of /v1/messages but for its messages and tools. See anthropic.h.
 *
 * What says nothing to a model is taken and left: metadata, cache_control, service_tier,
 * context_management, and keys that are not known. */
#include "fs/gateway/anthropic/anthropic.h"
#include "fs/gateway/body/offered.h"
#include "fs/gateway/body/dialog.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_BUDGET = 1024, LOW_BUDGET = 4096, MEDIUM_BUDGET = 16384 };

static int whole(const json_object *o, const char *key, uint64_t least, uint64_t *value,
		 struct err *e)
{
	json_object *v = json_at(o, key);
	if (!json_object_is_type(v, json_type_int) || json_object_get_int64(v) < (int64_t)least)
		return err_set(e, EINVAL, "%s: must be a whole number, at least %d", key,
			       (int)least);
	*value = (uint64_t)json_object_get_int64(v);
	return 0;
}

static int read_model(struct wanted *w, const json_object *body, struct err *e)
{
	const char *model = json_text(body, "model");
	if (!model || !*model)
		return err_set(e, EINVAL, "model: must be the name of a model");
	w->model = strdup(model);
	return w->model ? 0 : err_set(e, ENOMEM, "no memory for a request");
}

static int read_limit(struct wanted *w, const json_object *body, struct err *e)
{
	char digits[24];
	int rc = whole(body, "max_tokens", 1, &w->max_tokens, e);
	if (rc < 0)
		return rc;
	(void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)w->max_tokens);
	return wanted_param(w, "max_tokens", digits, e);
}

/* The budget cannot be held to the token: it says how much thinking is meant. */
static int read_budget(struct wanted *w, const json_object *thinking, struct err *e)
{
	uint64_t budget;
	int rc = whole(thinking, "budget_tokens", LEAST_BUDGET, &budget, e);
	if (rc < 0)
		return err_set(e, EINVAL,
			       "thinking.budget_tokens: must be a whole number, at least %d",
			       LEAST_BUDGET);
	if (w->max_tokens && budget >= w->max_tokens)
		return err_set(e, EINVAL,
			       "max_tokens: must be greater than thinking.budget_tokens");
	const char *effort = budget < LOW_BUDGET      ? "low"
			     : budget < MEDIUM_BUDGET ? "medium"
						      : "high";
	return wanted_effort(w, effort, "thinking", e);
}

/* Without a word of it nothing is thought. */
static int read_thinking(struct wanted *w, const json_object *body, struct err *e)
{
	json_object *thinking = json_at(body, "thinking");
	const char *type = thinking ? json_text(thinking, "type") : "disabled";
	const char *display = json_text(thinking, "display");
	const char *effort = json_text(json_at(body, "output_config"), "effort");
	w->thoughts = type && strcmp(type, "disabled") != 0 &&
		      !(display && strcmp(display, "omitted") == 0);
	if (type && strcmp(type, "disabled") == 0)
		return wanted_effort(w, NULL, "thinking", e);
	if (type && strcmp(type, "enabled") == 0)
		return read_budget(w, thinking, e);
	if (type && strcmp(type, "adaptive") == 0)
		return effort ? wanted_effort(w, effort, "output_config.effort", e)
			      : wanted_any_of(w, "thinking", "on", e);
	return err_set(e, EINVAL, "thinking.type: must be enabled, disabled or adaptive");
}

static int read_form(struct wanted *w, const json_object *body, struct err *e)
{
	const char *key = "output_config.format";
	json_object *format = json_at(json_at(body, "output_config"), "format");
	if (!format) {
		key = "output_format";
		format = json_at(body, key);
	}
	if (!format)
		return 0;
	const char *type = json_text(format, "type");
	json_object *schema = json_at(format, "schema");
	if (!type || strcmp(type, "json_schema") != 0 ||
	    !json_object_is_type(schema, json_type_object))
		return err_set(e, EINVAL,
			       "%s: must be {\"type\": \"json_schema\", \"schema\": {...}}", key);
	return wanted_schema(w, schema, key, e);
}

/* What would change the answer, and is not to be had here. */
static int refuse_services(const json_object *body, struct err *e)
{
	static const char *const SERVICES[] = {"mcp_servers", "container"};
	for (size_t i = 0; i < sizeof SERVICES / sizeof *SERVICES; i++) {
		json_object *v = json_at(body, SERVICES[i]);
		bool empty = !v || (json_object_is_type(v, json_type_array) &&
				    json_object_array_length(v) == 0);
		if (!empty)
			return err_set(e, ENOTSUP,
				       "%s: there are no such services here, only models; leave "
				       "it out and offer functions in tools",
				       SERVICES[i]);
	}
	return 0;
}

/* Nothing holds a conversation between two requests, so there is no thread to continue. Whoever is
 * told so as its service tells of a lost thread begins a new one, with all of its messages. */
static int read_thread(const json_object *body, struct err *e)
{
	json_object *thread = json_at(body, "thread");
	const char *type = json_text(thread, "type");
	if (!thread || (type && !strcmp(type, "create")))
		return 0;
	if (type && !strcmp(type, "continue"))
		return err_set(e, ENOENT,
			       "thread: conversations are not kept here between requests; send all "
			       "messages, with system and tools and without a thread to continue");
	return err_set(e, EINVAL, "thread.type: must be create or continue");
}

static int read_plain(struct wanted *w, const json_object *body, struct err *e)
{
	int rc = wanted_number(w, body, "temperature", "temperature", 0, 1, e);
	if (rc == 0)
		rc = wanted_number(w, body, "top_p", "top_p", 0, 1, e);
	if (rc == 0)
		rc = wanted_number(w, body, "top_k", "top_k", 0, 1 << 20, e);
	json_object *stops = json_at(body, "stop_sequences");
	if (rc == 0 && stops)
		rc = wanted_stops(w, stops, "stop_sequences", e);
	w->stream = json_true(body, "stream");
	return rc;
}

static const struct offered_results results = {
	RESULTS_NEXT,
	{"messages: `tool_use` ids were found without `tool_result` blocks immediately after: ",
	 ". Each `tool_use` block must have a corresponding `tool_result` block in the next "
	 "message."},
	{"messages: unexpected `tool_use_id` found in `tool_result` blocks: ",
	 ". Each `tool_result` block must have a corresponding `tool_use` block in the previous "
	 "message."},
};

static int read_talk(struct wanted *w, const json_object *body, struct err *e)
{
	struct dialog dialog = {.system_first = true};
	json_object *referenced = json_object_new_object();
	int rc = anthropic_messages(&dialog, body, referenced, e);
	if (rc == 0)
		rc = anthropic_tools(w, body, referenced, e);
	if (rc == 0 && !(w->messages = dialog_take(&dialog)))
		rc = err_set(e, ENOMEM, "no memory for a request's messages");
	if (rc == 0)
		rc = offered_results(w->messages, &results, e);
	json_object_put(referenced);
	dialog_free(&dialog);
	return rc;
}

int anthropic_read(struct wanted *w, const json_object *body, bool count, struct err *e)
{
	if (!json_object_is_type(body, json_type_object))
		return err_set(e, EINVAL, "the body must be a JSON object");
	int rc = read_model(w, body, e);
	if (rc == 0 && !count)
		rc = read_limit(w, body, e);
	if (rc == 0)
		rc = refuse_services(body, e);
	if (rc == 0)
		rc = read_thread(body, e);
	if (rc == 0)
		rc = read_talk(w, body, e);
	if (rc == 0)
		rc = read_thinking(w, body, e);
	if (rc == 0)
		rc = read_form(w, body, e);
	return rc || count ? rc : read_plain(w, body, e);
}

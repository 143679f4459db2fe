/* Anthropic's messages: how a request is read, and how an answer is written. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/anthropic/anthropic.h"
#include "fs/gateway/problem.h"
#include "tests/unit/json_help.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A body with these members, a model and max_tokens. */
static int read_body(struct wanted *w, const char *members, bool count, struct err *e)
{
	struct text body = {0};
	text_format(&body, "{\"model\": \"m\", \"max_tokens\": 9%s%s}", *members ? ", " : "",
		    members);
	text_add(&body, "", 1);
	json_object *o = test_json(body.data);
	*w = (struct wanted){0};
	*e = (struct err){0};
	int rc = anthropic_read(w, o, count, e);
	json_object_put(o);
	text_free(&body);
	return rc;
}

static const char *param(const struct wanted *w, const char *name)
{
	for (size_t i = 0; i < w->param_count; i++)
		if (!strcmp(w->params[i].name, name))
			return w->params[i].value;
	return NULL;
}

#define HELLO "\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]"

/* ---- requests ---- */

static void messages_become_the_tree_s(void **state)
{
	(void)state;
	static const struct {
		const char *members, *messages;
	} cases[] = {
		{HELLO, "[{\"role\": \"user\", \"content\": \"Hello\"}]"},
		{"\"thread\": {\"type\": \"create\"}, " HELLO,
		 "[{\"role\": \"user\", \"content\": \"Hello\"}]"},
		{"\"thread\": null, " HELLO, "[{\"role\": \"user\", \"content\": \"Hello\"}]"},
		{"\"system\": \"Be short.\", " HELLO,
		 "[{\"role\": \"system\", \"content\": \"Be short.\"}, {\"role\": \"user\", "
		 "\"content\": \"Hello\"}]"},
		{"\"system\": [{\"type\": \"text\", \"text\": \"One\", \"cache_control\": "
		 "{\"type\": \"ephemeral\"}}, {\"type\": \"text\", \"text\": \"Two\"}], " HELLO,
		 "[{\"role\": \"system\", \"content\": \"One\\nTwo\"}, {\"role\": \"user\", "
		 "\"content\": \"Hello\"}]"},
		/* Successive messages of one role become one. */
		{"\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"user\", "
		 "\"content\": [{\"type\": \"text\", \"text\": \"b\"}]}]",
		 "[{\"role\": \"user\", \"content\": \"a\\nb\"}]"},
		/* Thoughts, a call and its result, and the text after it. */
		{"\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
		 "\"assistant\", \"content\": [{\"type\": \"thinking\", \"thinking\": \"hm\", "
		 "\"signature\": \"x\"}, {\"type\": \"redacted_thinking\", \"data\": \"y\"}, "
		 "{\"type\": \"text\", \"text\": \"I look.\"}, {\"type\": \"tool_use\", \"id\": "
		 "\"t1\", \"name\": \"f\", \"input\": {\"a\": 1}}]}, {\"role\": \"user\", "
		 "\"content\": [{\"type\": \"tool_result\", \"tool_use_id\": \"t1\", \"content\": "
		 "[{\"type\": \"text\", \"text\": \"42\"}]}, {\"type\": \"text\", \"text\": "
		 "\"So?\"}]}]",
		 "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
		 "\"content\": \"I look.\", \"thinking\": \"hm\", \"tool_calls\": [{\"id\": "
		 "\"t1\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "
		 "{\"a\": 1}}}]}, {\"role\": \"tool\", \"tool_call_id\": \"t1\", \"content\": "
		 "\"42\"}, {\"role\": \"user\", \"content\": \"So?\"}]"},
		/* Two results: an error and an empty one. */
		{"\"messages\": [{\"role\": \"assistant\", \"content\": [{\"type\": "
		 "\"tool_use\", \"id\": \"t\", \"name\": \"f\", \"input\": {}}, {\"type\": "
		 "\"tool_use\", \"id\": \"u\", \"name\": \"f\", \"input\": {}}]}, {\"role\": "
		 "\"user\", \"content\": [{\"type\": \"tool_result\", \"tool_use_id\": \"t\", "
		 "\"is_error\": true, \"content\": \"no file\"}, {\"type\": \"tool_result\", "
		 "\"tool_use_id\": \"u\"}]}]",
		 "[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": \"t\", "
		 "\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {}}}, "
		 "{\"id\": \"u\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
		 "\"arguments\": {}}}]}, {\"role\": \"tool\", \"tool_call_id\": \"t\", "
		 "\"content\": \"Error: no file\"}, {\"role\": \"tool\", \"tool_call_id\": "
		 "\"u\", \"content\": \"\"}]"},
		/* A text document becomes its text. */
		{"\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"document\", "
		 "\"title\": \"T\", \"source\": {\"type\": \"text\", \"media_type\": "
		 "\"text/plain\", \"data\": \"body\"}}]}]",
		 "[{\"role\": \"user\", \"content\": \"T\\nbody\"}]"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wanted w;
		struct err e;
		if (read_body(&w, cases[i].members, false, &e))
			fail_msg("case %zu: %s", i, e.text);
		test_same_json(w.messages, cases[i].messages);
		wanted_free(&w);
	}
}

static void params_follow_the_request(void **state)
{
	(void)state;
	static const struct {
		const char *members, *name, *value;
	} cases[] = {
		{HELLO, "max_tokens", "9"},
		{HELLO, "thinking", "off low"},
		{HELLO, "temperature", NULL},
		{HELLO ", \"temperature\": 0.3, \"top_k\": 5, \"top_p\": 0.9", "temperature",
		 "0.3"},
		{HELLO ", \"temperature\": null", "temperature", NULL},
		{HELLO ", \"top_k\": 5", "top_k", "5"},
		{HELLO ", \"top_p\": 0.9", "top_p", "0.9"},
		{HELLO ", \"stop_sequences\": [\"a\\nb\", \"c\\\\\"]", "stop", "a\\nb\nc\\\\\n"},
		{HELLO ", \"stop_sequences\": []", "stop", NULL},
		{HELLO ", \"thinking\": {\"type\": \"disabled\"}", "thinking", "off low"},
		{HELLO ", \"max_tokens\": 99999, \"thinking\": {\"type\": \"enabled\", "
		       "\"budget_tokens\": 2000}",
		 "thinking", "low on"},
		{HELLO ", \"max_tokens\": 99999, \"thinking\": {\"type\": \"enabled\", "
		       "\"budget_tokens\": 32000}",
		 "thinking", "high on"},
		{HELLO ", \"thinking\": {\"type\": \"adaptive\"}", "thinking", "on"},
		{HELLO ", \"thinking\": {\"type\": \"adaptive\"}, \"output_config\": "
		       "{\"effort\": \"medium\"}",
		 "thinking", "medium on"},
		{HELLO ", \"output_config\": {\"format\": {\"type\": \"json_schema\", \"schema\": "
		       "{\"type\": \"object\"}}}",
		 "format", "schema"},
		{HELLO ", \"tools\": [{\"name\": \"f\", \"input_schema\": {\"type\": "
		       "\"object\"}}], \"tool_choice\": {\"type\": \"any\"}",
		 "tool_choice", "required"},
		{HELLO ", \"tools\": [{\"name\": \"f\", \"input_schema\": {\"type\": "
		       "\"object\"}}], \"tool_choice\": {\"type\": \"tool\", \"name\": \"f\"}",
		 "tool_choice", "f"},
		{HELLO ", \"tool_choice\": {\"type\": \"none\"}", "tool_choice", "none"},
		{HELLO ", \"metadata\": {\"user_id\": \"u\"}, \"service_tier\": \"auto\", "
		       "\"context_management\": {}, \"unheard_of\": [1]",
		 "max_tokens", "9"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wanted w;
		struct err e;
		if (read_body(&w, cases[i].members, false, &e))
			fail_msg("case %zu: %s", i, e.text);
		const char *value = param(&w, cases[i].name);
		if (!cases[i].value)
			assert_null(value);
		else if (!value || strcmp(value, cases[i].value) != 0)
			fail_msg("case %zu: %s is %s", i, cases[i].name, value ? value : "missing");
		wanted_free(&w);
	}
}

static void deferred_tools_are_on_offer_once_they_are_named(void **state)
{
	(void)state;
	static const char TOOLS[] =
		", \"tools\": [{\"name\": \"find\", \"input_schema\": {\"type\": \"object\"}}, "
		"{\"name\": \"far\", \"description\": \"Far.\", \"input_schema\": {\"type\": "
		"\"object\"}, \"defer_loading\": true}]";
	struct wanted w;
	struct err e;
	struct text members = {0};
	text_format(&members, HELLO "%s", TOOLS);
	text_add(&members, "", 1);
	assert_int_equal(read_body(&w, members.data, false, &e), 0);
	test_same_json(w.tools, "[{\"type\": \"function\", \"function\": {\"name\": \"find\", "
				"\"parameters\": {\"type\": \"object\"}}}]");
	wanted_free(&w);
	text_cut(&members, 0);
	text_format(
		&members,
		"\"messages\": [{\"role\": \"assistant\", \"content\": [{\"type\": \"tool_use\", "
		"\"id\": \"t\", \"name\": \"find\", \"input\": {}}]}, "
		"{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", "
		"\"tool_use_id\": \"t\", \"content\": [{\"type\": \"tool_reference\", "
		"\"tool_name\": \"far\"}]}]}]%s",
		TOOLS);
	text_add(&members, "", 1);
	assert_int_equal(read_body(&w, members.data, false, &e), 0);
	assert_true(wanted_has_tool(w.tools, "far"));
	wanted_free(&w);
	text_free(&members);
}

static void errors_say_what_is_wrong_and_where(void **state)
{
	(void)state;
	static const struct {
		const char *members, *words;
		int code;
	} cases[] = {
		{"", "messages: ", EINVAL},
		{"\"messages\": []", "messages: ", EINVAL},
		{"\"messages\": [{\"role\": \"robot\", \"content\": \"x\"}]", "messages.0.role",
		 EINVAL},
		{"\"messages\": [{\"role\": \"user\", \"content\": 7}]", "messages.0.content",
		 EINVAL},
		{"\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\", "
		 "\"source\": {}}]}]",
		 "messages.0.content.0: images are not supported", ENOTSUP},
		{"\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"tool_use\", "
		 "\"id\": \"a\", \"name\": \"b\", \"input\": {}}]}]",
		 "a tool_use belongs into a message of the role assistant", EINVAL},
		{"\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": "
		 "\"server_tool_use\"}]}]",
		 "\"server_tool_use\" are not supported", ENOTSUP},
		{HELLO ", \"max_tokens\": null", "max_tokens: ", EINVAL},
		{HELLO ", \"max_tokens\": 0", "max_tokens: ", EINVAL},
		{HELLO ", \"temperature\": 1.5", "temperature: ", EINVAL},
		{HELLO ", \"temperature\": \"hot\"", "temperature: ", EINVAL},
		{HELLO ", \"stop_sequences\": \"x\"", "stop_sequences: ", EINVAL},
		{HELLO ", \"stop_sequences\": [\"\"]", "stop_sequences[0]", EINVAL},
		{HELLO ", \"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 7}",
		 "thinking.budget_tokens", EINVAL},
		{HELLO ", \"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 2000}",
		 "max_tokens: must be greater", EINVAL},
		{HELLO ", \"tools\": [{\"type\": \"web_search_20250305\", \"name\": "
		       "\"web_search\"}]",
		 "\"web_search_20250305\" runs only at Anthropic", ENOTSUP},
		{HELLO ", \"tools\": [{\"type\": \"tool_search_tool_regex_20251119\", \"name\": "
		       "\"t\"}]",
		 "tool_reference", ENOTSUP},
		{HELLO ", \"tools\": [{\"name\": \"has blanks\", \"input_schema\": {}}]",
		 "cannot be the name of a tool", EINVAL},
		{HELLO ", \"tools\": [{\"name\": \"f\", \"input_schema\": {\"type\": \"object\", "
		       "\"properties\": {\"a\": {\"type\": \"strange\"}}}}]",
		 "invalid schema for \"f\"", EINVAL},
		{"\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", "
		 "\"tool_use_id\": \"t\"}]}]",
		 "unexpected `tool_use_id`", EINVAL},
		{"\"messages\": [{\"role\": \"assistant\", \"content\": [{\"type\": \"tool_use\", "
		 "\"id\": \"t\", \"name\": \"f\", \"input\": {}}]}, {\"role\": \"user\", "
		 "\"content\": \"So?\"}]",
		 "without `tool_result` blocks", EINVAL},
		{HELLO ", \"tool_choice\": {\"type\": \"any\"}", "no tools to choose", EINVAL},
		{HELLO ", \"tools\": [{\"name\": \"f\", \"input_schema\": {}}], \"tool_choice\": "
		       "{\"type\": \"tool\", \"name\": \"g\"}",
		 "tools has no tool \"g\"", EINVAL},
		{HELLO ", \"mcp_servers\": [{\"url\": \"x\"}]", "mcp_servers", ENOTSUP},
		{HELLO ", \"thread\": {\"type\": \"continue\", \"previous_message_id\": \"msg_1\"}",
		 "send all messages", ENOENT},
		{"\"messages\": [], \"thread\": {\"type\": \"continue\", "
		 "\"previous_message_id\": \"msg_1\"}",
		 "send all messages", ENOENT},
		{HELLO ", \"thread\": {\"type\": \"other\"}", "thread.type", EINVAL},
		{HELLO ", \"thread\": true", "thread.type", EINVAL},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wanted w;
		struct err e;
		int rc = read_body(&w, cases[i].members, false, &e);
		if (rc != -cases[i].code || !strstr(e.text, cases[i].words))
			fail_msg("case %zu: %d: %s", i, rc, e.text);
		wanted_free(&w);
	}
}

static void counting_needs_no_limit(void **state)
{
	(void)state;
	struct wanted w;
	struct err e;
	assert_int_equal(read_body(&w, HELLO ", \"max_tokens\": null", true, &e), 0);
	assert_null(param(&w, "max_tokens"));
	wanted_free(&w);
}

/* ---- answers ---- */

static json_object *a_call(const char *name)
{
	struct text t = {0};
	text_format(&t,
		    "{\"id\": \"c1\", \"type\": \"function\", \"function\": {\"name\": \"%s\", "
		    "\"arguments\": {\"a\": 1}}}",
		    name);
	text_add(&t, "", 1);
	json_object *call = test_json(t.data);
	text_free(&t);
	return call;
}

/* The names of the events in a stream; each event has its name in its data as well. */
static void events_are(const struct text *out, const char *names)
{
	char found[2048] = "";
	const char *at = out->data, *end = out->data + out->length;
	while (at < end) {
		char name[64], type[64];
		int n = 0;
		assert_int_equal(
			sscanf(at, "event: %63s\ndata: {\"type\":\"%63[^\"]\"%n", name, type, &n),
			2);
		assert_string_equal(name, type);
		strcat(strcat(found, *found ? " " : ""), name);
		at = memmem(at, (size_t)(end - at), "\n\n", 2);
		assert_non_null(at);
		at += 2;
	}
	assert_string_equal(found, names);
}

static const struct answer_ending END = {
	.finish = "end", .prompt_tokens = 9, .cached_tokens = 4, .output_tokens = 5};

static void a_stream_has_its_events_in_order(void **state)
{
	(void)state;
	struct anthropic_answer a = {.id = "msg_1", .model = "m", .streams = true};
	struct text out = {0};
	json_object *call = a_call("f");
	anthropic_begin(&a, &END, &out);
	anthropic_thought(&a, "hm", 2, &out);
	anthropic_thought(&a, "!", 1, &out);
	anthropic_text(&a, "It", 2, &out);
	anthropic_text(&a, " is", 3, &out);
	anthropic_call(&a, call, &out);
	anthropic_end(&a, &(struct answer_ending){.finish = "tool_calls"}, &out);
	assert_false(out.failed);
	events_are(&out, "message_start content_block_start ping content_block_delta "
			 "content_block_delta content_block_delta content_block_stop "
			 "content_block_start content_block_delta content_block_delta "
			 "content_block_stop content_block_start content_block_delta "
			 "content_block_delta content_block_stop message_delta message_stop");
	text_add(&out, "", 1);
	assert_non_null(strstr(out.data, "\"type\":\"signature_delta\",\"signature\":\"moefs"));
	assert_non_null(strstr(out.data, "\"partial_json\":\"{\\\"a\\\":1}\""));
	assert_non_null(strstr(out.data, "\"stop_reason\":\"tool_use\""));
	assert_non_null(strstr(out.data, "\"input_tokens\":5,\"cache_creation_input_tokens\":0,"
					 "\"cache_read_input_tokens\":4"));
	json_object_put(call);
	text_free(&out);
	anthropic_free(&a);
}

static void a_message_has_the_same_blocks(void **state)
{
	(void)state;
	struct anthropic_answer a = {.id = "msg_1", .model = "m"};
	struct text out = {0};
	json_object *call = a_call("f");
	anthropic_begin(&a, &END, &out);
	anthropic_text(&a, "It", 2, &out);
	anthropic_text(&a, " is", 3, &out);
	anthropic_call(&a, call, &out);
	assert_int_equal(out.length, 0);
	anthropic_end(&a, &END, &out);
	text_add(&out, "", 1);
	json_object *message = test_json(out.data);
	test_same_json(
		message,
		"{\"id\": \"msg_1\", \"type\": \"message\", \"role\": \"assistant\", \"model\": "
		"\"m\", \"content\": [{\"type\": \"text\", \"text\": \"It is\"}, "
		"{\"type\": \"tool_use\", \"id\": \"c1\", \"name\": \"f\", \"input\": "
		"{\"a\": 1}}], \"stop_reason\": \"end_turn\", \"stop_sequence\": null, "
		"\"usage\": {\"input_tokens\": 5, \"cache_creation_input_tokens\": 0, "
		"\"cache_read_input_tokens\": 4, \"output_tokens\": 5}}");
	json_object_put(message);
	json_object_put(call);
	text_free(&out);
	anthropic_free(&a);
}

static void the_reason_of_an_end_is_reported(void **state)
{
	(void)state;
	static const struct {
		struct answer_ending end;
		const char *reason, *sequence;
	} cases[] = {
		{{.finish = "end"}, "end_turn", NULL},
		{{.finish = "stop", .stop = "X"}, "stop_sequence", "X"},
		{{.finish = "length", .max_tokens = 5, .output_tokens = 5}, "max_tokens", NULL},
		{{.finish = "length", .max_tokens = 9, .output_tokens = 5},
		 "model_context_window_exceeded",
		 NULL},
		{{.finish = "stopped"}, "end_turn", NULL},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct anthropic_answer a = {.id = "i", .model = "m"};
		struct text out = {0};
		anthropic_begin(&a, &END, &out);
		anthropic_end(&a, &cases[i].end, &out);
		text_add(&out, "", 1);
		json_object *message = test_json(out.data);
		assert_string_equal(json_text(message, "stop_reason"), cases[i].reason);
		if (cases[i].sequence)
			assert_string_equal(json_text(message, "stop_sequence"), cases[i].sequence);
		else
			assert_null(json_at(message, "stop_sequence"));
		json_object_put(message);
		text_free(&out);
		anthropic_free(&a);
	}
}

static void a_failure_has_its_status_and_word(void **state)
{
	(void)state;
	static const struct {
		enum problem_kind kind;
		unsigned status;
		const char *type;
	} cases[] = {
		{PROBLEM_INVALID, 400, "invalid_request_error"},
		{PROBLEM_KEY, 401, "authentication_error"},
		{PROBLEM_FORBIDDEN, 403, "permission_error"},
		{PROBLEM_MODEL, 404, "not_found_error"},
		{PROBLEM_THREAD, 404, "not_found_error"},
		{PROBLEM_TOO_LARGE, 413, "request_too_large"},
		{PROBLEM_TOO_LONG, 400, "invalid_request_error"},
		{PROBLEM_BUSY, 429, "rate_limit_error"},
		{PROBLEM_FAILED, 500, "api_error"},
		{PROBLEM_NOT_NOW, 529, "overloaded_error"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct problem p = {.kind = cases[i].kind, .text = "so"};
		json_object *body = problem_json(&p, PROTOCOL_ANTHROPIC, "r1");
		json_object *error = json_at(body, "error");
		assert_int_equal(problem_status(&p, PROTOCOL_ANTHROPIC), cases[i].status);
		assert_string_equal(json_text(body, "type"), "error");
		assert_string_equal(json_text(error, "type"), cases[i].type);
		assert_string_equal(json_text(error, "message"), "so");
		assert_int_equal(!!json_at(error, "details"), p.kind == PROBLEM_THREAD);
		json_object_put(body);
	}
}

static void bytes_that_are_no_characters_are_stood_in_for(void **state)
{
	(void)state;
#define INSTEAD "\xef\xbf\xbd"
	static const struct {
		const char *bytes, *text;
	} cases[] = {
		{"", ""},
		{"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z",
		 "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z"},
		{"a\xff"
		 "b",
		 "a" INSTEAD "b"},
		{"\xc0\xaf", INSTEAD INSTEAD},		   /* more bytes than needed */
		{"\xed\xa0\x80", INSTEAD INSTEAD INSTEAD}, /* half of a pair */
		{"\xe2\x82", INSTEAD INSTEAD},
		{"\xf4\x90\x80\x80", INSTEAD INSTEAD INSTEAD INSTEAD},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct text out = {0};
		text_add_characters(&out, cases[i].bytes, strlen(cases[i].bytes));
		text_add(&out, "", 1);
		assert_string_equal(out.data, cases[i].text);
		text_free(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_become_the_tree_s),
		cmocka_unit_test(params_follow_the_request),
		cmocka_unit_test(deferred_tools_are_on_offer_once_they_are_named),
		cmocka_unit_test(errors_say_what_is_wrong_and_where),
		cmocka_unit_test(counting_needs_no_limit),
		cmocka_unit_test(a_stream_has_its_events_in_order),
		cmocka_unit_test(a_message_has_the_same_blocks),
		cmocka_unit_test(the_reason_of_an_end_is_reported),
		cmocka_unit_test(a_failure_has_its_status_and_word),
		cmocka_unit_test(bytes_that_are_no_characters_are_stood_in_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* OpenAI's responses: how a request is read, and how an answer is written. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/responses/responses.h"
#include "tests/unit/json_help.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- what earlier responses left ---- */

static json_object *kept_messages(void *ctx, const char *response)
{
	(void)ctx;
	return strcmp(response, "resp_old")
		       ? NULL
		       : test_json("[{\"role\": \"user\", \"content\": \"before\"}, "
				   "{\"role\": \"assistant\", \"content\": "
				   "\"yes\"}]");
}

static json_object *kept_item(void *ctx, const char *item)
{
	(void)ctx;
	return strcmp(item, "msg_old_0")
		       ? NULL
		       : test_json("{\"type\": \"message\", \"role\": \"assistant\", "
				   "\"content\": [{\"type\": \"output_text\", "
				   "\"text\": \"kept\"}]}");
}

static const struct responses_past PAST = {NULL, kept_messages, kept_item};

static int read_body(struct responses_asked *a, const char *members, struct err *e)
{
	struct text body = {0};
	text_format(&body, "{\"model\": \"m\", %s}", members);
	text_add(&body, "", 1);
	json_object *o = test_json(body.data);
	*a = (struct responses_asked){0};
	*e = (struct err){0};
	int rc = responses_read(a, o, &PAST, e);
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

/* ---- requests ---- */

static void items_become_messages(void **state)
{
	(void)state;
	static const struct {
		const char *members, *messages;
	} cases[] = {
		{"\"input\": \"Hello\"", "[{\"role\": \"user\", \"content\": \"Hello\"}]"},
		{"\"instructions\": \"Short.\", \"input\": \"Hello\"",
		 "[{\"role\": \"system\", \"content\": \"Short.\"}, {\"role\": \"user\", "
		 "\"content\": \"Hello\"}]"},
		/* System messages at the beginning are joined with the instructions. */
		{"\"instructions\": \"Short.\", \"input\": [{\"role\": \"developer\", "
		 "\"content\": \"Kind.\"}, {\"role\": \"user\", \"content\": [{\"type\": "
		 "\"input_text\", \"text\": \"Hello\"}]}]",
		 "[{\"role\": \"system\", \"content\": \"Short.\\n\\nKind.\"}, {\"role\": "
		 "\"user\", \"content\": \"Hello\"}]"},
		/* Later ones stay in their place, in a role that every template accepts there. */
		{"\"input\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
		 "\"assistant\", \"content\": \"b\"}, {\"role\": \"developer\", \"content\": "
		 "\"c\"}, {\"role\": \"user\", \"content\": \"d\"}]",
		 "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
		 "\"content\": \"b\"}, {\"role\": \"user\", \"content\": \"c\\nd\"}]"},
		/* A reasoning, a text and calls become one answer. */
		{"\"input\": [{\"role\": \"user\", \"content\": \"q\"}, {\"type\": \"reasoning\", "
		 "\"id\": \"rs\", \"summary\": [], \"content\": [{\"type\": \"reasoning_text\", "
		 "\"text\": \"hm\"}]}, {\"type\": \"message\", \"role\": \"assistant\", "
		 "\"content\": [{\"type\": \"output_text\", \"text\": \"I look.\"}]}, {\"type\": "
		 "\"function_call\", \"call_id\": \"c1\", \"name\": \"f\", \"arguments\": "
		 "\"{\\\"a\\\": 1}\"}, {\"type\": \"function_call\", \"call_id\": \"c2\", "
		 "\"namespace\": \"crm\", \"name\": \"g\", \"arguments\": \"\"}, {\"type\": "
		 "\"function_call_output\", \"call_id\": \"c1\", \"output\": \"42\"}, {\"type\": "
		 "\"function_call_output\", \"call_id\": \"c2\", \"output\": [{\"type\": "
		 "\"input_text\", \"text\": \"43\"}]}]",
		 "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
		 "\"content\": \"I look.\", \"thinking\": \"hm\", \"tool_calls\": [{\"id\": "
		 "\"c1\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "
		 "\"{\\\"a\\\": 1}\"}}, {\"id\": \"c2\", \"type\": \"function\", \"function\": "
		 "{\"name\": \"crm__g\", \"arguments\": null}}]}, {\"role\": \"tool\", "
		 "\"tool_call_id\": \"c1\", \"content\": \"42\"}, {\"role\": \"tool\", "
		 "\"tool_call_id\": \"c2\", \"content\": \"43\"}]"},
		{"\"input\": [{\"type\": \"custom_tool_call\", \"call_id\": \"c\", \"name\": "
		 "\"patch\", \"input\": \"*** x\"}, {\"type\": \"custom_tool_call_output\", "
		 "\"call_id\": \"c\", \"output\": \"done\"}]",
		 "[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": \"c\", "
		 "\"type\": \"function\", \"function\": {\"name\": \"patch\", \"arguments\": "
		 "{\"input\": \"*** x\"}}}]}, {\"role\": \"tool\", \"tool_call_id\": \"c\", "
		 "\"content\": \"done\"}]"},
		{"\"previous_response_id\": \"resp_old\", \"instructions\": \"New.\", \"input\": "
		 "\"after\"",
		 "[{\"role\": \"system\", \"content\": \"New.\"}, {\"role\": \"user\", "
		 "\"content\": \"before\"}, {\"role\": \"assistant\", \"content\": \"yes\"}, "
		 "{\"role\": \"user\", \"content\": \"after\"}]"},
		{"\"input\": [{\"type\": \"item_reference\", \"id\": \"msg_old_0\"}, {\"role\": "
		 "\"user\", \"content\": \"so\"}]",
		 "[{\"role\": \"assistant\", \"content\": \"kept\"}, {\"role\": \"user\", "
		 "\"content\": \"so\"}]"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct responses_asked a;
		struct err e;
		if (responses_read(&(struct responses_asked){0}, NULL, &PAST, &e) != -EINVAL)
			fail_msg("no body");
		if (read_body(&a, cases[i].members, &e))
			fail_msg("case %zu: %s", i, e.text);
		test_same_json(a.wanted.messages, cases[i].messages);
		responses_asked_free(&a);
	}
}

static void instructions_are_of_one_request(void **state)
{
	(void)state;
	struct responses_asked a;
	struct err e;
	assert_int_equal(read_body(&a, "\"instructions\": \"I\", \"input\": \"x\"", &e), 0);
	test_same_json(a.messages, "[{\"role\": \"user\", \"content\": \"x\"}]");
	responses_asked_free(&a);
}

#define TOOLS                                                                                      \
	", \"tools\": [{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"type\": "      \
	"\"object\"}, \"strict\": true}, {\"type\": \"custom\", \"name\": \"patch\", "             \
	"\"description\": \"Patches.\", \"format\": {\"type\": \"grammar\", \"syntax\": "          \
	"\"lark\", "                                                                               \
	"\"definition\": \"start: X\"}}, {\"type\": \"namespace\", \"name\": \"crm\", \"tools\": " \
	"[{\"type\": \"function\", \"name\": \"g\"}]}, {\"type\": \"web_search\"}]"

static void tools_of_all_kinds_are_functions(void **state)
{
	(void)state;
	struct responses_asked a;
	struct err e;
	assert_int_equal(read_body(&a, "\"input\": \"x\"" TOOLS, &e), 0);
	test_same_json(
		a.wanted.tools,
		"[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
		"{\"type\": \"object\"}}}, {\"type\": \"function\", \"function\": {\"name\": "
		"\"patch\", \"description\": \"Patches.\\nThe input is a text of this lark "
		"grammar:\\nstart: X\", \"parameters\": {\"type\": \"object\", \"properties\": "
		"{\"input\": {\"type\": \"string\"}}, \"required\": [\"input\"], "
		"\"additionalProperties\": false}}}, {\"type\": \"function\", \"function\": "
		"{\"name\": \"crm__g\"}}]");
	test_same_json(a.names, "{\"patch\": {\"name\": \"patch\", \"custom\": true}, \"crm__g\": "
				"{\"name\": \"g\", \"namespace\": \"crm\"}}");
	responses_asked_free(&a);
	assert_int_equal(read_body(&a,
				   "\"input\": \"x\"" TOOLS
				   ", \"tool_choice\": {\"type\": \"allowed_tools\", \"mode\": "
				   "\"required\", \"tools\": [{\"type\": \"function\", \"name\": "
				   "\"f\"}]}",
				   &e),
			 0);
	assert_int_equal(json_object_array_length(a.wanted.tools), 1);
	assert_string_equal(param(&a.wanted, "tool_choice"), "required");
	responses_asked_free(&a);
}

/* A service's tool beside others is left out of the tools that a response repeats; a function has
 * all of its keys there. */
static void services_tools_are_left_out(void **state)
{
	(void)state;
	struct responses_asked a;
	struct err e;
	assert_int_equal(read_body(&a,
				   "\"input\": \"x\", \"tools\": [{\"type\": \"web_search\"}, "
				   "{\"type\": \"function\", \"name\": \"f\", \"strict\": true}, "
				   "{\"type\": \"custom\", \"name\": \"c\"}]",
				   &e),
			 0);
	assert_int_equal(json_object_array_length(a.wanted.tools), 2);
	test_same_json(json_at(a.echo, "tools"),
		       "[{\"type\": \"function\", \"name\": \"f\", \"strict\": true, "
		       "\"description\": null, \"parameters\": null}, {\"type\": \"custom\", "
		       "\"name\": \"c\"}]");
	responses_asked_free(&a);
	assert_int_equal(read_body(&a, "\"input\": \"x\", \"tools\": []", &e), 0);
	test_same_json(json_at(a.echo, "tools"), "[]");
	responses_asked_free(&a);
}

static void params_follow_the_request(void **state)
{
	(void)state;
	static const struct {
		const char *members, *name, *value;
	} cases[] = {
		{"\"input\": \"x\"", "thinking", NULL},
		{"\"input\": \"x\", \"reasoning\": {\"effort\": \"low\"}", "thinking", "low on"},
		{"\"input\": \"x\", \"reasoning\": {\"effort\": \"none\"}", "thinking", "off low"},
		{"\"input\": \"x\", \"max_output_tokens\": 7", "max_tokens", "7"},
		{"\"input\": \"x\", \"temperature\": 1.5", "temperature", "1.5"},
		{"\"input\": \"x\", \"text\": {\"format\": {\"type\": \"json_object\"}}", "format",
		 "json"},
		{"\"input\": \"x\", \"text\": {\"format\": {\"type\": \"json_schema\", \"name\": "
		 "\"n\", \"schema\": {\"type\": \"object\"}}}",
		 "format", "schema"},
		{"\"input\": \"x\", \"truncation\": \"auto\"", "on_full", "drop-oldest"},
		{"\"input\": \"x\"" TOOLS ", \"tool_choice\": {\"type\": \"function\", \"name\": "
		 "\"f\"}",
		 "tool_choice", "f"},
		{"\"input\": \"x\"" TOOLS ", \"tool_choice\": {\"type\": \"custom\", \"name\": "
		 "\"patch\"}",
		 "tool_choice", "patch"},
		{"\"input\": \"x\", \"metadata\": {\"a\": \"b\"}, \"user\": \"u\", \"store\": "
		 "false, \"include\": [\"reasoning.encrypted_content\"], \"unheard_of\": 1",
		 "max_tokens", NULL},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct responses_asked a;
		struct err e;
		if (read_body(&a, cases[i].members, &e))
			fail_msg("case %zu: %s", i, e.text);
		const char *value = param(&a.wanted, cases[i].name);
		if (!cases[i].value)
			assert_null(value);
		else if (!value || strcmp(value, cases[i].value) != 0)
			fail_msg("case %zu: %s is %s", i, cases[i].name, value ? value : "missing");
		responses_asked_free(&a);
	}
}

static void errors_say_what_is_wrong_and_where(void **state)
{
	(void)state;
	static const struct {
		const char *members, *words;
		int code;
	} cases[] = {
		{"\"store\": true", "input: ", EINVAL},
		{"\"input\": 7", "input: ", EINVAL},
		{"\"input\": [{\"role\": \"robot\", \"content\": \"x\"}]", "input[0]: its role",
		 EINVAL},
		{"\"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_image\", "
		 "\"image_url\": \"x\"}]}]",
		 "\"input_image\" are not supported", ENOTSUP},
		{"\"input\": [{\"type\": \"computer_call\"}]",
		 "\"computer_call\" are not supported", ENOTSUP},
		{"\"input\": [{\"type\": \"item_reference\", \"id\": \"no\"}]", "no item \"no\"",
		 ENOENT},
		{"\"previous_response_id\": \"resp_no\", \"input\": \"x\"",
		 "previous_response_id: \"resp_no\"", ENOENT},
		{"\"input\": \"x\", \"conversation\": \"c\"", "conversation: ", ENOTSUP},
		{"\"input\": \"x\", \"background\": true", "background: ", ENOTSUP},
		{"\"input\": \"x\", \"temperature\": 3", "temperature: ", EINVAL},
		{"\"input\": \"x\", \"max_output_tokens\": 0", "max_output_tokens: ", EINVAL},
		{"\"input\": \"x\", \"reasoning\": {\"effort\": \"huge\"}", "reasoning.effort",
		 EINVAL},
		{"\"input\": \"x\", \"text\": {\"format\": {\"type\": \"yaml\"}}", "text.format",
		 EINVAL},
		{"\"input\": \"x\", \"tool_choice\": \"required\"", "no tools to choose", EINVAL},
		{"\"input\": \"x\", \"tool_choice\": {\"type\": \"function\", \"name\": \"f\"}",
		 "tools has no tool \"f\"", EINVAL},
		{"\"input\": \"x\", \"tools\": [{\"type\": \"function\"}]", "a type and a name",
		 EINVAL},
		{"\"input\": \"x\", \"tools\": [{\"type\": \"web_search\"}]",
		 "tools: \"web_search\" runs only at OpenAI", ENOTSUP},
		{"\"input\": \"x\", \"tools\": [{\"type\": \"function\", \"name\": \"f\"}], "
		 "\"tool_choice\": {\"type\": \"file_search\"}",
		 "tool_choice: \"file_search\" runs only at OpenAI", ENOTSUP},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct responses_asked a;
		struct err e;
		int rc = read_body(&a, cases[i].members, &e);
		if (rc != -cases[i].code || !strstr(e.text, cases[i].words))
			fail_msg("case %zu: %d: %s", i, rc, e.text);
		responses_asked_free(&a);
	}
}

/* ---- answers ---- */

static void call(struct responses_answer *a, const char *name, const char *arguments,
		 struct text *out)
{
	struct text t = {0};
	text_format(&t, "{\"id\": \"c1\", \"function\": {\"name\": \"%s\", \"arguments\": %s}}",
		    name, arguments);
	text_add(&t, "", 1);
	json_object *o = test_json(t.data);
	responses_call(a, o, out);
	json_object_put(o);
	text_free(&t);
}

/* The names of the events in a stream without their common beginning; checks that their numbers
 * count up. */
static void events_are(const struct text *out, const char *names)
{
	char found[2048] = "";
	const char *at = out->data, *end = out->data + out->length;
	for (int i = 0; at < end; i++) {
		char name[64];
		int number = -1;
		assert_int_equal(
			sscanf(at,
			       "event: response.%63s\ndata: {\"type\":\"response.%*[^\"]\","
			       "\"sequence_number\":%d",
			       name, &number),
			2);
		assert_int_equal(number, i);
		strcat(strcat(found, *found ? " " : ""), name);
		at = memmem(at, (size_t)(end - at), "\n\n", 2);
		assert_non_null(at);
		at += 2;
	}
	assert_string_equal(found, names);
}

static void a_stream_has_its_events_in_order(void **state)
{
	(void)state;
	struct responses_asked asked;
	struct err e;
	assert_int_equal(read_body(&asked, "\"input\": \"x\"" TOOLS, &e), 0);
	struct responses_answer a = {
		.asked = &asked, .id = "1", .model = "m", .created = 7, .streams = true};
	struct text out = {0};
	responses_begin(&a, NULL, &out);
	responses_thought(&a, "hm", 2, &out);
	responses_text(&a, "It", 2, &out);
	responses_text(&a, " is", 3, &out);
	call(&a, "crm__g", "{\"a\": 1}", &out);
	call(&a, "patch", "{\"input\": \"*** x\"}", &out);
	json_object *whole = responses_end(&a,
					   &(struct answer_ending){.finish = "tool_calls",
								   .prompt_tokens = 9,
								   .output_tokens = 5},
					   &out);
	assert_false(out.failed);
	events_are(&out,
		   "created in_progress output_item.added content_part.added "
		   "reasoning_text.delta reasoning_text.done content_part.done output_item.done "
		   "output_item.added content_part.added output_text.delta output_text.delta "
		   "output_text.done content_part.done output_item.done output_item.added "
		   "function_call_arguments.delta function_call_arguments.done output_item.done "
		   "output_item.added custom_tool_call_input.delta custom_tool_call_input.done "
		   "output_item.done completed");
	test_same_json(
		json_at(whole, "output"),
		"[{\"id\": \"rs_1_0\", \"type\": \"reasoning\", \"status\": \"completed\", "
		"\"summary\": [], \"content\": [{\"type\": \"reasoning_text\", \"text\": "
		"\"hm\"}]}, {\"id\": \"msg_1_1\", \"type\": \"message\", \"status\": "
		"\"completed\", \"role\": \"assistant\", \"content\": [{\"type\": "
		"\"output_text\", \"text\": \"It is\", \"annotations\": [], \"logprobs\": "
		"[]}]}, {\"id\": \"fc_1_2\", \"type\": \"function_call\", \"status\": "
		"\"completed\", \"call_id\": \"c1\", \"name\": \"g\", \"namespace\": \"crm\", "
		"\"arguments\": \"{\\\"a\\\":1}\"}, {\"id\": \"ctc_1_3\", \"type\": "
		"\"custom_tool_call\", \"status\": \"completed\", \"call_id\": \"c1\", "
		"\"name\": \"patch\", \"input\": \"*** x\"}]");
	json_object *message = dialog_take(&a.dialog);
	test_same_json(
		message,
		"[{\"role\": \"assistant\", \"content\": \"It is\", \"thinking\": \"hm\", "
		"\"tool_calls\": [{\"id\": \"c1\", \"type\": \"function\", \"function\": "
		"{\"name\": \"crm__g\", \"arguments\": {\"a\": 1}}}, {\"id\": \"c1\", \"type\": "
		"\"function\", \"function\": {\"name\": \"patch\", \"arguments\": {\"input\": "
		"\"*** x\"}}}]}]");
	json_object_put(message);
	json_object_put(whole);
	text_free(&out);
	responses_free(&a);
	responses_asked_free(&asked);
}

static void an_answer_that_is_cut_is_incomplete(void **state)
{
	(void)state;
	struct responses_asked asked;
	struct err e;
	assert_int_equal(read_body(&asked, "\"input\": \"x\", \"metadata\": {\"k\": \"v\"}", &e),
			 0);
	struct responses_answer a = {.asked = &asked, .id = "1", .model = "m", .created = 7};
	struct text out = {0};
	responses_begin(&a, NULL, &out);
	responses_text(&a, "It", 2, &out);
	json_object *whole = responses_end(&a,
					   &(struct answer_ending){.finish = "length",
								   .prompt_tokens = 9,
								   .cached_tokens = 4,
								   .output_tokens = 5},
					   &out);
	assert_int_equal(out.length, 0);
	assert_string_equal(json_text(whole, "status"), "incomplete");
	test_same_json(json_at(whole, "incomplete_details"), "{\"reason\": \"max_output_tokens\"}");
	test_same_json(json_at(whole, "metadata"), "{\"k\": \"v\"}");
	test_same_json(
		json_at(whole, "usage"),
		"{\"input_tokens\": 9, \"input_tokens_details\": {\"cached_tokens\": 4, "
		"\"cache_write_tokens\": 0}, "
		"\"output_tokens\": 5, \"output_tokens_details\": {\"reasoning_tokens\": 0}, "
		"\"total_tokens\": 14}");
	json_object_put(whole);
	text_free(&out);
	responses_free(&a);
	responses_asked_free(&asked);
}

static void one_that_fails_says_so_last(void **state)
{
	(void)state;
	struct responses_asked asked;
	struct err e;
	assert_int_equal(read_body(&asked, "\"input\": \"x\"", &e), 0);
	struct responses_answer a = {
		.asked = &asked, .id = "1", .model = "m", .created = 7, .streams = true};
	struct text out = {0};
	responses_begin(&a, NULL, &out);
	responses_text(&a, "It", 2, &out);
	responses_fail(&a, &(struct problem){.kind = PROBLEM_FAILED, .text = "the disk is gone"},
		       &out);
	events_are(&out, "created in_progress output_item.added content_part.added "
			 "output_text.delta output_text.done content_part.done output_item.done "
			 "failed");
	text_add(&out, "", 1);
	assert_non_null(strstr(out.data,
			       "\"error\":{\"code\":\"server_error\",\"message\":\"the disk "
			       "is gone\"}"));
	text_free(&out);
	responses_free(&a);
	responses_asked_free(&asked);
}

static void an_item_s_name_tells_its_place(void **state)
{
	(void)state;
	char response[16];
	unsigned index = 0;
	assert_true(responses_item_place("msg_abc_12", response, sizeof response, &index));
	assert_string_equal(response, "abc");
	assert_int_equal(index, 12);
	static const char *const OTHERS[] = {"",
					     "msg",
					     "msg_abc",
					     "msg_abc_",
					     "msg_abc_x",
					     "_",
					     "msg_aaaaaaaaaaaaaaaaaaaaaaaa_1",
					     "msg_a_1234567"};
	for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
		assert_false(responses_item_place(OTHERS[i], response, sizeof response, &index));
}

/* ---- what is kept ---- */

static void put(struct responses_kept *k, size_t key, const char *id, const char *text)
{
	json_object *o = json_object_new_string(text);
	json_object *const texts[KEPT_TEXTS] = {o, o, o};
	responses_kept_put(k, key, id, texts);
	json_object_put(o);
}

/* The ids of `all`, of one letter each, that are kept for a key. */
static void kept_are(struct responses_kept *k, size_t key, const char *all, const char *want)
{
	char has[16] = "";
	for (size_t i = 0; all[i]; i++) {
		const char id[] = {all[i], 0};
		json_object *o = responses_kept_get(k, key, id, KEPT_RESPONSE);
		if (o)
			strcat(has, id);
		json_object_put(o);
	}
	assert_string_equal(has, want);
}

static void the_oldest_makes_room(void **state)
{
	(void)state;
	struct responses_kept *k = responses_kept_create(3, 1 << 20);
	for (const char *id = "abcd"; *id; id++)
		put(k, 0, (const char[]){*id, 0}, "x");
	kept_are(k, 0, "abcd", "bcd");
	assert_true(responses_kept_remove(k, 0, "c"));
	assert_false(responses_kept_remove(k, 0, "c"));
	/* A removed response's place stays empty until it is the oldest. */
	put(k, 0, "e", "x");
	put(k, 0, "f", "x");
	kept_are(k, 0, "abcdef", "def");
	responses_kept_free(k);
}

static void as_many_bytes_as_were_allowed(void **state)
{
	(void)state;
	char text[31];
	memset(text, 'x', sizeof text - 1);
	text[30] = 0;
	/* Three texts of 30 bytes, each with two quotes and an end: 99 bytes per response. */
	struct responses_kept *k = responses_kept_create(8, 250);
	put(k, 0, "a", text);
	put(k, 0, "b", text);
	kept_are(k, 0, "ab", "ab");
	put(k, 0, "c", text);
	kept_are(k, 0, "abc", "bc");
	char large[101];
	memset(large, 'x', sizeof large - 1);
	large[100] = 0;
	put(k, 0, "d", large); /* larger than the limit: nothing is removed for it */
	kept_are(k, 0, "abcd", "bc");
	responses_kept_free(k);
}

/* A body may be nested deeper than json-c's default limit. */
static void however_deep_it_is(void **state)
{
	(void)state;
	json_object *deep = json_object_new_array();
	for (int i = 0; i < 120; i++) {
		json_object *around = json_object_new_array();
		json_object_array_add(around, deep);
		deep = around;
	}
	struct responses_kept *k = responses_kept_create(1, 1 << 20);
	json_object *const texts[KEPT_TEXTS] = {deep, deep, deep};
	responses_kept_put(k, 0, "a", texts);
	kept_are(k, 0, "a", "a");
	json_object_put(deep);
	responses_kept_free(k);
}

static void each_key_has_its_own(void **state)
{
	(void)state;
	struct responses_kept *k = responses_kept_create(4, 1 << 20);
	put(k, 1, "a", "x");
	put(k, 2, "b", "x");
	kept_are(k, 1, "ab", "a");
	kept_are(k, 2, "ab", "b");
	kept_are(k, 0, "ab", "");
	assert_false(responses_kept_remove(k, 2, "a"));
	kept_are(k, 1, "ab", "a");
	responses_kept_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items_become_messages),
		cmocka_unit_test(instructions_are_of_one_request),
		cmocka_unit_test(tools_of_all_kinds_are_functions),
		cmocka_unit_test(services_tools_are_left_out),
		cmocka_unit_test(params_follow_the_request),
		cmocka_unit_test(errors_say_what_is_wrong_and_where),
		cmocka_unit_test(a_stream_has_its_events_in_order),
		cmocka_unit_test(an_answer_that_is_cut_is_incomplete),
		cmocka_unit_test(one_that_fails_says_so_last),
		cmocka_unit_test(an_item_s_name_tells_its_place),
		cmocka_unit_test(the_oldest_makes_room),
		cmocka_unit_test(as_many_bytes_as_were_allowed),
		cmocka_unit_test(however_deep_it_is),
		cmocka_unit_test(each_key_has_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

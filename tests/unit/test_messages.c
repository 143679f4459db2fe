/* Conversations as messages: in and out as JSON, refused in words, and rendered for the model. */
#include "tests/unit/golden.h"
#include "tests/unit/tokenizer_help.h"

#include "engine/template/chat_template.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct tm CLOCK = {.tm_year = 126, .tm_mday = 2, .tm_wday = 5, .tm_yday = 1};

static void read_text(struct messages *m, const char *text)
{
	struct err e = {0};
	must(messages_read(m, text, strlen(text), &e), &e);
}

/* ---- in and out ---- */

static void what_is_written_reads_back_the_same(void **state)
{
	(void)state;
	size_t n, taken = 0, refused = 0;
	char *file = read_any(test_data("templates/conversations.jsonl.zst"), &n), *rest = file,
	     *line;
	while ((line = strsep(&rest, "\n"))) {
		struct json *c;
		struct err e = {0};
		struct messages m = {0}, again = {0};
		struct text_out given = {0}, one = {0}, two = {0};
		if (!*line)
			continue;
		must(json_parse_text(&c, line, strlen(line), "conversation", &e), &e);
		text_out_json(&given, json_find(c, "messages"));
		if (messages_read(&m, given.bytes, given.n, &e) == 0) {
			messages_write(&m, &one);
			must(messages_read(&again, one.bytes, one.n, &e), &e);
			messages_write(&again, &two);
			assert_int_equal(m.count, json_count(json_find(c, "messages")));
			assert_string_equal(one.bytes, two.bytes);
			taken++;
		} else {
			assert_int_equal(e.code, EINVAL);
			refused++;
		}
		messages_free(&m);
		messages_free(&again);
		text_out_free(&given);
		text_out_free(&one);
		text_out_free(&two);
		json_free(c);
	}
	free(file);
	assert_int_equal(refused, 2); /* a role that nobody knows; a result that is no text */
	assert_int_equal(taken, 48);
}

static void a_refusal_names_the_message_and_the_key(void **state)
{
	(void)state;
	static const struct {
		const char *text, *words;
	} CASES[] = {
		{"{}", "must be a list"},
		{"[1]", "message 0"},
		{"[{\"role\": \"user\", \"content\": \"a\"}, {\"content\": \"b\"}]",
		 "message 1: \"role\" is missing"},
		{"[{\"role\": \"king\", \"content\": \"\"}]", "\"king\""},
		{"[{\"role\": \"user\", \"content\": 1}]", "\"content\" must be a text"},
		{"[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]", "content"},
		{"[{\"role\": \"user\", \"contents\": \"a\"}]", "a message has no \"contents\""},
		{"[{\"role\": \"user\", \"thinking\": \"a\"}]", "only an assistant"},
		{"[{\"role\": \"assistant\", \"tool_calls\": {}}]", "tool_calls"},
		{"[{\"role\": \"assistant\", \"tool_calls\": [{\"name\": \"f\"}]}]", "tool_calls"},
		{"[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", "
		 "\"arguments\": \"[1]\"}}]}]",
		 "arguments"},
		{"[{\"role\": \"user\", \"content\": \"a\"},]", "messages.json"},
	};
	struct messages m = {0};
	read_text(&m, "[{\"role\": \"user\", \"content\": \"kept\"}]");
	for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
		struct err e = {0};
		int rc = messages_read(&m, CASES[i].text, strlen(CASES[i].text), &e);
		if (rc != -EINVAL || !strstr(e.text, CASES[i].words))
			fail_msg("%s: %d %s", CASES[i].text, rc, e.text);
		assert_int_equal(m.count, 1); /* none is changed */
	}
	messages_free(&m);
}

static void what_is_added_can_be_read(void **state)
{
	(void)state;
	struct messages m = {0}, again = {0};
	struct text_out out = {0};
	struct err e = {0};
	struct call call = {
		.name = "f", .name_n = 1, .arguments = "{\"a\": 1.0}", .arguments_n = 10};
	struct calls calls = {.items = &call, .count = 1};
	must(messages_add(&m, "user", "a \"b\"\n", 6, &e), &e);
	must(messages_add_answer(&m, "c\xff", 2, "why", 3, &calls, 37, &e), &e);
	must(messages_add_result(&m, "c00011000", 9, "4", 1, &e), &e);
	messages_write(&m, &out);
	assert_string_equal(
		out.bytes,
		"[\n{\"role\": \"user\", \"content\": \"a \\\"b\\\"\\n\"},\n"
		"{\"role\": \"assistant\", \"content\": \"c\xef\xbf\xbd\", \"thinking\": \"why\", "
		"\"tool_calls\": [{\"id\": \"c00011000\", \"type\": \"function\", \"function\": "
		"{\"name\": \"f\", \"arguments\": {\"a\": 1.0}}}]},\n"
		"{\"role\": \"tool\", \"tool_call_id\": \"c00011000\", \"content\": \"4\"}\n]\n");
	must(messages_read(&again, out.bytes, out.n, &e), &e);
	assert_int_equal(again.count, 3);
	text_out_free(&out);
	messages_free(&m);
	messages_free(&again);
}

/* ---- for the model ---- */

static struct tokenizer *fixture_tokenizer(void)
{
	struct tokenizer *t;
	struct err e = {0};
	must(tokenizer_open(&t, FIXTURE, &e), &e);
	return t;
}

static void without_a_template_conversations_are_chatml(void **state)
{
	(void)state;
	struct tokenizer *t = fixture_tokenizer();
	struct chat_template *c;
	struct messages m = {0};
	struct token_list want = {0}, have = {0};
	struct err e = {0};
	must(chat_template_open_text(&c, NULL, NULL, "none", t, &e), &e);
	assert_string_equal(chat_template_origin(c), "ChatML");
	read_text(&m, "[{\"role\": \"system\", \"content\": \"Be brief.\"},"
		      "{\"role\": \"user\", \"content\": \"\\nHi \\u00e9\"}]");
	static const char WRITTEN[] = "<|im_start|>system\nBe brief.<|im_end|>\n"
				      "<|im_start|>user\n\nHi \xc3\xa9<|im_end|>\n"
				      "<|im_start|>assistant\n";
	must(tokenizer_begin(t, &want, &e), &e);
	must(tokenizer_encode(t, WRITTEN, sizeof WRITTEN - 1, NULL, &want, &e), &e);
	struct chat_input in = {.messages = &m, .clock = &CLOCK, .answer = true};
	must(chat_encode(c, &in, NULL, &have, &e), &e);
	assert_int_equal(have.count, want.count);
	assert_memory_equal(have.ids, want.ids, want.count * sizeof *want.ids);
	token_list_free(&want);
	token_list_free(&have);
	messages_free(&m);
	chat_template_close(c);
	tokenizer_close(t);
}

/* Without the tokens, or a tokenizer that cannot even spell them, it is refused in words. */
static void without_its_tokens_there_is_no_chatml(void **state)
{
	(void)state;
	static const char *const ADDED[] = {
		"[]", "[{\"id\": 400, \"content\": \"<|im_start|>\", \"special\": true}]", "[]"};
	for (int i = 0; i < 3; i++) {
		struct json_object *document = fixture_document();
		struct tokenizer *t;
		struct chat_template *c;
		struct err e = {0};
		/* In the vocabulary alone it is not cut out of text. */
		json_object_object_add(at(document, "model.vocab"), "<|im_end|>", json("383"));
		json_object_object_add(document, "added_tokens", json(ADDED[i]));
		if (i == 2)
			json_object_object_del(at(document, "model.vocab"), "|");
		must(open_document(&t, document, &e), &e);
		assert_int_equal(chat_template_open_text(&c, NULL, NULL, "none", t, &e), -ENODATA);
		assert_non_null(strstr(e.text, "<|im_start|>"));
		tokenizer_close(t);
	}
}

static void im_end_ends_an_answer_special_or_not(void **state)
{
	(void)state;
	static const char *const SPECIAL[] = {"true", "false"};
	for (int i = 0; i < 2; i++) {
		struct json_object *document = fixture_document();
		struct tokenizer *t;
		struct chat_template *c;
		struct err e = {0};
		char added[256];
		(void)snprintf(added, sizeof added,
			       "[{\"id\": 400, \"content\": \"<|im_start|>\", \"special\": %1$s},"
			       "{\"id\": 401, \"content\": \"<|im_end|>\", \"special\": %1$s}]",
			       SPECIAL[i]);
		json_object_object_add(document, "added_tokens", json(added));
		must(open_document(&t, document, &e), &e);
		must(chat_template_open_text(&c, NULL, NULL, "none", t, &e), &e);
		assert_true(chat_template_ends(c, 401));
		assert_false(chat_template_ends(c, 400));
		chat_template_close(c);
		tokenizer_close(t);
	}
}

static void a_message_that_is_not_utf8_is_named_by_its_offset(void **state)
{
	(void)state;
	struct messages m = {0};
	struct err e = {0};
	assert_int_equal(messages_add(&m, "user", "ab\xff", 3, &e), -EILSEQ);
	assert_non_null(strstr(e.text, "byte 2 "));
	assert_int_equal(m.count, 0);
	must(messages_add(&m, "user", NULL, 0, &e), &e); /* an empty one is one */
	assert_string_equal(m.items[0].json, "{\"role\": \"user\", \"content\": \"\"}");
	messages_free(&m);
}

/* All fields of all messages, by way of JSON and without. */
static const char ALL_FIELDS[] =
	"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{{ m.name }}"
	"{{ m.tool_call_id }}{{ m.thinking }}{% for c in m.tool_calls or [] %}"
	"{{ c.function.name }}{{ c.function.arguments }}{{ c.function.arguments | tojson }}"
	"{% endfor %}<|im_end|>\n{% endfor %}{{ tools | tojson }}{{ extra }}";

static size_t control_tokens(const struct chat_template *c, const struct tokenizer *t,
			     const char *spelled)
{
	struct text_out text = {0};
	struct messages m = {0};
	struct json *tools, *variables;
	struct token_list ids = {0};
	struct err e = {0};
	char with[2048];
	size_t count = 0;
#define CALL "[{\"function\": {\"name\": \"%1$s\", \"arguments\": {\"%1$s\": \"%1$s\"}}}]"
	snprintf(with, sizeof with,
		 "[{\"role\": \"system\", \"content\": \"%1$s\", \"name\": \"%1$s\"},"
		 "{\"role\": \"user\", \"content\": \"a%1$s%1$s\"},"
		 "{\"role\": \"assistant\", \"content\": \"%1$s\", \"thinking\": \"%1$s\","
		 "\"tool_calls\": " CALL "},"
		 "{\"role\": \"tool\", \"content\": \"%1$s\", \"tool_call_id\": \"%1$s\"}]",
		 spelled);
	read_text(&m, with);
	snprintf(with, sizeof with, "[{\"function\": {\"name\": \"%1$s\"}}]", spelled);
	must(json_parse_text(&tools, with, strlen(with), "tools", &e), &e);
	snprintf(with, sizeof with, "{\"extra\": \"%1$s\"}", spelled);
	must(json_parse_text(&variables, with, strlen(with), "variables", &e), &e);
	struct chat_input in = {&m, tools, variables, &CLOCK, true};
	must(chat_encode(c, &in, NULL, &ids, &e), &e);
	for (size_t i = 0; i < ids.count; i++) {
		size_t shown, n;
		tokenizer_bytes(t, ids.ids[i], false, &shown);
		tokenizer_bytes(t, ids.ids[i], true, &n);
		count += shown == 0 && n > 0;
	}
	text_out_free(&text);
	token_list_free(&ids);
	messages_free(&m);
	json_free(tools);
	json_free(variables);
	return count;
}

static void no_field_spells_a_control_token(void **state)
{
	(void)state;
	struct tokenizer *t = fixture_tokenizer();
	struct chat_template *c;
	struct err e = {0};
	size_t specials = 0;
	must(chat_template_open_text(&c, ALL_FIELDS, NULL, "test", t, &e), &e);
	assert_int_equal(control_tokens(c, t, "plain"), 8);
	for (uint32_t id = 0; id < tokenizer_size(t); id++) {
		size_t shown, n;
		char text[64];
		tokenizer_bytes(t, id, false, &shown);
		const char *bytes = tokenizer_bytes(t, id, true, &n);
		if (shown > 0 || n == 0 || n >= sizeof text)
			continue;
		snprintf(text, sizeof text, "%.*s", (int)n, bytes);
		assert_int_equal(control_tokens(c, t, text), 8);
		specials++;
	}
	assert_in_range(specials, 2, 100);
	chat_template_close(c);
	tokenizer_close(t);
}

static void expect_render(const struct chat_template *c, const char *messages, const char *tools,
			  const char *want)
{
	struct messages m = {0};
	struct json *list = NULL;
	struct template_text out = {0};
	struct err e = {0};
	read_text(&m, messages);
	if (tools)
		must(json_parse_text(&list, tools, strlen(tools), "tools", &e), &e);
	struct chat_input in = {.messages = &m, .tools = list, .clock = &CLOCK};
	must(chat_render(c, &in, NULL, &out, &e), &e);
	assert_int_equal(out.length, strlen(want));
	assert_memory_equal(out.bytes, want, out.length);
	template_text_free(&out);
	json_free(list);
	messages_free(&m);
}

static void calls_keep_the_ids_that_the_model_gave(void **state)
{
	(void)state;
	struct messages m = {0};
	struct text_out out = {0};
	struct err e = {0};
	struct call two[] = {{.name = "f", .name_n = 1, .arguments = "{}", .arguments_n = 2},
			     {.name = "f",
			      .name_n = 1,
			      .arguments = "{}",
			      .arguments_n = 2,
			      .id = "functions.f:1",
			      .id_n = 13}};
	struct calls calls = {.items = two, .count = 2};
	must(messages_add_answer(&m, "", 0, "", 0, &calls, 37, &e), &e);
	messages_write(&m, &out);
	assert_non_null(strstr(out.bytes, "{\"id\": \"c00011000\""));
	assert_non_null(strstr(out.bytes, "{\"id\": \"functions.f:1\""));
	text_out_free(&out);
	messages_free(&m);
}

static void a_template_s_form_is_that_of_the_one_in_use(void **state)
{
	(void)state;
	struct tokenizer *t = fixture_tokenizer();
	struct chat_template *c;
	struct err e = {0};
	must(chat_template_open_text(&c, "plain", "[TOOL_CALLS]", "test", t, &e), &e);
	assert_string_equal(chat_template_form(c, false)->name, "hermes");
	assert_string_equal(chat_template_form(c, true)->name, "mistral");
	chat_template_close(c);
	must(chat_template_open_text(&c, NULL, NULL, "test", t, &e), &e);
	assert_string_equal(chat_template_form(c, true)->name, "hermes");
	chat_template_close(c);
	tokenizer_close(t);
}

static void templates_get_what_they_can_use(void **state)
{
	(void)state;
	struct tokenizer *t = fixture_tokenizer();
	struct chat_template *c;
	struct err e = {0};
	must(chat_template_open_text(
		     &c,
		     "{% for m in messages %}[{{ m.content }}|{{ m.reasoning_content }}|"
		     "{% for c in m.tool_calls %}{{ c.function.arguments.a }}{% endfor %}]"
		     "{% endfor %}",
		     "TOOLS {{ tools | length }}", "test", t, &e),
	     &e);
	static const char MESSAGES[] =
		"[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, "
		"{\"type\": \"text\", \"text\": \"b\"}]}, {\"role\": \"assistant\", \"thinking\": "
		"\"hm\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": "
		"\"{\\\"a\\\": 7}\"}}]}]";
	expect_render(c, MESSAGES, NULL, "[ab||][|hm|7]");
	expect_render(c, MESSAGES, "[]", "[ab||][|hm|7]");
	expect_render(c, MESSAGES, "[{\"function\": {\"name\": \"f\"}}]", "TOOLS 1");
	assert_true(chat_template_reads(c, "tools"));
	assert_false(chat_template_reads(c, "enable_thinking"));
	chat_template_close(c);
	tokenizer_close(t);
}

static void expect_origin(const char *directory, const struct tokenizer *t, const char *origin,
			  const char *rendered)
{
	struct chat_template *c;
	struct err e = {0};
	must(chat_template_open(&c, directory, t, &e), &e);
	assert_string_equal(chat_template_origin(c), origin);
	if (rendered)
		expect_render(c, "[]", NULL, rendered);
	chat_template_close(c);
}

static void a_directory_s_template_is_found(void **state)
{
	(void)state;
	static const char ONE[] = "{\"chat_template\": \"one\"}";
	static const char NAMED[] = "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": "
				    "\"t\"}, {\"name\": \"default\", \"template\": \"d\"}]}";
	static const char BROKEN[] = "{\"chat_template\": \"{% if %}\"}";
	struct tokenizer *t = fixture_tokenizer();
	struct chat_template *c;
	struct err e = {0};
	char *directory = temporary_directory();
	expect_origin(directory, t, "ChatML", NULL);
	write_file(directory, "tokenizer_config.json", ONE, sizeof ONE - 1);
	expect_origin(directory, t, "tokenizer_config.json chat_template", "one");
	write_file(directory, "tokenizer_config.json", NAMED, sizeof NAMED - 1);
	expect_origin(directory, t, "tokenizer_config.json chat_template", "d");
	write_file(directory, "tokenizer_config.json", BROKEN, sizeof BROKEN - 1);
	assert_int_equal(chat_template_open(&c, directory, t, &e), -EINVAL);
	write_file(directory, "chat_template.jinja", "file\n", 5);
	expect_origin(directory, t, "chat_template.jinja", "file");
	remove_directory(directory);
	tokenizer_close(t);
}

static void a_session_s_variables_are_not_the_model_s(void **state)
{
	(void)state;
	static const char *const BAD[] = {"[]", "{\"bos_token\": \"x\"}", "{\"messages\": []}",
					  "{\"x_token\": 1}"};
	for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
		struct json *v;
		struct err e = {0};
		must(json_parse_text(&v, BAD[i], strlen(BAD[i]), "v", &e), &e);
		assert_int_equal(chat_variables_check(v, &e), -EINVAL);
		json_free(v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_reads_back_the_same),
		cmocka_unit_test(a_refusal_names_the_message_and_the_key),
		cmocka_unit_test(what_is_added_can_be_read),
		cmocka_unit_test(without_a_template_conversations_are_chatml),
		cmocka_unit_test(without_its_tokens_there_is_no_chatml),
		cmocka_unit_test(im_end_ends_an_answer_special_or_not),
		cmocka_unit_test(a_message_that_is_not_utf8_is_named_by_its_offset),
		cmocka_unit_test(no_field_spells_a_control_token),
		cmocka_unit_test(calls_keep_the_ids_that_the_model_gave),
		cmocka_unit_test(a_template_s_form_is_that_of_the_one_in_use),
		cmocka_unit_test(templates_get_what_they_can_use),
		cmocka_unit_test(a_directory_s_template_is_found),
		cmocka_unit_test(a_session_s_variables_are_not_the_model_s),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

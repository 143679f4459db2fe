/* Conversations in ChatML: the ids of a message are those of the whole text written out. */
#include "tests/unit/tokenizer_help.h"

#include "engine/text/chat.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The fixture's tokenizer, in which two newlines in a row are a token, as in Qwen's. */
static struct tokenizer *open_tokenizer(void)
{
	struct json_object *document = fixture_document();
	json_object_object_add(at(document, "model.vocab"), "\u010a\u010a", json("400"));
	json_object_array_add(at(document, "model.merges"), json("\"\u010a \u010a\""));
	struct tokenizer *t;
	struct err e = {0};
	must(open_document(&t, document, &e), &e);
	return t;
}

/* Fails unless the ids are those of the text. */
static void expect(const struct tokenizer *t, const struct token_list *ids, const char *text)
{
	check_exact((void *)t, text, strlen(text), ids);
}

static void a_conversation_has_the_ids_of_its_text(void **state)
{
	(void)state;
	struct tokenizer *t = open_tokenizer();
	struct chat *c;
	struct err e = {0};
	must(chat_open(&c, t, &e), &e);
	struct token_list ids = {0};
	must(chat_message(c, ROLE_SYSTEM, "Be good.", 8, NULL, &ids, &e), &e);
	must(chat_message(c, ROLE_USER, "\nWhat is it?", 12, NULL, &ids, &e), &e);
	must(chat_answer_begin(c, &ids, &e), &e);
	expect(t, &ids,
	       "<|im_start|>system\nBe good.<|im_end|>\n<|im_start|>user\n\nWhat is it?<|im_end|>\n"
	       "<|im_start|>assistant\n");
	/* An answer that the model gave, closed, is a message of the assistant. */
	struct token_list answer = {0}, message = {0};
	must(chat_answer_begin(c, &answer, &e), &e);
	must(tokenizer_encode(t, "The fox", 7, NULL, &answer, &e), &e);
	must(chat_answer_end(c, &answer, &e), &e);
	must(chat_message(c, ROLE_ASSISTANT, "The fox", 7, NULL, &message, &e), &e);
	assert_int_equal(answer.count, message.count);
	assert_memory_equal(answer.ids, message.ids, answer.count * sizeof *answer.ids);
	token_list_free(&answer);
	token_list_free(&message);
	token_list_free(&ids);
	chat_close(c);
	tokenizer_close(t);
}

static void an_empty_message_is_a_message(void **state)
{
	(void)state;
	struct tokenizer *t = open_tokenizer();
	struct chat *c;
	struct err e = {0};
	must(chat_open(&c, t, &e), &e);
	struct token_list ids = {0};
	must(chat_message(c, ROLE_USER, NULL, 0, NULL, &ids, &e), &e);
	expect(t, &ids, "<|im_start|>user\n<|im_end|>\n");
	token_list_free(&ids);
	chat_close(c);
	tokenizer_close(t);
}

static void the_end_token_is_im_end(void **state)
{
	(void)state;
	struct tokenizer *t = open_tokenizer();
	struct chat *c;
	struct err e = {0};
	must(chat_open(&c, t, &e), &e);
	assert_int_equal(chat_end_token(c), tokenizer_find(t, "<|im_end|>"));
	chat_close(c);
	tokenizer_close(t);
}

static void a_tokenizer_without_chatml_is_refused_in_words(void **state)
{
	(void)state;
	static const char *const ADDED[] = {
		"[]", "[{\"id\": 400, \"content\": \"<|im_start|>\", \"special\": true}]"};
	static const char *const MISSING[] = {"<|im_start|>", "<|im_end|>"};
	for (int i = 0; i < 2; i++) {
		struct json_object *document = fixture_document();
		/* In the vocabulary alone it is not cut out of text. */
		json_object_object_add(at(document, "model.vocab"), "<|im_end|>", json("383"));
		json_object_object_add(document, "added_tokens", json(ADDED[i]));
		struct tokenizer *t;
		struct chat *c;
		struct err e = {0};
		must(open_document(&t, document, &e), &e);
		assert_int_equal(chat_open(&c, t, &e), -ENOTSUP);
		assert_non_null(strstr(e.text, MISSING[i]));
		tokenizer_close(t);
	}
}

/* Where a byte of it has no token either, there is no such token: the model goes on with texts. */
static void a_tokenizer_that_cannot_write_chatml_has_none(void **state)
{
	(void)state;
	struct json_object *document = fixture_document();
	json_object_object_add(document, "added_tokens", json("[]"));
	json_object_object_del(at(document, "model.vocab"), "|");
	struct tokenizer *t;
	struct chat *c;
	struct err e = {0};
	must(open_document(&t, document, &e), &e);
	assert_int_equal(chat_open(&c, t, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "<|im_start|>"));
	tokenizer_close(t);
}

static void invalid_utf8_is_named_by_its_offset_in_the_message(void **state)
{
	(void)state;
	struct tokenizer *t = open_tokenizer();
	struct chat *c;
	struct err e = {0};
	must(chat_open(&c, t, &e), &e);
	struct token_list ids = {0};
	assert_int_equal(chat_message(c, ROLE_USER, "ab\xff", 3, NULL, &ids, &e), -EILSEQ);
	assert_non_null(strstr(e.text, "byte 2 "));
	assert_int_equal(ids.count, 0);
	token_list_free(&ids);
	chat_close(c);
	tokenizer_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_conversation_has_the_ids_of_its_text),
		cmocka_unit_test(an_empty_message_is_a_message),
		cmocka_unit_test(the_end_token_is_im_end),
		cmocka_unit_test(a_tokenizer_without_chatml_is_refused_in_words),
		cmocka_unit_test(a_tokenizer_that_cannot_write_chatml_has_none),
		cmocka_unit_test(invalid_utf8_is_named_by_its_offset_in_the_message),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Ids that are exact for the vocabularies of GGUF files, where those are at hand. */
#include "tests/unit/tokenizer_help.h"

#include "engine/family/gguf_tokenizer.h"
#include "engine/source/gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FOLDER "tokenizers/gguf"

/* NULL, with a printed sentence, where the file is missing. */
static struct tokenizer *open_vocabulary(const char *name)
{
	char path[256];
	snprintf(path, sizeof path, FOLDER "/ggml-vocab-%s.gguf", name);
	const char *full = foreign(path);
	struct tokenizer *t;
	struct gguf *g;
	struct err e = {0};
	if (!full)
		return NULL;
	must(gguf_open(&g, full, 0, &e), &e);
	must(gguf_tokenizer_open(&t, g, name, &e), &e);
	gguf_close(g);
	return t;
}

static void check_vocabulary(const char *name)
{
	struct tokenizer *t = open_vocabulary(name);
	if (!t)
		skip();
	assert_int_equal(each_pair_of(FOLDER, name, check_exact, t), 47);
	tokenizer_close(t);
}

static void deepseek_s_texts_give_the_ids_of_the_published_tests(void **state)
{
	(void)state;
	check_vocabulary("deepseek-llm");
}

static void gpt2_s_texts_give_the_ids_of_the_published_tests(void **state)
{
	(void)state;
	check_vocabulary("gpt-2");
}

static void refact_s_texts_give_the_ids_of_the_published_tests(void **state)
{
	(void)state;
	check_vocabulary("refact");
}

static void starcoder_s_texts_give_the_ids_of_the_published_tests(void **state)
{
	(void)state;
	check_vocabulary("starcoder");
}

static void pieces_by_score_give_the_ids_of_the_published_tests(void **state)
{
	(void)state;
	check_vocabulary("llama-spm");
	check_vocabulary("phi-3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deepseek_s_texts_give_the_ids_of_the_published_tests),
		cmocka_unit_test(gpt2_s_texts_give_the_ids_of_the_published_tests),
		cmocka_unit_test(refact_s_texts_give_the_ids_of_the_published_tests),
		cmocka_unit_test(starcoder_s_texts_give_the_ids_of_the_published_tests),
		cmocka_unit_test(pieces_by_score_give_the_ids_of_the_published_tests),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

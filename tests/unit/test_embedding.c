/* Embeddings: the reference's numbers in every way of pooling, the same in any company, and what a
 * checkpoint says of them. */
#include "engine/family/config.h"
#include "engine/session/answer.h"
#include "golden.h"
#include "session_help.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* The texts of tests/data/embeddings.json; the reference has their ids. */
static const char *const texts[] = {"hello",
				    ("The quick brown fox jumps over the lazy dog, and then it "
				     "sleeps for a while in the sun."),
				    "a b"};
enum { TEXTS = sizeof texts / sizeof *texts, WIDTH = 64, NPY = 128 };

/* ---- a checkpoint for embeddings, made of the fixture qwen3 ---- */

static char folder[256];

static void put(const char *name, const char *text, size_t n)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static char *get(const char *name, size_t *n)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s/%s", test_fixture("qwen3"), name);
	FILE *f = fopen(path, "rb");
	char *text = calloc(1, 1 << 20);
	assert_non_null(f);
	assert_non_null(text);
	*n = fread(text, 1, (1 << 20) - 1, f);
	(void)fclose(f);
	return text;
}

/* Texts end with <|endoftext|>, as in Qwen3-Embedding's tokenizer. */
static void put_tokenizer(void)
{
	static const char was[] = "\"single\"",
			  is[] = "\"single\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
				 "{\"SpecialToken\": {\"id\": \"<|endoftext|>\", \"type_id\": 0}}"
				 "], \"was\"";
	size_t n;
	char *text = get("tokenizer.json", &n), *at = strstr(text, was), *out = malloc(n + 512);
	assert_non_null(at);
	assert_non_null(out);
	char *rest = strchr(at, ']') + 1; /* of the list */
	size_t head = (size_t)(at - text);
	memcpy(out, text, head);
	int more = sprintf(out + head, "%.*s", (int)(strlen(is) - strlen(", \"was\"")), is);
	strcpy(out + head + more, rest);
	put("tokenizer.json", out, strlen(out));
	free(out);
	free(text);
}

/* One of a tensor's two offsets. */
static uint64_t offset_in(const char *tensor, int which)
{
	const char *at = strchr(strstr(tensor, "data_offsets"), '[') + 1;
	return strtoull(which ? strchr(at, ',') + 1 : at, NULL, 10);
}

/* In the same place, with spaces before it. Returns its end. */
static char *move_offset(char *at, uint64_t by)
{
	char *end, number[32];
	unsigned long long was = strtoull(at, &end, 10);
	int width = (int)(end - at);
	(void)snprintf(number, sizeof number, "%*llu", width, was - by);
	memcpy(at, number, (size_t)width);
	return end;
}

/* As models without a head are published: names without "model.", no lm_head. JSON may have spaces
 * where these were. */
static void put_weights(void)
{
	size_t n;
	char *file = get("model.safetensors", &n);
	uint64_t head;
	memcpy(&head, file, sizeof head);
	char *json = file + sizeof head, *end = json + head;
	for (char *at = json; at < end; at++)
		if (!strncmp(at, "\"model.", 7))
			memcpy(at, "      \"", 7);
	uint64_t gone = 0;
	for (char *at = json; at < end; at++)
		if (!strncmp(at, "\"lm_head.weight\"", 16)) {
			char *last = strchr(at, '}') + 1;
			gone = offset_in(at, 1);
			assert_int_equal(offset_in(at, 0), 0);
			memset(at, ' ', (size_t)(last + (*last == ',') - at));
		}
	for (char *at = json; (at = strstr(at, "\"data_offsets\""));) {
		at = strchr(at, '[') + 1;
		at = move_offset(at, gone) + 1;
		at = move_offset(at, gone);
	}
	memmove(end, end + gone, n - gone - (size_t)(end - file));
	n -= gone;
	put("model.safetensors", file, n);
	free(file);
}

static void put_modules(const char *pooling, bool normalised, const char *more)
{
	char text[1024];
	(void)snprintf(text, sizeof text,
		       "[{\"idx\": 0, \"name\": \"0\", \"path\": \"\", \"type\": "
		       "\"sentence_transformers.models.Transformer\"}, {\"idx\": 1, \"name\": "
		       "\"1\", \"path\": \"1_Pooling\", \"type\": "
		       "\"sentence_transformers.models.Pooling\"}%s%s]",
		       normalised ? ", {\"idx\": 2, \"name\": \"2\", \"path\": \"2_Normalize\", "
				    "\"type\": \"sentence_transformers.models.Normalize\"}"
				  : "",
		       more);
	put("modules.json", text, strlen(text));
	(void)snprintf(text, sizeof text, "%s/1_Pooling", folder);
	(void)mkdir(text, 0700);
	(void)snprintf(text, sizeof text,
		       "{\"word_embedding_dimension\": 64, \"pooling_mode_cls_token\": %s, "
		       "\"pooling_mode_mean_tokens\": %s, \"pooling_mode_max_tokens\": %s, "
		       "\"pooling_mode_lasttoken\": %s, \"include_prompt\": true}",
		       strcmp(pooling, "first") ? "false" : "true",
		       strcmp(pooling, "mean") ? "false" : "true",
		       strcmp(pooling, "max") ? "false" : "true",
		       strcmp(pooling, "last") ? "false" : "true");
	put("1_Pooling/config.json", text, strlen(text));
}

static int make_folder(void **state)
{
	size_t n;
	(void)state;
	(void)snprintf(folder, sizeof folder, "%s/moefs-embedding.XXXXXX", test_memory_folder());
	assert_non_null(mkdtemp(folder));
	static const char *const same[] = {"config.json", "tokenizer_config.json"};
	for (size_t i = 0; i < 2; i++) {
		char *text = get(same[i], &n);
		put(same[i], text, n);
		free(text);
	}
	put_tokenizer();
	put_weights();
	return 0;
}

static int remove_folder(void **state)
{
	static const char *const names[] = {"config.json",
					    "tokenizer_config.json",
					    "tokenizer.json",
					    "model.safetensors",
					    "modules.json",
					    "1_Pooling/config.json",
					    "config_sentence_transformers.json"};
	char path[512];
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		(void)unlink(path);
	}
	(void)snprintf(path, sizeof path, "%s/1_Pooling", folder);
	(void)rmdir(path);
	(void)rmdir(folder);
	return stores_remove(state);
}

/* ---- asking ---- */

static char *embed(struct session *s, const char *text, size_t n, bool array, size_t *size)
{
	struct answer *a;
	struct err e;
	bool complete;
	char words[1024];
	if (session_embed(s, text, n, array, &a, &e))
		fail_msg("%s", e.text);
	test_wait(a);
	*size = (size_t)answer_size(a, &complete);
	char *out = malloc(*size + 1);
	assert_non_null(out);
	session_error(s, words, sizeof words);
	if (answer_read(a, 0, out, *size, &complete) != (ssize_t)*size || *words)
		fail_msg("%s", words);
	out[*size] = 0;
	answer_unref(a);
	return out;
}

/* The vectors of texts, one behind the other; malloc'ed. */
static float *embed_all(struct session *s, const char *all, size_t n, size_t count, size_t width)
{
	size_t size;
	char *file = embed(s, all, n, true, &size), shape[64];
	(void)snprintf(shape, sizeof shape, "(%zu, %zu)", count, width);
	if (!strstr(file + 10, shape) || size != NPY + count * width * sizeof(float))
		fail_msg("%zu bytes: %s", size, file + 10);
	float *vectors = malloc(count * width * sizeof *vectors);
	assert_non_null(vectors);
	memcpy(vectors, file + NPY, count * width * sizeof *vectors);
	free(file);
	return vectors;
}

static void refused(struct session *s, const char *text, size_t n, bool array, const char *words)
{
	struct answer *a;
	struct err e;
	int code;
	char said[1024];
	assert_int_equal(session_embed(s, text, n, array, &a, &e), 0);
	free(test_read(a, &code));
	assert_int_equal(code, -EIO);
	session_error(s, said, sizeof said);
	if (!strstr(said, words))
		fail_msg("%s", said);
}

static size_t join(char *all, size_t count)
{
	size_t n = 0;
	for (size_t i = 0; i < count; i++)
		n += (size_t)sprintf(all + n, "%s", texts[i % TEXTS]) + 1;
	return n;
}

/* ---- against the reference ---- */

static void check_pooling(struct json_object *golden, const char *pooling, bool normalised)
{
	struct test_model m;
	struct json_object *all;
	char joined[512], fact[256];
	put_modules(pooling, normalised, "");
	test_model_ready(&m, folder,
			 &(struct engine_options){.quant = "bf16", .exact = 1, .threads = 2});
	struct session *s = test_session(&m);
	float *is = embed_all(s, joined, join(joined, TEXTS), TEXTS, WIDTH);
	assert_true(json_object_object_get_ex(golden, pooling, &all));
	for (size_t i = 0; i < TEXTS; i++) {
		struct json_object *row = json_object_array_get_idx(all, i);
		double length = 0, power = 0, off = 0;
		for (size_t k = 0; k < WIDTH; k++) {
			double x = json_object_get_double(json_object_array_get_idx(row, k));
			length += x * x;
		}
		for (size_t k = 0; k < WIDTH; k++) {
			double x = json_object_get_double(json_object_array_get_idx(row, k));
			x /= normalised ? sqrt(length) : 1;
			double d = x - is[i * WIDTH + k];
			power += x * x;
			off += d * d;
		}
		if (sqrt(off / power) > 2e-6)
			fail_msg("%s, text %zu: %.1e off", pooling, i, sqrt(off / power));
	}
	assert_int_equal(model_fact(m.model, FACT_EMBEDDING, fact, sizeof fact), 0);
	assert_non_null(strstr(fact, "(modules.json)"));
	assert_int_equal(strstr(fact, "normalised") != NULL, normalised);
	free(is);
	session_end(s);
	test_model_close(&m);
}

static void each_pooling_is_the_reference_s(void **state)
{
	(void)state;
	struct json_object *golden = json_object_from_file(test_data("embeddings.json"));
	assert_non_null(golden);
	check_pooling(golden, "last", true);
	check_pooling(golden, "mean", false);
	check_pooling(golden, "first", true);
	json_object_put(golden);
}

static void a_model_without_a_head_only_makes_embeddings(void **state)
{
	(void)state;
	struct test_model m;
	put_modules("last", true, "");
	test_model_ready(&m, folder, &(struct engine_options){.quant = "bf16"});
	struct session *s = test_session(&m);
	test_set(s, "chat", "off");
	test_ask_refused(s, "hello", "no output head");
	session_end(s);
	test_model_close(&m);
}

static void what_is_not_implemented_is_refused_by_its_name(void **state)
{
	(void)state;
	static const struct {
		const char *pooling, *more, *words;
	} some[] = {
		{"last", ", {\"type\": \"sentence_transformers.models.Dense\"}", "\"Dense\""},
		{"max", "", "pooling_mode_max_tokens"},
		{"none", "", "no pooling"},
	};
	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		struct test_model m;
		char fact[512];
		put_modules(some[i].pooling, true, some[i].more);
		test_model_ready(&m, folder, &(struct engine_options){.quant = "bf16"});
		struct session *s = test_session(&m);
		refused(s, "hello", 5, false, some[i].words);
		assert_int_equal(model_fact(m.model, FACT_EMBEDDING, fact, sizeof fact), 0);
		assert_non_null(strstr(fact, some[i].words));
		session_end(s);
		test_model_close(&m);
	}
}

static void the_default_prompt_stands_before_each_text(void **state)
{
	(void)state;
	static const char prompts[] = "{\"prompts\": {\"query\": \"Query: \"}, "
				      "\"default_prompt_name\": \"query\"}";
	struct test_model m;
	float *one, *other;
	put_modules("last", true, "");
	put("config_sentence_transformers.json", prompts, strlen(prompts));
	test_model_ready(&m, folder, &(struct engine_options){.quant = "bf16"});
	struct session *s = test_session(&m);
	one = embed_all(s, "hello", 5, 1, WIDTH);
	session_end(s);
	test_model_close(&m);
	put("config_sentence_transformers.json", "{}", 2);
	test_model_ready(&m, folder, &(struct engine_options){.quant = "bf16"});
	s = test_session(&m);
	other = embed_all(s, "Query: hello", 12, 1, WIDTH);
	assert_memory_equal(one, other, WIDTH * sizeof *one);
	free(one);
	free(other);
	session_end(s);
	test_model_close(&m);
}

/* ---- the same numbers ---- */

/* Of 150 texts, with little memory, short steps, and another session's answer beside. */
static void check_alike(const char *directory, size_t width)
{
	enum { MANY = 150 };
	static const struct engine_options some[] = {
		{.threads = 2, .context_budget = 64 << 20},
		{.threads = 1, .context_budget = 2 << 20, .chunk = 7},
	};
	float *first = NULL;
	char all[150 * 96];
	for (size_t i = 0; i < 2; i++) {
		struct test_model m;
		test_model_ready(&m, directory, &some[i]);
		struct session *s = test_session(&m), *other = test_greedy_session(&m);
		test_set(other, "max_tokens", "40");
		test_set(other, "chat", "off");
		struct answer *beside = test_submit(other, "Tell me a story.");
		float *is = embed_all(s, all, join(all, MANY), MANY, width);
		for (size_t k = 0; k < TEXTS; k++) { /* alone */
			float *one = embed_all(s, texts[k], strlen(texts[k]), 1, width);
			assert_memory_equal(one, is + k * width, width * sizeof *one);
			assert_memory_equal(one, is + (k + 147) * width, width * sizeof *one);
			free(one);
		}
		if (first)
			assert_memory_equal(first, is, MANY * width * sizeof *is);
		free(first);
		first = is;
		test_wait(beside);
		answer_unref(beside);
		session_end(other);
		session_end(s);
		test_model_close(&m);
	}
	free(first);
}

static void company_chunks_and_memory_change_no_vector(void **state)
{
	(void)state;
	check_alike(test_fable(), 256);
}

static void the_same_in_a_hybrid(void **state)
{
	(void)state;
	check_alike(test_fixture("qwen3_5_moe"), 128);
}

/* ---- the session ---- */

static void a_line_has_the_numbers_of_the_array(void **state)
{
	(void)state;
	struct session *s = test_session(&fable);
	size_t n;
	char *line = embed(s, "hello\n", 6, false, &n), *at = line, fact[256];
	float *array = embed_all(s, "hello", 5, 1, 256);
	for (size_t i = 0; i < 256; i++)
		assert_true(strtof(at, &at) == array[i]);
	assert_string_equal(at, "\n");
	assert_int_equal(model_fact(fable.model, FACT_EMBEDDING, fact, sizeof fact), 0);
	assert_string_equal(fact,
			    "mean of the tokens (the checkpoint says nothing of embeddings)");
	test_expect_text(s, SESSION_MESSAGES, "[]\n");
	assert_int_equal(session_log_size(s), 0);
	free(array);
	free(line);
	session_end(s);
}

static void bad_texts_are_refused(void **state)
{
	(void)state;
	struct session *s = test_session(&fable);
	struct err e;
	char *long_text = malloc(40000);
	assert_non_null(long_text);
	for (int i = 0; i < 40000; i++)
		long_text[i] = i % 2 ? ' ' : (char)('a' + i / 2 % 26);
	refused(s, "a\0b", 3, false, "NUL byte");
	refused(s, "a\xff", 2, true, "UTF-8");
	refused(s, "a\0\0b", 4, true, "text 2 has no tokens");
	refused(s, long_text, 40000, true, "text 1 is");
	assert_int_equal(session_embed(s, "", 0, false, NULL, &e), -EINVAL);
	free(long_text);
	session_end(s);
}

static void a_gguf_file_says_it_by_a_number(void **state)
{
	(void)state;
	static const char *const words[] = {"mean of the tokens (the checkpoint says nothing",
					    "mean of the tokens, normalised (pooling_type)",
					    "first token, normalised (pooling_type)",
					    "last token, normalised (pooling_type)",
					    "not possible: pooling_type 4 (of a reranker)"};
	for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
		struct embedding x = {0};
		char text[256];
		embedding_take_gguf(&x, i);
		embedding_print(&x, text, sizeof text);
		if (strncmp(text, words[i], strlen(words[i])) != 0)
			fail_msg("%s", text);
	}
}

static int remove_all(void **state)
{
	int failed = fable_close(state);
	return remove_folder(state) || failed;
}

static int begin_all(void **state)
{
	return fable_load(state) || make_folder(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_pooling_is_the_reference_s),
		cmocka_unit_test(a_model_without_a_head_only_makes_embeddings),
		cmocka_unit_test(what_is_not_implemented_is_refused_by_its_name),
		cmocka_unit_test(the_default_prompt_stands_before_each_text),
		cmocka_unit_test(company_chunks_and_memory_change_no_vector),
		cmocka_unit_test(the_same_in_a_hybrid),
		cmocka_unit_test(a_line_has_the_numbers_of_the_array),
		cmocka_unit_test(bad_texts_are_refused),
		cmocka_unit_test(a_gguf_file_says_it_by_a_number),
	};
	return cmocka_run_group_tests(tests, begin_all, remove_all);
}

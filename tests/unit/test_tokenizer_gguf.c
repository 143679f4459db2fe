/* Ids that are exact for the vocabularies of GGUF files, where those are at hand. */
#include "tests/unit/tokenizer_help.h"

#include "engine/family/source_text.h"
#include "engine/source/gguf.h"
#include "engine/tokenizer/tokenizer_build.h"
#include "cache/utf8.h"
#include "random.h"

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
	must(source_tokenizer_open_gguf(&t, g, name, &e), &e);
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

/* --- the same vocabulary as a tokenizer.json --- */

struct pair {
	struct json_object *merge;
	double score;
	size_t left, right; /* characters */
};

/* As published files were made: the best product first, then the longest parts. */
static int best_first(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	if (x->score != y->score)
		return x->score < y->score ? 1 : -1;
	if (x->left != y->left)
		return x->left < y->left ? 1 : -1;
	return (x->right < y->right) - (x->right > y->right);
}

static size_t characters(const char *text, size_t n)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++)
		count += ((unsigned char)text[i] & 0xc0) != 0x80;
	return count;
}

struct pairs {
	struct pair *items;
	size_t count, room;
};

static void split_piece(struct pairs *p, struct json_object *vocab, const char *piece, double score)
{
	size_t n = strlen(piece);
	for (size_t i = 1; i < n; i++) {
		char left[256];
		if (((unsigned char)piece[i] & 0xc0) == 0x80 || i >= sizeof left)
			continue;
		memcpy(left, piece, i);
		left[i] = 0;
		if (!json_object_object_get_ex(vocab, left, NULL) ||
		    !json_object_object_get_ex(vocab, piece + i, NULL))
			continue;
		if (p->count == p->room) {
			p->room = 2 * p->room + 1024;
			p->items = realloc(p->items, p->room * sizeof *p->items);
			assert_non_null(p->items);
		}
		struct json_object *merge = json_object_new_array();
		json_object_array_add(merge, json_object_new_string(left));
		json_object_array_add(merge, json_object_new_string(piece + i));
		p->items[p->count++] = (struct pair){merge, score, characters(left, i),
						     characters(piece + i, n - i)};
	}
}

/* The vocabulary of a GGUF file, and the merges that follow from its scores. */
static void add_vocabulary(struct json_object *model, const struct gguf *g)
{
	const struct gguf_value *tokens, *scores;
	struct json_object *vocab = json_object_new_object(), *merges = json_object_new_array();
	struct pairs pairs = {0};
	struct err e = {0};
	const char *text;
	size_t n, at = 0;
	must(gguf_get_array(g, "tokenizer.ggml.tokens", "f", GGUF_STRING, &tokens, &e), &e);
	must(gguf_get_array(g, "tokenizer.ggml.scores", "f", GGUF_F32, &scores, &e), &e);
	for (int id = 0; gguf_next_string(tokens, &at, &text, &n); id++) {
		char *key = strndup(text, n);
		json_object_object_add(vocab, key, json_object_new_int(id));
		free(key);
	}
	json_object_object_foreach(vocab, piece, id)
	{
		double score;
		assert_true(gguf_double(scores, (uint64_t)json_object_get_int(id), &score));
		split_piece(&pairs, vocab, piece, score);
	}
	qsort(pairs.items, pairs.count, sizeof *pairs.items, best_first);
	for (size_t i = 0; i < pairs.count; i++)
		json_object_array_add(merges, pairs.items[i].merge);
	free(pairs.items);
	json_object_object_add(model, "vocab", vocab);
	json_object_object_add(model, "merges", merges);
}

static struct tokenizer *as_document(void)
{
	struct json_object *document = fixture_document();
	struct tokenizer *t;
	struct gguf *g;
	struct err e = {0};
	must(gguf_open(&g, foreign(FOLDER "/ggml-vocab-llama-spm.gguf"), 0, &e), &e);
	json_object_object_add(document, "normalizer",
			       json("{\"type\": \"Sequence\", \"normalizers\": [{\"type\": "
				    "\"Prepend\", \"prepend\": "
				    "\"\u2581\"}, {\"type\": \"Replace\", \"pattern\": "
				    "{\"String\": \" \"}, \"content\": "
				    "\"\u2581\"}]}"));
	json_object_object_add(document, "pre_tokenizer", NULL);
	json_object_object_add(document, "post_processor", NULL);
	json_object_object_add(
		document, "decoder",
		json("{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": "
		     "{\"String\": \"\u2581\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, "
		     "{\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": "
		     "1, "
		     "\"stop\": 0}]}"));
	json_object_object_add(document, "added_tokens",
			       json("[{\"id\": 1, \"content\": \"<s>\", \"special\": true},"
				    "{\"id\": 2, \"content\": \"</s>\", \"special\": true}]"));
	json_object_object_add(
		document, "model",
		json("{\"type\": \"BPE\", \"byte_fallback\": true, \"fuse_unk\": true, "
		     "\"unk_token\": \"<unk>\"}"));
	add_vocabulary(at(document, "model"), g);
	gguf_close(g);
	must(open_document(&t, document, &e), &e);
	return t;
}

static void pieces_of_a_tokenizer_json_give_the_same_ids(void **state)
{
	(void)state;
	if (!foreign(FOLDER "/ggml-vocab-llama-spm.gguf"))
		skip();
	struct tokenizer *t = as_document();
	assert_int_equal(each_pair_of(FOLDER, "llama-spm", check_exact, t), 47);
	tokenizer_close(t);
}

/* --- there and back --- */

/* Characters of one to four bytes, spaces of all sorts, runs of them. Not beyond U+3FFFF: some
 * vocabularies lack the bytes. */
static size_t random_text(struct random *r, char *text, size_t n)
{
	static const char *const SPACES[] = {" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000"};
	size_t used = 0, want = random_u32(r) % n;
	while (used + 8 < want) {
		uint32_t kind = random_u32(r) % 8, c = random_u32(r);
		const char *space = SPACES[c % (sizeof SPACES / sizeof *SPACES)];
		if (kind == 0) {
			memcpy(text + used, space, strlen(space));
			used += strlen(space);
			continue;
		}
		c = kind < 5   ? ' ' + c % 95
		    : kind < 6 ? 0x80 + c % 0x780
		    : kind < 7 ? 0x800 + c % 0xd000
			       : 0x10000 + c % 0x30000;
		used += c == 0x2581 ? 0
				    : utf8_encode(c, text + used); /* which is a space to some */
	}
	return used;
}

static void texts_come_back(void **state)
{
	(void)state;
	static const char *const NAMES[] = {"deepseek-llm", "gpt-2",	 "refact",
					    "starcoder",    "llama-spm", "phi-3"};
	enum { TEXTS = 200, BYTES = 3000 };
	static char text[BYTES];
	struct random r = {7};
	for (size_t k = 0; k < sizeof NAMES / sizeof *NAMES; k++) {
		struct tokenizer *t = open_vocabulary(NAMES[k]);
		if (!t)
			skip();
		for (int i = 0; i < TEXTS; i++) {
			struct token_list ids = {0};
			struct err e = {0};
			size_t n = random_text(&r, text, BYTES);
			must(tokenizer_encode(t, text, n, NULL, &ids, &e), &e);
			check_exact(t, text, n, &ids);
			token_list_free(&ids);
		}
		tokenizer_close(t);
	}
}

/* Texts of pieces are cut where no token goes across, which changes nothing. */
static void a_text_in_words_gives_the_ids_of_the_whole(void **state)
{
	(void)state;
	enum { TEXTS = 200, BYTES = 3000 };
	static char text[BYTES + 1];
	struct random r = {9};
	struct tokenizer *t = open_vocabulary("llama-spm");
	if (!t)
		skip();
	struct bpe_work *work = bpe_work_new(NULL);
	for (int i = 0; i < TEXTS; i++) {
		struct token_list words = {0}, whole = {0};
		struct err e = {0};
		size_t n = random_text(&r, text + 1, BYTES);
		text[0] = ' ';
		must(tokenizer_encode(t, text + 1, n, NULL, &words, &e), &e);
		must(bpe_encode(&t->vocabulary, &t->merges, work, text, n ? n + 1 : 0, &whole, &e),
		     &e);
		assert_int_equal(words.count, whole.count);
		for (size_t k = 0; k < words.count; k++)
			assert_int_equal(words.ids[k], whole.ids[k]);
		token_list_free(&words);
		token_list_free(&whole);
	}
	bpe_work_free(work);
	tokenizer_close(t);
}

static void texts_begin_and_end_with_the_tokens_that_the_file_names(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		int64_t bos, eos;
		size_t begin;
	} CASES[] = {{"deepseek-llm", 100000, 100001, 1},
		     {"gpt-2", 50256, 50256, 0},
		     {"llama-spm", 1, 2, 1},
		     {"phi-3", 1, 32000, 1}};
	for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
		struct tokenizer *t = open_vocabulary(CASES[i].name);
		struct token_list ids = {0};
		struct err e = {0};
		if (!t)
			skip();
		assert_int_equal(tokenizer_bos(t), CASES[i].bos);
		assert_int_equal(tokenizer_eos(t), CASES[i].eos);
		assert_true(tokenizer_ends(t, (uint32_t)CASES[i].eos, false));
		must(tokenizer_begin(t, &ids, &e), &e);
		assert_int_equal(ids.count, CASES[i].begin);
		token_list_free(&ids);
		tokenizer_close(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deepseek_s_texts_give_the_ids_of_the_published_tests),
		cmocka_unit_test(gpt2_s_texts_give_the_ids_of_the_published_tests),
		cmocka_unit_test(refact_s_texts_give_the_ids_of_the_published_tests),
		cmocka_unit_test(starcoder_s_texts_give_the_ids_of_the_published_tests),
		cmocka_unit_test(pieces_by_score_give_the_ids_of_the_published_tests),
		cmocka_unit_test(pieces_of_a_tokenizer_json_give_the_same_ids),
		cmocka_unit_test(texts_come_back),
		cmocka_unit_test(a_text_in_words_gives_the_ids_of_the_whole),
		cmocka_unit_test(texts_begin_and_end_with_the_tokens_that_the_file_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

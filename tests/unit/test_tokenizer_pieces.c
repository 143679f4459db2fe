/* Vocabularies of pieces (SentencePiece): spaces, the space in front, bytes of characters that are
 * no token, from tokenizer.json and from arrays; and arrays that do not fit together. */
#include "tests/unit/tokenizer_help.h"

#include "engine/family/source_text.h"
#include "engine/source/gguf.h"
#include "engine/answer/stream.h"
#include "engine/tokenizer/tokenizer_gguf.h"
#include "random.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define FALLBACK "{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}"
#define TO_MARKS \
	"{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\u2581\"}"
#define TO_SPACES \
	"{\"type\": \"Replace\", \"pattern\": {\"String\": \"\u2581\"}, \"content\": \" \"}"
#define STRIP "{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}"

/* A kind of tokenizer.json: the parts around the model. */
struct kind {
	const char *normalizer, *pre_tokenizer, *decoder;
};
static const struct kind LLAMA = {
	"{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": "
	"\"\u2581\"}, " TO_MARKS "]}",
	"null", "{\"type\": \"Sequence\", \"decoders\": [" TO_SPACES ", " FALLBACK ", " STRIP "]}"};
#define METASPACE(scheme, split)                                                               \
	"{\"type\": \"Metaspace\", \"replacement\": \"\u2581\", \"prepend_scheme\": \"" scheme \
	"\", \"split\": " split "}"
static const struct kind MISTRAL = {"null", METASPACE("first", "false"),
				    "{\"type\": \"Sequence\", \"decoders\": [" TO_SPACES
				    ", " FALLBACK ", " STRIP "]}"};
static const struct kind ALWAYS = {
	"null", METASPACE("always", "true"),
	"{\"type\": \"Sequence\", \"decoders\": [" METASPACE("always", "true") ", " FALLBACK "]}"};
static const struct kind GEMMA = {
	TO_MARKS,
	"{\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, \"behavior\": "
	"\"MergedWithPrevious\", \"invert\": false}",
	"{\"type\": \"Sequence\", \"decoders\": [" TO_SPACES ", " FALLBACK "]}"};

/* ids 0 .. 255 are bytes, then: */
static const char *const PIECES[] = {"<unk>",	"<s>", "</s>",	   "\u2581",	   "a",	     "b",
				     "\u2581a", "ab",  "\u2581ab", "\u2581\u2581", "\u00e9", "c"};
static const char MERGES[] = "[\"\u2581 \u2581\", \"a b\", \"\u2581 ab\", [\"\u2581\", \"a\"]]";
enum { SMALL = 256 + COUNT(PIECES) };

static const char *piece(uint32_t id, char spelled[8])
{
	if (id >= 256)
		return PIECES[id - 256];
	snprintf(spelled, 8, "<0x%02X>", id);
	return spelled;
}

static struct json_object *document_of(const struct kind *k)
{
	struct json_object *document = fixture_document(), *vocab = json_object_new_object();
	char spelled[8];
	for (uint32_t id = 0; id < SMALL; id++)
		json_object_object_add(vocab, piece(id, spelled), json_object_new_int((int)id));
	json_object_object_add(document, "normalizer", json(k->normalizer));
	json_object_object_add(document, "pre_tokenizer", json(k->pre_tokenizer));
	json_object_object_add(document, "decoder", json(k->decoder));
	json_object_object_add(document, "post_processor",
			       json("{\"type\": \"TemplateProcessing\", \"single\": "
				    "[{\"SpecialToken\": {\"id\": \"<s>\", "
				    "\"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": "
				    "0}}], \"pair\": [], "
				    "\"special_tokens\": {}}"));
	json_object_object_add(document, "added_tokens",
			       json("[{\"id\": 257, \"content\": \"<s>\", \"special\": true},"
				    "{\"id\": 258, \"content\": \"</s>\", \"special\": true}]"));
	json_object_object_add(
		document, "model",
		json("{\"type\": \"BPE\", \"byte_fallback\": true, \"fuse_unk\": true, "
		     "\"unk_token\": \"<unk>\"}"));
	json_object_object_add(at(document, "model"), "vocab", vocab);
	json_object_object_add(at(document, "model"), "merges", json(MERGES));
	return document;
}

static struct tokenizer *opened(const struct kind *k)
{
	struct tokenizer *t;
	struct err e = {0};
	must(open_document(&t, document_of(k), &e), &e);
	return t;
}

static void expect(const struct kind *k, const char *text, const char *tokens)
{
	struct tokenizer *t = opened(k);
	assert_string_equal(tokens_of(t, text), tokens);
	tokenizer_close(t);
}

/* --- tokenizer.json --- */

static void a_space_in_front_is_put_before_each_text_between_added_tokens(void **state)
{
	(void)state;
	expect(&LLAMA, "ab a", "[ ab][ a]");
	expect(&LLAMA, " ab", "[  ][ab]");
	expect(&LLAMA, "a</s>b</s>", "[ a][</s>][ ][b][</s>]");
	expect(&LLAMA, "", "");
}

static void or_before_the_first_alone_or_where_there_is_none_or_before_none(void **state)
{
	(void)state;
	expect(&MISTRAL, "a</s>ab a", "[ a][</s>][ab][ a]");
	expect(&MISTRAL, "</s>ab", "[</s>][ab]");
	expect(&MISTRAL, " ab", "[ ab]");
	expect(&ALWAYS, "ab</s>ab", "[ ab][</s>][ ab]");
	expect(&ALWAYS, "ab</s> ab", "[ ab][</s>][ ab]");
	expect(&GEMMA, "ab ab", "[ab][ ab]");
}

static void spaces_merge_with_each_other_but_where_each_begins_a_word(void **state)
{
	(void)state;
	expect(&GEMMA, "a  b", "[a][  ][b]");
	expect(&GEMMA, "a   b", "[a][  ][ ][b]");
	expect(&ALWAYS, "a  b", "[ a][ ][ ][b]");
}

static void a_character_without_a_token_is_its_bytes(void **state)
{
	(void)state;
	struct tokenizer *t = opened(&GEMMA);
	assert_string_equal(ids_of(t, "\u00e9\u00e8", 4), "266 195 168");
	assert_string_equal(ids_of(t, "a\nb", 3), "260 10 261");
	assert_string_equal(ids_of(t, "<0x0A>", 6), "60 48 120 48 65 62"); /* a text like any */
	size_t n;
	assert_memory_equal(tokenizer_bytes(t, 195, false, &n), "\xc3", 1);
	assert_int_equal(n, 1);
	tokenizer_close(t);
}

static void the_mark_for_a_space_is_one(void **state)
{
	(void)state;
	struct tokenizer *t = opened(&GEMMA);
	assert_string_equal(ids_of(t, "a\u2581\u2581\u2581ab", 12), "260 265 264");
	assert_int_equal(tokenizer_find(t, " ab"), 264);
	tokenizer_close(t);
}

static void the_template_s_first_token_begins_a_text_once(void **state)
{
	(void)state;
	struct tokenizer *t = opened(&LLAMA);
	struct token_list ids = {0};
	struct err e = {0};
	must(token_list_append(&ids, &(uint32_t){9}, 1, &e), &e);
	must(tokenizer_encode_alone(t, "ab a", 4, NULL, &ids, &e), &e);
	static const uint32_t WANT[] = {9, 257, 264, 262};
	assert_int_equal(ids.count, COUNT(WANT));
	assert_memory_equal(ids.ids, WANT, sizeof WANT);
	ids.count = 0;
	must(tokenizer_encode_alone(t, "<s>ab", 5, NULL, &ids, &e), &e);
	assert_int_equal(ids.count, 2);
	ids.count = 0;
	must(tokenizer_encode_alone(t, "", 0, NULL, &ids, &e), &e);
	assert_int_equal(ids.count, 1);
	assert_int_equal(ids.ids[0], 257);
	token_list_free(&ids);
	tokenizer_close(t);
}

static void tokenizer_config_names_the_tokens_that_begin_and_end_a_text(void **state)
{
	(void)state;
	static const struct {
		const char *config;
		int64_t bos, eos;
		size_t begin;
	} CASES[] = {
		{NULL, 257, -1, 1},
		{"{\"eos_token\": \"</s>\", \"add_bos_token\": false}", 257, 258, 0},
		{"{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": null}", 257, -1, 1},
		{"{\"bos_token\": \"</s>\", \"add_bos_token\": true}", 258, -1, 1},
	};
	size_t n;
	struct json_object *document = document_of(&LLAMA);
	const char *text = json_object_to_json_string_length(document, JSON_C_TO_STRING_PLAIN, &n);
	for (size_t i = 0; i < COUNT(CASES); i++) {
		char *directory = temporary_directory();
		struct tokenizer *t;
		struct token_list ids = {0};
		struct err e = {0};
		write_file(directory, "tokenizer.json", text, n);
		if (CASES[i].config)
			write_file(directory, "tokenizer_config.json", CASES[i].config,
				   strlen(CASES[i].config));
		must(tokenizer_open(&t, directory, &e), &e);
		assert_int_equal(tokenizer_bos(t), CASES[i].bos);
		assert_int_equal(tokenizer_eos(t), CASES[i].eos);
		assert_int_equal(tokenizer_ends(t, 258, false), CASES[i].eos == 258);
		must(tokenizer_begin(t, &ids, &e), &e);
		assert_int_equal(ids.count, CASES[i].begin);
		token_list_free(&ids);
		tokenizer_close(t);
		remove_directory(directory);
	}
	json_object_put(document);
}

static void what_ends_a_turn_is_known_by_its_text(void **state)
{
	(void)state;
	struct tokenizer *t;
	struct err e = {0};
	struct json_object *document = document_of(&GEMMA);
	json_object_object_add(document, "added_tokens",
			       json("[{\"id\": 257, \"content\": \"<s>\", \"special\": true},"
				    "{\"id\": 300, \"content\": \"<|return|>\", \"special\": true},"
				    "{\"id\": 301, \"content\": \"<|end|>\", \"special\": true},"
				    "{\"id\": 302, \"content\": \"<|call|>\"}]"));
	must(open_document(&t, document, &e), &e);
	assert_true(tokenizer_ends(t, 300, true));
	assert_false(tokenizer_ends(t, 300, false));
	assert_false(tokenizer_ends(t, 301, true)); /* of a message, not of a turn */
	assert_false(tokenizer_ends(t, 302, true)); /* anybody may write it */
	assert_false(tokenizer_ends(t, 9999, true));
	tokenizer_close(t);
}

static void what_does_not_belong_together_is_refused_by_name(void **state)
{
	(void)state;
	static const struct {
		const char *path, *key, *value;
		const char *words;
	} CASES[] = {
		{"", "decoder", "{\"type\": \"ByteLevel\"}", "does not undo"},
		{"", "decoder", "null", "does not undo"},
		{"", "normalizer", "null", "does not undo"},
		{"", "pre_tokenizer", "{\"type\": \"ByteLevel\"}", "U+2581"},
		{"", "pre_tokenizer", "{\"type\": \"Digits\"}", "U+2581"},
		{"", "pre_tokenizer", METASPACE("always", "true"), "U+2581"},
		{"", "normalizer",
		 "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"b\"}",
		 "Replace with \"String\": \"a\""},
		{"", "normalizer", "{\"type\": \"Prepend\", \"prepend\": \"_\"}", "Prepend"},
		{"", "normalizer", "{\"type\": \"Precompiled\"}", "Precompiled"},
		{"model", "byte_fallback", "false", "byte_fallback"},
		{"model.vocab", "<0x41>", NULL, "byte 0x41"},
		{"model", "type", "\"Unigram\"", "Unigram"},
	};
	for (size_t i = 0; i < COUNT(CASES); i++) {
		struct json_object *document = document_of(&LLAMA);
		struct json_object *in = *CASES[i].path ? at(document, CASES[i].path) : document;
		struct tokenizer *t;
		struct err e = {0};
		if (CASES[i].value)
			json_object_object_add(in, CASES[i].key,
					       strcmp(CASES[i].value, "null") ? json(CASES[i].value)
									      : NULL);
		else
			json_object_object_del(in, CASES[i].key);
		int rc = open_document(&t, document, &e);
		if (rc != -ENOTSUP || !strstr(e.text, CASES[i].words))
			fail_msg("%s: %d, %s", CASES[i].key, rc, e.text);
	}
}

/* --- streaming --- */

/* Feeds a text's tokens one by one; the result in a static buffer. */
static const char *streamed(const struct tokenizer *t, const char *text, bool skip)
{
	static char out[4096];
	struct token_list ids = {0};
	struct stream s;
	struct err e = {0};
	size_t used = 0, n, got;
	must(tokenizer_encode(t, text, strlen(text), NULL, &ids, &e), &e);
	must(stream_init(&s, "", &e), &e);
	s.skip_space = skip;
	for (size_t i = 0; i <= ids.count; i++) {
		const char *bytes =
			i < ids.count ? tokenizer_bytes(t, ids.ids[i], false, &n) : NULL;
		const char *piece_out =
			bytes ? stream_feed(&s, bytes, n, &got) : stream_flush(&s, &got);
		memcpy(out + used, piece_out, got);
		used += got;
	}
	out[used] = 0;
	stream_free(&s);
	token_list_free(&ids);
	return out;
}

static void a_text_streams_out_as_it_was_written(void **state)
{
	(void)state;
	static const char *const TEXTS[] = {"ab a", " ab",  "\u00e8\U0001f98a ab\n",
					    "",	    "   a", "\u00e9"};
	struct tokenizer *t = opened(&LLAMA);
	assert_true(tokenizer_leads_with_space(t));
	for (size_t i = 0; i < COUNT(TEXTS); i++)
		assert_string_equal(streamed(t, TEXTS[i], true), TEXTS[i]);
	assert_string_equal(streamed(t, "ab a", false), " ab a");
	tokenizer_close(t);
	t = opened(&GEMMA);
	assert_false(tokenizer_leads_with_space(t));
	assert_string_equal(streamed(t, " \u00e8", false), " \u00e8");
	tokenizer_close(t);
}

/* --- from arrays --- */

/* The small vocabulary by score, to change. */
struct small {
	char spelled[256][8];
	struct tokenizer_gguf_text tokens[SMALL];
	int32_t kinds[SMALL];
	float scores[SMALL];
	struct tokenizer_gguf parts;
};

static struct tokenizer_gguf_text text_of(const char *text)
{
	return (struct tokenizer_gguf_text){text, strlen(text)};
}

static void make_small(struct small *s)
{
	for (uint32_t id = 0; id < SMALL; id++) {
		s->tokens[id] = text_of(piece(id, id < 256 ? s->spelled[id] : NULL));
		s->kinds[id] = id < 256	   ? KIND_BYTE
			       : id == 256 ? KIND_UNKNOWN
			       : id < 259  ? KIND_CONTROL
					   : KIND_NORMAL;
		s->scores[id] = id < 259 ? 0 : -(float)id;
	}
	s->parts = (struct tokenizer_gguf){.name = "small.gguf",
					   .model = "llama",
					   .tokens = s->tokens,
					   .token_count = SMALL,
					   .kinds = s->kinds,
					   .scores = s->scores,
					   .bos = 257,
					   .eos = 258,
					   .ends = {-1, -1, -1, -1},
					   .add_bos = NOT_SAID,
					   .space_prefix = NOT_SAID};
}

static void neighbours_merge_by_the_score_of_their_product(void **state)
{
	(void)state;
	struct small s;
	struct tokenizer *t;
	struct err e = {0};
	make_small(&s);
	must(tokenizer_open_gguf(&t, &s.parts, &e), &e);
	assert_string_equal(tokens_of(t, "ab aab"), "[ ab][ a][ab]");
	assert_string_equal(ids_of(t, "\u00e8</s>a", 7), "259 195 168 258 262");
	assert_int_equal(tokenizer_bos(t), 257);
	assert_true(tokenizer_ends(t, 258, false));
	tokenizer_close(t);
	s.tokens[264] = text_of("no");
	must(tokenizer_open_gguf(&t, &s.parts, &e), &e);
	assert_string_equal(tokens_of(t, "ab"), "[ a][b]");
	tokenizer_close(t);
	s.scores[263] = -1; /* "ab" is better than " a" now */
	must(tokenizer_open_gguf(&t, &s.parts, &e), &e);
	assert_string_equal(tokens_of(t, "ab"), "[ ][ab]");
	tokenizer_close(t);
	s.scores[263] = s.scores[262]; /* of equals the leftmost */
	s.parts.space_prefix = SAID_NO;
	must(tokenizer_open_gguf(&t, &s.parts, &e), &e);
	assert_string_equal(tokens_of(t, " ab"), "[ a][b]");
	assert_string_equal(tokens_of(t, "ab"), "[ab]");
	tokenizer_close(t);
}

/* No merge makes a control token, though its text can be spelled. */
static void control_tokens_are_not_merged(void **state)
{
	(void)state;
	struct small s;
	struct tokenizer *t;
	struct err e = {0};
	make_small(&s);
	s.tokens[258] = text_of("ab");
	s.tokens[263] = text_of("x");
	s.parts.space_prefix = SAID_NO;
	must(tokenizer_open_gguf(&t, &s.parts, &e), &e);
	assert_string_equal(ids_of(t, "\u2581ab", 5), "259 258"); /* cut out, not " ab" */
	tokenizer_close(t);
}

struct wrong {
	int code;
	const char *words;
};

static void expect_wrong(const struct tokenizer_gguf *p, int code, const char *words)
{
	struct tokenizer *t;
	struct err e = {0};
	int rc = tokenizer_open_gguf(&t, p, &e);
	if (rc == 0)
		fail_msg("accepted: %s", words);
	if (rc != -code || !strstr(e.text, words) || !strstr(e.text, "small.gguf"))
		fail_msg("%s: %d, %s", words, rc, e.text);
}

static void vocabularies_that_are_no_byte_pairs_are_refused_by_name(void **state)
{
	(void)state;
	static const char *const MODELS[] = {"t5", "bert", "rwkv", "plamo2", "none", "newest"};
	struct small s;
	make_small(&s);
	for (size_t i = 0; i < COUNT(MODELS); i++) {
		s.parts.model = MODELS[i];
		expect_wrong(&s.parts, ENOTSUP, MODELS[i]);
	}
	s.parts.model = NULL;
	expect_wrong(&s.parts, EINVAL, "kind of vocabulary is missing");
	s.parts.model = "gpt2";
	expect_wrong(&s.parts, ENOTSUP, "how text is split");
	s.parts.pre = "default";
	expect_wrong(&s.parts, ENOTSUP, "how text is split");
	s.parts.pre = "kimi-k9";
	expect_wrong(&s.parts, ENOTSUP, "kimi-k9");
}

static void arrays_that_do_not_fit_together_are_refused(void **state)
{
	(void)state;
	static char long_piece[2000];
	static const struct tokenizer_gguf_text MERGE_OF_NOTHING = {"qq rr", 5},
						NO_MERGE = {"a", 1}, BROKEN = {"a \xff", 3},
						EMPTY = {NULL, 0};
	struct small s;
	make_small(&s);
	s.parts.scores = NULL;
	expect_wrong(&s.parts, EINVAL, "no scores");
	make_small(&s);
	s.scores[260] = NAN;
	expect_wrong(&s.parts, EINVAL, "score of token 260");
	s.scores[260] = INFINITY;
	expect_wrong(&s.parts, EINVAL, "score of token 260");
	make_small(&s);
	s.tokens[260] = text_of("b");
	expect_wrong(&s.parts, EINVAL, "\"b\" occurs twice, as id 260 and as id 261");
	s.tokens[260] = (struct tokenizer_gguf_text){"\xc3", 1};
	expect_wrong(&s.parts, EINVAL, "token 260 is not valid UTF-8");
	memset(long_piece, 'x', sizeof long_piece - 1);
	s.tokens[260] = text_of(long_piece);
	expect_wrong(&s.parts, EINVAL, "token 260 has 1999 bytes");
	make_small(&s);
	s.tokens[257] = text_of(long_piece);
	expect_wrong(&s.parts, EINVAL, "1999 bytes");
	make_small(&s);
	s.tokens[257] = text_of("</s>");
	expect_wrong(&s.parts, EINVAL, "twice");
	make_small(&s);
	s.parts.bos = SMALL;
	expect_wrong(&s.parts, EINVAL, "beginning of a text");
	s.parts.bos = -1;
	expect_wrong(&s.parts, EINVAL, "tokenizer.ggml.bos_token_id does not name it");
	make_small(&s);
	s.parts.eos = INT64_MAX;
	expect_wrong(&s.parts, EINVAL, "end of a text");
	make_small(&s);
	s.parts.ends[3] = SMALL;
	expect_wrong(&s.parts, EINVAL, "end of a turn");
	make_small(&s);
	s.parts.token_count = 0;
	expect_wrong(&s.parts, EINVAL, "0 tokens");
	s.parts.token_count = 1 << 24;
	expect_wrong(&s.parts, EINVAL, "16777216 tokens");
	make_small(&s);
	s.parts.model = "gemma4";
	expect_wrong(&s.parts, EINVAL, "no merges");
	s.parts.merge_count = 1;
	s.parts.merges = &MERGE_OF_NOTHING;
	expect_wrong(&s.parts, EINVAL, "merge 0, \"qq\"");
	s.parts.merges = &NO_MERGE;
	expect_wrong(&s.parts, EINVAL, "merge 0");
	s.parts.merges = &BROKEN;
	expect_wrong(&s.parts, EINVAL, "merge 0 is not valid UTF-8");
	s.parts.merges = &EMPTY;
	expect_wrong(&s.parts, EINVAL, "merge 0");
}

/* Unknown kinds of tokens, and empty tokens, are ordinary tokens. */
static void strange_kinds_and_empty_tokens_do_no_harm(void **state)
{
	(void)state;
	struct small s;
	struct tokenizer *t;
	struct err e = {0};
	make_small(&s);
	s.kinds[260] = -7;
	s.kinds[261] = INT32_MAX;
	s.tokens[267] = (struct tokenizer_gguf_text){"", 0};
	s.tokens[266] = (struct tokenizer_gguf_text){NULL, 0};
	s.kinds[267] = KIND_CONTROL;
	must(tokenizer_open_gguf(&t, &s.parts, &e), &e);
	assert_string_equal(tokens_of(t, "ab"), "[ ab]");
	tokenizer_close(t);
	for (int i = 0; i < 256; i++) /* no bytes: an error when they are wanted */
		s.kinds[i] = KIND_CONTROL;
	must(tokenizer_open_gguf(&t, &s.parts, &e), &e);
	struct token_list ids = {0};
	assert_int_equal(tokenizer_encode(t, "\u00e8", 2, NULL, &ids, &e), -EINVAL);
	assert_non_null(strstr(e.text, "0xc3"));
	token_list_free(&ids);
	tokenizer_close(t);
}

static void a_megabyte_without_a_boundary_comes_to_an_end(void **state)
{
	(void)state;
	enum { BYTES = 1 << 20 };
	static const char *const UNITS[] = {" ", "a", "ab", "a ", "\u00e8"};
	struct small s;
	struct tokenizer *t;
	struct err e = {0};
	make_small(&s);
	must(tokenizer_open_gguf(&t, &s.parts, &e), &e);
	char *text = malloc(BYTES);
	assert_non_null(text);
	for (size_t u = 0; u < COUNT(UNITS); u++) {
		struct token_list ids = {0};
		for (size_t i = 0; i < BYTES; i++)
			text[i] = UNITS[u][i % strlen(UNITS[u])];
		must(tokenizer_encode(t, text, BYTES, NULL, &ids, &e), &e);
		assert_true(ids.count >= BYTES / 3);
		token_list_free(&ids);
	}
	static const _Atomic bool stop = true;
	struct token_list ids = {0};
	assert_int_equal(tokenizer_encode(t, text, BYTES, &stop, &ids, &e), -ECANCELED);
	token_list_free(&ids);
	free(text);
	tokenizer_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_space_in_front_is_put_before_each_text_between_added_tokens),
		cmocka_unit_test(or_before_the_first_alone_or_where_there_is_none_or_before_none),
		cmocka_unit_test(spaces_merge_with_each_other_but_where_each_begins_a_word),
		cmocka_unit_test(a_character_without_a_token_is_its_bytes),
		cmocka_unit_test(the_mark_for_a_space_is_one),
		cmocka_unit_test(the_template_s_first_token_begins_a_text_once),
		cmocka_unit_test(tokenizer_config_names_the_tokens_that_begin_and_end_a_text),
		cmocka_unit_test(what_ends_a_turn_is_known_by_its_text),
		cmocka_unit_test(what_does_not_belong_together_is_refused_by_name),
		cmocka_unit_test(a_text_streams_out_as_it_was_written),
		cmocka_unit_test(neighbours_merge_by_the_score_of_their_product),
		cmocka_unit_test(control_tokens_are_not_merged),
		cmocka_unit_test(vocabularies_that_are_no_byte_pairs_are_refused_by_name),
		cmocka_unit_test(arrays_that_do_not_fit_together_are_refused),
		cmocka_unit_test(strange_kinds_and_empty_tokens_do_no_harm),
		cmocka_unit_test(a_megabyte_without_a_boundary_comes_to_an_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

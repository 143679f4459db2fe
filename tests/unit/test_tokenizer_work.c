/* The cost of tokenizing: searches that see only part of a text find the right matches; a pattern
 * that rereads the same text again and again ends with a sentence, published patterns never do;
 * and everything ends when it is stopped. */
#include "tests/unit/tokenizer_help.h"

#include "engine/tokenizer/normalize.h"
#include "engine/tokenizer/pretokenize.h"
#include "engine/tokenizer/tokenizer_build.h"
#include "memory_help.h"
#include "random.h"

#include <errno.h>
#include <pcre2.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static const char GPT4O_PATTERN[] =
	"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
	"[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}|"
	" ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char LLAMA_PATTERN[] =
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
	" ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char *const PUBLISHED[] = {GPT2_PATTERN, QWEN2_PATTERN, GPT4O_PATTERN, LLAMA_PATTERN};
enum { PATTERNS = sizeof PUBLISHED / sizeof *PUBLISHED };
/* And by name, in one stage or several. */
static const char *const NAMES[] = {"deepseek-llm", "deepseek-coder", "deepseek-v3", "gpt-4o",
				    "tekken",	    "bailingmoe",     "qwen35",	     "starcoder",
				    "seed-coder",   "glm4",	      "minimax-m2",  "kimi-k2"};
enum { NAMED = sizeof NAMES / sizeof *NAMES };

/* Where each word ended, and when to ask for a stop. */
struct words {
	size_t *ends, count, end;
	size_t stop_after; /* words; 0: never */
	_Atomic bool stop;
};

static int take_word(void *context, const char *word, size_t n, struct err *e)
{
	struct words *w = context;
	(void)word;
	(void)e;
	w->end += n;
	if (w->ends)
		w->ends[w->count] = w->end;
	w->count++;
	if (w->count == w->stop_after)
		atomic_store(&w->stop, true);
	return 0;
}

/* Patterns end in a NULL. */
static int split_by(const char *const *patterns, const char *text, size_t n, struct words *w,
		    struct err *e)
{
	struct pretokenizer s = {0};
	for (; *patterns; patterns++)
		must(pretokenize_add(&s, *patterns, false, "d/tokenizer.json", e), e);
	struct pretokenize_work *work = pretokenize_work_new(n, &w->stop);
	assert_non_null(work);
	int rc = pretokenize_words(&s, work, text, n, take_word, w, e);
	pretokenize_work_free(work);
	pretokenize_free(&s);
	return rc;
}

static int split(const char *pattern, const char *text, size_t n, struct words *w, struct err *e)
{
	const char *const patterns[] = {pattern, NULL};
	return split_by(patterns, text, n, w, e);
}

static char *repeated(const char *piece, size_t n)
{
	size_t length = strlen(piece);
	char *text = malloc(n + 1);
	assert_non_null(text);
	for (size_t i = 0; i < n; i++)
		text[i] = piece[i % length];
	text[n] = 0;
	return text;
}

/* ---- the same words ---- */

/* The words of a text by PCRE2 alone, which sees all of it. */
static size_t reference(const char *pattern, const char *text, size_t n, size_t *ends)
{
	char spelled[8192] = "";
	for (const char *c = pattern; *c; c++) {
		bool space = c[0] == '\\' && (c[1] == 's' || c[1] == 'S');
		size_t used = strlen(spelled);
		snprintf(spelled + used, sizeof spelled - used, space ? "\\%c{White_Space}" : "%c",
			 space ? (c[1] == 's' ? 'p' : 'P') : *c);
		c += space;
	}
	int why;
	PCRE2_SIZE at;
	pcre2_code *code = pcre2_compile((PCRE2_SPTR)spelled, PCRE2_ZERO_TERMINATED,
					 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &why, &at, NULL);
	assert_non_null(code);
	pcre2_match_data *match = pcre2_match_data_create(1, NULL);
	size_t count = 0, done = 0;
	while (pcre2_match(code, (PCRE2_SPTR)text, n, done, 0, match, NULL) > 0) {
		const PCRE2_SIZE *found = pcre2_get_ovector_pointer(match);
		if (found[0] > done)
			ends[count++] = found[0];
		ends[count++] = done = found[1];
	}
	if (done < n)
		ends[count++] = n;
	pcre2_match_data_free(match);
	pcre2_code_free(code);
	return count;
}

/* Runs of one character or another, most short and some long, up to n bytes. */
static size_t random_text(struct random *r, char *text, size_t n)
{
	static const char *const PIECES[] = {"a",      "B",	     " ",  "\n",  "7",
					     "-",      "'s",	     "é",  "語",  "\u0301",
					     "\u00a0", "\U0001f98a", "\t", "\r\n"};
	size_t used = 0;
	for (;;) {
		const char *piece = PIECES[random_u32(r) % (sizeof PIECES / sizeof *PIECES)];
		size_t most = random_u32(r) % 8 ? 6 : 700, times = 1 + random_u32(r) % most;
		for (size_t i = 0; i < times; i++) {
			if (used + strlen(piece) > n)
				return used;
			memcpy(text + used, piece, strlen(piece));
			used += strlen(piece);
		}
	}
}

static void check_words(const char *pattern, struct random *r)
{
	enum { BYTES = 4000 };
	static char text[BYTES];
	static size_t want[BYTES], got[BYTES];
	struct err e = {0};
	struct words w = {.ends = got};
	size_t n = random_text(r, text, BYTES);
	size_t count = reference(pattern, text, n, want);
	must(split(pattern, text, n, &w, &e), &e);
	assert_int_equal(w.count, count);
	assert_memory_equal(got, want, count * sizeof *got);
}

static void words_are_those_that_a_search_of_the_whole_text_finds(void **state)
{
	(void)state;
	enum { TEXTS = 60 };
	struct random r = {1};
	for (int i = 0; i < TEXTS; i++) {
		for (int p = 0; p < PATTERNS; p++)
			check_words(PUBLISHED[p], &r);
		for (int k = 0; k < NAMED && i < TEXTS / 4; k++)
			for (const char *const *p = pretokenize_find_name(NAMES[k])->patterns; *p;
			     p++)
				check_words(*p, &r);
	}
}

/* Kimi's published pattern subtracts a script from its classes. The expected words come from an
 * interpreter of such sets (Python's regex). */
static void words_of_the_han_script_are_apart_from_others(void **state)
{
	(void)state;
	static const char *const TEXTS[][16] = {
		{"Hello", " ", "世界", "abc", "漢字", "DEF'll", " ", "123", "45"},
		{" ", " x", "々〇⺀", " é", "語", "a", "B"},
		{"ひらがな", "漢字", "カタカナ"},
		{"\n\n", " ", " Don'T", " (", "文", ")said", ":", " 「", "語", "」!\n", " /", "a"},
		{"ABCdef", " Ωmega", "日本語", "のテキスト"},
		{"㐀𠀀", "a", "𠀀", " ", "3〇", "五", " ", "Ⅳ"},
		{"汉字", "'s", " ", "汉字", " ", "汉字", "\n\n"},
		{"e\u0301", "語", "\u0301x"}};
	for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
		char text[256] = "";
		size_t want[16], got[sizeof text], count = 0, n = 0;
		struct err e = {0};
		struct words w = {.ends = got};
		for (; TEXTS[i][count]; count++) {
			size_t piece = strlen(TEXTS[i][count]);
			memcpy(text + n, TEXTS[i][count], piece);
			n += piece;
			want[count] = n;
		}
		must(split_by(pretokenize_find_name("kimi-k2")->patterns, text, n, &w, &e), &e);
		assert_int_equal(w.count, count);
		assert_memory_equal(got, want, count * sizeof *got);
	}
}

/* ---- the bound ---- */

static void a_pattern_that_takes_quadratic_time_ends_in_words(void **state)
{
	(void)state;
	static const char *const PATTERNS_OF_WORK[] = {
		"a*b|[^a]|a",  "a*?b|a",	  "(?=a*b)a|a",	  "(?:a(?=a*b)|a)*c|a",
		"(?<=a)a*b|a", "(?:a|aa)+[cd]|a", "(?:a*b?)*c|a", "(?>a*)b|a",
		".*b|a",       "(?!a*b)a",	  "(?:a+)+b|a",	  "\\p{L}*\\p{N}|a"};
	enum { BYTES = 100000 };
	char *text = repeated("a", BYTES);
	for (size_t i = 0; i < sizeof PATTERNS_OF_WORK / sizeof *PATTERNS_OF_WORK; i++) {
		struct err e = {0};
		struct words w = {0};
		int rc = split(PATTERNS_OF_WORK[i], text, BYTES, &w, &e);
		if (rc != -ENOTSUP || !strstr(e.text, "d/tokenizer.json: its split pattern") ||
		    !strstr(e.text, "send shorter texts"))
			fail_msg("%s: %d, %s", PATTERNS_OF_WORK[i], rc, e.text);
	}
	free(text);
}

static void a_published_pattern_never_meets_the_bound(void **state)
{
	(void)state;
	static const char *const PIECES[] = {
		" ",   "a",	     "A",  "7",	      "\n",	"\r\n", "\t", "-", "'",	 " \n",
		"\n ", "\U0001f600", "語", "e\u0301", "\u00a0", "x ",	"aB", "/", "''s"};
	enum { BYTES = 1 << 20 };
	for (size_t i = 0; i < sizeof PIECES / sizeof *PIECES; i++) {
		size_t n = BYTES / strlen(PIECES[i]) * strlen(PIECES[i]);
		char *text = repeated(PIECES[i], n);
		for (int end = 0; end < 2; end++) { /* and with another character at its end */
			for (int p = 0; p < PATTERNS; p++) {
				struct err e = {0};
				struct words w = {0};
				must(split(PUBLISHED[p], text, n, &w, &e), &e);
				assert_int_equal(w.end, n);
			}
			for (int k = 0; k < NAMED; k++) {
				struct err e = {0};
				struct words w = {0};
				must(split_by(pretokenize_find_name(NAMES[k])->patterns, text, n,
					      &w, &e),
				     &e);
				assert_int_equal(w.end, n);
			}
			if (PIECES[i][strlen(PIECES[i]) - 1] & 0x80)
				break;
			text[n - 1] = 'x';
		}
		free(text);
	}
}

static void real_texts_do_not_meet_the_bound(void **state)
{
	(void)state;
	static const char *const FILES[] = {"text/wikitext2.wiki.test.raw.zst",
					    "text/tinystories_valid_head.txt.zst"};
	for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
		const char *path = foreign(FILES[i]);
		size_t n;
		if (!path)
			skip();
		char *text = read_any(path, &n);
		for (int p = 0; p < PATTERNS; p++) {
			struct err e = {0};
			struct words w = {0};
			must(split(PUBLISHED[p], text, n, &w, &e), &e);
		}
		for (int k = 0; k < NAMED; k++) {
			struct err e = {0};
			struct words w = {0};
			must(split_by(pretokenize_find_name(NAMES[k])->patterns, text, n, &w, &e),
			     &e);
		}
		free(text);
	}
}

static void an_absurd_number_of_repeats_is_refused(void **state)
{
	(void)state;
	static const char *const REFUSED[] = {"a{257}", "a{1000,}", "a{60000,65535}",
					      "a{99999999999999999999}"};
	struct pretokenizer s = {0};
	struct err e;
	for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++)
		assert_int_equal(pretokenize_add(&s, REFUSED[i], false, "tokenizer.json", &e),
				 -ENOTSUP);
	must(pretokenize_add(&s, "a{256}|b{1,3}", false, "tokenizer.json", &e), &e);
	pretokenize_free(&s);
}

/* ---- stopping ---- */

static void splitting_ends_with_the_word_at_which_it_is_stopped(void **state)
{
	(void)state;
	struct err e = {0};
	struct words w = {.stop_after = 3};
	char *text = repeated("one two ", 4096);
	assert_int_equal(split(QWEN2_PATTERN, text, 4096, &w, &e), -ECANCELED);
	assert_int_equal(w.count, 3);
	free(text);
}

/* Memory that nobody may read yet. Who does is asked to stop, and reads on. */
static struct {
	char *memory;
	size_t bytes;
	_Atomic bool *stop;
} closed;

static void open_and_stop(int number, siginfo_t *info, void *context)
{
	const char *at = info->si_addr;
	(void)context;
	if (at < closed.memory || at >= closed.memory + closed.bytes) {
		(void)signal(number, SIG_DFL); /* another error: it happens again */
		return;
	}
	atomic_store(closed.stop, true);
	(void)mprotect(closed.memory, closed.bytes, PROT_READ);
}

/* One search, which is asked to stop when it has come to the text's second half. */
static void a_search_ends_in_the_middle_when_it_is_stopped(void **state)
{
	(void)state;
	enum { BYTES = 128 << 10, HALF = BYTES / 2 };
	struct sigaction before, opens = {.sa_sigaction = open_and_stop, .sa_flags = SA_SIGINFO};
	struct err e = {0};
	struct words w = {0};
	char *text = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(text != MAP_FAILED);
	memset(text, 'a', BYTES);
	closed.memory = text + HALF;
	closed.bytes = HALF;
	closed.stop = &w.stop;
	assert_int_equal(mprotect(closed.memory, closed.bytes, PROT_NONE), 0);
	assert_int_equal(sigaction(SIGSEGV, &opens, &before), 0);
	int rc = split("(?:a|aa)+[cd]|a", text, BYTES, &w, &e);
	assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
	assert_true(atomic_load(&w.stop));
	assert_int_equal(rc, -ECANCELED);
	assert_int_equal(w.count, 0);
	(void)munmap(text, BYTES);
}

static void every_part_of_tokenizing_looks_at_stop(void **state)
{
	(void)state;
	static const _Atomic bool stop = true;
	struct err e = {0};
	struct token_list ids = {0};
	struct tokenizer *t;
	char *out = NULL;
	size_t n;
	must(tokenizer_open(&t, FIXTURE, &e), &e);
	assert_int_equal(normalize_nfc("é", 2, &stop, &out, &n, &e), -ECANCELED);
	struct bpe_work *work = bpe_work_new(&stop);
	assert_int_equal(bpe_encode(&t->vocabulary, &t->merges, work, "hello", 5, &ids, &e),
			 -ECANCELED);
	bpe_work_free(work);
	struct added_scan scan = {.stop = &stop};
	struct added_hit hit;
	assert_true(added_tokens_next(&t->literal, "x<|im_end|>", 11, &scan, &hit));
	assert_int_equal(hit.id, -1); /* it was not looked for */
	ids.count = 0;
	must(token_list_append(&ids, &(uint32_t){7}, 1, &e), &e);
	assert_int_equal(tokenizer_encode(t, "hello", 5, &stop, &ids, &e), -ECANCELED);
	assert_int_equal(ids.count, 1);
	token_list_free(&ids);
	tokenizer_close(t);
}

int main(void)
{
	const struct CMUnitTest words[] = {
		cmocka_unit_test(words_are_those_that_a_search_of_the_whole_text_finds),
		cmocka_unit_test(words_of_the_han_script_are_apart_from_others),
		cmocka_unit_test(a_pattern_that_takes_quadratic_time_ends_in_words),
		cmocka_unit_test(a_published_pattern_never_meets_the_bound),
		cmocka_unit_test(real_texts_do_not_meet_the_bound),
		cmocka_unit_test(an_absurd_number_of_repeats_is_refused),
	};
	const struct CMUnitTest stops[] = {
		cmocka_unit_test(splitting_ends_with_the_word_at_which_it_is_stopped),
		cmocka_unit_test(a_search_ends_in_the_middle_when_it_is_stopped),
		cmocka_unit_test(every_part_of_tokenizing_looks_at_stop),
	};
	int failed = cmocka_run_group_tests(stops, NULL, NULL);
	if (!THREADS_WATCHED) /* one thread's own: the other trees hold these */
		failed += cmocka_run_group_tests(words, NULL, NULL);
	return failed;
}

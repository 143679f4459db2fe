/* Splitting a text into words by the patterns of a tokenizer file, with PCRE2.
 *
 * The patterns were written for Oniguruma (Ruby's syntax), which Hugging Face uses. The two engines
 * agree on what real patterns are made of, but not on everything: so a pattern is read first, what
 * is known to mean the same passes, \s and \S are spelled out (PCRE2's include U+180E), and the
 * rest is refused by name. Patterns are hostile: limits bound each match, so that the worst is time
 * quadratic in the length of a text. */
#include "engine/text/tokenizer_internal.h"

#include <ctype.h>
#include <errno.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char GPT2_PATTERN[] =
	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char QWEN2_PATTERN[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
			     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/* Steps that one match may take at one place; per byte, since \s*[\r\n] may give back a whole run
 * of spaces. Above this a pattern is taken for one that would never end. */
enum { MATCH_STEPS = 10000, MATCH_STEPS_PER_BYTE = 16, MATCH_HEAP_KIB = 256 << 10 };

/* --- translating a pattern --- */

struct translation {
	const char *in; /* what is left to read */
	char *out;	/* where to write; every step writes at most TRANSLATED_MAX per byte read */
	bool in_class;	/* between [ and ] */
};
enum { TRANSLATED_MAX = 8 }; /* \s, two bytes, becomes the 15 of \p{White_Space} */

static const char GROUP_OPENINGS[][5] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
static const char GENERAL_CATEGORIES[][3] = {
	"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl",
	"No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk",
	"So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cs", "Co", "Cn"};

/* Copies n bytes that mean the same in both syntaxes. */
static bool pass(struct translation *t, size_t n)
{
	memcpy(t->out, t->in, n);
	t->out += n;
	t->in += n;
	return true;
}

static bool replace(struct translation *t, size_t n, const char *with)
{
	size_t length = strlen(with);
	memcpy(t->out, with, length);
	t->out += length;
	t->in += n;
	return true;
}

/* \p{Lu} and the like; scripts and other properties are refused, their names mean different sets.
 */
static bool translate_property(struct translation *t)
{
	const char *name = t->in + 3;
	const char *end = t->in[2] == '{' ? strchr(name, '}') : NULL;
	for (size_t i = 0; end && i < sizeof GENERAL_CATEGORIES / sizeof *GENERAL_CATEGORIES; i++)
		if (strlen(GENERAL_CATEGORIES[i]) == (size_t)(end - name) &&
		    memcmp(GENERAL_CATEGORIES[i], name, (size_t)(end - name)) == 0)
			return pass(t, (size_t)(end + 1 - t->in));
	return false;
}

static bool translate_escape(struct translation *t)
{
	char c = t->in[1];
	if (c == 's')
		return replace(t, 2, "\\p{White_Space}");
	if (c == 'S')
		return replace(t, 2, "\\P{White_Space}");
	if (c == 'p' || c == 'P')
		return translate_property(t);
	if (c != '\0' && (strchr("dDrntf", c) || c == ' ' || ispunct((unsigned char)c)))
		return pass(t, 2);
	return false;
}

static bool translate_group(struct translation *t)
{
	if (t->in[1] != '?' && t->in[1] != '*')
		return pass(t, 1);
	for (size_t i = 0; i < sizeof GROUP_OPENINGS / sizeof *GROUP_OPENINGS; i++) {
		size_t n = strlen(GROUP_OPENINGS[i]);
		if (strncmp(t->in, GROUP_OPENINGS[i], n) == 0)
			return pass(t, n);
	}
	return false;
}

/* {n}, {n,} and {n,m}. Not {,m}, nor a + or ? after it: those differ. */
static bool translate_interval(struct translation *t)
{
	size_t digits = strspn(t->in + 1, "0123456789");
	size_t n = 1 + digits;
	if (t->in[n] == ',')
		n += 1 + strspn(t->in + n + 1, "0123456789");
	if (digits == 0 || t->in[n] != '}' || t->in[n + 1] == '+' || t->in[n + 1] == '?')
		return false;
	return pass(t, n + 1);
}

static bool translate_in_class(struct translation *t)
{
	if (t->in[0] == '[' || (t->in[0] == '&' && t->in[1] == '&')) /* sets of sets */
		return false;
	if (t->in[0] == '\\')
		return translate_escape(t);
	t->in_class = t->in[0] != ']';
	return pass(t, 1);
}

/* One element of the pattern; false where it is none that is known to mean the same. */
static bool translate_step(struct translation *t)
{
	if (t->in_class)
		return translate_in_class(t);
	switch (t->in[0]) {
	case '\\':
		return translate_escape(t);
	case '(':
		return translate_group(t);
	case '{':
		return translate_interval(t);
	case '[':
		t->in_class = true;
		pass(t, t->in[1] == '^' ? 2 : 1);
		return t->in[0] !=
		       ']'; /* a ] first in a class: a member for one, an error for the other */
	case '^':	    /* lines for one, the whole text for the other */
	case '$':
		return false;
	default:
		return pass(t, 1);
	}
}

/* The pattern in PCRE2's syntax, freed by the caller; NULL with an error. */
static char *translate(const char *pattern, const char *name, struct err *e)
{
	size_t n = strlen(pattern);
	if (n > PATTERN_BYTES_MAX) {
		err_set(e, EINVAL, "%s: a split pattern of %zu bytes, more than %d", name, n,
			PATTERN_BYTES_MAX);
		return NULL;
	}
	char *translated = malloc(n * TRANSLATED_MAX + 1);
	if (!translated) {
		err_set(e, ENOMEM, "%s: no memory for its split pattern", name);
		return NULL;
	}
	struct translation t = {.in = pattern, .out = translated};
	while (*t.in) {
		const char *at = t.in;
		if (!translate_step(&t)) {
			err_set(e, ENOTSUP,
				"%s: the split pattern has at byte %zu what this reader does not "
				"know: %.*s",
				name, (size_t)(at - pattern), 20, at);
			free(translated);
			return NULL;
		}
	}
	*t.out = '\0';
	return translated;
}

/* --- compiling --- */

static pcre2_code *compile(const char *pattern, const char *name, struct err *e)
{
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	if (!context) {
		err_set(e, ENOMEM, "%s: no memory for its split pattern", name);
		return NULL;
	}
	pcre2_set_newline(context, PCRE2_NEWLINE_LF); /* what a dot does not match */
	int why;
	PCRE2_SIZE at;
	pcre2_code *code =
		pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
			      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &why, &at, context);
	pcre2_compile_context_free(context);
	if (!code) {
		char words[128];
		pcre2_get_error_message(why, (PCRE2_UCHAR *)words, sizeof words);
		err_set(e, EINVAL, "%s: the split pattern is wrong near \"%.20s\": %s", name,
			pattern + at, words);
		return NULL;
	}
	/* Where there is no just-in-time compiler the interpreter does the same, slowly. */
	pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
	return code;
}

int splitter_add(struct splitter *s, const char *pattern, bool prefix_space, const char *name,
		 struct err *e)
{
	if (s->count == SPLIT_STAGES_MAX)
		return err_set(e, EINVAL, "%s: more than %d pre-tokenizers in a sequence", name,
			       SPLIT_STAGES_MAX);
	struct split_stage stage = {.prefix_space = prefix_space};
	if (pattern) {
		struct err own = {0};
		char *translated = translate(pattern, name, &own);
		if (translated)
			stage.pattern = compile(translated, name, &own);
		free(translated);
		if (!stage.pattern)
			return err_set(e, own.code, "%s", own.text);
	}
	s->stages[s->count++] = stage;
	return 0;
}

void splitter_free(struct splitter *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		pcre2_code_free(s->stages[i].pattern);
	s->count = 0;
}

/* --- splitting --- */

struct split_work {
	pcre2_match_data *match;
	pcre2_match_context *limits;
	char *prefixed[SPLIT_STAGES_MAX]; /* per stage, a piece with a space put before it */
	size_t prefixed_capacity[SPLIT_STAGES_MAX];
};

struct split_work *split_work_new(void)
{
	struct split_work *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->match = pcre2_match_data_create(1, NULL);
	w->limits = pcre2_match_context_create(NULL);
	if (!w->match || !w->limits) {
		split_work_free(w);
		return NULL;
	}
	pcre2_set_heap_limit(w->limits, MATCH_HEAP_KIB);
	return w;
}

void split_work_free(struct split_work *w)
{
	if (!w)
		return;
	pcre2_match_data_free(w->match);
	pcre2_match_context_free(w->limits);
	for (int i = 0; i < SPLIT_STAGES_MAX; i++)
		free(w->prefixed[i]);
	free(w);
}

/* One run of a splitter over one text. */
struct run {
	const struct splitter *splitter;
	struct split_work *work;
	split_word *each;
	void *context;
	struct err *e;
};

/* The first match at or after `from`: 1 with its ends, 0 if there is none. */
static int search(struct run *r, const pcre2_code *pattern, const char *text, size_t n, size_t from,
		  size_t *start, size_t *end)
{
	struct split_work *w = r->work;
	/* Checking UTF-8 again for every match would make splitting quadratic. */
	uint32_t options = PCRE2_NO_UTF_CHECK;
	int rc = pcre2_match(pattern, (PCRE2_SPTR)text, n, from, options, w->match, w->limits);
	if (rc == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter takes its memory from the heap */
		rc = pcre2_match(pattern, (PCRE2_SPTR)text, n, from, options | PCRE2_NO_JIT,
				 w->match, w->limits);
	if (rc == PCRE2_ERROR_NOMATCH)
		return 0;
	if (rc < 0) {
		char words[128];
		pcre2_get_error_message(rc, (PCRE2_UCHAR *)words, sizeof words);
		return err_set(r->e, ENOTSUP,
			       "the tokenizer's split pattern fails on the text near byte %zu: %s",
			       from, words);
	}
	const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(w->match);
	*start = ends[0];
	*end = ends[1];
	return 1;
}

static int run_stage(struct run *r, uint32_t stage, const char *text, size_t n);

/* Hands text[from .. to) to the next stage; an empty piece is none. */
static int piece(struct run *r, uint32_t stage, const char *text, size_t from, size_t to)
{
	return from < to ? run_stage(r, stage + 1, text + from, to - from) : 0;
}

/* Matches and gaps of one text. An empty match splits where it stands, but not right after a match:
 * then the search goes on one character further, as Oniguruma's iteration does. */
static int split(struct run *r, uint32_t stage, const char *text, size_t n)
{
	const pcre2_code *pattern = r->splitter->stages[stage].pattern;
	size_t done = 0; /* pieces handed out, and the end of the last match */
	bool matched = false;
	for (size_t from = 0, start = 0, end = 0, step; from <= n;) {
		uint64_t steps = MATCH_STEPS + (uint64_t)MATCH_STEPS_PER_BYTE * n;
		pcre2_set_match_limit(r->work->limits,
				      steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
		int rc = search(r, pattern, text, n, from, &start, &end);
		if (rc < 0)
			return rc;
		if (rc == 0)
			break;
		if (start == end && matched && start == done) {
			if (from == n)
				break;
			utf8_decode(text + from, &step);
			from += step;
			continue;
		}
		rc = piece(r, stage, text, done, start);
		if (rc == 0)
			rc = piece(r, stage, text, start, end);
		if (rc != 0)
			return rc;
		matched = true;
		from = done = end;
	}
	return piece(r, stage, text, done, n);
}

/* text[n] with a space before it, valid until the stage's next piece. */
static int put_space(struct run *r, uint32_t stage, const char **text, size_t *n)
{
	struct split_work *w = r->work;
	if (*n + 1 > w->prefixed_capacity[stage]) {
		char *larger = realloc(w->prefixed[stage], 2 * *n + 64);
		if (!larger)
			return err_set(r->e, ENOMEM, "no memory to tokenize %zu bytes", *n);
		w->prefixed[stage] = larger;
		w->prefixed_capacity[stage] = 2 * *n + 64;
	}
	w->prefixed[stage][0] = ' ';
	memcpy(w->prefixed[stage] + 1, *text, *n);
	*text = w->prefixed[stage];
	*n += 1;
	return 0;
}

static int run_stage(struct run *r, uint32_t stage, const char *text, size_t n)
{
	if (stage == r->splitter->count)
		return r->each(r->context, text, n, r->e);
	const struct split_stage *s = &r->splitter->stages[stage];
	if (s->prefix_space && text[0] != ' ') {
		int rc = put_space(r, stage, &text, &n);
		if (rc < 0)
			return rc;
	}
	return s->pattern ? split(r, stage, text, n) : run_stage(r, stage + 1, text, n);
}

int splitter_run(const struct splitter *s, struct split_work *w, const char *text, size_t n,
		 split_word *each, void *context, struct err *e)
{
	struct run r = {s, w, each, context, e};
	return n > 0 ? run_stage(&r, 0, text, n) : 0;
}

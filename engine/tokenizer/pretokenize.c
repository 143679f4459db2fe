/* Splits a text into words by the patterns of a tokenizer file, with PCRE2.
 *
 * Patterns are hostile, and PCRE2's own limits do not count the bytes that a repeat passes: a*b,
 * tried at each letter of a text of a's, stays within the limits and takes quadratic time. So a
 * search first sees only the next few bytes, which bounds it. If these do not decide (a run of
 * spaces, a long word), the search runs again on the whole text with the same pattern compiled
 * to call out between its parts, where the work is counted and `stop` is checked. All such
 * searches of a text share an allowance proportional to its length: a published pattern passes a
 * word a few times, at most seven of the 64 units per byte. */
#include "engine/tokenizer/pretokenize.h"

#include "cache/utf8.h"
#include "engine/tokenizer/token.h"

#include <ctype.h>
#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* ---- patterns ---- */

/* From Oniguruma's syntax to compiled code. The patterns were written for Oniguruma (Ruby's
 * syntax), which Hugging Face uses. Oniguruma and PCRE2 agree on most of what real patterns use,
 * but not on everything. So a pattern is read first: constructs known to mean the same pass, \s
 * and \S are spelled out (PCRE2's include U+180E), and everything else is refused by name. */

/* --- translating a pattern --- */

/* Published patterns that are replaced by an equivalent in PCRE2's syntax. DeepSeek's \s+$ would
 * take quadratic time in a run of spaces, but the first match in a run, if there is one, begins
 * at the start of the run. */
static const struct {
	const char from[8], to[48];
} EQUIVALENTS[] = {
	{"\\s+$", "(?<!\\p{White_Space})\\p{White_Space}+(?m:$)"},
};

struct pretokenize_translation {
	const char *in; /* the rest of the pattern */
	char *out;	/* output; a step writes at most TRANSLATED_MAX bytes per byte read */
	bool in_class;	/* between [ and ] */
};
enum {
	TRANSLATED_MAX = 8, /* \s, two bytes, becomes the 15 of \p{White_Space} */
	REPEATS_MAX = 256,  /* the largest least count of a repeat */
};

static const char GROUP_OPENINGS[][5] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
static const char CATEGORIES[][3] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me",
				     "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi",
				     "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl",
				     "Zp", "C",	 "Cc", "Cf", "Cs", "Co", "Cn"};

/* Copies n bytes that mean the same in both syntaxes. */
static bool pretokenize_pass(struct pretokenize_translation *t, size_t n)
{
	memcpy(t->out, t->in, n);
	t->out += n;
	t->in += n;
	return true;
}

static bool pretokenize_replace(struct pretokenize_translation *t, size_t n, const char *with)
{
	size_t length = strlen(with);
	memcpy(t->out, with, length);
	t->out += length;
	t->in += n;
	return true;
}

static bool pretokenize_translate_escape(struct pretokenize_translation *t)
{
	char c = t->in[1];
	const char *name = t->in + 3, *end;
	size_t digits;
	switch (c) {
	case 'x': /* \x{1F98A}. Other forms are bytes for one and characters for the other. */
		digits = t->in[2] == '{' ? strspn(name, "0123456789abcdefABCDEF") : 0;
		return digits > 0 && digits <= 6 && name[digits] == '}' &&
		       pretokenize_pass(t, digits + 4);
	case 's':
		return pretokenize_replace(t, 2, "\\p{White_Space}");
	case 'S':
		return pretokenize_replace(t, 2, "\\P{White_Space}");
	case 'p': /* \p{Lu} and the like. Scripts' and other properties' names mean different sets.
		   */
	case 'P':
		end = t->in[2] == '{' ? strchr(name, '}') : NULL;
		for (size_t i = 0; end && i < sizeof CATEGORIES / sizeof *CATEGORIES; i++)
			if (strlen(CATEGORIES[i]) == (size_t)(end - name) &&
			    memcmp(CATEGORIES[i], name, (size_t)(end - name)) == 0)
				return pretokenize_pass(t, (size_t)(end + 1 - t->in));
		return false;
	default:
		return c != '\0' &&
		       (strchr("dDrntf", c) || c == ' ' || ispunct((unsigned char)c)) &&
		       pretokenize_pass(t, 2);
	}
}

static bool pretokenize_translate_group(struct pretokenize_translation *t)
{
	if (t->in[1] != '?' && t->in[1] != '*')
		return pretokenize_pass(t, 1);
	for (size_t i = 0; i < sizeof GROUP_OPENINGS / sizeof *GROUP_OPENINGS; i++) {
		size_t n = strlen(GROUP_OPENINGS[i]);
		if (strncmp(t->in, GROUP_OPENINGS[i], n) == 0)
			return pretokenize_pass(t, n);
	}
	return false;
}

/* {n}, {n,} and {n,m}. Not {,m}, nor a + or ? after the braces: these differ. Not a large n:
 * matching counts its work between the parts of a pattern, not within one. */
static bool pretokenize_translate_interval(struct pretokenize_translation *t)
{
	size_t digits = strspn(t->in + 1, "0123456789");
	size_t n = 1 + digits;
	if (t->in[n] == ',')
		n += 1 + strspn(t->in + n + 1, "0123456789");
	if (digits == 0 || t->in[n] != '}' || t->in[n + 1] == '+' || t->in[n + 1] == '?')
		return false;
	if (strtoul(t->in + 1, NULL, 10) > REPEATS_MAX)
		return false;
	return pretokenize_pass(t, n + 1);
}

/* Translates one element. False if it is not known to mean the same. */
static bool pretokenize_translate_step(struct pretokenize_translation *t)
{
	if (t->in[0] == '\\')
		return pretokenize_translate_escape(t);
	if (t->in_class) {
		if (t->in[0] == '[' || (t->in[0] == '&' && t->in[1] == '&')) /* sets of sets */
			return false;
		t->in_class = t->in[0] != ']';
		return pretokenize_pass(t, 1);
	}
	switch (t->in[0]) {
	case '(':
		return pretokenize_translate_group(t);
	case '{':
		return pretokenize_translate_interval(t);
	case '[':
		t->in_class = true;
		pretokenize_pass(t, t->in[1] == '^' ? 2 : 1);
		return t->in[0] !=
		       ']'; /* a ] first in a class: a member for one, an error for the other */
	case '^':	    /* line ends for one, text ends for the other */
	case '$':
		return false;
	default:
		return pretokenize_pass(t, 1);
	}
}

/* Returns the pattern in PCRE2's syntax, freed by the caller; NULL with an error. */
static char *pretokenize_translate(const char *pattern, const char *name, struct err *e)
{
	size_t n = strlen(pattern);
	if (n > PATTERN_BYTES_MAX) {
		err_set(e, EINVAL, "%s: a split pattern has %zu bytes; at most %d are allowed",
			name, n, PATTERN_BYTES_MAX);
		return NULL;
	}
	char *translated = malloc(n * TRANSLATED_MAX + sizeof EQUIVALENTS->to);
	if (!translated) {
		err_set(e, ENOMEM, "%s: out of memory for the split pattern", name);
		return NULL;
	}
	for (size_t i = 0; i < sizeof EQUIVALENTS / sizeof *EQUIVALENTS; i++)
		if (strcmp(pattern, EQUIVALENTS[i].from) == 0)
			return strcpy(translated, EQUIVALENTS[i].to);
	struct pretokenize_translation t = {.in = pattern, .out = translated};
	while (*t.in) {
		const char *at = t.in;
		if (!pretokenize_translate_step(&t)) {
			err_set(e, ENOTSUP,
				"%s: the split pattern is not supported from byte %zu on: %.*s",
				name, (size_t)(at - pattern), 20, at);
			free(translated);
			return NULL;
		}
	}
	*t.out = '\0';
	return translated;
}

/* --- compiling --- */

static pcre2_code *pretokenize_compile(const char *pattern, uint32_t options, const char *name,
				       struct err *e)
{
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	if (!context) {
		err_set(e, ENOMEM, "%s: out of memory for the split pattern", name);
		return NULL;
	}
	pcre2_set_newline(context, PCRE2_NEWLINE_LF); /* what a dot does not match */
	int why;
	PCRE2_SIZE at;
	options |= PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
	pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &why,
					 &at, context);
	pcre2_compile_context_free(context);
	if (!code) {
		char words[128];
		pcre2_get_error_message(why, (PCRE2_UCHAR *)words, sizeof words);
		err_set(e, why == PCRE2_ERROR_HEAP_FAILED ? ENOMEM : EINVAL,
			"%s: the split pattern is wrong near \"%.20s\": %s", name, pattern + at,
			words);
		return NULL;
	}
	/* Without a just-in-time compiler the interpreter does the same, slowly. */
	pcre2_jit_compile(code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
	return code;
}

static int pretokenize_compile_stage(struct pretokenize_stage *stage, const char *pattern,
				     const char *name, struct err *e)
{
	char *translated = pretokenize_translate(pattern, name, e);
	if (!translated)
		return -e->code;
	stage->near = pretokenize_compile(translated, 0, name, e);
	if (stage->near)
		stage->far = pretokenize_compile(translated, PCRE2_AUTO_CALLOUT, name, e);
	free(translated);
	if (stage->far)
		return 0;
	pcre2_code_free(stage->near);
	return -e->code;
}

int pretokenize_add(struct pretokenizer *s, const char *pattern, bool prefix_space,
		    const char *name, struct err *e)
{
	if (s->count == PRETOKENIZE_STAGES_MAX)
		return err_set(e, EINVAL, "%s: more than %d pre-tokenizers in a sequence", name,
			       PRETOKENIZE_STAGES_MAX);
	struct pretokenize_stage stage = {.prefix_space = prefix_space};
	struct err own = {0};
	if (!s->name)
		s->name = strdup(name);
	if (!s->name)
		return err_set(e, ENOMEM, "%s: out of memory for a name", name);
	if (pattern && pretokenize_compile_stage(&stage, pattern, name, &own) < 0)
		return err_set(e, own.code, "%s", own.text);
	s->stages[s->count++] = stage;
	return 0;
}

int pretokenize_add_literal(struct pretokenizer *s, const char *text, const char *name,
			    struct err *e)
{
	size_t n = strlen(text);
	char *pattern = n <= PATTERN_BYTES_MAX / 2 ? malloc(2 * n + 1) : NULL;
	if (!pattern)
		return err_set(e, n <= PATTERN_BYTES_MAX / 2 ? ENOMEM : EINVAL,
			       "%s: splitting at a text of %zu bytes: too long, or out of memory",
			       name, n);
	char *to = pattern;
	for (const char *c = text; *c; c++) {
		if (ispunct((unsigned char)*c))
			*to++ = '\\';
		*to++ = *c;
	}
	*to = '\0';
	int rc = pretokenize_add(s, pattern, false, name, e);
	free(pattern);
	return rc;
}

void pretokenize_free(struct pretokenizer *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		pcre2_code_free(s->stages[i].near);
		pcre2_code_free(s->stages[i].far);
	}
	free(s->name);
	*s = (struct pretokenizer){0};
}

/* ---- matching ---- */

enum {
	NEAR_BYTES = 256,  /* that a near search sees */
	NEAR_STEPS = 1000, /* of PCRE2, for a near search */
	/* Units that all far searches of a text may take: bytes passed and parts tried. */
	WORK_LEAST = 10000,
	WORK_PER_BYTE = 64,
	/* PCRE2's steps for one far search; per byte, since \s*[\r\n] may give back a whole run
	 * of spaces. */
	MATCH_STEPS = 10000,
	MATCH_STEPS_PER_BYTE = 16,
	MATCH_HEAP_KIB = 256 << 10,
};

/* --- bounded matching --- */

struct pretokenize_work {
	pcre2_match_data *match;
	pcre2_match_context *near, *far;	/* each with its limits */
	char *prefixed[PRETOKENIZE_STAGES_MAX]; /* per stage: a space and a piece */
	size_t prefixed_capacity[PRETOKENIZE_STAGES_MAX];
	const _Atomic bool *stop;
	uint64_t left;	/* units left for far searches */
	PCRE2_SIZE was; /* position of the last callout */
};

/* Called between any two parts of a pattern: counts the part and the bytes that the one before
 * has passed. */
static int pretokenize_count_work(pcre2_callout_block *block, void *work)
{
	struct pretokenize_work *w = work;
	PCRE2_SIZE at = block->current_position;
	uint64_t units = 1 + (at > w->was ? at - w->was : w->was - at);
	w->was = at;
	if (units > w->left)
		return PCRE2_ERROR_MATCHLIMIT;
	w->left -= units;
	return token_stop_asked(w->stop) ? PCRE2_ERROR_CALLOUT : 0;
}

struct pretokenize_work *pretokenize_work_new(size_t bytes, const _Atomic bool *stop)
{
	struct pretokenize_work *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->stop = stop;
	w->left = WORK_LEAST + (uint64_t)WORK_PER_BYTE * bytes;
	w->match = pcre2_match_data_create(1, NULL);
	w->near = pcre2_match_context_create(NULL);
	w->far = pcre2_match_context_create(NULL);
	if (!w->match || !w->near || !w->far) {
		pretokenize_work_free(w);
		return NULL;
	}
	pcre2_set_match_limit(w->near, NEAR_STEPS);
	pcre2_set_heap_limit(w->far, MATCH_HEAP_KIB);
	pcre2_set_callout(w->far, pretokenize_count_work, w);
	return w;
}

void pretokenize_work_free(struct pretokenize_work *w)
{
	if (!w)
		return;
	pcre2_match_data_free(w->match);
	pcre2_match_context_free(w->near);
	pcre2_match_context_free(w->far);
	for (int i = 0; i < PRETOKENIZE_STAGES_MAX; i++)
		free(w->prefixed[i]);
	free(w);
}

/* One run of a pre-tokenizer over one text. */
struct pretokenize_run {
	const struct pretokenizer *splitter;
	struct pretokenize_work *work;
	pretokenize_word *each;
	void *context;
	struct err *e;
};

/* Searches the next few bytes. Returns PCRE2's result, or PCRE2_ERROR_PARTIAL if later bytes might
 * change it: PCRE2 reports a partial match if it looked beyond the end. */
static int pretokenize_search_near(struct pretokenize_run *r, const pcre2_code *pattern,
				   const char *text, size_t n, size_t from)
{
	struct pretokenize_work *w = r->work;
	/* Whole characters. */
	size_t end = n - from <= NEAR_BYTES ? n : utf8_begin(text, from + NEAR_BYTES);
	uint32_t options = end < n ? PCRE2_PARTIAL_HARD : 0;
	/* Runs the compiled code directly, if PCRE2 has a compiler here. */
	int rc = pcre2_jit_match(pattern, (PCRE2_SPTR)text, end, from, options, w->match, w->near);
	if (rc == PCRE2_ERROR_JIT_BADOPTION)
		rc = pcre2_match(pattern, (PCRE2_SPTR)text, end, from, options | PCRE2_NO_UTF_CHECK,
				 w->match, w->near);
	if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_JIT_STACKLIMIT)
		return PCRE2_ERROR_PARTIAL;
	if (end == n)
		return rc;
	bool inside = rc > 0 && pcre2_get_ovector_pointer(w->match)[1] < end;
	return rc == PCRE2_ERROR_NOMATCH || (rc > 0 && !inside) ? PCRE2_ERROR_PARTIAL : rc;
}

/* Searches the whole text; every step is counted. */
static int pretokenize_search_far(struct pretokenize_run *r, const pcre2_code *pattern,
				  const char *text, size_t n, size_t from)
{
	struct pretokenize_work *w = r->work;
	uint64_t steps = MATCH_STEPS + (uint64_t)MATCH_STEPS_PER_BYTE * n;
	pcre2_set_match_limit(w->far, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
	w->was = from;
	/* Checking UTF-8 again for every match would make splitting quadratic. */
	int rc = pcre2_match(pattern, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK, w->match,
			     w->far);
	if (rc == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter uses the heap instead */
		rc = pcre2_match(pattern, (PCRE2_SPTR)text, n, from,
				 PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->match, w->far);
	return rc;
}

static int pretokenize_refuse(struct pretokenize_run *r, int rc, const char *text, size_t n,
			      size_t from)
{
	char words[128];
	size_t shown = n - from <= 24 ? n - from : utf8_begin(text + from, 24);
	if (rc == PCRE2_ERROR_CALLOUT)
		return token_stop_error(r->e);
	if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT)
		return err_set(r->e, ENOTSUP,
			       "%s: its split pattern takes too long at \"%.*s\"; send shorter "
			       "texts, or download the file again",
			       r->splitter->name, (int)shown, text + from);
	pcre2_get_error_message(rc, (PCRE2_UCHAR *)words, sizeof words);
	return err_set(r->e, rc == PCRE2_ERROR_NOMEMORY ? ENOMEM : ENOTSUP,
		       "%s: its split pattern fails at \"%.*s\": %s", r->splitter->name, (int)shown,
		       text + from, words);
}

/* Finds the first match at or after `from`. Returns 1 and the match's ends, or 0. */
static int pretokenize_search(struct pretokenize_run *r, const struct pretokenize_stage *stage,
			      const char *text, size_t n, size_t from, size_t *start, size_t *end)
{
	if (token_stop_asked(r->work->stop))
		return token_stop_error(r->e);
	int rc = pretokenize_search_near(r, stage->near, text, n, from);
	if (rc == PCRE2_ERROR_PARTIAL)
		rc = pretokenize_search_far(r, stage->far, text, n, from);
	if (rc == PCRE2_ERROR_NOMATCH)
		return 0;
	if (rc < 0)
		return pretokenize_refuse(r, rc, text, n, from);
	const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(r->work->match);
	*start = ends[0];
	*end = ends[1];
	return 1;
}

/* --- splitting --- */

static int pretokenize_run_stage(struct pretokenize_run *r, uint32_t stage, const char *text,
				 size_t n);

/* Hands text[from .. to) to the next stage, unless it is empty. */
static int pretokenize_piece(struct pretokenize_run *r, uint32_t stage, const char *text,
			     size_t from, size_t to)
{
	return from < to ? pretokenize_run_stage(r, stage + 1, text + from, to - from) : 0;
}

/* Splits one text into matches and gaps. An empty match splits where it stands, but not right
 * after a match: then the search continues one character further, as Oniguruma's iteration does. */
static int pretokenize_split(struct pretokenize_run *r, uint32_t stage, const char *text, size_t n)
{
	size_t done = 0; /* end of the last match, and of the pieces handed out */
	bool matched = false;
	for (size_t from = 0, start = 0, end = 0, step; from <= n;) {
		int rc = pretokenize_search(r, &r->splitter->stages[stage], text, n, from, &start,
					    &end);
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
		rc = pretokenize_piece(r, stage, text, done, start);
		if (rc == 0)
			rc = pretokenize_piece(r, stage, text, start, end);
		if (rc != 0)
			return rc;
		matched = true;
		from = done = end;
	}
	return pretokenize_piece(r, stage, text, done, n);
}

static int pretokenize_run_stage(struct pretokenize_run *r, uint32_t stage, const char *text,
				 size_t n)
{
	if (stage == r->splitter->count)
		return r->each(r->context, text, n, r->e);
	const struct pretokenize_stage *s = &r->splitter->stages[stage];
	if (s->prefix_space && text[0] != ' ') { /* valid until the stage's next piece */
		struct pretokenize_work *w = r->work;
		if (n + 1 > w->prefixed_capacity[stage]) {
			char *larger = realloc(w->prefixed[stage], 2 * n + 64);
			if (!larger)
				return err_set(r->e, ENOMEM,
					       "out of memory for tokenizing %zu bytes", n);
			w->prefixed[stage] = larger;
			w->prefixed_capacity[stage] = 2 * n + 64;
		}
		w->prefixed[stage][0] = ' ';
		memcpy(w->prefixed[stage] + 1, text, n++);
		text = w->prefixed[stage];
	}
	return s->near ? pretokenize_split(r, stage, text, n)
		       : pretokenize_run_stage(r, stage + 1, text, n);
}

int pretokenize_words(const struct pretokenizer *s, struct pretokenize_work *w, const char *text,
		      size_t n, pretokenize_word *each, void *context, struct err *e)
{
	struct pretokenize_run r = {s, w, each, context, e};
	return n > 0 ? pretokenize_run_stage(&r, 0, text, n) : 0;
}

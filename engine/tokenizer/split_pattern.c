/* The patterns of a tokenizer file, from Oniguruma's syntax to compiled code.
 *
 * The patterns were written for Oniguruma (Ruby's syntax), which Hugging Face uses. It and PCRE2
 * agree on what real patterns are made of, but not on everything: so a pattern is read first, what
 * is known to mean the same passes, \s and \S are spelled out (PCRE2's include U+180E), and the
 * rest is refused by name. */
#include "engine/tokenizer/split_pattern.h"

#include <ctype.h>
#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* --- translating a pattern --- */

/* Published patterns that are not translated, and what matches the same in PCRE2's syntax.
 * DeepSeek's \s+$ would take time quadratic in a run of spaces, but the first match in a run, if
 * there is one, begins where the run does. */
static const char *const EQUIVALENTS[][2] = {
	{"\\s+$", "(?<!\\p{White_Space})\\p{White_Space}+(?m:$)"},
};

struct translation {
	const char *in; /* what is left to read */
	char *out;	/* where to write; every step writes at most TRANSLATED_MAX per byte read */
	bool in_class;	/* between [ and ] */
};
enum {
	TRANSLATED_MAX = 8, /* \s, two bytes, becomes the 15 of \p{White_Space} */
	REPEATS_MAX = 256,  /* that a pattern may ask for at least */
};

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

/* \x{1F98A}; other forms are bytes for one and characters for the other. */
static bool translate_number(struct translation *t)
{
	size_t digits = t->in[2] == '{' ? strspn(t->in + 3, "0123456789abcdefABCDEF") : 0;
	return digits > 0 && digits <= 6 && t->in[3 + digits] == '}' && pass(t, digits + 4);
}

static bool translate_escape(struct translation *t)
{
	char c = t->in[1];
	if (c == 'x')
		return translate_number(t);
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

/* {n}, {n,} and {n,m}. Not {,m}, nor a + or ? after it: those differ. And not a large n: matching
 * counts its work between the parts of a pattern, not within one. */
static bool translate_interval(struct translation *t)
{
	size_t digits = strspn(t->in + 1, "0123456789");
	size_t n = 1 + digits;
	if (t->in[n] == ',')
		n += 1 + strspn(t->in + n + 1, "0123456789");
	if (digits == 0 || t->in[n] != '}' || t->in[n + 1] == '+' || t->in[n + 1] == '?')
		return false;
	if (strtoul(t->in + 1, NULL, 10) > REPEATS_MAX)
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

static pcre2_code *compile(const char *pattern, uint32_t options, const char *name, struct err *e)
{
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	if (!context) {
		err_set(e, ENOMEM, "%s: no memory for its split pattern", name);
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
	/* Where there is no just-in-time compiler the interpreter does the same, slowly. */
	pcre2_jit_compile(code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
	return code;
}

/* The pattern as PCRE2 is to have it; freed by the caller. */
static char *in_our_syntax(const char *pattern, const char *name, struct err *e)
{
	for (size_t i = 0; i < sizeof EQUIVALENTS / sizeof *EQUIVALENTS; i++) {
		if (strcmp(pattern, EQUIVALENTS[i][0]) != 0)
			continue;
		char *copy = strdup(EQUIVALENTS[i][1]);
		if (!copy)
			err_set(e, ENOMEM, "%s: no memory for its split pattern", name);
		return copy;
	}
	return translate(pattern, name, e);
}

static int compile_stage(struct split_stage *stage, const char *pattern, const char *name,
			 struct err *e)
{
	char *translated = in_our_syntax(pattern, name, e);
	if (!translated)
		return -e->code;
	stage->near = compile(translated, 0, name, e);
	if (stage->near)
		stage->far = compile(translated, PCRE2_AUTO_CALLOUT, name, e);
	free(translated);
	if (stage->far)
		return 0;
	pcre2_code_free(stage->near);
	return -e->code;
}

int splitter_add(struct splitter *s, const char *pattern, bool prefix_space, const char *name,
		 struct err *e)
{
	if (s->count == SPLIT_STAGES_MAX)
		return err_set(e, EINVAL, "%s: more than %d pre-tokenizers in a sequence", name,
			       SPLIT_STAGES_MAX);
	struct split_stage stage = {.prefix_space = prefix_space};
	struct err own = {0};
	if (!s->name)
		s->name = strdup(name);
	if (!s->name)
		return err_set(e, ENOMEM, "%s: no memory for its name", name);
	if (pattern && compile_stage(&stage, pattern, name, &own) < 0)
		return err_set(e, own.code, "%s", own.text);
	s->stages[s->count++] = stage;
	return 0;
}

int splitter_add_text(struct splitter *s, const char *text, const char *name, struct err *e)
{
	size_t n = strlen(text);
	char *pattern = n <= PATTERN_BYTES_MAX / 2 ? malloc(2 * n + 1) : NULL;
	if (!pattern)
		return err_set(e, n <= PATTERN_BYTES_MAX / 2 ? ENOMEM : EINVAL,
			       "%s: no room for a split at a text of %zu bytes", name, n);
	char *to = pattern;
	for (const char *c = text; *c; c++) {
		if (ispunct((unsigned char)*c))
			*to++ = '\\';
		*to++ = *c;
	}
	*to = '\0';
	int rc = splitter_add(s, pattern, false, name, e);
	free(pattern);
	return rc;
}

void splitter_free(struct splitter *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		pcre2_code_free(s->stages[i].near);
		pcre2_code_free(s->stages[i].far);
	}
	free(s->name);
	*s = (struct splitter){0};
}

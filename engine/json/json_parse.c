/* From a text to a document, in two passes of the same parser: the first counts, the second fills
 * what was then allocated. See json.h for why, json_value.h for what is filled. */
#include "engine/json/json_value.h"

#include "engine/json/hex.h"
#include "engine/json/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct json) == 16, "json.h says what a value takes");
/* Every value and key but the first stands behind a character of structure of its own. */
_Static_assert(JSON_TEXT_MAX / 2 + 1 < 1 << 29, "span counts any number of values");

struct parser {
	const char *text; /* [n], without NULs */
	size_t n, at;
	const char *name;
	struct err *e;
	struct json *values;		 /* NULL: this pass counts */
	char *bytes;			 /* of texts and numbers, behind the values */
	size_t count, used;		 /* of values and bytes, so far */
	size_t open[JSON_DEPTH_MAX];	 /* the lists and objects that `at` is in: their values */
	uint32_t inside[JSON_DEPTH_MAX]; /* how many items or members they have so far */
	bool object[JSON_DEPTH_MAX];
	size_t depth;
};

static int wrong(const struct parser *p, const char *what)
{
	if (p->at >= p->n)
		return err_set(p->e, EINVAL,
			       "%s: the JSON text ends too early; is the file complete?", p->name);
	return err_set(p->e, EINVAL, "%s: not JSON at byte %zu: %s", p->name, p->at, what);
}

/* The character so many bytes on; a NUL beyond the end. */
static char ahead(const struct parser *p, size_t bytes)
{
	return bytes < p->n - p->at ? p->text[p->at + bytes] : '\0';
}

static char here(const struct parser *p)
{
	return ahead(p, 0);
}

static void skip_space(struct parser *p)
{
	while (here(p) == ' ' || here(p) == '\n' || here(p) == '\r' || here(p) == '\t')
		p->at++;
}

/* ---- what a document is made of ---- */

static void put_bytes(struct parser *p, const char *bytes, size_t n)
{
	if (p->values)
		memcpy(p->bytes + p->used, bytes, n);
	p->used += n;
}

/* A value whose bytes, from `used` = `from` on, have been put. */
static void put_value(struct parser *p, enum json_kind kind, size_t from)
{
	size_t length = p->used - from;
	put_bytes(p, "", 1);
	if (p->values)
		p->values[p->count] = (struct json){
			.text = p->bytes + from, .length = (uint32_t)length, .kind = kind};
	p->count++;
}

/* ---- texts ---- */

/* The four digits so many bytes on, or -1. */
static int32_t hex4(const struct parser *p, size_t bytes)
{
	int32_t number = 0;
	for (size_t i = 0; i < 4; i++) {
		int digit = hex_digit(ahead(p, bytes + i));
		if (digit < 0)
			return -1;
		number = number << 4 | digit;
	}
	return number;
}

/* \uXXXX, or two of them that are a surrogate pair. */
static int read_unicode(struct parser *p)
{
	char utf8[4];
	int32_t c = hex4(p, 2);
	size_t taken = 6;
	if (c >= 0xd800 && c < 0xdc00 && ahead(p, 6) == '\\' && ahead(p, 7) == 'u') {
		int32_t low = hex4(p, 8);
		if (low >= 0xdc00 && low < 0xe000) {
			c = 0x10000 + ((c - 0xd800) << 10 | (low - 0xdc00));
			taken = 12;
		}
	}
	if (c < 0 || (c >= 0xd800 && c < 0xe000))
		return wrong(p, "\\u needs four digits that are a character");
	p->at += taken;
	put_bytes(p, utf8, utf8_encode((uint32_t)c, utf8));
	return 0;
}

static int read_escape(struct parser *p)
{
	static const char LETTERS[] = "\"\\/bfnrt", MEANT[] = "\"\\/\b\f\n\r\t";
	char letter = ahead(p, 1);
	if (letter == 'u')
		return read_unicode(p);
	const char *known = letter ? strchr(LETTERS, letter) : NULL;
	if (!known)
		return wrong(p, "a backslash before what needs none");
	put_bytes(p, MEANT + (known - LETTERS), 1);
	p->at += 2;
	return 0;
}

static bool is_plain(char c)
{
	return (unsigned char)c >= 0x20 && c != '"' && c != '\\';
}

static int read_text(struct parser *p)
{
	size_t from = p->used;
	for (p->at++; here(p) != '"';) {
		size_t plain = p->at;
		while (is_plain(here(p)))
			p->at++;
		put_bytes(p, p->text + plain, p->at - plain);
		if ((unsigned char)here(p) < 0x20)
			return wrong(p, "a control character inside a text");
		int rc = here(p) == '\\' ? read_escape(p) : 0;
		if (rc < 0)
			return rc;
	}
	p->at++;
	put_value(p, JSON_TEXT, from);
	return 0;
}

/* ---- numbers and words ---- */

static const struct word {
	const char *word;
	enum json_kind kind;
} WORDS[] = {{"null", JSON_NULL},	{"true", JSON_BOOL},  {"false", JSON_BOOL},
	     {"Infinity", JSON_NUMBER}, {"NaN", JSON_NUMBER}, {"-Infinity", JSON_NUMBER}};

static size_t word_length(const struct parser *p, const char *word)
{
	size_t n = strlen(word);
	return n <= p->n - p->at && memcmp(p->text + p->at, word, n) == 0 ? n : 0;
}

static size_t digits(const struct parser *p, size_t bytes)
{
	size_t n = 0;
	while (ahead(p, bytes + n) >= '0' && ahead(p, bytes + n) <= '9')
		n++;
	return n;
}

/* The length of the number that stands here; 0: none. */
static size_t number_length(const struct parser *p)
{
	size_t n = here(p) == '-', whole = digits(p, n);
	if (whole == 0 || (whole > 1 && ahead(p, n) == '0'))
		return 0;
	n += whole;
	if (ahead(p, n) == '.') {
		size_t fraction = digits(p, n + 1);
		if (fraction == 0)
			return 0;
		n += 1 + fraction;
	}
	if (ahead(p, n) == 'e' || ahead(p, n) == 'E') {
		size_t sign = ahead(p, n + 1) == '-' || ahead(p, n + 1) == '+';
		size_t exponent = digits(p, n + 1 + sign);
		if (exponent == 0)
			return 0;
		n += 1 + sign + exponent;
	}
	return n;
}

static int read_scalar(struct parser *p)
{
	size_t from = p->used, n = number_length(p);
	enum json_kind kind = JSON_NUMBER;
	for (size_t i = 0; n == 0 && i < sizeof WORDS / sizeof *WORDS; i++) {
		n = word_length(p, WORDS[i].word);
		kind = WORDS[i].kind;
	}
	if (n == 0)
		return wrong(p, "there should be a value");
	put_bytes(p, p->text + p->at, n);
	p->at += n;
	put_value(p, kind, from);
	return 0;
}

/* ---- lists and objects ---- */

static int open_container(struct parser *p)
{
	if (p->depth == JSON_DEPTH_MAX)
		return err_set(p->e, EINVAL, "%s: JSON nested deeper than %d at byte %zu", p->name,
			       JSON_DEPTH_MAX, p->at);
	p->object[p->depth] = p->text[p->at++] == '{';
	p->open[p->depth] = p->count++;
	p->inside[p->depth++] = 0;
	return 0;
}

static void close_container(struct parser *p)
{
	p->at++;
	p->depth--;
	size_t i = p->open[p->depth];
	if (p->values)
		p->values[i] =
			(struct json){.length = p->inside[p->depth],
				      .kind = p->object[p->depth] ? JSON_OBJECT : JSON_LIST,
				      .span = (uint32_t)(p->count - i - 1) & ((1u << 29) - 1)};
}

/* The key of a member and its colon. Readers take keys for C strings. */
static int read_key(struct parser *p)
{
	size_t from = p->used, began = p->at;
	if (here(p) != '"')
		return wrong(p, "there should be a key in quotes");
	int rc = read_text(p);
	if (rc < 0)
		return rc;
	if (p->values && memchr(p->bytes + from, '\0', p->used - from - 1)) {
		p->at = began;
		return wrong(p, "a key with a NUL inside");
	}
	skip_space(p);
	if (here(p) != ':')
		return wrong(p, "there should be a colon");
	p->at++;
	return 0;
}

/* From where the next item or member of the innermost container begins to where its value does. */
static int begin_item(struct parser *p)
{
	p->inside[p->depth - 1]++;
	skip_space(p);
	return p->object[p->depth - 1] ? read_key(p) : 0;
}

static bool at_end_of_container(const struct parser *p)
{
	return here(p) == (p->object[p->depth - 1] ? '}' : ']');
}

/* Behind a value: to where the next one begins, through the ends of containers; *more is false at
 * the end of the document. */
static int next_value(struct parser *p, bool *more)
{
	*more = true;
	for (; p->depth > 0; close_container(p)) {
		skip_space(p);
		if (here(p) == ',') {
			p->at++;
			return begin_item(p);
		}
		if (!at_end_of_container(p))
			return wrong(p, p->object[p->depth - 1] ? "there should be a comma or }"
								: "there should be a comma or ]");
	}
	*more = false;
	return 0;
}

/* One value up to where the next one begins: of a container only its head, unless it is empty. */
static int read_value(struct parser *p, bool *more)
{
	skip_space(p);
	char c = here(p);
	int rc = c == '[' || c == '{' ? open_container(p)
		 : c == '"'	      ? read_text(p)
				      : read_scalar(p);
	if (rc < 0)
		return rc;
	if (c != '[' && c != '{')
		return next_value(p, more);
	skip_space(p);
	if (!at_end_of_container(p))
		return begin_item(p);
	close_container(p);
	return next_value(p, more);
}

static int run(struct parser *p)
{
	int rc = 0;
	p->at = p->count = p->used = 0;
	for (bool more = true; more && rc == 0;)
		rc = read_value(p, &more);
	if (rc < 0)
		return rc;
	skip_space(p);
	return p->at < p->n ? wrong(p, "something follows its end") : 0;
}

/* ---- the document ---- */

/* What the passes rely on. */
static int check_bytes(const char *text, size_t n, const char *name, struct err *e)
{
	if (n > JSON_TEXT_MAX)
		return err_set(e, EFBIG, "%s: %zu bytes of JSON are more than the %d that are read",
			       name, n, JSON_TEXT_MAX);
	const char *nul = memchr(text, '\0', n);
	if (nul)
		return err_set(e, EINVAL, "%s: not JSON: a NUL at byte %zu", name,
			       (size_t)(nul - text));
	size_t valid = utf8_valid_length(text, n);
	if (valid != n)
		return err_set(e, EINVAL, "%s: not JSON: invalid UTF-8 at byte %zu", name, valid);
	return 0;
}

/* Allocates what the first pass counted and fills it. */
static int fill(struct parser *p, struct json **out)
{
	p->values = malloc(p->count * sizeof *p->values + p->used);
	if (!p->values)
		return err_set(p->e, ENOMEM,
			       "%s: no memory to read it: its %zu values take %zu bytes", p->name,
			       p->count, p->count * sizeof *p->values + p->used);
	p->bytes = (char *)(p->values + p->count);
	int rc = run(p);
	if (rc == 0 && p->values[0].kind == JSON_NULL)
		rc = err_set(p->e, EINVAL, "%s: holds nothing but null", p->name);
	if (rc < 0)
		free(p->values);
	else
		*out = p->values;
	return rc;
}

int json_parse_text(struct json **out, const char *text, size_t n, const char *name, struct err *e)
{
	int rc = check_bytes(text, n, name, e);
	if (rc < 0)
		return rc;
	struct parser p = {.text = text, .n = n, .name = name, .e = e};
	rc = run(&p);
	return rc < 0 ? rc : fill(&p, out);
}

void json_free(struct json *document)
{
	free(document);
}

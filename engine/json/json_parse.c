/* The parser: from a text to a document, in two passes of the same code. The first pass counts, the
 * second fills the allocated document (json.h says why). Not here: reading values. */
#include "engine/json/json.h"

#include "cache/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct json) == 16, "json.h says what a value takes");
/* Every value and key but the first follows a structural character of its own. */
_Static_assert(JSON_TEXT_MAX / 2 + 1 < 1 << 29, "span counts any number of values");

struct json_parser {
	const char *text; /* [n], without NULs */
	size_t n, at;
	const char *name;
	struct err *e;
	struct json *values;		 /* NULL in the counting pass */
	char *bytes;			 /* of strings and numbers, behind the values */
	size_t count, used;		 /* values and bytes so far */
	size_t open[JSON_DEPTH_MAX];	 /* indices of the containers around `at` */
	uint32_t inside[JSON_DEPTH_MAX]; /* their items or members so far */
	bool object[JSON_DEPTH_MAX];
	size_t depth;
};

static int json_refuse(const struct json_parser *p, const char *what)
{
	if (p->at >= p->n)
		return err_set(p->e, EINVAL,
			       "%s: the JSON text ends too early; is the file complete?", p->name);
	return err_set(p->e, EINVAL, "%s: not JSON at byte %zu: %s", p->name, p->at, what);
}

/* The character `bytes` bytes after `at`; NUL beyond the end. */
static char json_ahead(const struct json_parser *p, size_t bytes)
{
	return bytes < p->n - p->at ? p->text[p->at + bytes] : '\0';
}

static char json_here(const struct json_parser *p)
{
	return json_ahead(p, 0);
}

static void json_skip_space(struct json_parser *p)
{
	while (json_here(p) == ' ' || json_here(p) == '\n' || json_here(p) == '\r' ||
	       json_here(p) == '\t')
		p->at++;
}

/* ---- output ---- */

static void json_put_bytes(struct json_parser *p, const char *bytes, size_t n)
{
	if (p->values)
		memcpy(p->bytes + p->used, bytes, n);
	p->used += n;
}

/* Adds a value; its bytes were put from offset `from` on. */
static void json_put_value(struct json_parser *p, enum json_kind kind, size_t from)
{
	size_t length = p->used - from;
	json_put_bytes(p, "", 1);
	if (p->values)
		p->values[p->count] = (struct json){
			.text = p->bytes + from, .length = (uint32_t)length, .kind = kind};
	p->count++;
}

/* ---- strings ---- */

/* The four hexadecimal digits `bytes` bytes after `at`, or -1. */
static int32_t json_hex4(const struct json_parser *p, size_t bytes)
{
	int32_t number = 0;
	for (size_t i = 0; i < 4; i++) {
		int digit = utf8_hex_digit(json_ahead(p, bytes + i));
		if (digit < 0)
			return -1;
		number = number << 4 | digit;
	}
	return number;
}

/* \uXXXX, or a surrogate pair of two. */
static int json_read_unicode(struct json_parser *p)
{
	char utf8[4];
	int32_t c = json_hex4(p, 2);
	size_t taken = 6;
	if (c >= 0xd800 && c < 0xdc00 && json_ahead(p, 6) == '\\' && json_ahead(p, 7) == 'u') {
		int32_t low = json_hex4(p, 8);
		if (low >= 0xdc00 && low < 0xe000) {
			c = 0x10000 + ((c - 0xd800) << 10 | (low - 0xdc00));
			taken = 12;
		}
	}
	if (c < 0 || (c >= 0xd800 && c < 0xe000))
		return json_refuse(
			p, "\\u must be followed by four hexadecimal digits of a character");
	p->at += taken;
	json_put_bytes(p, utf8, utf8_encode((uint32_t)c, utf8));
	return 0;
}

static int json_read_escape(struct json_parser *p)
{
	static const char LETTERS[] = "\"\\/bfnrt", MEANT[] = "\"\\/\b\f\n\r\t";
	char letter = json_ahead(p, 1);
	if (letter == 'u')
		return json_read_unicode(p);
	const char *known = letter ? strchr(LETTERS, letter) : NULL;
	if (!known)
		return json_refuse(p, "an unknown escape");
	json_put_bytes(p, MEANT + (known - LETTERS), 1);
	p->at += 2;
	return 0;
}

static int json_read_text(struct json_parser *p)
{
	size_t from = p->used;
	for (p->at++; json_here(p) != '"';) {
		size_t plain = p->at;
		for (char c; (c = json_here(p)) != '"' && c != '\\' && (unsigned char)c >= 0x20;)
			p->at++;
		json_put_bytes(p, p->text + plain, p->at - plain);
		if ((unsigned char)json_here(p) < 0x20)
			return json_refuse(p, "a control character in a string");
		int rc = json_here(p) == '\\' ? json_read_escape(p) : 0;
		if (rc < 0)
			return rc;
	}
	p->at++;
	json_put_value(p, JSON_TEXT, from);
	return 0;
}

/* ---- numbers and words ---- */

static const struct json_word {
	const char *word;
	enum json_kind kind;
} WORDS[] = {{"null", JSON_NULL},	{"true", JSON_BOOL},  {"false", JSON_BOOL},
	     {"Infinity", JSON_NUMBER}, {"NaN", JSON_NUMBER}, {"-Infinity", JSON_NUMBER}};

static size_t json_digits(const struct json_parser *p, size_t bytes)
{
	size_t n = 0;
	while (json_ahead(p, bytes + n) >= '0' && json_ahead(p, bytes + n) <= '9')
		n++;
	return n;
}

/* The length of the number at `at`; 0 if there is none. */
static size_t json_number_length(const struct json_parser *p)
{
	size_t n = json_here(p) == '-', whole = json_digits(p, n);
	if (whole == 0 || (whole > 1 && json_ahead(p, n) == '0'))
		return 0;
	n += whole;
	if (json_ahead(p, n) == '.') {
		size_t fraction = json_digits(p, n + 1);
		if (fraction == 0)
			return 0;
		n += 1 + fraction;
	}
	if (json_ahead(p, n) == 'e' || json_ahead(p, n) == 'E') {
		size_t sign = json_ahead(p, n + 1) == '-' || json_ahead(p, n + 1) == '+';
		size_t exponent = json_digits(p, n + 1 + sign);
		if (exponent == 0)
			return 0;
		n += 1 + sign + exponent;
	}
	return n;
}

static int json_read_scalar(struct json_parser *p)
{
	size_t from = p->used, n = json_number_length(p);
	enum json_kind kind = JSON_NUMBER;
	for (size_t i = 0; n == 0 && i < sizeof WORDS / sizeof *WORDS; i++) {
		size_t length = strlen(WORDS[i].word);
		if (length <= p->n - p->at && memcmp(p->text + p->at, WORDS[i].word, length) == 0)
			n = length;
		kind = WORDS[i].kind;
	}
	if (n == 0)
		return json_refuse(p, "expected a value");
	json_put_bytes(p, p->text + p->at, n);
	p->at += n;
	json_put_value(p, kind, from);
	return 0;
}

/* ---- lists and objects ---- */

static int json_open_container(struct json_parser *p)
{
	if (p->depth == JSON_DEPTH_MAX)
		return err_set(p->e, EINVAL, "%s: JSON nested deeper than %d at byte %zu", p->name,
			       JSON_DEPTH_MAX, p->at);
	p->object[p->depth] = p->text[p->at++] == '{';
	p->open[p->depth] = p->count++;
	p->inside[p->depth++] = 0;
	return 0;
}

static void json_close_container(struct json_parser *p)
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

/* Reads a key and its colon. Getters treat keys as C strings: no NULs. */
static int json_read_key(struct json_parser *p)
{
	size_t from = p->used, began = p->at;
	if (json_here(p) != '"')
		return json_refuse(p, "expected a key in quotes");
	int rc = json_read_text(p);
	if (rc < 0)
		return rc;
	if (p->values && memchr(p->bytes + from, '\0', p->used - from - 1)) {
		p->at = began;
		return json_refuse(p, "a key with a NUL inside");
	}
	json_skip_space(p);
	if (json_here(p) != ':')
		return json_refuse(p, "expected a colon");
	p->at++;
	return 0;
}

/* Moves to the value of the next item or member of the innermost container. */
static int json_begin_item(struct json_parser *p)
{
	p->inside[p->depth - 1]++;
	json_skip_space(p);
	return p->object[p->depth - 1] ? json_read_key(p) : 0;
}

static bool json_at_container_end(const struct json_parser *p)
{
	return json_here(p) == (p->object[p->depth - 1] ? '}' : ']');
}

/* After a value: moves to the next value, past the ends of containers. *more is false at the end of
 * the document. */
static int json_next_value(struct json_parser *p, bool *more)
{
	*more = true;
	for (; p->depth > 0; json_close_container(p)) {
		json_skip_space(p);
		if (json_here(p) == ',') {
			p->at++;
			return json_begin_item(p);
		}
		if (!json_at_container_end(p))
			return json_refuse(p, p->object[p->depth - 1] ? "expected a comma or }"
								      : "expected a comma or ]");
	}
	*more = false;
	return 0;
}

/* Reads one value and moves to the next. A container that is not empty ends at its first item. */
static int json_read_value(struct json_parser *p, bool *more)
{
	json_skip_space(p);
	char c = json_here(p);
	int rc = c == '[' || c == '{' ? json_open_container(p)
		 : c == '"'	      ? json_read_text(p)
				      : json_read_scalar(p);
	if (rc < 0)
		return rc;
	if (c != '[' && c != '{')
		return json_next_value(p, more);
	json_skip_space(p);
	if (!json_at_container_end(p))
		return json_begin_item(p);
	json_close_container(p);
	return json_next_value(p, more);
}

static int json_pass(struct json_parser *p)
{
	int rc = 0;
	p->at = p->count = p->used = 0;
	for (bool more = true; more && rc == 0;)
		rc = json_read_value(p, &more);
	if (rc < 0)
		return rc;
	json_skip_space(p);
	return p->at < p->n ? json_refuse(p, "text follows the end of the document") : 0;
}

/* ---- the document ---- */

/* Checks that both passes rely on. */
static int json_check_bytes(const char *text, size_t n, const char *name, struct err *e)
{
	if (n > JSON_TEXT_MAX)
		return err_set(e, EFBIG, "%s: %zu bytes of JSON; at most %d are read", name, n,
			       JSON_TEXT_MAX);
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
static int json_fill(struct json_parser *p, struct json **out)
{
	p->values = malloc(p->count * sizeof *p->values + p->used);
	if (!p->values)
		return err_set(p->e, ENOMEM, "%s: out of memory: its %zu values take %zu bytes",
			       p->name, p->count, p->count * sizeof *p->values + p->used);
	p->bytes = (char *)(p->values + p->count);
	int rc = json_pass(p);
	if (rc == 0 && p->values[0].kind == JSON_NULL)
		rc = err_set(p->e, EINVAL, "%s: the document is null", p->name);
	if (rc < 0)
		free(p->values);
	else
		*out = p->values;
	return rc;
}

int json_parse_text(struct json **out, const char *text, size_t n, const char *name, struct err *e)
{
	int rc = json_check_bytes(text, n, name, e);
	if (rc < 0)
		return rc;
	struct json_parser p = {.text = text, .n = n, .name = name, .e = e};
	rc = json_pass(&p);
	return rc < 0 ? rc : json_fill(&p, out);
}

void json_free(struct json *document)
{
	free(document);
}

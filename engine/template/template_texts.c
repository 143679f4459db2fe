#include "engine/template/template_texts.h"

#include "engine/template/template_print.h"
#include "engine/json/utf8.h"

#include <errno.h>
#include <string.h>
#include <utf8proc.h>

static bool is_in(struct run *r, const struct value *set, const char *bytes, size_t n)
{
	if (!run_work(r, set ? 1 + set->n / 64 : 0))
		return false;
	return set ? memmem(set->text.bytes, set->n, bytes, n) != NULL
		   : is_python_space(utf8_decode(bytes, &n));
}

/* Where the last character of text[0 .. end) begins; end > 0. */
static size_t last_of(const struct value *text, size_t end)
{
	return utf8_begin(text->text.bytes, end - 1);
}

struct value text_strip(struct run *r, const struct value *text, const struct value *set, int ends)
{
	size_t from = 0, to = text->n, step;
	run_work(r, 1 + text->n / 64);
	while ((ends & AT_START) && from < to) {
		utf8_decode(text->text.bytes + from, &step);
		if (!is_in(r, set, text->text.bytes + from, step))
			break;
		from += step;
	}
	while ((ends & AT_END) && from < to) {
		size_t last = last_of(text, to);
		if (!is_in(r, set, text->text.bytes + last, to - last))
			break;
		to = last;
	}
	struct value part = text_slice(text, from, to);
	part.safe = text->safe;
	return part;
}

/* One character in another case; what it becomes came from where it did. */
static void write_case(struct run *r, struct writer *w, const struct value *text, size_t at,
		       size_t step, bool upper)
{
	utf8proc_int32_t c = (utf8proc_int32_t)utf8_decode(text->text.bytes + at, &step);
	char bytes[8];
	uint8_t from[8];
	size_t n =
		utf8_encode((uint32_t)(upper ? utf8proc_toupper(c) : utf8proc_tolower(c)), bytes);
	if (upper && c == 0xdf) { /* the only common letter that becomes two */
		memcpy(bytes, "SS", 2);
		n = 2;
	}
	memset(from, text->text.from[at], sizeof from);
	write_bytes(r, w, bytes, from, n);
}

static bool is_letter(const struct value *text, size_t at)
{
	size_t step;
	utf8proc_category_t c =
		utf8proc_category((utf8proc_int32_t)utf8_decode(text->text.bytes + at, &step));
	return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

struct value text_in_case(struct run *r, const struct value *text, enum text_case to)
{
	struct writer w = {0};
	bool inside = false; /* a word, for titles; the text, for capitals */
	for (size_t i = 0, step; i < text->n && !r->failed; i += step) {
		utf8_decode(text->text.bytes + i, &step);
		write_case(r, &w, text, i, step, to == UPPER || (to >= TITLE && !inside));
		inside = to == CAPITAL || is_letter(text, i);
	}
	struct value changed = write_done(r, &w);
	changed.safe = text->safe;
	return changed;
}

struct value text_replace(struct run *r, const struct value *text, const struct value *old,
			  const struct value *new, int64_t times)
{
	struct writer w = {0};
	size_t at = 0;
	if (old->n == 0)
		return run_fail(r, ENOTSUP, "replacing nothing by something is not known here");
	while (!r->failed && times != 0) {
		size_t found = text_find(r, text, at, old);
		if (found == text->n)
			break;
		write_bytes(r, &w, text->text.bytes + at, text->text.from + at, found - at);
		write_bytes(r, &w, new->text.bytes, new->text.from, new->n);
		at = found + old->n;
		times -= times > 0;
	}
	write_bytes(r, &w, text->text.bytes + at, text->text.from + at, text->n - at);
	return write_done(r, &w);
}

struct value texts_join(struct run *r, const struct value *between, const struct value *items)
{
	struct writer w = {0};
	for (size_t i = 0; !r->failed && i < items->list->count; i++) {
		if (i > 0)
			print_value(r, &w, between);
		print_value(r, &w, &items->list->items[i]);
	}
	return write_done(r, &w);
}

bool text_as_integer(struct run *r, const struct value *text, int base, int64_t *out)
{
	struct value inside = text_strip(r, text, NULL, AT_START | AT_END);
	char digits[80], *end;
	if (inside.n == 0 || inside.n >= sizeof digits)
		return false;
	memcpy(digits, inside.text.bytes, inside.n);
	digits[inside.n] = '\0';
	errno = 0;
	*out = strtoll(digits, &end, base);
	return *end == '\0' && errno == 0;
}

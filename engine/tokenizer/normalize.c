/* Normalisation of a text before it is split into words.
 *
 * Form C (Unicode standard annex 15) comes from utf8proc's tables. utf8proc_map does it in one
 * call, but orders combining marks by moving them one place at a time, and a text may be a
 * megabyte of marks. So utf8proc decomposes and composes, and the ordering between is done here.
 * A long text is processed in pieces, cut where nothing composes across the cut: this bounds the
 * memory and lets the work stop early. */
#include "engine/tokenizer/normalize.h"

#include "engine/tokenizer/token.h"
#include "cache/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* STABLE respects the composition exclusions, as NFC requires. */
static const utf8proc_option_t NFC_OPTIONS =
	(utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

/* A growing array of characters. */
struct normalize_characters {
	utf8proc_int32_t *items;
	size_t count, capacity;
};

/* Combining classes fit a byte; class 0 is a starter, which marks do not pass. */
static uint8_t normalize_combining_class(utf8proc_int32_t character)
{
	return (uint8_t)utf8proc_get_property(character)->combining_class;
}

static int normalize_decompose(const char *text, size_t n, struct normalize_characters *c)
{
	for (size_t i = 0, step; i < n; i += step) {
		utf8proc_int32_t character = (utf8proc_int32_t)utf8_decode(text + i, &step);
		/* The longest decomposition has 18 characters, and that is a compatibility one. */
		if (c->capacity - c->count < 32) {
			size_t capacity = 2 * c->capacity + n + 64;
			utf8proc_int32_t *items = realloc(c->items, capacity * sizeof *items);
			if (!items)
				return -ENOMEM;
			c->items = items;
			c->capacity = capacity;
		}
		utf8proc_ssize_t have = utf8proc_decompose_char(character, c->items + c->count, 32,
								NFC_OPTIONS, NULL);
		if (have < 0 || have > 32)
			return -EINVAL;
		c->count += (size_t)have;
	}
	return 0;
}

/* Sorts marks[n] by combining class, keeping the order among equals; `spare` has room for n. */
static void normalize_sort_marks(utf8proc_int32_t *marks, size_t n, utf8proc_int32_t *spare)
{
	size_t begin[257] = {0};
	for (size_t i = 0; i < n; i++)
		begin[normalize_combining_class(marks[i]) + 1]++;
	for (size_t k = 1; k < 257; k++)
		begin[k] += begin[k - 1];
	for (size_t i = 0; i < n; i++)
		spare[begin[normalize_combining_class(marks[i])]++] = marks[i];
	memcpy(marks, spare, n * sizeof *marks);
}

/* Canonical ordering: sorts each run of marks between starters. */
static int normalize_order_marks(struct normalize_characters *c)
{
	utf8proc_int32_t *spare = NULL;
	for (size_t i = 0, end; i < c->count; i = end + 1) {
		bool sorted = true;
		for (end = i; end < c->count && normalize_combining_class(c->items[end]) != 0;
		     end++)
			if (end > i && normalize_combining_class(c->items[end - 1]) >
					       normalize_combining_class(c->items[end]))
				sorted = false;
		if (sorted)
			continue;
		if (!spare)
			spare = malloc(c->count * sizeof *spare);
		if (!spare)
			return -ENOMEM;
		normalize_sort_marks(c->items + i, end - i, spare);
	}
	free(spare);
	return 0;
}

/* A growing text. */
struct normalize_composed {
	char *text;
	size_t n, capacity;
};

static int normalize_compose(struct normalize_characters *c, struct normalize_composed *out)
{
	utf8proc_ssize_t count =
		utf8proc_normalize_utf32(c->items, (utf8proc_ssize_t)c->count, NFC_OPTIONS);
	if (count < 0)
		return -EINVAL;
	size_t most = out->n + (size_t)count * 4;
	if (most > out->capacity) {
		char *text = realloc(out->text, most + most / 2);
		if (!text)
			return -ENOMEM;
		out->text = text;
		out->capacity = most + most / 2;
	}
	for (utf8proc_ssize_t i = 0; i < count; i++)
		out->n += utf8_encode((uint32_t)c->items[i], out->text + out->n);
	return 0;
}

enum { PIECE_BYTES = 64 << 10 };

/* The end of a piece of text[n] that begins at `from`. */
static size_t normalize_piece_end(const char *text, size_t n, size_t from)
{
	if (n - from <= PIECE_BYTES)
		return n;
	/* Latin letters, signs and ideographs do not compose with the character before them. The
	 * same holds for other characters, but nearly every text soon has one of these. */
	size_t at = utf8_begin(text, from + PIECE_BYTES), step;
	for (; at < n; at += step) {
		uint32_t character = utf8_decode(text + at, &step);
		if (character < 0x300 || (character >= 0x3400 && character < 0xa000))
			break;
	}
	return at;
}

int normalize_nfc(const char *text, size_t n, const _Atomic bool *stop, char **out, size_t *out_n,
		  struct err *e)
{
	struct normalize_characters c = {0};
	struct normalize_composed composed = {.text = malloc(n + 1), .capacity = n + 1};
	int rc = composed.text ? 0 : -ENOMEM;
	for (size_t from = 0, to; rc == 0 && from < n && !token_stop_asked(stop); from = to) {
		to = normalize_piece_end(text, n, from);
		c.count = 0;
		rc = normalize_decompose(text + from, to - from, &c);
		if (rc == 0)
			rc = normalize_order_marks(&c);
		if (rc == 0)
			rc = normalize_compose(&c, &composed);
	}
	free(c.items);
	if (rc == 0 && !token_stop_asked(stop)) {
		*out = composed.text;
		*out_n = composed.n;
		return 0;
	}
	free(composed.text);
	if (rc == 0)
		return token_stop_error(e);
	return err_set(e, -rc, "normalising a text of %zu bytes failed%s", n,
		       rc == -ENOMEM ? ": out of memory" : "");
}

/* --- spaces --- */

static const char MARK[] = "\xe2\x96\x81"; /* U+2581 */

size_t normalize_spaces(char *text, size_t n)
{
	char *to = memmem(text, n, MARK, sizeof MARK - 1);
	if (!to)
		return n;
	for (const char *from = to, *end = text + n; from < end;) {
		const char *mark = memmem(from, (size_t)(end - from), MARK, sizeof MARK - 1);
		size_t gap = (size_t)((mark ? mark : end) - from);
		memmove(to, from, gap);
		to += gap;
		from += gap;
		if (mark) {
			*to++ = ' ';
			from += sizeof MARK - 1;
		}
	}
	return (size_t)(to - text);
}

int normalize_text(const struct normalizer *z, const char *text, size_t n, const _Atomic bool *stop,
		   char **out, size_t *out_n, struct err *e)
{
	char *composed = NULL;
	*out = NULL;
	*out_n = n;
	if (n == 0)
		return 0;
	unsigned char all = 0;
	for (size_t i = 0; z->nfc && i < n; i++)
		all |= (unsigned char)text[i];
	if (z->nfc && all >= 0x80) { /* ASCII is composed */
		int rc = normalize_nfc(text, n, stop, &composed, out_n, e);
		if (rc < 0)
			return rc;
		text = composed;
	}
	bool marked = z->marks && memmem(text, *out_n, MARK, sizeof MARK - 1);
	if (!z->prepend && !marked) {
		*out = composed;
		return 0;
	}
	*out = malloc(*out_n + z->prepend);
	if (*out) {
		if (z->prepend)
			(*out)[0] = ' ';
		memcpy(*out + z->prepend, text, *out_n);
	}
	free(composed);
	if (!*out)
		return err_set(e, ENOMEM, "out of memory for tokenizing %zu bytes", n);
	*out_n += z->prepend;
	if (marked)
		*out_n = normalize_spaces(*out, *out_n);
	return 0;
}

/* --- with rights --- */

/* A text under construction, and the rights of its bytes. */
struct normalize_parts {
	char *text;
	uint8_t *rights;
	size_t n, room;
};

static bool normalize_append_part(struct normalize_parts *p, const char *text, size_t n,
				  uint8_t right)
{
	if (n > p->room - p->n) {
		size_t room = 2 * (p->n + n);
		char *moved = realloc(p->text, room);
		p->text = moved ? moved : p->text;
		uint8_t *rights = moved ? realloc(p->rights, room) : NULL;
		p->rights = rights ? rights : p->rights;
		if (!rights)
			return false;
		p->room = room;
	}
	memcpy(p->text + p->n, text, n);
	memset(p->rights + p->n, right, n);
	p->n += n;
	return true;
}

/* The end of the part that begins at `from`: before the next byte with another right, but never
 * within a character. *right is the least right of the character's bytes. */
static size_t normalize_part_end(const char *text, const uint8_t *rights, size_t from, size_t n,
				 uint8_t *right)
{
	size_t to = from + 1;
	*right = rights[from];
	for (; to < n; to++) {
		if (!utf8_goes_on(text[to]) && rights[to] != *right)
			break;
		if (rights[to] < *right)
			*right = rights[to];
	}
	return to;
}

static int normalize_parts(struct normalize_parts *p, const struct normalizer *z, const char *text,
			   const uint8_t *rights, size_t n, const _Atomic bool *stop, struct err *e)
{
	struct normalizer each = *z;
	int rc = 0;
	for (size_t from = 0, to; rc == 0 && from < n; from = to) {
		char *changed = NULL;
		size_t length;
		uint8_t right;
		to = normalize_part_end(text, rights, from, n, &right);
		rc = normalize_text(&each, text + from, to - from, stop, &changed, &length, e);
		if (rc == 0 &&
		    !normalize_append_part(p, changed ? changed : text + from, length, right))
			rc = err_set(e, ENOMEM, "out of memory for tokenizing %zu bytes", n);
		free(changed);
		each.prepend = false; /* only before the whole text */
	}
	return rc;
}

int normalize_with_rights(const struct normalizer *z, const char *text, const uint8_t *rights,
			  size_t n, const _Atomic bool *stop, struct normal_text *out,
			  struct err *e)
{
	struct normalize_parts p = {0};
	char *changed;
	size_t changed_n;
	int rc = normalize_text(z, text, n, stop, &changed, &changed_n, e);
	if (rc < 0)
		return rc;
	*out = (struct normal_text){changed ? changed : text, rights, changed_n, changed, NULL};
	if (!changed || !rights)
		return 0;
	free(changed);
	rc = normalize_parts(&p, z, text, rights, n, stop, e);
	*out = (struct normal_text){p.text, p.rights, p.n, p.text, p.rights};
	if (rc < 0)
		normalize_free(out);
	return rc;
}

void normalize_free(struct normal_text *t)
{
	free(t->owned_text);
	free(t->owned_rights);
	*t = (struct normal_text){0};
}

/* Building texts. */
#include "engine/template/template_value.h"
#include "engine/json/utf8.h"

#include <errno.h>
#include <string.h>

static const uint8_t ALL_TEMPLATE[256];

static bool writer_room(struct run *r, struct writer *w, size_t n)
{
	if (n <= w->room - w->n)
		return true;
	size_t room = 2 * (w->n + n) + 64;
	char *bytes = room <= UINT32_MAX ? run_allocate(r, 2 * room) : NULL;
	if (!bytes) {
		run_fail(r, EFBIG, "a text of more than 2 GiB");
		return false;
	}
	if (w->n > 0) {
		memcpy(bytes, w->bytes, w->n);
		memcpy(bytes + room, w->from, w->n);
	}
	w->bytes = bytes;
	w->from = (uint8_t *)bytes + room;
	w->room = room;
	return true;
}

void write_bytes(struct run *r, struct writer *w, const char *bytes, const uint8_t *from, size_t n)
{
	if (n == 0 || !run_work(r, 1 + n / 64) || !writer_room(r, w, n))
		return;
	memcpy(w->bytes + w->n, bytes, n);
	memcpy(w->from + w->n, from, n);
	w->n += n;
}

void write_text(struct run *r, struct writer *w, const char *text)
{
	size_t n = strlen(text);
	while (n > 0 && !r->failed) {
		size_t step = n < sizeof ALL_TEMPLATE ? n : sizeof ALL_TEMPLATE;
		write_bytes(r, w, text, ALL_TEMPLATE, step);
		text += step;
		n -= step;
	}
}

struct value write_done(struct run *r, const struct writer *w)
{
	if (r->failed)
		return value_undefined(NULL, 0);
	if (w->n == 0)
		return value_literal("");
	return (struct value){.kind = V_TEXT, .n = (uint32_t)w->n, .text = {w->bytes, w->from}};
}

struct value text_slice(const struct value *text, size_t from, size_t to)
{
	return (struct value){.kind = V_TEXT,
			      .n = (uint32_t)(to - from),
			      .text = {text->text.bytes + from, text->text.from + from}};
}

size_t text_length(const struct value *text)
{
	size_t count = 0;
	for (uint32_t i = 0; i < text->n; i++)
		count += !utf8_goes_on(text->text.bytes[i]);
	return count;
}

bool text_is(const struct value *v, const char *text)
{
	return v->kind == V_TEXT && v->n == strlen(text) && memcmp(v->text.bytes, text, v->n) == 0;
}

bool is_python_space(uint32_t c)
{
	return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
	       c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
	       c == 0x202f || c == 0x205f || c == 0x3000;
}

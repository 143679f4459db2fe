/* See text.h. */
#include "fs/base/text.h"
#include "cache/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t text_hash(uint64_t hash, const void *bytes, size_t n)
{
	const uint8_t *at = bytes;
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

size_t text_room(const struct text *t, size_t length)
{
	size_t capacity = t->capacity ? t->capacity : 256;
	if (length <= t->capacity)
		return t->capacity;
	if (length > SIZE_MAX / 2)
		return SIZE_MAX;
	while (capacity < length)
		capacity *= 2;
	return capacity;
}

static bool text_reserve(struct text *t, size_t extra)
{
	if (t->failed || extra > SIZE_MAX / 2 - t->length)
		return !(t->failed = true);
	size_t capacity = text_room(t, t->length + extra);
	if (capacity == t->capacity)
		return true;
	char *data = realloc(t->data, capacity);
	if (!data)
		return !(t->failed = true);
	t->data = data;
	t->capacity = capacity;
	return true;
}

void text_add(struct text *t, const void *data, size_t length)
{
	if (length == 0 || !text_reserve(t, length))
		return;
	memcpy(t->data + t->length, data, length);
	t->length += length;
}

void text_string(struct text *t, const char *string)
{
	text_add(t, string, strlen(string));
}

void text_format(struct text *t, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0 || !text_reserve(t, (size_t)length + 1)) {
		t->failed = true;
		return;
	}
	va_start(args, format);
	(void)vsnprintf(t->data + t->length, (size_t)length + 1, format, args);
	va_end(args);
	t->length += (size_t)length;
}

/* U+FFFD stands for a byte that is not part of a character. */
#define TEXT_REPLACEMENT "\xef\xbf\xbd"

void text_add_characters(struct text *t, const char *bytes, size_t n)
{
	size_t begin = 0;
	for (size_t at = 0; at < n;) {
		size_t size = utf8_length(bytes + at, n - at);
		if (!size) {
			text_add(t, bytes + begin, at - begin);
			text_string(t, TEXT_REPLACEMENT);
			begin = at + 1;
		}
		at += size ? size : 1;
	}
	text_add(t, bytes + begin, n - begin);
}

void text_json(struct text *t, const char *string)
{
	text_string(t, "\"");
	for (const unsigned char *at = (const unsigned char *)string; *at; at++) {
		size_t size = 1;
		if (*at < ' ' || *at == 0x7f)
			text_format(t, "\\u%04x", *at);
		else if (*at == '"' || *at == '\\')
			text_format(t, "\\%c", *at);
		else if ((size = utf8_length((const char *)at, strnlen((const char *)at, 4))))
			text_add(t, at, size);
		else
			text_string(t, TEXT_REPLACEMENT);
		at += size ? size - 1 : 0;
	}
	text_string(t, "\"");
}

void text_line(struct text *t, const char *string)
{
	for (const unsigned char *at = (const unsigned char *)string; *at; at++)
		if (*at < ' ' || *at == '\\' || *at == 0x7f)
			text_format(t, "\\%03o", *at);
		else
			text_add(t, at, 1);
}

void text_word(struct text *t, const char *string)
{
	static const char plain[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ%+,-./:=@_";
	bool quoted = !*string || string[strspn(string, plain)];
	text_string(t, quoted ? "'" : "");
	for (const char *at = string; *at; at++)
		if (*at == '\'')
			text_string(t, "'\\''");
		else
			text_add(t, at, 1);
	text_string(t, quoted ? "'" : "");
}

bool text_put(struct text *t, size_t offset, const void *data, size_t length)
{
	if (length > SIZE_MAX / 2 - offset)
		return false;
	size_t end = offset + length;
	if (end > t->length) {
		if (!text_reserve(t, end - t->length))
			return false;
		memset(t->data + t->length, 0, end - t->length);
		t->length = end;
	}
	if (length)
		memcpy(t->data + offset, data, length);
	return true;
}

void text_cut(struct text *t, size_t length)
{
	if (length < t->length)
		t->length = length;
}

void text_free(struct text *t)
{
	free(t->data);
	*t = (struct text){0};
}

/* Growing texts, and sizes in words. See text.h. */
#include "fs/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct text *t, size_t extra)
{
	if (t->failed || extra > SIZE_MAX / 2 - t->length)
		return !(t->failed = true);
	size_t need = t->length + extra;
	if (need <= t->capacity)
		return true;
	size_t capacity = t->capacity ? t->capacity : 256;
	while (capacity < need)
		capacity *= 2;
	char *data = realloc(t->data, capacity);
	if (!data)
		return !(t->failed = true);
	t->data = data;
	t->capacity = capacity;
	return true;
}

void text_add(struct text *t, const void *data, size_t length)
{
	if (length == 0 || !reserve(t, length))
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
	if (length < 0 || !reserve(t, (size_t)length + 1)) {
		t->failed = true;
		return;
	}
	va_start(args, format);
	(void)vsnprintf(t->data + t->length, (size_t)length + 1, format, args);
	va_end(args);
	t->length += (size_t)length;
}

bool text_put(struct text *t, size_t offset, const void *data, size_t length)
{
	if (length > SIZE_MAX / 2 - offset)
		return false;
	size_t end = offset + length;
	if (end > t->length) {
		if (!reserve(t, end - t->length))
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

static const char units[] = "KMGT";

bool size_parse(const char *string, uint64_t *bytes)
{
	if (!isdigit((unsigned char)*string))
		return false;
	char *end;
	errno = 0;
	uintmax_t value = strtoumax(string, &end, 10);
	if (errno || value > UINT64_MAX)
		return false;
	const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
	if (unit)
		end++;
	if (*end || value > UINT64_MAX >> shift)
		return false;
	*bytes = (uint64_t)value << shift;
	return true;
}

void size_print(char *buffer, size_t size, uint64_t bytes)
{
	unsigned unit = 0;
	while (bytes && bytes % 1024 == 0 && unit < sizeof units - 1) {
		bytes /= 1024;
		unit++;
	}
	(void)snprintf(buffer, size, "%" PRIu64 "%.*s", bytes, unit ? 1 : 0,
		       unit ? &units[unit - 1] : "");
}

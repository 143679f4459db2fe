/* What MOUNT/error says of folders of models, a line for each that is not mounted or is gone, and
 * telling what is new of it (mount.h). */
#include "fs/base/said.h"
#include "fs/models/models.h"

#include <stdio.h>
#include <string.h>

/* Whether a line, its newline included, is one of a text's. */
static bool has_line(const struct text *t, const char *line, size_t length)
{
	if (!t->data)
		return false;
	for (const char *at = t->data, *end = at + t->length; at < end;) {
		const char *next = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
		if ((size_t)(next - at) == length && !memcmp(at, line, length))
			return true;
		at = next;
	}
	return false;
}

void skipped_replace(struct mount *m, struct text *lines)
{
	char sentence[sizeof((struct err *)0)->text];
	for (size_t at = 0, length; at < lines->length; at += length) {
		const char *line = lines->data + at;
		length = (size_t)((const char *)memchr(line, '\n', lines->length - at) - line) + 1;
		(void)snprintf(sentence, sizeof sentence, "%.*s", (int)length - 1, line);
		if (!has_line(&m->skipped, line, length))
			said_line(m->said, sentence);
	}
	text_free(&m->skipped);
	m->skipped = *lines;
	*lines = (struct text){0};
}

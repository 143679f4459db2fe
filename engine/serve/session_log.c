/* A session's log: the whole conversation as plain text. */
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <stdlib.h>
#include <string.h>

void session_log_append(struct session *s, const char *text, size_t n)
{
	if (s->log_size + n > s->log_room) {
		size_t room = 2 * (s->log_size + n);
		char *log = realloc(s->log, room);
		if (!log)
			return;
		s->log = log;
		s->log_room = room;
	}
	memcpy(s->log + s->log_size, text, n);
	s->log_size += n;
}

void session_log_quoted(struct session *s, const char *text, size_t n)
{
	const char *end = text + n;
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t line = newline ? (size_t)(newline - text) : (size_t)(end - text);
		session_log_append(s, "> ", 2);
		session_log_append(s, text, line);
		session_log_append(s, "\n", 1);
		text += line + 1;
	}
}

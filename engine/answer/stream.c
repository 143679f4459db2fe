/* Stop texts, and text as it streams out. */
#include "engine/answer/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- stop texts ---- */

/* Unescapes one line in place; returns its length. */
static size_t stream_unescape(char *line)
{
	static const char escapes[] = "n\nt\tr\r\\\\";
	char *to = line;
	for (const char *from = line; *from; from++) {
		const char *found = NULL;
		if (*from == '\\' && from[1])
			for (const char *x = escapes; *x && !found; x += 2)
				if (*x == from[1])
					found = x;
		*to++ = found ? found[1] : *from;
		from += found != NULL;
	}
	*to = 0;
	return (size_t)(to - line);
}

char *stream_parse_stops(const char *lines, const char *stops[STOPS_MAX], size_t lengths[STOPS_MAX],
			 size_t *count)
{
	char *buffer = strdup(lines), *rest = buffer, *line;
	*count = 0;
	while (rest && (line = strsep(&rest, "\n")) && *count < STOPS_MAX) {
		size_t length = stream_unescape(line);
		if (!length)
			continue;
		stops[*count] = line;
		lengths[(*count)++] = length;
	}
	return buffer;
}

int stream_init(struct stream *s, const char *stops, struct err *e)
{
	*s = (struct stream){0};
	s->stop_buffer = stream_parse_stops(stops, s->stops, s->stop_lengths, &s->stop_count);
	if (!s->stop_buffer)
		return err_set(e, ENOMEM, "out of memory for the stop texts");
	return 0;
}

void stream_free(struct stream *s)
{
	free(s->stop_buffer);
	free(s->pending);
	*s = (struct stream){0};
}

static bool stream_reserve(struct stream *s, size_t n)
{
	if (s->pending_size + n <= s->pending_room)
		return true;
	size_t room = 2 * (s->pending_size + n);
	char *pending = realloc(s->pending, room);
	if (!pending)
		return false;
	s->pending = pending;
	s->pending_room = room;
	return true;
}

/* Where the earliest stop text begins in the pending text, or its size if there is none. */
static size_t stream_find_stop(struct stream *s)
{
	size_t first = s->pending_size;
	for (size_t i = 0; i < s->stop_count; i++) {
		const char *found =
			memmem(s->pending, s->pending_size, s->stops[i], s->stop_lengths[i]);
		if (found && (size_t)(found - s->pending) < first) {
			first = (size_t)(found - s->pending);
			s->met = i;
		}
	}
	return first;
}

/* How many bytes at the end may be the beginning of a stop text. */
static size_t stream_undecided(const struct stream *s)
{
	size_t most = 0;
	for (size_t i = 0; i < s->stop_count; i++) {
		size_t n = s->stop_lengths[i] - 1;
		if (n > s->pending_size)
			n = s->pending_size;
		while (n > most && memcmp(s->pending + s->pending_size - n, s->stops[i], n) != 0)
			n--;
		if (n > most)
			most = n;
	}
	return most;
}

/* Drops the bytes that the last call gave out: they were borrowed until now. */
static void stream_drop_given(struct stream *s)
{
	s->pending_size -= s->given;
	if (s->pending_size)
		memmove(s->pending, s->pending + s->given, s->pending_size);
	s->given = 0;
}

const char *stream_feed(struct stream *s, const char *bytes, size_t n, size_t *length)
{
	stream_drop_given(s);
	*length = 0;
	if (s->stopped)
		return "";
	if (s->skip_space && n > 0) {
		bool space = bytes[0] == ' ';
		bytes += space;
		n -= space;
		s->skip_space = false;
	}
	if (!stream_reserve(s, n + sizeof s->hold.bytes))
		return NULL;
	s->pending_size += utf8_hold_feed(&s->hold, bytes, n, s->pending + s->pending_size);
	size_t stop = stream_find_stop(s);
	s->stopped = stop < s->pending_size;
	s->given = s->stopped ? stop : s->pending_size - stream_undecided(s);
	*length = s->given;
	return s->pending;
}

/* Whether text[length] is at offset `at` of the held bytes followed by `bytes`. */
static bool stream_stands_at(const struct stream *s, const char *bytes, size_t at, const char *text,
			     size_t length)
{
	const char *held = s->pending + s->given;
	size_t held_n = s->pending_size - s->given, n = 0;
	if (at < held_n)
		n = length < held_n - at ? length : held_n - at;
	if (n && memcmp(held + at, text, n) != 0)
		return false;
	return memcmp(bytes + (at + n - held_n), text + n, length - n) == 0;
}

bool stream_would_stop(const struct stream *s, const char *bytes, size_t n, size_t from)
{
	size_t end = s->pending_size - s->given + n, least = end - n + from + 1;
	for (size_t i = 0; i < s->stop_count; i++) {
		size_t length = s->stop_lengths[i];
		for (size_t at = least > length ? least - length : 0; at + length <= end; at++)
			if (stream_stands_at(s, bytes, at, s->stops[i], length))
				return true;
	}
	return false;
}

const char *stream_flush(struct stream *s, size_t *length)
{
	stream_drop_given(s);
	*length = 0;
	if (s->stopped)
		return "";
	if (!stream_reserve(s, sizeof s->hold.bytes))
		return NULL;
	s->pending_size += utf8_hold_flush(&s->hold, s->pending + s->pending_size);
	s->given = s->pending_size;
	*length = s->given;
	return s->pending;
}

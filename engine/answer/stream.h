/* From tokens to text as it streams out: characters are held back until whole, and text that may be
 * the beginning of a stop text until that is decided. */
#ifndef MOEFS_ENGINE_ANSWER_STREAM_H
#define MOEFS_ENGINE_ANSWER_STREAM_H

#include "cache/err.h"
#include "engine/json/utf8.h"

#include <stdbool.h>

enum { STOPS_MAX = 64 };

/* The stop texts, unescaped: stops[k] has length lengths[k], all in one malloc'ed buffer, which is
 * returned (NULL: out of memory). */
char *stream_parse_stops(const char *lines, const char *stops[STOPS_MAX], size_t lengths[STOPS_MAX],
			 size_t *count);

struct stream {
	struct utf8_hold hold;
	char *stop_buffer; /* what the stops point into; owned */
	const char *stops[STOPS_MAX];
	size_t stop_lengths[STOPS_MAX], stop_count;
	char *pending; /* whole characters not yet given out; owned */
	size_t pending_size, pending_room;
	size_t given; /* of pending, by the last call */
	bool stopped; /* a stop text was met; nothing more comes out */
	size_t met;   /* then, which one: its number, from 0 */
	/* Set before the first token: one space at the very beginning is left out, which the
	 * tokenizer puts in front of texts. */
	bool skip_space;
};

/* Zero-initialised memory is a stream without stops that stream_free accepts. */
int stream_init(struct stream *s, const char *stops, struct err *e);
void stream_free(struct stream *s);

/* Feeds the bytes of a token. Returns what may be given out now (in the stream's own memory, valid
 * until the next call), *length set. NULL: out of memory. */
const char *stream_feed(struct stream *s, const char *bytes, size_t n, size_t *length);
/* Whether a stop text would be met if these bytes came next, one that ends behind the first `from`
 * of them. */
bool stream_would_stop(const struct stream *s, const char *bytes, size_t n, size_t from);
/* Everything that is still held, at the end of the text. */
const char *stream_flush(struct stream *s, size_t *length);

#endif

/* From the bytes of tokens to text that can be shown: holds back an incomplete character, and text
 * that may be the beginning of a stop text until that is decided. */
#ifndef MOEFS_ENGINE_ANSWER_STREAM_H
#define MOEFS_ENGINE_ANSWER_STREAM_H

#include "cache/err.h"
#include "cache/utf8.h"

#include <stdbool.h>

enum { STOPS_MAX = 64 };

/* Reads stop texts, one per line, and unescapes them: stops[k] has lengths[k] bytes. Returns the
 * malloc'ed buffer that all of them point into; NULL: out of memory. */
char *stream_parse_stops(const char *lines, const char *stops[STOPS_MAX], size_t lengths[STOPS_MAX],
			 size_t *count);

struct stream {
	struct utf8_hold hold;
	char *stop_buffer; /* the stops point into it; owned */
	const char *stops[STOPS_MAX];
	size_t stop_lengths[STOPS_MAX], stop_count;
	char *pending; /* whole characters not yet given out; owned */
	size_t pending_size, pending_room;
	size_t given; /* bytes of `pending` that the last call gave out */
	bool stopped; /* a stop text occurred; nothing more is given out */
	size_t met;   /* if stopped: the index of that stop text */
	/* Set before the first token: leaves out one space at the very beginning, which the
	 * tokenizer puts in front of texts. */
	bool skip_space;
};

/* Zero-initialised memory is a stream without stops that stream_free accepts. */
int stream_init(struct stream *s, const char *stops, struct err *e);
void stream_free(struct stream *s);

/* Adds the bytes of a token. Returns the text that can be given out now, of *length bytes, borrowed
 * until the next call. NULL: out of memory. */
const char *stream_feed(struct stream *s, const char *bytes, size_t n, size_t *length);
/* Whether a stop text that ends after the first `from` of these bytes would occur if they were
 * added. */
bool stream_would_stop(const struct stream *s, const char *bytes, size_t n, size_t from);
/* At the end of the text: everything that is still held back. */
const char *stream_flush(struct stream *s, size_t *length);

#endif

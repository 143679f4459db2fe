/* Answers in channels, as gpt-oss writes them: messages, each with a head that says what it is.
 *
 *     <|channel|>analysis<|message|>THOUGHTS<|end|>
 *     <|start|>assistant<|channel|>commentary to=functions.NAME
 * <|constrain|>json<|message|>{...}<|call|>
 *     <|start|>assistant<|channel|>final<|message|>CONTENT<|return|>  */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_CHANNELS_H
#define MOEFS_ENGINE_ANSWER_SPLIT_CHANNELS_H

#include "engine/answer/split_calls.h"

enum { CHANNEL_HEAD_MAX = 512 };
struct channel_head {
	enum { CHANNEL_OTHER, CHANNEL_ANALYSIS, CHANNEL_FINAL } channel;
	const char *recipient; /* NULL: people */
	size_t recipient_n;
};
/* Reads the head at i and returns the place behind it; longer than CHANNEL_HEAD_MAX is none. */
size_t scan_channel_head(struct scan *s, size_t i, struct channel_head *head);
/* The mark at i that ends a message, NULL where none does; <|start|> begins the next as well. */
const char *scan_channel_end(struct scan *s, size_t i);
/* Appends the call whose object is at i, and returns the place behind its end mark. */
size_t scan_channel_call(struct scan *s, size_t i, const struct channel_head *head,
			 struct calls *calls);

#define CHANNEL_START "<|start|>"
#define CHANNEL_END "<|end|>"
#define CHANNEL_RETURN "<|return|>"
#define CHANNEL_CALL "<|call|>"
#define CHANNEL_NAME "<|channel|>"
#define CHANNEL_CONSTRAIN "<|constrain|>"
#define CHANNEL_MESSAGE "<|message|>"

#endif

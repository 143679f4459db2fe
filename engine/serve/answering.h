/* What comes out of a turn: tokens' bytes to whole characters, these apart into thoughts, content
 * and tool calls, and of the content what comes before a stop text, into the answer, the log and
 * the message that it becomes.
 *
 * All under the schedule's lock but answering_begin and answering_free: others look at what it
 * gives out. */
#ifndef MOEFS_ENGINE_SERVE_ANSWERING_H
#define MOEFS_ENGINE_SERVE_ANSWERING_H

#include "engine/answer/split.h"
#include "engine/answer/stream.h"

struct messages;
struct session;

struct answering { /* zero-initialised memory is one that answering_free accepts */
	struct stream characters;
	struct split *split;   /* NULL: it has not begun */
	struct stream stops;   /* of the content; its `stopped` says that the answer is over */
	struct text_out said;  /* the content as it was given out, its last newlines included */
	struct text_out whole; /* all characters, if `keep` */
	bool keep;	       /* the template knows no calls: they stay part of the content */
	enum split_thinking thinking;
	const struct split_form *form;
	/* How much of the split's result was taken, and of `space` was looked at. */
	size_t content, thoughts, calls, space;
	struct text_out called; /* the calls so far, as JSON */
	uint64_t logged;	/* bytes of the answer that are in the log */
	uint32_t turn;		/* that its calls are named by */
};

/* `form` is how the model writes thoughts and calls, `tools` (borrowed) may be NULL, `stops` are
 * the stop texts' lines. skip_space: a space that it begins with is the tokenizer's. -ENOMEM. */
int answering_begin(struct answering *a, const struct split_form *form, const struct json *tools,
		    enum split_thinking thinking, const char *stops, bool skip_space,
		    struct err *e);
/* Other stop texts, for what comes from now on. -ENOMEM. */
int answering_set_stops(struct answering *a, const char *stops, struct err *e);
void answering_free(struct answering *a);

/* The bytes of a token. -ENOMEM in words. */
int answering_take(struct session *s, const char *bytes, size_t n, struct err *e);
/* What is still held, at the end of the answer. cut: there was more to say, and what may be half a
 * character, a mark or a call is left out. -ENOMEM in words. */
int answering_end(struct session *s, bool cut, struct err *e);
/* Appends the answer's message to `to`. -ENOMEM in words. */
int answering_message(struct session *s, struct messages *to, struct err *e);
/* Copies the part of the answer that became readable to the log. */
void answering_log(struct session *s);

#endif

/* What comes out of a turn: tokens' bytes become whole characters, these thoughts, content and tool
 * calls, and of the content what comes before a stop text.
 *
 * The turn feeds it without any lock and gets pieces. answering_publish moves a piece into the
 * session's answer and log, which other threads read. */
#ifndef MOEFS_ENGINE_SESSION_ANSWERING_H
#define MOEFS_ENGINE_SESSION_ANSWERING_H

#include "engine/answer/split.h"
#include "engine/answer/stream.h"

struct messages;
struct session;

/* What came out and is not published yet. Zero-initialise; freed by answering_free_piece. */
struct answering_piece {
	struct text_out content, thoughts;
	struct text_out calls; /* all calls so far, as JSON; empty: nothing new */
	bool thoughts_over;
};

struct answering { /* zero-initialised memory is one that answering_free accepts */
	struct stream characters;
	struct split *split;   /* NULL: not begun */
	struct stream stops;   /* of the content; its `stopped` says that the answer is over */
	struct text_out said;  /* the content as it was given out, its last newlines included */
	struct text_out whole; /* all characters, if `keep` */
	bool keep;	       /* the template knows no calls: they stay part of the content */
	enum split_thinking thinking;
	const struct split_form *form;
	/* How much of the split's result was taken, and how much of `space` was examined. */
	size_t content, thoughts, calls, space;
	uint32_t turn; /* that its calls are named by */
};

/* `form` is how the model writes thoughts and calls, `tools` (borrowed) may be NULL, `stops` are
 * the stop texts' lines. skip_space: a space that it begins with is the tokenizer's. -ENOMEM. */
int answering_begin(struct answering *a, const struct split_form *form, const struct json *tools,
		    enum split_thinking thinking, const char *stops, bool skip_space,
		    struct err *e);
/* Other stop texts, for what comes from now on. -ENOMEM. */
int answering_set_stops(struct answering *a, const char *stops, struct err *e);
void answering_free(struct answering *a);

/* Adds to a piece what the bytes of a token bring. `messages` are those before the answer: calls
 * get ids that these have not. -ENOMEM in words. */
int answering_take(struct answering *a, const struct messages *messages, const char *bytes,
		   size_t n, struct answering_piece *to, struct err *e);
/* Adds what is still held, at the end of the answer. cut: there was more to say, and what may be
 * half a character, a mark or a call is left out. -ENOMEM in words. */
int answering_end(struct answering *a, const struct messages *messages, bool cut,
		  struct answering_piece *to, struct err *e);
/* Adds text[n] to the content as it is, in place of what tokens would bring: thoughts are over.
 * -ENOMEM in words. */
int answering_choose(struct answering *a, const char *text, size_t n, struct answering_piece *to,
		     struct err *e);
/* Appends the answer's message to `to`. -ENOMEM in words. */
int answering_message(const struct answering *a, struct messages *to, struct err *e);

/* The session's own: takes a piece, which is empty then, into its answer and its log. -ENOMEM. */
int answering_publish(struct session *s, struct answering_piece *piece, struct err *e);
/* Copies the part of the answer that became readable to the log. */
void answering_log(struct session *s);
void answering_free_piece(struct answering_piece *piece);

#endif

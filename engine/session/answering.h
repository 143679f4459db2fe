/* The output of a turn: turns the bytes of tokens into whole characters, and these into thoughts,
 * content and tool calls. Content ends before a stop text.
 *
 * The turn feeds it without a lock and gets pieces. answering_publish moves a piece into the
 * session's answer and log, which other threads read. */
#ifndef MOEFS_ENGINE_SESSION_ANSWERING_H
#define MOEFS_ENGINE_SESSION_ANSWERING_H

#include "engine/answer/split.h"
#include "engine/answer/stream.h"

struct messages;
struct session;

/* Output that is not published yet. Zero-initialise; freed by answering_free_piece. */
struct answering_piece {
	struct text_out content, thoughts;
	struct text_out calls; /* all calls so far, as JSON; empty: no new calls */
	bool thoughts_over;
};

struct answering { /* may be freed when zero-initialised */
	struct stream characters;
	struct split *split;   /* NULL: not begun */
	struct stream stops;   /* of the content; `stopped`: the answer is over */
	struct text_out said;  /* the content so far, with newlines at its end */
	struct text_out whole; /* all characters, if `keep` */
	bool keep;	       /* the template has no tool calls, so they stay in the content */
	enum split_thinking thinking;
	const struct split_form *form;
	/* How much of the split's results was taken, and how much of `space` was examined. */
	size_t content, thoughts, calls, space;
	uint32_t turn; /* number used in the ids of its calls */
};

/* form: how the model writes thoughts and calls. tools: borrowed, may be NULL. stops: the stop
 * texts, one per line. skip_space: drop a space at the beginning, since the tokenizer added it.
 * -ENOMEM. */
int answering_begin(struct answering *a, const struct split_form *form, const struct json *tools,
		    enum split_thinking thinking, const char *stops, bool skip_space,
		    struct err *e);
/* Replaces the stop texts for the text from now on. -ENOMEM. */
int answering_set_stops(struct answering *a, const char *stops, struct err *e);
void answering_free(struct answering *a);

/* Takes the bytes of a token, and adds the resulting output to a piece. messages: those before the
 * answer; new calls get ids that do not occur there. -ENOMEM. */
int answering_take(struct answering *a, const struct messages *messages, const char *bytes,
		   size_t n, struct answering_piece *to, struct err *e);
/* Ends the answer: adds the output that is still held back. cut: the answer was cut short, so an
 * incomplete character, mark or call is left out. -ENOMEM. */
int answering_end(struct answering *a, const struct messages *messages, bool cut,
		  struct answering_piece *to, struct err *e);
/* Ends the thoughts and adds text[n] to the content unchanged, instead of the output of tokens.
 * -ENOMEM. */
int answering_choose(struct answering *a, const char *text, size_t n, struct answering_piece *to,
		     struct err *e);
/* Appends the answer as a message to `to`. -ENOMEM. */
int answering_message(const struct answering *a, struct messages *to, struct err *e);

/* Moves a piece into the session's answer and log; the piece is empty afterwards. -ENOMEM. */
int answering_publish(struct session *s, struct answering_piece *piece, struct err *e);
/* Appends the newly readable part of the answer to the log. */
void answering_log(struct session *s);
void answering_free_piece(struct answering_piece *piece);

#endif

/* What a turn was asked to do, and what it changed in the session: a prompt becomes a message, and
 * an answer that is retried or continued is removed. If the turn fails, all this is undone. */
#ifndef MOEFS_ENGINE_SESSION_ASKED_H
#define MOEFS_ENGINE_SESSION_ASKED_H

#include "engine/compute/sampler.h"
#include "engine/json/text_out.h"
#include "engine/session/params.h"
#include "engine/template/chat_messages.h"
#include "engine/tokenizer/token.h"

struct session;

struct asking {
	enum asking_kind {
		ASK_PROMPT,
		ASK_RESULTS, /* the tool results so far */
		ASK_ANSWER,
		ASK_RETRY,
		ASK_CONTINUE,
		ASK_SCORE,     /* how likely a text is */
		ASK_EMBED,     /* the vector of a text, as one line */
		ASK_EMBED_ALL, /* the vectors of texts separated by NULs, as a NumPy array */
	} kind;
	const char *text; /* for ASK_PROMPT, and from ASK_SCORE on */
	size_t length;
};

struct asked {	      /* all zero between turns; freed by asked_free */
	char *prompt; /* as it was written; NULL: the turn continues from the messages */
	size_t prompt_length;
	struct err refused; /* why the prompt cannot be a message; the turn fails with this */
	/* The number of messages before the turn, and the messages that it removed from their end.
	 */
	size_t messages_before;
	struct messages taken;
	struct token_list earlier; /* ids of the answer to continue */
	/* The text of that answer, if it was written into the messages and has no ids yet. */
	struct text_out given, given_thoughts;
	struct params params;
	struct sampling sampling;
	bool scores; /* ASK_SCORE; the text is not part of the conversation */
	enum { EMBEDS_NOT, EMBEDS_LINE, EMBEDS_ARRAY } embeds; /* likewise */
	bool whole; /* the messages were written, and the turn adds none before its answer */
	uint64_t submitted_ns;
};

/* Whether the session can start such a turn now: -EBUSY, -EINVAL, -EFBIG, -ENODATA. */
int asked_check(const struct session *s, const struct asking *a, struct err *e);
/* Fills s->asked, changes the messages and creates the answer. After an error nothing has changed.
 */
int asked_take(struct session *s, const struct asking *a, struct err *e);
/* Undoes the turn's changes of the session. */
void asked_undo(struct session *s);
void asked_free(struct asked *a);
/* The asking of session_again. */
struct asking asked_again(enum session_again how);
/* -EFBIG, with a sentence: a text has too many bytes. */
int asked_too_many_bytes(const char *what, size_t bytes, uint64_t most, struct err *e);

#endif

/* What a turn was asked, and what it took from the session: the prompt becomes a message, and an
 * answer that is retried or continued is removed. If the turn fails, everything is put back. */
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
		ASK_RESULTS, /* of tools, those that have come */
		ASK_ANSWER,
		ASK_RETRY,
		ASK_CONTINUE,
		ASK_SCORE, /* how likely a text is */
		ASK_EMBED, /* the vector of a text, in a line */
		ASK_EMBED_ALL, /* of texts with NULs between, as a NumPy array */
	} kind;
	const char *text; /* of ASK_PROMPT, and from ASK_SCORE on */
	size_t length;
};

struct asked {	      /* zero between turns; freed by asked_free */
	char *prompt; /* as it was written; NULL: the turn continues from the messages */
	size_t prompt_length;
	struct err refused; /* the prompt cannot be a message; the turn fails with this */
	/* How many messages there were before the turn, and what it took from their end. */
	size_t messages_before;
	struct messages taken;
	struct token_list earlier; /* ids of the answer that is continued */
	/* The text of that answer, where it was written into the messages and has no ids yet. */
	struct text_out given, given_thoughts;
	struct params params;
	struct sampling sampling;
	bool scores; /* it asks of a text, which is no part of the conversation: how likely it is, */
	enum { EMBEDS_NOT, EMBEDS_LINE, EMBEDS_ARRAY } embeds; /* or for its vector */
	bool whole; /* it answers or continues messages that were written, and adds none */
	uint64_t submitted_ns;
};

/* Whether this can be asked now: -EBUSY, -EINVAL, -EFBIG, -ENODATA in words. */
int asked_check(const struct session *s, const struct asking *a, struct err *e);
/* Fills s->asked, changes the messages, and creates the answer. After an error nothing has changed.
 */
int asked_take(struct session *s, const struct asking *a, struct err *e);
/* Puts back into the session what the turn took. */
void asked_undo(struct session *s);
void asked_free(struct asked *a);
/* How session_again asks. */
struct asking asked_again(enum session_again how);
/* Refuses a text for its bytes: -EFBIG. */
int asked_too_many_bytes(const char *what, size_t bytes, uint64_t most, struct err *e);

#endif

/* A turn: from a prompt to the end of its answer. The generation thread's own while it steps
 * (session.stepping), the holder of the schedule's lock else. */
#ifndef MOEFS_ENGINE_SERVE_TURN_H
#define MOEFS_ENGINE_SERVE_TURN_H

#include "cache/pager.h"
#include "engine/compute/step.h"
#include "engine/compute/sampler.h"
#include "engine/serve/answering.h"
#include "engine/serve/constrain.h"
#include "engine/serve/logprobs.h"
#include "engine/serve/params.h"
#include "engine/serve/score.h"
#include "engine/template/chat_messages.h"
#include "engine/tokenizer/token.h"

struct session;

struct turn {
	char *prompt; /* as it was written; NULL: it goes on from the messages as they stand */
	size_t prompt_length;
	struct err refused; /* of the prompt: it is no message, and the turn fails with this */
	/* Of the session's messages, how many were there before it, and what it took from their end
	 * to make anew or to go on with: if it fails, it was never there. */
	size_t messages_before;
	struct messages taken;
	struct token_list earlier; /* ids of the answer that it goes on with */
	/* That answer's text, where it was written into the messages and has no ids yet. */
	struct text_out given, given_thoughts;

	struct params params;
	struct sampling sampling;
	struct repetition repetition; /* of ids */
	struct logprobs logprobs;
	struct score score; /* if so, what is wanted is no answer, but the prompt's likelihood */
	struct losses losses;
	bool chat;
	bool follow;	       /* the session's drafter goes along */
	bool undrafted;	       /* a step that verified a draft failed: there are no more */
	size_t recomputed;     /* that the context had held, but could not go back to */
	struct token_list ids; /* all that the model is to see before it answers, and its answer */
	size_t unencoded;      /* bytes of the conversation, if it is too long to have ids */
	size_t rendered_ids;   /* how many of them are not the answer, nor the earlier part of it */
	size_t prompt_ids;     /* with the earlier part */
	/* Where the next turn's ids may part from these: what begins the answer, such as the mark
	 * of thinking, is not always written again. 0: nowhere before prompt_ids. */
	size_t fork;
	struct answering answering;
	struct constraint constraint;
	struct pager_stats before; /* the model's counters when it began */
	uint64_t submitted_ns;
	bool begun;
};

/* step.c: one step of a session's turn, without the lock. True while the turn goes on. */
bool turn_step(struct session *s);

/* turn_begin.c: from the messages to ids, and to what of the context stays. */
int turn_begin(struct session *s, struct err *e);
/* turn_given.c: reads what the last message, an assistant's, has of the answer; then, with the
 * model loaded and the conversation rendered, makes it the ids of `earlier`. -ENODATA in words. */
int turn_read_given(struct turn *t, const struct message *last, struct err *e);
int turn_encode_given(struct session *s, struct err *e);
static inline bool turn_has_given(const struct turn *t)
{
	return t->given.n || t->given_thoughts.n;
}
/* Ids outside the vocabulary would come from a tokenizer that belongs to another model: -EINVAL in
 * words. */
int turn_check_ids(const struct session *s, struct err *e);
/* turn.c: the forward pass of tokens that follow the context's, with the turn's losses, counted in
 * the stats; what follows an answer's first is drafted. all: where each row's logits go; NULL: the
 * last row's to forward.scratch.logits, if `want`. */
int turn_forward(struct session *s, const uint32_t *tokens, uint32_t n, enum row_kind kind,
		 bool want, float *all, struct err *e);
/* A token of the answer: into what comes out. -ENOMEM in words. */
int turn_say(struct session *s, uint32_t id, struct err *e);
/* turn_end.c. Ends the turn from a step; false, as a step returns that the turn is over. */
bool turn_over(struct session *s, const char *finish, int failed, const struct err *e);
/* Ends the turn (lock held): finish is a word of session_stats, failed 0 or a negative errno with
 * the sentence in e. */
void turn_end(struct session *s, const char *finish, int failed, const struct err *e);
void turn_free(struct turn *t);

/* decode.c: draws the token after the prompt; and one step of the answer. As turn_step. */
bool decode_first(struct session *s);
bool decode_step(struct session *s);

#endif

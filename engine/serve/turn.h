/* A turn: from a prompt to the end of its answer. The generation thread's own while it steps
 * (session.stepping), the holder of the schedule's lock else. */
#ifndef MOEFS_ENGINE_SERVE_TURN_H
#define MOEFS_ENGINE_SERVE_TURN_H

#include "cache/pager.h"
#include "engine/compute/batch.h"
#include "engine/compute/losses.h"
#include "engine/compute/repetition.h"
#include "engine/compute/sampler.h"
#include "engine/serve/logprobs.h"
#include "engine/serve/params.h"
#include "engine/serve/score.h"
#include "engine/text/stream.h"
#include "engine/text/token_list.h"

struct session;

struct turn {
	char *prompt;
	size_t prompt_length;
	struct params params;
	struct sampling sampling;
	struct repetition repetition; /* of ids */
	struct logprobs logprobs;
	struct score score; /* if so, what is wanted is no answer, but the prompt's likelihood */
	struct losses losses;
	bool chat;
	bool follow;	       /* the session's drafter goes along */
	size_t system_ids;     /* how many of ids are the system message */
	size_t recomputed;     /* that the context had held, but whose recurrent state it had not */
	struct token_list ids; /* all that the model is to see before it answers, and its answer */
	size_t prompt_ids;     /* how many of ids are not the answer */
	struct stream stream;
	struct pager_stats before; /* the model's counters when it began */
	uint64_t submitted_ns;
	bool begun;
};

/* turn.c: hands a turn that is made ready to the generation thread (lock held). */
void turn_start(struct session *s);

/* step.c: one step of a session's turn, without the lock. True while the turn goes on. */
bool turn_step(struct session *s);

/* turn.c: from the prompt's text to ids, and to what of the context stays. */
int turn_begin(struct session *s, struct err *e);
/* Ids outside the vocabulary would come from a tokenizer that belongs to another model: -EINVAL in
 * words. */
int turn_check_ids(const struct session *s, struct err *e);
/* The forward pass of tokens that follow the context's, with the turn's losses, counted in the
 * stats; what follows an answer's first is drafted. all: where each row's logits go; NULL: the last
 * row's to forward.scratch.logits, if `want`. */
int turn_forward(struct session *s, const uint32_t *tokens, uint32_t n, enum row_kind kind,
		 bool want, float *all, struct err *e);
/* Ends the turn from a step; false, as a step returns that the turn is over. */
bool turn_over(struct session *s, const char *finish, int failed, const struct err *e);
/* Appends to the answer and to the log. */
int turn_give_out(struct session *s, const char *text, size_t n, struct err *e);
/* Ends the turn (lock held): finish is a word of session_stats, failed 0 or a negative errno with
 * the sentence in e. */
void turn_end(struct session *s, const char *finish, int failed, const struct err *e);
void turn_free(struct turn *t);

/* decode.c: draws the token after the prompt; and one step of the answer. As turn_step. */
bool decode_first(struct session *s);
bool decode_step(struct session *s);

#endif

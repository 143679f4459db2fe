/* A turn, from its prompt to the end of its answer, as a state machine.
 *
 * A turn neither calls forward_run nor takes a lock. The run (engine/run) calls, in this order:
 *
 *     turn_new        the session was asked (session/asked.h)
 *     turn_snapshot   copies the messages, under the run's lock
 *     turn_prepare    renders, encodes, compiles the grammar: beside the steps of other turns,
 *                     and without the session's context
 *     turn_admit      finds what of the context stays
 *     then, step by step, until the event says that it is over:
 *     turn_begin_step
 *     draft_propose   for all turns of a step at once: what may follow the last tokens of answers
 *     turn_rows       adds the turn's rows to a batch
 *     turn_take       takes the logits of rows, as often as the caller likes, in the rows' order
 *     turn_settle     after the step: what stood stays in the context
 *     turn_fail       instead of the last two, if the step failed
 *     draft_count     for all turns of the step
 *
 * These calls collect their results in a struct turn_event. turn_publish, called with the run's
 * lock held, moves them into the session.
 */
#ifndef MOEFS_ENGINE_TURN_TURN_H
#define MOEFS_ENGINE_TURN_TURN_H

#include "engine/compute/sampler.h"
#include "engine/compute/step.h"
#include "engine/prefixes/prefixes.h"
#include "engine/session/session_state.h"
#include "engine/turn/choose.h"
#include "engine/turn/constrain.h"
#include "engine/turn/draft.h"
#include "engine/turn/embed.h"
#include "engine/turn/logprobs.h"
#include "engine/turn/periods.h"
#include "engine/turn/recall.h"
#include "engine/turn/score.h"

/* What all turns of a model share. The run owns it. */
struct turn_env {
	struct model *model;
	struct draft_meter *meter;
	struct grammars *grammars;
	struct prefixes *prefixes;
	struct remember *remember; /* NULL: answers are not remembered */
};

/* Scratch memory of one thread that samples. */
struct turn_scratch {
	struct sampler *sampler;
	uint64_t *mask; /* [grammars_mask_words(vocabulary)] */
};

/* Messages left out because the context had no room for them. */
struct turn_drop {
	size_t first, count;
	uint32_t turns;
};

struct turn_event {		      /* zero-initialise; freed by turn_event_free */
	struct answering_piece piece; /* a score's lines are its content */
	struct text_out logprobs;
	struct text_out chosen; /* choices.tsv */
	bool no_logprobs;	/* the turn will add no more logprobs */
	struct turn_drop *drops;
	size_t drop_count;
	uint32_t tokens;	     /* drawn */
	struct draft_choice drafted; /* in this step; depth 0: no draft */
	uint32_t stood;
	double drafting_seconds;
	/* Set when the turn is over: a word of session_stats.finish, and 0 or a negative errno with
	 * its error. */
	const char *finish; /* NULL: the turn continues */
	int failed;
	struct err e;
};
void turn_event_free(struct turn_event *ev);

struct turn_step {	    /* the turn's part of the current step */
	size_t held;	    /* positions in the context before the step */
	uint32_t first;	    /* index of its first row in the batch */
	uint32_t n;	    /* rows */
	enum row_kind kind; /* of the first row */
	bool draws;	    /* a token is sampled after the last row that is not a draft */
	bool marks;	    /* the rows are a prompt's, so the context gets checkpoints */
	bool last;	    /* the rows end a prompt, or a text to score */
	uint32_t stood;	    /* accepted drafts */
	bool closed;	    /* ignore all further rows */
};

struct turn_state {
	struct session *session;
	const struct turn_env *env;
	struct dialogue dialogue; /* turn_snapshot's copy */
	bool prepared;		  /* turn_prepare has ended */
	bool admitted;		  /* turn_admit has ended: the turn has begun */
	struct turn_event
		told; /* results of turn_prepare, until the turn's first event takes them */
	bool chat;
	bool follow;	/* the session's drafter follows the text */
	bool undrafted; /* a step with drafts failed, so the turn makes no more drafts */
	struct losses losses;
	struct token_list ids; /* the rendered conversation and the answer so far */
	size_t unencoded; /* bytes of the conversation, if it is too long to be encoded; else 0 */
	size_t rendered_ids; /* number of ids before the answer, and before its earlier part */
	size_t prompt_ids;   /* the same, with the earlier part of the answer */
	/* The position where the next turn's ids may begin to differ from these: templates do not
	 * always repeat what begins the answer, such as a thinking mark. 0: not before prompt_ids.
	 */
	size_t fork;
	/* The position where the first user message begins. Conversations with the same system
	 * message and tools have equal ids up to there. 0: unknown. */
	size_t opening;
	uint32_t owner; /* the session's owner when the turn began */
	size_t kept;	/* positions in the last prefix that was kept */
	char *why; /* how much of the prompt was found computed, as a sentence; malloc'ed, may be
		      NULL */
	size_t recomputed; /* positions that the context had held but had no checkpoint to go back
			      to */
	struct repetition repetition; /* of ids */
	struct periods periods;	      /* of the answer's ids, including its earlier part */
	struct logprobs logprobs;
	struct score score;
	struct constraint constraint;
	struct choose choose;
	struct embed embed;
	struct recall recall;
	struct turn_step step;
	struct draft draft; /* of the step */
};

/* NULL: out of memory. */
struct turn_state *turn_new(struct session *s, const struct turn_env *env);
void turn_free(struct turn_state *t); /* NULL is fine */
int turn_snapshot(struct turn_state *t, struct err *e);

/* turn_prepare.c. An error ends the turn. */
int turn_prepare(struct turn_state *t, struct turn_event *ev, struct err *e);
void turn_admit(struct turn_state *t);

/* How many tokens of a prompt or a text must be computed before the next token is sampled; also
 * after a rollback. 0: only the last token of an answer. */
size_t turn_left(const struct turn_state *t);
/* Afterwards turn.step.kind says whether this is a step of an answer. */
void turn_begin_step(struct turn_state *t);
/* Adds the turn's rows to the batch, at most `room` (at least 1) of turn_left. */
int turn_rows(struct turn_state *t, uint32_t room, struct step_batch *b, struct err *e);
/* Takes the logits of one of the turn's rows, in the rows' order, and changes them in place. Errors go
 * into the event. Touches only the turn. */
void turn_take(struct turn_state *t, uint32_t row, const struct step_logits *logits,
	       const struct turn_scratch *x, struct turn_event *ev);
/* Called after the step, while forward_normed has its rows. computed: how many of the
 * turn's rows are in the context now. If drafts failed this is less than turn_rows added, and the
 * turn makes no more drafts. */
void turn_settle(struct turn_state *t, uint32_t computed, struct turn_event *ev);
/* Called after a step without error for the turn: puts the draft's numbers into the event. */
void turn_count_draft(struct turn_state *t, struct turn_event *ev);
void turn_fail(struct turn_state *t, int failed, const struct err *e, struct turn_event *ev);
/* Called when the session gives up its context: frees the turn's other contexts, too. */
void turn_give_up(struct turn_state *t);
/* Ends the turn with a finish word, or with an error; -ECANCELED: it was stopped. */
void turn_over(struct turn_event *ev, const char *finish, int failed, const struct err *e);

/* Moves the event's results into the session. The run's lock is held. */
void turn_publish(struct turn_state *t, struct turn_event *ev);
/* Ends the session's turn and frees it. The run's lock is held. */
void turn_end(struct session *s, const char *finish, int failed, const struct err *e);

/* turn_prefix.c: finding and keeping computed beginnings of texts. */
/* Sets `opening` from the rendered text. */
int turn_find_opening(struct turn_state *t, const struct template_text *text, struct err *e);
/* The next position after `held` at which a step of the prompt must end. Other texts are likely to
 * differ from there on, and such a model can go back only to checkpoints. SIZE_MAX: none. */
size_t turn_next_stop(const struct turn_state *t, size_t held);
/* Takes over as much as possible of what is computed for the ids, and explains in `why` why not
 * more. */
void turn_reuse_context(struct turn_state *t);
/* Keeps what the turn has computed for other turns, if other texts are likely to differ from here
 * on. */
void turn_keep_prefix(struct turn_state *t, bool over);

/* Adds a token to the answer. -ENOMEM in words. */
int turn_say(struct turn_state *t, uint32_t id, struct turn_event *ev, struct err *e);

#endif

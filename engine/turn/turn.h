/* A turn: from a prompt to the end of its answer, as a state machine.
 *
 * A turn calls neither forward_run nor a lock. The run (engine/run) calls, in this order:
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
 * The calls collect their results in a struct turn_event. The session gets them by turn_publish,
 * which the holder of the run's lock calls.
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

/* What the turns of a model share; the run's. */
struct turn_env {
	struct model *model;
	struct draft_meter *meter;
	struct grammars *grammars;
	struct prefixes *prefixes;
	struct remember *remember; /* NULL: nothing is remembered */
};

/* Memory of a thread that takes logits. */
struct turn_scratch {
	struct sampler *sampler;
	uint64_t *mask; /* [grammars_mask_words(vocabulary)] */
};

/* Messages that had no room in the context. */
struct turn_drop {
	size_t first, count;
	uint32_t turns;
};

struct turn_event {		      /* zero-initialise; freed by turn_event_free */
	struct answering_piece piece; /* of a score: its lines, as content */
	struct text_out logprobs;
	struct text_out chosen; /* choices.tsv */
	bool no_logprobs; /* there will be none */
	struct turn_drop *drops;
	size_t drop_count;
	uint32_t tokens;	     /* drawn */
	struct draft_choice drafted; /* in this step; depth 0: nothing */
	uint32_t stood;
	double drafting_seconds;
	/* The turn is over: a word of session_stats, and 0 or a negative errno with a sentence. */
	const char *finish; /* NULL: it continues */
	int failed;
	struct err e;
};
void turn_event_free(struct turn_event *ev);

struct turn_step {	    /* the turn's part of the step at hand */
	size_t held;	    /* positions of the context before it */
	uint32_t first;	    /* row of the batch that its first row is */
	uint32_t n;	    /* rows */
	enum row_kind kind; /* of the first */
	bool draws;	    /* a token is drawn after the last certain row */
	bool marks;	    /* the context gets checkpoints: the rows are a prompt's */
	bool last;	    /* the rows are the rest of a prompt, or of a text to score */
	uint32_t stood;	    /* drafts that were drawn */
	bool closed;	    /* no more rows count */
};

struct turn_state {
	struct session *session;
	const struct turn_env *env;
	struct dialogue dialogue; /* turn_snapshot's copy */
	bool prepared;		  /* turn_prepare has ended */
	bool admitted;		  /* turn_admit has: the turn has begun */
	struct turn_event
		told; /* what turn_prepare had to tell; whoever begins the turn takes it */
	bool chat;
	bool follow;	/* the session's drafter is kept up to date */
	bool undrafted; /* a step that verified a draft failed: there are no more drafts */
	struct losses losses;
	struct token_list ids; /* the rendered conversation and the answer so far */
	size_t unencoded;      /* bytes of the conversation, if it is too long to have ids */
	size_t rendered_ids;   /* how many of them are not the answer, nor the earlier part of it */
	size_t prompt_ids;     /* with the earlier part */
	/* Where the next turn's ids may part from these: what begins the answer, such as the mark
	 * of thinking, is not always written again. 0: nowhere before prompt_ids. */
	size_t fork;
	/* Where the first user's message begins: until there, conversations with the same system
	 * message and tools are the same. 0: not known. */
	size_t opening;
	uint32_t owner;	   /* of the session, when the turn began */
	size_t kept;	   /* positions that the last kept prefix has */
	char *why;	   /* what of the prompt was found, in words; malloc'ed, may be NULL */
	size_t recomputed; /* positions that the context had held, but could not go back to */
	struct repetition repetition; /* of ids */
	struct periods periods;	      /* of the answer's ids, with those of its earlier part */
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

/* How many tokens have to be computed before the next one is drawn: of a prompt or a text, or again
 * after a rollback. 0: only the last token of an answer. */
size_t turn_left(const struct turn_state *t);
/* Then turn.step.kind says whether the step is an answer's. */
void turn_begin_step(struct turn_state *t);
/* Adds its rows to the batch, at most `room` (at least 1) of turn_left. */
int turn_rows(struct turn_state *t, uint32_t room, struct step_batch *b, struct err *e);
/* Takes the logits[n][vocabulary] of its rows from first_row on, and changes them. Errors are the
 * event's. Touches the turn alone. */
void turn_take(struct turn_state *t, uint32_t first_row, uint32_t n, float *logits,
	       const struct turn_scratch *x, struct turn_event *ev);
/* After the step, while forward_normed has its rows. computed: how many of the turn's rows
 * the context has got; fewer than turn_rows added if drafts failed, and then the turn drafts no
 * more. */
void turn_settle(struct turn_state *t, uint32_t computed, struct turn_event *ev);
/* After a step that ended well for the turn: tells the event what was drafted. */
void turn_count_draft(struct turn_state *t, struct turn_event *ev);
void turn_fail(struct turn_state *t, int failed, const struct err *e, struct turn_event *ev);
/* The session gives up its context: so does the turn with others that it computes in. */
void turn_give_up(struct turn_state *t);
/* Ends the turn: finish, or an error; -ECANCELED: somebody stopped it. */
void turn_over(struct turn_event *ev, const char *finish, int failed, const struct err *e);

/* The run's lock is held: moves the event's results into the session. */
void turn_publish(struct turn_state *t, struct turn_event *ev);
/* The run's lock is held: ends the turn in its session as the event says, and frees the turn. */
void turn_end(struct session *s, const char *finish, int failed, const struct err *e);

/* turn_prefix.c: the parts of a turn that deal with what is computed already. */
/* Finds `opening` in the rendered text. */
int turn_find_opening(struct turn_state *t, const struct template_text *text, struct err *e);
/* The next position after `held` at which a prompt's step ends, since texts are likely to part
 * there and the model goes back only to checkpoints; SIZE_MAX: none. */
size_t turn_next_stop(const struct turn_state *t, size_t held);
/* Takes over what has been computed of the ids, and explains in `why` what has not. */
void turn_reuse_context(struct turn_state *t);
/* Keeps what the turn has computed for others, if this is a place where texts part. */
void turn_keep_prefix(struct turn_state *t, bool over);

/* Adds a token to the answer. -ENOMEM in words. */
int turn_say(struct turn_state *t, uint32_t id, struct turn_event *ev, struct err *e);

#endif

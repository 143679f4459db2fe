/* A model's run: the thread that computes the model's turns, and the queues that decide which turn
 * is next. This thread alone calls forward_run. It holds the run's lock whenever it is not
 * computing or loading. A second thread prepares turns (run_prepare.c).
 *
 * Locks, in the order in which they may be taken:
 *     run.notify        held while `changed` is called, so that session_end can wait for the call
 *     restored's lock   inside session/state_restored.c, which takes run.lock under it
 *     run.lock          protects the sessions, and every field of the run marked (lock)
 *     loaded.opening    held, under no other lock, while the tokenizer is opened
 *     budgets' lock     inside budgets.c, which takes the pager's lock under it
 *     context budget's lock   protects kept prefixes and checkpoints; no lock is taken under it
 *     converter's, pager's, answer's and trace ring's locks   inside their own functions; the
 *                       trace ring calls `told` with its lock held
 *     grammar's lock    inside its own functions; no lock is taken under it
 *     remember's locks  inside their own functions; no lock is taken under them
 *     pins.lock         held while experts are asked for, and while a source with the pins is
 *                       added to the pager
 *     loaded.looking    read-locked, under any other lock, while a thread inspects the experts in
 *                       memory; write-locked, under no lock except pins.lock, when loading or
 *                       unloading changes them
 *     stored.lock       the same for the complete store and its plan
 *     tensors.opening   held while the list of tensors is made; no lock is taken under it
 *
 * The run's thread computes, and the preparing thread prepares, without any lock. While
 * session.stepping is set, one of these two threads owns the fields that session_state.h marks
 * (turn); otherwise the holder of the run's lock owns them.
 */
#ifndef MOEFS_ENGINE_RUN_RUN_H
#define MOEFS_ENGINE_RUN_RUN_H

#include "cache/err.h"
#include "engine/prefixes/prefixes.h"
#include "engine/run/forecast.h"
#include "engine/run/refining.h"
#include "engine/run/shares.h"
#include "engine/run/tracing.h"
#include "engine/turn/turn.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct model;
struct session;
struct turn_state;

struct session_list { /* linked through session.next and .previous */
	struct session *first, *last;
};

/* Priority (params/priority) decides which session goes first: which has the next step alone, which
 * RUN_PLACES of many answers share a step, which idle or waiting session must give up its context,
 * and which waiting session gets room for its context. Within a priority, turns go in the order of
 * submission.
 *
 * Low priority never starves. While sessions of all three priorities wait for steps alone, of seven
 * rows high gets four, normal two and low one (shares.h). Before the next step of a low prompt,
 * high prompts get at most RUN_AHEAD rows and normal ones half of that, plus 4 and 2 rows for each
 * row of the last low step. Of 32 places for answers, low answers get at least 4 if 4 wait. A turn
 * may get room for its context before an older turn. After RUN_PASSES such cases the oldest waiting
 * turn counts as high priority until its end, so no younger turn gets room before it or takes its
 * context.
 */
enum {
	RUN_PLACES = 32,  /* most sessions in one step */
	RUN_AHEAD = 2048, /* rows that high priority may be ahead while a lower priority waits */
	RUN_PASSES = 8,	  /* turns that get room before an older one */
};

/* The cost of all steps of a session: sums over its accounts. */
struct run_cost {
	uint64_t hits, misses, reads, dropped, substituted, ngram_rows, ngram_waits;
};

/* A session's part of the current step. */
struct run_place {
	struct session *session; /* (lock) */
	/* For the run's thread: */
	struct turn_event event;
	bool begins;	    /* this step begins the turn and has no rows */
	bool computes;	    /* the session has rows in the batch (turn.step says which) */
	bool computed;	    /* the forward pass has ended, with or without error */
	bool over;	    /* the turn has ended */
	struct err no_room; /* why the context could not grow as the step needs; code 0: it could */
	struct run_cost before; /* before the step */
	struct tracing_span trace;
};

/* The cost of a step. */
struct run_step {
	uint64_t started_ns; /* when drafting was done */
	double seconds;	     /* from started_ns to the end of the forward pass */
	struct pager_stats before, after;
};

/* Sessions that share a step. */
struct run_party {
	struct run *run;
	uint32_t count; /* (lock) */
	/* For the run's thread: */
	struct run_place places[RUN_PLACES]; /* [count] */
	struct step_batch batch;
	struct run_step step;
};

/* How long a model waits after its last turn before background work begins, since users often ask
 * again soon. */
#define RUN_REST_NS (UINT64_C(10) * 1000000000)

struct run {
	pthread_mutex_t notify; /* held while `changed` is called, so that session_end can wait */
	pthread_mutex_t lock;	/* every field marked (lock), of the model's sessions, too */
	pthread_cond_t work;	/* (lock) wakes the run's thread */
	pthread_cond_t prepare; /* (lock) wakes the preparing thread */
	pthread_cond_t loaded;	/* (lock) loading or unloading has ended */
	bool load_wanted;	/* (lock) */
	bool unload_wanted;	/* (lock) unload before doing anything else */
	uint64_t unloads;	/* (lock) number of unloads so far */
	uint64_t asked_ns;	/* (lock) when the weights were last asked for */
	struct err load_error;	/* (lock) */
	bool loads; /* (lock) loading is in progress, or has failed and the waiting turns are being
		       told */
	struct session_list unprepared; /* (lock) with submitted turns, oldest first */
	struct session_list runnable;	/* (lock) with prepared turns, in step order */
	bool looks;  /* (lock) the preparing thread is looking at the model's files */
	bool looked; /* (lock) it has looked, and may prepare the next turn without the weights */
	struct session *preparing; /* (lock) the session whose turn is being prepared; in neither
				      list; NULL: none */
	struct session *all;	   /* (lock) all sessions, through all_next */
	uint32_t sessions;	   /* (lock) number of sessions */
	uint32_t passes;	   /* (lock) turns that got room before an older one (RUN_PASSES) */
	/* (lock) for steps alone; for places among answers; for the preparing thread */
	struct shares prompts, answers, preparations;
	uint32_t alone; /* (lock) steps alone since the last step of answers */
	pthread_t thread, preparer;
	_Atomic bool quit; /* ends both threads */

	struct tracing tracing;		/* for the run's thread; the ring: any thread */
	struct refining refining;	/* for the refining thread, or the caller of model_refine */
	struct grammars grammars;	/* for the preparing thread */
	struct draft_meter draft_meter; /* from here on: for the run's thread */
	struct prefixes prefixes;	/* under the contexts' budget's lock */
	struct offload offload;		/* contexts on disk */
	struct run_leaving *leaving;	/* contexts to write to disk before the next step */
	struct turn_env env;
	struct turn_scratch scratch[HEAD_ROWS]; /* one per sampler of loaded.samplers */
	/* [0]: the current step. [1]: a step of answers while [0], a prompt's step, pauses between
	 * two layers. */
	struct run_party parties[2];
	struct forecast forecast; /* (lock) */
	uint64_t answered_ns;	  /* when answers last had a step; 0: never */
	bool rested;		  /* (lock) model.rests was called, or must not be called */
	double layer_seconds;	  /* seconds per layer and prompt row, without reads; 0: unknown */
};

/* run.c */
/* Creates a run without starting its thread. -ENOMEM. */
int run_create(struct model *m, struct err *e);
void run_free(struct model *m);
int run_start(struct model *m, struct err *e);
void run_stop(struct model *m);
/* As model_load and model_wait. */
void run_load(struct model *m);
int run_wait(struct model *m, struct err *e);
/* As model_unload. */
int run_unload(struct model *m, struct err *e);

/* run_prepare.c. The preparing thread's function; its argument is the model. */
void *run_prepare_turns(void *model);
/* Lock held. Of each priority the first session whose turn may be prepared now; NULL: none. Returns whether there is one. */
bool run_find_unprepared(const struct run *r, struct session *first[SESSION_PRIORITIES]);
/* Lock held: whether the run's thread has to load the model first. */
bool run_must_load(const struct model *m);
/* Waits until no turn is being prepared. For the run's thread. Lock held, released while waiting.
 */
void run_wait_for_preparation(struct run *r);

/* run_step.c. Computes one step: of one session alone, or of all that are answering. At least one
 * session is runnable. Lock held, released during the step. */
void run_step(struct model *m);

/* run_logits.c, without the lock. Allocates the scratch memory before a step. -ENOMEM. */
int run_make_scratch(struct model *m, struct err *e);
/* The callback `read` of a step_batch; ctx: the party. */
int run_take_logits(void *ctx, const uint32_t *rows, uint32_t n, const struct step_logits *logits,
		    struct err *e);

/* run_choice.c, lock held. The session that has the next step alone; NULL: the next step is for
 * answers. */
struct session *run_next_alone(struct run *r);
/* The first session in the queue that may share a step; NULL: none. */
struct session *run_first_answer(const struct run *r);
static inline bool run_has_answers(const struct run *r)
{
	return run_first_answer(r);
}
/* Gives the places of a step to sessions that are answering. */
void run_gather_answers(struct model *m, struct run_party *p);
void run_take_place(struct run_party *p, struct session *s);

/* run_place.c, without the lock; in the order in which run_step calls them. */
/* Stops the turn, admits it, or begins its step and sets `computes`. Tests wrap this function with
 * the linker's --wrap, so it must not be in its caller's file. */
void run_begin_place(struct run_place *p);
/* Adds the turn's rows to the batch, at most `most` rows of a prompt. */
void run_collect_place(struct run_place *p, uint32_t most, struct step_batch *b);
/* After the forward pass. failed other than 0: the whole step failed. */
void run_settle_place(struct run_place *p, int failed, const struct err *e);
/* Lock held: moves the event's results into the session, and ends the turn if it is over. */
void run_publish_place(struct run_place *p, const struct run_step *step, uint64_t reads);
struct run_cost run_cost_of(const struct session *s);

/* run_room.c, lock held. Makes room for a session whose context could not grow, or lets the session
 * wait. False: no other session has begun a turn, so there will be no room. */
bool run_find_room(struct session *s);
/* The same, without the lock, but only idle sessions give up their contexts. */
bool run_find_room_of_idle(struct session *s);

/* run_offload.c: contexts that go to disk (engine/prefixes/offload.h) and come back. */
/* Lock held. Keeps the context that a session is about to give up until run_write_leaving writes
 * it. */
void run_leave(struct session *s);
/* Without the lock: writes these contexts to disk and frees their memory. */
void run_write_leaving(struct model *m);
/* Without the lock, before the session's turn is admitted: reads the session's context from disk,
 * if it is there. -ENOSPC: the context budget has no room, or the disk had no room when the context
 * was written; -EIO, -ENOENT. */
int run_read_back(struct session *s);
/* Afterwards: drops the context on disk. failed: the last result of run_read_back. */
void run_forget_offloaded(struct session *s, int failed);
/* There may be room now: lets the first session that waits for room try again. */
void run_end_wait(struct run *r);
/* Called when this turn gets room: counts it if an older turn has no room. */
void run_pass_over(const struct session *s);
/* Whether `a` has a higher priority than `b`, or the same priority and an older turn. */
bool run_comes_before(const struct session *a, const struct session *b);

/* run_queue.c, lock held. run_queue puts a session at the end of `runnable`, or of `unprepared` if
 * its turn is not prepared; run_queue_first at the beginning; run_unqueue removes it. */
void run_queue(struct session *s);
void run_queue_first(struct session *s);
void run_unqueue(struct session *s);
/* Queues a submitted turn, which waits to be prepared, for the model and for its steps. */
void run_start_turn(struct session *s, struct turn_state *t);
/* From now on model.rests is not called. */
void run_stop_rest(struct model *m);
/* Interrupts the step of background work (refining while idle). */
void run_interrupt_background(struct model *m);
/* The same, and waits until it has stopped; the lock is released meanwhile. */
void run_send_away(struct model *m);
/* Whether a turn waits to be prepared or is being prepared. */
static inline bool run_prepares(const struct run *r)
{
	return r->unprepared.first || r->preparing;
}
/* run_works: some session has a turn, or the results of its last step are not published yet.
 * run_has_turn: some session has a turn. */
static inline bool run_works(const struct run *r)
{
	return r->parties[0].count || r->runnable.first || run_prepares(r);
}
bool run_has_turn(const struct run *r);
/* Calls the engine's `changed` for the session's user. No lock may be held. */
void run_notify(struct session *s);

/* sessions.c, lock held: frees a session that is ended and in no queue or step. */
void session_drop(struct session *s);
/* Ends the turn of a session that is in no queue, and calls run_notify. Lock held, released
 * meanwhile. */
void session_end_turn(struct session *s, const char *finish, int failed, const struct err *e);

#endif

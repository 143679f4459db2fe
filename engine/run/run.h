/* A model's run: the thread that computes for it, the only caller of forward_run, and whose turn it
 * is. The thread holds the run's lock whenever it is not computing or loading. A second thread
 * prepares turns that were asked (run_prepare.c).
 *
 * Locks, in the order in which they may be taken:
 *     run.notify        held while `changed` is called, so that session_end can wait for the call
 *     a restored's lock inside its own functions (session/state_restored.c), which take the next
 *     run.lock          every field marked (lock) of the run, and the sessions
 *     loaded.opening    read and written, under none, while the tokenizer is opened
 *     budgets' lock     inside its own functions, which take the pager's
 *     contexts' budget's lock   of kept prefixes and checkpoints; nothing is taken under it
 *     converter's lock, pager's lock, answer's lock, the trace ring's   inside their own
 *                       functions; under the last `told` is called
 *     a grammar's lock  inside its own functions; nothing is taken under it
 *     remember's locks  inside their own functions; nothing is taken under them
 *     pins.lock         while experts are asked for, and while the pager gets a source with them
 *     loaded.looking    read, under any other, while somebody looks at the experts in memory;
 *                       written, under none but pins.lock, when these come and go: a model may
 *                       be loaded again
 *     stored.lock       the same of the complete store and its plan
 *     tensors.opening   while the list of tensors is made; nothing is taken under it
 * The run's thread computes without any of them, and so does the preparing thread prepare. What
 * session_state.h marks (turn) belongs to one of them while session.stepping is set, and to the
 * holder of the lock else.
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

struct session_list { /* doubly linked through session.next and .previous */
	struct session *first, *last;
};

/* Priority (params/priority) decides who comes first where not all can: who has the next step
 * alone, who of more than RUN_PLACES answers is in a step, whose context gives way, and who of
 * those that wait for room gets it. Within a priority turns come in the order in which they were
 * asked.
 *
 * Low never starves. While sessions of all three priorities wait for steps alone, low has one row
 * in seven, normal two, high four (shares.h); before a low prompt's next step, high ones have at
 * most RUN_AHEAD rows and normal ones half as many, and 4 and 2 rows for each row of low's last
 * step. Of 32 places for answers low has 4 at least, if as many wait. Every RUN_PASSES times that
 * room for a context goes to a turn although another one that was asked before has none, the first
 * of these counts as high until its end; and since it is older than those that passed it, none of
 * them is let in before it or takes its context.
 */
enum {
	RUN_PLACES = 32,  /* most sessions that have rows in one step */
	RUN_AHEAD = 2048, /* rows of high that may come first while a lower priority waits */
	RUN_PASSES = 8,	  /* turns that get room before one that was asked earlier */
};

/* What all steps of a session have cost: sums over its accounts. */
struct run_cost {
	uint64_t hits, misses, reads, dropped, substituted, ngram_rows, ngram_waits;
};

/* A session's part of the step at hand. */
struct run_place {
	struct session *session; /* (lock) */
	/* The run's thread's: */
	struct turn_event event;
	bool begins;		/* the step is the beginning of the turn, without rows */
	bool computes;		/* the session has rows in the batch: turn.step says which */
	bool computed;		/* the forward pass has ended, well or not */
	bool over;		/* the turn has ended */
	struct err no_room;	/* code 0: the context could grow as the step asked */
	struct run_cost before; /* before the step */
	struct tracing_span trace;
};

/* What a step cost. */
struct run_step {
	uint64_t started_ns; /* when the drafts were there */
	double seconds;	     /* since then, until the forward pass had ended */
	struct pager_stats before, after;
};

/* Sessions that have a step together. */
struct run_party {
	struct run *run;
	uint32_t count; /* (lock) */
	/* The run's thread's: */
	struct run_place places[RUN_PLACES]; /* [count] */
	struct step_batch batch;
	struct run_step step;
};

/* After the last turn, before work begins that nobody asked for: a user who has asked often asks
 * again soon. */
#define RUN_REST_NS (UINT64_C(10) * 1000000000)

struct run {
	pthread_mutex_t notify; /* held while `changed` is called, so that session_end can wait */
	pthread_mutex_t lock;	/* every field marked (lock), of the model's sessions, too */
	pthread_cond_t work;	/* (lock) something for the run's thread */
	pthread_cond_t prepare; /* (lock) something for the preparing thread */
	pthread_cond_t loaded;	/* (lock) loading has ended, or unloading */
	bool load_wanted;	/* (lock) */
	bool unload_wanted;	/* (lock) before anything else is done; until it is done */
	uint64_t unloads;	/* (lock) how many there were */
	uint64_t asked_ns;	/* (lock) when somebody last wanted the weights */
	struct err load_error;	/* (lock) */
	bool loads; /* (lock) loading is under way, or telling those that waited for it in vain */
	struct session_list unprepared; /* (lock) whose turn was asked, in that order */
	struct session_list runnable;	/* (lock) whose turn is prepared, in the order of steps */
	bool looks;  /* (lock) the preparing thread looks at the model's files */
	bool looked; /* (lock) it has, for the next turn, which it may prepare without the weights */
	struct session *preparing; /* (lock) whose turn is being prepared, in neither; NULL: none */
	struct session *all;	   /* (lock) all sessions, through all_next */
	uint32_t sessions;	   /* (lock) how many there are */
	uint32_t passes; /* (lock) how often room went past a turn since one counts as high */
	/* (lock) of steps alone; of places among answers; of the preparing thread */
	struct shares prompts, answers, preparations;
	uint32_t alone; /* (lock) steps that sessions had alone since the last one of answers */
	pthread_t thread, preparer;
	_Atomic bool quit; /* ends both threads */

	struct tracing tracing;		/* the run's thread's; its ring anybody's */
	struct refining refining;	/* its thread's, or model_refine's caller's */
	struct grammars grammars;	/* the preparing thread's */
	struct draft_meter draft_meter; /* from here on: the run's thread's */
	struct prefixes prefixes;	/* under the contexts' budget's lock */
	struct offload offload;		/* contexts on disk */
	struct run_leaving *leaving;	/* that are to be written there before the next step */
	struct turn_env env;
	struct turn_scratch scratch[HEAD_ROWS]; /* one for each of loaded.samplers */
	/* [0]: the step that is computed. [1]: a step of answers while [0], a prompt's, waits
	 * between two layers. */
	struct run_party parties[2];
	struct forecast forecast; /* (lock) */
	uint64_t answered_ns; /* when answers last had a step; 0: never */
	bool rested;	      /* (lock) the model's `rests` was called, or is not to be */
	double layer_seconds; /* that a layer takes for a row of a prompt, without reads; 0: unknown
			       */
};

/* run.c */
/* Makes a run without its thread; -ENOMEM in words. */
int run_create(struct model *m, struct err *e);
void run_free(struct model *m);
int run_start(struct model *m, struct err *e);
void run_stop(struct model *m);
/* Asks for the weights, without waiting; and waits for them. As model_load, model_wait. */
void run_load(struct model *m);
int run_wait(struct model *m, struct err *e);
/* As model_unload. */
int run_unload(struct model *m, struct err *e);

/* run_prepare.c. The preparing thread's function; its argument is the model. */
void *run_prepare_turns(void *model);
/* Lock held: whether the run's thread has to load the model first. */
bool run_must_load(const struct model *m);
/* Lock held, released meanwhile: until no turn is being prepared. For the run's thread. */
void run_wait_for_preparation(struct run *r);

/* run_step.c, lock held, released meanwhile: one step of a session that has it alone, or of those
 * that answer. One session at least is runnable. */
void run_step(struct model *m);

/* run_logits.c, without the lock. Before a step: -ENOMEM in words. */
int run_make_scratch(struct model *m, struct err *e);
/* A step_batch's `read`; ctx: the party. */
int run_take_logits(void *ctx, const uint32_t *rows, uint32_t n, const float *logits,
		    struct err *e);

/* run_choice.c, lock held. The session that has the next step alone; NULL: answers have it. */
struct session *run_next_alone(struct run *r);
/* The first session of the queue that may share a step; NULL: there is none. */
struct session *run_first_answer(const struct run *r);
static inline bool run_has_answers(const struct run *r)
{
	return run_first_answer(r);
}
/* Gives places to the sessions that answer, as many as a step has. */
void run_gather_answers(struct model *m, struct run_party *p);
void run_take_place(struct run_party *p, struct session *s);

/* run_place.c, without the lock; in the order in which run_step calls them. */
/* Stops the turn, or admits it, or begins its step; then `computes` is set. Tests put themselves
 * around this function: it stays in another file than its caller. */
void run_begin_place(struct run_place *p);
/* Adds the turn's rows to the batch; of a prompt at most `most`. */
void run_collect_place(struct run_place *p, uint32_t most, struct step_batch *b);
/* After the forward pass. Other than 0: the whole step failed. */
void run_settle_place(struct run_place *p, int failed, const struct err *e);
/* Lock held: gives the session what the event has, and ends the turn if it is over. */
void run_publish_place(struct run_place *p, const struct run_step *step, uint64_t reads);
struct run_cost run_cost_of(const struct session *s);

/* run_room.c, lock held. Makes room for a session whose context could not grow, or lets it wait;
 * false: it is alone, and there will be no room. */
bool run_find_room(struct session *s);
/* The same, without the lock: an idle session gives up its context, if there is one. */
bool run_find_room_of_idle(struct session *s);

/* run_offload.c: contexts that go to disk (engine/prefixes/offload.h) and come back. */
/* Lock held. The session is about to give up its context: it is held until run_write_leaving. */
void run_leave(struct session *s);
/* Without the lock: writes what is to leave, which gives its memory back. */
void run_write_leaving(struct model *m);
/* Without the lock, before the session's turn is admitted: its context from the disk, if it is
 * there. -ENOSPC: the contexts' memory has no room for it, or the disk had none; -EIO, -ENOENT. */
int run_read_back(struct session *s);
/* Then: nothing of it is on disk any more. failed: what run_read_back returned at last. */
void run_forget_offloaded(struct session *s, int failed);
/* There may be room now: the first session that waits for it tries again. */
void run_end_wait(struct run *r);
/* This turn gets room: counts it if a turn that was asked earlier has none. */
void run_pass_over(const struct session *s);
/* Whether a has a higher priority than b, or the same and was asked earlier. */
bool run_comes_before(const struct session *a, const struct session *b);

/* run_queue.c, lock held. Puts a session at the end of `runnable`, or of `unprepared` if its turn
 * is not prepared; at the beginning; removes it. */
void run_queue(struct session *s);
void run_queue_first(struct session *s);
void run_unqueue(struct session *s);
/* A turn that was asked begins to wait: to be prepared, for its steps, for the model. */
void run_start_turn(struct session *s, struct turn_state *t);
/* From now on the model's `rests` is not called any more. */
void run_stop_rest(struct model *m);
/* Stops background work (refining while idle) in the middle of its step. */
void run_interrupt_background(struct model *m);
/* The same, and waits until it has stopped; the lock is released meanwhile. */
void run_send_away(struct model *m);
/* Whether there are turns to be prepared. */
static inline bool run_prepares(const struct run *r)
{
	return r->unprepared.first || r->preparing;
}
/* run_works: a session has a turn, or its last step is not published yet. run_has_turn: a session
 * has a turn. */
static inline bool run_works(const struct run *r)
{
	return r->parties[0].count || r->runnable.first || run_prepares(r);
}
bool run_has_turn(const struct run *r);
/* Tells the session's user that something changed. No lock may be held. */
void run_notify(struct session *s);

/* sessions.c, lock held: frees a session that nothing refers to any more. */
void session_drop(struct session *s);
/* The lock is released meanwhile: ends the turn of a session that is in no queue, and tells. */
void session_end_turn(struct session *s, const char *finish, int failed, const struct err *e);

#endif

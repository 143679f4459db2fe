/* A conversation, without threads and locks: what belongs to it, and what it changes at rest.
 *
 * A session belongs to its model's run (engine/run). The holder of the run's lock may read and
 * change everything here, with one exception: while the turn has a step, or is being prepared,
 * fields marked (turn) belong to the thread that does that, without the lock.
 */
#ifndef MOEFS_ENGINE_SESSION_SESSION_STATE_H
#define MOEFS_ENGINE_SESSION_SESSION_STATE_H

#include "cache/pager.h"
#include "engine/compute/context.h"
#include "engine/compute/drafter.h"
#include "engine/prefixes/offload.h"
#include "engine/session.h"
#include "engine/session/answer.h"
#include "engine/session/answering.h"
#include "engine/session/asked.h"
#include "engine/session/dialogue.h"

struct model;
struct observer;
struct turn_state;

struct undo_mark { /* lengths before a turn, and before its answer */
	size_t messages;
	size_t log, answer_log;
};

struct session {
	struct model *model;
	bool working; /* a turn is in progress */
	enum session_status status;
	struct err error;
	struct params params;
	char *prompt; /* the last one; NULL: none */
	size_t prompt_length;
	struct answer *answer; /* the newest; NULL: none */
	char *log;
	size_t log_size, log_room;
	struct dialogue dialogue;
	struct token_list tail; /* ids of the last answer, if it was cut short; else empty */
	bool written;		/* the last message was written, and is not the answer of a turn */
	struct session_stats stats;
	char *chosen;		/* what the last turn's choices were worth; NULL: nothing */
	char *why;		/* what of the last prompt was computed already; NULL: no turn */
	struct undo_mark *undo; /* one per turn */
	size_t undo_count, undo_room;

	struct asked asked;	    /* this and the next three: of the turn in progress */
	struct text_out called;	    /* its calls so far, as JSON */
	uint64_t logged;	    /* bytes of its answer that are in the log */
	struct turn_state *turn;    /* engine/turn's; NULL between turns */
	struct answering answering; /* from here to `stop`: (turn) */
	struct context context;
	struct drafter drafter;
	struct step_account account, drafting; /* of the model's steps, and of the draft layer's */
	struct losses context_losses;	       /* that all of the context was computed with */
	uint64_t weights_sum;		       /* of the weights that it was computed with */
	/* The context was restored from a file, or computed without experts that were missing. It
	 * is not shared with other sessions. */
	bool context_private;
	bool context_given_up;	 /* for another session, since the last turn */
	struct offload_text *offloaded; /* then the context on disk, or why not; NULL: memory alone */
	size_t brought_back; /* positions that the turn in progress has from there */
	int offload_failed;  /* ENOSPC, EIO, ENOENT: why it has none; 0: it has them, or none were */
	_Atomic uint64_t prefix; /* the kept prefix that shares the context's memory; 0: none */
	_Atomic bool stop;	 /* asks a step to end early */

	/* The run's: */
	void *user; /* argument of the engine's `changed`, under the run's `notify`; NULL: it is not
		       called */
	struct session *next, *previous;	 /* in the run's queues */
	struct session *all_next, *all_previous; /* among all sessions of the model */
	char *name;				 /* for the trace, malloc'ed; NULL: none */
	uint32_t owner;				 /* of its lines in the trace */
	const struct observer *observer; /* of its steps; set before its first turn; may be NULL */
	bool background; /* has its steps when no other session has; set before its first turn */
	bool queued;			 /* in one of the run's queues */
	bool waits_for_room; /* has no step until another turn has ended (run/run_room.c) */
	bool tries_again;    /* another turn gave its context up for the next step (run_room.c) */
	bool owed;	     /* its turn counts as one of high priority (run_room.c) */
	bool stepping;	     /* its turn has a step, is being prepared, or its end is being told */
	bool ended;	     /* the owner is gone; freed after that */
};

/* One that no run knows yet. NULL: out of memory, in words. */
struct session *session_alone(struct model *m, struct err *e);
/* Frees everything except the turn. */
void session_free(struct session *s);
/* Forgets the conversation; no turn is in progress. */
void session_forget(struct session *s);
/* What the turn waits for, if there is one. */
enum session_wait session_waits(const struct session *s);
/* As session_param_set, of a value that params_check accepted. */
int session_set_param(struct session *s, size_t i, const char *value, size_t length, struct err *e);

/* ---- history.c: the log, and how far turns can be taken back ---- */

/* Appends to the log; with "> " before each line, as a letter quotes its question. A log that
 * cannot grow is cut: memory is too short for more. */
void history_log(struct session *s, const char *text, size_t n);
void history_log_quoted(struct session *s, const char *text, size_t n);

/* A turn begins with the next message. -ENOMEM. */
int history_add_mark(struct session *s, struct err *e);
/* Removes the last turn. If the messages were written from outside, removes those from the last
 * user's message on. False: there is no turn. */
bool history_take_back(struct session *s);
/* The messages were replaced: no turn can be undone and no answer continued. */
void history_forget_turns(struct session *s);
/* Leaves `count` messages behind `first` out for a turn that has no room for them, and says so. */
void history_drop_turns(struct session *s, size_t first, size_t count, uint32_t turns);
/* Makes the first message what params/system says, while no turn runs. Without memory for that the
 * message stays as it is until the next turn ends. */
void history_sync_system(struct session *s);

#endif

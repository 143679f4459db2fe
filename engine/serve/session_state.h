/* A conversation. What is marked (lock) is the holder's of the schedule's lock, what is marked
 * (notify) its notify's; what is marked (turn) is the generation thread's while `stepping` is set,
 * without any lock, and the holder's of the lock else. */
#ifndef MOEFS_ENGINE_SERVE_SESSION_STATE_H
#define MOEFS_ENGINE_SERVE_SESSION_STATE_H

#include "engine/compute/context.h"
#include "engine/compute/drafter.h"
#include "engine/serve/answer.h"
#include "engine/serve/turn.h"
#include "engine/session.h"

struct undo_mark { /* lengths before a turn */
	size_t history;
	uint64_t log;
};

struct session {
	struct model *model;
	void *user;			 /* (notify); NULL: nobody to tell */
	struct session *next, *previous; /* in the schedule's runnable */
	bool working;			 /* (lock) a turn is in progress */
	bool queued;			 /* (lock) in the schedule's runnable */
	bool stepping;			 /* (lock) in the hands of the generation thread */
	bool ended;			 /* (lock) the owner is gone; freed after the step */
	_Atomic bool stop;		 /* asks a step to end early */

	enum session_status status; /* (lock) */
	struct err error;	    /* (lock) */
	struct params params;	    /* (lock) */
	char *prompt;		    /* (lock) the last one; NULL: none */
	size_t prompt_length;
	struct answer *answer; /* (lock) the newest; NULL: none */
	char *log;	       /* (lock) */
	size_t log_size, log_room;
	struct session_stats stats; /* (lock) */
	struct undo_mark *undo;	    /* (lock) one per turn */
	size_t undo_count, undo_room;

	struct turn turn; /* (turn), and so are these: */
	struct context context;
	struct drafter drafter;
	struct losses context_losses; /* that all of the context was computed with */
	uint64_t weights_sum;	      /* the model's when it was computed */
	struct token_list history;    /* the conversation's ids without the system message */
};

/* Appends to the log (lock held). A log that cannot grow is cut: memory is too short for more. */
void session_log_append(struct session *s, const char *text, size_t n);
/* One that is in nobody's hands and on nobody's list, for what is restored (state.h). NULL: out of
 * memory, in words. */
struct session *session_alone(struct model *m, struct err *e);
/* Frees a session that nothing refers to any more. */
void session_free(struct session *s);

#endif

/* A conversation. What is marked (lock) is the holder's of the schedule's lock, what is marked
 * (notify) its notify's; what is marked (turn) is the generation thread's while `stepping` is set,
 * without any lock, and the holder's of the lock else. */
#ifndef MOEFS_ENGINE_SERVE_SESSION_STATE_H
#define MOEFS_ENGINE_SERVE_SESSION_STATE_H

#include "engine/compute/context.h"
#include "engine/compute/drafter.h"
#include "engine/serve/answer.h"
#include "engine/serve/conversation.h"
#include "engine/serve/turn.h"
#include "engine/session.h"

struct undo_mark { /* lengths before a turn, and before its answer */
	size_t messages;
	size_t log, answer_log;
};

struct session {
	struct model *model;
	void *user;			 /* (notify); NULL: nobody to tell */
	struct session *next, *previous; /* in the schedule's runnable */
	char *name;			 /* (lock) for the trace, malloced; NULL: it has none */
	uint32_t owner;			 /* (lock) of its lines there */
	const struct observer *observer; /* of its steps; set before its first turn; may be NULL */
	bool background;		 /* likewise: has its steps when no other has */
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
	struct conversation conversation; /* (lock), see there */
	struct token_list tail;	    /* (lock) of the last answer, if it was cut short; else empty */
	bool written;		    /* (lock) its last message was written, and is no turn's answer */
	struct session_stats stats; /* (lock) */
	struct undo_mark *undo;	    /* (lock) one per turn */
	size_t undo_count, undo_room;

	struct turn turn; /* (turn), and so are these: */
	struct context context;
	struct drafter drafter;
	struct losses context_losses; /* that all of the context was computed with */
	uint64_t weights_sum;	      /* the model's when it was computed */
};

/* session_log.c: appends to the log (lock held); with "> " before each line, as a letter quotes its
 * question. A log that cannot grow is cut: memory is too short for more. */
void session_log_append(struct session *s, const char *text, size_t n);
void session_log_quoted(struct session *s, const char *text, size_t n);

/* session_results.c, lock held: the calls of the conversation's last answer, as JSON. */
void session_write_calls(const struct session *s, struct text_out *out);

/* session_submit.c: refuses a text for its bytes. Returns -EFBIG. */
int session_too_many_bytes(const char *what, size_t bytes, uint64_t most, struct err *e);

/* session.c, lock held: as session_param_set of what params_check took. */
int session_param_set_locked(struct session *s, size_t i, const char *value, size_t length,
			     struct err *e);

/* session_texts.c: what messages.json would say, and the system's text in it. */
int session_read_messages(struct messages *read, char **system, const char *text, size_t length,
			  struct err *e);

/* session_submit.c, lock held: as session_again. */
int session_again_locked(struct session *s, enum session_again how, struct err *e);

/* session_turns.c, lock held. A turn begins with the next message. -ENOMEM. */
int session_add_mark(struct session *s, struct err *e);
/* Takes the last turn out; of messages that somebody else wrote, those from the last user's on.
 * false: there is none. */
bool session_take_back(struct session *s);
/* The messages are others now: no turn can be taken back, no answer gone on with. */
void session_forget_turns(struct session *s);
/* Leaves messages out for a turn that has no room for them, and says so. */
void session_drop_turns(struct session *s, size_t first, size_t count, uint32_t turns);
/* Makes the first message what params/system says, while no turn runs. Without memory for that it
 * stays what it was until the next turn ends. */
void session_sync_system(struct session *s);

/* session.c. One that is in nobody's hands and on nobody's list, for what is restored (state.h).
 * NULL: out of memory, in words. */
struct session *session_alone(struct model *m, struct err *e);
/* Frees a session that nothing refers to any more. */
void session_free(struct session *s);

#endif

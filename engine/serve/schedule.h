/* Whose turn it is, and the thread that takes them. Anybody's who holds the lock; the generation
 * thread (generate.c) has it whenever it is not computing or loading. */
#ifndef MOEFS_ENGINE_SERVE_SCHEDULE_H
#define MOEFS_ENGINE_SERVE_SCHEDULE_H

#include "cache/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct model;
struct session;

struct session_list { /* doubly linked through session.next and .previous */
	struct session *first, *last;
};

struct schedule {
	pthread_mutex_t notify; /* held while `changed` is called, so that session_end can wait */
	pthread_mutex_t lock;	/* every field marked (lock), of the model's sessions, too */
	pthread_cond_t work;	/* (lock) something for the generation thread */
	pthread_cond_t loaded;	/* (lock) loading has ended, or unloading */
	bool load_wanted;	/* (lock) */
	bool unload_wanted;	/* (lock) before anything else is done; until it is done */
	uint64_t unloads;	/* (lock) how often it was */
	uint64_t asked_ns;	/* (lock) when somebody last wanted the weights */
	struct err load_error;	/* (lock) */
	struct session_list runnable; /* (lock) sessions with a turn, in the order of their steps */
	struct session *at_step;      /* (lock) whose step is computed; NULL: nobody's */
	uint32_t sessions;	      /* (lock) how many there are */
	pthread_t thread;
	_Atomic bool quit;  /* ends the generation thread */
	_Atomic bool leave; /* ends loading: with the thread, or for an unload */
	_Atomic int state;  /* enum model_state; READY announces what loading made */
};

/* generate.c */
int generate_start(struct model *m, struct err *e);
void generate_stop(struct model *m);
/* Lock held: whether a session has a turn. */
bool generate_works(const struct model *m);

/* schedule.c */
/* Puts a session at the end of `runnable`, takes it out again (lock held). */
void session_queue(struct session *s);
void session_unqueue(struct session *s);
/* A turn that is made ready begins to wait for its steps, and for the model (lock held). */
void session_start_turn(struct session *s);
/* Ends what is done while nobody asks anything, and waits for that (lock held, released meanwhile).
 */
void schedule_send_away(struct model *m);
/* Whether any session has a turn, or one whose last step is not told yet (lock held). */
static inline bool schedule_works(const struct schedule *c)
{
	return c->at_step || c->runnable.first;
}
/* Tells the session's user that something changed. No lock may be held. */
void session_notify(struct session *s);

#endif

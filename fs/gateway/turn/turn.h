/* A turn of a model: its session in the tree, what goes into the session, and what comes out of it
 * as it grows. One thread uses a turn, the one of its request.
 *
 *     turn_begin   waits for a slot, makes the session `http-…`, writes messages, tools and params, and
 *                  starts the answer
 *     turns_wait   until something came, the time is over, or the client has gone away
 *     turn_take    what came: thoughts, text, calls; whether that was all, and whether it failed
 *     turn_usage   once the answer is over: tokens, and how it ended
 *     turn_end     on every way: stops a session that still works, then removes it.
 *
 * Programs send the whole conversation each time. The tree finds again what it has computed of it
 * (MODEL/prefixes), and shares it only among requests with the same API key (params/share_with). */
#ifndef MOEFS_FS_GATEWAY_TURN_TURN_H
#define MOEFS_FS_GATEWAY_TURN_TURN_H

#include "fs/gateway/access.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/http_request.h"

#include <stdint.h>

enum { WISH_PARAMS = 24, SESSION_NAME = 96 };

/* What a model is asked, in the tree's own words. turn_wish_free. */
struct turn_wish {
	const char *model;     /* its name in the tree; borrowed */
	json_object *messages; /* as messages.json holds them; NULL: there is a prompt */
	const char *asked;     /* the request's field that holds them; NULL: messages, or prompt */
	json_object *tools;    /* as tools.json holds them; NULL: none */
	json_object *choices;  /* as the file choices holds them; NULL: none */
	const char *chosen;    /* the request's field that they are from */
	const char *prompt;    /* prompt_size bytes for the model, without its template; borrowed */
	size_t prompt_size;
	bool logprobs; /* turn_take gives their lines */
	bool counts;   /* for turn_tokens: nothing is answered */
	bool beside;   /* a further answer of the same request, whose first has the slot */
	struct turn_wish_param {
		const char *name, *field; /* in params/; in the request */
		char *value;
		bool advice; /* not an error where the model refuses it */
	} params[WISH_PARAMS];
	size_t param_count;
};

/* Adds a param, written as `format` says. field: what the client calls it, for a refusal. -1: *p,
 * there is no memory or room for it. */
__attribute__((format(printf, 5, 6))) int turn_wish_param(struct turn_wish *w, struct problem *p,
							  const char *name, const char *field,
							  const char *format, ...);
void turn_wish_free(struct turn_wish *w);

struct turn;

struct news {			      /* what came since turn_take was last called; news_free */
	struct text thoughts, output; /* whole characters, without the newline that ends the file */
	struct text logprobs; /* whole lines of logprobs.jsonl, without the token that ended it */
	json_object *calls;   /* a list of the new calls, as in tool_calls.json; NULL: none */
	bool over;	      /* nothing more will come */
};

struct usage {
	uint64_t prompt, cached, output;
	bool remembered; /* nothing was computed (-o remember=) */
	uint32_t stop;	 /* the text of params/stop at which it stopped, from 1; 0: at none */
	char finish[16]; /* end, length, repetition, stop, stopped, tool_calls, error */
};

/* The model must exist. -1: *p says what is wrong with the wish, PROBLEM_BUSY, or PROBLEM_GONE. */
int turn_begin(struct turn **out, struct http_request *r, const struct turn_wish *w,
	       struct problem *p);
/* Waits for any of the turns that are not NULL. 0: something came, or the time (-1: forever) is
 * over; -1: *p, PROBLEM_GONE. */
int turns_wait(struct turn *const *turns, size_t count, int client, int milliseconds,
	       struct problem *p);
/* -1: the turn has failed; *p says why, and *n has what came before. */
int turn_take(struct turn *t, struct news *n, struct problem *p);
void turn_usage(struct turn *t, struct usage *u);
/* How many tokens the model would read, for a turn that only counts. Loads the model if necessary,
 * since only then its tokenizer is there. */
int turn_tokens(struct turn *t, int client, uint64_t *tokens, struct problem *p);
/* Called before the last bytes of an answer are sent, so that a client that has read them finds the
 * session gone. NULL is fine. */
void turn_end(struct turn *t);
void news_free(struct news *n);

/* -1: the model does not exist; *p lists those that do. */
int turn_model(const struct http_request *r, const char *model, struct problem *p);
/* turn_session.c: a name that no session of any gateway has. */
void session_new_name(struct gateway *g, char name[SESSION_NAME]);
/* Names this gateway among others (g->id), and removes sessions that killed gateways left. */
void turns_prepare(struct gateway *g);

/* ---- slots: gate.c ---- */

/* At most `active` turns at once, and at most `queue` requests that wait. NULL: out of memory. */
struct gate *gate_create(unsigned active, unsigned queue);
void gate_free(struct gate *g);
/* Waits for a slot. 0; -EBUSY: the queue is full; -EPIPE: the client has gone away meanwhile. */
int gate_enter(struct gate *g, size_t key, int client);
void gate_leave(struct gate *g, size_t key);
/* turn_begin.c: waits for a slot of the gateway's gate; the caller leaves it. -1: *p. */
int turn_enter(struct http_request *r, struct problem *p);
void gate_counts(struct gate *g, unsigned *active, unsigned *waiting);

/* ---- ids of tool calls: call_ids.c ---- */

enum { CALL_MARK = 16 };

/* A turn's mark, made of the request's id and the session's name. No two turns share both. */
void call_mark(char mark[CALL_MARK], const char *request, const char *session);
/* Gives a call, as tool_calls.json holds it, the id that its client gets. */
void call_id_for_client(json_object *call, enum protocol protocol, const char *mark);
/* `messages` (borrowed) with the tree's ids: a new list, or another reference to the same list
 * where it has no client's ids. NULL: out of memory, or messages is NULL. */
json_object *call_ids_for_tree(json_object *messages);

/* ---- for turn_*.c only ---- */

/* A file that grows while the turn works. */
struct growing {
	int fd;		  /* -1: not opened, or ended */
	bool blocks;	  /* read(2) waits; else poll(2) does */
	struct text held; /* read, but not given to the client yet */
	/* The part of the answer that the request already contains: the file begins with it, and
	 * the client gets only what follows. */
	struct text given;
	size_t left_out; /* bytes of `given` that the file has repeated so far */
};

enum grows { GROWS_THOUGHTS, GROWS_OUTPUT, GROWS_LOGPROBS, GROWS };

/* Files whose closing takes no effect, so it can wait until the model has begun to speak. */
enum { TURN_LATER = 2 * WISH_PARAMS + 4 };

struct turn {
	struct gateway *gateway;
	struct turn_session {
		char model[256], name[SESSION_NAME];
		size_t key;	      /* the API key's number; 0: none was needed */
		char share[KEY_MARK]; /* its mark: the session's params/share_with; empty: none */
	} session;
	bool logprobs, tools; /* these are wanted */
	const char *asked;    /* the request's field that the model reads */
	const char *formed;   /* the request's field that gives a schema, or the tools */
	bool goes_on;	      /* the last message is an assistant's: continue it */
	bool slot, made, submitted, over, failed;
	struct growing files[GROWS];
	int calls_fd;
	bool calls_ready; /* there may be more calls */
	size_t calls;	  /* that were given to the client */
	enum protocol protocol;
	char mark[CALL_MARK]; /* in the ids of its calls */
	int later[TURN_LATER];
	size_t later_count;
	bool told; /* something has come */
	struct client_read reading;
	bool slow;	  /* a read waited long */
	bool quick;	  /* the last news came soon after the news before */
	uint64_t told_ns; /* when the last news came */
	bool counted;	  /* it is over, and `usage` is final */
	struct usage usage;
};

static inline const char *turn_tree(const struct turn *t)
{
	return t->gateway->options->tree;
}

/* The verb for ctl that starts the answer. */
static inline const char *turn_verb(const struct turn *t)
{
	return t->goes_on ? "continue" : "answer";
}

/* turn_begin.c: opens the files that grow, unless they are open already. */
int turn_open_files(struct turn *t, struct problem *p);
/* turn_session.c: sets *p to what the session says of its last failure, and returns -1. code: the
 * failed call's -errno. field: the request's field that was refused; NULL: the turn failed. */
int turn_refused(const struct turn *t, int code, const char *field, struct problem *p);
/* turn_session.c: closes a file once nobody waits for that, and closes all of these. */
void turn_close_later(struct turn *t, int fd);
void turn_close_now(struct turn *t);
/* turn_session.c: makes a session, and removes it. */
int session_make(struct turn *t, struct problem *p);
void session_leave(struct turn *t);
/* turn_submit.c: writes the wish into the session, and starts the answer. */
int turn_submit(struct turn *t, const struct turn_wish *w, struct problem *p);

#endif

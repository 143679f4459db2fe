/* A turn of a model: its session in the tree, the request's data that goes into the session, and
 * the growing answer. Only the thread of its request uses a turn.
 *
 *     turn_begin   waits for a slot, makes the session `http-…`, writes messages, tools and
 *                  params, and starts the answer
 *     turns_wait   waits until there is news, the time is over, or the client has disconnected
 *     turn_take    takes the news: thoughts, text, calls; whether it is complete or failed
 *     turn_usage   after the end of the answer: tokens, and how the answer ended
 *     turn_end     in every case: stops a session that still works, then removes it
 *
 * Programs send the whole conversation each time. The tree finds the part that it has already
 * computed (MODEL/prefixes), and shares it only among requests with the same API key
 * (params/share_with). */
#ifndef MOEFS_FS_GATEWAY_TURN_TURN_H
#define MOEFS_FS_GATEWAY_TURN_TURN_H

#include "fs/gateway/access.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/http_request.h"

#include <stdint.h>

enum { WISH_PARAMS = 24, SESSION_NAME = 96 };

/* A question to a model, in the tree's own terms. Free with turn_wish_free. */
struct turn_wish {
	const char *model;     /* its name in the tree; borrowed */
	json_object *messages; /* in the form of messages.json; NULL: there is a prompt */
	const char *asked;     /* the request's field with them; NULL: messages, or prompt */
	json_object *tools;    /* in the form of tools.json; NULL: none */
	json_object *choices;  /* in the form of the file choices; NULL: none */
	const char *chosen;    /* the request's field with the choices */
	const char *prompt;    /* prompt_size bytes for the model, without the template; borrowed */
	size_t prompt_size;
	bool logprobs; /* whether turn_take returns lines of logprobs */
	bool counts;   /* only for turn_tokens: there is no answer */
	bool beside;   /* a further answer to the same request, which has a slot already */
	struct turn_wish_param {
		const char *name, *field; /* names in params/ and in the request */
		char *value;
		bool advice; /* no error if the model refuses it */
	} params[WISH_PARAMS];
	size_t param_count;
};

/* Adds a param, formatted by `format`. field: the client's name for the param, for a refusal. -1:
 * *p, there is no memory or no room. */
__attribute__((format(printf, 5, 6))) int turn_wish_param(struct turn_wish *w, struct problem *p,
							  const char *name, const char *field,
							  const char *format, ...);
void turn_wish_free(struct turn_wish *w);

struct turn;

struct news {			      /* new since the last turn_take; free with news_free */
	struct text thoughts, output; /* whole characters, without the file's last newline */
	struct text logprobs; /* whole lines of logprobs.jsonl, without the final token's */
	json_object *calls;   /* the new calls, a list as in tool_calls.json; NULL: none */
	bool over;	      /* nothing more will come */
};

struct usage {
	uint64_t prompt, cached, output;
	bool remembered; /* remembered, not computed (-o remember=) */
	uint32_t stop;	 /* index in params/stop of the text that stopped it, from 1; or 0 */
	char finish[16]; /* end, length, repetition, stop, stopped, tool_calls, error */
};

/* Begins a turn. The model must exist. -1: *p: the wish is wrong, PROBLEM_BUSY, or PROBLEM_GONE. */
int turn_begin(struct turn **out, struct http_request *r, const struct turn_wish *w,
	       struct problem *p);
/* Waits for any of the turns that are not NULL. 0: there is news, or the time (-1: forever) is
 * over; -1: *p, PROBLEM_GONE. */
int turns_wait(struct turn *const *turns, size_t count, int client, int milliseconds,
	       struct problem *p);
/* -1: the turn has failed; *p has the reason, and *n the news before the failure. */
int turn_take(struct turn *t, struct news *n, struct problem *p);
void turn_usage(struct turn *t, struct usage *u);
/* Counts the tokens that the model would read, for a turn that only counts. Loads the model if
 * necessary, since its tokenizer exists only then. */
int turn_tokens(struct turn *t, int client, uint64_t *tokens, struct problem *p);
/* Call before the last bytes of an answer are sent, so that the session is gone when the client has
 * read them. t may be NULL. */
void turn_end(struct turn *t);
void news_free(struct news *n);

/* -1: the model does not exist; *p lists the models. */
int turn_model(const struct http_request *r, const char *model, struct problem *p);
/* turn_session.c: makes a name that no session of any gateway has. */
void session_new_name(struct gateway *g, char name[SESSION_NAME]);
/* Gives this gateway a unique name (g->id), and removes sessions left by killed gateways. */
void turns_prepare(struct gateway *g);

/* ---- slots: gate.c ---- */

/* Allows `active` turns at once, and `queue` waiting requests. NULL: out of memory. */
struct gate *gate_create(unsigned active, unsigned queue);
void gate_free(struct gate *g);
/* Waits for a slot. 0; -EBUSY: the queue is full; -EPIPE: the client has disconnected. */
int gate_enter(struct gate *g, size_t key, int client);
void gate_leave(struct gate *g, size_t key);
/* turn_begin.c: waits for a slot of the gateway's gate; the caller must leave it. -1: *p. */
int turn_enter(struct http_request *r, struct problem *p);
void gate_counts(struct gate *g, unsigned *active, unsigned *waiting);

/* ---- ids of tool calls: call_ids.c ---- */

enum { CALL_MARK = 16 };

/* Makes a turn's mark from the request's id and the session's name. No two turns share both. */
void call_mark(char mark[CALL_MARK], const char *request, const char *session);
/* Gives a call (in the form of tool_calls.json) the id for the client. */
void call_id_for_client(json_object *call, enum protocol protocol, const char *mark);
/* Returns `messages` (borrowed) with the tree's ids: a new list, or another reference to the same
 * list if it has no client's ids. NULL: out of memory, or messages is NULL. */
json_object *call_ids_for_tree(json_object *messages);

/* ---- for turn_*.c only ---- */

/* A file that grows while the turn works. */
struct growing {
	int fd;		  /* -1: not opened, or ended */
	bool blocks;	  /* wait in read(2); false: in poll(2) */
	struct text held; /* read from the file, not yet given to the client */
	/* The part of the answer that the request already contains. The file begins with it, but
	 * the client gets only the rest. */
	struct text given;
	size_t left_out; /* bytes of `given` that the file has repeated so far */
};

enum grows { GROWS_THOUGHTS, GROWS_OUTPUT, GROWS_LOGPROBS, GROWS };

/* Files that can be closed later, when the model has begun to answer, since closing has no
 * effect. */
enum { TURN_LATER = 2 * WISH_PARAMS + 4 };

struct turn {
	struct gateway *gateway;
	struct turn_session {
		char model[256], name[SESSION_NAME];
		size_t key;	      /* number of the API key; 0: no key was needed */
		char share[KEY_MARK]; /* the key's mark, for params/share_with; empty: none */
	} session;
	bool logprobs, tools; /* whether the request wants them */
	const char *asked;    /* the request's field with the model's input */
	const char *formed;   /* the request's field with a schema or the tools */
	bool goes_on;	      /* the last message is the assistant's: continue it */
	bool slot, made, submitted, over, failed;
	struct growing files[GROWS];
	int calls_fd;
	bool calls_ready; /* tool_calls.json may have more calls */
	size_t calls;	  /* number of calls given to the client */
	enum protocol protocol;
	char mark[CALL_MARK]; /* in the ids of its calls */
	int later[TURN_LATER];
	size_t later_count;
	bool told; /* there has been news */
	struct client_read reading;
	bool slow;	  /* a read took long */
	bool quick;	  /* the last two pieces of news came in quick succession */
	uint64_t told_ns; /* time of the last news */
	bool counted;	  /* the turn is over, and `usage` is final */
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
/* turn_session.c: sets *p from the session's last failure, and returns -1. code: the failed call's
 * -errno. field: the request's field that was refused; NULL: the turn failed. */
int turn_refused(const struct turn *t, int code, const char *field, struct problem *p);
/* turn_session.c: turn_close_later keeps a file to be closed when nobody waits; turn_close_now
 * closes all of them. */
void turn_close_later(struct turn *t, int fd);
void turn_close_now(struct turn *t);
/* turn_session.c: session_make makes the turn's session, session_leave removes it. */
int session_make(struct turn *t, struct problem *p);
void session_leave(struct turn *t);
/* turn_submit.c: writes the wish into the session, and starts the answer. */
int turn_submit(struct turn *t, const struct turn_wish *w, struct problem *p);

#endif

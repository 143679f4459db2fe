/* Why a request was not answered: the kind of failure, and a sentence for people. Each protocol
 * writes it in its own format; the HTTP status is the same in nearly all cases. */
#ifndef MOEFS_FS_GATEWAY_PROBLEM_H
#define MOEFS_FS_GATEWAY_PROBLEM_H

#include <json-c/json.h>
#include <stdint.h>

enum problem_kind {
	PROBLEM_NONE,
	PROBLEM_INVALID,   /* the request is wrong, or refers to something that does not exist */
	PROBLEM_KEY,	   /* the key is missing or unknown */
	PROBLEM_FORBIDDEN, /* because of host, origin or path */
	PROBLEM_NOT_FOUND,
	PROBLEM_MODEL,	  /* there is no such model */
	PROBLEM_PREVIOUS, /* the response to continue is not kept */
	PROBLEM_THREAD,	  /* the thread to continue is not kept */
	PROBLEM_METHOD,
	PROBLEM_TOO_LARGE, /* the body is too large */
	PROBLEM_TOO_LONG,  /* the conversation is too long for the model's context */
	PROBLEM_BUSY,	   /* too many requests */
	PROBLEM_FAILED,	   /* the model or this gateway failed */
	PROBLEM_NOT_NOW,   /* the tree or the model is not available at the moment */
	PROBLEM_GONE,	   /* the client has disconnected; nobody reads this answer */
	PROBLEM_KINDS,
};

enum protocol { PROTOCOL_OPENAI, PROTOCOL_ANTHROPIC };

struct problem {
	enum problem_kind kind;
	char param[64]; /* the field that is wrong; "": none */
	char text[1024];
	uint64_t tokens, maximum; /* for PROBLEM_TOO_LONG, if known; else 0 */
};

/* Sets *p and returns -1, so that a failure is one line. param: the request's field; NULL: none. */
__attribute__((format(printf, 4, 5))) int problem_set(struct problem *p, enum problem_kind kind,
						      const char *param, const char *format, ...);
int problem_no_memory(struct problem *p); /* returns -1 */
int problem_gone(struct problem *p);	  /* returns -1: the client has disconnected */
unsigned problem_status(const struct problem *p, enum protocol protocol);
/* Seconds for Retry-After; 0: none. */
unsigned problem_retry(const struct problem *p);
/* The body of an error, or the data of a stream's error event. request: the request's id, used only
 * in Anthropic's format. NULL: out of memory. */
json_object *problem_json(const struct problem *p, enum protocol protocol, const char *request);

#endif

/* Why a request was not answered: the kind of failure, and a sentence for people. Each protocol
 * writes it in its own shape; the HTTP status is the same in nearly all cases. */
#ifndef MOEFS_FS_GATEWAY_PROBLEM_H
#define MOEFS_FS_GATEWAY_PROBLEM_H

#include <json-c/json.h>
#include <stdint.h>

enum problem_kind {
	PROBLEM_NONE,
	PROBLEM_INVALID,   /* the request is wrong, or asks for something that is not there */
	PROBLEM_KEY,	   /* the key is missing or unknown */
	PROBLEM_FORBIDDEN, /* by host, origin or path */
	PROBLEM_NOT_FOUND,
	PROBLEM_MODEL,	  /* there is no such model */
	PROBLEM_PREVIOUS, /* the response that it continues is not kept */
	PROBLEM_THREAD,	  /* the thread that it continues is not kept */
	PROBLEM_METHOD,
	PROBLEM_TOO_LARGE, /* the body */
	PROBLEM_TOO_LONG,  /* the conversation, for the model's context */
	PROBLEM_BUSY,	   /* too many requests */
	PROBLEM_FAILED,	   /* the model, or this gateway */
	PROBLEM_NOT_NOW,   /* the tree or the model is not there at the moment */
	PROBLEM_GONE,	   /* the client; nobody reads this one */
	PROBLEM_KINDS,
};

enum protocol { PROTOCOL_OPENAI, PROTOCOL_ANTHROPIC };

struct problem {
	enum problem_kind kind;
	char param[64]; /* the field that is wrong; "": none */
	char text[1024];
	uint64_t tokens, maximum; /* of PROBLEM_TOO_LONG, where they are known; else 0 */
};

/* Returns -1, so that a failure is one line. param: the request's field; NULL: none. */
__attribute__((format(printf, 4, 5))) int problem_set(struct problem *p, enum problem_kind kind,
						      const char *param, const char *format, ...);
int problem_no_memory(struct problem *p); /* -1 */
int problem_gone(struct problem *p);	  /* -1: the client has gone away */
unsigned problem_status(const struct problem *p, enum protocol protocol);
/* Seconds for Retry-After; 0: none. */
unsigned problem_retry(const struct problem *p);
/* The body of an error, or the data of a stream's error event. request: its id, which only
 * Anthropic's shape has. NULL: out of memory. */
json_object *problem_json(const struct problem *p, enum protocol protocol, const char *request);

#endif

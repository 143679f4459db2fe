/* Why a request was not answered: what kind of failure, and a sentence for people. Each protocol
 * writes it in its own shape; the status is the same in all of them. */
#ifndef MOEFS_FS_GATEWAY_PROBLEM_H
#define MOEFS_FS_GATEWAY_PROBLEM_H

#include <json-c/json.h>
#include <stdint.h>

enum problem_kind {
	PROBLEM_NONE,
	PROBLEM_INVALID, /* the request is wrong, or asks for what is not there */
	PROBLEM_KEY,
	PROBLEM_FORBIDDEN,
	PROBLEM_NOT_FOUND,
	PROBLEM_MODEL,	  /* there is no such model */
	PROBLEM_PREVIOUS, /* the response that it goes on from is not kept */
	PROBLEM_THREAD,	  /* nor is the thread that it continues */
	PROBLEM_METHOD,
	PROBLEM_TOO_LARGE, /* the body */
	PROBLEM_TOO_LONG,  /* the conversation, for the model's context */
	PROBLEM_BUSY,
	PROBLEM_FAILED,	 /* the model, or this gateway */
	PROBLEM_NOT_NOW, /* the tree or the model cannot be had at the moment */
	PROBLEM_GONE,	 /* the client; nobody reads of it */
	PROBLEM_KINDS,
};

enum protocol { PROTOCOL_OPENAI, PROTOCOL_ANTHROPIC };

struct problem {
	enum problem_kind kind;
	char param[64]; /* the field that is wrong; "": none */
	char text[1024];
	uint64_t tokens, maximum; /* of PROBLEM_TOO_LONG, where they are known; else 0 */
};

/* Returns -1, so that a failure is one line. param: NULL is none. */
__attribute__((format(printf, 4, 5))) int problem_set(struct problem *p, enum problem_kind kind,
						      const char *param, const char *format, ...);
unsigned problem_status(const struct problem *p, enum protocol protocol);
/* Seconds for Retry-After; 0: none. */
unsigned problem_retry(const struct problem *p);
/* The body of an error, or the data of a stream's error event. request: its id, as the answer's
 * headers have it; not used by OpenAI's shape. NULL: out of memory. */
struct json_object *problem_json(const struct problem *p, enum protocol protocol,
				 const char *request);

#endif

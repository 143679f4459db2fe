/* What error.json says: the tree's last failure as a code, a sentence and numbers. The code alone
 * decides what a client is answered; the sentence is for people and is passed on. */
#ifndef MOEFS_FS_GATEWAY_FAILURE_H
#define MOEFS_FS_GATEWAY_FAILURE_H

#include "fs/gateway/problem.h"

#include <stdint.h>

struct failure {
	char code[32]; /* as moefs(5) lists them; "": it says nothing */
	char message[1024];
	char reason[1024]; /* the message's end, without the tree's name for what is wrong; "": none
			    */
	uint64_t tokens, maximum; /* of prompt_too_long; 0: not known */
};

/* Reads the error.json of a folder of the tree. member: "refused" or "denied", which are there
 * where another failure stands before them; NULL, or without that member, the first. Returns 0, or
 * -errno, with an empty *f. */
__attribute__((format(printf, 4, 5))) int failure_read(struct failure *f, const char *member,
						       const char *tree, const char *folder, ...);
/* PROBLEM_NONE: the code is not known, or there is none. */
enum problem_kind failure_kind(const struct failure *f);

#endif

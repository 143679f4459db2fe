/* What all requests share. */
#ifndef MOEFS_FS_GATEWAY_GATEWAY_H
#define MOEFS_FS_GATEWAY_GATEWAY_H

#include "fs/gateway/turn/blocked.h"
#include "fs/gateway/options.h"
#include "fs/gateway/turn/removal.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

struct gate;
struct kept;
struct responses_kept;
struct keys;

struct gateway {
	const struct options *options;
	struct gate *gate; /* how many answer at once, and who waits */
	struct keys *keys; /* NULL: none is asked for */
	struct kept *kept; /* sessions of finished requests */
	struct responses_kept *responses;
	struct removal removal;	       /* sessions that are to go */
	struct blocked blocked;	       /* threads that wait for a token in a read */
	dev_t device;		       /* the tree's, when this gateway began */
	bool polls;		       /* whether the tree's files can be polled */
	char id[64];		       /* MACHINE.PROCESS.START: in the names of its sessions */
	void (*say)(const char *line); /* to who has started it; from any thread */
	atomic_bool stopping;
	atomic_uint_fast64_t next_session;
	atomic_uint_fast64_t
		model_known; /* which was found, and in which second (turn_refused.c) */
	struct counters {
		atomic_uint_fast64_t requests[6]; /* by the first digit of the status */
		atomic_uint_fast64_t active, dropped;
		atomic_uint_fast64_t prompt_tokens, cached_tokens, output_tokens;
	} counters;
};

#endif

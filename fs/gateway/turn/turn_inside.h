/* What the files of a turn share. Others know it by turn.h. */
#ifndef MOEFS_FS_GATEWAY_TURN_TURN_INSIDE_H
#define MOEFS_FS_GATEWAY_TURN_TURN_INSIDE_H

#include "fs/gateway/gateway.h"
#include "fs/gateway/turn/call_ids.h"
#include "fs/gateway/turn/kept.h"
#include "fs/gateway/turn/tree.h"
#include "fs/gateway/turn/turn.h"

/* A file that grows while the turn works. */
struct growing {
	int fd;		  /* -1: it was not opened, or has ended */
	bool blocks;	  /* it waits in read, and not in poll */
	struct text held; /* what cannot be given yet */
	/* What the request has of the answer already: the file begins with it, and the client is
	 * given what comes behind. */
	struct text given;
	size_t left_out; /* of it */
};

enum grows { GROWS_THOUGHTS, GROWS_OUTPUT, GROWS_LOGPROBS, GROWS };

/* Files whose closing does nothing, and so has time until the model has begun to speak. */
enum { TURN_LATER = 2 * WISH_PARAMS + 4 };

struct turn {
	struct gateway *gateway;
	struct kept_session session; /* its model, its name, and by what it is known again */
	bool logprobs, tools;	     /* are wanted */
	const char *asked;	     /* the request's field that it reads */
	const char *formed;	     /* the request's field that says its form, or of its tools */
	bool answers;		     /* messages, which it can do again */
	bool goes_on;		     /* with the last of them, an assistant's */
	bool slot, made, submitted, over, failed, keeps, used;
	struct growing files[GROWS];
	int calls_fd;
	bool calls_ready; /* there may be more of them */
	size_t calls;	  /* that were given */
	enum protocol protocol;
	char mark[CALL_MARK]; /* in the ids of its calls */
	int later[TURN_LATER];
	size_t later_count;
	bool told; /* something has come */
	struct blocked_read reading;
	bool slow;  /* what was waited for in a read did not come soon */
	bool quick; /* what came last came soon behind what came before */
	uint64_t told_ns;
	bool counted; /* it is over, and this is what it has cost: */
	struct usage usage;
};

static inline const char *turn_tree(const struct turn *t)
{
	return t->gateway->options->tree;
}

/* Has the messages answered. */
static inline const char *turn_verb(const struct turn *t)
{
	return t->goes_on ? "continue" : "answer";
}

/* turn.c: what comes of it, from its beginning; what is open already stays so. */
int turn_open_files(struct turn *t, struct problem *p);
/* turn_later.c: has a file closed once nobody waits for that. */
void turn_close_later(struct turn *t, int fd);
void turn_close_now(struct turn *t);
/* turn_refused.c: what the session says of its last failure, -1. */
int turn_refused(const struct turn *t, int code, const char *field, struct problem *p);
/* turn_session.c: makes a session, or goes on with one; gives it back, kept if it may be, else
 * removed. */
int session_find(struct turn *t, const struct wish *w, struct problem *p);
void session_leave(struct turn *t, bool keep);
/* turn_submit.c: writes the wish into the session, and has it answered. */
int session_submit(struct turn *t, const struct wish *w, struct problem *p);
/* turn_stats.c: the number of a line `KEY NUMBER`; 0: there is none. */
uint64_t stats_number(const char *stats, const char *key);

#endif

/* Sessions of finished requests: the ones that are kept to go on with, and the ones that are
 * removed.
 *
 * Programs send a whole conversation each time. A session that answered its beginning stays in the
 * tree as `http-kept-…`, so that the next request computes only what is new. A conversation is
 * known again by the hashes of its messages. The messages are always written whole, and the tree
 * computes from the first token that differs: two messages with the same hash cost time, but never
 * give a wrong word. One key's requests never go on with another key's sessions.
 *
 * A session is removed at once, except in a tree across another file system. That closes files some
 * time after close(2) has returned, and sshfs before 3.7.6, with several connections, crashes over
 * a file whose folder has gone by then. There a session is removed two seconds later. */
#ifndef MOEFS_FS_GATEWAY_TURN_KEPT_SESSIONS_H
#define MOEFS_FS_GATEWAY_TURN_KEPT_SESSIONS_H

#include <json-c/json.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEPT_NAME = 96, KEPT_PARAMS = 512 };

struct kept_session {
	char model[256], name[KEPT_NAME];
	size_t key;
	char params[KEPT_PARAMS]; /* that requests set: `NAME=VALUE ` or `NAME ` (turn_submit.c) */
	struct kept_message {
		uint64_t hash;
		size_t bytes;
	} * messages; /* the tools, then each message; malloc'ed */
	size_t count;
};

/* Sets the hashes, of messages and tools as the tree holds them. False: out of memory. */
bool kept_hash(struct kept_session *s, json_object *tools, json_object *messages);

struct kept;
struct removal;
/* NULL: out of memory. */
struct kept *kept_create(struct removal *removal, unsigned most);
/* Removes all kept sessions from the tree. NULL is fine. */
void kept_free(struct kept *k);

enum kept_found { KEPT_NONE, KEPT_WHOLE, KEPT_BEGINNING };
/* Takes the session that shares the longest beginning with `like` (its model, key and hashes).
 * KEPT_WHOLE: `like` begins with all of the session's messages. KEPT_BEGINNING: with only some of
 * them, but enough for a copy of its state. */
enum kept_found kept_take(struct kept *k, const struct kept_session *like,
			  struct kept_session *out);
/* Puts a session in, which `k` then owns. The oldest may have to go. */
void kept_put(struct kept *k, struct kept_session *s);
/* Removes the oldest. False: there is none. */
bool kept_drop(struct kept *k);
unsigned kept_count(struct kept *k);

/* ---- removal; any thread ---- */

struct removal {
	const char *tree;
	bool later;
	pthread_mutex_t lock;
	struct removed_session *waiting; /* the oldest first */
	size_t count, capacity;
};

void session_removal_begin(struct removal *r, const char *tree, bool later);
/* Removes a session that nobody uses any more. */
void session_remove(struct removal *r, const char *model, const char *session);
/* Called each second. */
void session_removal_tick(struct removal *r);
/* Waits until all are removed. */
void session_removal_end(struct removal *r);

#endif

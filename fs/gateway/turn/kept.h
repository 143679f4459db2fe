/* Sessions of finished requests, kept in the tree as `http-kept-…`, so that a conversation that
 * comes again, longer by a turn, goes on with what was computed of it.
 *
 * Programs send all of a conversation each time. It is known again by its messages, whose hashes
 * are compared; the session is then given the messages as they came, and the tree computes from the
 * first token that differs, so that a hash that two messages share costs time and never a wrong
 * word. Nobody is given what another key's requests have left. */
#ifndef MOEFS_FS_GATEWAY_TURN_KEPT_H
#define MOEFS_FS_GATEWAY_TURN_KEPT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEPT_NAME = 96, KEPT_PARAMS = 512 };

struct kept_session {
	char model[256], name[KEPT_NAME];
	size_t key;
	char params[KEPT_PARAMS]; /* that were set: `NAME=VALUE ` or `NAME ` (turn_submit.c) */
	struct kept_message {
		uint64_t hash;
		size_t bytes;
	} * messages; /* the tools, and each message; malloc'ed */
	size_t count;
};

/* messages and tools as the tree has them. False: out of memory. */
bool kept_hash(struct kept_session *s, struct json_object *tools, struct json_object *messages);

struct kept;
struct removal;
/* NULL: out of memory. */
struct kept *kept_create(struct removal *removal, unsigned most);
/* Removes all of them from the tree. NULL is fine. */
void kept_free(struct kept *k);

enum kept_found { KEPT_NONE, KEPT_WHOLE, KEPT_BEGINNING };
/* Takes out the one that has most of the beginning of `like` (its model, key and hashes): all that
 * was asked of it is a beginning of this, or only a part, worth a copy of its state. */
enum kept_found kept_take(struct kept *k, const struct kept_session *like,
			  struct kept_session *out);
/* Puts one in, which is the kept's from then on; the oldest may have to go. */
void kept_put(struct kept *k, struct kept_session *s);
/* The oldest goes. False: there is none. */
bool kept_drop(struct kept *k);
unsigned kept_count(struct kept *k);

#endif

/* Ids of tool calls, as the tree has them and as clients do.
 *
 * The tree's are nine letters and digits, since templates want no other, and they depend on the
 * conversation alone: a template may write them into the prompt, and the same conversation must
 * give the same text. So every first answer's first call is c00001000 there. Clients expect ids
 * that differ between conversations, in their protocol's form: PREFIX, the tree's id, and a mark of
 * the turn. An id that a model made in another form stays as it is. The tree's id is part of it, so
 * that nothing needs to be remembered: whichever gateway is given such an id back writes the
 * tree's. */
#ifndef MOEFS_FS_GATEWAY_TURN_CALL_IDS_H
#define MOEFS_FS_GATEWAY_TURN_CALL_IDS_H

#include "fs/gateway/problem.h"

enum { CALL_MARK = 16 };

/* Of a request's id and its session's name, which no other turn has both of. */
void call_mark(char mark[CALL_MARK], const char *request, const char *session);
/* Gives a call, as tool_calls.json has it, the id that its client gets. */
void call_id_for_client(struct json_object *call, enum protocol protocol, const char *mark);
/* `messages` (borrowed) with the tree's ids; new, or another reference to the same where they have
 * no id of a client's. NULL: out of memory, or there were none. */
struct json_object *call_ids_for_tree(struct json_object *messages);

#endif

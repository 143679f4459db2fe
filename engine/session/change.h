/* Changes to a session together with the turn that uses them, all or nothing
 * (session_again_changed). */
#ifndef MOEFS_ENGINE_SESSION_CHANGE_H
#define MOEFS_ENGINE_SESSION_CHANGE_H

#include "engine/session/session_state.h"

struct change { /* zero-initialise; freed by change_free */
	/* The new values; after change_apply the old ones. */
	struct messages messages;
	struct document tools;
	bool has_messages, has_tools;
	char *system; /* of the messages that were read */
	/* What goes with the old messages and params. */
	struct messages results;
	struct undo_mark *undo;
	size_t undo_count, undo_room;
	struct token_list tail;
	bool written;
	struct params params;
};

/* Reads the texts among the changes, without a session. */
int change_read(struct change *c, const struct session_change *changes, size_t count,
		struct err *e);
/* Checks the params. A grammar is checked against the format in the changes before it, or else
 * against `format`, the session's. Compiles grammars, which may take half a second. */
int change_check_params(const struct session *s, enum format_mode format,
			const struct session_change *changes, size_t count, struct err *e);
/* Changes the session, which is at rest, and fills its `asked` (asked.h). After an error the
 * session is unchanged. */
int change_apply(struct session *s, struct change *c, const struct session_change *changes,
		 size_t count, enum session_again how, struct err *e);
void change_free(struct change *c);

#endif

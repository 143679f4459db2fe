/* Changes to a session together with the turn that uses them, all or nothing
 * (session_again_changed). */
#ifndef MOEFS_ENGINE_SESSION_CHANGE_H
#define MOEFS_ENGINE_SESSION_CHANGE_H

#include "engine/session/session_state.h"

struct change { /* zero-initialise; freed by change_free */
	/* The new values; after change_apply the old values. */
	struct messages messages;
	struct document tools;
	bool has_messages, has_tools;
	char *system; /* text of the system message among the new messages */
	/* After change_apply: what belongs to the old messages and params. */
	struct messages results;
	struct undo_mark *undo;
	size_t undo_count, undo_room;
	struct token_list tail;
	bool written;
	struct params params;
};

/* Parses the texts among the changes, without a session. */
int change_read(struct change *c, const struct session_change *changes, size_t count,
		struct err *e);
/* Checks the params among the changes. A grammar is checked for the format that an earlier change
 * sets, or else for `format`, the session's. Compiles grammars, which may take half a second. */
int change_check_params(const struct session *s, enum format_mode format,
			const struct session_change *changes, size_t count, struct err *e);
/* Changes a session without a turn in progress, and fills its `asked` (asked.h). After an error the
 * session is unchanged. */
int change_apply(struct session *s, struct change *c, const struct session_change *changes,
		 size_t count, enum session_again how, struct err *e);
void change_free(struct change *c);

#endif

/* What tools gave for the calls of the last answer (session.h). */
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>

int session_tool_result_add(struct session *s, const char *text, size_t length, bool *complete,
			    struct err *e)
{
	(void)s, (void)text, (void)length, (void)complete;
	return err_set(e, ENOSYS, "tool results cannot be given yet");
}

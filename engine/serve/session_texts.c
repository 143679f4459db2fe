/* The texts of a conversation that are read and written whole (session.h). */
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int not_yet(struct err *e)
{
	return err_set(e, ENOSYS, "conversations cannot be edited yet");
}

char *session_text_get(const struct session *s, enum session_text what, size_t *length,
		       struct err *e)
{
	static const char *const EMPTY[] = {
		[SESSION_VARIABLES] = "{}\n",
		[SESSION_TOOLS] = "[]\n",
		[SESSION_TOOL_CALLS] = "[]\n",
		[SESSION_TOOL_RESULTS] = "[]\n",
	};
	(void)s;
	if (!EMPTY[what]) {
		not_yet(e);
		return NULL;
	}
	char *text = strdup(EMPTY[what]);
	if (!text)
		err_set(e, ENOMEM, "out of memory for a text");
	else
		*length = strlen(text);
	return text;
}

int session_text_set(struct session *s, enum session_text what, const char *text, size_t length,
		     struct err *e)
{
	(void)s, (void)what, (void)text, (void)length;
	return not_yet(e);
}

int session_again(struct session *s, enum session_again how, struct answer **answer, struct err *e)
{
	(void)s, (void)how, (void)answer;
	return not_yet(e);
}

int session_tool_result_add(struct session *s, const char *text, size_t length, bool *complete,
			    struct err *e)
{
	(void)s, (void)text, (void)length, (void)complete;
	return not_yet(e);
}

int session_tool_results_submit(struct session *s, struct answer **answer, struct err *e)
{
	(void)s, (void)answer;
	return not_yet(e);
}

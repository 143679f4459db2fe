/* The results of a turn for its session (struct turn_event): the text of tokens, and the end. */
#include "engine/model/model_state.h"
#include "engine/turn/turn.h"

#include <errno.h>
#include <stdlib.h>

void turn_event_free(struct turn_event *ev)
{
	answering_free_piece(&ev->piece);
	text_out_free(&ev->logprobs);
	text_out_free(&ev->chosen);
	free(ev->drops);
	*ev = (struct turn_event){0};
}

void turn_over(struct turn_event *ev, const char *finish, int failed, const struct err *e)
{
	bool stopped = failed == -ECANCELED;
	ev->finish = stopped ? "stopped" : finish;
	ev->failed = stopped ? 0 : failed;
	if (ev->failed)
		ev->e = *e;
}

/* Marks of thinking and tool calls are passed on to the splitter, even if they are control tokens.
 */
static const char *turn_token_bytes(const struct turn_state *t, uint32_t id, size_t *n)
{
	const struct tokenizer *tokens = t->env->model->loaded.tokenizer;
	const char *bytes = tokenizer_bytes(tokens, id, false, n);
	if (*n || !t->chat)
		return bytes;
	bytes = tokenizer_bytes(tokens, id, true, n);
	if (!split_form_marks(t->session->answering.form, bytes, *n))
		*n = 0;
	return bytes;
}

int turn_say(struct turn_state *t, uint32_t id, struct turn_event *ev, struct err *e)
{
	size_t n;
	const char *bytes = turn_token_bytes(t, id, &n);
	return answering_take(&t->session->answering, &t->dialogue.messages, bytes, n, &ev->piece,
			      e);
}

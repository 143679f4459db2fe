/* ask and score: questions that a session of their own answers, by the model. */
#include "fs/files/files.h"
#include "fs/files/question.h"

static uint64_t most(const struct handle *h)
{
	return model_max_prompt_bytes(h->node.model->model);
}

static int ask_submit(struct handle *h, struct err *e)
{
	return session_submit(h->node.conversation->session, h->written.data, h->written.length,
			      &h->answer, e);
}

const struct question ask_question = {
	.open = question_session,
	.most = most,
	.why = "do not fit into the context (info/max_prompt_bytes)",
	.submit = ask_submit,
};

static int score_submit(struct handle *h, struct err *e)
{
	return session_score(h->node.conversation->session, h->written.data, h->written.length,
			     &h->answer, e);
}

const struct question score_question = {
	.open = question_session,
	.most = most,
	.why = "do not fit into the context (info/max_prompt_bytes)",
	.submit = score_submit,
};

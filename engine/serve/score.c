/* How likely a text is: see score.h. */
#include "engine/serve/score.h"

#include "cache/clock.h"
#include "engine/serve/chunk.h"
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"
#include "engine/json/text_out.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

/* Escapes that printf has: \n, \t, \r, \" and \\, and \xHH for other control characters and for
 * bytes that are no character of their own. */
static void write_escaped(struct text_out *o, const char *bytes, size_t n)
{
	static const char marks[] = "\"\\\n\t\r", letters[] = "\"\\ntr";
	char escape[8];
	for (size_t i = 0, whole = utf8_valid_length(bytes, n); i < n; i++) {
		unsigned char c = (unsigned char)bytes[i];
		const char *mark = c ? strchr(marks, c) : NULL;
		if (i > whole)
			whole = i + utf8_valid_length(bytes + i, n - i);
		if (mark)
			(void)snprintf(escape, sizeof escape, "\\%c", letters[mark - marks]);
		else if (i == whole || c < ' ' || c == 127)
			(void)snprintf(escape, sizeof escape, "\\x%02x", c);
		else
			(void)snprintf(escape, sizeof escape, "%c", c);
		text_out_string(o, escape);
	}
}

static int give_line(struct session *s, const char *number, uint32_t id, struct err *e)
{
	struct text_out line = {0};
	char head[64];
	size_t n;
	const char *bytes = tokenizer_bytes(s->model->run.tokenizer, id, true, &n);
	(void)snprintf(head, sizeof head, "%u %s \"", id, number);
	text_out_string(&line, head);
	write_escaped(&line, bytes, n);
	text_out_string(&line, "\"\n");
	bool given = !line.failed && answer_append(s->answer, line.bytes, line.n) >= 0;
	text_out_free(&line);
	return given ? 0 : err_set(e, ENOMEM, "out of memory for the score");
}

static int give_sums(struct session *s, struct err *e)
{
	const struct score *c = &s->turn.score;
	char lines[128] = "mean -\nperplexity -\n", number[LOGPROB_SIZE];
	double mean = c->sum / (double)c->count;
	logprob_print(number, mean);
	if (c->count)
		(void)snprintf(lines, sizeof lines, "mean %s\nperplexity %.6g\n", number,
			       exp(-mean));
	if (answer_append(s->answer, lines, strlen(lines)) < 0)
		return err_set(e, ENOMEM, "out of memory for the score");
	return 0;
}

/* ---- rows ---- */

/* A row tells how likely the token after it was. */
static int read_row(void *ctx, uint32_t row, const float *logits, struct err *e)
{
	struct session *s = ctx;
	struct turn *t = &s->turn;
	size_t next = s->context.tokens.count + row + 1;
	char number[LOGPROB_SIZE];
	if (next == t->ids.count)
		return 0;
	uint32_t id = t->ids.ids[next];
	double logprob = logits[id] - sampler_log_sum(&s->model->run.sampler, logits);
	if (!isfinite(logprob)) {
		err_set(e, EIO, "the model computed NaN (not a number): its weights are damaged");
		return err_name(e, "damaged");
	}
	t->score.sum += logprob;
	t->score.count++;
	logprob_print(number, logprob);
	return give_line(s, number, id, e);
}

/* ---- steps ---- */

static int check_length(const struct session *s, struct err *e)
{
	size_t count = s->turn.ids.count;
	if (!count)
		return err_set(e, EINVAL, "the text has no tokens");
	if (count <= s->model->id.context)
		return 0;
	err_set(e, EFBIG,
		"the text is %zu tokens, but the context holds %u; score it in parts, or mount "
		"with a larger -o context=",
		count, s->model->id.context);
	err_number(e, "tokens", count);
	err_number(e, "maximum", s->model->id.context);
	return err_name(e, "prompt_too_long");
}

static int begin(struct session *s, struct err *e)
{
	struct turn *t = &s->turn;
	int failed = tokenizer_encode_alone(s->model->run.tokenizer, t->prompt, t->prompt_length,
					    &s->stop, &t->ids, e);
	if (!failed)
		failed = check_length(s, e);
	if (!failed)
		failed = turn_check_ids(s, e);
	if (failed)
		return failed;
	t->prompt_ids = t->ids.count;
	t->begun = true;
	/* What the context holds of the same text has no logits any more. */
	context_rollback(&s->context, 0);
	drafter_drop(&s->drafter);
	s->context_losses = t->losses;
	s->weights_sum = s->model->run.weights_sum;
	pthread_mutex_lock(&s->model->schedule.lock);
	model_cache_stats(s->model, &t->before);
	s->status = SESSION_PROMPTING;
	s->stats.prompt_tokens = t->ids.count;
	pthread_mutex_unlock(&s->model->schedule.lock);
	return give_line(s, "-", t->ids.ids[0], e);
}

/* An open file that was read to its end keeps nothing of the contexts' memory. */
static bool over(struct session *s, const char *finish, int failed, const struct err *e)
{
	context_rollback(&s->context, 0);
	return turn_over(s, finish, failed, e);
}

bool score_step(struct session *s)
{
	const struct turn *t = &s->turn;
	struct err e = {0};
	size_t done = s->context.tokens.count, left = t->ids.count - done;
	int failed;
	if (!t->begun) {
		failed = begin(s, &e);
		return failed ? over(s, "error", failed, &e) : true;
	}
	uint32_t n = chunk_next(s->model, left);
	failed = turn_forward(s, t->ids.ids + done, n, ROW_PROMPT, false, NULL, &e);
	if (!failed && n < left)
		return true;
	if (!failed)
		failed = give_sums(s, &e);
	return over(s, failed ? "error" : "end", failed, &e);
}

/* ---- the session's face ---- */

/* Lock held. */
static int prepare(struct session *s, const char *text, size_t length, struct err *e)
{
	struct turn *t = &s->turn;
	if (s->working)
		return err_set(e, EBUSY, "the session is still working on the last text");
	*t = (struct turn){
		.prompt = malloc(length), .prompt_length = length, .submitted_ns = clock_ns()};
	int failed = params_copy(&t->params, &s->params, e);
	struct answer *answer = failed ? NULL : answer_create_lines(t->params.stream);
	if (!failed && (!t->prompt || !answer))
		failed = err_set(e, ENOMEM, "out of memory for a text of %zu bytes", length);
	if (failed) {
		answer_unref(answer);
		turn_free(t);
		return failed;
	}
	memcpy(t->prompt, text, length);
	t->losses = params_losses(&t->params);
	t->score.read = read_row;
	answer_unref(s->answer);
	s->answer = answer;
	return 0;
}

int session_score(struct session *s, const char *text, size_t length, struct answer **answer,
		  struct err *e)
{
	uint64_t most = model_max_prompt_bytes(s->model);
	if (length && text[length - 1] == '\n')
		length--;
	if (!length)
		return err_set(e, EINVAL, "the text is empty");
	if (length > most)
		return session_too_many_bytes("the text", length, most, e);
	pthread_mutex_lock(&s->model->schedule.lock);
	int failed = prepare(s, text, length, e);
	if (!failed) {
		session_start_turn(s);
		if (answer)
			*answer = answer_ref(s->answer);
	}
	pthread_mutex_unlock(&s->model->schedule.lock);
	return failed;
}

/* Scoring. See score.h. */
#include "engine/turn/score.h"

#include "engine/model/model_state.h"
#include "engine/turn/turn.h"
#include "engine/json/text_out.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

/* Writes escapes as printf knows them: \n, \t, \r, \" and \\, and \xHH for other control characters
 * and for bytes that are not whole characters. */
static void score_escape(struct text_out *o, const char *bytes, size_t n)
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

static int score_put_line(const struct turn_state *t, const char *number, uint32_t id,
			  struct text_out *line, struct err *e)
{
	char head[64];
	size_t n;
	const char *bytes = tokenizer_bytes(t->env->model->loaded.tokenizer, id, true, &n);
	(void)snprintf(head, sizeof head, "%u %s \"", id, number);
	text_out_string(line, head);
	score_escape(line, bytes, n);
	text_out_string(line, "\"\n");
	return line->failed ? err_set(e, ENOMEM, "out of memory for the score") : 0;
}

static int score_put_sums(const struct score *c, struct text_out *to, struct err *e)
{
	char lines[128] = "mean -\nperplexity -\n", number[LOGPROB_SIZE];
	double mean = c->sum / (double)c->count;
	logprob_print(number, mean);
	if (c->count)
		(void)snprintf(lines, sizeof lines, "mean %s\nperplexity %.6g\n", number,
			       exp(-mean));
	text_out_string(to, lines);
	return to->failed ? err_set(e, ENOMEM, "out of memory for the score") : 0;
}

/* ---- rows ---- */

int score_take_row(struct turn_state *t, uint32_t row, const float *logits,
		   const struct turn_scratch *x, struct text_out *to, struct err *e)
{
	size_t next = t->step.held + row + 1;
	char number[LOGPROB_SIZE];
	if (next == t->ids.count)
		return 0;
	uint32_t id = t->ids.ids[next];
	double logprob = logits[id] - sampler_log_sum(x->sampler, logits);
	if (!isfinite(logprob)) {
		err_set(e, EIO, "the model computed NaN (not a number): its weights are damaged");
		return err_name(e, "damaged");
	}
	t->score.sum += logprob;
	t->score.count++;
	logprob_print(number, logprob);
	return score_put_line(t, number, id, to, e);
}

int score_finish(const struct turn_state *t, struct text_out *to, struct err *e)
{
	return score_put_sums(&t->score, to, e);
}

/* ---- the beginning ---- */

int score_check_length(const struct turn_state *t, struct err *e)
{
	size_t count = t->ids.count;
	if (!count)
		return err_set(e, EINVAL, "the text has no tokens");
	if (count <= t->env->model->id.context)
		return 0;
	err_set(e, EFBIG,
		"the text is %zu tokens, but the context holds %u; score it in parts, or mount "
		"with a larger -o context=",
		count, t->env->model->id.context);
	err_number(e, "tokens", count);
	err_number(e, "maximum", t->env->model->id.context);
	return err_name(e, "prompt_too_long");
}

int score_begin(const struct turn_state *t, struct text_out *to, struct err *e)
{
	return score_put_line(t, "-", t->ids.ids[0], to, e);
}

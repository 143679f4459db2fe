#include "engine/serve/logprobs.h"

#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"
#include "engine/json/text_out.h"
#include "engine/json/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int logprobs_begin(struct session *s, struct err *e)
{
	struct logprobs *l = &s->turn.logprobs;
	if (!s->turn.params.logprobs) {
		struct answer *none = answer_logprobs(s->answer);
		answer_finish(none, 0);
		answer_unref(none);
		return 0;
	}
	l->vocabulary = s->model->id.config.vocabulary;
	l->logits = malloc(l->vocabulary * sizeof *l->logits);
	return l->logits ? 0 : err_set(e, ENOMEM, "out of memory for params/logprobs");
}

void logprobs_free(struct logprobs *l)
{
	free(l->logits);
	*l = (struct logprobs){0};
}

void logprobs_keep(struct logprobs *l, const float *logits)
{
	if (l->logits)
		memcpy(l->logits, logits, l->vocabulary * sizeof *logits);
}

void logprob_print(char text[LOGPROB_SIZE], double logprob)
{
	const double least = 5e-7;
	bool none = logprob > -least && logprob < least;
	(void)snprintf(text, LOGPROB_SIZE, "%.6f", none ? 0 : logprob);
}

/* What an object says of a token, without its closing brace. */
static void write_token(struct text_out *o, const struct tokenizer *t, uint32_t id, double logprob)
{
	char numbers[LOGPROB_SIZE + 48], number[LOGPROB_SIZE];
	size_t n;
	logprob_print(number, logprob);
	const char *bytes = tokenizer_bytes(t, id, true, &n);
	text_out_string(o, "{\"token\": ");
	text_out_json_text(o, bytes, n);
	(void)snprintf(numbers, sizeof numbers, ", \"id\": %u, \"logprob\": %s", id, number);
	text_out_string(o, numbers);
	if (utf8_valid_length(bytes, n) == n)
		return;
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(number, sizeof number, "%s%u", i ? ", " : ", \"bytes\": [",
			       (unsigned char)bytes[i]);
		text_out_string(o, number);
	}
	text_out_string(o, "]");
}

static void write_line(struct text_out *o, const struct session *s, uint32_t id)
{
	struct model_run *run = &s->model->run;
	const float *logits = s->turn.logprobs.logits;
	double sum = sampler_log_sum(&run->sampler, logits);
	uint32_t n = (uint32_t)s->turn.params.logprobs;
	const struct candidate *best = sampler_likeliest(&run->sampler, logits, &n);
	write_token(o, run->tokenizer, id, logits[id] - sum);
	text_out_string(o, ", \"top_logprobs\": [");
	for (uint32_t i = 0; i < n; i++) {
		text_out_string(o, i ? ", " : "");
		write_token(o, run->tokenizer, best[i].id, best[i].p - sum);
		text_out_string(o, "}");
	}
	text_out_string(o, "]}\n");
}

int logprobs_tell(struct session *s, uint32_t id, struct err *e)
{
	if (!s->turn.logprobs.logits)
		return 0;
	struct text_out line = {0};
	struct answer *to = answer_logprobs(s->answer);
	write_line(&line, s, id);
	bool told = !line.failed && answer_append(to, line.bytes, line.n) >= 0;
	answer_unref(to);
	text_out_free(&line);
	return told ? 0 : err_set(e, ENOMEM, "out of memory for params/logprobs");
}

#include "engine/turn/logprobs.h"

#include "engine/model/model_state.h"
#include "engine/turn/turn.h"
#include "engine/json/text_out.h"
#include "cache/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int logprobs_begin(struct turn_state *t, struct turn_event *ev, struct err *e)
{
	struct logprobs *l = &t->logprobs;
	ev->no_logprobs = !t->session->asked.params.logprobs;
	if (ev->no_logprobs)
		return 0;
	l->vocabulary = t->env->model->id.config.vocabulary;
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

/* Writes the fields of a token, without the closing brace. */
static void logprobs_write(struct text_out *o, const struct tokenizer *t, uint32_t id,
			   double logprob)
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

int logprobs_tell(const struct turn_state *t, uint32_t id, const struct turn_scratch *x,
		  struct text_out *o, struct err *e)
{
	const struct tokenizer *tokens = t->env->model->loaded.tokenizer;
	const float *logits = t->logprobs.logits;
	if (!logits)
		return 0;
	double sum = sampler_log_sum(x->sampler, logits);
	uint32_t n = (uint32_t)t->session->asked.params.logprobs;
	const struct candidate *best = sampler_likeliest(x->sampler, logits, &n);
	logprobs_write(o, tokens, id, logits[id] - sum);
	text_out_string(o, ", \"top_logprobs\": [");
	for (uint32_t i = 0; i < n; i++) {
		text_out_string(o, i ? ", " : "");
		logprobs_write(o, tokens, best[i].id, best[i].p - sum);
		text_out_string(o, "}");
	}
	text_out_string(o, "]}\n");
	return o->failed ? err_set(e, ENOMEM, "out of memory for params/logprobs") : 0;
}

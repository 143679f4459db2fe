/* Params all together: a model's, copies of them, and what they lose. */
#include "engine/serve/param.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int params_copy(struct params *to, const struct params *from, struct err *e)
{
	*to = *from;
	bool copied = bias_copy(&to->logit_bias, &from->logit_bias);
	to->system = strdup(from->system);
	to->stop = strdup(from->stop);
	to->grammar = strdup(from->grammar);
	if (to->system && to->stop && to->grammar && copied)
		return 0;
	params_free(to);
	return err_set(e, ENOMEM, "out of memory for a session's params");
}

int params_default(struct params *p, const struct config *c, struct err *e)
{
	static char empty[1];
	const struct params defaults = {
		.temperature = c->generation.temperature,
		.top_p = c->generation.top_p,
		.top_k = c->generation.top_k,
		.min_p = c->generation.min_p,
		.repetition_penalty = c->generation.repetition_penalty,
		.max_tokens = c->generation.max_new_tokens,
		.seed_random = true,
		.stream = true,
		.model_experts = c->experts_per_token,
		.model_vocabulary = c->vocabulary,
		.system = empty,
		.stop = empty,
		.grammar = empty,
	};
	return params_copy(p, &defaults, e);
}

void params_free(struct params *p)
{
	free(p->system);
	free(p->stop);
	free(p->grammar);
	bias_free(&p->logit_bias);
	p->system = p->stop = p->grammar = NULL;
}

struct losses params_losses(const struct params *p)
{
	bool fewer = p->experts_per_token < p->model_experts;
	return (struct losses){
		.experts_per_token = fewer ? (uint32_t)p->experts_per_token : 0,
		.drop_missing = (float)p->drop_missing,
	};
}

void params_lossy(const struct params *p, char *text, size_t size)
{
	struct losses losses = params_losses(p);
	char fewer[NUMBER_SIZE] = "", drop[2 * NUMBER_SIZE] = "", number[NUMBER_SIZE];
	if (losses.experts_per_token)
		(void)snprintf(fewer, sizeof fewer, "experts_per_token=%" PRIu32,
			       losses.experts_per_token);
	if (losses.drop_missing > 0)
		(void)snprintf(drop, sizeof drop, "drop_missing=%s",
			       print_number(number, p->drop_missing));
	(void)snprintf(text, size, "%s%s%s", fewer, *fewer && *drop ? " " : "", drop);
}

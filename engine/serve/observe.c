#include "engine/serve/observe.h"

#include "engine/serve/internal.h"

void model_observe(struct model *m, struct model_view *out)
{
	struct engine *g = m->engine;
	*out = (struct model_view){
		.config = &m->config,
		.context = m->context,
		.recipe = &m->recipe,
		.kernels = g->kernels,
		.context_budget = &g->context_budget,
		.kv = m->recipe.exact ? KV_F32 : KV_F16,
		.plan = &m->plan,
		.store = m->store,
		.tokenizer = m->tokenizer,
		.chat = m->chat,
		.weights = &m->weights,
		.experts = m->experts,
		.forward = &m->forward,
		.sampler = &m->sampler,
		.draft_layer = &m->draft_layer,
	};
}

const struct token_list *session_computed(const struct session *s)
{
	return &s->context.tokens;
}

const struct drafter *session_drafter(const struct session *s)
{
	return &s->drafter;
}

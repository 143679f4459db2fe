#include "engine/serve/observe.h"

#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

void model_observe(struct model *m, struct model_view *out)
{
	struct engine *g = m->engine;
	*out = (struct model_view){
		.config = &m->id.config,
		.context = m->id.context,
		.recipe = &m->id.recipe,
		.kernels = g->kernels,
		.context_budget = &g->context_budget,
		.kv = m->id.recipe.exact ? KV_F32 : KV_F16,
		.plan = &m->stored.plan,
		.store = m->stored.store,
		.tokenizer = m->run.tokenizer,
		.chat = m->run.chat,
		.weights = &m->run.weights,
		.experts = m->run.experts,
		.forward = &m->run.forward,
		.sampler = &m->run.sampler,
		.draft_layer = &m->run.draft_layer,
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

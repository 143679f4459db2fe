#include "engine/admin/observe.h"

#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

void observe_model(struct model *m, struct model_view *out)
{
	struct engine *g = m->engine;
	*out = (struct model_view){
		.config = &m->id.config,
		.context = m->id.context,
		.recipe = &m->id.recipe,
		.kernels = g->kernels,
		.context_budget = &g->context_budget,
		.kv = model_kv_type(&m->id),
		.plan = &m->stored.plan,
		.store = m->stored.store,
		.tokenizer = m->loaded.tokenizer,
		.chat = m->loaded.chat,
		.weights = &m->loaded.weights,
		.experts = m->loaded.experts,
		.forward = &m->loaded.forward,
		.sampler = &m->loaded.samplers[0],
		.draft_layer = &m->loaded.draft_layer,
	};
}

const struct token_list *observe_computed(const struct session *s)
{
	return &s->context.tokens;
}

const struct drafter *observe_drafter(const struct session *s)
{
	return &s->drafter;
}

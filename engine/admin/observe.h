/* The parts of a model, for tests and benchmarks: they compute with these parts and look at
 * contexts without the structs of engine and model. fs/ does not use it. */
#ifndef MOEFS_ENGINE_ADMIN_OBSERVE_H
#define MOEFS_ENGINE_ADMIN_OBSERVE_H

#include "engine/compute/drafter.h"
#include "engine/compute/forward.h"
#include "engine/compute/sampler.h"
#include "engine/family/recipe.h"
#include "engine/model.h"
#include "engine/session.h"
#include "engine/template/chat_template.h"

struct model_view {
	const struct config *config;
	const struct recipe *recipe; /* that its source is stored by */
	const struct kernels *kernels;
	struct context_budget *context_budget;
	uint32_t context; /* positions that a conversation may use */
	enum kv_type kv;  /* of their contexts */

	/* Once it is ready, and while it is not loaded again: */
	const struct plan *plan;
	const struct store *store; /* complete, or still being made */
	const struct tokenizer *tokenizer;
	const struct chat_template *chat; /* NULL: none that can be used */
	const struct weights *weights;
	struct pager_source *experts; /* NULL in a dense model */
	/* The observer's own only while no conversation works: */
	struct forward *forward;
	struct sampler *sampler;
	struct draft_layer *draft_layer;
};
/* What it points to is the model's, and lives as long. */
void observe_model(struct model *m, struct model_view *out);

/* The ids that a conversation's context holds; while no turn works. */
const struct token_list *observe_computed(const struct session *s);
/* What it keeps for the model's own draft layer; while no turn works. */
const struct drafter *observe_drafter(const struct session *s);

#endif

/* From a checkpoint's directory to weights in memory: finding the store, or having it made
 * (load_convert.c), and reading its dense part. */
#include "engine/convert/store_header.h"
#include "engine/family/gguf_tokenizer.h"
#include "engine/serve/internal.h"

#include <errno.h>
#include <xxhash.h>

/* ---- the model ---- */

static int load_tokenizer(struct model *m, struct err *e)
{
	struct err no_chat;
	int failed = source_tokenizer_open(&m->tokenizer, m->directory, e);
	if (failed)
		return failed;
	failed = chat_open(&m->chat, m->tokenizer, &no_chat);
	if (failed == -ENOTSUP) { /* a model that only continues texts */
		m->chat = NULL;
		return 0;
	}
	if (failed) { /* or the next load would take it for one without a chat */
		*e = no_chat;
		tokenizer_close(m->tokenizer);
		m->tokenizer = NULL;
	}
	return failed;
}

static int load_forward(struct model *m, struct err *e)
{
	m->forward = (struct forward){
		.env =
			{
				.config = &m->config,
				.plan = &m->plan,
				.weights = &m->weights,
				.kernels = m->engine->kernels,
				.threads = m->engine->threads,
				.experts = m->experts,
			},
		.chunk = m->engine->options.chunk,
	};
	if (sampler_init(&m->sampler, m->engine->kernels, m->config.vocabulary))
		return err_set(e, ENOMEM, "out of memory for sampling");
	int failed = forward_init(&m->forward, e);
	if (!failed && m->plan.recipe.draft)
		failed = draft_layer_init(&m->draft_layer, &m->forward, e);
	return failed;
}

/* Asked by lookers from now on, if not NULL. */
static void show_experts(struct model *m, struct pager_source *experts)
{
	pthread_rwlock_wrlock(&m->looking);
	if (m->experts)
		pager_source_stats(m->experts, &m->experts_before);
	m->experts = experts;
	pthread_rwlock_unlock(&m->looking);
}

static void load_arrange(void *ctx, uint32_t layer, void *slot, const void *record)
{
	struct model *m = ctx;
	plan_arrange_record(&m->plan, layer, slot, record);
}

static void load_arrange_pieces(void *ctx, uint32_t layer, void *slot,
				const struct store_pieces *record)
{
	struct model *m = ctx;
	plan_arrange_pieces(&m->plan, layer, slot, record);
}

/* The converter stays until the source is gone. */
static int load_make(void *ctx, uint32_t layer, uint32_t expert, void *record, struct err *e)
{
	const struct model *m = ctx;
	return convert_make_expert(m->converter, layer, expert, record, e);
}

static int load_experts(struct model *m, struct err *e)
{
	const struct pager_supply supply = {
		.store = m->store,
		.slot_bytes = m->plan.slot_bytes,
		.layer_slot_bytes = m->plan.layer_slot_bytes,
		.arrange = load_arrange,
		.arrange_pieces = load_arrange_pieces,
		.make = m->converter ? load_make : NULL,
		.ctx = m,
	};
	struct pager_source *experts;
	struct err no_heat; /* a first mount, or a heat file that says nothing: a cold start */
	int failed = pager_add(m->engine->pager, &experts, &supply, e);
	if (failed)
		return failed;
	show_experts(m, experts);
	(void)pager_warm(experts, &no_heat);
	return 0;
}

void load_keep_heat(struct model *m)
{
	struct pager_stats now;
	struct err ignored; /* a store that cannot be written any more serves all the same */
	load_keep_sums(m);
	if (!m->experts)
		return;
	pager_source_stats(m->experts, &now);
	if (now.hits + now.misses == m->heat_uses)
		return;
	(void)pager_keep_heat(m->experts, &ignored);
	m->heat_uses = now.hits + now.misses;
}

/* One that was opened with the source as it is now, and has served since. */
static bool store_still_good(const struct model *m)
{
	return atomic_load(&m->has_store) && !m->doubted && m->looked.count &&
	       source_unchanged(&m->looked);
}

/* Opens the store anew, or has it made. */
static int find_store(struct model *m, struct err *e)
{
	int failed = load_store(m, true, e);
	if (failed != -ENOENT)
		return failed;
	load_forget_store(m);
	return load_by_converting(m, e);
}

int load_model(struct model *m, struct err *e)
{
	unload_model(m); /* what a conversion that has to begin anew left */
	/* The tokenizer comes first: it fails fast, and converting takes long. */
	int failed = m->tokenizer ? 0 : load_tokenizer(m, e);
	if (!failed && !store_still_good(m))
		failed = find_store(m, e);
	if (!failed)
		failed = load_keep_in_folder(m, e);
	if (!failed)
		m->weights_sum = XXH3_64bits(&store_info(m->store)->key, sizeof(struct store_key));
	if (!failed) { /* sessions draft unless they are told not to */
		bool drafts = m->plan.recipe.draft;
		atomic_store(&m->drafts, drafts);
		failed = weights_load(&m->weights, &m->plan, &m->config, m->store, drafts, &m->quit,
				      e);
	}
	if (!failed && m->plan.routed_layers)
		failed = load_experts(m, e);
	if (!failed)
		failed = load_forward(m, e);
	if (!failed && m->converter)
		failed = convert_rest_start(m->converter, e);
	m->doubted = failed;
	if (failed)
		unload_model(m);
	else
		*e = (struct err){0}; /* of what was looked for in vain */
	return failed;
}

/* The tokenizer stays: turns that have begun go on with it when the model is loaded anew. */
void unload_model(struct model *m)
{
	struct pager_source *experts = m->experts;
	draft_layer_free(&m->draft_layer);
	forward_free(&m->forward);
	batch_free(&m->batch);
	chunk_forget(m);
	sampler_free(&m->sampler);
	load_keep_heat(m);
	show_experts(m, NULL);
	if (experts)
		pager_remove(experts);
	weights_free(&m->weights);
	convert_close(m->converter);
	m->converter = NULL;
	if (atomic_load(&m->has_store))
		return;
	store_close(m->store);
	m->store = NULL;
	plan_free(&m->plan);
}

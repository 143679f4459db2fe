/* Opening a model's copy on a GPU: what can be computed there, and the dense weights. See cuda_model.h. */
#include "engine/cuda/cuda_model.h"
#include "kernels/block.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- dense weights ---- */

/* What a tensor takes on the GPU: places are aligned like a card's memory. */
static size_t cuda_tensor_bytes(const struct matrix *w)
{
	enum { ALIGNMENT = 256 };
	size_t bytes = w->data ? format_arranged_bytes(&w->shape) : 0;
	return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Places the tensors behind `at`, and their cells from `cell` on; returns their bytes. */
static size_t cuda_place_dense(struct cuda_model *m, gpu_address at, gpu_address cell)
{
	size_t used = 0;
	for (uint32_t l = 0; l <= m->config->layers; l++)
		for (enum tensor_role role = 0; role < TENSOR_ROLES; role++) {
			size_t bytes = cuda_tensor_bytes(cuda_matrix(m, l, role));
			struct cuda_tensor *t = &m->layer[l][role];
			t->cell = cell + ((size_t)l * TENSOR_ROLES + role) * sizeof t->data;
			t->data = bytes ? at + used : 0;
			used += bytes;
		}
	return used;
}

static int cuda_copy_dense(struct cuda_model *m, gpu_address cells, struct err *e)
{
	size_t count = (size_t)(m->config->layers + 1) * TENSOR_ROLES;
	gpu_address *cell = malloc(count * sizeof *cell);
	uint16_t pairs[CUDA_PAIRS];
	if (!cell)
		return err_set(e, ENOMEM, "out of memory for a list of tensors");
	for (uint32_t l = 0; l <= m->config->layers; l++)
		for (enum tensor_role role = 0; role < TENSOR_ROLES; role++) {
			const struct matrix *w = cuda_matrix(m, l, role);
			const struct cuda_tensor *t = &m->layer[l][role];
			cell[(size_t)l * TENSOR_ROLES + role] = t->data;
			if (t->data)
				cuda_copy_in(m, t->data, w->data, format_arranged_bytes(&w->shape));
		}
	cuda_copy_in(m, cells, cell, count * sizeof *cell);
	cuda_fill_pairs(pairs);
	cuda_copy_in(m, m->pairs, pairs, sizeof pairs);
	(void)cuda_wait(m);
	free(cell);
	if (m->failure.code)
		*e = m->failure;
	return -m->failure.code;
}

static int cuda_load_dense(struct cuda_model *m, struct err *e)
{
	size_t cells = (size_t)(m->config->layers + 1) * TENSOR_ROLES * sizeof(gpu_address),
	       pairs = CUDA_PAIRS * sizeof(uint16_t);
	m->layer = calloc(m->config->layers + 1, sizeof *m->layer);
	if (!m->layer)
		return err_set(e, ENOMEM, "out of memory for a list of tensors");
	size_t bytes = cuda_place_dense(m, 0, 0);
	m->dense_bytes = bytes + cells + pairs;
	m->dense = cuda_take(m, GPU_DENSE, m->dense_bytes, e);
	if (!m->dense)
		return -e->code;
	cuda_place_dense(m, m->dense, m->dense + bytes);
	m->pairs = m->dense + bytes + cells;
	return cuda_copy_dense(m, m->dense + bytes, e);
}

/* ---- which models ---- */

/* What the backend computes: layers of attention that sees everything and of experts with SwiGLU
 * (Shazeer 2020), as in Qwen3-MoE. */
static const char *cuda_lacks_layer(const struct config *c, const struct layer *l)
{
	const struct {
		bool is;
		const char *what;
	} other[] = {
		{l->mixer != MIXER_ATTENTION, "mixers other than attention"},
		{l->feed_forward != FEED_FORWARD_ROUTED, "dense feed-forwards"},
		{l->shared, "shared experts"},
		{l->listed, "lists of experts"},
		{l->window, "windows of attention"},
		{l->index != INDEX_UNUSED, "attention to chosen positions"},
		{l->keys_of || l->keys_as_values, "shared keys and values"},
		{l->ngrams, "n-grams"},
		{l->rope == CONFIG_NO_ROPE, "attention without positions"},
		{c->rope[l->rope].dim % 2 != 0, "odd rotations"},
	};
	for (size_t i = 0; i < sizeof other / sizeof *other; i++)
		if (other[i].is)
			return other[i].what;
	return NULL;
}

static const char *cuda_lacks(const struct config *c)
{
	const struct {
		bool is;
		const char *what;
	} other[] = {
		{c->streams.kind != STREAMS_PLAIN, "several residual streams"},
		{c->per_layer, "inputs for each layer"},
		{c->qkv_bias || c->output_bias || c->expert_bias || c->router_bias, "biases"},
		{c->query_gate, "gates of queries"},
		{c->value_norm || c->post_norms || c->feed_forwards_apart, "more norms"},
		{c->head_norms == HEAD_NORMS_TOGETHER, "norms of all heads together"},
		{c->layer_scale || c->expert_scale, "scales of layers or experts"},
		{c->sinks, "sinks of attention"},
		{c->glu != GLU_SILU, "another activation"},
		{c->expert_latent, "experts on a projection"},
		{c->residual_multiplier != 1, "a residual multiplier"},
		{c->rotates_last, "rotations of the last numbers"},
		{c->experts > CUDA_CHOICE_MOST, "more experts than a block of threads chooses from"},
	};
	for (size_t i = 0; i < sizeof other / sizeof *other; i++)
		if (other[i].is)
			return other[i].what;
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		const char *what = cuda_lacks_layer(c, &c->layer[layer]);
		if (what)
			return what;
	}
	return NULL;
}

static int cuda_check_matrix(const struct shape *s, struct err *e)
{
	if (s->rows > 1 && cuda_product_kernel(s->format, 1) == CUDA_KERNEL_COUNT)
		return err_set(e, ENOTSUP, "the GPU cannot compute with matrices of %s yet",
			       format_name(s->format));
	return 0;
}

static int cuda_check_formats(const struct environment *env, struct err *e)
{
	const struct plan *p = env->plan;
	int failed = 0;
	for (uint32_t i = 0; i < p->dense_count && !failed; i++)
		if (!role_is_table(p->dense[i].id.role))
			failed = cuda_check_matrix(&p->dense[i].computed, e);
	for (uint32_t l = 0; l < p->routed_layers && !failed; l++)
		for (uint32_t part = 0; part < EXPERT_PARTS && !failed; part++)
			failed = cuda_check_matrix(&p->record[l].computed[part], e);
	return failed;
}

static int cuda_check_model(const struct environment *env, enum kv_type kv, struct err *e)
{
	const char *what = cuda_lacks(env->config);
	if (what)
		return err_set(e, ENOTSUP, "the GPU cannot compute models with %s yet", what);
	if (env->plan->recipe.draft)
		return err_set(e, ENOTSUP, "the GPU cannot compute draft layers yet");
	if (kv_type_codes(kv))
		return err_set(e, ENOTSUP,
			       "the GPU cannot compute with keys and values of kv=%s yet",
			       kv_type_name(kv));
	return cuda_check_formats(env, e);
}

/* ---- opening ---- */

static int cuda_open_card(struct cuda_model *m, const struct cuda_model_options *o, struct err *e)
{
	int failed = card_open(&m->card, o->ordinal, o->images, e);
	if (!failed)
		gpu_budget_found(m->budget, m->card.facts.free);
	return failed;
}

int cuda_model_open(struct cuda_model **out, const struct environment *env,
		    const struct cuda_model_options *options, struct err *e)
{
	struct context measured;
	int failed = cuda_check_model(env, options->kv, e);
	if (failed)
		return failed;
	struct cuda_model *m = calloc(1, sizeof *m);
	if (!m)
		return err_set(e, ENOMEM, "out of memory for a model on the GPU");
	context_init(&measured, NULL, env->config, options->kv);
	m->budget = options->budget;
	m->counters = options->counters;
	m->config = env->config;
	m->plan = env->plan;
	m->weights = env->weights;
	m->kv = options->kv;
	m->blocks = (struct cuda_pool){.bytes = measured.kv[KV_WHOLE].bytes, .use = GPU_CONTEXTS};
	failed = cuda_open_card(m, options, e);
	if (!failed)
		failed = cuda_load_dense(m, e);
	if (!failed)
		cuda_table_load(m, env->threads);
	if (failed)
		cuda_model_close(m);
	else
		*out = m;
	return failed;
}

void cuda_model_close(struct cuda_model *m)
{
	if (!m)
		return;
	if (m->card.driver.library) {
		(void)m->card.driver.context_use(m->card.context);
		cuda_experts_end(m);
		cuda_contexts_free(m);
		cuda_table_free(m);
		cuda_give(m, GPU_DENSE, m->dense, m->dense_bytes);
		card_close(&m->card);
	}
	free(m->layer);
	free(m);
}

const struct card *cuda_model_card(const struct cuda_model *m)
{
	return &m->card;
}

/* Opening a model's copy on a GPU: the dense weights of what is computed there. See cuda_model.h. */
#include "engine/cuda/cuda_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- dense weights ---- */

/* What a tensor takes on the GPU. */
static size_t cuda_tensor_bytes(const struct cuda_model *m, uint32_t layer, enum tensor_role role)
{
	const struct matrix *w = cuda_matrix(m, layer, role);
	size_t bytes = w->data && cuda_parts_need(m, layer, role) ? format_arranged_bytes(&w->shape)
								  : 0;
	return cuda_round_up(bytes, CUDA_ALIGNMENT);
}

/* Places the tensors behind `at`, and their cells from `cell` on; returns their bytes. */
static size_t cuda_place_dense(struct cuda_model *m, gpu_address at, gpu_address cell)
{
	size_t used = 0;
	for (uint32_t l = 0; l <= m->config->layers; l++)
		for (enum tensor_role role = 0; role < TENSOR_ROLES; role++) {
			size_t bytes = cuda_tensor_bytes(m, l, role);
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
	struct cuda_model *m = calloc(1, sizeof *m);
	if (!m)
		return err_set(e, ENOMEM, "out of memory for a model on the GPU");
	m->budget = options->budget;
	m->counters = options->counters;
	m->config = env->config;
	m->plan = env->plan;
	m->weights = env->weights;
	m->kv = options->kv;
	int failed = cuda_parts_find(m, env, e);
	if (!failed)
		cuda_contexts_begin(m);
	if (!failed)
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
	cuda_parts_free(m);
	free(m);
}

const struct card *cuda_model_card(const struct cuda_model *m)
{
	return &m->card;
}

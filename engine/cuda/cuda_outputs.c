/* The outputs of a step: the final norm, and the logits or only the largest of them. See cuda_arrays.h. */
#include "engine/cuda/cuda_arrays.h"
#include "engine/cpu/cpu.h"

#include <string.h>

/* Whether the rows are all of the step's, in order. */
static bool cuda_all_rows(const struct step *s, const uint32_t *rows, uint32_t n)
{
	bool all = n == s->n;
	for (uint32_t i = 0; rows && i < n; i++)
		all = all && rows[i] == i;
	return all;
}

/* normed = the norm of some rows. */
static void cuda_end_rows(struct step *s, enum tensor_role norm, const uint32_t *rows, uint32_t n)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	struct cuda_scratch *k = cuda_scratch_of(s);
	uint32_t width = s->env->config->hidden_size;
	cuda_rows_to_gpu(s);
	cuda_flush(k);
	const struct cuda_gather p = {cuda_at(k->out), cuda_at(x->x), cuda_at(k->wanted), n, width};
	const struct cuda_grid g = cuda_items_grid((size_t)n * width);
	if (rows) {
		memcpy(k->wanted_in, rows, n * sizeof *rows);
		cuda_copy_in(k->model, k->wanted, k->wanted_in, n * sizeof *rows);
		cuda_do(k->model, cuda_gather_number, &g, &p);
	}
	cuda_norm(k->model, k->normed.f, rows ? k->out : x->x,
		  cuda_weight(k->model, s->env->config->layers, norm), n, width);
	cuda_prepare_input(k->model, &k->normed, n,
			   s->env->weights->once.m[TENSOR_HEAD].shape.format);
}

static void cuda_end_by_cpu(struct step *s, enum tensor_role norm, const uint32_t *rows, uint32_t n)
{
	struct step cpus = cuda_as_cpus(s);
	if (cuda_rows_to_cpu(s))
		cpu_backend.end(&cpus, norm, rows, n);
}

/* The head's products of a few rows begin with `end`: what is done until `head` is called takes the
 * processor's time, not the GPU's. */
void cuda_end(struct step *s, enum tensor_role norm, const uint32_t *rows, uint32_t n)
{
	struct cuda_scratch *k = cuda_scratch_of(s);
	const struct config *c = s->env->config;
	k->normed_rows = n;
	k->ended_by_cpu = k->model->head_lacks[0] || s->env->observer;
	k->head_rows = rows && n <= HEAD_ROWS && !k->ended_by_cpu ? n : 0;
	cuda_send_left(s);
	if (k->ended_by_cpu)
		cuda_end_by_cpu(s, norm, rows, n);
	else if (cuda_all_rows(s, rows, n))
		cuda_enter_part(s, c->layers, norm, &k->normed,
				s->env->weights->once.m[TENSOR_HEAD].shape.format);
	else
		cuda_end_rows(s, norm, rows, n);
	if (k->head_rows)
		cuda_multiply(k->model, c->layers, TENSOR_HEAD, &k->normed, n, k->logits);
}

/* Where the GPU may write logits: where they are wanted, if that is the scratch's, else there first. */
static float *cuda_logits_place(const struct cuda_scratch *k, float *wanted, size_t width)
{
	bool own = wanted >= k->logits_out && wanted < k->logits_out + HEAD_ROWS * width;
	return own ? wanted : k->logits_out;
}

static void cuda_head_on_card(struct step *s, uint32_t n, float *logits)
{
	struct cuda_scratch *k = cuda_scratch_of(s);
	struct cuda_model *m = k->model;
	const struct config *c = s->env->config;
	size_t width = c->vocabulary;
	for (uint32_t t = 0, some; t < n; t += some) {
		float *to = cuda_logits_place(k, logits + t * width, width);
		some = n - t < HEAD_ROWS ? n - t : HEAD_ROWS;
		if (k->head_rows != some)
			cuda_multiply_from(m, c->layers, TENSOR_HEAD, &k->normed, t, some,
					   k->logits);
		k->head_rows = 0;
		cuda_copy_out(m, to, k->logits, some * width * sizeof *logits);
		if (cuda_wait(m) && to != logits + t * width)
			memcpy(logits + t * width, to, some * width * sizeof *logits);
	}
	for (size_t i = 0; i < n * width && c->logits_scaling != 1; i++)
		logits[i] /= c->logits_scaling;
	if (c->logit_cap > 0)
		s->env->kernels->softcap(logits, n * width, c->logit_cap);
}

void cuda_head(struct step *s, uint32_t n, float *logits)
{
	struct step cpus = cuda_as_cpus(s);
	if (cuda_scratch_of(s)->ended_by_cpu)
		cpu_backend.head(&cpus, n, logits);
	else
		cuda_head_on_card(s, n, logits);
}

/* Only the largest of each part of the vocabulary goes to main memory. Logits with a cap do not come here: the function
 * that bounds them is the CPU's, and makes some of them equal. */
bool cuda_largest_logits(struct step *s, uint32_t n, struct candidate *out)
{
	struct cuda_scratch *k = cuda_scratch_of(s);
	const struct config *c = s->env->config;
	if (k->head_rows != n || c->logit_cap > 0)
		return false;
	const struct cuda_search p = {cuda_at(k->logits), cuda_at(k->largest), c->vocabulary,
				      c->logits_scaling};
	const struct cuda_grid g = cuda_search_grid(n);
	k->head_rows = 0;
	cuda_do(k->model, cuda_find_largest_number, &g, &p);
	cuda_copy_out(k->model, k->largest_out, k->largest,
		      (size_t)n * CUDA_LARGEST_PARTS * sizeof *k->largest_out);
	bool found = cuda_wait(k->model);
	for (uint32_t i = 0; i < n && found; i++) {
		const struct cuda_peak best =
			cuda_best_part(k->largest_out + (size_t)i * CUDA_LARGEST_PARTS);
		out[i] = (struct candidate){best.number, best.at};
	}
	return true;
}

float *cuda_logits(struct scratch *scratch)
{
	return ((struct cuda_scratch *)scratch)->logits_out;
}

float *cuda_normed(struct scratch *scratch)
{
	struct cuda_scratch *k = (struct cuda_scratch *)scratch;
	if (k->ended_by_cpu)
		return cpu_backend.normed(k->cpu);
	cuda_copy_out(k->model, k->normed_out, k->normed.f,
		      (size_t)k->normed_rows * k->normed.k * sizeof(float));
	(void)cuda_wait(k->model);
	return k->normed_out;
}

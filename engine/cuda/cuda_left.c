/* What a step leaves on the GPU and main memory needs: the rows' keys and values, which belong into their contexts, and
 * the experts that they chose. See cuda_arrays.h. */
#include "engine/cuda/cuda_arrays.h"
#include "kernels/watch.h"

/* ---- where it lies ---- */

size_t cuda_keys_at(const struct cuda_stream *x, uint32_t keyed)
{
	return (size_t)keyed * x->n * x->model->left.kv_width;
}
size_t cuda_values_at(const struct cuda_stream *x, uint32_t keyed)
{
	return cuda_keys_at(x, x->model->left.keyed + keyed);
}

size_t cuda_chosen_at(const struct cuda_stream *x, uint32_t routed)
{
	const struct cuda_left *left = &x->model->left;
	return cuda_values_at(x, left->keyed) + (size_t)routed * x->n * left->top_k;
}

size_t cuda_weight_at(const struct cuda_stream *x, uint32_t routed)
{
	return cuda_chosen_at(x, x->model->left.routed + routed);
}

size_t cuda_rank_at(const struct cuda_stream *x, uint32_t routed)
{
	return cuda_weight_at(x, x->model->left.routed + routed);
}

/* ---- to main memory ---- */

/* Copies numbers [from, to) of `left` to main memory. */
static void cuda_send_numbers(struct cuda_stream *x, size_t from, size_t to)
{
	cuda_copy_out(x->model, x->left_out + from, x->left + from * sizeof *x->left_out,
		      (to - from) * sizeof *x->left_out);
}

/* The same of the keys and values that are computed and not sent. */
static void cuda_send_keys(struct cuda_stream *x)
{
	cuda_send_numbers(x, cuda_keys_at(x, x->sent), cuda_keys_at(x, x->mixed));
	cuda_send_numbers(x, cuda_values_at(x, x->sent), cuda_values_at(x, x->mixed));
	x->sent = x->mixed;
}

void cuda_send_portion(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	const uint32_t keyed = x->model->left.keyed, most = (keyed + CUDA_PORTIONS - 1) / CUDA_PORTIONS;
	if (x->n <= CUDA_SEQUENCE_ROWS || x->mixed == keyed || x->mixed - x->sent < most)
		return;
	struct cuda_portion *p = &x->portion[x->portions++];
	cuda_send_keys(x);
	p->end = x->mixed;
	cuda_mark(x->model, p->arrival);
}

void cuda_send_left(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	const struct cuda_left *left = &x->model->left;
	size_t end = cuda_rank_at(x, left->routed);
	if (!x->unsent)
		return;
	if (!x->sent && x->mixed == left->keyed) {
		cuda_send_numbers(x, 0, end);
		x->sent = x->mixed;
	} else { /* some is sent, or some rows stop here */
		cuda_send_keys(x);
		cuda_send_numbers(x, cuda_chosen_at(x, 0), end);
	}
	cuda_mark(x->model, x->arrival);
	x->unsent = x->arrived = false;
}

bool cuda_receive_left(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	cuda_send_left(s);
	if (!x->arrived)
		x->arrived = cuda_wait_for(x->model, x->arrival);
	return x->arrived;
}

/* ---- into the contexts ---- */

struct cuda_settling {
	const struct step *step;
	const struct cuda_stream *x;
};

/* Notes which rows died since they were placed: other passes may use their contexts now. */
static void cuda_note_dead(const struct step *s)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	for (struct cuda_place *p = x->place; p < x->place + x->n; p++) {
		bool lives = false;
		for (uint32_t i = 0; i < s->span_count && !lives; i++)
			lives = s->spans[i].context == p->context &&
				p->position - s->spans[i].position < s->spans[i].n;
		p->dead = p->dead || !lives;
	}
}

/* Items are (number among the layers with keys and values of the GPU, row). */
static void cuda_settle_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct cuda_settling *z = ctx;
	const struct environment *env = z->step->env;
	const struct cuda_stream *x = z->x;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t keyed = x->settled + i / x->n, t = i % x->n;
		const struct layer *l = &env->config->layer[x->model->keyed_layer[keyed]];
		const struct cuda_place *p = &x->place[t];
		uint32_t b = p->position / KV_BLOCK, dim = l->head_dim;
		size_t row = (size_t)t * l->kv_heads * dim;
		const struct context *to = p->context;
		const float *key = x->left_out + cuda_keys_at(x, keyed) + row,
			    *value = x->left_out + cuda_values_at(x, keyed) + row;
		if (p->dead)
			continue;
		for (uint32_t h = 0; h < l->kv_heads; h++)
			watch_kv_put(env->kernels, (void *)context_blocks_of(to, l)[b], to->type,
				     context_key_offset(to->type, l, h),
				     context_value_offset(to->type, l, h),
				     p->position % KV_BLOCK, key + h * dim, value + h * dim, dim,
				     0);
	}
}

/* Those of the layers before layer `end` of those with keys and values. */
static void cuda_settle_to(struct step *s, uint32_t end)
{
	struct cuda_stream *x = cuda_stream_of(s);
	threads_run(s->env->threads, (end - x->settled) * x->n, 4, cuda_settle_rows,
		    &(struct cuda_settling){s, x});
	x->settled = end;
}

void cuda_settle_layers(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	if (x->mixed > x->settled) {
		cuda_send_left(s);
		cuda_note_dead(s);
		for (struct cuda_portion *p = x->portion; p < x->portion + x->portions; p++)
			if (cuda_wait_for(x->model, p->arrival))
				cuda_settle_to(s, p->end);
		if (cuda_receive_left(s))
			cuda_settle_to(s, x->mixed);
	}
	x->settled = x->mixed;
	x->portions = 0;
}

void cuda_settle_placed(struct step *s)
{
	cuda_settle_layers(s);
	(void)cuda_wait(cuda_stream_of(s)->model);
}

/* The routed experts of a step's only row and its shared expert in the same launches: gate and up of all, the
 * activation, down of all. By itself the shared expert would take three launches more, each as long as the routed
 * experts', since little work takes a GPU as long as some more of it. Of several rows the host does not know how many
 * items the routed experts have, so it could not share the tiles of both. See cuda_arrays.h. */
#include "engine/cuda/cuda_arrays.h"

/* Products in one launch, and the formats of their matrices. */
struct cuda_joint {
	struct cuda_products all;
	enum format format[CUDA_PRODUCTS_MOST];
};

static void cuda_joint_add(struct cuda_joint *j, const struct cuda_product *p, enum format format)
{
	j->all.p[j->all.count] = *p;
	j->format[j->all.count++] = format;
}

static void cuda_joint_add_shared(struct cuda_joint *j, const struct step *s, uint32_t layer,
				  enum tensor_role role, const struct cuda_input *x, gpu_address y)
{
	const struct cuda_product p = cuda_product_of(cuda_scratch_of(s)->model, layer, role, x, 1, y);
	cuda_joint_add(j, &p, cuda_format_of(s, layer, role));
}

static const struct shape *cuda_expert_shape(const struct step *s, uint32_t layer, uint32_t part)
{
	return &s->env->plan->record[s->env->plan->routed_of[layer]].computed[part];
}

/* Inputs of down: the shared expert's is behind the routed experts'. */
static uint32_t cuda_joint_inputs(const struct step *s)
{
	return cuda_scratch_of(s)->top_k + 1;
}

/* Gates and ups of all experts, and the number whose sigmoid is the shared expert's gate. */
static struct cuda_joint cuda_join_gates(const struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const uint32_t inputs = cuda_joint_inputs(s);
	struct cuda_joint j = {.all.count = 0};
	struct cuda_product routed = cuda_gate_product(s, layer, 0, 1, true, inputs);
	const struct cuda_input hidden = cuda_hidden_of(k, routed.rows);
	const size_t own = (size_t)k->top_k * hidden.k * sizeof(float);
	cuda_product_takes(&routed, &k->normed);
	cuda_joint_add(&j, &routed, cuda_expert_shape(s, layer, 0)->format);
	cuda_joint_add_shared(&j, s, layer, TENSOR_SHARED_GATE, &k->normed, hidden.f + own);
	cuda_joint_add_shared(&j, s, layer, TENSOR_SHARED_UP, &k->normed, cuda_up_of(&hidden, inputs) + own);
	if (s->env->config->shared_gate)
		cuda_joint_add_shared(&j, s, layer, TENSOR_SHARED_SCALE, &k->normed, k->shared_gate);
	return j;
}

static struct cuda_joint cuda_join_downs(const struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const enum format down = cuda_expert_shape(s, layer, EXPERT_PARTS - 1)->format;
	const struct cuda_input hidden = cuda_hidden_of(k, s->env->config->expert_size),
				own = cuda_input_from(&hidden, down, k->top_k);
	struct cuda_joint j = {.all.count = 0};
	struct cuda_product routed = cuda_expert_product(s, layer, EXPERT_PARTS - 1, 1, true);
	routed.divide = 1;
	routed.y = cuda_at(k->found);
	cuda_product_takes(&routed, &hidden);
	cuda_joint_add(&j, &routed, down);
	cuda_joint_add_shared(&j, s, layer, TENSOR_SHARED_DOWN, &own, k->shared);
	return j;
}

static bool cuda_joint_possible(const struct cuda_joint *j)
{
	return cuda_products_kernel(j->format, j->all.count, 1) != CUDA_KERNEL_COUNT;
}

/* All experts have one input and one width, and nothing is done to some of them alone. */
bool cuda_shares_launches(const struct step *s, uint32_t layer)
{
	const struct config *c = s->env->config;
	if (s->n > 1 || !c->layer[layer].shared || c->shared_size != c->expert_size || c->feed_forwards_apart ||
	    c->expert_latent || c->expert_bias || !cuda_gate_is_like_up(s, layer))
		return false;
	const struct cuda_joint gates = cuda_join_gates(s, layer), downs = cuda_join_downs(s, layer);
	return cuda_joint_possible(&gates) && cuda_joint_possible(&downs);
}

void cuda_run_with_shared(struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const enum format gate = cuda_expert_shape(s, layer, 0)->format,
			  down = cuda_expert_shape(s, layer, EXPERT_PARTS - 1)->format;
	const struct cuda_input hidden = cuda_hidden_of(k, s->env->config->expert_size);
	struct cuda_joint gates = cuda_join_gates(s, layer), downs = cuda_join_downs(s, layer);
	if (format_input(cuda_router_codes(s, layer)) != format_input(gate))
		cuda_prepare_input(k->model, &k->normed, s->n, gate);
	(void)cuda_multiply_at_once(k->model, &gates.all, gates.format);
	cuda_gate(k, &hidden, cuda_joint_inputs(s), down);
	(void)cuda_multiply_at_once(k->model, &downs.all, downs.format);
}

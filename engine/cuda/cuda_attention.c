/* Attention on the GPU: the rows' keys and values into the copies of their contexts, and attention to all
 * positions. See cuda_arrays.h. */
#include "engine/cuda/cuda_arrays.h"
#include "kernels/attention.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* ---- where the rows belong ---- */

enum { CUDA_IN_ALIGNMENT = 16 }; /* of the parts of `in` */

/* Bytes of a number for each of some rows. */
static size_t cuda_numbers(size_t count)
{
	return cuda_round_up(count * sizeof(float), CUDA_IN_ALIGNMENT);
}

/* Rows of layers whose keys and values are of a kind. */
static size_t cuda_rows_at(uint32_t n, enum kv_kind kind)
{
	return (size_t)kind * n * sizeof(struct cuda_row);
}

size_t cuda_tokens_at(uint32_t n)
{
	return (size_t)CUDA_KV_KINDS * n * sizeof(struct cuda_row);
}

size_t cuda_states_at(uint32_t n)
{
	return cuda_tokens_at(n) + cuda_numbers(n);
}

size_t cuda_angles_at(const struct step *s, uint32_t rope)
{
	uint32_t n = cuda_stream_of(s)->n; /* rows that died since are still there */
	size_t at = cuda_round_up(cuda_states_at(n) + n * sizeof(struct cuda_states),
				  CUDA_IN_ALIGNMENT);
	for (uint32_t r = 0; r < rope; r++)
		at += 2 * cuda_numbers((size_t)n * s->rotations[r].half);
	return at;
}

/* The copy of a span's context; NULL: the GPU needs none, or the model has failed. */
static const struct cuda_context *cuda_copy_of(const struct cuda_stream *x, const struct step_span *span)
{
	const struct cuda_model *m = x->model;
	if ((!m->left.keyed && !m->states.bytes) || span->context->copy.never)
		return NULL;
	return cuda_context_ready(x->model, span->context, span->position, span->n, x->number);
}

static struct cuda_states cuda_states_of(const struct step_span *span, const struct cuda_context *c)
{
	return (struct cuda_states){.state = c ? cuda_at(c->state) : NULL,
				    .first = span->first,
				    .n = span->n,
				    .certain = span->certain,
				    .behind = span->context->recurrent.behind};
}

/* Copies that the step needs are not given up for others that it needs. A sequence is for any contexts:
 * each row may be of another one. */
static void cuda_begin_list(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	x->spans = 1;
	x->contexts = s->n <= CUDA_SEQUENCE_ROWS ? s->n : s->span_count;
	memset(x->in_main + cuda_states_at(s->n), 0, s->n * sizeof(struct cuda_states));
	for (uint32_t t = 0; t < s->n; t++)
		x->place[t].dead = true;
	for (struct step_span *span = s->spans; span < s->spans + s->span_count; span++)
		if (span->n)
			cuda_context_keep(x->model, span->context, x->number);
}

/* The rows' contexts, blocks and states on the GPU, and positions. */
static void cuda_list_rows(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	struct cuda_row *row = (struct cuda_row *)(void *)x->in_main;
	struct cuda_states *states =
		(struct cuda_states *)(void *)(x->in_main + cuda_states_at(s->n));
	uint32_t contexts = 0;
	cuda_begin_list(s);
	for (struct step_span *span = s->spans; span < s->spans + s->span_count; span++) {
		if (!span->n)
			continue;
		const struct cuda_context *c = cuda_copy_of(x, span);
		states[contexts] = cuda_states_of(span, c);
		uint32_t spans = (span->position + span->n - 1) / ATTENTION_SPAN + 1;
		x->spans = spans > x->spans ? spans : x->spans;
		for (uint32_t t = 0; t < span->n; t++) {
			uint32_t at = span->first + t, position = span->position + t;
			x->place[at] = (struct cuda_place){span->context, position, false};
			for (uint32_t kind = 0; kind < CUDA_KV_KINDS; kind++)
				row[kind * s->n + at] = (struct cuda_row){
					.blocks = c ? cuda_at(c->kv[kind].table) : NULL,
					.position = position,
					.context = contexts,
					.first = span->position};
		}
		contexts++;
	}
}

void cuda_place_rows(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	uint32_t *token = (uint32_t *)(void *)(x->in_main + cuda_tokens_at(s->n));
	if (x->placed && x->n == s->n)
		return;
	if (x->placed) /* the last rows died */
		cuda_settle_placed(s);
	x->n = s->n;
	cuda_list_rows(s);
	for (uint32_t t = 0; t < s->n; t++)
		token[t] = step_token(s, t);
	for (uint32_t r = 0; r < CONFIG_ROPES; r++) {
		const struct rotation *rope = &s->rotations[r];
		size_t bytes = (size_t)s->n * rope->half * sizeof(float);
		uint8_t *to = x->in_main + cuda_angles_at(s, r);
		memcpy(to, rope->cos, bytes);
		memcpy(to + cuda_numbers((size_t)s->n * rope->half), rope->sin, bytes);
	}
	cuda_copy_in(x->model, x->in, x->in_main, cuda_angles_at(s, CONFIG_ROPES));
	x->placed = true;
}

/* ---- keys and values ---- */

/* Where in `left` a layer's keys are, and its values. */
static gpu_address cuda_left_keys_of(const struct step *s, uint32_t layer)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	return x->left + cuda_keys_at(x, x->model->parts[layer].keyed) * sizeof(float);
}

static gpu_address cuda_values_of(const struct step *s, uint32_t layer)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	return x->left + cuda_values_at(x, x->model->parts[layer].keyed) * sizeof(float);
}

/* Offsets of a layer's keys and values in a block, in elements. */
struct cuda_offsets {
	uint64_t key, key_step, value, value_step;
};

static struct cuda_offsets cuda_offsets_of(enum kv_type type, const struct layer *l)
{
	uint64_t key = context_key_offset(type, l, 0), value = context_value_offset(type, l, 0);
	return (struct cuda_offsets){key, context_key_offset(type, l, 1) - key, value,
				     context_value_offset(type, l, 1) - value};
}

/* Queries and keys get their norms and rotations, and keys and values come into their blocks. */
static struct cuda_heads cuda_heads_of(const struct step *s, uint32_t layer)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	const struct cuda_model *m = x->model;
	const struct config *c = s->env->config;
	const struct layer *l = &c->layer[layer];
	const struct cuda_offsets at = cuda_offsets_of(m->kv, l);
	bool norms = c->head_norms == HEAD_NORMS_EACH;
	const struct cuda_scratch *k = cuda_scratch_of(s);
	gpu_address cos = x->in + cuda_angles_at(s, l->rope);
	size_t angles = cuda_numbers((size_t)x->n * s->rotations[l->rope].half);
	return (struct cuda_heads){
		.q = cuda_at(k->q),
		.key = cuda_at(cuda_left_keys_of(s, layer)),
		.q_from = cuda_at(k->projected),
		.q_step = (c->query_gate ? 2 : 1) * l->head_dim,
		.q_norm = norms ? cuda_at(cuda_weight(m, layer, TENSOR_Q_NORM)) : NULL,
		.key_norm = norms ? cuda_at(cuda_weight(m, layer, TENSOR_K_NORM)) : NULL,
		.cos = cuda_at(cos),
		.sin = cuda_at(cos + angles),
		.keys = {.key = cuda_at(k->keys),
			 .value = cuda_at(cuda_values_of(s, layer)),
			 .rows = cuda_at(x->in + cuda_rows_at(x->n, config_kv_kind(l))),
			 .key_offset = at.key,
			 .key_step = at.key_step,
			 .value_offset = at.value,
			 .value_step = at.value_step,
			 .n = s->n,
			 .heads = l->kv_heads,
			 .head_dim = l->head_dim,
			 .half = m->kv == KV_F16},
		.heads = c->heads,
		.turned = s->rotations[l->rope].half,
		.eps = c->rms_eps};
}

/* ---- attention ---- */

enum { CUDA_ALONE = 4 }; /* rows that have the GPU for themselves */

/* Whether keys are copied to shared memory: for few rows, where there is so much. */
static bool cuda_copies_keys(const struct cuda_model *m, uint32_t n)
{
	enum { MUCH_SHARED = 163 << 10 };
	return n <= CUDA_ALONE && m->card.facts.shared >= MUCH_SHARED;
}

/* Most spans that a row of the step sees in a layer. */
static uint32_t cuda_spans_of(const struct cuda_stream *x, const struct layer *l)
{
	uint32_t most = (l->window + ATTENTION_SPAN - 2) / ATTENTION_SPAN + 1;
	return l->window && most < x->spans ? most : x->spans;
}

/* Rows whose spans find room in the scratch together; 0: not even one. */
static uint32_t cuda_rows_at_once(const struct step *s, const struct layer *l)
{
	enum { GRID_MOST = 65535 };
	size_t row = (size_t)cuda_spans_of(cuda_stream_of(s), l) * s->env->config->heads *
		     attention_part(l->head_dim) * sizeof(float),
	       most = CUDA_PARTS_BYTES / row, grid = GRID_MOST / s->env->config->heads;
	most = most < grid ? most : grid;
	return most < s->n ? (uint32_t)most : s->n;
}

/* The output of a layer's heads. */
static struct cuda_input cuda_attended_of(const struct step *s, uint32_t layer)
{
	const struct config *c = s->env->config;
	struct cuda_input attended = cuda_scratch_of(s)->attended;
	attended.k = c->heads * c->layer[layer].head_dim;
	return attended;
}

/* Whether the output's codes are made where the spans are joined. */
static bool cuda_joins_to_codes(const struct step *s, uint32_t layer)
{
	return !format_is_float(cuda_format_of(s, layer, TENSOR_O));
}

/* The gates of the queries from row `first` on lie behind each query. */
static const float *cuda_query_gates(const struct cuda_scratch *k, const struct cuda_attention *p, uint32_t first)
{
	const size_t step = 2 * (size_t)p->head_dim;
	return cuda_at(k->projected + ((size_t)first * p->heads * step + p->head_dim) * sizeof(float));
}

/* attended of n rows from `first` on is multiplied by the sigmoids of the queries' gates. */
static void cuda_open_query_gates(const struct cuda_scratch *k, const struct cuda_attention *p,
				  uint32_t first)
{
	const struct cuda_gates gates = {.y = p->out,
					 .gate = cuda_query_gates(k, p, first),
					 .n = p->n * p->heads,
					 .dim = p->head_dim,
					 .step = 2 * p->head_dim};
	const struct cuda_grid g = cuda_items_grid((size_t)gates.n * gates.dim);
	cuda_do(k->model, cuda_open_gates_number, &g, &gates);
}

/* attended from row `first` on: where it goes, and its codes. */
static struct cuda_input cuda_attended_from(const struct step *s, uint32_t layer, uint32_t first)
{
	const struct cuda_input attended = cuda_attended_of(s, layer);
	return cuda_input_from(&attended, cuda_format_of(s, layer, TENSOR_O), first);
}

static struct cuda_join_inputs cuda_join_of(const struct step *s, uint32_t layer,
					    const struct cuda_attention *p, uint32_t first)
{
	const struct cuda_input to = cuda_attended_from(s, layer, first);
	bool blocks = format_input(cuda_format_of(s, layer, TENSOR_O)) == INPUT_BLOCKS;
	struct cuda_join_inputs inputs = {.attention = *p,
					  .gate_step = 2 * p->head_dim,
					  .q = cuda_at(to.q),
					  .scale = cuda_at(to.scale),
					  .sum = blocks ? cuda_at(to.sum) : NULL};
	if (s->env->config->query_gate)
		inputs.gate = cuda_query_gates(cuda_scratch_of(s), p, first);
	cuda_fill_signs(&inputs.signs);
	return inputs;
}

/* attended, in 8 bits = what the rows' spans are together. */
static void cuda_join_spans(struct step *s, uint32_t layer, const struct cuda_attention *p,
			    uint32_t first)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct cuda_input to = cuda_attended_from(s, layer, first);
	const struct cuda_join_inputs inputs = cuda_join_of(s, layer, p, first);
	const struct cuda_grid join = cuda_join_grid(p), both = cuda_join_inputs_grid(&inputs);
	if (cuda_joins_to_codes(s, layer)) {
		cuda_do(k->model, cuda_join_kernel(&inputs), &both, &inputs);
		return;
	}
	cuda_do(k->model, cuda_attend_join_number, &join, p);
	if (s->env->config->query_gate)
		cuda_open_query_gates(k, p, first);
	cuda_prepare_input(k->model, &to, p->n, cuda_format_of(s, layer, TENSOR_O));
}

/* The operands for n rows from row t on. */
static struct cuda_attention cuda_attention_of(const struct step *s, uint32_t layer, uint32_t t,
					       uint32_t n)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct config *c = s->env->config;
	const struct layer *l = &c->layer[layer];
	const struct cuda_offsets at = cuda_offsets_of(x->model->kv, l);
	size_t width = (size_t)c->heads * l->head_dim * sizeof(float);
	return (struct cuda_attention){.q = cuda_at(k->q + t * width),
				       .sinks = c->sinks ? cuda_at(cuda_weight(x->model, layer, TENSOR_SINKS))
							 : NULL,
				       .parts = cuda_at(k->parts),
				       .out = cuda_at(k->attended.f + t * width),
				       .rows = cuda_at(x->in + cuda_rows_at(x->n, config_kv_kind(l)) +
						       t * sizeof(struct cuda_row)),
				       .key_offset = at.key,
				       .key_step = at.key_step,
				       .value_offset = at.value,
				       .value_step = at.value_step,
				       .n = n,
				       .heads = c->heads,
				       .group = c->heads / l->kv_heads,
				       .head_dim = l->head_dim,
				       .window = l->window,
				       .spans = cuda_spans_of(x, l),
				       .half = x->model->kv == KV_F16,
				       .copy_keys = cuda_copies_keys(x->model, s->n),
				       .scale = c->attention_scale};
}

/* Attention of rows [t, t + n); together: they follow each other in one context. */
static void cuda_attend_to(struct step *s, uint32_t layer, uint32_t t, uint32_t n, bool together)
{
	struct cuda_model *m = cuda_stream_of(s)->model;
	const struct cuda_attention p = cuda_attention_of(s, layer, t, n);
	const struct cuda_grid g = together ? cuda_rows_grid(&p) : cuda_spans_grid(&p);
	cuda_do(m, together ? cuda_attend_rows_number : cuda_attend_spans_number, &g, &p);
	cuda_join_spans(s, layer, &p, t);
}

/* Rows from row t on that are computed in one launch: a prompt's rows, or rows of several spans that
 * have few each. A sequence does not depend on whose rows it computes. */
static uint32_t cuda_rows_alike(const struct step *s, uint32_t t, bool *together)
{
	const struct step_span *span = step_span_of(s, t);
	uint32_t n = span->first + span->n - t;
	*together = s->n > CUDA_SEQUENCE_ROWS && n >= CUDA_ROWS_TOGETHER / 2;
	if (*together)
		return n;
	while (t + n < s->n && (s->n <= CUDA_SEQUENCE_ROWS ||
				step_span_of(s, t + n)->n < CUDA_ROWS_TOGETHER / 2))
		n += step_span_of(s, t + n)->n;
	return n;
}

/* Norms, positions and attention in one launch, for few rows. False: not for these. Where more rows see more than
 * all processors have in two rounds, smaller blocks of threads are faster. */
static bool cuda_attend_with_heads(struct step *s, uint32_t layer, const struct cuda_heads *heads)
{
	struct cuda_model *m = cuda_stream_of(s)->model;
	const struct cuda_room room = cuda_room_of(m);
	struct cuda_attend_heads p = {.attention = cuda_attention_of(s, layer, 0, s->n), .heads = *heads};
	if (cuda_rows_at_once(s, &s->env->config->layer[layer]) < s->n || !cuda_attends_heads(&p, &room))
		return false;
	const struct cuda_grid g = cuda_attend_heads_grid(&p);
	if (s->n > CUDA_ALONE && g.x * g.y > 2 * room.processors)
		return false;
	cuda_do(m, cuda_attend_heads_number, &g, &p);
	cuda_join_spans(s, layer, &p.attention, 0);
	return true;
}

/* attended, in 8 bits = attention of the rows. */
static void cuda_attend(struct step *s, uint32_t layer)
{
	const struct cuda_heads heads = cuda_heads_of(s, layer);
	const struct cuda_grid g = cuda_heads_grid(&heads);
	uint32_t most = cuda_rows_at_once(s, &s->env->config->layer[layer]), n;
	struct err e;
	if (cuda_attend_with_heads(s, layer, &heads))
		return;
	cuda_do(cuda_stream_of(s)->model, cuda_place_heads_number, &g, &heads);
	if (!most) {
		err_set(&e, ENOTSUP, "the text is too long for attention on the GPU");
		cuda_fail(cuda_stream_of(s)->model, &e);
	}
	for (uint32_t t = 0; t < s->n && most; t += n) {
		bool together;
		n = cuda_rows_alike(s, t, &together);
		n = n < most ? n : most;
		cuda_attend_to(s, layer, t, n, together);
	}
}

static void cuda_add_bias(struct step *s, uint32_t layer, enum tensor_role role, gpu_address y)
{
	struct cuda_model *m = cuda_stream_of(s)->model;
	const struct cuda_bias p = {cuda_at(y), cuda_at(cuda_weight(m, layer, role)), s->n,
				    cuda_matrix(m, layer, role)->shape.cols};
	const struct cuda_grid g = cuda_items_grid((size_t)p.n * p.width);
	cuda_do(m, cuda_add_bias_number, &g, &p);
}

/* Norms of all heads of a row together. */
static void cuda_norm_heads_together(struct step *s, uint32_t layer)
{
	struct cuda_model *m = cuda_stream_of(s)->model;
	const struct layer *l = &s->env->config->layer[layer];
	gpu_address q = cuda_scratch_of(s)->projected, keys = cuda_scratch_of(s)->keys;
	cuda_norm(m, q, q, cuda_weight(m, layer, TENSOR_Q_NORM), s->n,
		  s->env->config->heads * l->head_dim);
	cuda_norm(m, keys, keys, cuda_weight(m, layer, TENSOR_K_NORM), s->n,
		  l->kv_heads * l->head_dim);
}

/* Norms of values without weights: x / sqrt(mean(x²) + eps). Where there is no projection of values, they are
 * the keys before their norms. */
static void cuda_norm_values(struct step *s, uint32_t layer)
{
	const struct config *c = s->env->config;
	const struct layer *l = &c->layer[layer];
	const float dim = (float)l->head_dim;
	const gpu_address from = l->keys_as_values ? cuda_scratch_of(s)->keys : cuda_values_of(s, layer);
	const struct cuda_lengths p = {.x = cuda_at(from),
				       .y = cuda_at(cuda_values_of(s, layer)),
				       .rows = s->n * l->kv_heads,
				       .n = l->head_dim,
				       .eps = c->rms_eps * dim,
				       .scale = sqrtf(dim)};
	const struct cuda_grid g = cuda_lengths_grid(&p);
	cuda_do(cuda_stream_of(s)->model, cuda_l2norm_number, &g, &p);
}

/* Queries, keys and values of the stream's rows. */
static void cuda_project(struct step *s, uint32_t layer)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct cuda_projection products[] = {
		{TENSOR_Q, k->projected},
		{TENSOR_K, k->keys},
		{TENSOR_V, cuda_values_of(s, layer)}};
	const struct config *c = s->env->config;
	const uint32_t count = c->layer[layer].keys_as_values ? 2 : 3;
	const enum format now = cuda_format_of(s, layer, TENSOR_Q);
	cuda_enter_part(s, layer, TENSOR_MIXER_NORM, &k->normed, now);
	(void)cuda_multiply_all(x->model, layer, products, count, &k->normed, s->n, now);
	for (uint32_t i = 0; i < count && c->qkv_bias; i++)
		cuda_add_bias(s, layer, TENSOR_Q_BIAS + i, products[i].to);
	if (c->value_norm)
		cuda_norm_values(s, layer);
	if (c->head_norms == HEAD_NORMS_TOGETHER)
		cuda_norm_heads_together(s, layer);
}

void cuda_run_attention(struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct cuda_input attended = cuda_attended_of(s, layer);
	cuda_project(s, layer);
	cuda_attend(s, layer);
	cuda_multiply(k->model, layer, TENSOR_O, &attended, s->n, k->out);
	if (s->env->config->output_bias)
		cuda_add_bias(s, layer, TENSOR_O_BIAS, k->out);
	cuda_leave_rows(s, layer, PART_MIXER);
}

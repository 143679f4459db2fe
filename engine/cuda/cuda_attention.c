/* Attention on the GPU: the rows' keys and values into the copies of their contexts, attention to all
 * positions, and keys and values back to main memory. See cuda_arrays.h. */
#include "engine/cuda/cuda_arrays.h"
#include "kernels/attention.h"
#include "kernels/watch.h"

#include <errno.h>
#include <string.h>

/* ---- where the rows belong ---- */

static size_t cuda_round_up(size_t bytes)
{
	enum { ALIGNMENT = 16 };
	return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t cuda_tokens_at(uint32_t n)
{
	return n * sizeof(struct cuda_row);
}

size_t cuda_angles_at(const struct step *s, uint32_t rope)
{
	uint32_t n = cuda_stream_of(s)->n; /* rows that died since are still there */
	size_t at = cuda_tokens_at(n) + cuda_round_up(n * sizeof(uint32_t));
	for (uint32_t r = 0; r < rope; r++)
		at += 2 * cuda_round_up((size_t)n * s->rotations[r].half * sizeof(float));
	return at;
}

/* The rows' contexts, blocks on the GPU and positions. */
static void cuda_list_rows(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	struct cuda_row *row = (struct cuda_row *)(void *)x->in_main;
	x->spans = 1;
	for (uint32_t t = 0; t < s->n; t++)
		x->place[t].dead = true;
	for (struct step_span *span = s->spans; span < s->spans + s->span_count; span++) {
		if (!span->n)
			continue;
		const struct cuda_context *c =
			cuda_context_ready(x->model, span->context, span->position, span->n,
					   x->number);
		uint32_t spans = (span->position + span->n - 1) / ATTENTION_SPAN + 1;
		x->spans = spans > x->spans ? spans : x->spans;
		for (uint32_t t = 0; t < span->n; t++) {
			uint32_t at = span->first + t, position = span->position + t;
			x->place[at] = (struct cuda_place){span->context, position, false};
			row[at] = (struct cuda_row){.blocks = c ? cuda_at(c->table) : NULL,
						    .position = position};
		}
	}
}

void cuda_place_rows(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	uint32_t *token = (uint32_t *)(void *)(x->in_main + cuda_tokens_at(s->n));
	x->n = s->n;
	cuda_list_rows(s);
	for (uint32_t t = 0; t < s->n; t++)
		token[t] = step_token(s, t);
	for (uint32_t r = 0; r < CONFIG_ROPES; r++) {
		const struct rotation *rope = &s->rotations[r];
		size_t bytes = (size_t)s->n * rope->half * sizeof(float);
		uint8_t *to = x->in_main + cuda_angles_at(s, r);
		memcpy(to, rope->cos, bytes);
		memcpy(to + cuda_round_up(bytes), rope->sin, bytes);
	}
	cuda_copy_in(x->model, x->in, x->in_main, cuda_angles_at(s, CONFIG_ROPES));
	x->placed = true;
}

/* ---- keys and values ---- */

/* Elements of a layer's keys, or values, in `left`. */
static size_t cuda_left_keys(const struct step *s)
{
	const struct config *c = s->env->config;
	return (size_t)cuda_stream_of(s)->n * c->kv_heads * c->head_dim;
}

gpu_address cuda_keys_of(const struct step *s, uint32_t layer)
{
	return cuda_stream_of(s)->left + layer * cuda_left_keys(s) * sizeof(float);
}

gpu_address cuda_values_of(const struct step *s, uint32_t layer)
{
	return cuda_keys_of(s, s->env->config->layers + layer);
}

size_t cuda_chosen_at(const struct step *s, uint32_t layer)
{
	const struct config *c = s->env->config;
	return 2 * c->layers * cuda_left_keys(s) +
	       (size_t)layer * cuda_stream_of(s)->n * c->experts_per_token;
}

size_t cuda_weight_at(const struct step *s, uint32_t layer)
{
	return cuda_chosen_at(s, s->env->config->layers + layer);
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
static void cuda_place_in_blocks(struct step *s, uint32_t layer)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	struct cuda_model *m = x->model;
	const struct config *c = s->env->config;
	const struct layer *l = &c->layer[layer];
	const struct cuda_offsets at = cuda_offsets_of(m->kv, l);
	bool norms = c->head_norms == HEAD_NORMS_EACH;
	gpu_address cos = x->in + cuda_angles_at(s, l->rope);
	size_t angles = (size_t)x->n * s->rotations[l->rope].half * sizeof(float);
	const struct cuda_heads p = {
		.q = cuda_at(cuda_scratch_of(s)->q),
		.q_norm = norms ? cuda_at(cuda_weight(m, layer, TENSOR_Q_NORM)) : NULL,
		.key_norm = norms ? cuda_at(cuda_weight(m, layer, TENSOR_K_NORM)) : NULL,
		.cos = cuda_at(cos),
		.sin = cuda_at(cos + cuda_round_up(angles)),
		.keys = {.key = cuda_at(cuda_keys_of(s, layer)),
			 .value = cuda_at(cuda_values_of(s, layer)),
			 .rows = cuda_at(x->in),
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
	const struct cuda_grid g = cuda_heads_grid(&p);
	cuda_do(m, cuda_place_heads_number, &g, &p);
}

/* ---- attention ---- */

/* Whether keys are copied to shared memory: where few rows have the GPU for themselves, and it has so
 * much. */
static bool cuda_copies_keys(const struct cuda_model *m, uint32_t n)
{
	enum { FEW = 4, MUCH_SHARED = 163 << 10 };
	return n <= FEW && m->card.facts.shared >= MUCH_SHARED;
}

/* Rows whose spans find room in the scratch together; 0: not even one. */
static uint32_t cuda_rows_at_once(const struct step *s, const struct layer *l)
{
	enum { GRID_MOST = 65535 };
	const struct cuda_stream *x = cuda_stream_of(s);
	size_t row = (size_t)x->spans * s->env->config->heads * attention_part(l->head_dim) *
		     sizeof(float),
	       most = CUDA_PARTS_BYTES / row, grid = GRID_MOST / s->env->config->heads;
	most = most < grid ? most : grid;
	return most < s->n ? (uint32_t)most : s->n;
}

static enum format cuda_format(const struct step *s, uint32_t layer, enum tensor_role role)
{
	return s->env->weights->layer[layer].m[role].shape.format;
}

/* attended, in 8 bits = what the rows' spans are together. */
static void cuda_join_spans(struct step *s, const struct cuda_attention *p, enum format format,
			    uint32_t first)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct cuda_input to = cuda_input_from(&k->attended, format, first);
	struct cuda_join_inputs inputs = {
		.attention = *p, .q = cuda_at(to.q), .scale = cuda_at(to.scale)};
	cuda_fill_signs(&inputs.signs);
	const struct cuda_grid join = cuda_join_grid(p), both = cuda_join_inputs_grid(&inputs);
	if (format_input(format) == INPUT_TQ) {
		cuda_do(k->model, cuda_join_inputs_number, &both, &inputs);
		return;
	}
	cuda_do(k->model, cuda_attend_join_number, &join, p);
	cuda_prepare_input(k->model, &to, p->n, format);
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
				       .parts = cuda_at(k->parts),
				       .out = cuda_at(k->attended.f + t * width),
				       .rows = cuda_at(x->in + t * sizeof(struct cuda_row)),
				       .key_offset = at.key,
				       .key_step = at.key_step,
				       .value_offset = at.value,
				       .value_step = at.value_step,
				       .n = n,
				       .heads = c->heads,
				       .group = c->heads / l->kv_heads,
				       .head_dim = l->head_dim,
				       .spans = x->spans,
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
	cuda_join_spans(s, &p, cuda_format(s, layer, TENSOR_O), t);
}

/* Rows from row t on that are computed in one launch: those of a prompt, or rows of several spans that
 * have few each. Sequences do not depend on whose rows they are. */
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

/* attended, in 8 bits = attention of the rows. */
static void cuda_attend(struct step *s, uint32_t layer)
{
	uint32_t most = cuda_rows_at_once(s, &s->env->config->layer[layer]), n;
	struct err e;
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

/* Queries, keys and values of the stream's rows. */
static void cuda_project(struct step *s, uint32_t layer)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct cuda_projection products[] = {
		{TENSOR_Q, k->q},
		{TENSOR_K, cuda_keys_of(s, layer)},
		{TENSOR_V, cuda_values_of(s, layer)}};
	enum { PRODUCTS = sizeof products / sizeof *products };
	enum format now = cuda_format(s, layer, TENSOR_Q);
	cuda_enter_part(s, layer, TENSOR_MIXER_NORM, &k->normed, now);
	if (cuda_multiply_together(x->model, layer, products, PRODUCTS, &k->normed, s->n))
		return;
	for (size_t i = 0; i < PRODUCTS; i++) {
		const enum format wanted = cuda_format(s, layer, products[i].role);
		if (format_input(wanted) != format_input(now))
			cuda_prepare_input(x->model, &k->normed, s->n, now = wanted);
		cuda_multiply(x->model, layer, products[i].role, &k->normed, s->n, products[i].to);
	}
}

void cuda_run_mixer(struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	cuda_project(s, layer);
	cuda_place_in_blocks(s, layer);
	cuda_attend(s, layer);
	cuda_multiply(k->model, layer, TENSOR_O, &k->attended, s->n, k->out);
	cuda_leave_rows(s);
}

/* ---- back to main memory ---- */

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

/* Items are (layer, row). */
static void cuda_settle_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct cuda_settling *z = ctx;
	const struct environment *env = z->step->env;
	const struct cuda_stream *x = z->x;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t layer = x->settled + i / x->n, t = i % x->n;
		const struct layer *l = &env->config->layer[layer];
		const struct cuda_place *p = &x->place[t];
		uint32_t b = p->position / KV_BLOCK, dim = l->head_dim;
		size_t width = (size_t)l->kv_heads * dim;
		const struct context *to = p->context;
		const float *key = x->left_out + ((size_t)layer * x->n + t) * width,
			    *value = key + (size_t)env->config->layers * x->n * width;
		if (p->dead)
			continue;
		for (uint32_t h = 0; h < l->kv_heads; h++)
			watch_kv_put(env->kernels, (void *)to->kv[KV_WHOLE].blocks[b], to->type,
				     context_key_offset(to->type, l, h),
				     context_value_offset(to->type, l, h),
				     p->position % KV_BLOCK, key + h * dim, value + h * dim, dim,
				     0);
	}
}

void cuda_send_left(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	uint32_t layers = s->env->config->layers;
	if (x->sent == x->mixed)
		return;
	if (x->mixed == layers) {
		cuda_copy_out(x->model, x->left_out, x->left,
			      cuda_weight_at(s, layers) * sizeof *x->left_out);
	} else { /* some rows stop here */
		size_t bytes = x->mixed * cuda_left_keys(s) * sizeof *x->left_out,
		       values = layers * cuda_left_keys(s), chosen = cuda_chosen_at(s, 0);
		cuda_copy_out(x->model, x->left_out, x->left, bytes);
		cuda_copy_out(x->model, x->left_out + values, cuda_values_of(s, 0), bytes);
		cuda_copy_out(x->model, x->left_out + chosen,
			      x->left + chosen * sizeof *x->left_out,
			      (cuda_weight_at(s, layers) - chosen) * sizeof *x->left_out);
	}
	cuda_mark(x->model, x->arrival);
	x->sent = x->mixed;
	x->arrived = false;
}

bool cuda_receive_left(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	cuda_send_left(s);
	if (!x->arrived)
		x->arrived = cuda_wait_for(x->model, x->arrival);
	return x->arrived;
}

void cuda_settle_layers(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	uint32_t items = (x->mixed - x->settled) * x->n;
	if (items && cuda_receive_left(s)) {
		cuda_note_dead(s);
		threads_run(s->env->threads, items, 4, cuda_settle_rows,
			    &(struct cuda_settling){s, x});
	}
	x->settled = x->mixed;
}

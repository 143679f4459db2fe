/* Making and freeing the arrays of cuda_arrays.h. */
#include "engine/cuda/cuda_arrays.h"
#include "engine/cpu/cpu.h"

#include <errno.h>
#include <stdlib.h>

uint32_t cuda_most_items(uint32_t experts, uint32_t assignments, uint32_t most)
{
	return (experts < assignments ? experts : assignments) + assignments / most;
}

/* ---- memory on the GPU, one piece for all arrays ---- */

/* The next array; `at` counts bytes and then becomes the place of the first one. */
static gpu_address cuda_next(gpu_address *at, size_t count, size_t size)
{
	gpu_address place = *at;
	*at += cuda_round_up(count * size, CUDA_ALIGNMENT);
	return place;
}

/* Columns that a row of width k has in 8 bits. */
static size_t cuda_columns(size_t k)
{
	return tq_groups((uint32_t)k) * TQ_GROUP;
}

static void cuda_next_columns(struct cuda_input *x, gpu_address *at, size_t columns)
{
	x->q = cuda_next(at, columns, 1);
	x->scale = cuda_next(at, columns / 32, sizeof(float));
	x->sum = cuda_next(at, columns / 16, sizeof(int16_t));
}

static void cuda_next_codes(struct cuda_input *x, gpu_address *at, size_t rows)
{
	cuda_next_columns(x, at, rows * cuda_columns(x->k));
}

/* The width of the widest dense feed-forward. */
static uint32_t cuda_dense_width(const struct config *c)
{
	uint32_t widest = 0, width, cols;
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		config_tensor_shape(c, TENSOR_UP, layer, &width, &cols);
		if (c->layer[layer].feed_forward == FEED_FORWARD_DENSE && width > widest)
			widest = width;
	}
	return widest;
}

/* `hidden` has room for the inputs of each kind of feed-forward. */
static void cuda_lay_out_hidden(struct cuda_scratch *s, const struct config *c, gpu_address *at)
{
	const struct {
		size_t rows, width;
	} kind[] = {{(size_t)s->rows * (s->top_k + (c->shared_size == c->expert_size)), c->expert_size},
		    {s->rows, c->shared_size},
		    {s->rows, cuda_dense_width(c)}};
	size_t floats = 0, columns = 0;
	for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
		size_t f = kind[i].rows * kind[i].width,
		       q = kind[i].rows * cuda_columns(kind[i].width);
		floats = f > floats ? f : floats;
		columns = q > columns ? q : columns;
	}
	s->hidden.f = cuda_next(at, 2 * floats, sizeof(float));
	cuda_next_columns(&s->hidden, at, columns);
}

/* Most bytes of `in` for each row: each part begins at a multiple of 16. */
static size_t cuda_in_bytes(const struct config *c)
{
	size_t bytes = CUDA_KV_KINDS * sizeof(struct cuda_row) + sizeof(struct cuda_states) + 32;
	for (uint32_t r = 0; r < CONFIG_ROPES; r++)
		bytes += 2 * (c->rope[r].dim * sizeof(float) + 16);
	return bytes;
}

/* Floats that `rows` rows leave behind. */
static size_t cuda_left_floats(const struct cuda_left *l, size_t rows)
{
	return rows * (2 * (size_t)l->keyed * l->kv_width +
		       CHOICE_ARRAYS * (size_t)l->routed * l->top_k);
}

static size_t cuda_lay_out_stream(struct cuda_stream *x, const struct config *c, gpu_address memory)
{
	gpu_address at = memory;
	size_t rows = x->rows;
	x->x = x->rows_at = cuda_next(&at, rows * c->hidden_size, sizeof(float));
	x->few_at = cuda_next(&at, (size_t)CUDA_NORM_FEW * c->hidden_size, sizeof(float));
	x->in = cuda_next(&at, rows, cuda_in_bytes(c));
	x->left = cuda_next(&at, cuda_left_floats(&x->model->left, rows), sizeof(float));
	return at - memory;
}

static void cuda_lay_out_delta(struct cuda_delta_arrays *d, const struct config *c, size_t rows,
			       gpu_address *at)
{
	size_t heads = c->mixers[MIXER_DELTA_NET] ? c->delta_net.value_heads : 0,
	       values = heads * c->delta_net.value_dim,
	       channels = heads ? config_delta_channels(c) : 0;
	const struct {
		gpu_address *to;
		size_t width;
	} arrays[] = {{&d->in, channels}, {&d->mixed, channels}, {&d->gate, values},
		      {&d->out, values},  {&d->a, heads},	 {&d->b, heads},
		      {&d->decay, heads}, {&d->beta, heads},	 {&d->counts, heads},
		      {&d->gated.f, values}};
	for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
		*arrays[i].to = cuda_next(at, rows * arrays[i].width, sizeof(float));
	d->gated.k = (uint32_t)values;
	cuda_next_codes(&d->gated, at, rows);
}

/* Queries of a row in the layer with the widest heads. */
static size_t cuda_attended_width(const struct config *c)
{
	uint32_t widest = 0;
	for (uint32_t layer = 0; layer < c->layers; layer++)
		if (c->layer[layer].mixer == MIXER_ATTENTION && c->layer[layer].head_dim > widest)
			widest = c->layer[layer].head_dim;
	return (size_t)c->heads * widest;
}

static size_t cuda_lay_out_scratch(struct cuda_scratch *s, const struct config *c,
				   gpu_address memory)
{
	gpu_address at = memory;
	size_t rows = s->rows, all = rows * s->top_k, hidden = c->hidden_size,
	       attended = cuda_attended_width(c),
	       head = (size_t)HEAD_ROWS * c->vocabulary, routed = rows * c->experts;
	s->normed.k = c->hidden_size;
	s->normed.f = cuda_next(&at, rows * hidden, sizeof(float));
	cuda_next_codes(&s->normed, &at, rows);
	s->guess.k = c->hidden_size;
	s->guess.f = cuda_next(&at, PREDICT_MOST * hidden, sizeof(float));
	cuda_next_codes(&s->guess, &at, PREDICT_MOST);
	s->q = s->projected = cuda_next(&at, rows * attended, sizeof(float));
	if (c->query_gate)
		s->projected = cuda_next(&at, 2 * rows * attended, sizeof(float));
	s->keys = cuda_next(&at, rows * s->model->left.kv_width, sizeof(float));
	s->attended.k = (uint32_t)attended;
	s->attended.f = cuda_next(&at, rows * attended, sizeof(float));
	cuda_next_codes(&s->attended, &at, rows);
	cuda_lay_out_delta(&s->delta, c, rows, &at);
	s->parts = cuda_next(&at, CUDA_PARTS_BYTES, 1);
	s->out = cuda_next(&at, rows * hidden, sizeof(float));
	s->logits = cuda_next(&at, head > routed ? head : routed, sizeof(float));
	s->wanted = cuda_next(&at, rows, sizeof(uint32_t));
	s->largest = cuda_next(&at, HEAD_ROWS * CUDA_LARGEST_PARTS, sizeof(struct cuda_peak));
	s->chosen = cuda_next(&at, CHOICE_ARRAYS * all, sizeof(uint32_t));
	s->order = cuda_next(&at, all, sizeof(uint32_t));
	s->items = cuda_next(&at, cuda_most_items(c->experts, (uint32_t)all, 1),
			     sizeof(struct cuda_item));
	s->item_count = cuda_next(&at, 1, sizeof(uint32_t));
	s->found = cuda_next(&at, all * hidden, sizeof(float));
	s->shared = cuda_next(&at, c->shared_size ? rows * hidden : 0, sizeof(float));
	s->shared_gate = cuda_next(&at, c->shared_size ? rows : 0, sizeof(float));
	cuda_lay_out_hidden(s, c, &at);
	return at - memory;
}

/* ---- the stream ---- */

static int cuda_stream_take_main(struct cuda_stream *x, const struct environment *env, struct err *e)
{
	struct cuda_model *m = x->model;
	size_t rows = x->rows;
	x->place = calloc(rows, sizeof *x->place);
	if (!x->place)
		return err_set(e, ENOMEM, "out of memory for a step's rows");
	int failed = cpu_backend.stream_make(&x->cpus, env, x->rows, e);
	if (failed)
		return failed;
	x->in_main = cuda_take_main(m, rows * cuda_in_bytes(env->config), e);
	if (x->in_main)
		x->left_out = cuda_take_main(
			m, cuda_left_floats(&m->left, rows) * sizeof *x->left_out, e);
	return x->left_out ? 0 : -e->code;
}

/* Of what goes to main memory. */
static int cuda_stream_make_events(struct cuda_stream *x, struct err *e)
{
	const struct gpu_driver *d = &x->model->card.driver;
	int result = d->event_create(&x->arrival, GPU_EVENT_NO_TIME);
	for (uint32_t i = 0; i < CUDA_PORTIONS && !result; i++)
		result = d->event_create(&x->portion[i].arrival, GPU_EVENT_NO_TIME);
	return gpu_driver_check(d, result, "marking the GPU's work", e);
}

static void cuda_stream_free_events(struct cuda_stream *x)
{
	const struct gpu_driver *d = &x->model->card.driver;
	if (x->arrival)
		(void)d->event_destroy(x->arrival);
	for (uint32_t i = 0; i < CUDA_PORTIONS; i++)
		if (x->portion[i].arrival)
			(void)d->event_destroy(x->portion[i].arrival);
}

int cuda_stream_make(struct residual_stream **out, const struct environment *env, uint32_t rows,
		     struct err *e)
{
	struct cuda_model *m = env->on_card;
	struct cuda_stream *x = calloc(1, sizeof *x);
	if (!x)
		return err_set(e, ENOMEM, "out of memory for a step's rows");
	x->model = m;
	x->number = ++m->last_number;
	x->rows = rows;
	cuda_enter(m);
	x->bytes = cuda_lay_out_stream(x, env->config, 0);
	x->memory = cuda_take(m, GPU_DENSE, x->bytes, e);
	cuda_lay_out_stream(x, env->config, x->memory);
	int failed = x->memory ? cuda_stream_take_main(x, env, e) : -e->code;
	if (!failed)
		failed = cuda_stream_make_events(x, e);
	if (failed)
		cuda_stream_free((struct residual_stream *)x);
	else
		*out = (struct residual_stream *)x;
	return failed;
}

/* Nobody reads the stream any more: of a pass that was given up, or whose logits nobody wanted. */
static void cuda_forget_pending(const struct cuda_stream *x)
{
	for (struct cuda_scratch *k = x->model->scratches; k; k = k->next)
		if (k->pending.of == x)
			k->pending = (struct cuda_pending){0};
}

void cuda_stream_free(struct residual_stream *stream)
{
	struct cuda_stream *x = (struct cuda_stream *)stream;
	if (!x)
		return;
	cuda_enter(x->model);
	cuda_forget_pending(x);
	cuda_contexts_let_go(x->model, x->number);
	cuda_give(x->model, GPU_DENSE, x->memory, x->bytes);
	cpu_backend.stream_free(x->cpus);
	cuda_give_main(x->model, x->in_main);
	cuda_give_main(x->model, x->left_out);
	cuda_stream_free_events(x);
	free(x->place);
	free(x);
}

/* As if the GPU computed all of the model: what it computes is not known before it is opened. */
uint64_t cuda_stream_bytes(const struct config *c, uint32_t rows)
{
	struct cuda_left left = {.keyed = c->mixers[MIXER_ATTENTION], .top_k = c->experts_per_token};
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		const struct layer *l = &c->layer[layer];
		uint32_t width = l->kv_heads * l->head_dim;
		left.kv_width = width > left.kv_width ? width : left.kv_width;
		left.routed += l->feed_forward == FEED_FORWARD_ROUTED;
	}
	return cpu_backend.stream_bytes(c, rows) + cuda_left_floats(&left, rows) * sizeof(float);
}

/* ---- scratch ---- */

static int cuda_scratch_take_main(struct cuda_scratch *s, const struct config *c, struct err *e)
{
	struct cuda_model *m = s->model;
	size_t rows = s->rows, all = rows * s->top_k, head = (size_t)HEAD_ROWS * c->vocabulary;
	s->normed_out = cuda_take_main(m, rows * c->hidden_size * sizeof(float), e);
	if (s->normed_out)
		s->logits_out = cuda_take_main(m, head * sizeof(float), e);
	if (s->logits_out)
		s->largest_out = cuda_take_main(
			m, HEAD_ROWS * CUDA_LARGEST_PARTS * sizeof *s->largest_out, e);
	if (s->largest_out)
		s->found_here = cuda_take_main(m, all * c->hidden_size * sizeof(float), e);
	if (s->found_here)
		s->chosen_here = cuda_take_main(m, CHOICE_ARRAYS * all * sizeof(uint32_t), e);
	if (s->chosen_here)
		s->wanted_in = cuda_take_main(m, rows * sizeof(uint32_t), e);
	if (s->wanted_in)
		s->told = cuda_take_main(m, sizeof *s->told, e);
	return s->told ? 0 : -e->code;
}

int cuda_scratch_make(struct scratch **out, const struct environment *env, uint32_t rows,
		      struct err *e)
{
	struct cuda_model *m = env->on_card;
	struct cuda_scratch *s = calloc(1, sizeof *s);
	if (!s)
		return err_set(e, ENOMEM, "out of memory for activations");
	s->model = m;
	s->rows = rows;
	s->top_k = env->config->experts_per_token;
	s->next = m->scratches;
	m->scratches = s;
	cuda_enter(m);
	s->bytes = cuda_lay_out_scratch(s, env->config, 0);
	s->memory = cuda_take(m, GPU_DENSE, s->bytes, e);
	cuda_lay_out_scratch(s, env->config, s->memory);
	int failed = s->memory ? cuda_scratch_take_main(s, env->config, e) : -e->code;
	if (!failed)
		failed = cpu_backend.scratch_make(&s->cpu, env, rows, e);
	if (failed)
		cuda_scratch_free((struct scratch *)s);
	else
		*out = (struct scratch *)s;
	return failed;
}

void cuda_free_sequence(struct cuda_scratch *k, struct cuda_sequence *q)
{
	card_forget(&k->model->card, q->launches);
	*q = (struct cuda_sequence){0};
}

static void cuda_forget_sequences(struct cuda_scratch *k)
{
	for (struct cuda_sequence *q = k->sequence; q < k->sequence + CUDA_SEQUENCES; q++)
		cuda_free_sequence(k, q);
}

static void cuda_unlist_scratch(struct cuda_scratch *s)
{
	struct cuda_scratch **at = &s->model->scratches;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
}

void cuda_scratch_free(struct scratch *scratch)
{
	struct cuda_scratch *s = (struct cuda_scratch *)scratch;
	if (!s)
		return;
	cuda_unlist_scratch(s);
	cuda_enter(s->model);
	cuda_flush(s); /* the stream of a pass that waits */
	(void)cuda_wait(s->model);
	cuda_forget_sequences(s);
	cpu_backend.scratch_free(s->cpu);
	cuda_give(s->model, GPU_DENSE, s->memory, s->bytes);
	cuda_give_main(s->model, s->normed_out);
	cuda_give_main(s->model, s->logits_out);
	cuda_give_main(s->model, s->largest_out);
	cuda_give_main(s->model, s->found_here);
	cuda_give_main(s->model, s->chosen_here);
	cuda_give_main(s->model, s->wanted_in);
	cuda_give_main(s->model, (void *)s->told);
	free(s);
}

uint64_t cuda_scratch_bytes(const struct config *c, uint32_t rows)
{
	return cpu_backend.scratch_bytes(c, rows) +
	       ((uint64_t)rows * (c->experts_per_token + 1) * c->hidden_size +
		(uint64_t)HEAD_ROWS * c->vocabulary) *
		       sizeof(float);
}

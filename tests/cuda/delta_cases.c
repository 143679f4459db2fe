/* Gated delta nets: the kernels of a layer one after the other, against the scalar functions in the
 * order of engine/cpu/delta.c and recurrent_rows.c. */
#include "kernels/kernels.h"
#include "tests/cuda/cases.h"

#include <stdlib.h>
#include <string.h>

enum { DELTA_KEPT = 12, DELTA_AT = 5, DELTA_PARTS = 4 };

/* A step's rows of a context. */
struct delta_text {
	uint32_t n, certain, behind;
};

/* Sizes, and all that the kernels read and write: here, and what is expected of them. */
struct delta_run {
	struct cuda_delta p;
	const struct delta_text *texts;
	size_t channels, values, row, state; /* floats: of a row that is kept, of a context's state */
	float *in, *gate, *a, *b, *conv, *a_log, *dt_bias, *norm, *states;
	float *mixed, *decay, *beta, *y;
	bool coded; /* outputs in 8 bits */
};

static float *case_delta_floats(struct random *random, size_t n, float factor)
{
	float *x = case_alloc(n, sizeof *x);
	random_normal(random, x, n);
	for (size_t i = 0; i < n; i++)
		x[i] *= factor;
	return x;
}

static void case_delta_begin(struct delta_run *x, struct random *random)
{
	struct cuda_delta *p = &x->p;
	const size_t heads = p->value_heads, n = p->n;
	x->values = heads * p->value_dim;
	x->channels = 2 * (size_t)p->key_heads * p->key_dim + x->values;
	x->row = 2 * x->channels + 2 * heads;
	x->state = DELTA_AT + heads * p->key_dim * p->value_dim + (p->width - 1) * x->channels +
		   DELTA_KEPT * x->row;
	p->at = DELTA_AT;
	p->query_scale = 0.25F;
	p->length_eps = DELTA_LENGTH_EPS;
	p->eps = 1e-5F;
	x->in = case_delta_floats(random, n * x->channels, 1);
	x->gate = case_delta_floats(random, n * x->values, 1);
	x->a = case_delta_floats(random, n * heads, 5);
	x->b = case_delta_floats(random, n * heads, 5);
	x->conv = case_delta_floats(random, p->width * x->channels, 1);
	x->a_log = case_delta_floats(random, heads, 1);
	x->dt_bias = case_delta_floats(random, heads, 1);
	x->norm = case_delta_floats(random, p->value_dim, 1);
	x->states = case_delta_floats(random, p->most * x->state, 1);
	x->mixed = case_delta_floats(random, n * x->channels, 1);
	x->decay = case_delta_floats(random, n * heads, 1);
	x->beta = case_delta_floats(random, n * heads, 1);
	x->y = case_delta_floats(random, n * x->values, 1);
}

static void case_delta_end(struct delta_run *x)
{
	float *all[] = {x->in,	 x->gate,   x->a,     x->b,	x->conv, x->a_log, x->dt_bias,
			x->norm, x->states, x->mixed, x->decay, x->beta, x->y};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

/* ---- what is expected ---- */

static float *case_delta_before(const struct delta_run *x, float *state)
{
	return state + DELTA_AT + x->values * x->p.key_dim;
}

static const float *case_delta_input(const struct delta_run *x, float *state, const struct delta_text *c,
				     size_t first, size_t t, size_t back)
{
	const float *before = case_delta_before(x, state);
	const size_t kept = x->p.width - 1;

	if (back <= t)
		return x->in + (first + t - back) * x->channels;
	if (back - t <= c->behind)
		return before + kept * x->channels + (c->behind - (back - t)) * x->row;
	return before + (kept - (back - t - c->behind)) * x->channels;
}

static void case_delta_mix_row(struct delta_run *x, float *state, const struct delta_text *c,
			       size_t first, size_t t)
{
	const struct cuda_delta *p = &x->p;
	const size_t row = first + t, heads = p->value_heads;
	const float *taps[CONV_WIDTH];
	float *mixed = x->mixed + row * x->channels;

	for (size_t i = 0; i < p->width; i++)
		taps[i] = case_delta_input(x, state, c, first, t, p->width - 1 - i);
	kernels_scalar.conv_silu(mixed, x->conv, NULL, taps, p->width, (uint32_t)x->channels, 0,
				 (uint32_t)x->channels);
	for (size_t h = 0; h < 2 * p->key_heads; h++)
		kernels_scalar.l2norm(mixed + h * p->key_dim, mixed + h * p->key_dim, p->key_dim,
				      p->length_eps, h < p->key_heads ? p->query_scale : 1);
	delta_gates(x->decay + row * heads, x->beta + row * heads, x->a + row * heads,
		    x->b + row * heads, x->a_log, x->dt_bias, heads);
}

/* Rows of the step, or kept ones. */
struct delta_rows {
	const float *mixed, *decay, *beta;
	size_t stride, gate_stride, out_stride; /* 0: the outputs are not used */
};

/* Moves head h on by n rows. */
static void case_delta_move(const struct delta_run *x, float *state, size_t h,
			    const struct delta_rows *from, uint32_t n, uint32_t commit, float *out)
{
	const struct cuda_delta *p = &x->p;
	const size_t key = p->tiled ? h % p->key_heads : h / (p->value_heads / p->key_heads),
		     keys = (size_t)p->key_heads * p->key_dim;
	const struct delta d = {.rule = DELTA_REPLACES,
				.key_dim = p->key_dim,
				.value_dim = p->value_dim,
				.n = n,
				.commit = commit,
				.state = state + DELTA_AT + h * p->key_dim * p->value_dim,
				.q = from->mixed + key * p->key_dim,
				.k = from->mixed + keys + key * p->key_dim,
				.key_stride = from->stride,
				.v = from->mixed + 2 * keys + h * p->value_dim,
				.value_stride = from->stride,
				.decay = from->decay + h,
				.beta = from->beta + h,
				.decay_stride = from->gate_stride,
				.beta_stride = from->gate_stride,
				.out = out + h * p->value_dim,
				.out_stride = from->out_stride};
	if (n)
		kernels_scalar.delta_steps(&d, 0, p->value_dim);
}

static void case_delta_keep(struct delta_run *x, float *state, const struct delta_text *c, size_t first)
{
	const size_t heads = x->p.value_heads, kept = x->p.width - 1, each[DELTA_PARTS] = {
		x->channels, x->channels, heads, heads};
	const float *parts[DELTA_PARTS] = {x->in, x->mixed, x->decay, x->beta};
	float *before = case_delta_before(x, state), *at = before + kept * x->channels;

	for (size_t i = 0; i < kept; i++)
		memmove(before + i * x->channels,
			case_delta_input(x, state, c, first, c->certain - 1, kept - 1 - i),
			x->channels * sizeof *before);
	for (size_t row = first + c->certain; row < first + c->n; row++)
		for (size_t i = 0; i < DELTA_PARTS; at += each[i++])
			memcpy(at, parts[i] + row * each[i], each[i] * sizeof *at);
}

static void case_delta_expect(struct delta_run *x)
{
	const struct cuda_delta *p = &x->p;
	const size_t heads = p->value_heads;
	float *out = case_alloc(p->n * x->values, sizeof *out);
	size_t first = 0;

	for (size_t i = 0; i < p->most; first += x->texts[i++].n) {
		const struct delta_text *c = &x->texts[i];
		float *state = x->states + i * x->state, *to = out + first * x->values;
		const float *kept = case_delta_before(x, state) + p->width * x->channels,
			    *gates = kept + x->channels;
		const struct delta_rows behind = {kept, gates, gates + heads, x->row, x->row, 0},
					now = {x->mixed + first * x->channels, x->decay + first * heads,
					       x->beta + first * heads, x->channels, heads, x->values};
		for (size_t t = 0; t < c->n; t++)
			case_delta_mix_row(x, state, c, first, t);
		for (size_t h = 0; h < heads && c->n; h++) {
			case_delta_move(x, state, h, &behind, c->behind, c->behind, to);
			case_delta_move(x, state, h, &now, c->n, c->certain, to);
		}
		if (c->n)
			case_delta_keep(x, state, c, first);
	}
	for (size_t i = 0; i < p->n * heads; i++) {
		float *o = out + i * p->value_dim, *y = x->y + i * p->value_dim;
		kernels_scalar.rmsnorm(o, o, x->norm, p->value_dim, p->eps);
		memcpy(y, x->gate + i * p->value_dim, p->value_dim * sizeof *y);
		kernels_scalar.silu_mul(y, o, p->value_dim);
	}
	free(out);
}

/* ---- where the kernels run ---- */

/* Puts all of it there; returns the states. */
static float *case_delta_put(const struct runner *r, const struct delta_run *x, struct cuda_delta *p)
{
	const size_t heads = p->value_heads, each = sizeof(float), gates = p->n * heads * each;
	struct cuda_states *contexts = case_alloc(p->most, sizeof *contexts);
	struct cuda_row *rows = case_alloc(p->n, sizeof *rows);
	float *states = r->put(r->ctx, x->states, p->most * x->state * each);
	for (uint32_t i = 0, first = 0; i < p->most; first += x->texts[i++].n) {
		const struct delta_text *c = &x->texts[i];
		contexts[i] = (struct cuda_states){states + i * x->state, first, c->n, c->certain, c->behind};
		for (uint32_t t = 0; t < c->n; t++)
			rows[first + t].context = i;
	}
	p->rows = r->put(r->ctx, rows, p->n * sizeof *rows);
	p->contexts = r->put(r->ctx, contexts, p->most * sizeof *contexts);
	p->in = r->put(r->ctx, x->in, p->n * x->channels * each);
	p->gate = r->put(r->ctx, x->gate, p->n * x->values * each);
	p->a = r->put(r->ctx, x->a, gates);
	p->b = r->put(r->ctx, x->b, gates);
	p->conv = r->put(r->ctx, x->conv, p->width * x->channels * each);
	p->a_log = r->put(r->ctx, x->a_log, heads * each);
	p->dt_bias = r->put(r->ctx, x->dt_bias, heads * each);
	p->norm = r->put(r->ctx, x->norm, p->value_dim * each);
	p->mixed = r->put(r->ctx, NULL, p->n * x->channels * each);
	p->decay = r->put(r->ctx, NULL, gates);
	p->beta = r->put(r->ctx, NULL, gates);
	p->out = r->put(r->ctx, NULL, p->n * x->values * each);
	p->counts = cuda_delta_is_short(p) ? r->put(r->ctx, x->a, gates) : NULL;
	free(contexts);
	free(rows);
	return states;
}

static bool case_delta_launch(const struct runner *r, struct cuda_delta *p)
{
	const struct cuda_grid mix = cuda_delta_mix_grid(p), steps = cuda_delta_steps_grid(p),
			       outputs = cuda_delta_outputs_grid(p);
	return case_launch(r, cuda_delta_mix_number, mix, p, sizeof *p) &&
	       case_launch(r, cuda_delta_steps_kernel(p), steps, p, sizeof *p) &&
	       (p->counts || case_launch(r, cuda_delta_outputs_number, outputs, p, sizeof *p));
}

static bool case_delta_agree(const struct runner *r, const char *what, const float *got, const float *expected,
			     size_t n)
{
	float *here = case_alloc(n, sizeof *here);
	const bool right = r->get(r->ctx, here, got, n * sizeof *here) &&
			   compare_floats(what, here, expected, n);
	free(here);
	return right;
}

static bool case_delta_of(const struct runner *r, struct delta_run x)
{
	struct random random = {x.p.key_dim + x.p.n};
	for (uint32_t i = 0; i < x.p.most; i++)
		x.p.n += x.texts[i].n;
	case_delta_begin(&x, &random);
	struct cuda_delta p = x.p;
	const size_t n = p.n, last = x.texts[p.most - 1].n;
	/* The last context has numbers that are hard to get right. */
	compare_fill_rows(&random, x.in + (n - last) * x.channels, last, x.channels);
	x.a[n * p.value_heads - 1] = NAN;
	x.a[n * p.value_heads - 2] = -800;
	x.b[n * p.value_heads - 1] = 800;
	const float *states = case_delta_put(r, &x, &p);
	const struct case_inputs in = case_inputs_room(r, p.n, (uint32_t)x.values, false);
	p.y = x.coded ? NULL : r->put(r->ctx, NULL, n * x.values * sizeof *p.y);
	p.q = in.q;
	p.scale = in.scale;
	cuda_fill_signs(&p.signs);

	bool right = case_delta_launch(r, &p);
	case_delta_expect(&x);
	right = right && case_delta_agree(r, "queries, keys, values", p.mixed, x.mixed, n * x.channels) &&
		case_delta_agree(r, "decays", p.decay, x.decay, n * p.value_heads) &&
		case_delta_agree(r, "factors", p.beta, x.beta, n * p.value_heads) &&
		case_delta_agree(r, "states", states, x.states, p.most * x.state) &&
		(x.coded ? case_inputs_agree(r, "inputs of a delta net", &in, x.y, p.n, (uint32_t)x.values)
			 : case_delta_agree(r, "outputs", p.y, x.y, n * x.values));
	case_delta_end(&x);
	r->forget(r->ctx);
	return right;
}

bool case_delta(const struct runner *r)
{
	/* An answer's row; one after drafts, drafts, no context, a prompt; many drafts after many others. */
	static const struct delta_text one[] = {{1, 1, 0}},
				       some[] = {{1, 1, 3}, {4, 1, 2}, {0, 0, 0}, {21, 19, 1}, {3, 3, 4}},
				       many[] = {{13, 1, 12}, {40, 40, 0}},
				       few[] = {{1, 1, 0}, {0, 0, 0}, {0, 0, 0}, {3, 1, 2}};
	static const struct delta_run runs[] = {
		{.p = {.most = 1, .key_heads = 2, .value_heads = 4,
		       .key_dim = 128, .value_dim = 128, .width = 4},
		 .texts = one,
		 .coded = true},
		{.p = {.most = 5, .key_heads = 1, .value_heads = 2,
		       .key_dim = 128, .value_dim = 128, .width = 4},
		 .texts = some},
		{.p = {.most = 4, .key_heads = 1, .value_heads = 2,
		       .key_dim = 128, .value_dim = 128, .width = 4},
		 .texts = few,
		 .coded = true},
		{.p = {.most = 4, .key_heads = 2, .value_heads = 2,
		       .key_dim = 40, .value_dim = 150, .width = 4},
		 .texts = few},
		{.p = {.most = 2, .key_heads = 1, .value_heads = 1,
		       .key_dim = 128, .value_dim = 128, .width = 8, .tiled = 1},
		 .texts = many,
		 .coded = true},
		{.p = {.most = 5, .key_heads = 2, .value_heads = 6,
		       .key_dim = 20, .value_dim = 40, .width = 3},
		 .texts = some},
		{.p = {.most = 5, .key_heads = 2, .value_heads = 4,
		       .key_dim = 32, .value_dim = 128, .width = 4, .tiled = 1},
		 .texts = some,
		 .coded = true},
		{.p = {.most = 1, .key_heads = 1, .value_heads = 2,
		       .key_dim = 160, .value_dim = 128, .width = 8},
		 .texts = one},
		{.p = {.most = 2, .key_heads = 1, .value_heads = 1,
		       .key_dim = 150, .value_dim = 200, .width = 4},
		 .texts = many},
	};
	bool right = true;

	for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
		right &= case_delta_of(r, runs[i]);
	return right;
}

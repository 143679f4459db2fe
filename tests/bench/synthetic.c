#include "tests/bench/synthetic.h"
#include "engine/convert/store_folder.h"
#include "kernels/block.h"
#include "kernels/tq.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A Gaussian is drawn as one of 2^12 quantiles of equal probability: up to 3.7 σ, and a table that
 * stays in the first cache. */
enum { QUANTILE_BITS = 12, QUANTILES = 1 << QUANTILE_BITS, DRAWS = 64 / QUANTILE_BITS };
enum { PIECE_BYTES = 1 << 20 };

struct synthetic_tables {
	float normal[QUANTILES];
	uint8_t level[5][QUANTILES]; /* [bits]: the index of the codebook's nearest level */
	float level_norm[5];	     /* [bits]: group norm that makes σ = 1 */
};

struct writing {
	const struct synthetic *s;
	struct store_writer *writer;
	const struct synthetic_tables *tables;
	_Atomic bool failed;
	pthread_mutex_t lock; /* of error */
	struct err error;     /* the first */
};

/* ---- tables ---- */

/* The x below which a fraction p of a normal distribution lies, by bisection. */
static double normal_quantile(double p)
{
	double low = -9, high = 9;
	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;
		*(erfc(-middle / sqrt(2)) / 2 < p ? &low : &high) = middle;
	}
	return low;
}

static void fill_tables(struct synthetic_tables *t)
{
	for (int i = 0; i < QUANTILES; i++)
		t->normal[i] = (float)normal_quantile((i + .5) / QUANTILES);
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const struct tq_codebook *book = tq_codebook(bits);
		double energy = 0;
		for (int i = 0; i < QUANTILES; i++) {
			float y = t->normal[i] / sqrtf(TQ_GROUP);
			uint8_t index = 0;
			while (index + 1u < book->levels && y > book->boundary[index])
				index++;
			t->level[bits][i] = index;
			energy += (double)book->level[index] * book->level[index] / QUANTILES;
		}
		/* the rotation keeps lengths, so weights have the variance of the levels */
		t->level_norm[bits] = (float)(1 / sqrt(energy));
	}
}

struct synthetic_tables *synthetic_tables_new(void)
{
	struct synthetic_tables *t = malloc(sizeof *t);
	if (t)
		fill_tables(t);
	return t;
}

/* ---- what each tensor is to be ---- */

/* The matrices whose outputs a layer adds to the stream. */
static bool adds_to_stream(enum tensor_role role)
{
	const struct tensor_kind *k = &tensor_roles[role];
	return (k->place == PLACE_LAYER || k->place == PLACE_EXPERT) &&
	       k->rows == DIMENSION_HIDDEN && k->cols != DIMENSION_NONE;
}

/* Element i of n of a vector. */
static float vector_value(const struct synthetic *s, enum tensor_role role, uint32_t i, uint32_t n)
{
	const struct tensor_kind *k = &tensor_roles[role];
	if (k->class == CLASS_NORM)
		return 1 - s->config->norm_offset;
	if (role == TENSOR_DELTA_NORM)
		return 1;
	if (role == TENSOR_DELTA_DT_BIAS) /* softplus of it is 0.01 · 10^(0 … 1) */
		return (float)log(expm1(.01 * pow(10, (i + .5) / n)));
	return 0; /* biases; A_log, which is then a rate of 1 */
}

float synthetic_sigma(const struct synthetic *s, enum tensor_role role, const struct shape *shape)
{
	double sigma = role == TENSOR_EMBEDDING ? 1 : 1 / sqrt(shape->cols);
	if (adds_to_stream(role))
		sigma /= sqrt(2.0 * s->config->layers);
	return (float)sigma;
}

/* The direction that all tokens share. */
static float shared_sign(const struct synthetic *s, uint32_t column)
{
	uint64_t state = s->seed ^ column;
	return random_u64(&state) & 1 ? 1 : -1;
}

/* An expert's rank in its layer's order of popularity, 0 first: how many draw a smaller number. */
static uint32_t popularity_rank(const struct synthetic *s, uint32_t layer, uint32_t expert)
{
	uint32_t rank = 0;
	uint64_t own = 0;
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t x = 0; x < s->config->experts; x++) {
			uint64_t state = s->seed + ((uint64_t)layer << 32) + x;
			uint64_t draw = random_u64(&state);
			if (!pass && x == expert)
				own = draw;
			rank += pass && (draw < own || (draw == own && x < expert));
		}
	return rank;
}

/* How much of the shared direction a row has. An embedding has 1 (times the signs), which leaves it
 * a length of √2 per element; the final √2 undoes that norm for the router. */
static float shared_part(const struct synthetic *s, struct tensor_id id, uint32_t row)
{
	if (!(s->skew > 0))
		return 0;
	if (id.role == TENSOR_EMBEDDING)
		return 1;
	if (id.role != TENSOR_ROUTER)
		return 0;
	double bias = -s->skew * log(1.0 + popularity_rank(s, id.layer, row));
	return (float)(bias * sqrt(2) / s->config->hidden_size);
}

/* ---- drawing ---- */

struct draws {
	uint64_t state, bits;
	uint32_t left;
};

static inline uint32_t draw(struct draws *d)
{
	if (!d->left) {
		d->bits = random_u64(&d->state);
		d->left = DRAWS;
	}
	uint32_t quantile = d->bits & (QUANTILES - 1);
	d->bits >>= QUANTILE_BITS;
	d->left--;
	return quantile;
}

/* Of a trellis (level NULL) all are as frequent. */
static void draw_packed(struct draws *d, const uint8_t *level, uint32_t bits, uint8_t *to,
			size_t bytes)
{
	for (size_t unit = 0; unit < bytes / bits; unit++, to += bits) {
		uint32_t word = 0;
		for (uint32_t i = 0; i < TQ_UNIT; i++)
			word |= (level ? level[draw(d)] : draw(d) & ((1U << bits) - 1)) << i * bits;
		memcpy(to, &word, bits);
	}
}

static void store_float(uint8_t *to, size_t i, enum format format, float value)
{
	uint16_t half = format == FORMAT_F16 ? f16_from_f32(value) : bf16_from_f32(value);
	if (format == FORMAT_F32)
		memcpy(to + i * sizeof value, &value, sizeof value);
	else
		memcpy(to + i * sizeof half, &half, sizeof half);
}

/* One row of a matrix of floats. */
static void draw_floats(const struct synthetic *s, const struct synthetic_tables *t,
			struct draws *d, struct tensor_id id, const struct shape *shape,
			uint32_t row, uint8_t *to)
{
	float sigma = synthetic_sigma(s, id.role, shape), shared = shared_part(s, id, row);
	for (uint32_t i = 0; i < shape->cols; i++) {
		float value = sigma * t->normal[draw(d)];
		if (shared != 0)
			value += shared * shared_sign(s, i);
		store_float(to, i, shape->format, value);
	}
}

/* Likewise, or one in blocks. */
static void draw_row(const struct synthetic *s, const struct synthetic_tables *t, struct draws *d,
		     struct tensor_id id, const struct shape *shape, uint32_t row, uint8_t *to)
{
	if (!block_can_quantise(shape->format)) {
		draw_floats(s, t, d, id, shape, row, to);
		return;
	}
	float *values = malloc(shape->cols * sizeof *values);
	struct shape floats = *shape, one = *shape;
	floats.format = FORMAT_F32;
	one.rows = 1;
	memset(to, 0, format_packed_bytes(&one));
	if (values) { /* else zeros do: only speeds are measured */
		draw_floats(s, t, d, id, &floats, row, (uint8_t *)values);
		(void)block_quantise(shape->format, to, values, shape->cols);
	}
	free(values);
}

static uint64_t seed_of(const struct synthetic *s, uint64_t sequence)
{
	return s->seed + UINT64_C(0x632be59bd9b4e019) * (sequence + 1);
}

static bool is_vector(const struct synthetic *s, enum tensor_role role)
{
	uint32_t rows, cols;
	config_tensor_shape(s->config, role, 0, &rows, &cols);
	return !cols;
}

void synthetic_draw(const struct synthetic *s, const struct synthetic_tables *t, uint64_t sequence,
		    struct tensor_id id, const struct shape *shape, uint32_t row0, uint32_t rows,
		    uint8_t *to)
{
	struct draws d = {.state = seed_of(s, sequence)};
	struct shape one = *shape;
	one.rows = 1;
	size_t bytes = format_packed_bytes(&one);
	for (uint32_t i = 0; i < shape->cols && is_vector(s, id.role); i++)
		store_float(to, i, shape->format, vector_value(s, id.role, i, shape->cols));
	for (uint32_t r = 0; r < rows && !is_vector(s, id.role); r++)
		draw_row(s, t, &d, id, shape, row0 + r, to + r * bytes);
}

/* ---- writing ---- */

/* Rows [row0, row0 + rows) of a tensor's weights, in pieces of whole rows. */
static int put_weights(const struct writing *w, struct draws *d, struct store_put *put,
		       struct tensor_id id, const struct shape *shape, uint32_t row0, uint32_t rows,
		       struct err *e)
{
	struct shape one = *shape;
	one.rows = 1;
	size_t bytes = format_packed_bytes(&one);
	uint32_t piece = bytes < PIECE_BYTES ? (uint32_t)(PIECE_BYTES / bytes) : 1;
	uint8_t *buffer = malloc(piece * bytes);
	int failed = buffer ? 0 : err_set(e, ENOMEM, "out of memory for %u rows", piece);
	uint32_t bits = format_is_tq(shape->format) ? format_tq_bits(shape->format) : 0;
	for (uint32_t r = 0; r < rows && !failed; r += piece) {
		uint32_t n = rows - r < piece ? rows - r : piece;
		if (bits)
			draw_packed(
				d, format_is_trellis(shape->format) ? NULL : w->tables->level[bits],
				bits, buffer, n * bytes);
		for (uint32_t i = 0; i < n && !bits; i++)
			draw_row(w->s, w->tables, d, id, shape, row0 + r + i, buffer + i * bytes);
		failed = store_put_bytes(put, buffer, n * bytes, e);
	}
	free(buffer);
	return failed;
}

/* A whole vector. */
static int put_vector(const struct writing *w, struct store_put *put, const struct plan_tensor *t,
		      struct err *e)
{
	size_t bytes = format_packed_bytes(&t->shape);
	uint8_t *buffer = malloc(bytes);
	if (!buffer)
		return err_set(e, ENOMEM, "out of memory for a vector of %u", t->shape.cols);
	synthetic_draw(w->s, w->tables, 0, t->id, &t->shape, 0, 1, buffer);
	int failed = store_put_bytes(put, buffer, bytes, e);
	free(buffer);
	return failed;
}

/* The norms of a TQ matrix: `count` equal floats. */
static int put_constant(struct store_put *put, float value, enum format format, size_t count,
			struct err *e)
{
	size_t bytes = count * (format == FORMAT_F32 ? sizeof(float) : sizeof(uint16_t));
	uint8_t *buffer = malloc(bytes);
	if (!buffer)
		return err_set(e, ENOMEM, "out of memory for %zu norms", count);
	for (size_t i = 0; i < count; i++)
		store_float(buffer, i, format, value);
	int failed = store_put_bytes(put, buffer, bytes, e);
	free(buffer);
	return failed;
}

static int put_norms(const struct writing *w, struct store_put *put, enum tensor_role role,
		     const struct shape *shape, uint32_t rows, struct err *e)
{
	float group = format_is_trellis(shape->format) /* whose codes have a variance of 1/128 */
			      ? sqrtf(TQ_GROUP)
			      : w->tables->level_norm[format_tq_bits(shape->format)];
	float norm = synthetic_sigma(w->s, role, shape) * group;
	return put_constant(put, norm, shape->norms == NORM_F16 ? FORMAT_F16 : FORMAT_F32,
			    rows * tq_groups(shape->cols), e);
}

static int put_expert(const struct writing *w, struct draws *d, struct store_put *put,
		      uint32_t record, struct err *e)
{
	const struct plan *p = w->s->plan;
	int failed = 0;
	for (uint32_t part = p->first_part; part < EXPERT_PARTS && !failed; part++) {
		const struct shape *shape = &p->record[record / p->experts].part[part];
		struct tensor_id id = {plan_part_role(part), p->layer_of[record / p->experts],
				       record % p->experts};
		failed = put_weights(w, d, put, id, shape, 0, shape->rows, e);
		if (!failed && format_is_tq(shape->format))
			failed = put_norms(w, put, id.role, shape, shape->rows, e);
	}
	return failed;
}

/* Dense unit `unit`: a chunk of a tensor's rows, or a TQ chunk's norms. */
static int put_dense(const struct writing *w, struct draws *d, struct store_put *put, uint32_t unit,
		     struct err *e)
{
	const struct plan_tensor *t = w->s->plan->dense;
	uint32_t i = 0;
	while (i + 1 < w->s->plan->dense_count && t[i + 1].first_unit <= unit)
		i++;
	t += i;
	uint32_t chunk = (unit - t->first_unit) % t->chunks, rows = plan_chunk_rows(t, chunk);
	if (is_vector(w->s, t->id.role))
		return put_vector(w, put, t, e);
	if (unit - t->first_unit >= t->chunks)
		return put_norms(w, put, t->id.role, &t->shape, rows, e);
	return put_weights(w, d, put, t->id, &t->shape, chunk * t->chunk_rows, rows, e);
}

static int put_unit(const struct writing *w, uint32_t unit, struct err *e)
{
	const struct plan *p = w->s->plan;
	uint32_t records = p->routed_layers * p->experts;
	struct draws d = {.state = seed_of(w->s, unit)};
	struct store_put *put;
	int failed = store_put_begin(w->writer, unit, &put, e);
	if (failed)
		return failed;
	failed = unit < records ? put_expert(w, &d, put, unit, e)
				: put_dense(w, &d, put, unit - records, e);
	if (!failed)
		return store_put_commit(put, e);
	store_put_abandon(put);
	return failed;
}

static void put_units(void *ctx, uint32_t begin, uint32_t end)
{
	struct writing *w = ctx;
	for (uint32_t unit = begin; unit < end && !atomic_load(&w->failed); unit++) {
		struct err e = {0};
		if (store_writer_has(w->writer, unit) || !put_unit(w, unit, &e))
			continue;
		pthread_mutex_lock(&w->lock);
		if (!atomic_exchange(&w->failed, true))
			w->error = e;
		pthread_mutex_unlock(&w->lock);
	}
}

/* ---- the whole ---- */

static int open_writer(struct writing *w, const char *folder, const uint64_t fingerprint[2],
		       struct err *e)
{
	const struct plan *p = w->s->plan;
	struct store_headers headers;
	struct store_plan sp;
	int failed = store_describe(&sp, &headers, w->s->config, p, fingerprint, e);
	if (failed)
		return failed;
	failed = store_writer_open(&w->writer, folder, &sp, e);
	store_headers_free(&headers);
	return failed;
}

int synthetic_write(const struct synthetic *s, const char *folder, const uint64_t fingerprint[2],
		    struct err *e)
{
	struct synthetic_tables *tables = synthetic_tables_new();
	struct writing w = {.s = s, .tables = tables};
	if (!tables)
		return err_set(e, ENOMEM, "out of memory for tables");
	int failed = open_writer(&w, folder, fingerprint, e);
	if (!failed) {
		pthread_mutex_init(&w.lock, NULL);
		threads_run(s->threads, store_writer_units(w.writer), 1, put_units, &w);
		pthread_mutex_destroy(&w.lock);
		if (!atomic_load(&w.failed)) {
			failed = store_writer_finish(w.writer, e);
		} else {
			*e = w.error;
			failed = -e->code;
			store_writer_close(w.writer, false);
		}
	}
	free(tables);
	return failed;
}

/* Rows that look back at the keys and values of their contexts, shared by the threads. See
 * layers.h.
 *
 * The kernels read a context's blocks by absolute position, so a row's sums do not depend on how
 * the text was cut into chunks. If a step has enough rows and heads for all threads, the threads
 * divide the pairs (run of rows, group of heads). If not (one token in a model with few key-value
 * heads), they also divide the spans of 256 positions: each span is computed by itself, and then
 * all spans are joined in ascending order (kernels.h, attend_spans). Both ways give the same bits.
 */
#include "engine/cpu/layers.h"
#include "kernels/watch.h"

#include <stdatomic.h>

/* Enough rows to share what is read of keys and values, few enough that the last rows of a chunk,
 * which look back furthest, do not keep one thread longer than the others. */
enum { RUN_ROWS = 16 };

/* Floats of parts, at most. Of 32 heads of 128 they hold a row's 57,000 positions; of more, spans
 * are computed and joined in waves. */
enum { PARTS_MOST = 1 << 20 };

void look_back_take(struct look_scratch *s, struct arena *arena, const struct config *c,
		    size_t rows, uint32_t value_dim)
{
	size_t spans = c->max_positions / ATTENTION_SPAN + 3; /* both ends, and what is joined */
	size_t all = value_dim ? rows * spans * c->heads * attention_part(value_dim) : 0;
	s->runs = arena_take(arena, rows, sizeof *s->runs);
	s->left = arena_take(arena, rows * c->heads, sizeof *s->left);
	s->room = all < PARTS_MOST ? all : PARTS_MOST;
	s->parts = arena_take(arena, s->room, sizeof *s->parts);
}

struct look_task {
	const struct look_scratch *scratch;
	const struct look *look;
	uint32_t runs, groups; /* of heads */
	/* Where spans are shared: how many are computed before they are joined, how many of them
	 * come before, counted from each run's first, and how many a thread takes at once. */
	uint32_t wave, done, grain;
};

/* ---- runs ---- */

/* Cuts the step into runs and returns their number. *seen: the positions that the rows of the
 * longest run look at, all together; *spans: in how many spans they are. */
static uint32_t look_back_cut(const struct look_scratch *s, const struct look *look, uint64_t *seen,
			      uint32_t *spans)
{
	const struct step *step = look->step;
	uint32_t count = 0, window = look->layer->window;
	*seen = *spans = 0;
	for (const struct step_span *p = step->spans; p < step->spans + step->span_count; p++) {
		uint32_t most = p->n < RUN_ROWS ? p->n : RUN_ROWS, back = p->position + p->n;
		uint64_t rows_back = window && window < back ? window : back;
		uint32_t wide = (uint32_t)((rows_back + most) / ATTENTION_SPAN + 2);
		*seen = rows_back * most > *seen ? rows_back * most : *seen;
		*spans = wide > *spans ? wide : *spans;
		for (uint32_t t = 0; t < p->n; t += RUN_ROWS) {
			uint32_t left = p->n - t;
			s->runs[count++] =
				(struct look_run){p->first + t, left < RUN_ROWS ? left : RUN_ROWS};
		}
	}
	return count;
}

/* What a run's rows look at with one group of heads. */
static struct attention look_back_attention(const struct look *look, const struct look_run *run,
					    uint32_t group)
{
	const struct step *s = look->step;
	const struct step_span *span = step_span_of(s, run->first);
	const struct layer *l = look->layer;
	uint32_t head = group * look->group, left = s->env->config->heads - head;
	uint32_t kv_head = look->latent_dim ? 0 : group;
	return (struct attention){
		.type = span->context->type,
		.head_dim = look->head_dim,
		.latent_dim = look->latent_dim,
		.heads = left < look->group ? left : look->group,
		.length = span->position + run->first - span->first + 1,
		.scale = s->env->config->attention_scale,
		.blocks = context_blocks_of(span->context, l),
		.key_offset = context_key_offset(span->context->type, l, kv_head),
		.value_offset = context_value_offset(span->context->type, l, kv_head),
		.window = l->window,
		.sinks = look->sinks ? look->sinks + head : NULL,
	};
}

static uint32_t look_back_value_dim(const struct look *look)
{
	return look->latent_dim ? look->latent_dim : look->head_dim;
}

/* Of a run's first row and a group's first head: where its query lies, and its output. */
static const float *look_back_query(const struct look *look, const struct look_run *run,
				    uint32_t group)
{
	size_t row = (size_t)run->first * look->step->env->config->heads + group * look->group;
	return look->q + row * look->head_dim;
}

static size_t look_back_out(const struct look *look, const struct look_run *run, uint32_t group)
{
	size_t row = (size_t)run->first * look->step->env->config->heads + group * look->group;
	return row * look_back_value_dim(look);
}

/* Where there is a gate, which only layers without latents have. */
static void look_back_gate(const struct look *look, const struct look_run *run, uint32_t group)
{
	size_t stride = (size_t)look->step->env->config->heads * look->head_dim;
	size_t at = look_back_out(look, run, group);
	for (uint32_t t = 0; t < run->n && look->gate; t++, at += stride)
		look->step->env->kernels->sigmoid_mul(look->out + at, look->gate + at,
						      look->group * look->head_dim);
}

/* Items are (run of rows, group of heads). */
static void look_back_whole(void *ctx, uint32_t begin, uint32_t end)
{
	const struct look_task *task = ctx;
	const struct look *look = task->look;
	const struct environment *env = look->step->env;
	for (uint32_t i = begin; i < end; i++) {
		const struct look_run *run = &task->scratch->runs[i / task->groups];
		uint32_t group = i % task->groups;
		struct attention a = look_back_attention(look, run, group);
		watch_attend(env->kernels, look->out + look_back_out(look, run, group),
			     look_back_query(look, run, group),
			     (size_t)env->config->heads * look->head_dim, &a, run->n);
		look_back_gate(look, run, group);
	}
}

/* ---- spans ---- */

/* The spans of a wave that a run has, or some of them. */
struct look_spans {
	uint32_t first, end;
};

static struct look_spans look_back_spans(const struct look_task *task, const struct attention *a,
					 const struct look_run *run, uint32_t skip, uint32_t most)
{
	uint32_t first = (uint32_t)attention_first_span(a, a->length) + task->done + skip;
	uint32_t last = (uint32_t)attention_end_span((size_t)a->length + run->n - 1);
	uint32_t end = task->wave - skip < most ? first + task->wave - skip : first + most;
	return (struct look_spans){first, end < last ? end : last};
}

/* Where a run's and a group's parts lie: what is joined of them, [run->n][a->heads], and then
 * [wave][run->n][a->heads]. *row: floats of all that one span gives. */
static float *look_back_parts(const struct look_task *task, const struct attention *a,
			      const struct look_run *run, uint32_t group, size_t *row)
{
	const struct look *look = task->look;
	size_t part = attention_part(attention_value_dim(a));
	size_t before = (size_t)run->first * look->step->env->config->heads +
			(size_t)run->n * group * look->group;
	*row = (size_t)run->n * a->heads * part;
	return task->scratch->parts + before * (task->wave + 1) * part;
}

/* Joins a run's and a group's wave to those before. */
static void look_back_join(const struct look_task *task, const struct look_run *run, uint32_t group,
			   const struct attention *a)
{
	const struct look *look = task->look;
	const struct environment *env = look->step->env;
	struct look_spans s = look_back_spans(task, a, run, 0, task->wave);
	size_t row;
	float *joined = look_back_parts(task, a, run, group, &row);
	if (s.first >= s.end)
		return;
	watch_attend_join(env->kernels, look->out + look_back_out(look, run, group),
			  (size_t)env->config->heads * look->head_dim, joined, joined + row, a,
			  run->n, s.first, s.end);
	if (s.end == attention_end_span((size_t)a->length + run->n - 1))
		look_back_gate(look, run, group);
}

/* Items are (run of rows, group of heads, `grain` spans of the wave). Who computes the last of a
 * run's and a group's joins them: a loop for that alone would be another meeting. */
static void look_back_some(void *ctx, uint32_t begin, uint32_t end)
{
	const struct look_task *task = ctx;
	const struct look *look = task->look;
	const struct environment *env = look->step->env;
	uint32_t pieces = (task->wave + task->grain - 1) / task->grain;
	for (uint32_t i = begin; i < end; i++) {
		const struct look_run *run = &task->scratch->runs[i / pieces / task->groups];
		uint32_t group = i / pieces % task->groups, skip = i % pieces * task->grain;
		struct attention a = look_back_attention(look, run, group);
		struct look_spans s = look_back_spans(task, &a, run, skip, task->grain);
		size_t row;
		float *parts = look_back_parts(task, &a, run, group, &row) + row * (1 + skip);
		if (s.first < s.end)
			watch_attend_spans(env->kernels, parts, look_back_query(look, run, group),
					   (size_t)env->config->heads * look->head_dim, &a, run->n,
					   s.first, s.end);
		if (atomic_fetch_sub(&task->scratch->left[i / pieces], 1) == 1)
			look_back_join(task, run, group, &a);
	}
}

/* ---- all of it ---- */

/* Whether the threads would wait for each other if they shared the items alone, for a tenth of the
 * time or more. */
static bool look_back_uneven(uint32_t items, uint32_t threads)
{
	uint32_t rounds = (items + threads - 1) / threads;
	return (uint64_t)items * 10 < (uint64_t)rounds * threads * 9;
}

void look_back_run(struct look_scratch *s, const struct look *look)
{
	const struct environment *env = look->step->env;
	const struct config *c = env->config;
	uint32_t dim = look_back_value_dim(look), spans;
	uint64_t seen, position = (uint64_t)(look->head_dim + dim) * look->group;
	struct look_task task = {.scratch = s, .look = look};
	task.groups = (c->heads + look->group - 1) / look->group;
	task.runs = look_back_cut(s, look, &seen, &spans);
	uint32_t items = task.runs * task.groups;
	size_t held = s->room / ((size_t)look->step->n * c->heads * attention_part(dim));
	task.wave = held > spans ? spans : held > 1 ? (uint32_t)held - 1 : 0;
	if (task.wave && look_back_uneven(items, threads_count(env->threads)))
		task.grain = product_grain(env, items * task.wave, seen / spans * position);
	if (!task.grain || task.grain >= task.wave) {
		threads_run(env->threads, items, product_grain(env, items, seen * position),
			    look_back_whole, &task);
		return;
	}
	uint32_t pieces = (task.wave + task.grain - 1) / task.grain;
	for (; task.done < spans; task.done += task.wave) {
		for (uint32_t i = 0; i < items; i++)
			s->left[i] = pieces;
		threads_run(env->threads, items * pieces, 1, look_back_some, &task);
	}
}

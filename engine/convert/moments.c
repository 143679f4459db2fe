#include "engine/convert/moments.h"
#include "kernels/watch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct moments_entry {
	uint32_t cols;
	uint32_t block; /* columns per block; all pairs within a block are summed */
	uint64_t tokens;
	uint64_t at; /* place of its sums, in floats */
};

struct moments {
	const struct plan *plan;
	uint32_t first, end; /* layers; plan->layers: tensors that occur once */
	uint32_t
		*of_layer; /* [layers + 1][TENSOR_ROLES]: entry + 1; the last row is the output's */
	uint32_t *of_expert;   /* [routed layers][experts][2]: of gate and up, of down */
	uint32_t pairs;	       /* most columns per block */
	uint32_t expert_pairs; /* the same for experts' own sums; 0: experts have none */
	struct moments_entry *entry;
	float *sums; /* of each entry, block by block: [block][block], of which only the upper half
			is used */
	bool counting; /* only count entries; there is no memory yet */
	uint32_t count;
	uint64_t floats;
};

/* ---- the list of sums ---- */

/* The first of the roles with the same input. */
static enum tensor_role moments_first_role(const struct moments *m, enum tensor_role role)
{
	static const uint8_t first[TENSOR_ROLES] = {
		[TENSOR_K] = TENSOR_Q,
		[TENSOR_V] = TENSOR_Q,
		[TENSOR_DELTA_Z] = TENSOR_DELTA_QKV,
		[TENSOR_KIMI_K] = TENSOR_KIMI_Q,
		[TENSOR_KIMI_V] = TENSOR_KIMI_Q,
		[TENSOR_MAMBA_XBC] = TENSOR_MAMBA_Z,
		[TENSOR_UP] = TENSOR_GATE,
		[TENSOR_SHARED_UP] = TENSOR_SHARED_GATE,
		[TENSOR_EXPERT_UP] = TENSOR_EXPERT_GATE,
	};
	bool up = role == TENSOR_UP || role == TENSOR_SHARED_UP || role == TENSOR_EXPERT_UP;
	if (!first[role] || (up && m->plan->first_part > 0)) /* without a gate, up is the first */
		return role;
	return (enum tensor_role)first[role];
}

bool moments_counts(const struct moments *m, enum tensor_role role)
{
	return moments_first_role(m, role) == role;
}

static bool moments_rounds(const struct shape *s)
{
	return format_tq_bits(s->format) != 0;
}

static uint32_t *moments_place(const struct moments *m, struct tensor_id id)
{
	enum tensor_role role = moments_first_role(m, id.role);
	const struct plan *p = m->plan;
	if (tensor_roles[role].place == PLACE_EXPERT && id.expert != MOMENTS_ALL) {
		uint32_t routed = p->routed_of[id.layer];
		return &m->of_expert[((size_t)routed * p->experts + id.expert) * 2 +
				     (role == TENSOR_EXPERT_DOWN)];
	}
	bool of_layer =
		tensor_roles[role].place == PLACE_LAYER || tensor_roles[role].place == PLACE_EXPERT;
	return &m->of_layer[(size_t)(of_layer ? id.layer : p->layers) * TENSOR_ROLES + role];
}

static uint64_t moments_floats(uint32_t cols, uint32_t block)
{
	uint64_t rest = cols % block, whole = block;
	return cols / block * whole * whole + rest * rest;
}

/* Adds an entry for a tensor's input, unless there is one. */
static void moments_list(struct moments *m, struct tensor_id id, uint32_t cols, uint32_t pairs)
{
	uint32_t *place = moments_place(m, id), block = pairs < cols ? pairs : cols;
	if (*place && m->counting)
		return;
	if (m->counting) {
		*place = ++m->count;
		m->floats += moments_floats(cols, block);
		return;
	}
	struct moments_entry *e = &m->entry[*place - 1];
	if (e->cols)
		return;
	*e = (struct moments_entry){.cols = cols, .block = block, .at = m->floats};
	m->floats += moments_floats(cols, block);
}

static void moments_list_record(struct moments *m, uint32_t routed)
{
	const struct plan *p = m->plan;
	for (uint32_t part = p->first_part; part < EXPERT_PARTS; part++) {
		const struct shape *s = &p->record[routed].part[part];
		struct tensor_id id = {plan_part_role(part), p->layer_of[routed], MOMENTS_ALL};
		if (!moments_rounds(s))
			continue;
		moments_list(m, id, s->cols, m->pairs);
		for (id.expert = 0; id.expert < p->experts && m->expert_pairs; id.expert++)
			moments_list(m, id, s->cols, m->expert_pairs);
	}
}

static bool moments_has_layer(const struct moments *m, uint32_t layer)
{
	return layer >= m->first && layer < m->end;
}

static void moments_list_all(struct moments *m)
{
	const struct plan *p = m->plan;
	for (uint32_t i = 0; i < p->dense_count; i++)
		if (moments_rounds(&p->dense[i].shape) &&
		    moments_has_layer(m, plan_layer_of(p, p->dense[i].id)))
			moments_list(m, p->dense[i].id, p->dense[i].shape.cols, m->pairs);
	for (uint32_t routed = 0; routed < p->routed_layers; routed++)
		if (moments_has_layer(m, p->layer_of[routed]))
			moments_list_record(m, routed);
}

/* ---- life ---- */

/* Counts the sums of layers [m->first, end); returns their bytes. */
static uint64_t moments_measure(struct moments *m, uint32_t end)
{
	const struct plan *p = m->plan;
	memset(m->of_layer, 0, (size_t)(p->layers + 1) * TENSOR_ROLES * sizeof *m->of_layer);
	memset(m->of_expert, 0,
	       ((size_t)p->routed_layers * p->experts * 2 + 1) * sizeof *m->of_expert);
	m->count = 0;
	m->floats = 0;
	m->end = end;
	m->counting = true;
	moments_list_all(m);
	m->counting = false;
	return m->floats * sizeof *m->sums;
}

/* The most columns of a block. Rounding a block of n columns (rounding.h) takes a few matrices of
 * n² numbers per thread (16 MiB each at most) and time of order n³. */
enum { MOST_BLOCK = 16 * TQ_GROUP };

/* Chooses the largest blocks for which the sums of one layer fit into `most` bytes, and then as
 * many layers as fit. */
static int moments_choose(struct moments *m, uint64_t most, struct err *e)
{
	static const uint32_t pairs[][2] = {
		{MOST_BLOCK, MOST_BLOCK},
		{MOST_BLOCK, TQ_GROUP},
		{MOST_BLOCK, 1},
		{TQ_GROUP, TQ_GROUP},
		{TQ_GROUP, 1},
		{TQ_GROUP, 0},
		{1, 1},
		{1, 0},
	};
	enum { PAIRS = sizeof pairs / sizeof *pairs };
	uint32_t end = m->first + 1;
	uint64_t bytes = most + 1;
	for (size_t i = 0; i < PAIRS && bytes > most; i++) {
		m->pairs = pairs[i][0];
		m->expert_pairs = pairs[i][1];
		bytes = moments_measure(m, end);
	}
	if (bytes > most)
		return err_set(e, ENOMEM,
			       "the moments of the inputs of layer %u take %llu bytes; %llu are "
			       "allowed",
			       m->first, (unsigned long long)bytes, (unsigned long long)most);
	while (end <= m->plan->layers && moments_measure(m, end + 1) <= most)
		end++;
	(void)moments_measure(m, end);
	return 0;
}

static int moments_take(struct moments *m, struct err *e)
{
	uint64_t floats = m->floats;
	m->entry = calloc((size_t)m->count + 1, sizeof *m->entry);
	m->sums = calloc(floats + 1, sizeof *m->sums);
	if (!m->entry || !m->sums)
		return err_set(e, ENOMEM, "out of memory for the moments of a model's inputs");
	m->floats = 0;
	moments_list_all(m);
	return 0;
}

int moments_create(struct moments **out, const struct plan *p, uint32_t first, uint64_t most,
		   struct err *e)
{
	struct moments *m = calloc(1, sizeof *m);
	*out = m;
	if (!m)
		return err_set(e, ENOMEM, "out of memory for the moments of a model's inputs");
	m->plan = p;
	m->first = first;
	m->of_layer = calloc((size_t)(p->layers + 1) * TENSOR_ROLES, sizeof *m->of_layer);
	m->of_expert = calloc((size_t)p->routed_layers * p->experts * 2 + 1, sizeof *m->of_expert);
	int failed =
		m->of_layer && m->of_expert
			? moments_choose(m, most, e)
			: err_set(e, ENOMEM, "out of memory for the moments of a model's inputs");
	if (!failed)
		failed = moments_take(m, e);
	if (!failed)
		return 0;
	moments_free(m);
	*out = NULL;
	return failed;
}

void moments_free(struct moments *m)
{
	if (!m)
		return;
	free(m->of_layer);
	free(m->of_expert);
	free(m->entry);
	free(m->sums);
	free(m);
}

uint64_t moments_bytes(const struct moments *m)
{
	return m->floats * sizeof *m->sums;
}

uint32_t moments_count(const struct moments *m)
{
	return m->count;
}

uint32_t moments_end(const struct moments *m)
{
	return m->end;
}

/* ---- adding ---- */

int64_t moments_find(const struct moments *m, struct tensor_id id)
{
	if (!moments_has_layer(m, plan_layer_of(m->plan, id)))
		return -1;
	return (int64_t)*moments_place(m, id) - 1;
}

uint64_t moments_tokens(const struct moments *m, int64_t sum)
{
	return m->entry[sum].tokens;
}

/* Row i of a sum, from column i to the last column of its block. *stride: floats from row to row.
 */
static float *moments_row(const struct moments *m, const struct moments_entry *s, uint32_t i,
			  uint32_t *end, size_t *stride)
{
	uint32_t first = i / s->block * s->block, in = i - first;
	size_t width = s->cols - first < s->block ? s->cols - first : s->block;
	*end = first + (uint32_t)width;
	*stride = width;
	return m->sums + s->at + (uint64_t)first * s->block + in * width + in;
}

void moments_add(struct moments *m, const struct kernels *k, int64_t sum, const float *x,
		 uint32_t n, uint32_t begin, uint32_t end)
{
	struct moments_entry *s = &m->entry[sum];
	if (!begin)
		s->tokens += n;
	for (uint32_t i = begin, rows; i < end; i += rows) {
		uint32_t last;
		size_t stride;
		float *to = moments_row(m, s, i, &last, &stride);
		rows = MOMENTS_ROWS - i % MOMENTS_ROWS;
		rows = rows < last - i ? rows : last - i;
		rows = rows < end - i ? rows : end - i;
		const struct add_products p = {
			.a = x + i,
			.a_row = 1,
			.a_step = s->cols,
			.b = x + i,
			.ldb = s->cols,
			.rows = rows,
			.cols = last - i,
			.n = n,
		};
		watch_add_products(k, to, stride, &p);
	}
}

/* ---- weighing ---- */

/* An expert's own moments are mixed with those of its layer, as if the expert had met this many
 * more tokens: with fewer tokens than columns, its own moments know nothing about most directions.
 */
static const double prior_tokens = 64;

/* The sums of a matrix's inputs: its own or that of all experts of its layer; and the expert's own.
 * -1: none. */
struct moments_known {
	int64_t whole, own;
};

static struct moments_known moments_known(const struct moments *m, struct tensor_id id)
{
	struct tensor_id all = id;
	all.expert = MOMENTS_ALL;
	bool expert = tensor_roles[id.role].place == PLACE_EXPERT;
	return (struct moments_known){moments_find(m, expert ? all : id),
				      expert ? moments_find(m, id) : -1};
}

/* h[n][n] += scale · the sum's columns [first, first + n). Pairs across blocks, which have no sums,
 * stay as they are. */
static void moments_add_sum(const struct moments *m, const struct moments_entry *s, uint32_t first,
			    uint32_t n, float scale, float *h)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t end;
		size_t stride;
		const float *from = moments_row(m, s, first + i, &end, &stride);
		for (uint32_t j = i; j < n && first + j < end; j++) {
			h[(size_t)i * n + j] += scale * from[j - i];
			if (j > i)
				h[(size_t)j * n + i] += scale * from[j - i];
		}
	}
}

bool moments_weigh(const struct moments *m, struct tensor_id id, uint32_t first, uint32_t n,
		   float *h)
{
	memset(h, 0, (size_t)n * n * sizeof *h);
	const struct moments_known k = moments_known(m, id);
	int64_t whole = k.whole, own = k.own;
	if (whole < 0 || !m->entry[whole].tokens)
		return false;
	double prior = own < 0 ? 1 : prior_tokens;
	double tokens = prior + (own < 0 ? 0 : (double)m->entry[own].tokens);
	moments_add_sum(m, &m->entry[whole], first, n,
			(float)(prior / tokens / (double)m->entry[whole].tokens), h);
	if (own >= 0)
		moments_add_sum(m, &m->entry[own], first, n, (float)(1 / tokens), h);
	return true;
}

uint32_t moments_block(const struct moments *m, struct tensor_id id, uint64_t *same)
{
	const struct moments_known k = moments_known(m, id);
	if (k.whole < 0)
		return 0;
	*same = (uint64_t)(k.own < 0 ? k.whole : k.own);
	uint32_t block = m->entry[k.whole].block;
	return block < TQ_GROUP && block < m->entry[k.whole].cols ? TQ_GROUP : block;
}

#include "engine/family/view.h"

void view_whole(struct view *v, const struct config *c, enum tensor_role role, uint32_t layer)
{
	uint32_t rows, cols;
	config_tensor_shape(c, role, layer, &rows, &cols);
	*v = (struct view){.dims = cols ? 2 : 1, .shape = {rows, cols}, .count = 1};
	v->part[0] =
		cols ? (struct view_part){rows, 0, rows, rows} : (struct view_part){1, 0, 1, 1};
}

void view_paired_q(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_whole(v, c, TENSOR_Q, 0);
	v->paired = c->head_dim;
}

void view_paired_k(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_whole(v, c, TENSOR_K, 0);
	v->paired = c->head_dim;
}

/* ---- contiguous matrices ---- */

/* Rows [first, first + rows) of a tensor of `all` rows. */
static void view_fused(struct view *v, const struct config *c, uint64_t all, uint64_t first,
		       uint64_t rows)
{
	*v = (struct view){.dims = 2,
			   .shape = {all, c->hidden_size},
			   .count = 1,
			   .part = {{rows, first, rows, rows}}};
}

static void view_fused_heads(struct view *v, const struct config *c, uint64_t first, uint64_t heads)
{
	uint64_t all = c->heads + 2 * (uint64_t)c->kv_heads;
	view_fused(v, c, all * c->head_dim, first * c->head_dim, heads * c->head_dim);
}

void view_fused_q(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_fused_heads(v, c, 0, c->heads);
}

void view_fused_k(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_fused_heads(v, c, c->heads, c->kv_heads);
}

void view_fused_v(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_fused_heads(v, c, c->heads + (uint64_t)c->kv_heads, c->kv_heads);
}

void view_fused_gate(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_fused(v, c, 2 * (uint64_t)c->intermediate_size, 0, c->intermediate_size);
}

void view_fused_up(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_fused(v, c, 2 * (uint64_t)c->intermediate_size, c->intermediate_size,
		   c->intermediate_size);
}

void view_fused_shared_gate(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_fused(v, c, 2 * (uint64_t)c->shared_size, 0, c->shared_size);
}

void view_fused_shared_up(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_fused(v, c, 2 * (uint64_t)c->shared_size, c->shared_size, c->shared_size);
}

static void view_fused_mamba(struct view *v, const struct config *c, uint64_t first, uint64_t rows)
{
	uint64_t all = (uint64_t)config_mamba_inner(c) + config_mamba_channels(c) + c->mamba.heads;
	view_fused(v, c, all, first, rows);
}

void view_mamba_z(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_fused_mamba(v, c, 0, config_mamba_inner(c));
}

void view_mamba_xbc(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_fused_mamba(v, c, config_mamba_inner(c), config_mamba_channels(c));
}

void view_mamba_dt(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_fused_mamba(v, c, (uint64_t)config_mamba_inner(c) + config_mamba_channels(c),
			 c->mamba.heads);
}

/* ---- experts ---- */

/* Rows [first, first + rows) of the expert in a stack; each expert has `height` rows. */
static void view_stacked(struct view *v, const struct config *c, uint32_t expert, uint32_t height,
			 uint32_t cols, uint32_t first, uint32_t rows)
{
	*v = (struct view){.dims = 3,
			   .shape = {c->experts, height, cols},
			   .count = 1,
			   .part = {{rows, (uint64_t)expert * height + first, rows, rows}}};
}

void view_stacked_gate(struct view *v, const struct config *c, uint32_t expert)
{
	view_stacked(v, c, expert, 2 * c->expert_size, config_expert_width(c), 0, c->expert_size);
}

void view_stacked_up(struct view *v, const struct config *c, uint32_t expert)
{
	view_stacked(v, c, expert, 2 * c->expert_size, config_expert_width(c), c->expert_size,
		     c->expert_size);
}

void view_stacked_one(struct view *v, const struct config *c, uint32_t expert)
{
	view_stacked(v, c, expert, c->expert_size, config_expert_width(c), 0, c->expert_size);
}

void view_stacked_down(struct view *v, const struct config *c, uint32_t expert)
{
	view_stacked(v, c, expert, config_expert_width(c), c->expert_size, 0, config_expert_width(c));
}

/* A stack of matrices [height][width]; the role has the columns column, column + step … */
static void view_across(struct view *v, const struct config *c, uint32_t expert, uint32_t height,
			uint32_t width, uint32_t column, uint32_t step)
{
	uint32_t rows = width / step;
	view_stacked(v, c, expert, height, width, 0, rows);
	v->part[0].block = rows;
	v->way = VIEW_ACROSS;
	v->column = column;
	v->step = step;
}

void view_across_gate(struct view *v, const struct config *c, uint32_t expert)
{
	view_across(v, c, expert, c->hidden_size, 2 * c->expert_size, 0, 2);
}

void view_across_up(struct view *v, const struct config *c, uint32_t expert)
{
	view_across(v, c, expert, c->hidden_size, 2 * c->expert_size, 1, 2);
}

void view_across_down(struct view *v, const struct config *c, uint32_t expert)
{
	view_across(v, c, expert, c->expert_size, c->hidden_size, 0, 1);
}

static void view_every_other(struct view *v, const struct config *c, uint32_t expert,
			     uint32_t first)
{
	view_stacked(v, c, expert, 2 * c->expert_size, c->hidden_size, first, c->expert_size);
	v->part[0].block = 1;
	v->part[0].stride = 2;
}

void view_turn_gate(struct view *v, const struct config *c, uint32_t expert)
{
	view_every_other(v, c, expert, 0);
}

void view_turn_up(struct view *v, const struct config *c, uint32_t expert)
{
	view_every_other(v, c, expert, 1);
}

static void view_in_turn(struct view *v, const struct config *c, uint32_t column)
{
	*v = (struct view){.dims = 2,
			   .shape = {c->experts, 2 * (uint64_t)c->expert_size},
			   .count = 1,
			   .part = {{c->experts, 0, c->experts, c->experts}},
			   .way = VIEW_PICKED,
			   .column = column,
			   .step = 2};
}

void view_turn_gate_bias(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_in_turn(v, c, 0);
}

void view_turn_up_bias(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_in_turn(v, c, 1);
}

/* ---- latent attention ---- */

void view_latent_keys(struct view *v, const struct config *c, uint32_t expert)
{
	const struct latent *l = &c->latent;
	uint64_t each = l->nope + l->value;
	(void)expert;
	*v = (struct view){.dims = 2,
			   .shape = {c->heads * each, l->rank},
			   .count = 1,
			   .part = {{(uint64_t)c->heads * l->rank, 0, l->rank, each}},
			   .way = VIEW_ACROSS,
			   .step = 1};
}

void view_latent_values(struct view *v, const struct config *c, uint32_t expert)
{
	const struct latent *l = &c->latent;
	uint64_t each = l->nope + l->value;
	(void)expert;
	*v = (struct view){.dims = 2,
			   .shape = {c->heads * each, l->rank},
			   .count = 1,
			   .part = {{(uint64_t)c->heads * l->value, l->nope, l->value, each}}};
}

/* Contiguous matrices, one for each head. */
static void view_heads(struct view *v, const struct config *c, uint32_t rows, uint32_t cols)
{
	uint64_t all = (uint64_t)c->heads * rows;
	*v = (struct view){.dims = 3,
			   .shape = {c->heads, rows, cols},
			   .count = 1,
			   .part = {{all, 0, all, all}}};
}

void view_latent_keys_apart(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_heads(v, c, c->latent.rank, c->latent.nope);
}

void view_latent_values_apart(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_heads(v, c, c->latent.value, c->latent.rank);
}

/* ---- delta nets ---- */

static void view_taps(struct view *v, const struct config *c, enum tensor_role role)
{
	view_whole(v, c, role, 0);
	v->dims = 3;
	v->shape[2] = v->shape[1];
	v->shape[1] = 1;
}

void view_convolution(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_taps(v, c, TENSOR_DELTA_CONV);
}

void view_kimi_q_convolution(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_taps(v, c, TENSOR_KIMI_Q_CONV);
}

void view_kimi_k_convolution(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_taps(v, c, TENSOR_KIMI_K_CONV);
}

void view_kimi_v_convolution(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_taps(v, c, TENSOR_KIMI_V_CONV);
}

void view_kimi_a_log(struct view *v, const struct config *c, uint32_t expert)
{
	uint32_t heads = c->delta_net.value_heads;
	(void)expert;
	view_whole(v, c, TENSOR_KIMI_A_LOG, 0);
	v->dims = 4;
	v->shape[0] = v->shape[1] = v->shape[3] = 1;
	v->shape[2] = v->upright = heads;
}

void view_mamba_convolution(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_taps(v, c, TENSOR_MAMBA_CONV);
}

void view_short_convolution(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_taps(v, c, TENSOR_CONVOLUTION_TAPS);
}

void view_ngram_convolution(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_taps(v, c, TENSOR_NGRAM_CONV);
}

/* Rows [first, first + rows) of the queries followed by the single key. */
static void view_index(struct view *v, const struct config *c, uint64_t first, uint64_t rows)
{
	const struct chooser *x = &c->chooser;
	*v = (struct view){.dims = 2,
			   .shape = {(x->heads + UINT64_C(1)) * x->dim, c->hidden_size},
			   .count = 1,
			   .part = {{rows, first, rows, rows}}};
}

void view_index_queries(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_index(v, c, 0, (uint64_t)c->chooser.heads * c->chooser.dim);
}

void view_index_keys(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_index(v, c, (uint64_t)c->chooser.heads * c->chooser.dim, c->chooser.dim);
}

void view_convolution_upright(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_whole(v, c, TENSOR_DELTA_CONV, 0);
	v->upright = c->delta_net.width;
	v->dims = 3;
	v->shape[2] = 1;
}

void view_negated_exponential(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_whole(v, c, TENSOR_DELTA_A_LOG, 0);
	v->change = VIEW_NEGATED_EXPONENTIAL;
}

/* A vector whose tensor has `rows` rows. */
static void view_in_rows(struct view *v, const struct config *c, enum tensor_role role,
			 uint32_t rows)
{
	view_whole(v, c, role, 0);
	v->dims = 2;
	v->shape[1] = v->shape[0] / rows;
	v->shape[0] = v->upright = rows;
}

void view_mamba_negated(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_in_rows(v, c, TENSOR_MAMBA_A_LOG, c->mamba.heads);
	v->change = VIEW_NEGATED_EXPONENTIAL;
}

void view_mamba_d_rows(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_in_rows(v, c, TENSOR_MAMBA_D, c->mamba.heads);
}

void view_mamba_norm_groups(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_in_rows(v, c, TENSOR_MAMBA_NORM, c->mamba.groups);
}

void view_kimi_negated(struct view *v, const struct config *c, uint32_t expert)
{
	view_kimi_a_log(v, c, expert);
	v->change = VIEW_NEGATED_EXPONENTIAL;
}

void view_kimi_negated_row(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_whole(v, c, TENSOR_KIMI_A_LOG, 0);
	v->change = VIEW_NEGATED_EXPONENTIAL;
}

/* The rows of one key head in the fused projections. */
struct view_head_rows {
	uint64_t key, value; /* of q and of k; of v and of z */
	uint64_t all;
};

static struct view_head_rows view_head_rows(const struct config *c)
{
	const struct delta_net *n = &c->delta_net;
	uint64_t key = n->key_dim, value = (uint64_t)n->value_heads / n->key_heads * n->value_dim;
	return (struct view_head_rows){key, value, 2 * key + 2 * value};
}

void view_qkvz_qkv(struct view *v, const struct config *c, uint32_t expert)
{
	struct view_head_rows h = view_head_rows(c);
	uint64_t heads = c->delta_net.key_heads;
	(void)expert;
	*v = (struct view){
		.dims = 2,
		.shape = {heads * h.all, c->hidden_size},
		.count = 3,
		.part = {{heads * h.key, 0, h.key, h.all},
			 {heads * h.key, h.key, h.key, h.all},
			 {heads * h.value, 2 * h.key, h.value, h.all}},
	};
}

void view_qkvz_z(struct view *v, const struct config *c, uint32_t expert)
{
	struct view_head_rows h = view_head_rows(c);
	uint64_t heads = c->delta_net.key_heads;
	(void)expert;
	*v = (struct view){.dims = 2,
			   .shape = {heads * h.all, c->hidden_size},
			   .count = 1,
			   .part = {{heads * h.value, 2 * h.key + h.value, h.value, h.all}}};
}

static void view_half_of_ba(struct view *v, const struct config *c, uint32_t half)
{
	const struct delta_net *n = &c->delta_net;
	uint64_t each = n->value_heads / n->key_heads;
	*v = (struct view){.dims = 2,
			   .shape = {2 * (uint64_t)n->value_heads, c->hidden_size},
			   .count = 1,
			   .part = {{n->value_heads, half * each, each, 2 * each}}};
}

void view_ba_b(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_half_of_ba(v, c, 0);
}

void view_ba_a(struct view *v, const struct config *c, uint32_t expert)
{
	(void)expert;
	view_half_of_ba(v, c, 1);
}

/* ---- rows ---- */

struct view_place view_place(const struct view *v, uint64_t row, uint64_t k)
{
	const struct view_part *p = v->part;
	uint64_t run;
	switch (v->way) {
	case VIEW_ACROSS:
		return (struct view_place){p->first + row / p->block * p->stride + k,
					   v->column + row % p->block * v->step};
	case VIEW_PICKED:
		return (struct view_place){view_row(v, row, &run), v->column + k * v->step};
	case VIEW_ALONG:
		break;
	}
	return (struct view_place){view_row(v, row, &run), k};
}

uint64_t view_row(const struct view *v, uint64_t row, uint64_t *run)
{
	const struct view_part *p = v->part;
	for (; row >= p->rows; p++)
		row -= p->rows;
	uint64_t in_block = row % p->block;
	*run = p->block - in_block;
	return p->first + row / p->block * p->stride + in_block;
}
void view_rows_between(const struct view *v, uint32_t cols, uint64_t *first, uint64_t *end)
{
	uint64_t each = v->upright ? v->upright : 1;
	*first = UINT64_MAX;
	*end = 0;
	for (uint32_t i = 0; i < v->count; i++) {
		const struct view_part *p = &v->part[i];
		uint64_t last = (p->rows - 1) % p->block;
		if (v->way == VIEW_ACROSS)
			last = cols - 1;
		else if (p->rows > p->block)
			last = p->block - 1;
		last += p->first + (p->rows - 1) / p->block * p->stride;
		*first = p->first * each < *first ? p->first * each : *first;
		*end = (last + 1) * each > *end ? (last + 1) * each : *end;
	}
}

/* view_find_row without `paired`. */
static bool view_find_unpaired(const struct view *v, uint64_t at, uint64_t *row)
{
	uint64_t before = 0;
	for (uint32_t i = 0; i < v->count; before += v->part[i++].rows) {
		const struct view_part *p = &v->part[i];
		uint64_t from = at - p->first, in_block = from % p->stride;
		uint64_t of_part = from / p->stride * p->block + in_block;
		*row = before + of_part;
		if (at >= p->first && in_block < p->block && of_part < p->rows)
			return true;
	}
	return false;
}

bool view_find_row(const struct view *v, uint64_t at, uint64_t *row)
{
	if (!view_find_unpaired(v, at, row))
		return false;
	if (v->paired) {
		uint64_t in_pair = *row % v->paired;
		*row += in_pair % 2 * (v->paired / 2) + in_pair / 2 - in_pair;
	}
	return true;
}

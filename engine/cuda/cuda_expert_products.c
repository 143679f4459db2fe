/* Products of a layer's experts, which go to the items that the GPU makes of the choice (cuda_group). See
 * cuda_arrays.h. */
#include "engine/cuda/cuda_arrays.h"

/* What all products of a layer's experts have. If all are here, each assignment of a single row is an item. */
static struct cuda_product cuda_expert_product(const struct step *s, uint32_t layer, uint32_t part,
					       uint32_t most, bool all_here)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct cuda_model *m = k->model;
	uint32_t routed = s->env->plan->routed_of[layer];
	const struct plan_record *record = &s->env->plan->record[routed];
	struct cuda_product p = {.offset = record->slot_offset[part],
				 .items = cuda_at(k->items),
				 .item_count = all_here && s->n == 1 ? NULL : cuda_at(k->item_count),
				 .order = cuda_at(k->order),
				 .n = s->n * k->top_k,
				 .most = most,
				 .parts = 1};
	cuda_describe(m, &p, &record->computed[part]);
	p.ldy = p.rows;
	return p;
}

/* A guess of how many items n assignments make; the host does not know the number. It assumes that half of a small
 * number of assignments go to an expert that no other one goes to. */
static size_t cuda_items_expected(uint32_t experts, uint32_t n, uint32_t most)
{
	uint32_t alone = (n < experts ? n : experts) / 2;
	return n / most > alone ? n / most : alone;
}

static void cuda_run_expert_product(const struct cuda_scratch *k, struct cuda_product *p,
				    enum format format, const struct cuda_input *x)
{
	uint32_t experts = k->model->config->experts, items = cuda_most_items(experts, p->n, p->most);
	const size_t tiles = cuda_items_expected(experts, p->n, p->most) * p->parts *
			     ((p->rows + TILE_ROWS - 1) / TILE_ROWS);
	cuda_product_takes(p, x);
	const struct cuda_room room = cuda_room_of(k->model);
	const enum cuda_kernel kernel = cuda_kernel_for(format, p->most, tiles, &room);
	const struct cuda_grid g = cuda_product_grid(kernel, p, items, &room);
	cuda_do(k->model, kernel, &g, p);
}

/* The part of the next product's matrix that each tile of this one brings closer. */
static uint32_t cuda_next_bytes(const struct cuda_product *p, const struct shape *next)
{
	const uint32_t tiles = p->parts * ((p->rows + TILE_ROWS - 1) / TILE_ROWS);
	return (uint32_t)(format_arranged_bytes(next) / tiles / 16 * 16);
}

/* Whether one product computes gate and up. */
static bool cuda_gate_is_like_up(const struct step *s, uint32_t layer)
{
	const struct plan_record *record = &s->env->plan->record[s->env->plan->routed_of[layer]];
	const struct shape *gate = &record->computed[0], *up = &record->computed[1];
	return s->env->plan->first_part == 0 && gate->format == up->format && gate->norms == up->norms &&
	       gate->group == up->group;
}

/* Gate and up where they are alike, else the one or the other; without a gate up alone, in its place. */
static struct cuda_product cuda_gate_product(const struct step *s, uint32_t layer, uint32_t part, uint32_t most,
					     bool all_here)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct plan_record *record = &s->env->plan->record[s->env->plan->routed_of[layer]];
	struct cuda_product p = cuda_expert_product(s, layer, part, most, all_here);
	const struct cuda_input hidden = cuda_hidden_of(k, p.rows);
	const size_t inputs = cuda_inputs_of_down(s, layer);
	p.divide = k->top_k;
	p.y = cuda_at(part > s->env->plan->first_part ? cuda_up_of(&hidden, inputs) : hidden.f);
	p.parts = cuda_gate_is_like_up(s, layer) ? 2 : 1;
	p.part_bytes = record->slot_offset[1] - record->slot_offset[0];
	p.y_part = inputs * p.rows;
	p.next = record->slot_offset[EXPERT_PARTS - 1];
	/* Of many experts it would be more than a GPU's cache holds. */
	p.next_bytes = s->n == 1 ? cuda_next_bytes(&p, &record->computed[EXPERT_PARTS - 1]) : 0;
	return p;
}

void cuda_run_gate_up(const struct step *s, uint32_t layer, uint32_t most, bool all_here,
		      const struct cuda_input *x)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct plan_record *record = &s->env->plan->record[s->env->plan->routed_of[layer]];
	const uint32_t first = s->env->plan->first_part;
	const enum format gate = record->computed[first].format, up = record->computed[1].format;
	bool alike = cuda_gate_is_like_up(s, layer);
	for (uint32_t part = first; part < (alike ? 1 : 2); part++) {
		struct cuda_product p = cuda_gate_product(s, layer, part, most, all_here);
		if (part > first && format_input(gate) != format_input(up))
			cuda_prepare_input(k->model, x, s->n, up);
		cuda_run_expert_product(k, &p, record->computed[part].format, x);
	}
}

/* Also that of the shared expert, of a single row. False: no kernel takes both. */
static bool cuda_run_downs_at_once(const struct step *s, uint32_t layer, const struct cuda_product *routed,
				   enum format format)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct cuda_input own = cuda_shared_input(s, layer);
	const struct cuda_product shared =
		cuda_product_of(k->model, layer, TENSOR_SHARED_DOWN, &own, s->n, k->shared);
	struct cuda_products both = {.p = {*routed, shared}, .count = 2};
	return cuda_multiply_at_once(
		k->model, &both, (enum format[]){format, cuda_format_of(s, layer, TENSOR_SHARED_DOWN)});
}

void cuda_run_down(const struct step *s, uint32_t layer, uint32_t most, bool all_here)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const enum format format =
		s->env->plan->record[s->env->plan->routed_of[layer]].computed[EXPERT_PARTS - 1].format;
	const struct cuda_input hidden = cuda_hidden_of(k, s->env->config->expert_size);
	struct cuda_product p = cuda_expert_product(s, layer, EXPERT_PARTS - 1, most, all_here);
	const bool beside = cuda_shared_is_beside(s, layer);
	p.divide = 1;
	p.y = cuda_at(k->found);
	cuda_product_takes(&p, &hidden);
	/* Only so the host knows how many items there are, and can share the tiles of both. */
	if (beside && s->n == 1 && all_here && cuda_run_downs_at_once(s, layer, &p, format))
		return;
	cuda_run_expert_product(k, &p, format, &hidden);
	if (beside)
		cuda_end_shared(s, layer);
}

#include "engine/serve/chunk.h"

#include "engine/serve/internal.h"

static uint64_t per_step(uint64_t tokens, uint64_t steps)
{
	return (tokens - 1) / steps + 1;
}

/* ---- the decision ---- */

struct memory_of_experts {
	uint64_t all;	 /* what they take when all are in memory */
	uint64_t budget; /* what they may take now */
	uint64_t beside; /* what there is besides it */
};

static void look(const struct model *m, struct memory_of_experts *out)
{
	const struct plan *p = &m->stored.plan;
	struct pager_stats stats;
	pager_stats(m->engine->pager, &stats);
	*out = (struct memory_of_experts){
		/* A prompt needs none of a draft layer's. */
		.all = plan_slots_bytes(p, m->id.config.layers, pager_slot_bytes),
		.budget = stats.budget,
		.beside = budgets_beside(&m->engine->budgets),
	};
}

/* What steps of so many tokens take more than those that there is room for. */
static uint64_t more_scratch(const struct model *m, uint64_t chunk)
{
	uint64_t now = forward_bytes(&m->id.config, m->run.forward.chunk),
		 then = forward_bytes(&m->id.config, (uint32_t)chunk);
	return then > now ? then - now : 0;
}

/* What is read of experts: in each step what the budget does not hold, and once more by the answer,
 * which finds as little in memory. UINT64_MAX if the experts had to give up more than half, of
 * which nothing could be given to others that need it during a step. */
static uint64_t bytes_read(const struct model *m, const struct memory_of_experts *x, uint64_t left,
			   uint64_t steps)
{
	uint64_t scratch = more_scratch(m, per_step(left, steps));
	uint64_t taken = scratch > x->beside ? scratch - x->beside : 0;
	if (taken > x->budget / 2)
		return UINT64_MAX;
	uint64_t held = x->budget - taken;
	return held < x->all ? (steps + 1) * (x->all - held) : 0;
}

static uint64_t best_steps(const struct model *m, uint64_t left)
{
	struct memory_of_experts x;
	look(m, &x);
	uint64_t best = per_step(left, m->run.forward.chunk), least = per_step(left, CHUNK_MOST);
	uint64_t best_bytes = bytes_read(m, &x, left, best);
	for (uint64_t steps = best - 1; steps >= least; steps--) {
		uint64_t bytes = bytes_read(m, &x, left, steps);
		if (bytes < best_bytes) {
			best_bytes = bytes;
			best = steps;
		}
	}
	return best;
}

/* ---- memory ---- */

static int take(struct model *m, uint32_t chunk)
{
	struct budgets *b = &m->engine->budgets;
	struct err ignored; /* it goes with shorter steps */
	m->run.scratch =
		(struct budget_need){.bytes = more_scratch(m, chunk), .state = NEED_COMING};
	budgets_add(b, &m->run.scratch);
	int failed = forward_resize(&m->run.forward, chunk, &ignored);
	if (failed)
		chunk_forget(m);
	else
		budgets_need(b, &m->run.scratch, NEED_TAKEN);
	return failed;
}

static void lengthen(struct model *m, uint64_t left)
{
	uint64_t short_steps = per_step(left, m->run.forward.chunk), steps = best_steps(m, left);
	while (steps < short_steps && take(m, (uint32_t)per_step(left, steps)))
		steps *= 2;
}

uint32_t chunk_next(struct model *m, size_t left)
{
	bool fixed = !m->engine->chunk_automatic || !m->run.experts || m->run.scratch.bytes;
	if (!fixed && left > m->run.forward.chunk)
		lengthen(m, left);
	return (uint32_t)per_step(left, per_step(left, m->run.forward.chunk));
}

void chunk_end(struct model *m)
{
	struct err ignored;
	if (m->run.scratch.bytes &&
	    !forward_resize(&m->run.forward, m->engine->options.chunk, &ignored))
		chunk_forget(m);
}

void chunk_forget(struct model *m)
{
	budgets_remove(&m->engine->budgets, &m->run.scratch);
	m->run.scratch = (struct budget_need){0};
}

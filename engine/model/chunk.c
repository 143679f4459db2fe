#include "engine/model/chunk.h"

#include "engine/model/model_state.h"

static uint64_t chunk_per_step(uint64_t tokens, uint64_t steps)
{
	return (tokens - 1) / steps + 1;
}

/* ---- the decision ---- */

struct memory_of_experts {
	uint64_t all;	 /* bytes of all experts in memory */
	uint64_t budget; /* the expert budget now */
	uint64_t beside; /* free memory besides the budget */
};

static void chunk_look_at_memory(const struct model *m, struct memory_of_experts *out)
{
	const struct plan *p = &m->stored.plan;
	struct pager_stats stats;
	pager_stats(m->engine->pager, &stats);
	*out = (struct memory_of_experts){
		/* A prompt needs no experts of the draft layer. */
		.all = plan_slots_bytes(p, m->id.config.layers, pager_slot_bytes),
		.budget = stats.budget,
		.beside = budgets_beside(&m->engine->budgets),
	};
}

static uint64_t chunk_bytes(const struct model *m, uint64_t chunk)
{
	const struct backend *b = m->engine->backend;
	return forward_bytes(b, &m->id.config, (uint32_t)chunk) +
	       forward_pass_bytes(b, &m->id.config, (uint32_t)chunk);
}

/* The additional scratch memory that steps of `chunk` tokens need. */
static uint64_t chunk_more_scratch(const struct model *m, uint64_t chunk)
{
	uint64_t now = chunk_bytes(m, m->loaded.forward.chunk), then = chunk_bytes(m, chunk);
	return then > now ? then - now : 0;
}

/* The bytes of experts that a prompt reads: each step, and then the answer, reads what the budget
 * does not hold. UINT64_MAX if the scratch memory would take more than half of the expert budget,
 * since it cannot be given up during a step. */
static uint64_t chunk_bytes_read(const struct model *m, const struct memory_of_experts *x,
				 uint64_t left, uint64_t steps)
{
	uint64_t scratch = chunk_more_scratch(m, chunk_per_step(left, steps));
	uint64_t taken = scratch > x->beside ? scratch - x->beside : 0;
	if (taken > x->budget / 2)
		return UINT64_MAX;
	uint64_t held = x->budget - taken;
	return held < x->all ? (steps + 1) * (x->all - held) : 0;
}

static uint64_t chunk_best_steps(const struct model *m, uint64_t left)
{
	struct memory_of_experts x;
	chunk_look_at_memory(m, &x);
	uint64_t best = chunk_per_step(left, m->loaded.forward.chunk),
		 least = chunk_per_step(left, CHUNK_MOST);
	uint64_t best_bytes = chunk_bytes_read(m, &x, left, best);
	for (uint64_t steps = best - 1; steps >= least; steps--) {
		uint64_t bytes = chunk_bytes_read(m, &x, left, steps);
		if (bytes < best_bytes) {
			best_bytes = bytes;
			best = steps;
		}
	}
	return best;
}

/* ---- memory ---- */

/* Changes the size of steps. After an error nothing has changed. */
static int chunk_resize(struct model *m, uint32_t chunk)
{
	struct err ignored; /* the steps' size stays */
	struct forward_pass pass;
	int failed = forward_pass_init(&pass, &m->loaded.forward.env, chunk, &ignored);
	if (failed)
		return failed;
	failed = forward_resize(&m->loaded.forward, chunk, &ignored);
	if (failed) {
		forward_pass_free(&pass);
		return failed;
	}
	forward_pass_free(&m->loaded.pass);
	m->loaded.pass = pass;
	return 0;
}

static int chunk_take(struct model *m, uint32_t chunk)
{
	struct budgets *b = &m->engine->budgets;
	m->loaded.scratch =
		(struct budget_need){.bytes = chunk_more_scratch(m, chunk), .state = NEED_COMING};
	budgets_add(b, &m->loaded.scratch);
	int failed = chunk_resize(m, chunk);
	if (failed)
		chunk_forget(m);
	else
		budgets_need(b, &m->loaded.scratch, NEED_TAKEN);
	return failed;
}

static void chunk_lengthen(struct model *m, uint64_t left)
{
	uint64_t short_steps = chunk_per_step(left, m->loaded.forward.chunk),
		 steps = chunk_best_steps(m, left);
	while (steps < short_steps && chunk_take(m, (uint32_t)chunk_per_step(left, steps)))
		steps *= 2;
}

uint32_t chunk_next(struct model *m, size_t left, uint32_t most)
{
	bool fixed = !m->engine->chunk_automatic || !m->loaded.experts || m->loaded.scratch.bytes;
	if (!fixed && left > m->loaded.forward.chunk)
		chunk_lengthen(m, left);
	most = most < m->loaded.forward.chunk ? most : m->loaded.forward.chunk;
	return (uint32_t)chunk_per_step(left, chunk_per_step(left, most));
}

void chunk_end(struct model *m)
{
	if (m->loaded.scratch.bytes && !chunk_resize(m, m->engine->options.chunk))
		chunk_forget(m);
}

void chunk_forget(struct model *m)
{
	budgets_remove(&m->engine->budgets, &m->loaded.scratch);
	m->loaded.scratch = (struct budget_need){0};
}

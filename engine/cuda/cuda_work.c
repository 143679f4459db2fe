/* Work on the GPU, one step after the other, until something fails; and its memory. See cuda_model.h. */
#include "engine/cuda/cuda_model.h"
#include "engine/compute/threads.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* ---- work ---- */

void cuda_fail(struct cuda_model *m, const struct err *why)
{
	if (!m->failure.code)
		m->failure = *why;
}

void cuda_enter(struct cuda_model *m)
{
	struct err e;
	if (!m->failure.code &&
	    gpu_driver_check(&m->card.driver, m->card.driver.context_use(m->card.context),
			     "the GPU's context", &e))
		cuda_fail(m, &e);
}

void cuda_do(struct cuda_model *m, enum cuda_kernel k, const struct cuda_grid *g,
	     const void *operands)
{
	if (!m->failure.code)
		(void)card_launch(&m->card, k, g, operands, &m->failure);
}

void cuda_copy_in(struct cuda_model *m, gpu_address to, const void *from, size_t bytes)
{
	if (!m->failure.code && bytes)
		(void)card_copy_in(&m->card, to, from, bytes, &m->failure);
}

void cuda_copy_out(struct cuda_model *m, void *to, gpu_address from, size_t bytes)
{
	if (!m->failure.code && bytes)
		(void)card_copy_out(&m->card, to, from, bytes, &m->failure);
}

void cuda_copy_within(struct cuda_model *m, gpu_address to, gpu_address from, size_t bytes)
{
	if (!m->failure.code && bytes)
		(void)gpu_driver_check(&m->card.driver,
				       m->card.driver.copy_within(to, from, bytes, m->card.stream),
				       "copying within the GPU", &m->failure);
}

bool cuda_wait(struct cuda_model *m)
{
	if (!m->failure.code)
		(void)card_wait(&m->card, &m->failure);
	return !m->failure.code;
}

void cuda_mark(struct cuda_model *m, gpu_event event)
{
	if (!m->failure.code)
		(void)gpu_driver_check(&m->card.driver,
				       m->card.driver.event_record(event, m->card.stream),
				       "marking the GPU's work", &m->failure);
}

bool cuda_wait_for(struct cuda_model *m, gpu_event event)
{
	if (!m->failure.code)
		(void)gpu_driver_check(&m->card.driver, m->card.driver.event_wait(event),
				       "the GPU's work failed", &m->failure);
	return !m->failure.code;
}

/* Whether the stream still works. */
static bool cuda_works(struct cuda_model *m)
{
	const int result = m->card.driver.stream_look(m->card.stream);
	if (result == GPU_NOT_READY)
		return true;
	(void)gpu_driver_check(&m->card.driver, result, "the GPU's work failed", &m->failure);
	return false;
}

bool cuda_wait_to_be_told(struct cuda_model *m, _Atomic uint32_t *flag)
{
	enum { LOOKS = 500 }; /* between two questions to the driver: some 20 µs */
	struct err e;
	bool works = true;
	for (uint32_t looks = 1; works && !m->failure.code; looks++) {
		if (atomic_load_explicit(flag, memory_order_acquire))
			return true;
		threads_relax();
		works = looks % LOOKS || cuda_works(m);
	}
	if (m->failure.code || atomic_load_explicit(flag, memory_order_acquire))
		return !m->failure.code;
	err_set(&e, EIO, "the GPU's work has not told what it was to tell");
	cuda_fail(m, &e);
	return false;
}

/* ---- memory ---- */

gpu_address cuda_take(struct cuda_model *m, enum gpu_use use, size_t bytes, struct err *e)
{
	gpu_address at = 0;
	if (!gpu_budget_take(m->budget, use, bytes)) {
		err_set(e, ENOMEM, "the GPU budget has no room for %zu MB", bytes >> 20);
		return 0;
	}
	if (card_take(&m->card, bytes, &at, e)) {
		gpu_budget_give(m->budget, use, bytes);
		return 0;
	}
	return at;
}

void cuda_give(struct cuda_model *m, enum gpu_use use, gpu_address at, size_t bytes)
{
	if (!at)
		return;
	card_give(&m->card, at);
	gpu_budget_give(m->budget, use, bytes);
}

void *cuda_take_main(struct cuda_model *m, size_t bytes, struct err *e)
{
	void *memory = NULL;
	if (gpu_driver_check(&m->card.driver, m->card.driver.host_take(&memory, bytes ? bytes : 1),
			     "memory that the GPU can read", e))
		return NULL;
	memset(memory, 0, bytes);
	return memory;
}

void cuda_give_main(struct cuda_model *m, void *memory)
{
	if (memory)
		(void)m->card.driver.host_give(memory);
}

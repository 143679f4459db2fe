/* The embedding on the GPU: a copy of the table of the store, if the kernel knows its format and the GPU has
 * room to spare. Else rows are read from the store, and each is verified on the way, which takes longer than a
 * layer. See cuda_model.h. */
#include "engine/cuda/cuda_model.h"
#include "engine/compute/threads.h"

#include <stdatomic.h>
#include <stdlib.h>

/* The table may take this part of the budget. */
enum { CUDA_TABLE_SHARE = 8 };

struct cuda_table_task {
	struct cuda_model *model;
	const struct plan_tensor *tensor;
	size_t row_bytes;
	_Atomic bool failed;
};

/* Copies chunks [begin, end). The copy has left the buffer when the call returns: it is no memory that the
 * GPU can read. */
static void cuda_table_copy(void *ctx, uint32_t begin, uint32_t end)
{
	struct cuda_table_task *z = ctx;
	struct cuda_model *m = z->model;
	const struct gpu_driver *d = &m->card.driver;
	size_t chunk_bytes = z->tensor->chunk_rows * z->row_bytes;
	void *chunk = malloc(chunk_bytes);
	bool good = chunk && !d->context_use(m->card.context);
	struct err e;
	for (uint32_t c = begin; c < end && good && !atomic_load(&z->failed); c++) {
		good = !weights_table_chunk(m->weights, TABLE_EMBEDDING, c, chunk, &e) &&
		       !d->copy_in(m->table + c * chunk_bytes, chunk,
				   plan_chunk_rows(z->tensor, c) * z->row_bytes, m->card.stream);
	}
	if (!good)
		atomic_store(&z->failed, true);
	free(chunk);
}

void cuda_table_load(struct cuda_model *m, struct threads *threads)
{
	const struct plan_tensor *t = m->weights->tables[TABLE_EMBEDDING].tensor;
	struct cuda_table_task z = {.model = m, .tensor = t};
	struct err e;
	if (!cuda_table_type(&m->table_type, t->shape.format))
		return;
	z.row_bytes = plan_stored_bytes(&t->shape) / t->shape.rows;
	m->table_groups = cuda_table_groups_of(&t->shape, t->chunk_rows);
	m->table_bytes = t->shape.rows * z.row_bytes;
	if (m->table_bytes > gpu_budget_limit(m->budget) / CUDA_TABLE_SHARE)
		return;
	m->table = cuda_take(m, GPU_DENSE, m->table_bytes, &e);
	if (!m->table)
		return;
	threads_run(threads, t->chunks, 1, cuda_table_copy, &z);
	if (!cuda_wait(m) || atomic_load(&z.failed))
		cuda_table_free(m);
}

void cuda_table_free(struct cuda_model *m)
{
	cuda_give(m, GPU_DENSE, m->table, m->table_bytes);
	m->table = 0;
}

/* What the CPU's backend computes of a step: parts of layers that the GPU cannot compute, with the CPU's
 * stream and scratch. Keys, values and states of such parts are in main memory alone. See cuda_arrays.h. */
#include "engine/cuda/cuda_arrays.h"
#include "engine/cpu/cpu.h"

struct step cuda_as_cpus(const struct step *s)
{
	struct step t = *s;
	t.scratch = cuda_scratch_of(s)->cpu;
	t.stream = cuda_stream_of(s)->cpus;
	return t;
}

/* After a failure nothing is computed any more. */
void cuda_run_on_cpu(struct step *s, uint32_t layer, void (*operation)(struct step *, uint32_t))
{
	struct step cpus = cuda_as_cpus(s);
	if (!cuda_rows_to_cpu(s))
		return;
	operation(&cpus, layer);
	cuda_stream_of(s)->on_gpu = false;
}

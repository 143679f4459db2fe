#include "engine/compute/runs.h"

/* Enough to share what is read of keys and values, few enough that the last rows of a chunk, which
 * look back furthest, do not keep one thread longer than the others. */
enum { RUN_ROWS = 16 };

uint32_t runs_make(const struct step *s, uint32_t window, struct row_run *runs, uint64_t *seen)
{
	uint32_t count = 0;
	*seen = 0;
	for (const struct span *span = s->spans; span < s->spans + s->span_count; span++) {
		uint32_t most = span->n < RUN_ROWS ? span->n : RUN_ROWS;
		uint32_t back = span->position + span->n;
		uint64_t positions = (uint64_t)(window && window < back ? window : back) * most;
		*seen = positions > *seen ? positions : *seen;
		for (uint32_t t = 0; t < span->n; t += RUN_ROWS) {
			uint32_t left = span->n - t;
			runs[count++] = (struct row_run){span->first + t,
							 left < RUN_ROWS ? left : RUN_ROWS};
		}
	}
	return count;
}

struct attention runs_look(const struct step *s, const struct row_run *run,
			   const struct layer *layer)
{
	const struct span *span = step_span(s, run->first);
	return (struct attention){
		.type = span->context->type,
		.length = span->position + run->first - span->first + 1,
		.scale = s->env->config->attention_scale,
		.blocks = context_blocks_of(span->context, layer),
	};
}

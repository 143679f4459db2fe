#include "engine/compute/step.h"

void step_tap(const struct step *s, enum tap_point point, uint32_t layer, uint32_t width,
	      const float *rows)
{
	const struct environment *env = s->env;
	for (uint32_t i = 0; i < s->span_count && env->tap; i++) {
		const struct span *p = &s->spans[i];
		env->tap(env->tap_ctx, point, layer, p->position, p->n, width,
			 rows + (size_t)p->first * width);
	}
}

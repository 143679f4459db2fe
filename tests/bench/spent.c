#include "tests/bench/spent.h"
#include "engine/cpu/layers.h"
#include "tests/bench/bench.h"

/* As the linker calls them: the engine's own, and what is called instead. */
void __real_delta_run(struct step *s, uint32_t layer);
void __wrap_delta_run(struct step *s, uint32_t layer);
void __real_product_run(const struct environment *env, const struct product *products,
			uint32_t count, struct activation *a, uint32_t n);
void __wrap_product_run(const struct environment *env, const struct product *products,
			uint32_t count, struct activation *a, uint32_t n);

/* Of this thread: who measures runs the forward pass itself. */
static _Thread_local struct {
	double seconds;
	bool inside;
} spent;

double spent_in_delta_nets(void)
{
	return spent.seconds;
}

void __wrap_delta_run(struct step *s, uint32_t layer)
{
	spent.inside = true;
	spent.seconds -= seconds_now();
	__real_delta_run(s, layer);
	spent.seconds += seconds_now();
	spent.inside = false;
}

void __wrap_product_run(const struct environment *env, const struct product *products,
			uint32_t count, struct activation *a, uint32_t n)
{
	if (spent.inside)
		spent.seconds += seconds_now();
	__real_product_run(env, products, count, a, n);
	if (spent.inside)
		spent.seconds -= seconds_now();
}

#include "tests/bench/spent.h"
#include "engine/compute/forward.h"
#include "tests/bench/bench.h"

/* As the linker calls them: the engine's own, and what is called instead. */
void __real_delta_run(struct forward *f, struct context *x, uint32_t layer, uint32_t n);
void __wrap_delta_run(struct forward *f, struct context *x, uint32_t layer, uint32_t n);
void __real_forward_multiply(const struct forward *f, const struct product *products,
			     uint32_t count, struct activation *a, uint32_t n);
void __wrap_forward_multiply(const struct forward *f, const struct product *products,
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

void __wrap_delta_run(struct forward *f, struct context *x, uint32_t layer, uint32_t n)
{
	spent.inside = true;
	spent.seconds -= seconds_now();
	__real_delta_run(f, x, layer, n);
	spent.seconds += seconds_now();
	spent.inside = false;
}

void __wrap_forward_multiply(const struct forward *f, const struct product *products,
			     uint32_t count, struct activation *a, uint32_t n)
{
	if (spent.inside)
		spent.seconds += seconds_now();
	__real_forward_multiply(f, products, count, a, n);
	if (spent.inside)
		spent.seconds -= seconds_now();
}

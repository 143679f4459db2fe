#include "forward_help.h"

int test_add(struct step_batch *b, struct context *x, const uint32_t *tokens, uint32_t n,
	     enum row_kind kind, bool logits, struct err *e)
{
	struct step_row row = {.context = x, .kind = kind, .logits = logits};
	uint32_t certain = kind == ROW_PROMPT ? n : 1;
	int failed = step_batch_add(b, &row, tokens, certain, e);
	row.kind = ROW_DRAFT;
	return failed ? failed : step_batch_add(b, &row, tokens + certain, n - certain, e);
}

static int run(struct forward *f, struct context *x, const uint32_t *tokens, uint32_t n,
	       enum row_kind kind, float *all, struct err *e)
{
	struct step_account account = {.stop = &test_stopped};
	struct step_batch b = {0};
	int failed = test_add(&b, x, tokens, n, kind, all, e);
	for (uint32_t t = 0; t < b.count; t++)
		b.rows[t].account = &account;
	if (!failed) {
		b.rows[n - 1].logits = true;
		failed = forward_run(f, &b, all, e);
	}
	step_batch_free(&b);
	if (failed || !account.error.code)
		return failed;
	*e = account.error;
	return -e->code;
}

int test_step(struct forward *f, struct context *x, const uint32_t *tokens, uint32_t n, float *all,
	      struct err *e)
{
	return run(f, x, tokens, n, ROW_PROMPT, all, e);
}

int test_verify(struct forward *f, struct context *x, const uint32_t *tokens, uint32_t n,
		float *all, struct err *e)
{
	return run(f, x, tokens, n, ROW_ANSWER, all, e);
}

uint32_t test_states_left;
_Atomic bool test_stopped;

void test_stop_at_state(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
			uint32_t n, uint32_t width, const float *rows)
{
	(void)ctx, (void)layer, (void)position, (void)n, (void)width, (void)rows;
	if (point == TAP_STATE && test_states_left && !--test_states_left)
		atomic_store(&test_stopped, true);
}

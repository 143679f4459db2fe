/* See card_runner.h. */
#include "tests/cuda/card_runner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool card_tell(int failed, const struct err *e)
{
	if (failed)
		printf("# %s\n", e->text);
	return !failed;
}

static void *card_runner_put(void *ctx, const void *data, size_t bytes)
{
	struct card_runner *x = ctx;
	gpu_address at = 0;
	struct err e;

	if (!x->card.module || x->count == CARD_PIECES ||
	    !card_tell(card_take(&x->card, bytes ? bytes : 1, &at, &e), &e)) {
		x->lacking = true;
		return NULL;
	}
	x->pieces[x->count++] = at;
	int failed = data ? card_copy_in(&x->card, at, data, bytes, &e)
			  : card_clear(&x->card, at, bytes, &e);
	if (!failed)
		failed = card_wait(&x->card, &e);
	return card_tell(failed, &e) ? (void *)(uintptr_t)at : NULL;
}

static bool card_runner_get(void *ctx, void *to, const void *from, size_t bytes)
{
	struct card_runner *x = ctx;
	struct err e;
	int failed = x->card.module && from
			     ? card_copy_out(&x->card, to, (uintptr_t)from, bytes, &e)
			     : err_set(&e, EIO, "the card is not open");

	if (!failed)
		failed = card_wait(&x->card, &e);
	return card_tell(failed, &e);
}

static bool card_runner_launch(void *ctx, enum cuda_kernel k, const struct cuda_grid *g,
			       const void *operands, size_t bytes)
{
	struct card_runner *x = ctx;
	struct err e;

	(void)bytes;
	if (!x->card.module || x->lacking)
		return false;
	int failed = card_launch(&x->card, k, g, operands, &e);
	if (!failed)
		failed = card_wait(&x->card, &e);
	if (!failed)
		return true;
	/* After a wild access nothing works any more in this context. */
	(void)card_tell(failed, &e);
	card_close(&x->card);
	x->count = 0;
	(void)card_tell(card_open(&x->card, 0, x->images, &e), &e);
	return false;
}

static void card_runner_forget(void *ctx)
{
	struct card_runner *x = ctx;

	while (x->count > 0)
		card_give(&x->card, x->pieces[--x->count]);
	x->lacking = false;
}

struct runner card_runner(struct card_runner *x)
{
	const struct card_facts *f = &x->card.facts;
	return (struct runner){x, {f->processors, f->shared}, card_runner_put, card_runner_get,
			       card_runner_launch, card_runner_forget};
}

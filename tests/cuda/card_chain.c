/* See card_chain.h. */
#include "tests/cuda/card_chain.h"

#include <stdio.h>

void card_chain_begin(struct card_chain *c, struct card *card, bool early)
{
	*c = (struct card_chain){.card = card, .early = early};
	c->result = card->driver.capture_begin(card->stream, GPU_CAPTURE_THREAD);
}

void card_chain_add(struct card_chain *c, enum cuda_kernel k, struct cuda_grid g, const void *operands)
{
	struct gpu_launch_attribute early = {.id = GPU_LAUNCH_EARLY, .value.allowed = 1};
	const struct gpu_launch l = {g.x, g.y, 1, g.threads, 1, 1, g.shared, c->card->stream,
				     &early, c->early};
	void *all[] = {(void *)(uintptr_t)operands}; /* which are only read */
	const bool left_out = c->period && c->added++ % c->period == c->left_out;

	if (!c->result && !left_out)
		c->result = c->card->driver.launch_with(&l, c->card->kernels[k], all, NULL);
}

/* Microseconds of one launch of the sequence. */
static double card_chain_time(struct card_chain *c, gpu_sequence sequence)
{
	const struct gpu_driver *d = &c->card->driver;
	gpu_event from = NULL, to = NULL;
	float ms = -1;

	c->result = d->event_create(&from, 0);
	c->result = c->result ? c->result : d->event_create(&to, 0);
	c->result = c->result ? c->result : d->event_record(from, c->card->stream);
	c->result = c->result ? c->result : d->sequence_launch(sequence, c->card->stream);
	c->result = c->result ? c->result : d->event_record(to, c->card->stream);
	c->result = c->result ? c->result : d->stream_wait(c->card->stream);
	c->result = c->result ? c->result : d->event_elapsed(&ms, from, to);
	if (from)
		(void)d->event_destroy(from);
	if (to)
		(void)d->event_destroy(to);
	return (double)ms * 1e3;
}

double card_chain_end(struct card_chain *c)
{
	const struct gpu_driver *d = &c->card->driver;
	gpu_graph graph = NULL;
	gpu_sequence sequence = NULL;
	struct err e;
	double best = -1;
	const int ended = d->capture_end(c->card->stream, &graph);

	c->result = c->result ? c->result : ended;
	if (!c->result)
		c->result = d->graph_prepare(&sequence, graph, 0);
	for (int i = 0; i < 6 && !c->result; i++) {
		const double us = card_chain_time(c, sequence);
		best = i == 0 || us < best ? us : best;
	}
	if (sequence)
		(void)d->sequence_destroy(sequence);
	if (graph)
		(void)d->graph_destroy(graph);
	if (!gpu_driver_check(d, c->result, "a chain of launches", &e))
		return best;
	printf("# %s\n", e.text);
	return -1;
}

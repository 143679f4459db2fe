/* News of a model's trace: from the engine's threads to who waits for it. */
#include "fs/mount/trace_news.h"
#include "fs/mount/pollers.h"

void trace_wake(struct mounted *model)
{
	calls_wake(model->mount, &model->for_trace);
	pollers_wake(model->mount, &model->trace_pollers);
}

static void on_lines(struct post *p)
{
	trace_wake(LINK_OWNER(p, struct mounted, traced));
}

void trace_told(void *ctx)
{
	struct mounted *model = ctx;
	post_send(model->mount->posts, &model->traced);
}

void trace_lists_init(struct mounted *model)
{
	list_init(&model->for_trace);
	list_init(&model->trace_pollers);
	post_init(&model->traced, on_lines);
}

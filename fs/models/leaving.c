/* Models that go from the tree before the mount's end (models.h).
 *
 * What a model holds goes with it: a thread, a tokenizer, and open files, whose room on the disk
 * would else be taken by what nobody sees any more. A worker's job may still be at it, for somebody
 * who has asked for a name and opened nothing, so that it is closed after all of these. */
#include "fs/base/workers.h"
#include "fs/models/models.h"

#include <stdlib.h>

struct leaving {
	struct job job;
	struct mounted *of;
	struct model *model;
};

static void leaving_work(struct job *job)
{
	model_close(LINK_OWNER(job, struct leaving, job)->model);
}

static void leaving_finish(struct job *job)
{
	struct leaving *l = LINK_OWNER(job, struct leaving, job);
	post_cancel(l->of->mount->posts, &l->of->traced);
	l->of->model = NULL;
	free(l);
}

void models_leave(struct mounted *model)
{
	struct leaving *l = calloc(1, sizeof *l);
	model->gone = true;
	if (!l) /* then it is closed with the mount */
		return;
	*l = (struct leaving){
		.job = {.slow = true, .work = leaving_work, .finish = leaving_finish},
		.of = model,
		.model = model->model,
	};
	while (model->session_count)
		sessions_remove(model->sessions[model->session_count - 1]);
	workers_run_after(model->mount->workers, &l->job);
}

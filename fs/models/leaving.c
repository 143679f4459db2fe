/* Models that go from the tree before the mount's end (models.h).
 *
 * What a model holds goes with it: a thread, a tokenizer, and open files, whose room on the disk
 * would else be taken by what nobody sees any more. A worker's job may still be at it, for somebody
 * who has asked for a name and opened nothing, so that it is closed after all of these. Nothing of
 * it stays: where models come and go for long, pieces that stayed would each keep a page. */
#include "fs/models/models.h"

static void leaving_work(struct job *job)
{
	struct mounted *model = LINK_OWNER(job, struct mounted, leaving);
	model_close(model->model);
	model->model = NULL;
}

static void leaving_finish(struct job *job)
{
	models_free(LINK_OWNER(job, struct mounted, leaving));
}

void models_leave(struct mounted *model)
{
	model->mount->models[model->index] = NULL;
	while (model->session_count)
		sessions_remove(model->sessions[model->session_count - 1]);
	model->leaving = (struct job){.slow = true, .work = leaving_work, .finish = leaving_finish};
	workers_run_after(model->mount->workers, &model->leaving);
}

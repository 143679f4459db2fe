/* See lifetime.h. */
#include "fs/requests/lifetime.h"
#include "fs/base/workers.h"
#include "fs/files/question.h"
#include "fs/models/models.h"
#include "fs/models/rescan.h"
#include "fs/mount/call.h"
#include "fs/mount/handle.h"
#include "fs/mount/pollers.h"
#include "fs/mount/trace_news.h"
#include "fs/requests/ops.h"
#include "fs/tree/readme.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Pages of its own, which rest.c can give back. NULL: no memory. */
static char *map_scratch(void)
{
	void *memory = mmap(NULL, READ_MAX_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

int mount_create(struct mount **out, struct err *e)
{
	struct mount *m = calloc(1, sizeof *m);
	if (!m)
		return err_set(e, ENOMEM, "no memory for a mount");
	m->uid = getuid();
	m->gid = getgid();
	m->memory = engine_memory();
	clock_gettime(CLOCK_REALTIME, &m->began);
	list_init(&m->woken);
	list_init(&m->polled);
	list_init(&m->deadlines);
	list_init(&m->interrupted);
	list_init(&m->handles);
	list_init(&m->folders);
	list_init(&m->refusals);
	readme_make(&m->readme);
	m->scratch = map_scratch();
	int code = m->scratch && !m->readme.failed ? posts_create(&m->posts, e)
						   : err_set(e, ENOMEM, "no memory");
	if (!code)
		code = workers_create(&m->workers, m->posts, e);
	if (code) {
		mount_destroy(m);
		return code;
	}
	*out = m;
	return 0;
}

void mount_stop(struct mount *m)
{
	rescan_stop(m);
	for (struct mounted *x = NULL; (x = mounted_next(m, x));) {
		for (size_t i = 0; i < x->session_count; i++)
			conversation_end(x->sessions[i]);
		for (struct link *l = x->asks.next; l != &x->asks; l = l->next)
			conversation_end(LINK_OWNER(l, struct conversation, in_asks));
	}
	/* Those of questions are in no folder. */
	for (struct link *l = m->handles.next; l != &m->handles; l = l->next) {
		struct handle *h = LINK_OWNER(l, struct handle, all);
		h->gone = true;
		if (h->node.conversation)
			conversation_end(h->node.conversation);
		question_give_up(h);
	}
	for (struct mounted *x = NULL; (x = mounted_next(m, x));) {
		trace_wake(x);
		model_end_background(x->model);
	}
	while (!list_empty(&m->woken))
		calls_serve_woken(m, 1);
	while (!list_empty(&m->polled))
		pollers_serve_woken(m, 1);
	calls_end_interrupted(m);
}

void mount_destroy(struct mount *m)
{
	if (!m)
		return;
	workers_destroy(m->workers);
	m->workers = NULL;
	while (!list_empty(&m->handles))
		handle_release(LINK_OWNER(m->handles.next, struct handle, all));
	folders_release(m);
	rescan_free(m);
	models_close(m);
	if (m->engine)
		engine_destroy(m->engine);
	posts_destroy(m->posts);
	free(m->models);
	free(m->unsubmitted.users);
	text_free(&m->skipped);
	text_free(&m->readme);
	if (m->scratch)
		(void)munmap(m->scratch, READ_MAX_BYTES);
	free(m);
}

void mount_changed(void *ctx, void *user)
{
	struct mount *m = ctx;
	struct conversation *c = user;
	post_send(m->posts, &c->news);
}

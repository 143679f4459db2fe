/* What `mkdir sessions/NAME; cp state sessions/NAME/state` does, in one write. See fork.h.
 *
 * The session is saved as it is now; a worker makes another of that; and only then it is put into
 * the tree, so that nobody sees half of one. */
#include "fs/files/fork.h"
#include "fs/base/workers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 256 << 10 };

struct forking {
	struct job job;
	fuse_req_t req;
	struct handle *handle; /* is released after the answer */
	size_t size;	       /* of the write */
	char name[NAME_SIZE];
	uid_t uid;
	gid_t gid;
	struct saved *saved;
	struct restored *restored;
	int code;
	struct err why;
};

static void work(struct job *job)
{
	struct forking *f = LINK_OWNER(job, struct forking, job);
	char *piece = malloc(PIECE);
	uint64_t at = 0;
	f->code = piece ? restored_begin(f->handle->node.model->model, &f->restored, &f->why)
			: err_set(&f->why, ENOMEM, "no memory to copy a session");
	for (size_t n; !f->code && (n = saved_read(f->saved, at, piece, PIECE)); at += n)
		f->code = restored_feed(f->restored, at, piece, n, &f->why);
	free(piece);
	saved_close(f->saved);
	f->saved = NULL;
}

static int enter(struct forking *f)
{
	struct conversation *made;
	if (f->handle->gone)
		return err_set(&f->why, EIO, "the mount has ended");
	int code =
		conversation_make(f->handle->node.model, f->name, f->uid, f->gid, &made, &f->why);
	if (code)
		return code;
	code = session_restore(made->session, f->restored, &f->why);
	if (code)
		conversation_remove(made);
	else
		conversation_wake(made);
	return code;
}

static void finish(struct job *job)
{
	struct forking *f = LINK_OWNER(job, struct forking, job);
	const struct node *n = &f->handle->node;
	f->handle->late--;
	if (!f->code)
		f->code = enter(f);
	if (f->code) {
		failure_refused(n, &f->why);
		fuse_reply_err(f->req, -f->code);
	} else {
		failure_took(n);
		fuse_reply_write(f->req, f->size);
	}
	restored_close(f->restored);
	free(f);
}

static int check_name(const struct forking *f, struct err *e)
{
	const struct mounted *model = f->handle->node.model;
	if (!*f->name)
		return err_set(e, EINVAL, "ctl: fork needs a name for the copy: fork NAME");
	if (strchr(f->name, '/') || !strcmp(f->name, ".") || !strcmp(f->name, ".."))
		return err_set(e, EINVAL, "ctl: \"%.64s\" is not a name in sessions/", f->name);
	if (conversations_by_name(model, f->name))
		return err_set(e, EEXIST, "%s/sessions/%s exists", model->name, f->name);
	return conversation_check_name(model, "sessions", f->name, e);
}

int fork_later(struct handle *h, fuse_req_t req, const char *name, size_t n, size_t size,
	       struct err *e)
{
	if (n >= NAME_SIZE)
		return err_set(e, ENAMETOOLONG, "a session's name has 1 to %d bytes",
			       NAME_SIZE - 1);
	if (memchr(name, 0, n))
		return err_set(e, EINVAL, "ctl: a name has no zero bytes");
	struct forking *f = calloc(1, sizeof *f);
	if (!f)
		return err_set(e, ENOMEM, "no memory to copy a session");
	f->job = (struct job){.slow = true, .work = work, .finish = finish};
	f->req = req;
	f->handle = h;
	f->size = size;
	f->uid = fuse_req_ctx(req)->uid;
	f->gid = fuse_req_ctx(req)->gid;
	memcpy(f->name, name, n);
	int code = check_name(f, e);
	if (!code)
		code = session_save(h->node.conversation->session, &f->saved, e);
	if (code) {
		free(f);
		return code;
	}
	h->late++;
	workers_run(h->node.mount->workers, &f->job);
	return 0;
}

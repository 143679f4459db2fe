/* Sessions as the tree knows them: their names, owners and lifetimes, and who waits for them. How
 * they are found is session_index.c's. */
#include "cache/clock.h"
#include "fs/base/said.h"
#include "fs/mount/call.h"
#include "fs/mount/handle.h"
#include "fs/mount/pollers.h"
#include "fs/mount/refusals.h"
#include "fs/mount/told.h"
#include "fs/mount/trace_news.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- waking ---- */

void conversation_wake(struct conversation *c)
{
	struct mount *m = c->model->mount;
	calls_wake(m, &c->for_text);
	if (!c->session || !session_working(c->session)) {
		calls_wake(m, &c->for_turn);
		pollers_wake(m, &c->turn_pollers);
		trace_wake(c->model);
	}
	pollers_wake(m, &c->pollers);
}

static void tell_error(struct conversation *c)
{
	struct err e, why;
	if (session_status(c->session) != SESSION_ERROR) {
		c->error_told = false;
		return;
	}
	if (c->error_told)
		return;
	c->error_told = true;
	session_failure(c->session, &why);
	const char *folder = c->passing ? "ask.d/" : c->id ? "sessions/" : "";
	err_because(&e, &why, EIO, "%s/%s%s: %s", c->model->name, folder, c->name, why.text);
	mount_failure_of(c->model->mount, c->uid, &e);
	/* Why may quote what its user wrote, and is for him alone. */
	err_set(&e, EIO, "%s/%s%s: a turn has failed; error beside its prompt says why",
		c->model->name, folder, c->name);
	said_line(c->model->mount->said, e.text);
}

static void on_news(struct post *p)
{
	struct conversation *c = LINK_OWNER(p, struct conversation, news);
	if (!c->session) /* it has ended, and is still borrowed */
		return;
	c->used = clock_ns();
	clock_gettime(CLOCK_REALTIME, &c->changed);
	tell_error(c);
	told_turn(c);
	conversation_wake(c);
}

/* ---- lifetimes ---- */

static int conversation_create(struct mounted *model, const char *name, uid_t uid, gid_t gid,
			       struct conversation **out, struct err *e)
{
	struct conversation *c = calloc(1, sizeof *c);
	if (!c)
		return err_set(e, ENOMEM, "no memory for a session");
	c->model = model;
	c->references = 1;
	c->uid = uid;
	c->gid = gid;
	(void)snprintf(c->name, sizeof c->name, "%s", name);
	clock_gettime(CLOCK_REALTIME, &c->made);
	c->changed = c->made;
	c->used = clock_ns();
	list_init(&c->for_text);
	list_init(&c->for_turn);
	list_init(&c->for_release);
	list_init(&c->pollers);
	list_init(&c->turn_pollers);
	list_init(&c->writing);
	list_init(&c->refusals);
	list_init(&c->in_asks);
	list_init(&c->in_nameless);
	post_init(&c->news, on_news);
	const struct session *params = model->session_count ? model->sessions[0]->session : NULL;
	int code = session_create(&c->session, model->model, params, c, e);
	if (code) {
		free(c);
		return code;
	}
	*out = c;
	return 0;
}

struct conversation *conversation_ref(struct conversation *c)
{
	c->references++;
	return c;
}

void conversation_unref(struct conversation *c)
{
	if (--c->references)
		return;
	conversation_end(c);
	free(c->refused);
	free(c->denied);
	told_forget(c);
	free(c);
}

void conversation_end(struct conversation *c)
{
	if (!c->session)
		return;
	struct session *s = c->session;
	c->session = NULL;
	if (c->borrowed)
		c->ending = s;
	else
		session_end(s);
	refusals_forget(c);
	list_remove(&c->in_nameless);
	post_cancel(c->model->mount->posts, &c->news);
	conversation_wake(c);
	calls_wake(c->model->mount, &c->for_release);
}

struct session *conversation_borrow(struct conversation *c)
{
	conversation_ref(c)->borrowed++;
	return c->session;
}

void conversation_return(struct conversation *c)
{
	if (--c->borrowed == 0 && c->ending) {
		session_end(c->ending);
		c->ending = NULL;
		post_cancel(c->model->mount->posts, &c->news);
	}
	conversation_unref(c);
}

int sessions_private(struct mounted *model, uid_t uid, const char *name, struct conversation **out,
		     struct err *e)
{
	int code = conversation_create(model, name, uid, 0, out, e);
	if (code)
		return code;
	char numbered[NAME_SIZE + 32];
	(void)snprintf(numbered, sizeof numbered, "%s/%llu", name,
		       (unsigned long long)++model->private_count);
	session_name((*out)->session, uid, numbered);
	return 0;
}

/* ---- names ---- */

int sessions_name_fits(const struct mounted *model, const char *folder, const char *name,
		       struct err *e)
{
	size_t length = strlen(name);
	if (length == 0 || length >= NAME_SIZE)
		return err_set(e, ENAMETOOLONG, "a session's name has 1 to %d bytes",
			       NAME_SIZE - 1);
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
			return err_set(e, EINVAL,
				       "%s/%s/%s: no control characters in a session's name",
				       model->name, folder, name);
	return 0;
}

static int check_name(const struct mounted *model, const char *name, struct err *e)
{
	if (sessions_by_name(model, name))
		return err_set(e, EEXIST, "%s/sessions/%s exists", model->name, name);
	return sessions_name_fits(model, "sessions", name, e);
}

int sessions_make(struct mounted *model, const char *name, uid_t uid, gid_t gid,
		  struct conversation **out, struct err *e)
{
	struct conversation *c;
	int code = check_name(model, name, e);
	if (!code)
		code = sessions_make_room(model, e);
	if (!code)
		code = conversation_create(model, name, uid, gid, &c, e);
	if (code)
		return code;
	c->id = ++model->next_id;
	session_name(c->session, uid, name);
	sessions_enter(c);
	if (out)
		*out = c;
	return 0;
}

int sessions_rename(struct conversation *c, const char *name, struct err *e)
{
	int code = check_name(c->model, name, e);
	if (code)
		return code;
	sessions_enter_renamed(c, name);
	session_name(c->session, c->uid, name);
	return 0;
}

bool sessions_is_default(const struct conversation *c)
{
	return c->model->session_count && c->model->sessions[0] == c;
}

void sessions_remove(struct conversation *c)
{
	sessions_leave(c);
	conversation_end(c);
	conversation_unref(c);
}

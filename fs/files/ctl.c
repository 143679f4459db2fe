/* ctl: verbs to a session, one a write. */
#include "fs/files/files.h"
#include "fs/files/live.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <string.h>

static int stop(struct session *s, struct err *e)
{
	(void)e;
	session_stop(s);
	return 0;
}

static int answer(struct session *s, struct err *e)
{
	return session_again(s, SESSION_AGAIN_ANSWER, NULL, e);
}

static int retry(struct session *s, struct err *e)
{
	return session_again(s, SESSION_AGAIN_RETRY, NULL, e);
}

static int go_on(struct session *s, struct err *e)
{
	return session_again(s, SESSION_AGAIN_CONTINUE, NULL, e);
}

static const struct verb {
	const char *name;
	int (*run)(struct session *s, struct err *e);
	bool begins_turn;
	const char *about;
} verbs[] = {
	{"stop", stop, false, "end the answer in progress; what there is of it stays"},
	{"reset", session_reset, false, "forget the conversation"},
	{"undo", session_undo, false, "forget the last turn"},
	{"answer", answer, true, "answer the messages as they stand"},
	{"retry", retry, true, "make the last answer anew"},
	{"continue", go_on, true, "go on with an answer that max_tokens or stop has ended"},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

void ctl_render(const struct node *n, struct text *out)
{
	(void)n;
	for (size_t i = 0; i < VERBS; i++)
		text_format(out, "%s\t%s\n", verbs[i].name, verbs[i].about);
}

static int ctl_write(struct handle *h, const char *data, size_t size, uint64_t offset,
		     struct err *e)
{
	struct conversation *c = h->node.conversation;
	(void)offset;
	while (size && (data[size - 1] == '\n' || data[size - 1] == ' '))
		size--;
	for (size_t i = 0; i < VERBS; i++) {
		if (strlen(verbs[i].name) != size || memcmp(verbs[i].name, data, size) != 0)
			continue;
		int code = verbs[i].run(c->session, e);
		if (!code && verbs[i].begins_turn) {
			handle_began_turn(h);
			conversation_wake(c);
		}
		return code;
	}
	return err_set(e, EINVAL, "ctl: '%.*s' is not a verb; `cat ctl` lists them",
		       (int)(size < 64 ? size : 64), data);
}

const struct file_ops ctl_ops = {
	.read = live_read,
	.write = ctl_write,
};

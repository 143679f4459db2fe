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
	{"answer", answer, true,
	 "answer the messages as they stand; params may stand behind it and the "
	 "next two: retry temperature=0.8 seed=2"},
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

/* Behind a verb that begins a turn: NAME=VALUE with blanks between them, each set as if it were
 * written into params/NAME. */
static int take_param(struct session *s, const char *word, size_t size, struct err *e)
{
	const char *equals = memchr(word, '=', size);
	size_t n = equals ? (size_t)(equals - word) : 0;
	for (size_t i = 0; i < params_count() && n; i++)
		if (strlen(params_name(i)) == n && !memcmp(params_name(i), word, n))
			return session_param_set(s, i, equals + 1, size - n - 1, e);
	return err_set(e, EINVAL, "ctl: '%.*s' sets no param: retry temperature=0.8 does",
		       (int)(size < 64 ? size : 64), word);
}

static int take_params(struct session *s, const char *rest, size_t size, struct err *e)
{
	int code = 0;
	while (size && !code) {
		const char *blank = memchr(rest, ' ', size);
		size_t n = blank ? (size_t)(blank - rest) : size;
		if (n)
			code = take_param(s, rest, n, e);
		n += blank != NULL;
		rest += n;
		size -= n;
	}
	return code;
}

/* While it answers its params are those of the next turn, and no verb begins one. */
static int run_verb(struct session *s, const struct verb *v, const char *rest, size_t size,
		    struct err *e)
{
	int code = session_working(s) ? 0 : take_params(s, rest, size, e);
	return code ? code : v->run(s, e);
}

static const struct verb *find_verb(const char *data, size_t size)
{
	const char *blank = memchr(data, ' ', size);
	size_t n = blank ? (size_t)(blank - data) : size;
	for (size_t i = 0; i < VERBS; i++)
		if (strlen(verbs[i].name) == n && !memcmp(verbs[i].name, data, n) &&
		    (!blank || verbs[i].begins_turn))
			return &verbs[i];
	return NULL;
}

static int ctl_write(struct handle *h, const char *data, size_t size, uint64_t offset,
		     struct err *e)
{
	struct conversation *c = h->node.conversation;
	(void)offset;
	while (size && (data[size - 1] == '\n' || data[size - 1] == ' '))
		size--;
	const struct verb *v = find_verb(data, size);
	if (v) {
		size_t n = strlen(v->name);
		int code = run_verb(c->session, v, data + n, size - n, e);
		if (!code && v->begins_turn) {
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

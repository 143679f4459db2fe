/* ctl: verbs to a session, one a write. */
#include "fs/files/files.h"
#include "fs/files/live.h"
#include "fs/files/verbs.h"
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

static const struct session_verb {
	struct verb verb;
	int (*run)(struct session *s, struct err *e);
	bool begins_turn;
} rows[] = {
	{{"stop", NULL, "end the answer in progress; what there is of it stays"}, stop, false},
	{{"reset", NULL, "forget the conversation"}, session_reset, false},
	{{"undo", NULL, "forget the last turn"}, session_undo, false},
	{{"answer", NULL,
	  "answer the messages as they stand; behind it and the next two params may stand: retry "
	  "temperature=0.8 seed=2"},
	 answer,
	 true},
	{{"retry", NULL, "make the last answer anew"}, retry, true},
	{{"continue", NULL, "go on with an answer that max_tokens or stop has ended"}, go_on, true},
};
const struct verbs session_verbs = VERBS("ctl", rows);

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

/* A line behind the verb's: `messages JSON` or `tools JSON`, taken as if it were written into the
 * file of that name. */
static int take_text(struct session *s, const char *line, size_t size, struct err *e)
{
	static const struct {
		const char *name;
		enum session_text text;
	} texts[] = {{"messages", SESSION_MESSAGES}, {"tools", SESSION_TOOLS}};
	const char *blank = memchr(line, ' ', size);
	size_t n = blank ? (size_t)(blank - line) : size;
	for (size_t i = 0; i < sizeof texts / sizeof *texts && blank; i++)
		if (strlen(texts[i].name) == n && !memcmp(texts[i].name, line, n))
			return session_text_set(s, texts[i].text, blank + 1, size - n - 1, e);
	return err_set(e, EINVAL,
		       "ctl: a line behind the verb's is messages or tools and its JSON, all in "
		       "that line, not '%.*s'",
		       (int)(size < 64 ? size : 64), line);
}

static int take_texts(struct session *s, const char *rest, size_t size, struct err *e)
{
	int code = 0;
	while (size && !code) {
		const char *newline = memchr(rest, '\n', size);
		size_t n = newline ? (size_t)(newline - rest) : size;
		if (n)
			code = take_text(s, rest, n, e);
		n += newline != NULL;
		rest += n;
		size -= n;
	}
	return code;
}

/* While it answers its params are those of the next turn, and no verb begins one. */
static int run_verb(struct session *s, const struct session_verb *v, const char *rest, size_t size,
		    struct err *e)
{
	const char *newline = memchr(rest, '\n', size);
	size_t line = newline ? (size_t)(newline - rest) : size;
	bool takes = v->begins_turn && !session_working(s);
	int code = takes && newline ? take_texts(s, newline + 1, size - line - 1, e) : 0;
	if (!code && takes)
		code = take_params(s, rest, line, e);
	return code ? code : v->run(s, e);
}

static int ctl_write(struct handle *h, const char *data, size_t size, uint64_t offset,
		     struct err *e)
{
	enum { MOST = 64 << 10 }; /* more would keep the loop from others */
	struct conversation *c = h->node.conversation;
	(void)offset;
	if (size > MOST)
		return err_set(e, EFBIG,
			       "ctl: %zu bytes are more than a verb's %d: messages that are longer "
			       "go into messages.json",
			       size, MOST);
	while (size && (data[size - 1] == '\n' || data[size - 1] == ' '))
		size--;
	size_t n = 0;
	while (n < size && data[n] != ' ' && data[n] != '\n')
		n++;
	const struct session_verb *v = verbs_find(&session_verbs, data, n, e);
	if (!v)
		return -e->code;
	if (n < size && !v->begins_turn)
		return err_set(e, EINVAL, "ctl: nothing stands behind %s", v->verb.name);
	int code = run_verb(c->session, v, data + n, size - n, e);
	if (!code && v->begins_turn)
		handle_began_turn(h);
	if (v->begins_turn) /* texts may have been taken, whatever came then */
		conversation_wake(c);
	return code;
}

const struct file_ops ctl_ops = {
	.read = live_read,
	.write = ctl_write,
};

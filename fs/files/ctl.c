/* ctl: verbs to a session, one a write. */
#include "fs/files/files.h"
#include "fs/files/fork.h"
#include "fs/files/late.h"
#include "fs/files/live.h"
#include "fs/files/verbs.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <string.h>

enum { CHANGES_MOST = 64 }; /* twice as many as there are params */

static int stop(struct session *s, struct err *e)
{
	(void)e;
	session_stop(s);
	return 0;
}

static const struct session_verb {
	struct verb verb;
	int (*run)(struct session *s, struct err *e); /* NULL: it begins a turn, and how */
	enum session_again how;
	bool forks; /* neither: a worker copies the session */
} rows[] = {
	{{"stop", NULL, "end the answer in progress; what there is of it stays"}, .run = stop},
	{{"reset", NULL, "forget the conversation"}, .run = session_reset},
	{{"undo", NULL, "forget the last turn"}, .run = session_undo},
	{{"fork", "NAME", "copy the session to sessions/NAME, with all that is computed of it"},
	 .forks = true},
	{{"answer", NULL,
	  "answer the messages as they stand; behind it and the next two params may stand: retry "
	  "temperature=0.8 seed=2"},
	 .how = SESSION_AGAIN_ANSWER},
	{{"retry", NULL, "make the last answer anew"}, .how = SESSION_AGAIN_RETRY},
	{{"continue", NULL,
	  "go on with an answer that max_tokens or stop ended, or that "
	  "messages.json ends with"},
	 .how = SESSION_AGAIN_CONTINUE},
};
const struct verbs session_verbs = VERBS("ctl", rows);

/* What is written behind a verb that begins a turn: changes to the session, all of which are taken,
 * or none. */
struct changes {
	struct session_change of[CHANGES_MOST];
	size_t count;
};

static int add_change(struct changes *c, const struct session_change *change, struct err *e)
{
	if (c->count == CHANGES_MOST)
		return err_set(e, E2BIG, "ctl: at most %d params and texts in one write",
			       CHANGES_MOST);
	c->of[c->count++] = *change;
	return 0;
}

/* NAME=VALUE: as if it were written into params/NAME. */
static int add_param(struct changes *c, const char *word, size_t size, struct err *e)
{
	const char *equals = memchr(word, '=', size);
	size_t n = equals ? (size_t)(equals - word) : 0;
	for (size_t i = 0; i < params_count() && n; i++)
		if (strlen(params_name(i)) == n && !memcmp(params_name(i), word, n))
			return add_change(c,
					  &(struct session_change){SESSION_CHANGE_PARAM, i,
								   equals + 1, size - n - 1},
					  e);
	return err_set(e, EINVAL, "ctl: '%.*s' sets no param: retry temperature=0.8 does",
		       (int)(size < 64 ? size : 64), word);
}

/* A line behind the verb's: `messages JSON` or `tools JSON`, as if it were written into the file of
 * that name. */
static int add_line(struct changes *c, const char *line, size_t size, struct err *e)
{
	static const struct {
		const char *name;
		enum session_text text;
	} texts[] = {{"messages", SESSION_MESSAGES}, {"tools", SESSION_TOOLS}};
	const char *blank = memchr(line, ' ', size);
	size_t n = blank ? (size_t)(blank - line) : size;
	for (size_t i = 0; i < sizeof texts / sizeof *texts && blank; i++)
		if (strlen(texts[i].name) == n && !memcmp(texts[i].name, line, n))
			return add_change(c,
					  &(struct session_change){SESSION_CHANGE_TEXT,
								   texts[i].text, blank + 1,
								   size - n - 1},
					  e);
	return err_set(e, EINVAL,
		       "ctl: a line behind the verb's is messages or tools and its JSON, all in "
		       "that line, not '%.*s'",
		       (int)(size < 64 ? size : 64), line);
}

/* Each piece of a text between separators, but for empty ones. */
static int add_each(struct changes *c, char separator, const char *rest, size_t size,
		    int (*add)(struct changes *, const char *, size_t, struct err *), struct err *e)
{
	int code = 0;
	while (size && !code) {
		const char *end = memchr(rest, separator, size);
		size_t n = end ? (size_t)(end - rest) : size;
		if (n)
			code = add(c, rest, n, e);
		n += end != NULL;
		rest += n;
		size -= n;
	}
	return code;
}

/* A write, taken apart. */
struct said {
	const struct session_verb *verb;
	const char *rest; /* what stands behind the verb, without blanks at its end */
	size_t n;
};

static int take_apart(struct said *said, const char *data, size_t length, struct err *e)
{
	size_t n = 0;
	while (length && (data[length - 1] == '\n' || data[length - 1] == ' '))
		length--;
	while (n < length && data[n] != ' ' && data[n] != '\n')
		n++;
	*said = (struct said){verbs_find(&session_verbs, data, n, e), data + n, length - n};
	return said->verb ? 0 : -e->code;
}

static int read_changes(struct changes *c, const struct said *said, struct err *e)
{
	const char *newline = memchr(said->rest, '\n', said->n);
	size_t line = newline ? (size_t)(newline - said->rest) : said->n;
	int code = newline ? add_each(c, '\n', newline + 1, said->n - line - 1, add_line, e) : 0;
	return code ? code : add_each(c, ' ', said->rest, line, add_param, e);
}

static int begin_turn(struct session *s, const struct said *said, struct err *e)
{
	struct changes c = {.count = 0};
	int code = read_changes(&c, said, e);
	return code ? code : session_again_changed(s, said->verb->how, c.of, c.count, e);
}

/* ---- turns whose params take long to check are begun by a worker ---- */

static bool takes_long(const struct said *said)
{
	struct changes c = {.count = 0};
	struct err none;
	if (said->verb->run || said->verb->forks || read_changes(&c, said, &none))
		return false;
	for (size_t i = 0; i < c.count; i++)
		if (c.of[i].kind == SESSION_CHANGE_PARAM && params_takes_long(c.of[i].which))
			return true;
	return false;
}

static int take_turn(struct late_write *w, struct err *e)
{
	struct said said;
	int code = take_apart(&said, w->bytes, w->size, e);
	return code ? code : begin_turn(w->of, &said, e);
}

static void turn_began(struct handle *h)
{
	handle_began_turn(h);
	conversation_wake(h->node.conversation);
}

static void turn_taken(struct late_write *w)
{
	struct conversation *c = w->handle->node.conversation;
	if (!w->code && c->session)
		turn_began(w->handle);
	conversation_return(c);
}

static int begin_later(struct handle *h, fuse_req_t req, const char *data, size_t size,
		       struct err *e)
{
	struct conversation *c = h->node.conversation;
	const struct late_write w = {.req = req,
				     .handle = h,
				     .size = size,
				     .take = take_turn,
				     .of = conversation_borrow(c),
				     .taken = turn_taken};
	int code = late_write(&w, data, true, e);
	if (code)
		conversation_return(c);
	return code;
}

/* ---- writes ---- */

static int serve(struct handle *h, fuse_req_t req, const struct said *said, size_t size,
		 struct err *e)
{
	const struct session_verb *v = said->verb;
	struct session *s = h->node.conversation->session;
	if (v->forks)
		return fork_later(h, req, said->n ? said->rest + 1 : said->rest,
				  said->n ? said->n - 1 : 0, size, e);
	if (said->n && v->run)
		return err_set(e, EINVAL, "ctl: nothing stands behind %s", v->verb.name);
	int code = v->run ? v->run(s, e) : begin_turn(s, said, e);
	if (!code && !v->run)
		turn_began(h);
	if (!code)
		fuse_reply_write(req, size);
	return code;
}

static int ctl_write(struct handle *h, fuse_req_t req, const char *data, size_t size,
		     uint64_t offset, struct err *e)
{
	enum { MOST = 64 << 10 }; /* more would keep the loop from others */
	struct said said;
	(void)offset;
	if (size > MOST)
		return err_set(e, EFBIG,
			       "ctl: %zu bytes are more than a verb's %d: messages that are longer "
			       "go into messages.json",
			       size, MOST);
	int code = take_apart(&said, data, size, e);
	if (code)
		return code;
	return takes_long(&said) ? begin_later(h, req, data, size, e)
				 : serve(h, req, &said, size, e);
}

const struct file_ops ctl_ops = {
	.read = live_read,
	.write_later = ctl_write,
};

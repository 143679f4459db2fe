/* Verbs in general (see ctl.h), and the session's ctl: stop, reset, undo, fork, answer, retry,
 * continue. */
#include "fs/files/ctl.h"
#include "fs/base/workers.h"
#include "fs/files/files.h"
#include "fs/files/values.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	CTL_MOST_CHANGES = 64,	   /* in one write; there are fewer params and texts */
	CTL_MOST_BYTES = 64 << 10, /* of a write; a longer one would delay the loop */
	SHOWN = 64,		   /* bytes of the input that a refusal shows */
};

/* ---- verbs ---- */

const struct verb *ctl_verb_at(const struct verbs *v, size_t index)
{
	const char *rows = v->rows;
	return index < v->count ? (const struct verb *)(const void *)(rows + index * v->bytes)
				: NULL;
}

void ctl_verb_names(const struct verbs *v, struct text *out)
{
	for (size_t i = 0; i < v->count; i++)
		text_format(out, "%s%s", i ? ", " : "", ctl_verb_at(v, i)->name);
}

const void *ctl_verb_find(const struct verbs *v, const char *word, size_t n, struct err *e)
{
	struct text names = {0};
	for (size_t i = 0; i < v->count; i++) {
		const struct verb *row = ctl_verb_at(v, i);
		if (strlen(row->name) == n && !memcmp(row->name, word, n))
			return row;
	}
	ctl_verb_names(v, &names);
	text_add(&names, "", 1);
	(void)err_set(e, EINVAL, "%s: \"%.*s\" is not a verb; the verbs are %s (see `cat %s`)",
		      v->file, (int)(n < SHOWN ? n : SHOWN), word,
		      names.failed ? "others" : names.data, v->file);
	text_free(&names);
	return NULL;
}

void ctl_verbs_render(const struct node *n, struct text *out)
{
	const struct verb *row;
	for (size_t i = 0; (row = ctl_verb_at(n->row->verbs, i)); i++)
		text_format(out, "%s%s%s\t%s\n", row->name, row->takes ? " " : "",
			    row->takes ? row->takes : "", row->about);
}

/* ---- the session's verbs ---- */

static int ctl_stop(struct session *s, struct err *e)
{
	(void)e;
	session_stop(s);
	return 0;
}

static const struct session_verb {
	struct verb verb;
	int (*run)(struct session *s, struct err *e); /* NULL: the verb begins a turn, or forks */
	enum session_again how;			      /* the kind of turn that it begins */
	bool forks;
} session_verb_rows[] = {
	{{"stop", NULL, "end the answer in progress; the text so far is kept"}, .run = ctl_stop},
	{{"reset", NULL, "forget the conversation"}, .run = session_reset},
	{{"undo", NULL, "forget the last turn"}, .run = session_undo},
	{{"fork", "NAME", "copy the session to sessions/NAME, with its computed context"},
	 .forks = true},
	{{"answer", NULL,
	  "answer the messages as they are; this verb and the next two also take params: retry "
	  "temperature=0.8 seed=2"},
	 .how = SESSION_AGAIN_ANSWER},
	{{"retry", NULL, "generate the last answer again"}, .how = SESSION_AGAIN_RETRY},
	{{"continue", NULL,
	  "continue an answer that max_tokens, stop or stop_repetition ended, or that "
	  "messages.json "
	  "ends with"},
	 .how = SESSION_AGAIN_CONTINUE},
};
const struct verbs session_verbs = VERBS("ctl", session_verb_rows);

/* A parsed write. */
struct ctl_command {
	const struct session_verb *verb;
	const char *rest; /* the text after the verb, without blanks at its end */
	size_t n;
};

static int ctl_parse(struct ctl_command *command, const char *data, size_t length, struct err *e)
{
	size_t n = 0;
	while (length && (data[length - 1] == '\n' || data[length - 1] == ' '))
		length--;
	while (n < length && data[n] != ' ' && data[n] != '\n')
		n++;
	*command = (struct ctl_command){ctl_verb_find(&session_verbs, data, n, e), data + n,
					length - n};
	return command->verb ? 0 : -e->code;
}

/* ---- changes before a turn ---- */

/* Params and texts after the verb. Either all of them are applied, or none. */
struct ctl_changes {
	struct session_change of[CTL_MOST_CHANGES];
	size_t count;
};

static int ctl_add_change(struct ctl_changes *c, const struct session_change *change, struct err *e)
{
	if (c->count == CTL_MOST_CHANGES)
		return err_set(e, E2BIG, "ctl: one write can set at most %d params and texts",
			       CTL_MOST_CHANGES);
	c->of[c->count++] = *change;
	return 0;
}

/* NAME=VALUE: like writing the value into params/NAME. */
static int ctl_add_param(struct ctl_changes *c, const char *word, size_t size, struct err *e)
{
	const char *equals = memchr(word, '=', size);
	size_t n = equals ? (size_t)(equals - word) : 0;
	for (size_t i = 0; i < params_count() && n; i++)
		if (strlen(params_name(i)) == n && !memcmp(params_name(i), word, n))
			return ctl_add_change(c,
					      &(struct session_change){SESSION_CHANGE_PARAM, i,
								       equals + 1, size - n - 1},
					      e);
	return err_set(e, EINVAL,
		       "ctl: \"%.*s\" is not a param with its value, as in: retry temperature=0.8",
		       (int)(size < SHOWN ? size : SHOWN), word);
}

/* A line after the verb's line: `messages JSON` or `tools JSON`, like writing the JSON into the
 * file of that name. */
static int ctl_add_text(struct ctl_changes *c, const char *line, size_t size, struct err *e)
{
	static const struct {
		const char *name;
		enum session_text text;
	} texts[] = {{"messages", SESSION_MESSAGES}, {"tools", SESSION_TOOLS}};
	const char *blank = memchr(line, ' ', size);
	size_t n = blank ? (size_t)(blank - line) : size;
	for (size_t i = 0; i < sizeof texts / sizeof *texts && blank; i++)
		if (strlen(texts[i].name) == n && !memcmp(texts[i].name, line, n))
			return ctl_add_change(c,
					      &(struct session_change){SESSION_CHANGE_TEXT,
								       texts[i].text, blank + 1,
								       size - n - 1},
					      e);
	return err_set(e, EINVAL,
		       "ctl: a line after the verb's is `messages JSON` or `tools JSON`, with the "
		       "JSON in one line, not \"%.*s\"",
		       (int)(size < SHOWN ? size : SHOWN), line);
}

/* Adds each nonempty piece of a text between separators. */
static int ctl_add_each(struct ctl_changes *c, char separator, const char *rest, size_t size,
			int (*add)(struct ctl_changes *, const char *, size_t, struct err *),
			struct err *e)
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

static int ctl_read_changes(struct ctl_changes *c, const struct ctl_command *command, struct err *e)
{
	const char *newline = memchr(command->rest, '\n', command->n);
	size_t line = newline ? (size_t)(newline - command->rest) : command->n;
	int code =
		newline ? ctl_add_each(c, '\n', newline + 1, command->n - line - 1, ctl_add_text, e)
			: 0;
	return code ? code : ctl_add_each(c, ' ', command->rest, line, ctl_add_param, e);
}

static int ctl_begin_turn(struct session *s, const struct ctl_command *command, struct err *e)
{
	struct ctl_changes c = {.count = 0};
	int code = ctl_read_changes(&c, command, e);
	return code ? code : session_again_changed(s, command->verb->how, c.of, c.count, e);
}

static void ctl_turn_began(struct handle *h)
{
	handle_began_turn(h);
	conversation_wake(h->node.conversation);
}

/* ---- turns that a worker begins, since checking one of their params takes long ---- */

static bool ctl_takes_long(const struct ctl_command *command)
{
	struct ctl_changes c = {.count = 0};
	struct err none;
	if (command->verb->run || command->verb->forks || ctl_read_changes(&c, command, &none))
		return false;
	for (size_t i = 0; i < c.count; i++)
		if (c.of[i].kind == SESSION_CHANGE_PARAM && params_takes_long(c.of[i].which))
			return true;
	return false;
}

static int ctl_turn_take(struct deferred_write *w, struct err *e)
{
	struct ctl_command command;
	int code = ctl_parse(&command, w->bytes, w->size, e);
	return code ? code : ctl_begin_turn(w->of, &command, e);
}

static void ctl_turn_taken(struct deferred_write *w)
{
	struct conversation *c = w->handle->node.conversation;
	if (!w->code && c->session)
		ctl_turn_began(w->handle);
	conversation_return(c);
}

static int ctl_begin_turn_deferred(struct handle *h, fuse_req_t req, const char *data, size_t size,
				   struct err *e)
{
	struct conversation *c = h->node.conversation;
	const struct deferred_write w = {.req = req,
					 .handle = h,
					 .size = size,
					 .take = ctl_turn_take,
					 .of = conversation_borrow(c),
					 .taken = ctl_turn_taken};
	int code = value_write_deferred(&w, data, true, e);
	if (code)
		conversation_return(c);
	return code;
}

/* ---- fork NAME: like `mkdir sessions/NAME; cp state sessions/NAME/state`, in one write ----
 *
 * The session is saved as it is now. A worker makes another session from it, which shares the
 * computed context: unlike `cp state`, a fork needs no room in the context budget. The copy is put
 * into the tree only when it is complete. */

struct forking {
	struct job job;
	fuse_req_t req;
	struct handle *handle; /* released after the answer */
	size_t size;	       /* of the write */
	char name[NAME_SIZE];
	uid_t uid;
	gid_t gid;
	struct saved *saved;
	struct restored *restored;
	int code;
	struct err why;
	bool shares; /* of the original, when it was saved */
};

static void ctl_fork_work(struct job *job)
{
	struct forking *f = LINK_OWNER(job, struct forking, job);
	f->code = restored_begin(f->handle->node.model->model, &f->restored, &f->why);
	if (!f->code)
		f->code = restored_from_saved(f->restored, f->saved, &f->why);
	saved_close(f->saved);
	f->saved = NULL;
}

static int ctl_fork_enter(struct forking *f)
{
	struct conversation *made;
	if (f->handle->gone)
		return err_set(&f->why, EIO, "the mount has ended");
	int code =
		conversation_make(f->handle->node.model, f->name, f->uid, f->gid, &made, &f->why);
	if (code)
		return code;
	code = session_restore(made->session, f->restored, &f->why);
	if (code) {
		conversation_remove(made);
		return code;
	}
	session_share_like(made->session, f->handle->node.conversation->session, f->shares);
	conversation_wake(made);
	mount_note_change(made);
	return code;
}

static void ctl_fork_finish(struct job *job)
{
	struct forking *f = LINK_OWNER(job, struct forking, job);
	const struct node *n = &f->handle->node;
	f->handle->deferred--;
	if (!f->code)
		f->code = ctl_fork_enter(f);
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

static int ctl_fork_check_name(const struct mounted *model, const char *name, struct err *e)
{
	if (!*name)
		return err_set(e, EINVAL, "ctl: fork needs a name for the copy: fork NAME");
	if (strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
		return err_set(e, EINVAL, "ctl: a session cannot be called \"%.64s\"", name);
	if (conversations_by_name(model, name))
		return err_set(e, EEXIST, "%s/sessions/%s exists already", model->name, name);
	return conversation_check_name(model, "sessions", name, e);
}

/* Answers the write of `size` bytes when the copy exists; the copy belongs to the writer. -EINVAL
 * and -ENAMETOOLONG concern name[n]; -EEXIST; -EBUSY: during a turn; -ENOMEM. */
static int ctl_fork(struct handle *h, fuse_req_t req, const char *name, size_t n, size_t size,
		    struct err *e)
{
	if (n >= NAME_SIZE)
		return err_set(e, ENAMETOOLONG, "a session's name has 1 to %d bytes",
			       NAME_SIZE - 1);
	if (memchr(name, 0, n))
		return err_set(e, EINVAL, "ctl: a session's name cannot contain a zero byte");
	struct forking *f = calloc(1, sizeof *f);
	if (!f)
		return err_set(e, ENOMEM, "no memory to copy a session");
	f->job = (struct job){.slow = true, .work = ctl_fork_work, .finish = ctl_fork_finish};
	f->req = req;
	f->handle = h;
	f->size = size;
	f->uid = fuse_req_ctx(req)->uid;
	f->gid = fuse_req_ctx(req)->gid;
	memcpy(f->name, name, n);
	f->shares = session_shares(h->node.conversation->session);
	int code = ctl_fork_check_name(h->node.model, f->name, e);
	if (!code)
		code = session_save(h->node.conversation->session, &f->saved, e);
	if (code) {
		free(f);
		return code;
	}
	h->deferred++;
	workers_run(h->node.mount->workers, &f->job);
	return 0;
}

/* ---- the file ---- */

static int ctl_write(struct handle *h, fuse_req_t req, const char *data, size_t size,
		     uint64_t offset, struct err *e)
{
	struct ctl_command command;
	(void)offset;
	if (size > CTL_MOST_BYTES)
		return err_set(e, EFBIG,
			       "ctl: a write has at most %d bytes, not %zu; write long messages "
			       "into messages.json",
			       CTL_MOST_BYTES, size);
	int code = ctl_parse(&command, data, size, e);
	if (code)
		return code;
	if (ctl_takes_long(&command))
		return ctl_begin_turn_deferred(h, req, data, size, e);
	const struct session_verb *v = command.verb;
	if (v->forks)
		return ctl_fork(h, req, command.n ? command.rest + 1 : command.rest,
				command.n ? command.n - 1 : 0, size, e);
	if (command.n && v->run)
		return err_set(e, EINVAL, "ctl: %s takes no arguments", v->verb.name);
	struct session *s = h->node.conversation->session;
	code = v->run ? v->run(s, e) : ctl_begin_turn(s, &command, e);
	if (code)
		return code;
	if (!v->run)
		ctl_turn_began(h);
	fuse_reply_write(req, size);
	return 0;
}

const struct file_ops ctl_ops = {
	.read = value_read,
	.write_later = ctl_write,
};

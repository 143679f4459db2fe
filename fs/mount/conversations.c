/* Conversations: an engine's session with its name, owner and lifetime in the tree; finding
 * conversations; and the requests that wait for them. Refused prompts are in refusals.c, names in
 * ask.d in asks.c.
 *
 * A model's sessions are in two arrays: by ascending id, which is also the order of creation, and
 * by name. Both are searched by bisection, since each request looks for an id and each lookup for a
 * name. */
#include "cache/clock.h"
#include "fs/base/daemon_log.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- logging turns ---- */

/* "sessions/", "ask.d/", or nothing for a question's conversation, which is in no folder. */
static const char *conversation_folder(const struct conversation *c)
{
	return c->passing ? "ask.d/" : c->id ? "sessions/" : "";
}

static double conversation_rate(uint64_t tokens, double seconds)
{
	return seconds > 0 ? (double)tokens / seconds : 0;
}

/* With -v, logs a line for a turn that has ended: its size, its speed, and how many experts were in
 * memory. Never its text. */
static void conversation_log_turn(struct conversation *c)
{
	char line[1024], when[sizeof "18:07:13"] = "";
	struct session_stats s;
	struct tm local;
	time_t now = time(NULL);
	if (!c->model->mount->verbose || session_working(c->session))
		return;
	/* Compare addresses: the logged answer is not freed before the next. */
	struct answer *newest = session_answer(c->session);
	if (newest == c->logged) {
		answer_unref(newest);
		return;
	}
	answer_unref(c->logged);
	c->logged = newest;
	session_stats(c->session, &s);
	if (!newest || !*s.finish)
		return;
	if (localtime_r(&now, &local))
		(void)strftime(when, sizeof when, "%T", &local);
	(void)snprintf(line, sizeof line,
		       "%s %s/%s%s: %" PRIu64 " tokens in (%" PRIu64 " cached), %" PRIu64
		       " out, %.1f and %.1f tokens/s, %" PRIu64 " hits, %" PRIu64 " misses, %s",
		       when, c->model->name, conversation_folder(c), c->name, s.prompt_tokens,
		       s.cached_tokens, s.output_tokens,
		       conversation_rate(s.prompt_tokens - s.cached_tokens, s.prefill_seconds),
		       conversation_rate(s.output_tokens, s.decode_seconds), s.expert_hits,
		       s.expert_misses, s.finish);
	daemon_log_say(c->model->mount->log, line);
}

static void conversation_log_failure(struct conversation *c)
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
	err_because(&e, &why, EIO, "%s/%s%s: %s", c->model->name, conversation_folder(c), c->name,
		    why.text);
	failure_of_user(c->model->mount, c->uid, &e);
	/* The reason may quote the user's text, so the log must not have it. */
	err_set(&e, EIO, "%s/%s%s: a turn failed; the file error beside its prompt has the reason",
		c->model->name, conversation_folder(c), c->name);
	daemon_log_say(c->model->mount->log, e.text);
}

/* ---- news ---- */

void conversation_wake(struct conversation *c)
{
	struct mount *m = c->model->mount;
	calls_wake(m, &c->for_text);
	if (!c->session || !session_working(c->session)) {
		calls_wake(m, &c->for_turn);
		pollers_wake(m, &c->turn_pollers);
		pollers_trace_wake(c->model);
	}
	pollers_wake(m, &c->pollers);
}

static void conversation_on_news(struct post *p)
{
	struct conversation *c = LINK_OWNER(p, struct conversation, news);
	if (!c->session) /* it has ended, but a worker still borrows it */
		return;
	c->used = clock_ns();
	clock_gettime(CLOCK_REALTIME, &c->changed);
	conversation_log_failure(c);
	conversation_log_turn(c);
	conversation_wake(c);
	mount_note_change(c);
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
	struct link *const links[] = {&c->for_text, &c->for_turn,     &c->for_release,
				      &c->pollers,  &c->turn_pollers, &c->writing,
				      &c->refusals, &c->in_asks,      &c->in_nameless};
	for (size_t i = 0; i < sizeof links / sizeof *links; i++)
		list_init(links[i]);
	post_init(&c->news, conversation_on_news);
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
	free(c->kept);
	answer_unref(c->logged);
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

/* ---- prompts being written ---- */

bool conversation_closing(const struct conversation *c)
{
	return c->relayed || c->passed_on || c->taking || (c->writer && c->writer->flushed);
}

unsigned conversation_closing_ms(const struct conversation *c)
{
	return c->relayed || c->taking ? RELAY_WAIT_MS : RELEASE_WAIT_MS;
}

struct conversation *conversations_closing(const struct mounted *model)
{
	for (struct link *l = model->writing.next; l != &model->writing; l = l->next) {
		struct conversation *c = LINK_OWNER(l, struct conversation, writing);
		if (conversation_closing(c))
			return c;
	}
	return NULL;
}

void conversation_set_writer(struct conversation *c, struct handle *writer)
{
	c->writer = writer;
	list_remove(&c->writing);
	if (writer)
		list_append(&c->model->writing, &c->writing);
}

/* ---- by id and by name ---- */

/* The first place among `count` sessions, sorted by name (or by id if `name` is NULL), that does
 * not sort before this name or id. */
static size_t conversations_place(struct conversation *const *sorted, size_t count, uint32_t id,
				  const char *name)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct conversation *c = sorted[middle];
		if (name ? strcmp(c->name, name) < 0 : c->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct conversation *conversations_by_id(const struct mounted *model, uint32_t id)
{
	size_t place = conversations_place(model->sessions, model->session_count, id, NULL);
	if (place < model->session_count && model->sessions[place]->id == id)
		return model->sessions[place];
	for (struct link *l = model->asks.next; l != &model->asks; l = l->next)
		if (LINK_OWNER(l, struct conversation, in_asks)->id == id)
			return LINK_OWNER(l, struct conversation, in_asks);
	/* A process that has such a session open still asks for its attributes. */
	for (struct link *l = model->nameless.next; l != &model->nameless; l = l->next)
		if (LINK_OWNER(l, struct conversation, in_nameless)->id == id)
			return LINK_OWNER(l, struct conversation, in_nameless);
	return NULL;
}

struct conversation *conversations_after(const struct mounted *model, uint32_t id)
{
	size_t place = id == UINT32_MAX ? model->session_count
					: conversations_place(model->sessions, model->session_count,
							      id + 1, NULL);
	return place == model->session_count ? NULL : model->sessions[place];
}

struct conversation *conversations_by_name(const struct mounted *model, const char *name)
{
	size_t place = conversations_place(model->named, model->session_count, 0, name);
	if (place == model->session_count || strcmp(model->named[place]->name, name) != 0)
		return NULL;
	return model->named[place];
}

static int conversations_grow(struct conversation ***array, size_t capacity, struct err *e)
{
	struct conversation **grown = reallocarray(*array, capacity, sizeof(struct conversation *));
	if (!grown)
		return err_set(e, ENOMEM, "no memory for a session");
	*array = grown;
	return 0;
}

/* Makes room for one more session. */
static int conversations_reserve(struct mounted *model, struct err *e)
{
	if (model->session_count == SESSIONS_MAX || model->next_id == UINT32_MAX)
		return err_set(e, ENOSPC,
			       "%s has %d sessions, which is the limit: remove one first",
			       model->name, SESSIONS_MAX);
	if (model->session_count < model->session_capacity)
		return 0;
	size_t capacity = model->session_capacity ? 2 * model->session_capacity : 8;
	int code = conversations_grow(&model->sessions, capacity, e);
	if (!code)
		code = conversations_grow(&model->named, capacity, e);
	if (!code)
		model->session_capacity = capacity;
	return code;
}

/* Inserts c into `named`, which has `count` others. */
static void conversations_insert_name(struct conversation *c, size_t count)
{
	struct conversation **named = c->model->named;
	size_t place = conversations_place(named, count, 0, c->name);
	memmove(&named[place + 1], &named[place], (count - place) * sizeof(struct conversation *));
	named[place] = c;
}

static void conversations_take_out(struct conversation **array, size_t place, size_t count)
{
	memmove(&array[place], &array[place + 1], (count - place - 1) * sizeof *array);
}

/* ---- creating, renaming, removing ---- */

int conversation_check_name(const struct mounted *model, const char *folder, const char *name,
			    struct err *e)
{
	size_t length = strlen(name);
	if (length == 0 || length >= NAME_SIZE)
		return err_set(e, ENAMETOOLONG, "a session's name has 1 to %d bytes",
			       NAME_SIZE - 1);
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
			return err_set(e, EINVAL,
				       "%s/%s/%s: a session's name has no control characters",
				       model->name, folder, name);
	return 0;
}

static int conversation_check_new_name(const struct mounted *model, const char *name, struct err *e)
{
	if (conversations_by_name(model, name))
		return err_set(e, EEXIST, "%s/sessions/%s exists", model->name, name);
	return conversation_check_name(model, "sessions", name, e);
}

int conversation_make(struct mounted *model, const char *name, uid_t uid, gid_t gid,
		      struct conversation **out, struct err *e)
{
	struct conversation *c;
	int code = conversation_check_new_name(model, name, e);
	if (!code)
		code = conversations_reserve(model, e);
	if (!code)
		code = conversation_create(model, name, uid, gid, &c, e);
	if (code)
		return code;
	c->id = ++model->next_id;
	session_name(c->session, uid, name);
	conversations_insert_name(c, model->session_count);
	model->sessions[model->session_count++] = c;
	if (out)
		*out = c;
	return 0;
}

int conversation_make_private(struct mounted *model, uid_t uid, const char *name,
			      struct conversation **out, struct err *e)
{
	int code = conversation_create(model, name, uid, 0, out, e);
	if (code)
		return code;
	char numbered[NAME_SIZE + 32];
	(void)snprintf(numbered, sizeof numbered, "%s/%" PRIu64, name, ++model->private_count);
	session_name((*out)->session, uid, numbered);
	return 0;
}

int conversation_rename(struct conversation *c, const char *name, struct err *e)
{
	struct mounted *model = c->model;
	size_t count = model->session_count;
	int code = conversation_check_new_name(model, name, e);
	if (code)
		return code;
	conversations_take_out(model->named, conversations_place(model->named, count, 0, c->name),
			       count);
	(void)snprintf(c->name, sizeof c->name, "%s", name);
	conversations_insert_name(c, count - 1);
	session_name(c->session, c->uid, name);
	if (c->kept)
		mount_note_change(c);
	return 0;
}

bool conversation_is_default(const struct conversation *c)
{
	return c->model->session_count && c->model->sessions[0] == c;
}

void conversation_remove(struct conversation *c)
{
	struct mounted *model = c->model;
	size_t count = model->session_count;
	conversations_take_out(
		model->sessions,
		conversations_place(model->sessions, model->session_count, c->id, NULL), count);
	conversations_take_out(model->named, conversations_place(model->named, count, 0, c->name),
			       count);
	model->session_count--;
	conversation_end(c);
	conversation_unref(c);
}

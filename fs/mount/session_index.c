/* A model's sessions in two arrays: by ascending number, which is also the order of their making,
 * and by name. Both are searched by halves: each request looks for a number, each lookup for a
 * name. The few names in ask.d are lists. */
#include "fs/mount/mount.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int grow(struct conversation ***array, size_t capacity, struct err *e)
{
	struct conversation **grown = reallocarray(*array, capacity, sizeof(struct conversation *));
	if (!grown)
		return err_set(e, ENOMEM, "no memory for a session");
	*array = grown;
	return 0;
}

int sessions_make_room(struct mounted *model, struct err *e)
{
	if (model->session_count == SESSIONS_MAX || model->next_id == UINT32_MAX)
		return err_set(e, ENOSPC, "%s has %d sessions: remove one first", model->name,
			       SESSIONS_MAX);
	if (model->session_count < model->session_capacity)
		return 0;
	size_t capacity = model->session_capacity ? 2 * model->session_capacity : 8;
	int code = grow(&model->sessions, capacity, e);
	if (!code)
		code = grow(&model->named, capacity, e);
	if (!code)
		model->session_capacity = capacity;
	return code;
}

/* The first place in `sessions` that has at least this number. */
static size_t place_of(const struct mounted *model, uint32_t id)
{
	size_t low = 0, high = model->session_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (model->sessions[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The first place of the first `count` in `named` that has this name or one behind it. */
static size_t place_of_name(const struct mounted *model, size_t count, const char *name)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(model->named[middle]->name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void take_out(struct conversation **array, size_t place, size_t count)
{
	memmove(&array[place], &array[place + 1], (count - place - 1) * sizeof *array);
}

/* Into `named`, which has `count` others. */
static void enter_name(struct conversation *c, size_t count)
{
	struct conversation **named = c->model->named;
	size_t place = place_of_name(c->model, count, c->name);
	memmove(&named[place + 1], &named[place], (count - place) * sizeof(struct conversation *));
	named[place] = c;
}

void sessions_enter(struct conversation *c)
{
	struct mounted *model = c->model;
	enter_name(c, model->session_count);
	model->sessions[model->session_count++] = c;
}

void sessions_enter_renamed(struct conversation *c, const char *name)
{
	struct mounted *model = c->model;
	size_t count = model->session_count;
	take_out(model->named, place_of_name(model, count, c->name), count);
	(void)snprintf(c->name, sizeof c->name, "%s", name);
	enter_name(c, count - 1);
}

void sessions_leave(struct conversation *c)
{
	struct mounted *model = c->model;
	size_t count = model->session_count;
	take_out(model->sessions, place_of(model, c->id), count);
	take_out(model->named, place_of_name(model, count, c->name), count);
	model->session_count--;
}

struct conversation *sessions_by_id(const struct mounted *model, uint32_t id)
{
	size_t place = place_of(model, id);
	if (place < model->session_count && model->sessions[place]->id == id)
		return model->sessions[place];
	for (struct link *l = model->asks.next; l != &model->asks; l = l->next)
		if (LINK_OWNER(l, struct conversation, in_asks)->id == id)
			return LINK_OWNER(l, struct conversation, in_asks);
	/* Who has one open whose name is gone still asks for its attributes. */
	for (struct link *l = model->nameless.next; l != &model->nameless; l = l->next)
		if (LINK_OWNER(l, struct conversation, in_nameless)->id == id)
			return LINK_OWNER(l, struct conversation, in_nameless);
	return NULL;
}

struct conversation *sessions_after(const struct mounted *model, uint32_t id)
{
	size_t place = id == UINT32_MAX ? model->session_count : place_of(model, id + 1);
	return place == model->session_count ? NULL : model->sessions[place];
}

struct conversation *sessions_by_name(const struct mounted *model, const char *name)
{
	size_t place = place_of_name(model, model->session_count, name);
	if (place == model->session_count || strcmp(model->named[place]->name, name) != 0)
		return NULL;
	return model->named[place];
}

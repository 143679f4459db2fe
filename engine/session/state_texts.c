/* The records of a state, each a name and bytes: the parts (state_parts.c), and the params as text.
 */
#include "engine/model/model_state.h"
#include "engine/session/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char param_folder[] = "params/";

/* ---- writing ---- */

static void state_record(struct text_out *out, const char *folder, const char *name,
			 const char *bytes, size_t n)
{
	struct state_record r = {.bytes = n};
	(void)snprintf(r.name, sizeof r.name, "%s%s", folder, name);
	text_out_add(out, (const char *)&r, sizeof r);
	text_out_add(out, bytes, n);
}

static void state_put_param(const struct session *s, size_t i, struct text_out *out)
{
	struct text_out line = {0};
	char *value = params_get_unresolved(&s->params, i);
	text_out_string(&line, value ? value : "");
	text_out_string(&line, "\n");
	state_record(out, param_folder, params_name(i), line.bytes, line.n);
	out->failed |= !value || line.failed;
	text_out_free(&line);
	free(value);
}

static void state_put_part(const struct session *s, const struct state_part *p,
			   struct text_out *out)
{
	struct text_out bytes = {.counts = out->counts};
	p->put(s, &bytes);
	if (bytes.n)
		state_record(out, "", p->name, bytes.bytes, bytes.n);
	out->failed |= bytes.failed;
	text_out_free(&bytes);
}

void state_texts_write(const struct session *s, struct text_out *out)
{
	for (size_t i = 0; i < state_part_count; i++)
		state_put_part(s, &state_parts[i], out);
	const size_t share_with = params_find("share_with"); /* a file must not decide this */
	for (size_t i = 0; i < params_count(); i++)
		if (i != share_with)
			state_put_param(s, i, out);
}

/* ---- reading ---- */

static int state_take_param(struct session *to, const char *name, const char *bytes, size_t n,
			    struct err *e)
{
	size_t i = params_find(name);
	if (i == params_count())
		return err_set(e, EINVAL, "params/%s is not a param of this version of moefs",
			       name);
	if (params_is_auto(i, bytes, n))
		return params_reset(&to->params, i, &to->model->id.config, e);
	return params_set(&to->params, i, bytes, n, e);
}

static int state_take(struct session *to, const char *name, const char *bytes, size_t n,
		      struct err *e)
{
	if (!strncmp(name, param_folder, strlen(param_folder)))
		return state_take_param(to, name + strlen(param_folder), bytes, n, e);
	for (size_t i = 0; i < state_part_count; i++)
		if (!strcmp(state_parts[i].name, name))
			return state_parts[i].take(to, bytes, n, e);
	return err_set(e, EINVAL, "it has a part \"%s\" that this version of moefs does not know",
		       name);
}

/* Checks parts against each other: undo marks must be within the messages and the log. Sets
 * params/system from the system message. */
static int state_agree(struct session *to, struct err *e)
{
	char *system;
	size_t before = 0;
	for (size_t i = 0; i < to->undo_count; i++) {
		const struct undo_mark *m = &to->undo[i];
		if (m->messages < before || m->messages > to->dialogue.messages.count ||
		    m->log > m->answer_log || m->answer_log > to->log_size)
			return err_set(e, EINVAL, "it undoes more turns than it has");
		before = m->messages;
	}
	int failed = dialogue_system(&to->dialogue.messages, &system, e);
	if (failed)
		return failed;
	free(to->params.system);
	to->params.system = system;
	if (to->answer) {
		answer_finish(to->answer, 0);
		to->status = SESSION_DONE;
	}
	return 0;
}

int state_texts_read(struct session *to, const char *texts, size_t n, struct err *e)
{
	int failed = params_default(&to->params, &to->model->id.config, e);
	to->params.model_drafts = atomic_load(&to->model->id.drafts);
	while (n && !failed) {
		struct state_record r;
		if (n < sizeof r)
			return err_set(e, EINVAL, "its texts are cut short");
		memcpy(&r, texts, sizeof r);
		if (r.name[sizeof r.name - 1] || r.bytes > n - sizeof r)
			return err_set(e, EINVAL, "its texts are cut short");
		failed = state_take(to, r.name, texts + sizeof r, r.bytes, e);
		texts += sizeof r + r.bytes;
		n -= sizeof r + r.bytes;
	}
	return failed ? failed : state_agree(to, e);
}

#define SWAP(field)                              \
	do {                                     \
		__auto_type other_ = (b->field); \
		b->field = a->field;             \
		a->field = other_;               \
	} while (0)

void state_texts_swap(struct session *a, struct session *b)
{
	SWAP(params);
	SWAP(dialogue);
	SWAP(prompt);
	SWAP(prompt_length);
	SWAP(answer);
	SWAP(chosen);
	SWAP(status);
	SWAP(tail);
	SWAP(log);
	SWAP(log_size);
	SWAP(log_room);
	SWAP(undo);
	SWAP(undo_count);
	SWAP(undo_room);
}

void state_texts_free(struct session *other)
{
	params_free(&other->params);
	dialogue_free(&other->dialogue);
	token_list_free(&other->tail);
	answer_unref(other->answer);
	free(other->prompt);
	free(other->chosen);
	free(other->log);
	free(other->undo);
}

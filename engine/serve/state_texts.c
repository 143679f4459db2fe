/* What a state holds beside the computed context: records, each a name and bytes. ONE TABLE is what
 * there are; params are records of their own, in the words in which they are written. What is empty
 * has no record. */
#include "engine/serve/internal.h"
#include "engine/serve/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- plain bytes ---- */

static int take_bytes(char **to, size_t *length, const char *bytes, size_t n, struct err *e)
{
	char *copy = malloc(n + 1);
	if (!copy)
		return err_set(e, ENOMEM, "out of memory for a session");
	if (n)
		memcpy(copy, bytes, n);
	copy[n] = 0;
	free(*to);
	*to = copy;
	*length = n;
	return 0;
}

static void put_prompt(const struct session *s, struct text_out *out)
{
	text_out_add(out, s->prompt, s->prompt_length);
}

static int take_prompt(struct session *to, const char *bytes, size_t n, struct err *e)
{
	return take_bytes(&to->prompt, &to->prompt_length, bytes, n, e);
}

static void put_log(const struct session *s, struct text_out *out)
{
	text_out_add(out, s->log, s->log_size);
}

static int take_log(struct session *to, const char *bytes, size_t n, struct err *e)
{
	int failed = take_bytes(&to->log, &to->log_size, bytes, n, e);
	to->log_room = to->log_size;
	return failed;
}

static void put_tail(const struct session *s, struct text_out *out)
{
	text_out_add(out, (const char *)s->tail.ids, s->tail.count * sizeof *s->tail.ids);
}

static int take_tail(struct session *to, const char *bytes, size_t n, struct err *e)
{
	to->tail.count = 0;
	for (uint32_t id; n >= sizeof id; bytes += sizeof id, n -= sizeof id) {
		memcpy(&id, bytes, sizeof id);
		if (id >= to->model->id.config.vocabulary)
			return err_set(e, EINVAL, "it has token %u, which the model has not", id);
		int failed = token_list_append(&to->tail, &id, 1, e);
		if (failed)
			return failed;
	}
	return 0;
}

/* ---- the last answer ---- */

static void put_answer(struct answer *a, struct text_out *out)
{
	char piece[4096];
	bool complete;
	ssize_t n;
	for (uint64_t at = 0; a && (n = answer_read(a, at, piece, sizeof piece, &complete)) > 0;
	     at += (uint64_t)n)
		text_out_add(out, piece, (size_t)n);
}

static void put_output(const struct session *s, struct text_out *out)
{
	put_answer(s->answer, out);
}

static void put_thoughts(const struct session *s, struct text_out *out)
{
	struct answer *thoughts = s->answer ? answer_thoughts(s->answer) : NULL;
	put_answer(thoughts, out);
	answer_unref(thoughts);
}

static int begin_answer(struct session *to, struct err *e)
{
	if (!to->answer)
		to->answer = answer_create(true);
	return to->answer ? 0 : err_set(e, ENOMEM, "out of memory for an answer");
}

static int take_output(struct session *to, const char *bytes, size_t n, struct err *e)
{
	int failed = begin_answer(to, e);
	if (!failed && answer_append(to->answer, bytes, n) < 0)
		failed = err_set(e, ENOMEM, "out of memory for an answer");
	return failed;
}

static int take_thoughts(struct session *to, const char *bytes, size_t n, struct err *e)
{
	int failed = begin_answer(to, e);
	if (!failed && answer_think(to->answer, bytes, n))
		failed = err_set(e, ENOMEM, "out of memory for an answer");
	return failed;
}

/* ---- the conversation ---- */

static void put_messages(const struct session *s, struct text_out *out)
{
	if (s->conversation.messages.count)
		messages_write(&s->conversation.messages, out);
}

static int take_messages(struct session *to, const char *bytes, size_t n, struct err *e)
{
	return messages_read(&to->conversation.messages, bytes, n, e);
}

static void put_results(const struct session *s, struct text_out *out)
{
	if (s->conversation.results.count)
		messages_write(&s->conversation.results, out);
}

static int take_results(struct session *to, const char *bytes, size_t n, struct err *e)
{
	return messages_read(&to->conversation.results, bytes, n, e);
}

static void put_tools(const struct session *s, struct text_out *out)
{
	text_out_add(out, s->conversation.tools.text, s->conversation.tools.n);
}

static int take_tools(struct session *to, const char *bytes, size_t n, struct err *e)
{
	return conversation_set_tools(&to->conversation, bytes, n, e);
}

static void put_variables(const struct session *s, struct text_out *out)
{
	text_out_add(out, s->conversation.variables.text, s->conversation.variables.n);
}

static int take_variables(struct session *to, const char *bytes, size_t n, struct err *e)
{
	return conversation_set_variables(&to->conversation, bytes, n, e);
}

/* As it is written where it was: "2026-11-22 15:00:13 +0100". */
static const char clock_form[] = "%Y-%m-%d %H:%M:%S %z";

static void put_clock(const struct session *s, struct text_out *out)
{
	char text[64];
	size_t n = strftime(text, sizeof text, clock_form, &s->conversation.clock);
	if (s->conversation.clock_set)
		text_out_add(out, text, n);
}

/* What a zone is called is known of this machine's alone. */
static int take_clock(struct session *to, const char *bytes, size_t n, struct err *e)
{
	char text[64];
	struct tm clock = {0}, here;
	(void)snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : 0), bytes);
	const char *end = strptime(text, clock_form, &clock);
	if (!end || *end)
		return err_set(e, EINVAL, "its clock is none");
	struct tm utc = clock;
	time_t then = timegm(&utc) - clock.tm_gmtoff;
	bool known = localtime_r(&then, &here) && here.tm_gmtoff == clock.tm_gmtoff;
	clock.tm_zone = "";
	to->conversation.clock = known ? here : clock;
	to->conversation.clock_set = true;
	return 0;
}

static void put_undo(const struct session *s, struct text_out *out)
{
	for (size_t i = 0; i < s->undo_count; i++) {
		const struct undo_mark *m = &s->undo[i];
		const uint64_t numbers[] = {m->messages, m->log, m->answer_log};
		text_out_add(out, (const char *)numbers, sizeof numbers);
	}
}

static int take_undo(struct session *to, const char *bytes, size_t n, struct err *e)
{
	uint64_t numbers[3];
	size_t count = n / sizeof numbers;
	struct undo_mark *undo = calloc(count + 1, sizeof *undo);
	if (!undo)
		return err_set(e, ENOMEM, "out of memory for a session");
	for (size_t i = 0; i < count; i++) {
		memcpy(numbers, bytes + i * sizeof numbers, sizeof numbers);
		undo[i] = (struct undo_mark){numbers[0], numbers[1], numbers[2]};
	}
	free(to->undo);
	to->undo = undo;
	to->undo_count = to->undo_room = count;
	return 0;
}

/* ---- the table ---- */

static const struct part {
	const char *name;
	void (*put)(const struct session *s, struct text_out *out);
	int (*take)(struct session *to, const char *bytes, size_t n, struct err *e);
} parts[] = {
	{"messages.json", put_messages, take_messages},
	{"tools.json", put_tools, take_tools},
	{"template.json", put_variables, take_variables},
	{"clock", put_clock, take_clock},
	{"prompt", put_prompt, take_prompt},
	{"output", put_output, take_output},
	{"thoughts", put_thoughts, take_thoughts},
	{"tool_result", put_results, take_results},
	{"log", put_log, take_log},
	{"tail", put_tail, take_tail},
	{"undo", put_undo, take_undo},
};
enum { PARTS = sizeof parts / sizeof *parts };

static const char param_folder[] = "params/";

/* ---- writing ---- */

static void record(struct text_out *out, const char *folder, const char *name, const char *bytes,
		   size_t n)
{
	struct state_record r = {.bytes = n};
	(void)snprintf(r.name, sizeof r.name, "%s%s", folder, name);
	text_out_add(out, (const char *)&r, sizeof r);
	text_out_add(out, bytes, n);
}

void state_texts_write(const struct session *s, struct text_out *out)
{
	for (size_t i = 0; i < PARTS; i++) {
		struct text_out bytes = {.counts = out->counts};
		parts[i].put(s, &bytes);
		if (bytes.n)
			record(out, "", parts[i].name, bytes.bytes, bytes.n);
		out->failed |= bytes.failed;
		text_out_free(&bytes);
	}
	for (size_t i = 0; i < params_count(); i++) {
		struct text_out line = {0};
		char *value = params_get_set(&s->params, i);
		text_out_string(&line, value ? value : "");
		text_out_string(&line, "\n");
		record(out, param_folder, params_name(i), line.bytes, line.n);
		out->failed |= !value || line.failed;
		text_out_free(&line);
		free(value);
	}
}

/* ---- reading ---- */

static int take_param(struct session *to, const char *name, const char *bytes, size_t n,
		      struct err *e)
{
	size_t i = 0;
	while (i < params_count() && strcmp(params_name(i), name) != 0)
		i++;
	if (i == params_count())
		return err_set(e, EINVAL, "params/%s is not a param of this version of moefs",
			       name);
	if (params_is_auto(i, bytes, n))
		return params_reset(&to->params, i, &to->model->id.config, e);
	return params_set(&to->params, i, bytes, n, e);
}

static int take(struct session *to, const char *name, const char *bytes, size_t n, struct err *e)
{
	if (!strncmp(name, param_folder, strlen(param_folder)))
		return take_param(to, name + strlen(param_folder), bytes, n, e);
	for (size_t i = 0; i < PARTS; i++)
		if (!strcmp(parts[i].name, name))
			return parts[i].take(to, bytes, n, e);
	return err_set(e, EINVAL, "it has a part \"%s\" that this version of moefs does not know",
		       name);
}

/* What one part says of others is held to them: the system's message is params/system, and turns
 * are taken back to what is there. */
static int agree(struct session *to, struct err *e)
{
	char *system;
	size_t before = 0;
	for (size_t i = 0; i < to->undo_count; i++) {
		const struct undo_mark *m = &to->undo[i];
		if (m->messages < before || m->messages > to->conversation.messages.count ||
		    m->log > m->answer_log || m->answer_log > to->log_size)
			return err_set(e, EINVAL, "it takes turns back to where nothing is");
		before = m->messages;
	}
	int failed = conversation_system(&to->conversation.messages, &system, e);
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
			return err_set(e, EINVAL, "its texts end in the middle");
		memcpy(&r, texts, sizeof r);
		if (r.name[sizeof r.name - 1] || r.bytes > n - sizeof r)
			return err_set(e, EINVAL, "its texts end in the middle");
		failed = take(to, r.name, texts + sizeof r, r.bytes, e);
		texts += sizeof r + r.bytes;
		n -= sizeof r + r.bytes;
	}
	return failed ? failed : agree(to, e);
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
	SWAP(conversation);
	SWAP(prompt);
	SWAP(prompt_length);
	SWAP(answer);
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
	conversation_free(&other->conversation);
	token_list_free(&other->tail);
	answer_unref(other->answer);
	free(other->prompt);
	free(other->log);
	free(other->undo);
}

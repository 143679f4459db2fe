/* The parts of a state other than the context and the params, as one table. Empty parts have no
 * record. */
#include "engine/model/model_state.h"
#include "engine/session/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- plain bytes ---- */

static int state_take_bytes(char **to, size_t *length, const char *bytes, size_t n, struct err *e)
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

static void state_put_prompt(const struct session *s, struct text_out *out)
{
	text_out_add(out, s->prompt, s->prompt_length);
}

static int state_take_prompt(struct session *to, const char *bytes, size_t n, struct err *e)
{
	return state_take_bytes(&to->prompt, &to->prompt_length, bytes, n, e);
}

static void state_put_log(const struct session *s, struct text_out *out)
{
	text_out_add(out, s->log, s->log_size);
}

static int state_take_log(struct session *to, const char *bytes, size_t n, struct err *e)
{
	int failed = state_take_bytes(&to->log, &to->log_size, bytes, n, e);
	to->log_room = to->log_size;
	return failed;
}

static void state_put_tail(const struct session *s, struct text_out *out)
{
	text_out_add(out, (const char *)s->tail.ids, s->tail.count * sizeof *s->tail.ids);
}

static int state_take_tail(struct session *to, const char *bytes, size_t n, struct err *e)
{
	to->tail.count = 0;
	for (uint32_t id; n >= sizeof id; bytes += sizeof id, n -= sizeof id) {
		memcpy(&id, bytes, sizeof id);
		if (id >= to->model->id.config.vocabulary)
			return err_set(e, EINVAL,
				       "it contains token %u, which the model does not have", id);
		int failed = token_list_append(&to->tail, &id, 1, e);
		if (failed)
			return failed;
	}
	return 0;
}

/* ---- the last answer ---- */

static void state_put_answer(struct answer *a, struct text_out *out)
{
	char piece[4096];
	bool complete;
	ssize_t n;
	if (a && out->counts) /* only the size is wanted; computing it must be fast */
		text_out_add(out, NULL, answer_size(a, &complete));
	for (uint64_t at = 0;
	     a && !out->counts && (n = answer_read(a, at, piece, sizeof piece, &complete)) > 0;
	     at += (uint64_t)n)
		text_out_add(out, piece, (size_t)n);
}

static void state_put_output(const struct session *s, struct text_out *out)
{
	state_put_answer(s->answer, out);
}

static void state_put_thoughts(const struct session *s, struct text_out *out)
{
	struct answer *thoughts = s->answer ? answer_thoughts(s->answer) : NULL;
	state_put_answer(thoughts, out);
	answer_unref(thoughts);
}

static int state_begin_answer(struct session *to, struct err *e)
{
	if (!to->answer)
		to->answer = answer_create(true);
	return to->answer ? 0 : err_set(e, ENOMEM, "out of memory for an answer");
}

static int state_take_output(struct session *to, const char *bytes, size_t n, struct err *e)
{
	int failed = state_begin_answer(to, e);
	if (!failed && answer_append(to->answer, bytes, n) < 0)
		failed = err_set(e, ENOMEM, "out of memory for an answer");
	return failed;
}

static int state_take_thoughts(struct session *to, const char *bytes, size_t n, struct err *e)
{
	int failed = state_begin_answer(to, e);
	if (!failed && answer_think(to->answer, bytes, n))
		failed = err_set(e, ENOMEM, "out of memory for an answer");
	return failed;
}

/* ---- the conversation ---- */

static void state_put_messages(const struct session *s, struct text_out *out)
{
	if (s->dialogue.messages.count)
		messages_write(&s->dialogue.messages, out);
}

static int state_take_messages(struct session *to, const char *bytes, size_t n, struct err *e)
{
	return messages_read(&to->dialogue.messages, bytes, n, e);
}

static void state_put_results(const struct session *s, struct text_out *out)
{
	if (s->dialogue.results.count)
		messages_write(&s->dialogue.results, out);
}

static int state_take_results(struct session *to, const char *bytes, size_t n, struct err *e)
{
	struct messages *results = &to->dialogue.results;
	int failed = messages_read(results, bytes, n, e);
	for (size_t i = 0; i < results->count && !failed; i++)
		if (!message_is(&results->items[i], "tool"))
			failed = err_set(e, EINVAL,
					 "its tool_result contains something that is not a result");
	return failed;
}

static void state_put_tools(const struct session *s, struct text_out *out)
{
	text_out_add(out, s->dialogue.tools.text, s->dialogue.tools.n);
}

static int state_take_tools(struct session *to, const char *bytes, size_t n, struct err *e)
{
	return dialogue_set_tools(&to->dialogue, bytes, n, e);
}

static void state_put_variables(const struct session *s, struct text_out *out)
{
	text_out_add(out, s->dialogue.variables.text, s->dialogue.variables.n);
}

static int state_take_variables(struct session *to, const char *bytes, size_t n, struct err *e)
{
	return dialogue_set_variables(&to->dialogue, bytes, n, e);
}

static void state_put_choices(const struct session *s, struct text_out *out)
{
	text_out_add(out, s->dialogue.choices.text, s->dialogue.choices.n);
}

static int state_take_choices(struct session *to, const char *bytes, size_t n, struct err *e)
{
	return choices_set(&to->dialogue.choices, bytes, n, e);
}

static void state_put_chosen(const struct session *s, struct text_out *out)
{
	text_out_string(out, s->chosen ? s->chosen : "");
}

static int state_take_chosen(struct session *to, const char *bytes, size_t n, struct err *e)
{
	size_t length;
	return state_take_bytes(&to->chosen, &length, bytes, n, e);
}

/* The experts_bias that the context was computed with; params/experts_bias may have changed since.
 */
static void state_put_steered(const struct session *s, struct text_out *out)
{
	uint64_t steered = s->context_losses.steered;
	if (steered)
		text_out_add(out, (const char *)&steered, sizeof steered);
}

static int state_take_steered(struct session *to, const char *bytes, size_t n, struct err *e)
{
	uint64_t steered;
	if (n != sizeof steered)
		return err_set(e, EINVAL, "its part steered is invalid");
	memcpy(&steered, bytes, sizeof steered);
	to->context_losses.steered = steered;
	return 0;
}

static void state_put_substituted(const struct session *s, struct text_out *out)
{
	const uint32_t by[] = {s->context_losses.substitute_keep,
			       s->context_losses.substitute_window};
	if (by[1])
		text_out_add(out, (const char *)by, sizeof by);
}

static int state_take_substituted(struct session *to, const char *bytes, size_t n, struct err *e)
{
	uint32_t by[2];
	if (n != sizeof by)
		return err_set(e, EINVAL, "its part substituted is invalid");
	memcpy(by, bytes, sizeof by);
	to->context_losses.substitute_keep = by[0];
	to->context_losses.substitute_window = by[1];
	return 0;
}

/* In local time with its offset: "2026-11-22 15:00:13 +0100". */
static const char clock_form[] = "%Y-%m-%d %H:%M:%S %z";

static void state_put_clock(const struct session *s, struct text_out *out)
{
	char text[64];
	size_t n = strftime(text, sizeof text, clock_form, &s->dialogue.clock);
	if (s->dialogue.clock_set)
		text_out_add(out, text, n);
}

/* Reads the time. The zone's name is known only if it is this machine's zone. */
static int state_take_clock(struct session *to, const char *bytes, size_t n, struct err *e)
{
	char text[64];
	struct tm clock = {0}, here;
	(void)snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : 0), bytes);
	const char *end = strptime(text, clock_form, &clock);
	if (!end || *end)
		return err_set(e, EINVAL, "its clock is invalid");
	struct tm utc = clock;
	time_t then = timegm(&utc) - clock.tm_gmtoff;
	bool known = localtime_r(&then, &here) && here.tm_gmtoff == clock.tm_gmtoff;
	clock.tm_zone = "";
	to->dialogue.clock = known ? here : clock;
	to->dialogue.clock_set = true;
	return 0;
}

static void state_put_undo(const struct session *s, struct text_out *out)
{
	for (size_t i = 0; i < s->undo_count; i++) {
		const struct undo_mark *m = &s->undo[i];
		const uint64_t numbers[] = {m->messages, m->log, m->answer_log};
		text_out_add(out, (const char *)numbers, sizeof numbers);
	}
}

static int state_take_undo(struct session *to, const char *bytes, size_t n, struct err *e)
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

const struct state_part state_parts[] = {
	{"messages.json", state_put_messages, state_take_messages},
	{"tools.json", state_put_tools, state_take_tools},
	{"template.json", state_put_variables, state_take_variables},
	{"choices", state_put_choices, state_take_choices},
	{"choices.tsv", state_put_chosen, state_take_chosen},
	{"steered", state_put_steered, state_take_steered},
	{"substituted", state_put_substituted, state_take_substituted},
	{"clock", state_put_clock, state_take_clock},
	{"prompt", state_put_prompt, state_take_prompt},
	{"output", state_put_output, state_take_output},
	{"thoughts", state_put_thoughts, state_take_thoughts},
	{"tool_result", state_put_results, state_take_results},
	{"log", state_put_log, state_take_log},
	{"tail", state_put_tail, state_take_tail},
	{"undo", state_put_undo, state_take_undo},
};
const size_t state_part_count = sizeof state_parts / sizeof *state_parts;

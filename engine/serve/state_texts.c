/* What a state holds beside the computed context: records, each a name and bytes. ONE TABLE is what
 * there are; params are records of their own, in the words in which they are written. */
#include "engine/serve/internal.h"
#include "engine/serve/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

static void put_prompt(const struct session *s, struct text_out *out)
{
	text_out_add(out, s->prompt, s->prompt_length);
}

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

static int take_prompt(struct session *to, const char *bytes, size_t n, struct err *e)
{
	return take_bytes(&to->prompt, &to->prompt_length, bytes, n, e);
}

static void put_output(const struct session *s, struct text_out *out)
{
	char piece[4096];
	bool complete;
	ssize_t n;
	for (uint64_t at = 0;
	     s->answer && (n = answer_read(s->answer, at, piece, sizeof piece, &complete)) > 0;
	     at += (uint64_t)n)
		text_out_add(out, piece, (size_t)n);
}

static int take_output(struct session *to, const char *bytes, size_t n, struct err *e)
{
	struct answer *a = answer_create(true);
	if (!a || answer_append(a, bytes, n) < 0) {
		answer_unref(a);
		return err_set(e, ENOMEM, "out of memory for an answer");
	}
	answer_finish(a, 0);
	answer_unref(to->answer);
	to->answer = a;
	to->status = SESSION_DONE;
	return 0;
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

static void put_history(const struct session *s, struct text_out *out)
{
	text_out_add(out, (const char *)s->history.ids, s->history.count * sizeof(uint32_t));
}

static int take_history(struct session *to, const char *bytes, size_t n, struct err *e)
{
	to->history.count = 0;
	return token_list_append(&to->history, (const uint32_t *)(const void *)bytes,
				 n / sizeof(uint32_t), e);
}

static const struct part {
	const char *name;
	void (*put)(const struct session *s, struct text_out *out);
	int (*take)(struct session *to, const char *bytes, size_t n, struct err *e);
} parts[] = {
	{"prompt", put_prompt, take_prompt},
	{"output", put_output, take_output},
	{"log", put_log, take_log},
	{"history", put_history, take_history},
};
enum { PARTS = sizeof parts / sizeof *parts };

/* ---- writing ---- */

static void record(struct text_out *out, const char *folder, const char *name, const char *bytes,
		   size_t n)
{
	struct state_record r = {.bytes = n};
	(void)snprintf(r.name, sizeof r.name, "%s%s", folder, name);
	text_out_add(out, (const char *)&r, sizeof r);
	text_out_add(out, bytes, n);
}

static const char param_folder[] = "params/";

void state_texts_write(const struct session *s, struct text_out *out)
{
	for (size_t i = 0; i < PARTS; i++) {
		struct text_out bytes = {0};
		parts[i].put(s, &bytes);
		if (bytes.n)
			record(out, "", parts[i].name, bytes.bytes, bytes.n);
		out->failed |= bytes.failed;
		text_out_free(&bytes);
	}
	for (size_t i = 0; i < params_count(); i++) {
		char *value = params_get_set(&s->params, i);
		if (value)
			record(out, param_folder, params_name(i), value, strlen(value));
		else
			out->failed = true;
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
	return failed;
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
	SWAP(prompt);
	SWAP(prompt_length);
	SWAP(answer);
	SWAP(log);
	SWAP(log_size);
	SWAP(log_room);
	SWAP(status);
	SWAP(history);
}

void state_texts_free(struct session *other)
{
	params_free(&other->params);
	answer_unref(other->answer);
	free(other->prompt);
	free(other->log);
	token_list_free(&other->history);
}

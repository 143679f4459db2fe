/* See embed.h. */
#include "engine/turn/embed.h"

#include "engine/model/model_state.h"
#include "engine/model/npy.h"
#include "engine/turn/turn.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int embed_no_memory(struct err *e)
{
	return err_set(e, ENOMEM, "out of memory for embeddings");
}

static uint32_t embed_width(const struct turn_state *t)
{
	return t->env->model->id.config.hidden_size;
}

/* ---- the texts ---- */

static int embed_too_long(const struct turn_state *t, uint32_t number, size_t tokens, struct err *e)
{
	uint32_t most = t->env->model->id.context;
	err_set(e, EFBIG,
		"embed: text %u is %zu tokens, but the context holds %u; divide it, or mount with "
		"a larger -o context=",
		number + 1, tokens, most);
	err_number(e, "tokens", tokens);
	err_number(e, "maximum", most);
	return err_name(e, "prompt_too_long");
}

/* Encodes the model's prompt and text[n], with the tokens that begin and end a text. */
static int embed_add(struct turn_state *t, const char *text, size_t n, struct err *e)
{
	const struct tokenizer *tokens = t->env->model->loaded.tokenizer;
	const char *before = t->env->model->id.config.embedding.prompt;
	struct embed *x = &t->embed;
	size_t first = t->ids.count, length = strlen(before) + n;
	char *whole = malloc(length + 1);
	if (!whole)
		return embed_no_memory(e);
	memcpy(whole, before, length - n);
	memcpy(whole + (length - n), text, n);
	int failed =
		tokenizer_encode_alone(tokens, whole, length, &t->session->stop, &t->ids, e);
	free(whole);
	if (!failed)
		failed = tokenizer_end(tokens, &t->ids, e);
	size_t count = t->ids.count - first;
	if (!failed && !count)
		failed = err_set(e, EINVAL, "embed: text %u has no tokens", x->count + 1);
	if (!failed && count > t->env->model->id.context)
		failed = embed_too_long(t, x->count, count, e);
	if (!failed)
		x->texts[x->count++] =
			(struct embed_text){.first = first, .count = (uint32_t)count};
	return failed;
}

/* Texts are separated by NUL. A NUL at the end does not begin another text. */
static int embed_add_all(struct turn_state *t, const char *all, size_t length, struct err *e)
{
	const char *at = all, *end = all + length;
	int failed = 0;
	do {
		const char *stop = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
		size_t n = (size_t)((stop ? stop : end) - at);
		if (t->embed.count == EMBED_MOST)
			return err_set(e, EFBIG, "embed: there are more than %d texts", EMBED_MOST);
		failed = embed_add(t, at, n, e);
		at += n + 1;
	} while (!failed && at < end);
	return failed;
}

int embed_begin(struct turn_state *t, struct err *e)
{
	const struct asked *asked = &t->session->asked;
	const struct embedding *how = &t->env->model->id.config.embedding;
	struct embed *x = &t->embed;
	size_t most = 1;
	if (how->refused.code)
		return err_set(e, how->refused.code, "embed: %s", how->refused.text);
	for (size_t i = 0; i < asked->prompt_length; i++)
		most += !asked->prompt[i];
	most = most < EMBED_MOST ? most : EMBED_MOST;
	if (asked->embeds == EMBEDS_LINE && most > 1)
		return err_set(e, EINVAL,
			       "embed: the text contains a NUL byte; embed.npy takes several texts");
	x->texts = calloc(most, sizeof *x->texts);
	if (!x->texts)
		return embed_no_memory(e);
	int failed = embed_add_all(t, asked->prompt, asked->prompt_length, e);
	if (failed)
		return failed;
	x->vectors = calloc((size_t)x->count * embed_width(t), sizeof *x->vectors);
	return x->vectors ? 0 : embed_no_memory(e);
}

/* ---- places ---- */

static void embed_end_place(struct embed *x, uint32_t i)
{
	struct embed_place *p = &x->places[i];
	context_free(&p->context);
	free(p->sum);
	memmove(p, p + 1, (--x->place_count - i) * sizeof *p);
}

void embed_give_up(struct turn_state *t)
{
	struct embed *x = &t->embed;
	while (x->place_count) {
		const struct embed_place *p = &x->places[x->place_count - 1];
		x->texts[p->text].done = 0;
		x->next = p->text < x->next ? p->text : x->next;
		embed_end_place(x, x->place_count - 1);
	}
}

void embed_free(struct turn_state *t)
{
	embed_give_up(t);
	free(t->embed.texts);
	free(t->embed.vectors);
	t->embed = (struct embed){0};
}

size_t embed_left(const struct turn_state *t)
{
	const struct embed *x = &t->embed;
	size_t left = 0;
	for (uint32_t i = 0; i < x->count; i++)
		left += x->texts[i].count - x->texts[i].done;
	return left;
}

/* Gives a place to the next text; -ENOSPC, -ENOMEM: not possible. */
static int embed_begin_place(struct turn_state *t, struct err *e)
{
	struct embed *x = &t->embed;
	const struct context *own = &t->session->context;
	struct embed_place *p = &x->places[x->place_count];
	*p = (struct embed_place){.text = x->next};
	p->sum = calloc(embed_width(t), sizeof *p->sum);
	if (!p->sum)
		return embed_no_memory(e);
	context_init(&p->context, own->budget, &t->env->model->id.config, own->type);
	int failed = context_reserve_text(&p->context, x->texts[x->next].count, e);
	x->place_count++;
	if (failed)
		embed_end_place(x, x->place_count - 1);
	else
		x->next++;
	return failed;
}

static int embed_add_rows(struct turn_state *t, struct embed_place *p, uint32_t room,
			  struct step_batch *b, struct err *e)
{
	struct embed_text *text = &t->embed.texts[p->text];
	if (p->context.tokens.count != text->done) { /* a failed step has lost rows */
		context_rollback(&p->context, 0);
		memset(p->sum, 0, embed_width(t) * sizeof *p->sum);
		text->done = 0;
	}
	const struct step_row row = {.context = &p->context,
				     .kind = ROW_PROMPT,
				     .losses = t->losses,
				     .account = &t->session->account};
	uint32_t left = text->count - text->done;
	p->row = t->step.n;
	p->added = left < room ? left : room;
	t->step.n += p->added;
	return step_batch_add(b, &row, t->ids.ids + text->first + text->done, p->added, e);
}

static void embed_skip_done(struct embed *x)
{
	while (x->next < x->count && x->texts[x->next].done == x->texts[x->next].count)
		x->next++;
}

int embed_rows(struct turn_state *t, uint32_t room, struct step_batch *b, struct err *e)
{
	struct embed *x = &t->embed;
	int failed = 0;
	t->step = (struct turn_step){.first = b->count, .kind = ROW_PROMPT};
	b->normed = true;
	for (uint32_t i = 0; i < x->place_count; i++)
		x->places[i].added = 0;
	for (uint32_t i = 0; !failed && t->step.n < room; i++) {
		embed_skip_done(x);
		if (i == EMBED_TEXTS || (i == x->place_count && x->next == x->count))
			break;
		if (i == x->place_count)
			failed = embed_begin_place(t, e);
		if (failed == -ENOSPC && i) /* texts that have a place are computed first */
			return 0;
		if (!failed)
			failed = embed_add_rows(t, &x->places[i], room - t->step.n, b, e);
	}
	return failed;
}

/* ---- pooling ---- */

static void embed_pool(const struct turn_state *t, struct embed_place *p, const float *rows)
{
	const enum pooling how = t->env->model->id.config.embedding.pooling;
	const struct embed_text *text = &t->embed.texts[p->text];
	uint32_t width = embed_width(t);
	for (uint32_t r = 0; r < p->added; r++) {
		uint32_t token = text->done + r;
		bool counts = how == POOL_MEAN || (how == POOL_FIRST && !token) ||
			      (how == POOL_LAST && token + 1 == text->count);
		for (uint32_t i = 0; counts && i < width; i++)
			p->sum[i] += rows[(size_t)r * width + i];
	}
}

/* Computes the vector of a finished text. */
static int embed_finish(struct turn_state *t, const struct embed_place *p, struct err *e)
{
	const struct embedding *how = &t->env->model->id.config.embedding;
	uint32_t width = embed_width(t);
	float *to = t->embed.vectors + (size_t)p->text * width;
	double by = how->pooling == POOL_MEAN ? t->embed.texts[p->text].count : 1, square = 0;
	for (uint32_t i = 0; i < width; i++)
		square += p->sum[i] * p->sum[i];
	if (!isfinite(square)) {
		err_set(e, EIO,
			"the model computed NaN (not a number): its weights are damaged");
		return err_name(e, "damaged");
	}
	if (how->normalised)
		by = square > 0 ? sqrt(square) : 1;
	for (uint32_t i = 0; i < width; i++)
		to[i] = (float)(p->sum[i] / by);
	return 0;
}

/* ---- what the reader gets ---- */

static void embed_write_line(const float *vector, uint32_t width, struct text_out *to)
{
	char number[32];
	for (uint32_t i = 0; i < width; i++) {
		(void)snprintf(number, sizeof number, "%.9g%s", vector[i],
			       i + 1 < width ? " " : "\n");
		text_out_string(to, number);
	}
}

static int embed_write(const struct turn_state *t, struct text_out *to, struct err *e)
{
	const struct embed *x = &t->embed;
	const uint64_t shape[] = {x->count, embed_width(t)};
	char head[NPY_HEAD_MOST];
	if (t->session->asked.embeds == EMBEDS_LINE) {
		embed_write_line(x->vectors, embed_width(t), to);
	} else {
		text_out_add(to, head, npy_head(head, shape, 2));
		text_out_add(to, (const char *)x->vectors,
			     shape[0] * shape[1] * sizeof *x->vectors);
	}
	return to->failed ? embed_no_memory(e) : 0;
}

int embed_settle(struct turn_state *t, bool *over, struct text_out *to, struct err *e)
{
	struct embed *x = &t->embed;
	const float *normed = forward_normed(&t->env->model->loaded.forward);
	int failed = 0;
	for (uint32_t i = x->place_count; i-- > 0 && !failed;) {
		struct embed_place *p = &x->places[i];
		if (!p->added)
			continue;
		embed_pool(t, p, normed + (size_t)(t->step.first + p->row) * embed_width(t));
		x->texts[p->text].done += p->added;
		p->added = 0;
		if (x->texts[p->text].done < x->texts[p->text].count)
			continue;
		failed = embed_finish(t, p, e);
		embed_end_place(x, i);
		x->ready++;
	}
	*over = x->ready == x->count;
	return *over && !failed ? embed_write(t, to, e) : failed;
}

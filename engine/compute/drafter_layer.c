/* The draft layer: rows of one context or of several through the layer that follows the model's
 * own. See drafter.h. */
#include "engine/compute/drafter.h"

#include <string.h>

void drafter_layer_init(struct draft_layer *d, struct forward *f)
{
	*d = (struct draft_layer){.forward = f};
}

/* Makes the layer's input of all rows that live: their embeddings are in the stream. */
static void drafter_join(struct step *s, const struct draft_rows *rows)
{
	const struct backend *b = s->env->backend;
	const float *hidden[JOINED_ROWS]; /* [hidden size] each */
	uint32_t width = s->env->config->hidden_size, n = 0, done = 0;
	for (uint32_t i = 0; i < s->span_count; i++) {
		while (rows->context != s->spans[i].context)
			rows++;
		for (size_t t = 0; t < s->spans[i].n; t++) {
			hidden[n++] = rows->hidden + t * width;
			if (n < JOINED_ROWS)
				continue;
			b->join(s, done, hidden, n);
			done += n;
			n = 0;
		}
	}
	if (n)
		b->join(s, done, hidden, n);
}

/* Begins a step of the rows: computed as an answer's, since guesses are only wanted of answers. */
static void drafter_begin_step(struct forward *f, struct forward_pass *p,
			       const struct draft_rows *rows, uint32_t count)
{
	uint32_t first = 0;
	for (uint32_t i = 0; i < count; first += rows[i++].n)
		p->spans[i] = (struct step_span){
			.context = rows[i].context,
			.first = first,
			.n = rows[i].n,
			.origin = first,
			.position = (uint32_t)rows[i].context->tokens.count,
			.certain = rows[i].n,
			.losses = rows[i].losses,
			.account = rows[i].account,
		};
	for (uint32_t i = 0; i < count; i++)
		memcpy(p->tokens + p->spans[i].first, rows[i].tokens,
		       rows[i].n * sizeof *p->tokens);
	p->step = forward_step(f, p, count);
	forward_embed(&p->step);
}

/* Computes the rows, and leaves those that live in the stream. keys_only: no more than the keys and
 * values that later rows attend to. */
static int drafter_pass(struct draft_layer *d, const struct draft_rows *rows, uint32_t count,
			bool keys_only, struct err *e)
{
	struct forward *f = d->forward;
	struct forward_pass *p = &f->pass;
	uint32_t layer = f->env.config->layers;
	int failed = 0;
	drafter_begin_step(f, p, rows, count);
	struct step *s = &p->step;
	if (s->n)
		drafter_join(s, rows);
	if (s->n && keys_only)
		f->env.backend->mix_keys(s, layer);
	else if (s->n)
		failed = forward_layer(s, layer, e);
	for (uint32_t i = 0; i < s->span_count; i++) {
		struct step_span *span = &s->spans[i];
		while (rows->context != span->context)
			rows++;
		if (failed)
			step_kill(s, span, 0, SPAN_FAILED, e);
		else
			step_close(s, span, rows->tokens);
	}
	return failed ? failed : step_lost(s, e);
}

/* The result of the rows' span as that of a call. */
static int drafter_ended(const struct draft_rows *rows, struct err *e)
{
	const struct step_account *account = rows->account;
	if (!account || account->end == SPAN_DONE)
		return 0;
	*e = account->error;
	return -e->code;
}

int drafter_layer_run(struct draft_layer *d, struct context *x, const uint32_t *tokens,
		      const float *hidden, uint32_t n, float *all_logits, struct err *e)
{
	struct draft_rows rows = {x, tokens, hidden, n, d->losses, d->account};
	struct forward *f = d->forward;
	struct step *s = &f->pass.step;
	uint32_t last = n - 1;
	int failed = drafter_pass(d, &rows, 1, false, e);
	if (!failed)
		failed = drafter_ended(&rows, e);
	if (failed)
		return failed;
	f->env.backend->end(s, TENSOR_DRAFT_NORM, all_logits ? NULL : &last, all_logits ? n : 1);
	f->env.backend->head(s, all_logits ? n : 1, all_logits ? all_logits : f->logits);
	return 0;
}

int drafter_layer_keys(struct draft_layer *d, struct context *x, const uint32_t *tokens,
		       const float *hidden, uint32_t n, struct err *e)
{
	struct draft_rows rows = {x, tokens, hidden, n, d->losses, d->account};
	int failed = drafter_pass(d, &rows, 1, true, e);
	return failed ? failed : drafter_ended(&rows, e);
}

/* Gives the reader the logits of each context's last row. Returns how many rows live; their places
 * and numbers are the pass's `wanted`. */
static int drafter_give_logits(struct draft_layer *d, const struct draft_rows *rows,
			       uint32_t *lived, const struct draft_reader *reader, struct err *e)
{
	struct forward *f = d->forward;
	struct forward_pass *p = &f->pass;
	struct step *s = &p->step;
	uint32_t count = 0, entry = 0;
	for (uint32_t i = 0; i < s->span_count; i++) {
		const struct step_span *span = &s->spans[i];
		while (rows[entry].context != span->context)
			entry++;
		if (!span->n)
			continue;
		p->wanted[count] = span->first + span->n - 1;
		p->wanted_row[count++] = entry;
	}
	*lived = count;
	int failed = 0;
	for (uint32_t done = 0, n; done < count && !failed; done += n) {
		n = count - done < HEAD_ROWS ? count - done : HEAD_ROWS;
		f->env.backend->end(s, TENSOR_DRAFT_NORM, p->wanted + done, n);
		f->env.backend->head(s, n, f->logits);
		failed = reader->read(reader->ctx, p->wanted_row + done, n, f->logits, e);
	}
	return failed;
}

int drafter_layer_run_together(struct draft_layer *d, const struct draft_rows *rows, uint32_t count,
			       const struct draft_reader *reader, struct err *e)
{
	struct forward *f = d->forward;
	const struct forward_pass *p = &f->pass;
	size_t width = f->env.config->hidden_size;
	uint32_t lived;
	int failed = drafter_pass(d, rows, count, false, e);
	if (!failed)
		failed = drafter_give_logits(d, rows, &lived, reader, e);
	if (failed)
		return failed;
	f->env.backend->end(&f->pass.step, TENSOR_DRAFT_NORM, p->wanted, lived);
	float *normed = forward_normed(f);
	for (uint32_t i = lived; i-- > 0;) /* the last first: each moves up */
		memmove(normed + p->wanted_row[i] * width, normed + i * width,
			width * sizeof *normed);
	return 0;
}

int drafter_layer_keys_together(struct draft_layer *d, const struct draft_rows *rows,
				uint32_t count, struct err *e)
{
	return drafter_pass(d, rows, count, true, e);
}

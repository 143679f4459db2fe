/* The forward pass: scratch, layers, output head. See forward.h. */
#include "engine/compute/forward.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

/* Takes a pass's arrays in main memory. */
static void forward_take_pass(struct forward_pass *p, struct arena *a, const struct config *c,
			      size_t rows)
{
	*p = (struct forward_pass){.rows = (uint32_t)rows};
	rotation_take(p->rotations, a, c, rows);
	p->spans = arena_take(a, rows, sizeof *p->spans);
	p->span_of = arena_take(a, rows, sizeof *p->span_of);
	p->tokens = arena_take(a, rows, sizeof *p->tokens);
	p->wanted = arena_take(a, rows, sizeof *p->wanted);
	p->wanted_row = arena_take(a, rows, sizeof *p->wanted_row);
	p->wanted_index = arena_take(a, rows, sizeof *p->wanted_index);
	p->untold = arena_take(a, c->layers + c->draft, sizeof *p->untold);
}

/* Places the arrays in memory; NULL: only measures. Returns their bytes. */
static size_t forward_lay_out_pass(struct forward_pass *p, const struct config *c, size_t rows,
				   void *memory)
{
	struct arena a = {.memory = memory};
	forward_take_pass(p, &a, c, rows);
	p->memory = memory;
	return p->bytes = a.used;
}

int forward_pass_init(struct forward_pass *p, const struct environment *env, uint32_t rows,
		      struct err *e)
{
	const struct config *c = env->config;
	void *memory = arena_map(forward_lay_out_pass(p, c, rows, NULL), e);
	if (!memory)
		return -ENOMEM;
	forward_lay_out_pass(p, c, rows, memory);
	p->backend = env->backend;
	rotation_init(p->rotations, c);
	int failed = env->backend->stream_make(&p->stream, env, rows, e);
	if (failed)
		forward_pass_free(p);
	return failed;
}

void forward_pass_free(struct forward_pass *p)
{
	if (p->backend)
		p->backend->stream_free(p->stream);
	arena_unmap(p->memory, p->bytes);
	*p = (struct forward_pass){0};
}

uint64_t forward_pass_bytes(const struct backend *b, const struct config *c, uint32_t rows)
{
	struct forward_pass measured;
	return forward_lay_out_pass(&measured, c, rows, NULL) + b->stream_bytes(c, rows);
}

/* The same for what passes share. */
static size_t forward_lay_out(struct forward *f, const struct config *c, size_t rows, void *memory)
{
	struct arena a = {.memory = memory};
	f->own_logits = arena_take(&a, (size_t)HEAD_ROWS * c->vocabulary, sizeof *f->own_logits);
	if (c->experts)
		routing_take(&f->routing, &a, c, rows);
	f->memory = memory;
	return f->bytes = a.used;
}

/* Makes scratch of the backend that computes now, and says where logits go. */
static int forward_make_scratch(struct forward *f, struct err *e)
{
	const struct backend *b = f->env.backend;
	int failed = b->scratch_make(&f->scratch, &f->env, f->chunk, e);
	f->logits = !failed && b->logits ? b->logits(f->scratch) : f->own_logits;
	return failed;
}

int forward_init(struct forward *f, struct err *e)
{
	const struct environment *env = &f->env;
	f->scratch = NULL;
	int failed = forward_pass_init(&f->pass, env, f->chunk, e);
	if (failed)
		return failed;
	void *memory = arena_map(forward_lay_out(f, env->config, f->chunk, NULL), e);
	forward_lay_out(f, env->config, f->chunk, memory);
	failed = memory ? forward_make_scratch(f, e) : -ENOMEM;
	if (failed)
		forward_free(f);
	return failed;
}

void forward_free(struct forward *f)
{
	if (f->scratch)
		f->env.backend->scratch_free(f->scratch);
	arena_unmap(f->memory, f->bytes);
	forward_pass_free(&f->pass);
	f->scratch = NULL;
	f->memory = NULL;
	f->logits = NULL;
}

uint64_t forward_bytes(const struct backend *b, const struct config *c, uint32_t chunk)
{
	struct forward measured;
	return forward_lay_out(&measured, c, chunk, NULL) + forward_pass_bytes(b, c, chunk) +
	       b->scratch_bytes(c, chunk);
}

int forward_resize(struct forward *f, uint32_t chunk, struct err *e)
{
	struct forward other = *f;
	other.chunk = chunk;
	int failed = forward_init(&other, e);
	if (failed)
		return failed;
	forward_free(f);
	*f = other;
	return 0;
}

/* ---- pieces ---- */

struct step forward_step(struct forward *f, struct forward_pass *p, uint32_t count)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct step_span *span = &p->spans[i];
		rotation_set(p->rotations, f->env.config, span->first, span->position, span->n,
			     span->context->long_text);
		for (uint32_t t = 0; t < span->n; t++)
			p->span_of[n++] = i;
	}
	return (struct step){
		.env = &f->env,
		.n = n,
		.spans = p->spans,
		.span_count = count,
		.span_of = p->span_of,
		.untold = p->untold,
		.clock = f->token_count,
		.stream = p->stream,
		.scratch = f->scratch,
		.routing = f->env.config->experts ? &f->routing : NULL,
		.rotations = p->rotations,
		.tokens = p->tokens,
	};
}

/* ---- layers ---- */

int forward_layer(struct step *s, uint32_t layer, struct err *e)
{
	const struct backend *b = s->env->backend;
	const struct config *c = s->env->config;
	const struct layer *l = &c->layer[layer];
	int failed = 0;
	if (l->ngrams)
		b->ngrams(s, layer);
	if (s->n && config_has_part(l, PART_MIXER))
		b->mix(s, layer);
	if (s->n && config_has_part(l, PART_FEED_FORWARD)) {
		if (config_routed(c, layer))
			failed = experts_run(s, layer, e);
		else
			b->feed(s, layer);
	}
	if (!failed && s->n)
		b->finish(s, layer);
	return failed;
}

/* ---- a backend that fails ---- */

static bool forward_failed(const struct forward *f, struct err *e)
{
	const struct backend *b = f->env.backend;
	return b->failed && b->failed(&f->env, e);
}

/* Gives the pass a stream of the backend that computes now. */
static int forward_renew_stream(struct forward *f, struct forward_pass *p, struct err *e)
{
	if (p->backend == f->env.backend && p->stream)
		return 0;
	p->backend->stream_free(p->stream);
	p->backend = f->env.backend;
	p->stream = NULL;
	return p->backend->stream_make(&p->stream, &f->env, p->rows, e);
}

/* Makes what a step needs and an earlier failure has left behind: scratch, and a stream for a pass that was
 * idle when the backend failed. */
static int forward_ready(struct forward *f, struct forward_pass *p, struct err *e)
{
	int failed = f->scratch ? 0 : forward_make_scratch(f, e);
	return failed ? failed : forward_renew_stream(f, p, e);
}

/* Leaves the backend for good. */
static int forward_fall_back(struct forward *f, const struct err *why, struct err *e)
{
	struct environment *env = &f->env;
	env->backend->scratch_free(f->scratch);
	f->scratch = NULL;
	env->backend = env->fallback;
	if (env->fell_back)
		env->fell_back(env->fell_back_ctx, why);
	int failed = forward_make_scratch(f, e);
	return failed ? failed : forward_renew_stream(f, &f->pass, e);
}

/* Computes a context's tokens again by a pass, up to a row's position; the losses are the row's. */
static int forward_replay(struct forward *f, struct forward_pass *p, const struct step_row *row,
			  const uint32_t *tokens, struct err *e)
{
	struct context *x = row->context;
	const struct step_row like = {.context = x, .kind = ROW_PROMPT, .losses = row->losses};
	const uint32_t most = p->rows < f->chunk ? p->rows : f->chunk;
	struct step_batch b = {0};
	int failed = 0;
	while (!failed && x->tokens.count < row->position) {
		uint32_t at = (uint32_t)x->tokens.count, left = row->position - at;
		step_batch_clear(&b);
		failed = step_batch_add(&b, &like, tokens + at, left < most ? left : most, e);
		if (!failed)
			failed = forward_begin(f, p, &b, NULL, e);
		if (failed > 0)
			failed = forward_go_on(f, p, UINT32_MAX, e);
	}
	step_batch_free(&b);
	return failed;
}

/* Whether a failed step, or a lost copy, has left the context without the state of its last position. */
static bool forward_is_spoiled(const struct context *x)
{
	return x->recurrent.bytes && x->recurrent.spoiled;
}

/* A recurrent state that some layers have moved on goes back to a checkpoint, and the text from there to
 * the step is computed again. row: the context's first of the step. -EIO: the context has already gone
 * back, since its rows died. */
static int forward_restore_state(struct forward *f, struct forward_pass *p,
				 const struct step_row *row, struct err *e)
{
	struct context *x = row->context;
	if (x->tokens.count < row->position)
		return err_set(e, EIO, "the GPU failed in a step of which a part was stopped");
	if (!forward_is_spoiled(x))
		return 0;
	uint32_t *tokens = malloc((row->position + 1) * sizeof *tokens);
	if (!tokens)
		return err_set(e, ENOMEM, "out of memory for a text");
	if (row->position) /* else there may be no ids at all */
		memcpy(tokens, x->tokens.ids, row->position * sizeof *tokens);
	context_rollback(x, row->position);
	int failed = forward_replay(f, p, row, tokens, e);
	free(tokens);
	return failed;
}

/* Contexts are where the pass's step began: all but recurrent states already are. p: a pass without a step,
 * which computes what is missing. */
static int forward_restore(struct forward *f, struct forward_pass *p, const struct step_batch *b,
			   struct err *e)
{
	const struct observer *observer = f->env.observer;
	int failed = 0;
	for (uint32_t t = 0; t < b->count && !failed; t++)
		if (!t || b->rows[t].context != b->rows[t - 1].context)
			failed = forward_restore_state(f, p, &b->rows[t], e);
	f->env.observer = observer;
	return failed;
}

/* ---- recurrent states in the backend's memory ---- */

void forward_bring_state(struct forward *f, struct context *x)
{
	const struct backend *b = f->env.backend;
	struct recurrent *r = &x->recurrent;
	if (r->copy != RECURRENT_AWAY)
		return;
	bool there = b->bring_state && b->bring_state(&f->env, x);
	r->spoiled = !there;
	r->copy = there ? RECURRENT_COPIED : RECURRENT_NOT_COPIED;
}

/* Whether the state of one of the rows' contexts is lost: it was away, and the backend has given up its copy,
 * or has failed. */
static bool forward_lost_states(const struct forward *f, const struct step_batch *b)
{
	const struct backend *now = f->env.backend;
	bool lost = false;
	for (uint32_t t = 0; t < b->count; t++) {
		struct context *x = b->rows[t].context;
		struct recurrent *r = &x->recurrent;
		if (r->copy != RECURRENT_NOT_COPIED &&
		    !(now->has_state && now->has_state(&f->env, x))) {
			r->spoiled |= r->copy == RECURRENT_AWAY;
			r->copy = RECURRENT_NOT_COPIED;
		}
		lost |= forward_is_spoiled(x);
	}
	return lost;
}

/* Computes such states again, by the pass whose step is to begin: the backend has no room for another one when
 * it gives up states. For those it may give up others of the step, each once if it has room for all; else
 * it is left. */
static int forward_find_states(struct forward *f, struct forward_pass *p, const struct step_batch *b,
			       struct err *e)
{
	struct err why;
	int failed = 0;
	for (uint32_t tries = 0; tries < b->count && !failed && forward_lost_states(f, b); tries++)
		failed = forward_restore(f, p, b, e);
	if (failed || !forward_lost_states(f, b))
		return failed;
	err_set(&why, ENOMEM, "there is no room for the recurrent states of a step's texts");
	failed = forward_fall_back(f, &why, e);
	if (!failed)
		failed = forward_renew_stream(f, p, e);
	(void)forward_lost_states(f, b);
	return failed ? failed : forward_restore(f, p, b, e);
}

/* forward_restore for a pass that has a step: by another pass. */
static int forward_restore_apart(struct forward *f, const struct step_batch *b, struct err *e)
{
	struct forward_pass p;
	int failed = forward_pass_init(&p, &f->env, f->chunk, e);
	if (failed)
		return failed;
	failed = forward_restore(f, &p, b, e);
	forward_pass_free(&p);
	return failed;
}

/* Whether a context's state has to be restored (forward_restore_state). */
static bool forward_spoiled(const struct step_batch *b)
{
	bool spoiled = false;
	for (uint32_t t = 0; t < b->count; t++) {
		const struct context *x = b->rows[t].context;
		spoiled |= x->tokens.count < b->rows[t].position || forward_is_spoiled(x);
	}
	return spoiled;
}

/* Begins the pass's step anew, by the backend that computes now. -EIO: some logits have been read
 * already. */
static int forward_begin_again(struct forward *f, struct forward_pass *p, struct err *e)
{
	int failed = forward_renew_stream(f, p, e);
	if (!failed && p->wanted_done && p->batch->read)
		failed = err_set(e, EIO, "the GPU failed while logits were being read");
	if (!failed && forward_spoiled(p->batch))
		failed = forward_restore_apart(f, p->batch, e);
	return failed ? failed : forward_begin(f, p, p->batch, p->logits, e);
}

/* ---- outputs ---- */

static uint32_t forward_count_wanted(const struct step_batch *b)
{
	uint32_t wanted = 0;
	for (uint32_t t = 0; t < b->count; t++)
		wanted += b->rows[t].logits;
	return wanted;
}

/* Lists the rows that live and whose logits are wanted. */
static void forward_list_wanted(struct forward_pass *p)
{
	const struct step *s = &p->step;
	const struct step_span *span = s->spans, *end = s->spans + s->span_count;
	uint32_t index = 0;
	p->wanted_count = p->wanted_done = 0;
	for (uint32_t t = 0; t < p->batch->count; t++) {
		if (!p->batch->rows[t].logits)
			continue;
		while (span < end && span->origin + span->n <= t)
			span++;
		if (span < end && span->origin <= t) {
			p->wanted[p->wanted_count] = span->first + t - span->origin;
			p->wanted_row[p->wanted_count] = t;
			p->wanted_index[p->wanted_count++] = index;
		}
		index++;
	}
}

/* Takes rows that have died meanwhile out of the list. */
static void forward_sift_wanted(struct forward_pass *p)
{
	uint32_t kept = p->wanted_done;
	for (uint32_t i = kept; i < p->wanted_count; i++) {
		if (!step_row_lives(&p->step, p->wanted[i]))
			continue;
		p->wanted[kept] = p->wanted[i];
		p->wanted_row[kept] = p->wanted_row[i];
		p->wanted_index[kept++] = p->wanted_index[i];
	}
	p->wanted_count = kept;
}

/* All layers are computed: contexts get what the backend still has, while it computes the first logits, if
 * there are any. */
static void forward_settle(struct forward *f, struct forward_pass *p)
{
	if (!p->settled && f->env.backend->settle)
		f->env.backend->settle(&p->step);
	p->settled = true;
}

/* Whether the reader needs nothing but the largest logit of each of these rows. */
static bool forward_wants_largest(const struct step_batch *b, const uint32_t *rows, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!b->rows[rows[i]].only_largest)
			return false;
	return true;
}

/* Gives the logits of the next HEAD_ROWS rows to the batch's reader. */
static int forward_give_logits(struct forward *f, struct forward_pass *p, struct err *e)
{
	const struct backend *by = f->env.backend;
	const struct step_batch *b = p->batch;
	step_stop(&p->step);
	forward_sift_wanted(p);
	uint32_t done = p->wanted_done, left = p->wanted_count - done,
		 n = left < HEAD_ROWS ? left : HEAD_ROWS;
	if (!n)
		return 0;
	by->end(&p->step, TENSOR_FINAL_NORM, p->wanted + done, n);
	forward_settle(f, p);
	const bool largest = by->largest && forward_wants_largest(b, p->wanted_row + done, n) &&
			     by->largest(&p->step, n, f->largest);
	if (!largest)
		by->head(&p->step, n, f->logits);
	if (forward_failed(f, e))
		return 1;
	p->wanted_done += n;
	const struct step_logits logits = {largest ? NULL : f->logits, f->largest};
	return b->read(b->ctx, p->wanted_row + done, n, &logits, e);
}

/* Computes all wanted logits into an array. Dead rows leave gaps: the others keep their places. */
static void forward_make_logits(struct forward *f, struct forward_pass *p)
{
	const struct backend *b = f->env.backend;
	float *to = p->logits ? p->logits : f->logits;
	for (uint32_t n; p->wanted_done < p->wanted_count; p->wanted_done += n) {
		const uint32_t *at = p->wanted_index + p->wanted_done;
		uint32_t left = p->wanted_count - p->wanted_done;
		for (n = 1; n < left && at[n] == at[n - 1] + 1;)
			n++;
		b->end(&p->step, TENSOR_FINAL_NORM, p->wanted + p->wanted_done, n);
		forward_settle(f, p);
		b->head(&p->step, n, to + (size_t)*at * f->env.config->vocabulary);
	}
}

/* Computes the final norm of all rows, if it is not there already, each row's where it stands in
 * the batch. */
static void forward_make_normed(struct forward_pass *p, bool there)
{
	struct step *s = &p->step;
	const struct backend *b = s->env->backend;
	size_t width = s->env->config->hidden_size;
	if (!there)
		b->end(s, TENSOR_FINAL_NORM, NULL, s->n);
	float *normed = b->normed(s->scratch);
	step_tap(s, TAP_NORMED, 0, (uint32_t)width, normed);
	for (uint32_t i = s->span_count; i-- > 0;) { /* the last first: each moves up */
		const struct step_span *span = &s->spans[i];
		if (span->first != span->origin)
			memmove(normed + span->origin * width, normed + span->first * width,
				span->n * width * sizeof *normed);
	}
}

/* ---- the pass ---- */

void forward_embed(struct step *s)
{
	struct err why;
	for (struct step_span *span = s->spans; span < s->spans + s->span_count; span++) {
		step_open(span);
		if (context_reserve(span->context, span->position + span->n, &why))
			step_kill(s, span, 0, SPAN_FAILED, &why);
	}
	s->env->backend->embed(s);
	if (s->died)
		step_close_up(s);
}

/* Shows the stream after `layers` layers to the tap. */
static void forward_tap(struct step *s, uint32_t layers)
{
	if (s->env->tap)
		step_tap(s, TAP_STATE, layers, config_stream_width(s->env->config),
			 s->env->backend->show(s));
}

/* Ends the pass: every context is after its rows, or, after an error of all of them, where it was. Where no
 * row is left before the last layer, the backend still keeps what the pass used.
 */
static int forward_end(struct forward *f, struct forward_pass *p, int failed, struct err *e)
{
	struct step *s = &p->step;
	if (!failed && p->backend == f->env.backend)
		forward_settle(f, p);
	for (uint32_t i = 0; i < s->span_count; i++) {
		if (failed)
			step_kill(s, &s->spans[i], 0, SPAN_FAILED, e);
		else
			step_close(s, &s->spans[i], p->tokens + s->spans[i].origin);
	}
	f->env.observer = NULL;
	p->batch = NULL;
	return failed ? failed : step_lost(s, e);
}

static int forward_check(const struct forward *f, const struct forward_pass *p,
			 const struct step_batch *b, const float *logits, struct err *e)
{
	uint32_t most = p->rows < f->chunk ? p->rows : f->chunk, wanted = forward_count_wanted(b);
	if (!b->count || b->count > most)
		return err_set(e, EINVAL,
			       "internal error: a step of %u rows, where 1 to %u are possible",
			       b->count, most);
	if (!logits && !b->read && wanted > HEAD_ROWS)
		return err_set(e, EINVAL,
			       "internal error: logits of %u rows, where there is room for %d",
			       wanted, HEAD_ROWS);
	return 0;
}

/* A text that passes the limit must have been known to from its beginning (context_suit). */
static int forward_check_long(const struct forward_pass *p, int spans, struct err *e)
{
	for (int i = 0; i < spans; i++) {
		const struct step_span *span = &p->spans[i];
		uint32_t end = span->position + span->n;
		if (!span->position)
			context_suit(span->context, span->context->long_text ? UINT32_MAX : end);
		if (context_is_long(span->context, end) && !span->context->long_text)
			return err_set(e, EINVAL,
				       "internal error: a text of %u positions was begun as one of "
				       "at most %u",
				       end, span->context->limit);
	}
	return spans;
}

int forward_begin(struct forward *f, struct forward_pass *p, const struct step_batch *b,
		  float *logits, struct err *e)
{
	int failed = forward_check(f, p, b, logits, e);
	if (!failed)
		failed = forward_ready(f, p, e);
	if (!failed)
		failed = forward_find_states(f, p, b, e);
	int spans = failed ? failed : step_find_spans(b, p->spans, e);
	if (spans > 0)
		spans = forward_check_long(p, spans, e);
	if (spans < 0)
		return spans;
	for (uint32_t t = 0; t < b->count; t++)
		p->tokens[t] = b->rows[t].token;
	p->batch = b;
	p->logits = logits;
	p->layer = 0;
	p->settled = false;
	p->wanted_count = p->wanted_done = 0;
	p->observer = p->spans->account ? p->spans->account->observer : NULL;
	p->step = forward_step(f, p, (uint32_t)spans);
	memset(p->untold, 0, (f->env.config->layers + f->env.config->draft) * sizeof *p->untold);
	p->step.clock = f->token_count += p->step.n;
	forward_embed(&p->step);
	for (uint32_t i = 0; i < p->step.span_count; i++) /* until all layers have moved on */
		p->step.spans[i].context->recurrent.spoiled = true;
	if (!p->step.n)
		return forward_end(f, p, 0, e);
	f->env.backend->begin(&p->step);
	forward_tap(&p->step, 0);
	return 1;
}

/* Ends spans that are to stop, and takes out of the stream what has died, if more layers follow. */
static void forward_bury(struct forward_pass *p)
{
	if (step_must_stop(&p->step))
		experts_report(&p->step, p->layer); /* rows that die have chosen, too */
	step_stop(&p->step);
	if (!p->step.died || p->layer >= p->step.env->config->layers)
		return;
	experts_report(&p->step, p->layer);
	step_close_up(&p->step);
}

/* Computes a layer or some of the outputs. 1: more are left. */
static int forward_run_piece(struct forward *f, struct forward_pass *p, struct err *e)
{
	struct step *s = &p->step;
	const struct config *c = f->env.config;
	if (p->layer < c->layers) {
		int failed = forward_layer(s, p->layer++, e);
		if (failed)
			return failed;
		forward_tap(s, p->layer);
		if (p->layer == c->layers)
			forward_list_wanted(p);
		return 1;
	}
	if (p->batch->read) {
		int failed = forward_give_logits(f, p, e);
		if (failed || p->wanted_done < p->wanted_count)
			return failed ? failed : 1;
	} else {
		forward_make_logits(f, p);
	}
	bool there = !p->batch->read && p->wanted_count == p->batch->count;
	if (p->batch->normed || (there && f->env.tap))
		forward_make_normed(p, there);
	return 0;
}

/* Computes a piece; by the next backend, from the step's beginning on, if this one fails. */
static int forward_try_piece(struct forward *f, struct forward_pass *p, struct err *e)
{
	struct err why;
	int more = forward_run_piece(f, p, e);
	if (!more)
		forward_settle(f, p);
	if (!forward_failed(f, &why)) {
		if (!more)
			experts_report(&p->step, p->layer);
		return more;
	}
	int failed = forward_fall_back(f, &why, e);
	return failed ? failed : forward_begin_again(f, p, e);
}

int forward_go_on(struct forward *f, struct forward_pass *p, uint32_t pieces, struct err *e)
{
	int more = p->backend == f->env.backend ? 1 : forward_begin_again(f, p, e);
	f->env.observer = p->observer;
	p->step.scratch = f->scratch; /* it may be a new one (forward_resize) */
	if (more > 0)
		forward_bury(p);
	while (more > 0 && p->step.n && pieces--) {
		more = forward_try_piece(f, p, e);
		if (more > 0)
			forward_bury(p);
	}
	f->env.observer = NULL;
	return more > 0 && p->step.n ? more : forward_end(f, p, more < 0 ? more : 0, e);
}

void forward_give_up(struct forward *f, struct forward_pass *p, const struct err *why)
{
	struct err e = *why;
	(void)forward_end(f, p, -why->code, &e);
}

int forward_run(struct forward *f, const struct step_batch *b, float *logits, struct err *e)
{
	struct forward_pass *p = &f->pass;
	int more = forward_begin(f, p, b, logits, e);
	return more > 0 ? forward_go_on(f, p, UINT32_MAX, e) : more;
}

float *forward_normed(struct forward *f)
{
	return f->env.backend->normed(f->scratch);
}

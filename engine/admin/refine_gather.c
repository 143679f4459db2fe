/* Sends a text through a model and gathers moments of the inputs. */
#include "cache/clock.h"
#include "engine/compute/step.h"
#include "engine/convert/moments.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/admin/refine_gather.h"
#include "engine/session/session_state.h"
#include "cache/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	WINDOW_BYTES = 2048, /* of a text at a time, some 500 tokens */
	WRITTEN_TOKENS = 256 /* of a window that the model writes */
};

/* ---- looking at inputs ---- */

struct gathering {
	struct model *model;
	struct moments *moments;
	struct session *session;
	const struct model_refining *asked;
	const char *folder;
	uint64_t weights;
};

struct addition {
	struct moments *moments;
	const struct kernels *kernels;
	int64_t sum;
	const float *x;
	const uint32_t *rows;
	uint32_t n;
};

static void gather_add_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct addition *a = ctx;
	moments_add(a->moments, a->kernels, a->sum, a->x, a->rows, a->n, begin, end);
}

static void gather_add(struct gathering *g, struct tensor_id id, const float *x,
		       const uint32_t *rows, uint32_t n)
{
	enum { GRAIN = 8 };
	struct addition a = {
		g->moments, g->model->engine->kernels, moments_find(g->moments, id), x, rows, n};
	if (a.sum >= 0 && n)
		threads_run(g->model->engine->threads, moments_cols(g->moments, a.sum), GRAIN,
			    gather_add_rows, &a);
}

static void gather_saw(void *ctx, struct tensor_id id, const float *x, uint32_t cols,
		       const uint32_t *rows, uint32_t n)
{
	struct gathering *g = ctx;
	(void)cols;
	if (moments_counts(g->moments, id.role))
		gather_add(g, id, x, rows, n);
}

/* ---- windows ---- */

/* How much of the text the next window has: to the end of a word, and of a character. */
static size_t gather_window_bytes(const char *text, size_t left)
{
	if (left <= WINDOW_BYTES)
		return left;
	size_t n = WINDOW_BYTES;
	while (n > WINDOW_BYTES / 2 && text[n] != ' ' && text[n] != '\n')
		n--;
	if (n > WINDOW_BYTES / 2)
		return n;
	return utf8_begin(text, WINDOW_BYTES);
}

/* Where window number i of a text begins; its length at the end. */
static size_t gather_window_at(const struct model_refining *r, uint64_t i)
{
	size_t at = 0;
	while (i-- && at < r->length)
		at += gather_window_bytes(r->text + at, r->length - at);
	return at;
}

static int gather_set_param(struct session *s, const char *name, const char *value, struct err *e)
{
	return session_param_set(s, params_find(name), value, strlen(value), e);
}

/* A token that begins a text of the model's own: another for each window, and always the same. */
static void gather_first_word(const struct gathering *g, uint64_t window, char *word, size_t size)
{
	const struct tokenizer *t = g->model->loaded.tokenizer;
	uint32_t all = g->model->id.config.vocabulary;
	for (uint64_t i = 0; i < all; i++) {
		size_t n;
		uint32_t id = (uint32_t)((window * 2654435761U + 12345 + i * 40503) % all);
		const char *bytes = tokenizer_bytes(t, id, false, &n);
		/* Neither is part of a prompt: one ends it in C, the other is taken off. */
		bool plain = n && !memchr(bytes, '\n', n) && !memchr(bytes, 0, n);
		if (plain && n < size && utf8_valid_length(bytes, n) == n) {
			(void)snprintf(word, size, "%.*s", (int)n, bytes);
			return;
		}
	}
	(void)snprintf(word, size, "The");
}

static int gather_begin_written(struct gathering *g, uint64_t window, struct err *e)
{
	char word[64], number[24];
	gather_first_word(g, window, word, sizeof word);
	(void)snprintf(number, sizeof number, "%" PRIu64, window + 1);
	int failed = session_reset(g->session, e);
	if (!failed)
		failed = gather_set_param(g->session, "seed", number, e);
	return failed ? failed : session_submit(g->session, word, strlen(word), NULL, e);
}

static bool gather_is_over(const struct gathering *g)
{
	const struct refining *r = &g->model->run->refining;
	return atomic_load(&r->stop) || (g->asked->idle && atomic_load(&r->yield));
}

static int gather_interrupted(struct err *e)
{
	return err_set(e, ECANCELED, "refining was interrupted; it continues next time");
}

/* What the session's turn ended with. */
static int gather_failure(const struct gathering *g, struct err *e)
{
	struct run *run = g->model->run;
	pthread_mutex_lock(&run->lock);
	*e = g->session->error;
	pthread_mutex_unlock(&run->lock);
	return e->code ? -e->code : err_set(e, EIO, "the text was not read to its end");
}

/* Waits until the turn has ended. The sums of a stopped turn are incomplete and not used. */
static int gather_finish_turn(struct gathering *g, struct err *e)
{
	const struct timespec moment = {.tv_nsec = 2000000};
	for (bool stopped = false; session_working(g->session); nanosleep(&moment, NULL))
		if (!stopped && gather_is_over(g)) {
			session_stop(g->session);
			stopped = true;
		}
	if (session_status(g->session) == SESSION_DONE)
		return 0;
	return gather_is_over(g) ? gather_interrupted(e) : gather_failure(g, e);
}

/* What was seen of other weights is not counted: an unloaded model takes the checkpoint as it is
 * when it is loaded again. */
static int gather_count_tokens(const struct gathering *g, struct err *e)
{
	struct session_stats st;
	if (g->session->weights_sum != g->weights)
		return err_set(e, ECANCELED,
			       "%s: was loaded with other weights during refining; refine it again",
			       g->model->id.name);
	session_stats(g->session, &st);
	moments_read_of(g->moments)->tokens += st.prompt_tokens + st.output_tokens;
	return 0;
}

static int gather_write_window(struct gathering *g, struct err *e)
{
	int failed = gather_is_over(g)
			     ? gather_interrupted(e)
			     : gather_begin_written(g, moments_read_of(g->moments)->windows, e);
	if (!failed)
		failed = gather_finish_turn(g, e);
	return failed ? failed : gather_count_tokens(g, e);
}

/* Where a text of n bytes is parted: in the middle, and between two characters. */
static size_t gather_middle(const char *text, size_t n)
{
	return utf8_begin(text, n / 2);
}

/* What has more tokens than the context holds is read in parts, as short as that takes. */
static int gather_read_part(struct gathering *g, const char *text, size_t n, struct err *e)
{
	if (n == 1 && *text == '\n') /* which is no text, but may be all that is left of one */
		return 0;
	int failed = gather_is_over(g) ? gather_interrupted(e)
				       : session_score(g->session, text, n, NULL, e);
	if (!failed)
		failed = gather_finish_turn(g, e);
	size_t half = failed == -EFBIG ? gather_middle(text, n) : 0;
	if (!half)
		return failed ? failed : gather_count_tokens(g, e);
	failed = gather_read_part(g, text, half, e);
	return failed ? failed : gather_read_part(g, text + half, n - half, e);
}

/* ---- the whole ---- */

static void gather_show(const struct gathering *g)
{
	const struct moments_read *r = moments_read_of(g->moments);
	atomic_store(&g->model->run->refining.progress.done, r->tokens);
}

/* Writes what was gathered now and then, so that writing takes a tenth of the time. */
static int gather_keep(struct gathering *g, uint64_t *kept_ns, uint64_t *cost_ns, struct err *e)
{
	uint64_t now = clock_ns();
	bool whole = moments_read_of(g->moments)->whole;
	if (!whole && now - *kept_ns < 10 * *cost_ns)
		return 0;
	int failed = moments_save(g->moments, g->folder, e);
	*kept_ns = clock_ns();
	*cost_ns = *kept_ns - now;
	return failed;
}

static int gather_read_all(struct gathering *g, struct err *e)
{
	const struct model_refining *asked = g->asked;
	struct moments_read *r = moments_read_of(g->moments);
	uint64_t kept_ns = clock_ns(), cost_ns = 0;
	size_t at = asked->text ? gather_window_at(asked, r->windows) : 0;
	int failed = 0;
	while (!r->whole && !failed) {
		size_t n =
			asked->text ? gather_window_bytes(asked->text + at, asked->length - at) : 1;
		if (n)
			failed = asked->text ? gather_read_part(g, asked->text + at, n, e)
					     : gather_write_window(g, e);
		if (failed)
			break;
		r->windows += n > 0;
		at += n;
		r->whole = r->tokens >= asked->tokens || (asked->text && at >= asked->length);
		gather_show(g);
		failed = gather_keep(g, &kept_ns, &cost_ns, e);
	}
	return failed;
}

static int gather_set_params(struct gathering *g, struct err *e)
{
	char tokens[16];
	(void)snprintf(tokens, sizeof tokens, "%d", WRITTEN_TOKENS);
	int failed = gather_set_param(g->session, "chat", "off", e);
	if (!failed)
		failed = gather_set_param(g->session, "temperature", "1", e);
	if (!failed)
		failed = gather_set_param(g->session, "draft", "off", e);
	if (!failed)
		failed = gather_set_param(g->session, "stop_repetition", "off", e);
	return failed ? failed : gather_set_param(g->session, "max_tokens", tokens, e);
}

int refine_gather(struct model *m, const struct model_refining *asked, uint64_t weights,
		  struct moments *moments, const char *folder, struct err *e)
{
	struct gathering g = {.model = m,
			      .moments = moments,
			      .asked = asked,
			      .folder = folder,
			      .weights = weights};
	const struct observer observer = {gather_saw, &g};
	struct convert_progress *p = &m->run->refining.progress;
	int failed = session_create(&g.session, m, NULL, NULL, e);
	if (failed)
		return failed;
	g.session->observer = &observer;
	g.session->background = asked->idle;
	atomic_store(&p->started_ns, clock_ns());
	atomic_store(&p->done, 0);
	atomic_store(&m->run->refining.gathering, true);
	atomic_store(&p->total, asked->tokens);
	failed = gather_set_params(&g, e);
	if (!failed)
		failed = gather_read_all(&g, e);
	atomic_store(&p->total, 0);
	atomic_store(&m->run->refining.gathering, false);
	session_end(g.session);
	return failed;
}

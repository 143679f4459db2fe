#include "engine/admin/refine_gather.h"
#include "cache/clock.h"
#include "cache/utf8.h"
#include "engine/admin/refine_turn.h"
#include "engine/compute/step.h"
#include "engine/convert/moments.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct gathering {
	struct model *model;
	struct moments *moments; /* that the current window adds to */
	struct session *session;
	uint64_t weights, tokens;
	float *rows; /* inputs that are not adjacent, brought together */
	size_t room;
	bool no_memory; /* for them: the sums are incomplete */
	/* Of each sum: rows of the current window that are in it; and rows of it that come again,
	 * because the window gave way to a turn before. */
	uint32_t *had, *again;
};

/* ---- looking at inputs ---- */

struct addition {
	struct moments *moments;
	const struct kernels *kernels;
	int64_t sum;
	const float *x;
	uint32_t n;
};

static void gather_add_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct addition *a = ctx;
	moments_add(a->moments, a->kernels, a->sum, a->x, a->n, begin, end);
}

/* x[rows[i]][cols] side by side; NULL: no memory. */
static const float *gather_pack(struct gathering *g, const float *x, uint32_t cols,
				const uint32_t *rows, uint32_t n)
{
	size_t floats = (size_t)n * cols;
	if (floats > g->room) {
		float *more = realloc(g->rows, floats * sizeof *more);
		if (!more)
			return NULL;
		g->rows = more;
		g->room = floats;
	}
	for (uint32_t i = 0; i < n; i++)
		memcpy(g->rows + (size_t)i * cols, x + (size_t)rows[i] * cols,
		       cols * sizeof *g->rows);
	return g->rows;
}

static void gather_saw(void *ctx, struct tensor_id id, const float *x, uint32_t cols,
		       const uint32_t *rows, uint32_t n)
{
	struct gathering *g = ctx;
	struct addition a = {g->moments, g->model->engine->kernels, -1, x, n};
	if (moments_counts(g->moments, id.role))
		a.sum = moments_find(g->moments, id);
	uint32_t again = a.sum < 0 ? 0 : g->again[a.sum], skipped = again < n ? again : n;
	if (a.sum < 0 || !n)
		return;
	g->again[a.sum] -= skipped;
	if (skipped == n)
		return;
	g->had[a.sum] += a.n = n - skipped;
	a.x = rows ? gather_pack(g, x, cols, rows + skipped, a.n) : x + (size_t)skipped * cols;
	if (a.x)
		threads_run(g->model->engine->threads, cols, MOMENTS_ROWS, gather_add_rows, &a);
	else
		g->no_memory = true;
}

/* ---- windows ---- */

/* What was seen of other weights is not counted: an unloaded model takes the checkpoint as it is
 * when it is loaded again. */
static int gather_count_tokens(struct gathering *g, struct err *e)
{
	struct session_stats st;
	if (g->session->weights_sum != g->weights)
		return err_set(e, ECANCELED,
			       "%s: was loaded with other weights during refining; refine it again",
			       g->model->id.name);
	session_stats(g->session, &st);
	g->tokens += st.prompt_tokens;
	return g->no_memory ? err_set(e, ENOMEM, "out of memory for inputs of experts") : 0;
}

/* Where a text of n bytes is parted: in the middle, and between two characters. */
static size_t gather_middle(const char *text, size_t n)
{
	return utf8_begin(text, n / 2);
}

/* A text, again where it gave way to a turn; not if the model was unloaded for that. */
static int gather_read(struct gathering *g, const char *text, size_t n, struct err *e)
{
	size_t bytes = moments_count(g->moments) * sizeof *g->had;
	int failed;
	memset(g->had, 0, bytes);
	memset(g->again, 0, bytes);
	do {
		failed = session_score(g->session, text, n, NULL, e);
		if (!failed)
			failed = refine_finish_turn(g->model, g->session, false, e);
		memcpy(g->again, g->had, bytes);
	} while (failed == -EAGAIN && refine_wait_quiet(g->model) &&
		 model_state(g->model) == MODEL_READY);
	return failed == -EAGAIN ? -(e->code = ECANCELED) : failed;
}

/* What has more tokens than the context holds is read in parts, as short as that takes. */
static int gather_read_part(struct gathering *g, const char *text, size_t n, struct err *e)
{
	/* Neither is a text, but the latter may be all that is left of one. */
	if (!n || (n == 1 && *text == '\n'))
		return 0;
	int failed = gather_read(g, text, n, e);
	size_t half = failed == -EFBIG ? gather_middle(text, n) : 0;
	if (!half)
		return failed ? failed : gather_count_tokens(g, e);
	failed = gather_read_part(g, text, half, e);
	return failed ? failed : gather_read_part(g, text + half, n - half, e);
}

static int gather_read_all(struct gathering *g, const struct refine_text *text,
			   struct moments *moments, struct moments *held, struct err *e)
{
	enum { HELD = 16 };
	int failed = 0;
	for (size_t i = 0; i < text->count && !failed; i++) {
		size_t n;
		g->moments = held && i % HELD == HELD - 1 ? held : moments;
		const char *window = refine_text_window(text, i, &n);
		failed = gather_read_part(g, window, n, e);
	}
	return failed;
}

int refine_gather(struct model *m, const struct refine_text *text, bool idle, uint64_t weights,
		  struct moments *moments, struct moments *held, uint64_t *tokens, struct err *e)
{
	struct gathering g = {.model = m, .moments = moments, .weights = weights};
	const struct observer observer = {gather_saw, &g};
	struct refining *r = &m->run->refining;
	int failed = session_create(&g.session, m, NULL, NULL, e);
	if (failed)
		return failed;
	g.session->observer = &observer;
	g.session->background = idle;
	g.had = calloc(moments_count(moments) + 1, sizeof *g.had);
	g.again = calloc(moments_count(moments) + 1, sizeof *g.again);
	atomic_store(&r->phase, REFINING_GATHERS);
	failed = g.had && g.again ? gather_read_all(&g, text, moments, held, e)
				  : err_set(e, ENOMEM, "out of memory for counts of inputs");
	atomic_store(&r->phase, REFINING_ROUNDS);
	session_end(g.session);
	free(g.had);
	free(g.again);
	free(g.rows);
	*tokens = g.tokens;
	return failed;
}

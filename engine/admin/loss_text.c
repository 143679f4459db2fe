/* The text that a loss is measured on: what the model writes after words of its vocabulary. */
#include "engine/admin/model_loss.h"
#include "cache/utf8.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WINDOW_TOKENS = 256 };

struct loss_writing {
	struct model *model;
	struct session *session;
	const _Atomic bool *stop;
};

static int loss_set_param(struct session *s, const char *name, const char *value, struct err *e)
{
	return session_param_set(s, params_find(name), value, strlen(value), e);
}

static int loss_set_params(struct session *s, struct err *e)
{
	static const char *const params[][2] = {
		{"chat", "off"}, {"temperature", "1"}, {"draft", "off"}, {"stop_repetition", "off"},
	};
	char most[16];
	(void)snprintf(most, sizeof most, "%d", WINDOW_TOKENS);
	int failed = loss_set_param(s, "max_tokens", most, e);
	for (size_t i = 0; i < sizeof params / sizeof *params && !failed; i++)
		failed = loss_set_param(s, params[i][0], params[i][1], e);
	return failed;
}

/* A token that begins a window: another for each, and always the same. */
static void loss_first_word(const struct loss_writing *w, uint32_t window, char *word, size_t size)
{
	const struct tokenizer *t = w->model->loaded.tokenizer;
	uint32_t all = w->model->id.config.vocabulary;
	for (uint32_t i = 0; i < all; i++) {
		size_t n;
		uint32_t id = (uint32_t)(((uint64_t)window * 2654435761U + 77 +
					  (uint64_t)i * 40503) %
					 all);
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

/* Waits until the turn has ended. */
static int loss_finish_turn(const struct loss_writing *w, struct err *e)
{
	const struct timespec moment = {.tv_nsec = 2000000};
	for (bool stopped = false; session_working(w->session); nanosleep(&moment, NULL))
		if (!stopped && atomic_load(w->stop)) {
			session_stop(w->session);
			stopped = true;
		}
	if (atomic_load(w->stop))
		return err_set(e, ECANCELED, "measuring the loss was interrupted");
	if (session_status(w->session) == SESSION_DONE)
		return 0;
	struct run *run = w->model->run;
	pthread_mutex_lock(&run->lock);
	*e = w->session->error;
	pthread_mutex_unlock(&run->lock);
	return e->code ? -e->code : err_set(e, EIO, "the model wrote no text");
}

static int loss_write_window(const struct loss_writing *w, uint32_t window, struct err *e)
{
	char word[64], seed[16];
	loss_first_word(w, window, word, sizeof word);
	(void)snprintf(seed, sizeof seed, "%" PRIu32, window + 1);
	int failed = atomic_load(w->stop) ? err_set(e, ECANCELED, "measuring the loss was "
								  "interrupted")
					  : session_reset(w->session, e);
	if (!failed)
		failed = loss_set_param(w->session, "seed", seed, e);
	if (!failed)
		failed = session_submit(w->session, word, strlen(word), NULL, e);
	return failed ? failed : loss_finish_turn(w, e);
}

/* Appends what the session's context holds, as far as there is room. */
static void loss_take_window(const struct loss_writing *w, struct loss_text *t)
{
	const struct token_list *ids = &w->session->context.tokens;
	uint32_t at = t->begin[t->windows], room = LOSS_TOKENS - at;
	uint32_t n = ids->count < room ? (uint32_t)ids->count : room;
	if (n < 2)
		return;
	memcpy(t->ids + at, ids->ids, n * sizeof *ids->ids);
	t->begin[++t->windows] = at + n;
}

static int loss_write_all(const struct loss_writing *w, struct loss_text *t, struct err *e)
{
	int failed = loss_set_params(w->session, e);
	for (uint32_t i = 0; i < LOSS_WINDOWS && LOSS_TOKENS - t->begin[t->windows] > 1 && !failed;
	     i++) {
		failed = loss_write_window(w, i, e);
		if (!failed)
			loss_take_window(w, t);
	}
	return failed || t->windows
		       ? failed
		       : err_set(e, ENODATA, "%s: the model writes no text of its own",
				 w->model->id.name);
}

int loss_write_text(struct model *m, bool idle, struct loss_text *out, struct err *e)
{
	struct refining *r = &m->run->refining;
	struct loss_writing w = {.model = m, .stop = idle ? &r->yield : &r->stop};
	out->windows = 0;
	out->begin[0] = 0;
	int failed = session_create(&w.session, m, NULL, NULL, e);
	if (failed)
		return failed;
	w.session->background = idle;
	failed = loss_write_all(&w, out, e);
	session_end(w.session);
	return failed;
}

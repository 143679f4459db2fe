#include "tests/bench/divergence.h"
#include "engine/admin/loss_compare.h"
#include "tests/bench/text.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WINDOW = 512 };

/* ---- corpus ---- */

static int add_passage(struct corpus *c, struct passage p, struct err *e)
{
	struct passage *more = reallocarray(c->passages, c->count + 1, sizeof *more);
	if (!more)
		return err_set(e, ENOMEM, "out of memory for a list of passages");
	c->passages = more;
	c->passages[c->count++] = p;
	c->predicted += p.count - p.counted;
	return 0;
}

int corpus_add_text(struct corpus *c, const struct model_view *m, const char *path, uint64_t tokens,
		    struct err *e)
{
	int failed = text_read_ids(&c->ids, m, path, tokens, e);
	for (size_t at = 0; at + 1 < c->ids.count && !failed; at += WINDOW) {
		size_t left = c->ids.count - at;
		failed = add_passage(c, (struct passage){at, left < WINDOW ? left : WINDOW, 1}, e);
	}
	return failed;
}

static const char *member(struct json_object *turn, const char *key)
{
	struct json_object *value;
	return json_object_object_get_ex(turn, key, &value) ? json_object_get_string(value) : NULL;
}

/* Appends the conversation's ids: all of it, or up to where the model answers. */
static int encode(const struct model_view *m, const struct messages *messages, bool answer,
		  struct token_list *ids, struct err *e)
{
	static const struct tm clock = {.tm_year = 126, .tm_mday = 1};
	struct chat_input in = {.messages = messages, .clock = &clock, .answer = answer};
	return chat_encode(m->chat, &in, NULL, ids, e);
}

/* A question and its answer as the model was trained to see them; the answer is predicted. */
static int add_turn(struct corpus *c, const struct model_view *m, const char *line, struct err *e)
{
	struct json_object *turn = json_tokener_parse(line);
	const char *question = member(turn, "question"), *answer = member(turn, "answer");
	struct passage p = {.first = c->ids.count};
	struct messages messages = {0};
	struct token_list asked = {0};
	int failed =
		question && answer ? 0 : err_set(e, EINVAL, "no question and answer in: %s", line);
	if (!failed)
		failed = messages_add(&messages, "user", question, strlen(question), e);
	if (!failed)
		failed = encode(m, &messages, true, &asked, e);
	if (!failed)
		failed = messages_add(&messages, "assistant", answer, strlen(answer), e);
	if (!failed)
		failed = encode(m, &messages, false, &c->ids, e);
	json_object_put(turn);
	messages_free(&messages);
	p.counted = asked.count;
	token_list_free(&asked);
	p.count = c->ids.count - p.first;
	return failed ? failed : add_passage(c, p, e);
}

int corpus_add_turns(struct corpus *c, const struct model_view *m, const char *path,
		     uint64_t tokens, struct err *e)
{
	char *text, *rest;
	size_t length;
	int failed = text_read(path, &text, &length, e);
	if (!failed && !m->chat)
		failed = err_set(e, ENOTSUP, "%s: the model has no chat", path);
	char *line = failed ? NULL : strtok_r(text, "\n", &rest);
	for (; line && !failed && c->ids.count < tokens; line = strtok_r(NULL, "\n", &rest))
		failed = add_turn(c, m, line, e);
	free(text);
	return failed;
}

void corpus_free(struct corpus *c)
{
	token_list_free(&c->ids);
	free(c->passages);
	free(c->exact);
	*c = (struct corpus){0};
}

/* ---- the model ---- */

void mount_close(struct mount *m)
{
	free(m->logits);
	context_free(&m->context);
	step_batch_free(&m->batch);
	model_close(m->model);
	engine_destroy(m->engine);
	*m = (struct mount){0};
}

/* A conversion would disturb the measurement, and before its end only the model's own thread may
 * compute, so loading may have to begin again. */
int mount_wait(struct model *m, struct err *e)
{
	struct model_progress p;
	int failed = model_wait(m, e);
	for (model_progress(m, &p); p.total && !failed; model_progress(m, &p)) {
		if (!strcmp(p.doing, "stopped")) {
			model_error(m, e->text, sizeof e->text);
			failed = -EIO;
		}
		(void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
	return failed ? failed : model_wait(m, e);
}

int mount_open(struct mount *m, const struct mount_options *o, struct err *e)
{
	char quant[64];
	(void)snprintf(quant, sizeof quant, "%s", o->quant);
	char *kv = strchr(quant, ':');
	if (kv)
		*kv++ = '\0';
	const struct engine_options options = {
		.budget = o->budget ? o->budget : UINT64_C(1) << 40,
		.context_budget = UINT64_C(1) << 40, /* what it takes */
		.threads = (uint32_t)o->threads,
		.chunk = DIVERGENCE_CHUNK,
		.quant = quant,
		.kv = kv,
		.codec = "none",
		.store = o->store,
	};
	int failed = engine_create(&m->engine, &options, e);
	if (!failed)
		failed = model_open(&m->model, m->engine, o->directory, e);
	if (!failed)
		failed = mount_wait(m->model, e);
	if (failed)
		return failed;
	observe_model(m->model, &m->view);
	const struct config *c = m->view.config;
	context_init(&m->context, m->view.context_budget, c, m->view.kv);
	m->logits = calloc((size_t)DIVERGENCE_CHUNK * c->vocabulary, sizeof *m->logits);
	return m->logits ? 0 : err_set(e, ENOMEM, "out of memory for logits");
}

/* ---- measuring ---- */

/* What is kept of the exact model: compared with, or written. */
struct reading {
	float *exact; /* the next token's */
	bool keep;    /* they are what this model says */
	struct divergence sums;
	double squares; /* of each token's nats */
	bool all_same;	/* in this passage, so far */
};

/* now: logarithms of probabilities, of which `best` is the likeliest. */
static void compare(struct reading *r, const float *now, uint32_t best, uint32_t n)
{
	const float *exact = r->exact;
	bool same = true;
	double nats = 0;
	for (uint32_t i = 0; i < n; i++) {
		nats += expf(exact[i]) * ((double)exact[i] - now[i]);
		same &= exact[i] <= exact[best];
	}
	r->sums.nats += nats;
	r->squares += nats * nats;
	r->sums.same += same;
	r->all_same &= same;
}

/* Of a passage's tokens [first, first + n), whose rows are given. */
static void take_rows(struct reading *r, const struct corpus *c, const struct passage *p,
		      size_t first, size_t n, float *logits, uint32_t vocabulary)
{
	for (size_t t = 0; t < n; t++, logits += vocabulary) {
		size_t next = first + t + 1;
		if (next < p->counted || next >= p->count)
			continue;
		uint32_t best = loss_normalise(logits, logits, vocabulary);
		r->sums.nll -= logits[c->ids.ids[p->first + next]];
		if (r->keep)
			memcpy(r->exact, logits, vocabulary * sizeof *logits);
		compare(r, logits, best, vocabulary);
		r->exact += vocabulary;
	}
}

static int predict_passage(struct reading *r, const struct corpus *c, const struct passage *p,
			   struct mount *m, struct err *e)
{
	const struct step_row row = {.context = &m->context, .logits = true};
	context_rollback(&m->context, 0);
	context_suit(&m->context, p->count);
	r->all_same = true;
	for (size_t done = 0, n; done < p->count; done += n) {
		n = p->count - done < DIVERGENCE_CHUNK ? p->count - done : DIVERGENCE_CHUNK;
		step_batch_clear(&m->batch);
		int failed = step_batch_add(&m->batch, &row, c->ids.ids + p->first + done,
					    (uint32_t)n, e);
		if (!failed)
			failed = forward_run(m->view.forward, &m->batch, m->logits, e);
		if (failed)
			return failed;
		take_rows(r, c, p, done, n, m->logits, m->view.config->vocabulary);
	}
	r->sums.kept += r->all_same;
	return 0;
}

static int predict(struct corpus *c, struct mount *m, bool keep, struct divergence *d,
		   struct err *e)
{
	struct reading r = {.exact = c->exact, .keep = keep};
	int failed = 0;
	for (size_t i = 0; i < c->count && !failed; i++)
		failed = predict_passage(&r, c, &c->passages[i], m, e);
	double n = (double)c->predicted, mean = r.sums.nats / n;
	double variance = fmax(r.squares / n - mean * mean, 0);
	*d = (struct divergence){mean, sqrt(variance / n), r.sums.same / n, r.sums.nll / n,
				 r.sums.kept / (double)c->count};
	return failed;
}

int corpus_keep_exact(struct corpus *c, struct mount *exact, struct divergence *d, struct err *e)
{
	free(c->exact);
	c->exact = calloc(c->predicted, (size_t)exact->view.config->vocabulary * sizeof *c->exact);
	return c->exact ? predict(c, exact, true, d, e)
			: err_set(e, ENOMEM,
				  "out of memory for %zu tokens' probabilities; ask for fewer with "
				  "--tokens",
				  c->predicted);
}

int corpus_diverge(struct corpus *c, struct mount *m, struct divergence *d, struct err *e)
{
	return predict(c, m, false, d, e);
}

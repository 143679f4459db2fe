/* One step of a model: the only place that calls the forward pass.
 *
 * Sessions that are generating answers share a step, so that each weight is read once for all of
 * them. A prompt, a text to score, the beginning of a turn, and a background session get steps
 * alone. run_choice.c chooses the next step. During a prompt's step, answers get a step between two
 * of its layers whenever they would otherwise wait longer than -o step_ms=. The prompt's steps are
 * short enough that one layer does not take longer than this. So a running answer waits for that
 * time at most, or for the reads of one layer. (When the answers' own step counted in that time, an
 * answer beside a prompt of 8,000 tokens on moe16 had pauses of 81 ms instead of 123 ms, but the
 * prompt had 53 % of its speed instead of 70 %.)
 *
 * The text of a session does not depend on the other sessions in a step: each row of a batch is
 * computed as it would be alone (promise 2). */
#include "cache/clock.h"
#include "engine/compute/threads.h"
#include "engine/model/chunk.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"

#include <time.h>

_Static_assert((int)RUN_PLACES <= (int)DRAFT_TURNS, "a step's answers are drafted together");

/* Declared here, since a step between two layers of another step also calls it. */
static void run_have_step(struct model *m, struct run_party *p, bool slowly);

/* Lock held. Models share the compute threads by priority. A step has the highest priority of its
 * sessions. */
static void run_weigh(struct model *m, const struct run_party *p)
{
	enum session_priority highest = SESSION_LOW;
	for (uint32_t i = 0; i < p->count; i++) {
		const struct session *s = p->places[i].session;
		if (!s->background && s->asked.params.priority > highest)
			highest = s->asked.params.priority;
	}
	threads_weigh(m->loaded.threads, shares_weight(highest));
}

/* ---- computing, without the lock ---- */

/* How long a prompt may delay the next step of answers, in seconds. */
static double run_answers_wait(const struct model *m)
{
	return m->engine->options.step_ms * 1e-3;
}

/* How many rows a prompt's step may have while answers wait: so many that an average layer takes
 * only a part of the allowed delay, since some layers take longer. */
static uint32_t run_most_rows(const struct model *m)
{
	static const double part = 0.8;
	enum { LEAST = 16, UNKNOWN = 64 };
	double rows = part * run_answers_wait(m) / m->run->layer_seconds;
	if (!(m->run->layer_seconds > 0))
		return UNKNOWN;
	return rows < LEAST ? LEAST : rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX;
}

/* Learns the time of a layer per row, as a fading mean over layers. The time of a layer that is far
 * above the mean is reduced, since the layer may have lost its processors. (Without this, a slow
 * layer made the next step too short, and the fast layers of that step made the one after it too
 * long.) */
static void run_learn_layer(struct run *r, double seconds)
{
	static const double weight = 0.1, far_more = 1.5;
	double known = r->layer_seconds;
	if (known > 0 && seconds > far_more * known)
		seconds = far_more * known;
	r->layer_seconds = known > 0 ? known + weight * (seconds - known) : seconds;
}

/* Computes a step of answers between two layers of a prompt. */
static void run_answer_meanwhile(struct model *m)
{
	struct run *r = m->run;
	struct run_party *p = &r->parties[1];
	struct pager_stats *outer = &r->parties[0].step.before;
	pthread_mutex_lock(&r->lock);
	run_gather_answers(m, p);
	bool any = p->count;
	if (any) {
		run_have_step(m, p, false);
		run_weigh(m, &r->parties[0]);
	}
	pthread_mutex_unlock(&r->lock);
	if (!any)
		return;
	r->answered_ns = clock_ns();
	outer->bytes_read += p->step.after.bytes_read - p->step.before.bytes_read;
	outer->wait_ns += p->step.after.wait_ns - p->step.before.wait_ns;
}

/* Computes the next layer of a prompt's pass, and learns its time per row without reads of experts,
 * since shorter steps would only read experts more often. *seconds: the layer's time including
 * reads.
 */
static int run_next_layer(struct model *m, uint32_t rows, double *seconds, struct err *e)
{
	struct forward_pass *pass = &m->loaded.pass;
	struct pager_stats before, after;
	bool layer = pass->layer < m->id.config.layers; /* else: the output head */
	uint64_t started = clock_ns();
	model_cache_stats(m, &before);
	int more = forward_go_on(&m->loaded.forward, pass, 1, e);
	model_cache_stats(m, &after);
	*seconds = clock_seconds_since(started);
	if (layer)
		run_learn_layer(m->run,
				(*seconds - (double)(after.wait_ns - before.wait_ns) * 1e-9) /
					rows);
	return more;
}

/* Computes a prompt's rows layer by layer, with steps of answers in between. */
static int run_forward_slowly(struct model *m, struct run_party *p, struct err *e)
{
	double seconds;
	int more = forward_begin(&m->loaded.forward, &m->loaded.pass, &p->batch, NULL, e);
	while (more > 0) {
		more = run_next_layer(m, p->batch.count, &seconds, e);
		if (more > 0 &&
		    clock_seconds_since(m->run->answered_ns) + seconds >= run_answers_wait(m))
			run_answer_meanwhile(m);
	}
	return more;
}

static int run_forward(struct model *m, struct run_party *p, bool slowly, struct err *e)
{
	int failed = run_make_scratch(m, e);
	if (failed)
		return failed;
	return slowly ? run_forward_slowly(m, p, e)
		      : forward_run(&m->loaded.forward, &p->batch, NULL, e);
}

static void run_compute(struct model *m, struct run_party *p, bool slowly)
{
	struct step_batch *b = &p->batch;
	struct err e = {0};
	uint32_t most = slowly ? run_most_rows(m) : UINT32_MAX;
	int failed = 0;
	step_batch_clear(b);
	b->normed = false;
	b->read = run_take_logits;
	b->ctx = p;
	for (uint32_t i = 0; i < p->count; i++)
		if (p->places[i].computes)
			run_collect_place(&p->places[i], most, b);
	if (b->count)
		failed = run_forward(m, p, slowly, &e);
	p->step.seconds = clock_seconds_since(p->step.started_ns);
	for (uint32_t i = 0; i < p->count; i++)
		if (p->places[i].computes)
			run_settle_place(&p->places[i], failed, &e);
}

/* Other threads may read the context of a turn that is over. */
static void run_bring_states(struct model *m, const struct run_party *p)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (p->places[i].event.finish)
			forward_bring_state(&m->loaded.forward, &p->places[i].session->context);
}

static void run_compute_step(struct model *m, struct run_party *p, bool slowly)
{
	struct draft_step drafts = {0};
	model_cache_stats(m, &p->step.before);
	for (uint32_t i = 0; i < p->count; i++) {
		struct run_place *place = &p->places[i];
		run_begin_place(place);
		if (place->computes && place->session->turn->step.kind == ROW_ANSWER)
			drafts.turns[drafts.count++] = place->session->turn;
	}
	draft_propose(&drafts, m->loaded.forward.chunk);
	p->step.started_ns = clock_ns();
	run_compute(m, p, slowly);
	draft_count(&drafts, clock_seconds_since(p->step.started_ns));
	run_bring_states(m, p);
	model_cache_stats(m, &p->step.after);
}

/* ---- afterwards ---- */

/* Lock held. */
static void run_publish(struct run_party *p)
{
	uint64_t reads = 0;
	for (uint32_t i = 0; i < p->count; i++)
		reads += run_cost_of(p->places[i].session).reads - p->places[i].before.reads;
	for (uint32_t i = 0; i < p->count; i++)
		run_publish_place(&p->places[i], &p->step, reads);
}

/* Lock held. Queues sessions whose turn continues again, in the same order. A turn that has just
 * begun goes to the front, since it has no rows yet. A session whose turn is over may have a new
 * turn by now, and is queued for that. */
static void run_leave_places(struct run_party *p)
{
	struct run *r = p->run;
	for (uint32_t i = 0; i < p->count; i++) {
		struct session *s = p->places[i].session;
		s->stepping = false;
		if (s->ended)
			session_drop(s);
		else if (!p->places[i].over && p->places[i].begins && !s->background)
			run_queue_first(s);
		else if (!p->places[i].over)
			run_queue(s);
	}
	if (r->unprepared.first) /* one of the sessions may have a new turn */
		pthread_cond_signal(&r->prepare);
	p->count = 0;
}

/* Lock held, released meanwhile. Computes the step of a party. slowly: it is a prompt's step, and
 * answers wait.
 */
static void run_have_step(struct model *m, struct run_party *p, bool slowly)
{
	struct run *r = m->run;
	run_weigh(m, p);
	pthread_mutex_unlock(&r->lock);
	run_compute_step(m, p, slowly);
	pthread_mutex_lock(&r->lock);
	run_publish(p);
	pthread_mutex_unlock(&r->lock);
	run_write_leaving(m);
	for (uint32_t i = 0; i < p->count; i++)
		run_notify(p->places[i].session);
	pthread_mutex_lock(&r->lock);
	r->asked_ns = clock_ns();
	run_leave_places(p);
}

/* Lock held, released meanwhile. Frees the memory of long steps when no prompt needs it. */
static void run_shorten_steps(struct model *m)
{
	if (!m->loaded.scratch.bytes)
		return;
	for (const struct session *s = m->run->all; s; s = s->all_next)
		if (s->working && (s->status == SESSION_QUEUED || s->status == SESSION_PROMPTING))
			return;
	pthread_mutex_unlock(&m->run->lock);
	chunk_end(m);
	pthread_mutex_lock(&m->run->lock);
}

/* Lock held. */
static bool run_can_be_read(const struct session *s)
{
	bool complete;
	return s->answer && answer_size(s->answer, &complete);
}

/* Lock held, released meanwhile. Sleeps for a moment, so that an answer's first bytes reach their
 * reader early. Two threads have to run for this: the event loop, then the reader. If compute
 * threads occupy all processors, the scheduler may let these two wait for its next tick,
 * milliseconds later. Done once per answer, and not if other sessions wait for a step. */
static void run_give_way(struct model *m, const struct session *s)
{
	static const struct timespec MOMENT = {0, 300000};
	if (m->run->runnable.first != s || s->next)
		return;
	pthread_mutex_unlock(&m->run->lock);
	nanosleep(&MOMENT, NULL);
	pthread_mutex_lock(&m->run->lock);
}

/* Lock held, released meanwhile. */
static void run_step_answers(struct model *m)
{
	struct run *r = m->run;
	run_gather_answers(m, &r->parties[0]);
	run_have_step(m, &r->parties[0], false);
	r->answered_ns = clock_ns();
	r->alone = 0;
}

/* Lock held, released meanwhile. Computes a step of one session alone. */
static void run_step_alone(struct model *m, struct session *s)
{
	struct run *r = m->run;
	struct run_party *p = &r->parties[0];
	enum session_priority priority = s->asked.params.priority;
	bool slowly = s->turn->admitted && run_has_answers(r);
	run_take_place(p, s);
	run_have_step(m, p, slowly);
	shares_count(&r->prompts, priority, p->batch.count ? p->batch.count : 1);
	r->alone++;
}

void run_step(struct model *m)
{
	struct run *r = m->run;
	struct session *alone = run_next_alone(r), *first = alone ? alone : run_first_answer(r);
	bool began = run_can_be_read(first);
	if (alone)
		run_step_alone(m, alone);
	else
		run_step_answers(m);
	if (!began && r->runnable.first == first && run_can_be_read(first))
		run_give_way(m, first);
	if (!run_works(r)) /* the trace is complete for now: wake its readers */
		trace_ring_tell(&r->tracing.ring);
	run_shorten_steps(m);
}

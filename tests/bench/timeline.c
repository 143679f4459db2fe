/* See timeline.h. Each microsecond of each thread is in one class. Between loops all threads are in
 * the class of the stage that the caller computes alone; of a loop a thread has what came before
 * its first piece, its pieces, what lies between them, and what came after its last. */
#include "tests/bench/timeline.h"
#include "engine/cpu/layers.h"
#include "engine/compute/sampler.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

/* What one thread does while the others have nothing to do. */
enum stage {
	STAGE_OTHER,
	STAGE_NORMS,
	STAGE_INPUTS,
	STAGE_HEADS,
	STAGE_LOOK_BACK,
	STAGE_MIXER,
	STAGE_ROUTING,
	STAGE_PAGER,
	STAGE_LOCK,
	STAGE_EXPERTS,
	STAGE_DENSE,
	STAGE_SAMPLING,
	STAGE_LOOP, /* all threads */
	STAGES
};
static const char *const stage_names[STAGES] = {
	[STAGE_OTHER] = "embedding, adding, all else",
	[STAGE_NORMS] = "norms",
	[STAGE_INPUTS] = "inputs in 8 bits",
	[STAGE_HEADS] = "attention: heads' norms, rotary positions, keys",
	[STAGE_LOOK_BACK] = "attention: looking back",
	[STAGE_MIXER] = "latent attention, delta nets",
	[STAGE_ROUTING] = "routing",
	[STAGE_PAGER] = "pager",
	[STAGE_LOCK] = "pager's lock",
	[STAGE_EXPERTS] = "experts: summing",
	[STAGE_DENSE] = "dense feed-forward",
	[STAGE_SAMPLING] = "sampling",
};

/* What a thread does in a loop. */
enum share { IN_PIECE, AT_START, WOKEN, BETWEEN, AT_TAIL, NOTHING, ASLEEP, SHARES };
static const char *const share_names[SHARES] = {
	[IN_PIECE] = "in a piece",
	[AT_START] = "awake, before the first piece",
	[WOKEN] = "woken, before the first piece",
	[BETWEEN] = "between pieces",
	[AT_TAIL] = "after the last piece",
	[NOTHING] = "awake, no piece left",
	[ASLEEP] = "asleep, no piece left",
};

enum { TIMELINE_THREADS = 1024, TIMELINE_LOOPS = 64 };

/* A thread in the loop of this number. Its own, but the caller reads it when the loop has ended. */
struct slot {
	_Alignas(64) uint64_t loop;
	double first, last, busy;
	uint32_t pieces;
	_Atomic double woke; /* when its last sleep ended */
	_Atomic bool asleep;
};

/* Loops of one function in one stage. */
struct loops {
	threads_fn *fn;
	enum stage stage;
	uint64_t count, pieces;
	double share[SHARES]; /* seconds of all threads */
};

static struct {
	_Atomic bool on;
	uint32_t threads, tokens;
	enum stage stage;
	double since, begun, seconds, alone[STAGES];
	uint64_t loop;
	struct loops loops[TIMELINE_LOOPS];
	uint32_t loops_count;
	_Atomic uint32_t slots;
	struct slot slot[TIMELINE_THREADS];
} line;

static _Thread_local bool is_caller;
static _Thread_local struct slot *own_slot;

static struct slot *timeline_slot(void)
{
	if (!own_slot) {
		uint32_t i = atomic_fetch_add(&line.slots, 1);
		own_slot = &line.slot[i < TIMELINE_THREADS ? i : TIMELINE_THREADS - 1];
	}
	return own_slot;
}

void timeline_begin(uint32_t threads)
{
	line.threads = threads;
	line.stage = STAGE_OTHER;
	line.since = line.begun = seconds_now();
	is_caller = true;
	(void)timeline_slot();
	atomic_store(&line.on, true);
}

void timeline_end(uint32_t tokens)
{
	atomic_store(&line.on, false);
	is_caller = false;
	line.seconds += seconds_now() - line.begun;
	line.alone[line.stage] += seconds_now() - line.since;
	line.tokens += tokens;
}

/* ---- stages ---- */

/* The caller's next stage; returns the one that it leaves. */
static enum stage timeline_go(enum stage next)
{
	enum stage before = line.stage;
	if (!is_caller)
		return before;
	double now = seconds_now();
	line.alone[before] += now - line.since;
	line.since = now;
	line.stage = next;
	return before;
}

/* A function of the engine that is a stage, as the linker calls it, and what is called instead. */
#define STAGE_VOID(its, name, parameters, arguments)        \
	__typeof__(name) __real_##name, __wrap_##name;      \
	void __wrap_##name parameters                       \
	{                                                   \
		enum stage before_its = timeline_go(its);   \
		__real_##name arguments;                    \
		timeline_go(before_its);                    \
	}
#define STAGE_VALUE(its, type, name, parameters, arguments) \
	__typeof__(name) __real_##name, __wrap_##name;      \
	type __wrap_##name parameters                       \
	{                                                   \
		enum stage before_its = timeline_go(its);   \
		type value = __real_##name arguments;       \
		timeline_go(before_its);                    \
		return value;                               \
	}

STAGE_VOID(STAGE_NORMS, activation_norm,
	   (const struct step *s, float *to, const float *from, const uint32_t *rows,
	    const float *weight, uint32_t n),
	   (s, to, from, rows, weight, n))
STAGE_VOID(STAGE_INPUTS, activation_prepare,
	   (const struct environment *env, struct activation *a, uint32_t n, enum format format),
	   (env, a, n, format))
STAGE_VOID(STAGE_HEADS, attention_run, (struct step *s, uint32_t layer), (s, layer))
STAGE_VOID(STAGE_LOOK_BACK, look_back_run, (struct look_scratch *s, const struct look *look),
	   (s, look))
STAGE_VOID(STAGE_MIXER, latent_run, (struct step *s, uint32_t layer), (s, layer))
STAGE_VOID(STAGE_ROUTING, routing_choose, (struct step *s, uint32_t layer), (s, layer))
STAGE_VOID(STAGE_ROUTING, routing_predict, (struct step *s, uint32_t layer), (s, layer))
STAGE_VALUE(STAGE_EXPERTS, int, experts_run, (struct step *s, uint32_t layer, struct err *e),
	    (s, layer, e))
STAGE_VOID(STAGE_DENSE, dense_run, (struct step *s, uint32_t layer), (s, layer))
STAGE_VALUE(STAGE_PAGER, int, pager_begin,
	    (struct pager_batch *b, struct pager_source *s, uint32_t layer,
	     const uint32_t *experts, const float *credit, uint32_t n, uint64_t token,
	     struct err *e),
	    (b, s, layer, experts, credit, n, token, e))
STAGE_VALUE(STAGE_PAGER, int, pager_next,
	    (struct pager_batch *b, struct pager_ready *ready, uint32_t most, struct err *e),
	    (b, ready, most, e))
STAGE_VOID(STAGE_PAGER, pager_put, (struct pager_batch *b, const struct pager_ready *ready),
	   (b, ready))
STAGE_VOID(STAGE_PAGER, pager_end, (struct pager_batch *b), (b))
STAGE_VALUE(STAGE_SAMPLING, uint32_t, sampler_draw,
	    (struct sampler *s, const float *logits, const struct sampling *how, uint64_t n),
	    (s, logits, how, n))

__typeof__(pthread_mutex_lock) __real_pthread_mutex_lock, __wrap_pthread_mutex_lock;
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
	if (!is_caller || line.stage != STAGE_PAGER)
		return __real_pthread_mutex_lock(lock);
	timeline_go(STAGE_LOCK);
	int failed = __real_pthread_mutex_lock(lock);
	timeline_go(STAGE_PAGER);
	return failed;
}

/* ---- sleep ---- */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list list;
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	bool sleeps = own_slot && number == SYS_futex && (int)a[1] == FUTEX_WAIT_PRIVATE;
	if (sleeps)
		atomic_store_explicit(&own_slot->asleep, true, memory_order_relaxed);
	long result = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (sleeps) {
		atomic_store_explicit(&own_slot->woke, seconds_now(), memory_order_relaxed);
		atomic_store_explicit(&own_slot->asleep, false, memory_order_relaxed);
	}
	return result;
}

/* ---- loops ---- */

struct traced {
	threads_fn *fn;
	void *ctx;
	uint64_t loop;
};

static void timeline_piece(void *ctx, uint32_t begin, uint32_t end)
{
	const struct traced *t = ctx;
	struct slot *s = timeline_slot();
	double now = seconds_now();
	if (s->loop != t->loop) {
		s->loop = t->loop;
		s->first = now;
		s->busy = 0;
		s->pieces = 0;
	}
	t->fn(t->ctx, begin, end);
	s->last = seconds_now();
	s->busy += s->last - now;
	s->pieces++;
}

static struct loops *timeline_loops(threads_fn *fn, enum stage stage)
{
	for (uint32_t i = 0; i < line.loops_count; i++)
		if (line.loops[i].fn == fn && line.loops[i].stage == stage)
			return &line.loops[i];
	struct loops *l =
		&line.loops[line.loops_count < TIMELINE_LOOPS - 1 ? line.loops_count++
								   : TIMELINE_LOOPS - 1];
	l->fn = fn;
	l->stage = stage;
	return l;
}

/* The loop is over: what each thread did in it. */
static void timeline_count(struct loops *l, double begun, double ended)
{
	uint32_t known = atomic_load(&line.slots);
	l->count++;
	for (uint32_t i = 0; i < line.threads; i++) {
		const struct slot *s = &line.slot[i];
		double woke = atomic_load_explicit(&s->woke, memory_order_relaxed);
		bool asleep = atomic_load_explicit(&s->asleep, memory_order_relaxed);
		if (i >= known || s->loop != line.loop) {
			bool slept = i >= known || asleep || woke > begun;
			l->share[slept ? ASLEEP : NOTHING] += ended - begun;
			continue;
		}
		bool woken = woke > begun && woke < s->first;
		l->share[woken ? WOKEN : AT_START] += s->first - begun;
		l->share[IN_PIECE] += s->busy;
		l->share[BETWEEN] += s->last - s->first - s->busy;
		l->share[AT_TAIL] += ended - s->last;
		l->pieces += s->pieces;
	}
}

__typeof__(threads_run) __real_threads_run, __wrap_threads_run;
void __wrap_threads_run(struct threads *t, uint32_t items, uint32_t grain, threads_fn *fn,
			void *ctx)
{
	/* What one piece would hold is the caller's alone. */
	if (!is_caller || (items <= grain && line.threads > 1)) {
		__real_threads_run(t, items, grain, fn, ctx);
		return;
	}
	struct traced traced = {fn, ctx, ++line.loop};
	enum stage stage = timeline_go(STAGE_LOOP);
	double begun = line.since;
	__real_threads_run(t, items, grain, timeline_piece, &traced);
	timeline_go(stage);
	timeline_count(timeline_loops(fn, stage), begun, line.since);
}

/* ---- the report ---- */

static void timeline_row(struct table *t, const char *class, double seconds)
{
	table_text(t, class);
	table_number(t, 1e6 * seconds / line.tokens);
	table_number(t, 100 * seconds / line.seconds);
}

static void timeline_report_classes(struct report *r)
{
	static const struct column columns[] = {
		{"class", "class", -1}, {"us_per_token", "µs a token", 1}, {"percent", "%", 1}};
	struct table t;
	table_begin(&t, r, "timeline", "where a token's time goes, the mean of its threads",
		    columns, sizeof columns / sizeof *columns);
	for (enum share s = 0; s < SHARES; s++) {
		double seconds = 0;
		for (uint32_t i = 0; i < line.loops_count; i++)
			seconds += line.loops[i].share[s] / line.threads;
		timeline_row(&t, share_names[s], seconds);
	}
	for (enum stage s = 0; s < STAGE_LOOP; s++) {
		char name[96];
		(void)snprintf(name, sizeof name, "on one thread: %s", stage_names[s]);
		if (line.alone[s] > 0)
			timeline_row(&t, name, line.alone[s]);
	}
	table_end(&t);
}

static void timeline_report_loops(struct report *r)
{
	static const struct column columns[] = {
		{"stage", "loops of", -1},	{"loops", "loops", 1},
		{"pieces", "pieces", 1},	{"us", "µs", 1},
		{"in_piece", "in a piece", 1},	{"start", "start", 1},
		{"woken", "woken", 1},		{"between", "between", 1},
		{"tail", "tail", 1},		{"nothing", "nothing", 1},
		{"asleep", "asleep", 1},
	};
	struct table t;
	table_begin(&t, r, "timeline_loops",
		    "a token's loops: pieces and mean µs of each, and of these a thread's shares",
		    columns, sizeof columns / sizeof *columns);
	for (uint32_t i = 0; i < line.loops_count; i++) {
		const struct loops *l = &line.loops[i];
		double all = 0, each = 1e6 / ((double)l->count * line.threads);
		for (enum share s = 0; s < SHARES; s++)
			all += l->share[s];
		table_text(&t, stage_names[l->stage]);
		table_number(&t, (double)l->count / line.tokens);
		table_number(&t, (double)l->pieces / (double)l->count);
		table_number(&t, all * each);
		for (enum share s = 0; s < SHARES; s++)
			table_number(&t, l->share[s] * each);
	}
	table_end(&t);
}

void timeline_report(struct report *r)
{
	report_number(r, "timeline_us", "a token's time with its timeline kept, µs",
		      1e6 * line.seconds / line.tokens, 1);
	timeline_report_classes(r);
	timeline_report_loops(r);
}

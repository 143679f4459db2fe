#include "engine/memory/budgets.h"
#include "cache/io.h"

#include "cache/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#define MIB (UINT64_C(1) << 20)
#define SECOND UINT64_C(1000000000)

enum {
	LOOK_MS = 250, /* between two looks */
	SOON_MS = 50,  /* while free memory shrinks fast */
	REST_MS = 20,  /* least pause, also if there are many signals */
};
/* If no number is known. */
static const uint64_t unknown_bytes = 1024 * MIB;

static uint64_t budgets_lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t budgets_greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- the decision; all with the lock held ---- */

static uint64_t budgets_experts_take(const struct budgets *b)
{
	struct pager_stats s = {0};
	if (b->pager)
		pager_stats(b->pager, &s);
	return s.used;
}

static uint64_t budgets_needed(const struct budgets *b, enum need_state state)
{
	uint64_t bytes = 0;
	for (const struct budget_need *n = b->needs; n; n = n->next)
		if (n->state == state)
			bytes += n->bytes;
	return bytes;
}

static uint64_t budgets_least(const struct budgets *b)
{
	uint64_t bytes = 0;
	for (const struct budget_need *n = b->needs; n; n = n->next)
		bytes = budgets_greater(bytes, n->least);
	return bytes;
}

/* max(0, a + spare - promised). */
static uint64_t budgets_left_of(uint64_t a, const struct memory_room *room, uint64_t promised)
{
	int64_t bytes = (int64_t)a + room->spare - (int64_t)budgets_lesser(promised, INT64_MAX / 4);
	return bytes > 0 ? (uint64_t)bytes : 0;
}

/* Bytes reserved for the growth of contexts: at most half of the available memory. A context budget
 * above the available memory means that contexts are not limited. */
static uint64_t budgets_promised(const struct budgets *b, uint64_t used)
{
	uint64_t limit = atomic_load(&b->contexts->limit), held = atomic_load(&b->contexts->used);
	return limit > held ? budgets_lesser(limit - held, budgets_left_of(used, &b->room, 0) / 2)
			    : 0;
}

/* Rounds a budget down to whole MiB (small ones: to pages), so that it reads well. */
static uint64_t budgets_rounded(uint64_t bytes)
{
	uint64_t unit = bytes < 16 * MIB ? 4096 : MIB;
	return bytes / unit * unit;
}

/* The memory available for experts. beginning: bytes that will be allocated at once. */
static uint64_t budgets_available(const struct budgets *b, uint64_t beginning)
{
	uint64_t asked = atomic_load(&b->asked), used = budgets_experts_take(b),
		 promised = beginning;
	if (b->room.spare == MEMORY_UNKNOWN)
		return asked == BUDGET_AUTOMATIC ? unknown_bytes : asked;
	if (asked == BUDGET_AUTOMATIC)
		promised += budgets_promised(b, used) + budgets_needed(b, NEED_AHEAD);
	return budgets_rounded(budgets_left_of(used, &b->room, promised));
}

/* The budget to aim at. */
static uint64_t budgets_wanted(const struct budgets *b, uint64_t beginning)
{
	uint64_t asked = atomic_load(&b->asked), bytes = budgets_available(b, beginning);
	/* A model that is being loaded will still take some of the spare memory. */
	if (budgets_needed(b, NEED_COMING))
		bytes = budgets_lesser(bytes, b->in_force);
	return budgets_lesser(budgets_greater(bytes, budgets_least(b)), asked);
}

static int budgets_put_in_force(struct budgets *b, uint64_t bytes, struct err *e)
{
	int failed = b->pager ? pager_set_budget(b->pager, bytes, e) : 0;
	if (!failed)
		b->in_force = bytes;
	return failed;
}

/* Sets the budget at once. (The thread raises it slowly.) */
static int budgets_decide(struct budgets *b, uint64_t beginning, struct err *e)
{
	memory_look(&b->memory, &b->room);
	return budgets_put_in_force(b, budgets_wanted(b, beginning), e);
}

static void budgets_share_with_contexts(struct budgets *b)
{
	if (b->contexts_asked || budgets_needed(b, NEED_COMING))
		return;
	memory_look(&b->memory, &b->room);
	uint64_t held = atomic_load(&b->contexts->used), all = unknown_bytes;
	if (b->room.spare != MEMORY_UNKNOWN)
		all = budgets_left_of(budgets_experts_take(b) + held, &b->room,
				      budgets_needed(b, NEED_AHEAD));
	atomic_store(&b->contexts->limit,
		     budgets_greater(budgets_rounded(all / 8), budgets_greater(held, MIB)));
}

/* ---- requests and models ---- */

int budgets_ask(struct budgets *b, uint64_t bytes, struct err *e)
{
	pthread_mutex_lock(&b->lock);
	uint64_t before = atomic_exchange(&b->asked, bytes);
	int failed = budgets_decide(b, 0, e);
	if (failed)
		atomic_store(&b->asked, before);
	pthread_mutex_unlock(&b->lock);
	return failed;
}

/* The functions below cannot fail, since a budget with room for every model's `least` is never
 * refused. */

void budgets_ask_contexts(struct budgets *b, uint64_t bytes)
{
	pthread_mutex_lock(&b->lock);
	b->contexts_asked = bytes != BUDGET_AUTOMATIC;
	if (b->contexts_asked)
		atomic_store(&b->contexts->limit, bytes);
	budgets_share_with_contexts(b);
	(void)budgets_decide(b, 0, NULL);
	pthread_mutex_unlock(&b->lock);
}

static uint64_t budgets_at_start(const struct budget_need *n)
{
	return n->state == NEED_COMING ? n->bytes : 0;
}

void budgets_add(struct budgets *b, struct budget_need *n)
{
	pthread_mutex_lock(&b->lock);
	n->next = b->needs;
	b->needs = n;
	budgets_share_with_contexts(b);
	(void)budgets_decide(b, budgets_at_start(n), NULL);
	pthread_mutex_unlock(&b->lock);
}

void budgets_need(struct budgets *b, struct budget_need *n, enum need_state state)
{
	pthread_mutex_lock(&b->lock);
	n->state = state;
	budgets_share_with_contexts(b);
	(void)budgets_decide(b, budgets_at_start(n), NULL);
	pthread_mutex_unlock(&b->lock);
}

void budgets_remove(struct budgets *b, struct budget_need *n)
{
	pthread_mutex_lock(&b->lock);
	struct budget_need **link = &b->needs;
	while (*link && *link != n)
		link = &(*link)->next;
	if (*link) {
		*link = n->next;
		budgets_share_with_contexts(b);
		(void)budgets_decide(b, 0, NULL);
	}
	pthread_mutex_unlock(&b->lock);
}

uint64_t budgets_beside(struct budgets *b)
{
	pthread_mutex_lock(&b->lock);
	memory_look(&b->memory, &b->room);
	uint64_t bytes = budgets_available(b, 0);
	bytes = bytes > b->in_force ? bytes - b->in_force : 0;
	pthread_mutex_unlock(&b->lock);
	return bytes;
}

/* ---- watching ---- */

/* The next budget on the way to the wanted one. Changes below a quarter of the margin are ignored,
 * or the budget would change at every look. */
static uint64_t budgets_next_step(const struct budgets *b, uint64_t want, uint64_t now_ns)
{
	uint64_t slack = b->room.margin / 4;
	if (want < b->in_force)
		return b->in_force - want > slack ? want : b->in_force;
	uint64_t rise = want - b->in_force;
	if (now_ns < b->calm_ns || (rise <= slack && want != atomic_load(&b->asked)))
		return b->in_force;
	return b->in_force + budgets_lesser(rise, budgets_greater(budgets_rounded(rise / 16),
								  budgets_greater(slack, 4096)));
}

/* Called when the kernel signals that memory is short. If the numbers do not show this (an
 * invisible limit above, page cache that is in use), the budget is lowered a little each second. */
static uint64_t budgets_step_in_doubt(struct budgets *b, uint64_t next, uint64_t now_ns)
{
	if (next < b->in_force || now_ns < b->doubted_ns)
		return next;
	b->doubted_ns = now_ns + SECOND;
	b->calm_ns = now_ns + 10 * SECOND;
	uint64_t used = budgets_lesser(budgets_experts_take(b), b->in_force);
	uint64_t less = budgets_greater(b->room.margin / 4, used / 16);
	uint64_t floor = budgets_lesser(budgets_least(b), b->in_force);
	return used > less ? budgets_greater(budgets_rounded(used - less), floor) : floor;
}

bool budgets_look(struct budgets *b, enum pressure_signal signal, uint64_t now_ns)
{
	pthread_mutex_lock(&b->lock);
	int64_t before = b->room.spare;
	memory_look(&b->memory, &b->room);
	uint64_t next = budgets_next_step(b, budgets_wanted(b, 0), now_ns);
	if (signal == PRESSURE_SHORT)
		next = budgets_step_in_doubt(b, next, now_ns);
	if (next < b->in_force)
		b->calm_ns = budgets_greater(b->calm_ns, now_ns + 2 * SECOND);
	if (next != b->in_force)
		(void)budgets_put_in_force(b, next, NULL);
	bool falling = b->room.spare < before && before != MEMORY_UNKNOWN &&
		       before - b->room.spare > (int64_t)(b->room.margin / 8);
	pthread_mutex_unlock(&b->lock);
	return falling;
}

/* Subscribes to notifications for the process's current group and limits. */
static void budgets_subscribe(struct budgets *b, struct pressure *p, unsigned *changes)
{
	pthread_mutex_lock(&b->lock);
	if (*changes != b->memory.changes) {
		pressure_close(p);
		pressure_open(p, &b->memory);
		*changes = b->memory.changes;
	}
	pthread_mutex_unlock(&b->lock);
}

static void *budgets_watch_main(void *arg)
{
	struct budgets *b = arg;
	struct pressure p = {0};
	unsigned changes = 0; /* memory.changes is larger after the first look */
	bool falling = false;
	while (!atomic_load(&b->quit)) {
		budgets_subscribe(b, &p, &changes);
		enum pressure_signal s = pressure_wait(&p, b->wake, falling ? SOON_MS : LOOK_MS);
		falling = budgets_look(b, s, clock_ns());
		if (s != PRESSURE_NONE)
			(void)poll(&(struct pollfd){.fd = b->wake, .events = POLLIN}, 1, REST_MS);
	}
	pressure_close(&p);
	return NULL;
}

/* ---- the whole ---- */

int budgets_init(struct budgets *b, const char *root, uint64_t asked, uint64_t context_bytes,
		 struct context_budget *contexts, struct err *e)
{
	*b = (struct budgets){
		.contexts = contexts,
		.asked = asked,
		.contexts_asked = context_bytes != 0,
		.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
	};
	pthread_mutex_init(&b->lock, NULL);
	memory_init(&b->memory, root);
	if (b->wake < 0)
		return err_sys(e, errno, "cannot make an eventfd");
	atomic_store(&contexts->limit, context_bytes);
	budgets_share_with_contexts(b);
	return budgets_decide(b, 0, e);
}

void budgets_govern(struct budgets *b, struct pager *pager)
{
	pthread_mutex_lock(&b->lock);
	b->pager = pager;
	pthread_mutex_unlock(&b->lock);
}

int budgets_watch(struct budgets *b, struct err *e)
{
	int code = pthread_create(&b->thread, NULL, budgets_watch_main, b);
	b->watching = !code;
	return code ? err_sys(e, code, "cannot start the thread that watches memory") : 0;
}

void budgets_free(struct budgets *b)
{
	if (!b->contexts)
		return;
	if (b->watching) {
		atomic_store(&b->quit, true);
		(void)eventfd_write(b->wake, 1);
		pthread_join(b->thread, NULL);
	}
	io_close(b->wake);
	memory_free(&b->memory);
	pthread_mutex_destroy(&b->lock);
	*b = (struct budgets){0};
}

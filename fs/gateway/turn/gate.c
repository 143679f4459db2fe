/* Slots: a limit on turns at the same time, and a bounded queue for the others. See turn.h.
 *
 * A free slot goes to the waiting key with the fewest turns, and among its requests to the oldest,
 * so that many requests of one key do not starve another key. */
#include "fs/gateway/turn/client_wait.h"
#include "fs/gateway/turn/turn.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { KEYS = 256 };

struct gate_waiter { /* on its thread's stack */
	struct gate_waiter *next;
	size_t key;
	int event; /* an eventfd, written when the waiter gets a slot */
	bool in;
};

struct gate {
	pthread_mutex_t lock; /* guards the members below */
	unsigned most, active, queue, waiting;
	unsigned of_key[KEYS];
	struct gate_waiter *first; /* the oldest */
};

struct gate *gate_create(unsigned active, unsigned queue)
{
	struct gate *g = calloc(1, sizeof *g);
	if (!g)
		return NULL;
	pthread_mutex_init(&g->lock, NULL);
	g->most = active;
	g->queue = queue;
	return g;
}

void gate_free(struct gate *g)
{
	if (g)
		pthread_mutex_destroy(&g->lock);
	free(g);
}

static void gate_take(struct gate *g, size_t key)
{
	g->active++;
	g->of_key[key % KEYS]++;
}

/* Call with the lock. Gives a free slot to the next waiter. */
static void gate_admit(struct gate *g)
{
	struct gate_waiter **best = NULL;
	if (!g->first || g->active >= g->most)
		return;
	for (struct gate_waiter **w = &g->first; *w; w = &(*w)->next)
		if (!best || g->of_key[(*w)->key % KEYS] < g->of_key[(*best)->key % KEYS])
			best = w;
	struct gate_waiter *w = *best;
	*best = w->next;
	g->waiting--;
	gate_take(g, w->key);
	w->in = true;
	(void)eventfd_write(w->event, 1);
}

/* Call with the lock; it is released while waiting. */
static int gate_wait(struct gate *g, struct gate_waiter *me, int client)
{
	struct gate_waiter **last = &g->first;
	while (*last)
		last = &(*last)->next;
	*last = me;
	g->waiting++;
	pthread_mutex_unlock(&g->lock);
	int code = client_wait(client, &(struct pollfd){.fd = me->event, .events = POLLIN}, 1, -1);
	pthread_mutex_lock(&g->lock);
	if (code < 0 && me->in) { /* the client disconnected when it got its slot */
		g->active--;
		g->of_key[me->key % KEYS]--;
		gate_admit(g);
	} else if (code < 0) {
		struct gate_waiter **w = &g->first;
		while (*w != me)
			w = &(*w)->next;
		*w = me->next;
		g->waiting--;
	}
	return code < 0 ? code : 0;
}

int gate_enter(struct gate *g, size_t key, int client)
{
	int code = 0;
	pthread_mutex_lock(&g->lock);
	if (g->active < g->most && !g->first)
		gate_take(g, key);
	else if (g->waiting >= g->queue)
		code = -EBUSY;
	else {
		struct gate_waiter me = {.key = key, .event = eventfd(0, EFD_CLOEXEC)};
		code = me.event < 0 ? -EBUSY : gate_wait(g, &me, client);
		if (me.event >= 0)
			close(me.event);
	}
	pthread_mutex_unlock(&g->lock);
	return code;
}

void gate_leave(struct gate *g, size_t key)
{
	pthread_mutex_lock(&g->lock);
	g->active--;
	g->of_key[key % KEYS]--;
	gate_admit(g);
	pthread_mutex_unlock(&g->lock);
}

void gate_counts(struct gate *g, unsigned *active, unsigned *waiting)
{
	pthread_mutex_lock(&g->lock);
	*active = g->active;
	*waiting = g->waiting;
	pthread_mutex_unlock(&g->lock);
}

/* Slots for turns, and the queue for them. See gate.h. */
#include "fs/gateway/turn/gate.h"
#include "fs/gateway/turn/client.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { KEYS = 256 };

struct waiter { /* on its thread's stack */
	struct waiter *next;
	size_t key;
	int event; /* written when the slot is its own */
	bool in;
};

struct gate {
	pthread_mutex_t lock; /* of all below */
	unsigned most, active, queue, waiting;
	unsigned of_key[KEYS];
	struct waiter *first; /* the oldest */
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

static void take(struct gate *g, size_t key)
{
	g->active++;
	g->of_key[key % KEYS]++;
}

/* With the lock: gives a free slot to whoever is next. */
static void admit(struct gate *g)
{
	struct waiter **best = NULL;
	if (!g->first || g->active >= g->most)
		return;
	for (struct waiter **w = &g->first; *w; w = &(*w)->next)
		if (!best || g->of_key[(*w)->key % KEYS] < g->of_key[(*best)->key % KEYS])
			best = w;
	struct waiter *w = *best;
	*best = w->next;
	g->waiting--;
	take(g, w->key);
	w->in = true;
	(void)eventfd_write(w->event, 1);
}

static void forget(struct gate *g, struct waiter *gone)
{
	for (struct waiter **w = &g->first; *w; w = &(*w)->next)
		if (*w == gone) {
			*w = gone->next;
			g->waiting--;
			return;
		}
}

/* The lock is held, and still is at the end. */
static int queue_up(struct gate *g, struct waiter *me, int client)
{
	struct waiter **last = &g->first;
	while (*last)
		last = &(*last)->next;
	*last = me;
	g->waiting++;
	pthread_mutex_unlock(&g->lock);
	int code = client_wait(client, &(struct pollfd){.fd = me->event, .events = POLLIN}, 1, -1);
	pthread_mutex_lock(&g->lock);
	if (code < 0 && me->in) { /* both at once */
		g->active--;
		g->of_key[me->key % KEYS]--;
		admit(g);
	} else if (code < 0)
		forget(g, me);
	return code < 0 ? code : 0;
}

int gate_enter(struct gate *g, size_t key, int client)
{
	int code = 0;
	pthread_mutex_lock(&g->lock);
	if (g->active < g->most && !g->first)
		take(g, key);
	else if (g->waiting >= g->queue)
		code = -EBUSY;
	else {
		struct waiter me = {.key = key, .event = eventfd(0, EFD_CLOEXEC)};
		code = me.event < 0 ? -EBUSY : queue_up(g, &me, client);
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
	admit(g);
	pthread_mutex_unlock(&g->lock);
}

void gate_look(struct gate *g, unsigned *active, unsigned *waiting)
{
	pthread_mutex_lock(&g->lock);
	*active = g->active;
	*waiting = g->waiting;
	pthread_mutex_unlock(&g->lock);
}

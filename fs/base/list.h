/* Doubly linked lists through a member of the listed struct. Appending, removing and moving a whole
 * list are O(1) and cannot fail. A link that is on no list points at itself, so removing it twice
 * is harmless. */
#ifndef MOEFS_FS_BASE_LIST_H
#define MOEFS_FS_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct link {
	struct link *prev, *next;
};

/* The struct that has `link` as its member. */
#define LINK_OWNER(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void list_init(struct link *l)
{
	l->prev = l->next = l;
}

static inline bool list_empty(const struct link *head)
{
	return head->next == head;
}

static inline void list_remove(struct link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

static inline void list_append(struct link *head, struct link *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

/* Moves everything on `from` to the end of `to`. */
static inline void list_move_all(struct link *to, struct link *from)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#endif

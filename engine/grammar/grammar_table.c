#include "engine/grammar/grammar_table.h"

#include <stdbool.h>
#include <stdlib.h>

static uint32_t place_of(const struct triple_table *t, struct triple k)
{
	uint64_t z = k.a * 0x9e3779b97f4a7c15u + k.b * 0xbf58476d1ce4e5b9u + k.c;
	z = (z ^ z >> 29) * 0x94d049bb133111ebu;
	return (uint32_t)(z >> 32) & (t->room - 1);
}

static bool same(struct triple one, struct triple other)
{
	return one.a == other.a && one.b == other.b && one.c == other.c;
}

static struct triple_slot *slot_of(const struct triple_table *t, struct triple key)
{
	uint32_t i = place_of(t, key);
	while (t->slots[i].value != TRIPLE_NEW && !same(t->slots[i].key, key))
		i = (i + 1) & (t->room - 1);
	return &t->slots[i];
}

static bool grow(struct triple_table *t)
{
	struct triple_table wider = {.room = t->room ? 2 * t->room : 64, .count = t->count};
	wider.slots = malloc(wider.room * sizeof *wider.slots);
	if (!wider.slots)
		return false;
	for (uint32_t i = 0; i < wider.room; i++)
		wider.slots[i].value = TRIPLE_NEW;
	for (uint32_t i = 0; i < t->room; i++)
		if (t->slots[i].value != TRIPLE_NEW)
			*slot_of(&wider, t->slots[i].key) = t->slots[i];
	free(t->slots);
	*t = wider;
	return true;
}

/* A key that nobody gave a value may have left its slot free: it is counted all the same. */
uint32_t *triple_find(struct triple_table *t, struct triple key)
{
	if (2 * t->count >= t->room && !grow(t))
		return NULL;
	struct triple_slot *slot = slot_of(t, key);
	if (slot->value == TRIPLE_NEW) {
		slot->key = key;
		t->count++;
	}
	return &slot->value;
}

void triple_free(struct triple_table *t)
{
	free(t->slots);
	*t = (struct triple_table){0};
}

void *grown(void *array, size_t count, uint32_t *room, size_t size)
{
	if (count < *room)
		return array;
	uint32_t more = *room ? 2 * *room : 64;
	void *moved = realloc(array, more * size);
	if (moved)
		*room = more;
	return moved;
}

/* Numbers by three numbers: what a grammar keeps only once (expressions, places, stacks). */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_TABLE_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct triple {
	uint32_t a, b, c;
};
struct triple_slot {
	struct triple key;
	uint32_t value; /* TRIPLE_NEW: the slot is free */
};
struct triple_table { /* zero-initialise */
	struct triple_slot *slots;
	uint32_t room, count; /* room: a power of two */
};
#define TRIPLE_NEW UINT32_MAX

/* Where the value of a key lies, until the next call; TRIPLE_NEW in one that was not there, which
 * the caller fills in. NULL: memory is out. */
uint32_t *triple_find(struct triple_table *t, struct triple key);
void triple_free(struct triple_table *t);

/* Room for one more item of `size` bytes in an array of `count`, which doubles; NULL: memory is
 * out, and the array is as it was. */
void *grown(void *array, size_t count, uint32_t *room, size_t size);

#endif

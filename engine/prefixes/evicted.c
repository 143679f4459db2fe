/* Hashes of evicted texts. See evicted.h. */
#include "engine/prefixes/evicted.h"

#include <xxhash.h>

static uint64_t evicted_hash_of(const struct token_list *ids, size_t positions)
{
	return XXH3_64bits(ids->ids, positions * sizeof *ids->ids);
}

static void evicted_add(struct evicted *v, uint64_t key, const struct token_list *ids,
			size_t positions)
{
	v->hashes[v->next] = (struct evicted_hash){key, evicted_hash_of(ids, positions), positions};
	v->next = (v->next + 1) % EVICTED_MOST;
}

void evicted_note(struct evicted *v, uint64_t key, const struct token_list *ids, bool parts)
{
	enum { LEAST = 16 };
	for (size_t n = LEAST; parts && n < ids->count; n *= 2)
		evicted_add(v, key, ids, n);
	evicted_add(v, key, ids, ids->count);
}

size_t evicted_find(const struct evicted *v, uint64_t key, const struct token_list *ids,
		    size_t least)
{
	size_t found = 0;
	for (uint32_t i = 0; i < EVICTED_MOST; i++) {
		const struct evicted_hash *h = &v->hashes[i];
		size_t more = found > least ? found : least;
		if (h->key == key && h->positions > more && h->positions <= ids->count &&
		    h->hash == evicted_hash_of(ids, h->positions))
			found = h->positions;
	}
	return found;
}

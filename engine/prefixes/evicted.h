/* Texts whose memory was needed: so that `why` can tell a text that was kept once from a new one.
 *
 * Of each text that is given up there are hashes of its first 16, 32, 64 … tokens and of all of
 * them, without the text. The oldest hashes are overwritten. */
#ifndef MOEFS_ENGINE_PREFIXES_EVICTED_H
#define MOEFS_ENGINE_PREFIXES_EVICTED_H

#include "engine/tokenizer/token.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EVICTED_MOST = 1024 };

struct evicted {
	struct evicted_hash {
		uint64_t key; /* hash of who shares the text, and what computed it */
		uint64_t hash;
		size_t positions; /* 0: none */
	} hashes[EVICTED_MOST];
	uint32_t next;
};

/* Notes that a text of at least one token was given up. parts: also how it began; else only the
 * whole text could have been of use. */
void evicted_note(struct evicted *v, uint64_t key, const struct token_list *ids, bool parts);
/* How many of the first ids begin such a text; 0 if it is not more than `least`. */
size_t evicted_find(const struct evicted *v, uint64_t key, const struct token_list *ids,
		    size_t least);

#endif

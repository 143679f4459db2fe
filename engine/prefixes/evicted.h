/* Remembers texts that were evicted, so that the file `why` can tell an evicted text from a new
 * one.
 *
 * Stores no texts, only hashes: of the first 16, 32, 64 … tokens of each evicted text, and of the
 * whole text. The oldest hashes are overwritten. */
#ifndef MOEFS_ENGINE_PREFIXES_EVICTED_H
#define MOEFS_ENGINE_PREFIXES_EVICTED_H

#include "engine/tokenizer/token.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EVICTED_MOST = 1024 };

struct evicted {
	struct evicted_hash {
		uint64_t key; /* hash of the owner and of how the text was computed */
		uint64_t hash;
		size_t positions; /* 0: none */
	} hashes[EVICTED_MOST];
	uint32_t next;
};

/* Notes that a text of at least one token was evicted. parts: also hash its beginnings; else only
 * the whole text could have been reused. */
void evicted_note(struct evicted *v, uint64_t key, const struct token_list *ids, bool parts);
/* How many of the first ids are the beginning of an evicted text; 0 if not more than `least`. */
size_t evicted_find(const struct evicted *v, uint64_t key, const struct token_list *ids,
		    size_t least);

#endif

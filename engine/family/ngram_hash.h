/* Which rows of a table of n-grams a token has (Qwen 4): one for each head and each n from 2 on, by
 * a hash of the token and the n - 1 before it.
 *
 * All constants follow from the config (GGUF files have them as keys): a multiplier for each token of an n-gram, and for each head
 * a prime, which is how many rows it has; heads lie one after the other. Checkpoints hold the same
 * constants as tensors; sources.c compares them. */
#ifndef MOEFS_ENGINE_FAMILY_NGRAM_HASH_H
#define MOEFS_ENGINE_FAMILY_NGRAM_HASH_H

#include <stdbool.h>
#include <stdint.h>

enum {
	NGRAM_TABLES = 8,	   /* most layers with a table */
	NGRAM_SIZE = 8,		   /* longest n-gram */
	NGRAM_ROWS = 64,	   /* rows of a token in a table */
	NGRAM_BASE_MOST = 1 << 30, /* from which primes are looked for */
};

/* What a config says. */
struct ngram_sizes {
	uint32_t vocabulary;
	uint32_t size;	/* n of the longest n-grams; the shortest are of 2 */
	uint32_t heads; /* rows of a table for each n */
	uint64_t base, seed;
	uint32_t divisor; /* a table's rows are a multiple of this */
	uint32_t end;	  /* the token beyond which nobody looks back */
};

struct ngram_hash {
	uint32_t size, heads; /* as in the config */
	uint32_t rows;	      /* of a token: heads · (size - 1), those of 2-grams first */
	uint64_t end;	      /* the token beyond which nobody looks back */
	uint64_t multiplier[NGRAM_SIZE];
	uint64_t prime[NGRAM_ROWS], offset[NGRAM_ROWS];
	uint64_t table_rows; /* in all, with those that only fill up */
};

/* The constants of table number `table`. All sizes are at least 1 and within the bounds above. */
void ngram_hash_make(struct ngram_hash *h, const struct ngram_sizes *n, uint32_t table);
/* The same with constants as a file has them: multiplier[n->size], prime[(n->size - 1) · n->heads], and
 * how many rows the table has, at least the sum of the primes. */
void ngram_hash_set(struct ngram_hash *h, const struct ngram_sizes *n, const uint64_t *multiplier,
		    const uint64_t *prime, uint64_t table_rows);
/* rows[h->rows] of a token. before: the tokens before, the last one first, as many as there are or
 * size - 1. Before the beginning of the text, and from an earlier end token on, all count as that. */
void ngram_hash_rows(const struct ngram_hash *h, uint32_t token, const uint32_t *before,
		     uint32_t count, uint64_t *rows);

#endif
